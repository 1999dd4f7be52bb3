"""Members of classic groups: they join, get their partitions, commit, and now and then fall silent, leave, or come back
too late.

A member goes on with the generation that it knows, also when that is long over, and now and then a request of the
generation before is so late that the next has begun: all of these must be refused.
"""

from struct import Struct
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode
from headwater.sim.clients.client import Ask, Script, Steps
from headwater.sim.clients.coordinated import GROUP, CoordinatedClient
from headwater.sim.groups import Commit
from headwater.sim.trace import Violation
from headwater.wire.messages.heartbeat import HeartbeatRequest
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headwater.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from headwater.sim.coordinated import CoordinatedStage

SESSION_MS: Final = 500
REBALANCE_MS: Final = 700
_PARTITIONS: Final = Struct(">i")
_REFUSED: Final = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
_FIRST_KNOWING_GROUPS: Final = 9  # of OffsetCommit


class GroupClient(CoordinatedClient):
    """What members of both protocols do."""

    def __init__(self, world: "CoordinatedStage", name: str, group: str) -> None:
        super().__init__(world, name)
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.owned: list[int] = []

    def commit(self, first_version: int = 2) -> Steps:
        """The error code; None without an answer."""
        groups = self.world.groups
        index = self.random.choice(self.owned)
        topic, _ = self.world.inputs()[
            0
        ]  # all are of one topic, and this one may be so new that only the coordinator knows it
        commit: Commit = groups.commit(self.group, index, self.name)
        part = OffsetCommitRequestPartition(
            partition_index=index, committed_offset=commit.offset, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=[part])],
        )
        is_over = groups.generation(self.group) > self.generation
        (answer,) = yield [Ask(request, self.version(request.KEY, first_version))]
        if answer is None:
            groups.settle(commit, is_applied=None)
            return None
        code = answer.topics[0].partitions[0].error_code
        if code == 0:
            groups.settle(commit, is_applied=True)
            self.world.must_be_replicated(commit.offset)
            if is_over:
                raise Violation(
                    f"I14: {self.name} has committed in generation {self.generation} of {self.group}, which was over"
                )
        else:
            groups.settle(commit, is_applied=False if code in _REFUSED else None)
            if code not in _REFUSED:
                self.must_pass(code)
        return code

    def look(self) -> Steps:
        """What is committed, of any partition."""
        topic, index = self.random.choice(self.world.inputs())
        asked_at = self.world.groups.now()
        offset = yield from self.committed(self.group, topic, index)
        if offset is not None:
            self.world.groups.fetched(self.group, index, offset, asked_at)


class ClassicMember(GroupClient):
    def script(self) -> Script:
        yield from self.topics_made()
        yield from self.find(self.group, GROUP)
        while not self.is_stopping:
            before = self.member_id, self.generation
            if (yield from self._join()):
                if before[0] == self.member_id and before[1] >= 0 and self.random.random() < 0.4:
                    yield from self._come_late(before[1])
                yield from self._work()
            yield self.random.choice((0, 10, 100))

    # Into the group

    def _join(self) -> Steps:
        """Whether it is in, with an assignment."""
        subscription = (
            b"\0\0\0\0\0\0" + b"\xff\xff\xff\xff"
        )  # to no topic: who gets what is decided by the leader alone
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        return (yield from self.join_with(request))

    def join_with(self, request: JoinGroupRequest) -> Steps:
        (answer,) = yield [Ask(request, self.version(request.KEY))]
        if answer is None:
            return False
        code = answer.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
        elif code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        elif code and code != ErrorCode.REBALANCE_IN_PROGRESS:
            self.must_pass(code)
        if code:
            return False
        self.member_id, self.generation = answer.member_id, answer.generation_id
        return (yield from self._sync(answer))

    def _sync(self, joined: JoinGroupResponse) -> Steps:
        count = len(self.world.inputs())
        assignments = []
        if joined.leader == self.member_id:
            members = [member.member_id for member in joined.members]
            shares: dict[str, list[int]] = {member: [] for member in members}
            for index in range(count):
                shares[members[(index + joined.generation_id) % len(members)]].append(index)
            assignments = [
                SyncGroupRequestAssignment(member_id=member, assignment=b"".join(map(_PARTITIONS.pack, share)))
                for member, share in shares.items()
            ]
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        (answer,) = yield [Ask(request, self.version(request.KEY))]
        if answer is None:
            return False
        if answer.error_code:
            self._refused(answer.error_code)
            return False
        self.owned = [index for (index,) in _PARTITIONS.iter_unpack(answer.assignment)]
        self.world.groups.synced(self.group, self.generation, self.name, self.owned)
        return True

    # In the group

    def _work(self) -> Steps:
        for _ in range(self.random.randint(2, 12)):
            code: int | None = 0
            if self.is_stopping:
                break
            if self.owned and self.random.random() < 0.5:
                code = yield from self.commit()
            elif self.random.random() < 0.4:
                yield from self.look()
            else:
                code = yield from self._heartbeat()
            if code:
                self._refused(code)
                if self.random.random() < 0.5:  # goes on all the same with what it has, as a zombie would
                    return
            yield self.random.choice((0, 20, 100, 200, 2000))
        if self.random.random() < 0.3:
            yield from self._leave()

    def _come_late(self, generation: int) -> Steps:
        """Requests that were sent in a generation before, by the same member."""
        self.generation, present = generation, self.generation
        if self.owned:
            yield from self.commit()
        yield from self._heartbeat()
        self.generation = present

    def _heartbeat(self) -> Steps:
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        is_over = self.world.groups.generation(self.group) > self.generation and not self.world.may_be_stale
        (answer,) = yield [Ask(request, self.version(request.KEY))]
        if answer is not None and answer.error_code == 0 and is_over:
            raise Violation(
                f"I14: {self.name} lives on in generation {self.generation} of {self.group}, which was over"
            )
        return None if answer is None else answer.error_code

    def _leave(self) -> Steps:
        request = LeaveGroupRequest(
            group_id=self.group, member_id=self.member_id, members=[MemberIdentity(member_id=self.member_id)]
        )
        (answer,) = yield [Ask(request, self.version(request.KEY))]
        if answer is not None:
            code = answer.error_code or (answer.members[0].error_code if answer.members else 0)
            if code:
                self._refused(code)

    def _refused(self, code: int) -> None:
        if code not in _REFUSED:
            self.must_pass(code)
