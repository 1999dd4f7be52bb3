"""What clients of coordinators share: finding them, knowing which errors pass, asking for committed offsets."""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode
from headwater.sim.catalog import Topic
from headwater.sim.clients.client import Ask, SimClient, Steps
from headwater.sim.trace import Violation
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

if TYPE_CHECKING:
    from headwater.sim.coordinated import CoordinatedStage

GROUP: Final = 0
TRANSACTION: Final = 1
MAY_PASS: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_FIRST_BATCHED: Final = 4  # of FindCoordinator
_FIRST_STABLE: Final = 7  # of OffsetFetch
_FIRST_GROUPS: Final = 8
_FIRST_BY_ID: Final = 10


class CoordinatedClient(SimClient):
    world: "CoordinatedStage"

    def find(self, key: str, key_type: int) -> Steps:
        """Until there is a coordinator: the first question makes its topic."""
        while True:
            version = self.version(FindCoordinatorRequest.KEY, 1)
            if version < _FIRST_BATCHED:
                request = FindCoordinatorRequest(key=key, key_type=key_type)
            else:
                request = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
            (answer,) = yield [Ask(request, version)]
            if answer is not None:
                code = answer.error_code if version < _FIRST_BATCHED else answer.coordinators[0].error_code
                if code == 0:
                    return
                self.must_pass(code)
            yield self.random.randint(20, 200)

    def must_pass(self, code: int) -> None:
        if code not in MAY_PASS:
            raise Violation(f"{self.name} got {ErrorCode(code).name}")

    def topics_made(self) -> Steps:
        """Until the topics of the world are there."""
        while not self.world.is_set_up:
            yield self.random.randint(5, 50)

    def committed(self, group: str, topic: Topic, index: int) -> Steps:
        """The committed offset (-1 for none) once it is stable; None without an answer."""
        version = self.version(OffsetFetchRequest.KEY, _FIRST_STABLE)
        request = OffsetFetchRequest(require_stable=True)
        if version < _FIRST_GROUPS:
            request.group_id = group
            request.topics = [OffsetFetchRequestTopic(name=topic.name, partition_indexes=[index])]
        else:
            wanted = OffsetFetchRequestTopics(partition_indexes=[index], name=topic.name, topic_id=topic.topic_id)
            request.groups = [OffsetFetchRequestGroup(group_id=group, topics=[wanted])]
        (answer,) = yield [Ask(request, version)]
        if answer is None:
            return None
        told = answer if version < _FIRST_GROUPS else answer.groups[0]
        code = told.error_code or told.topics[0].partitions[0].error_code
        if code:
            if code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
                self.must_pass(code)
            return None
        return told.topics[0].partitions[0].committed_offset
