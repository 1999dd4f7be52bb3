"""Both engines of a shard over a simulated clock: requests in, answers out, records kept, timers fired. For tests of
consumer groups.
"""

from typing import Any

from headwater.coordinator.effects import CoordinatorRecord, Effects, Ticket, TimerKey
from headwater.coordinator.groups.classic.classic_groups import ClassicGroups
from headwater.coordinator.groups.classic.group import ClassicGroup
from headwater.coordinator.groups.consumer import embedded
from headwater.coordinator.groups.consumer.consumer_groups import ConsumerGroups
from headwater.coordinator.groups.consumer.group import ConsumerGroup
from headwater.coordinator.groups.context import GroupContext, GroupSettings, ShardState
from headwater.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from headwater.wire.messages.heartbeat import HeartbeatRequest
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headwater.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headwater.wire.messages.sync_group import SyncGroupRequest


def topic_id(name: str) -> bytes:
    return name.encode().rjust(16, b"\0")


class FakeTopics:
    def __init__(self, counts: dict[str, int], version: int = 1) -> None:
        self.counts = counts
        self.version = version
        self.ids = {name: topic_id(name) for name in counts}
        self.names = {id_: name for name, id_ in self.ids.items()}

    def partition_count(self, topic: str) -> int | None:
        return self.counts.get(topic)


class CountingRandom:
    def __init__(self) -> None:
        self._next = 0

    def bytes(self, count: int) -> bytes:
        self._next += 1
        return self._next.to_bytes(count, "big")

    def below(self, limit: int) -> int:
        return 0


def subscription(topics: list[str], owned: list[tuple[str, int]] | None = None, version: int = 1) -> bytes:
    """The join metadata of a classic consumer."""
    data = version.to_bytes(2, "big") + len(topics).to_bytes(4, "big")
    for name in topics:
        data += len(name).to_bytes(2, "big") + name.encode()
    data += b"\xff\xff\xff\xff"
    by_name: dict[str, list[int]] = {}
    for name, partition in owned or []:
        by_name.setdefault(name, []).append(partition)
    data += len(by_name).to_bytes(4, "big")
    for name, partitions in by_name.items():
        data += len(name).to_bytes(2, "big") + name.encode() + len(partitions).to_bytes(4, "big")
        data += b"".join(partition.to_bytes(4, "big") for partition in partitions)
    return data


