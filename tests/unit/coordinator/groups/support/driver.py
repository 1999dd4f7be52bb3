"""A GroupShard with a clock, timers and a log around it: what the runtime does, at once and without a broker."""

from collections.abc import Mapping
from typing import Any

from headwater.base.errors import ErrorCode
from headwater.coordinator.effects import CoordinatorRecord, Effects, Producer, Ticket, TimerKey
from headwater.coordinator.groups.context import GroupContext, GroupSettings
from headwater.coordinator.groups.shard import GroupShard
from headwater.sim.scheduler import SimRandom
from headwater.wire.messages.heartbeat import HeartbeatRequest
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headwater.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headwater.wire.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from headwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

GROUP = "readers"


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


class FakeTopics:
    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = dict(counts)
        self.ids = {name: topic_id(number + 1) for number, name in enumerate(counts)}
        self.names = {id_: name for name, id_ in self.ids.items()}
        self.version = 1

    def partition_count(self, topic: str) -> int | None:
        return self.counts.get(topic)


def subscription(*topics: str) -> bytes:
    """The metadata of the consumer protocol, version 0, without user data."""
    out = (0).to_bytes(2, "big") + len(topics).to_bytes(4, "big")
    for topic in topics:
        out += len(topic).to_bytes(2, "big") + topic.encode()
    return out + (-1).to_bytes(4, "big", signed=True)


class Call(Ticket):
    """A request under way; `response` is None as long as it waits."""

    __slots__ = ("response",)

    def __init__(self) -> None:
        super().__init__(None)
        self.response: Any = None

    @property
    def code(self) -> int:
        assert self.response is not None, "no answer yet"
        return int(self.response.error_code)


