"""Members of KIP-848 groups: the coordinator says what each is to have, and waits for one to let go before another may
take.

A member gives up a partition as soon as it hears that it is to go, and says so with its next heartbeat. It counts as
the owner no longer than a session after the last heartbeat that was answered.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode
from headwater.sim.clients.client import Ask, Script, Steps
from headwater.sim.clients.coordinated import GROUP
from headwater.sim.clients.members import GroupClient
from headwater.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from headwater.sim.coordinated import CoordinatedStage

_SESSION_MS: Final = 1500  # group.consumer.session.timeout.ms of the world
# Some sessions, as with real consumers: who is silent is out of the group by then. A coordinator counts from when it
# told the member, or from when it was loaded, as Apache Kafka's does; who has not heard it (the answer was lost, then
# the coordinator) would be put out in the middle of a session otherwise, and Kafka promises no more.
_REBALANCE_MS: Final = 6000
FIRST_KNOWING_GROUPS: Final = 9  # of OffsetCommit: older ones cannot name a stale epoch
_JOINS: Final = 0
_LEAVES: Final = -1
OUT: Final = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH)


class ConsumerMember(GroupClient):
    out: tuple[ErrorCode, ...] = OUT  # it has to begin as a new member

    def __init__(self, world: "CoordinatedStage", name: str, group: str) -> None:
        super().__init__(world, name, group)
        self._lives = 0
        self._tells_all = True

    def script(self) -> Script:
        yield from self.topics_made()
        yield from self.find(self.group, GROUP)
        self._begin()
        while not self.is_stopping:
            todo = self.random.random()
            if todo < 0.02:
                yield from self._leave()
            elif todo < 0.25 and self.owned and self.generation > 0:
                yield from self.commit(FIRST_KNOWING_GROUPS)
            elif todo < 0.35:
                yield from self.look()
            else:
                yield from self.heartbeat()
            yield self.random.choice((20, 100, 250, 250, 250, 2000))

    def _begin(self) -> None:
        """As a new member."""
        self.world.groups.release(self.group, self.name, set())
        self._lives += 1
        self.member_id = f"{self.name}-{self._lives}"
        self.generation = _JOINS
        self.owned = []
        self._tells_all = True

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        topic, _ = self.world.inputs()[0]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=self.generation, topic_partitions=None
        )
        if self._tells_all:
            request.rebalance_timeout_ms = _REBALANCE_MS
            request.subscribed_topic_names = [topic.name]
        owned = [TopicPartitions(topic_id=topic.topic_id, partitions=sorted(self.owned))] if self.owned else []
        request.topic_partitions = owned
        return request

    def heartbeat(self) -> Steps:
        request = self._request()
        sent_ms = self.world.clock.monotonic_ms()
        (answer,) = yield [Ask(request, 1)]
        if answer is None:
            self._tells_all = True
            return
        if answer.error_code in self.out:
            self._begin()
        elif answer.error_code:
            self.must_pass(answer.error_code)
            self._tells_all = True
        else:
            self._take(answer, sent_ms)

    def _take(self, answer: ConsumerGroupHeartbeatResponse, sent_ms: int) -> None:
        self._tells_all = False
        self.generation = answer.member_epoch
        if answer.assignment is not None:
            self.owned = [index for topic in answer.assignment.topic_partitions for index in topic.partitions]
        self.claim(sent_ms)

    def claim(self, sent_ms: int) -> None:
        """What it was told by an answer to a heartbeat of then."""
        now_ms = self.world.clock.monotonic_ms()
        self.world.groups.claim(self.group, self.name, set(self.owned), sent_ms + _SESSION_MS, now_ms)

    def _leave(self) -> Steps:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group, member_id=self.member_id, member_epoch=_LEAVES, topic_partitions=None
        )
        self.world.groups.release(self.group, self.name, set())
        yield [Ask(request, 1)]
        self._begin()