class Shard:
    """What the runtime and GroupShard do around the engines, for one group after the other."""

    def __init__(self, counts: dict[str, int] | None = None, **settings: Any) -> None:
        settings.setdefault("consumer_assignment_interval_ms", 0)
        settings.setdefault("initial_rebalance_delay_ms", 0)
        self.now_ms = 1_000_000
        self.state = ShardState(GroupSettings(**settings), CountingRandom(), FakeTopics(counts or {}))
        self.consumer = ConsumerGroups(self.state)
        self.classic = ClassicGroups(self.state)
        self.log: list[CoordinatorRecord] = []
        self.timers: dict[TimerKey, int] = {}
        self.answers: dict[Ticket, Any] = {}
        self.last_records: list[CoordinatorRecord] = []

    # Requests of the consumer protocol

    def beat(
        self,
        member_id: str,
        epoch: int = 0,
        *,
        group: str = "g",
        topics: list[str] | None = None,
        owned: list[tuple[str, int]] | None = None,
        version: int = 1,
        **fields: Any,
    ) -> ConsumerGroupHeartbeatResponse:
        """A join has what it must have; a later heartbeat has nothing but what is given. Asserts nothing about the
        answer.
        """
        if epoch == 0:
            fields.setdefault("rebalance_timeout_ms", 60_000)
            owned = owned or []
            if topics is None and "subscribed_topic_regex" not in fields:
                topics = ["t"]
        request = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=member_id,
            member_epoch=epoch,
            subscribed_topic_names=topics,
            topic_partitions=None if owned is None else self._wire(owned),
            **fields,
        )
        ticket = Ticket(None)
        context = GroupContext(version, "client", "/127.0.0.1")
        self.run(self.consumer.consumer_group_heartbeat(context, request, ticket, self.now_ms))
        response: ConsumerGroupHeartbeatResponse = self.answers.pop(ticket)
        return response

    def _wire(self, owned: list[tuple[str, int]]) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=topic_id(name), partitions=[partition]) for name, partition in owned]

    # Requests of the classic protocol; the answer is None while it waits

    def join(
        self, member_id: str, topics: list[str], *, group: str = "g", version: int = 5, owned: Any = None, **fields: Any
    ) -> Any:
        fields.setdefault("protocols", ["range"])
        protocols = [
            JoinGroupRequestProtocol(name=name, metadata=subscription(topics, owned))
            for name in fields.pop("protocols")
        ]
        fields = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 60_000, "protocol_type": "consumer"} | fields
        request = JoinGroupRequest(group_id=group, member_id=member_id, protocols=protocols, **fields)
        return self._classic("join_group", request, version)

    def sync(self, member_id: str, generation: int, *, group: str = "g", version: int = 5, **fields: Any) -> Any:
        request = SyncGroupRequest(group_id=group, member_id=member_id, generation_id=generation, **fields)
        return self._classic("sync_group", request, version)

    def classic_beat(self, member_id: str, generation: int, *, group: str = "g", **fields: Any) -> Any:
        request = HeartbeatRequest(group_id=group, member_id=member_id, generation_id=generation, **fields)
        return self._classic("heartbeat", request, 4)

    def leave(self, *member_ids: str, group: str = "g") -> Any:
        members = [MemberIdentity(member_id=member_id) for member_id in member_ids]
        return self._classic("leave_group", LeaveGroupRequest(group_id=group, members=members), 5)

    def _classic(self, api: str, request: Any, version: int) -> Any:
        ticket = Ticket(None)
        group = self.state.groups.get(request.group_id)
        is_consumer = isinstance(group, ConsumerGroup) and not (api == "join_group" and group.is_empty)
        engine = self.consumer if is_consumer else self.classic
        context = GroupContext(version, "client", "/127.0.0.1")
        self.run(getattr(engine, api)(context, request, ticket, self.now_ms))
        self.advance(0)
        self.waiting = ticket
        return self.answers.pop(ticket, None)

    # The world

    def run(self, effects: Effects) -> None:
        self.last_records = effects.records
        self.log += effects.records
        self.answers.update(effects.replies)
        for key, delay_ms in effects.timers.items():
            self.timers.pop(key, None)
            if delay_ms is not None:
                self.timers[key] = self.now_ms + delay_ms

    def advance(self, by_ms: int) -> None:
        end_ms = self.now_ms + by_ms
        while due := [key for key, at_ms in self.timers.items() if at_ms <= end_ms]:
            key = min(due, key=lambda each: (self.timers[each], repr(each)))
            self.now_ms = max(self.now_ms, self.timers.pop(key))
            engine = self.consumer if key[0] == "consumer" else self.classic  # type: ignore[index]
            self.run(engine.on_timer(key, self.now_ms))
        self.now_ms = end_ms

    def change_topics(self, **counts: int) -> None:
        self.state.topics = FakeTopics(counts, self.state.topics.version + 1)
        self.run(self.consumer.on_metadata_changed(self.now_ms))

    def group(self, group_id: str = "g") -> ConsumerGroup:
        group = self.state.groups[group_id]
        assert isinstance(group, ConsumerGroup)
        return group

    def reloaded(self, log: list[CoordinatorRecord] | None = None) -> "Shard":
        """A coordinator that knows nothing but the log."""
        other = Shard()
        other.state = ShardState(self.state.settings, self.state.random, self.state.topics)
        other.consumer, other.classic = ConsumerGroups(other.state), ClassicGroups(other.state)
        other.now_ms = self.now_ms
        other.log = list(self.log if log is None else log)
        for record in other.log:
            assert other.consumer.replay(record) or other.classic.replay(record)
        other.run(Effects(timers={**dict(other.consumer.timers_found()), **dict(other.classic.timers_found())}))
        other.run(other.classic.loaded(self.now_ms))
        return other


def assigned(response: ConsumerGroupHeartbeatResponse, name: str = "t") -> list[int] | None:
    """Indexes of one topic in the answer; None when the answer has no assignment."""
    if response.assignment is None:
        return None
    topics = response.assignment.topic_partitions
    return sorted(index for topic in topics if topic.topic_id == topic_id(name) for index in topic.partitions)


def names(partitions: list[int], name: str = "t") -> list[tuple[str, int]]:
    return [(name, partition) for partition in partitions]


def durable(shard: Shard) -> dict[str, Any]:
    """All that a coordinator must know after it was loaded."""
    found: dict[str, Any] = {}
    for group_id, group in shard.state.groups.items():
        if isinstance(group, ConsumerGroup):
            found[group_id] = (
                group.group_epoch,
                group.metadata_hash,
                group.assignment_epoch,
                group.assignment_timestamp_ms,
                group.members,
                group.static_members,
                group.target,
                group.regexes,
                group.owners,
            )
        elif isinstance(group, ClassicGroup):
            found[group_id] = (group.type, group.generation, sorted(group.members))
    return found


def classic_assignment(data: bytes) -> list[tuple[str, int]]:
    return sorted(embedded.read_assignment(data).partitions)