class World:
    def __init__(self, settings: GroupSettings | None = None, topics: FakeTopics | None = None, seed: int = 1) -> None:
        self.settings = settings or GroupSettings()
        self.topics = topics or FakeTopics({"orders": 4, "clicks": 2})
        self.now_ms = 1_000_000
        self.log: list[tuple[CoordinatorRecord, Producer | None] | tuple[Producer, bool]] = []
        self.timers: dict[TimerKey, int] = {}
        self.random = SimRandom(seed)
        self.shard = GroupShard(self.settings, self.random, self.topics)
        self._loaded()

    # The runtime

    def _loaded(self) -> None:
        self.run(Effects(timers=dict(self.shard.timers_found())))
        self.run(self.shard.loaded(self.now_ms))

    def run(self, effects: Effects) -> Effects:
        self.log += [(record, effects.producer) for record in effects.records]
        for ticket, response in effects.replies:
            assert isinstance(ticket, Call)
            assert ticket.response is None, "answered twice"
            ticket.response = response
        for key, delay_ms in effects.timers.items():
            if delay_ms is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = self.now_ms + delay_ms
        return effects

    def advance(self, delta_ms: int) -> None:
        end_ms = self.now_ms + delta_ms
        while True:
            due = min(((at_ms, str(key), key) for key, at_ms in self.timers.items() if at_ms <= end_ms), default=None)
            if due is None:
                break
            self.now_ms = max(self.now_ms, due[0])
            del self.timers[due[2]]
            self.run(self.shard.on_timer(due[2], self.now_ms))
        self.now_ms = end_ms

    def replayed(self) -> GroupShard:
        """A fresh shard, fed with all that was written."""
        shard = GroupShard(self.settings, self.random, self.topics)
        for entry in self.log:
            if isinstance(entry[0], CoordinatorRecord):
                shard.replay(entry[0], entry[1])  # type: ignore[arg-type]
            else:
                shard.replay_marker(entry[0], committed=bool(entry[1]))
        return shard

    def reload(self) -> None:
        """As after a failed append: all who wait hear of it, and the state is what the log says."""
        for ticket, make in self.shard.parked():
            self.run(Effects(replies=[(ticket, make(ErrorCode.NOT_COORDINATOR))]))
        self.shard = self.replayed()
        self.timers.clear()
        self._loaded()

    # Requests

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 3,
        instance_id: str | None = None,
        session_ms: int = 10_000,
        rebalance_ms: int = 30_000,
        protocols: Mapping[str, bytes] | None = None,
        protocol_type: str = "consumer",
        group_id: str = GROUP,
        client_id: str = "client",
    ) -> Call:
        if protocols is None:
            protocols = {"range": subscription("orders")}
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()],
        )
        call = Call()
        self.run(self.shard.join_group(GroupContext(version, client_id, "/127.0.0.1"), request, call, self.now_ms))
        return call

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: Mapping[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        version: int = 5,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        group_id: str = GROUP,
    ) -> Call:
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=key, assignment=value)
                for key, value in (assignments or {}).items()
            ],
        )
        call = Call()
        self.run(self.shard.sync_group(GroupContext(version), request, call, self.now_ms))
        return call

    def heartbeat(
        self, member_id: str, generation: int, *, instance_id: str | None = None, group_id: str = GROUP
    ) -> int:
        request = HeartbeatRequest(
            group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        call = Call()
        self.run(self.shard.heartbeat(GroupContext(4), request, call, self.now_ms))
        return call.code

    def leave(
        self, *member_ids: str, version: int = 3, group_id: str = GROUP, instance_ids: tuple[str, ...] = ()
    ) -> Any:
        members = [MemberIdentity(member_id=member_id) for member_id in member_ids]
        members += [MemberIdentity(group_instance_id=instance_id) for instance_id in instance_ids]
        request = LeaveGroupRequest(group_id=group_id, members=members if version >= 3 else [])
        if version < 3:
            request.member_id = member_ids[0]
        call = Call()
        self.run(self.shard.leave_group(GroupContext(version), request, call, self.now_ms))
        return call.response

    def commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        *,
        member_id: str = "",
        generation: int = -1,
        version: int = 9,
        metadata: str | None = "",
        retention_ms: int = -1,
        group_id: str = GROUP,
        instance_id: str | None = None,
        leader_epoch: int = -1,
    ) -> dict[tuple[str, int], int]:
        """The error code of each partition."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, partition), offset in offsets.items():
            topic = topics.setdefault(name, OffsetCommitRequestTopic())
            if version >= 10:
                topic.topic_id = self.topics.ids.get(name, b"?" * 16)
            else:
                topic.name = name
            topic.partitions.append(
                OffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset,
                    committed_leader_epoch=leader_epoch,
                    committed_metadata=metadata,
                )
            )
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_ms,
            topics=list(topics.values()),
        )
        is_plain = group_id in self.shard.state.groups and len(topics) == 1 and retention_ms < 0
        is_admitted = is_plain and self.admits(request, version)
        call = Call()
        self.run(self.shard.offset_commit(GroupContext(version), request, call, self.now_ms))
        codes = {
            (name, part.partition_index): part.error_code
            for name, topic in zip(topics, call.response.topics, strict=True)
            for part in topic.partitions
        }
        # What is too large is admitted, and then not written.
        is_refused = any(code not in (ErrorCode.NONE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE) for code in codes.values())
        assert is_admitted == (is_plain and not is_refused), "the hot path has other rules"
        return codes

    def admits(self, request: OffsetCommitRequest, version: int) -> bool:
        """Whether the hot path would take this commit to one topic."""
        (topic,) = request.topics
        parts = [
            (part.partition_index, part.committed_offset, part.committed_leader_epoch, part.committed_metadata or "")
            for part in topic.partitions
        ]
        who = (request.generation_id_or_member_epoch, request.member_id, request.group_instance_id)
        named = topic.topic_id if version >= 10 else topic.name
        return self.shard.plain_commits.admit(version, request.group_id, *who, named, parts) is not None

    def txn_commit(
        self,
        offsets: Mapping[tuple[str, int], int],
        producer: Producer,
        *,
        member_id: str = "",
        generation: int = -1,
        group_id: str = GROUP,
    ) -> list[int]:
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=group_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)],
                )
                for (name, partition), offset in offsets.items()
            ],
        )
        call = Call()
        self.run(self.shard.txn_offset_commit(GroupContext(5), request, call, self.now_ms))
        return [part.error_code for topic in call.response.topics for part in topic.partitions]

    def end(self, producer: Producer, *, committed: bool) -> None:
        self.log.append((producer, committed))
        self.run(self.shard.end_transaction(producer, committed=committed))

    def fetch(
        self,
        partitions: list[tuple[str, int]] | None = None,
        *,
        version: int = 9,
        group_id: str = GROUP,
        require_stable: bool = False,
    ) -> Any:
        request = OffsetFetchRequestGroup(group_id=group_id, topics=None)
        if partitions is not None:
            request.topics = [
                OffsetFetchRequestTopics(
                    name="" if version >= 10 else name,
                    topic_id=self.topics.ids.get(name, b"?" * 16) if version >= 10 else bytes(16),
                    partition_indexes=[partition],
                )
                for name, partition in partitions
            ]
        call = Call()
        self.run(
            self.shard.offset_fetch(GroupContext(version), request, call, self.now_ms, require_stable=require_stable)
        )
        return call.response

    def offsets(self, group_id: str = GROUP) -> dict[tuple[str, int], int]:
        """Everything that is committed."""
        return {
            (topic.name, part.partition_index): part.committed_offset
            for topic in self.fetch(group_id=group_id).topics
            for part in topic.partitions
        }

    # Short ways

    def describe(self, group_id: str = GROUP, version: int = 6) -> Any:
        call = Call()
        self.run(self.shard.describe_group(GroupContext(version), group_id, call))
        return call.response

    def state(self, group_id: str = GROUP) -> str:
        return str(self.describe(group_id, version=5).group_state)

    def delete(self, group_id: str = GROUP) -> int:
        call = Call()
        self.run(self.shard.delete_group(GroupContext(2), group_id, call, self.now_ms))
        return call.code

    def stable_group(self, size: int = 2, **options: Any) -> tuple[list[str], int]:
        """Member ids, the leader first, and the generation."""
        calls = [self.join(**options) for _ in range(size)]
        while calls[0].response is None:
            self.advance(self.settings.initial_rebalance_delay_ms)
        generation = calls[0].response.generation_id
        members = [call.response.member_id for call in calls]
        assert calls[0].response.leader == members[0]
        followers = [self.sync(member, generation) for member in members[1:]]
        leader = self.sync(members[0], generation, {member: b"to " + member.encode() for member in members})
        assert all(call.code == 0 for call in (leader, *followers))
        return members, generation
