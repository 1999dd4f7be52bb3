"""GroupShard: one partition of `__consumer_offsets`. Groups by id, their committed offsets, and who decides about what.

Every request method takes (context, request, ticket, now_ms), never raises for a peer's mistake, and returns Effects
whose replies carry whole response messages, or, where one request names many groups, the part of the response about one
group (`DescribedGroup`, `OffsetFetchResponseGroup`, `DeletableGroupResult`). Only `list_groups` answers at once: it
promises nothing.

The shard owns `ShardState` and `Offsets`; the engines own what is inside their groups.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError, bounded
from headwater.base.ports import Random
from headwater.coordinator.effects import CoordinatorRecord, Effects, Producer, Ticket, TimerKey
from headwater.coordinator.groups import offset_fetch
from headwater.coordinator.groups.classic.classic_groups import ClassicGroups
from headwater.coordinator.groups.classic.group import ClassicGroup, State
from headwater.coordinator.groups.context import GroupContext, GroupSettings, Parked, ShardState, Topics
from headwater.coordinator.groups.expiry import EXPIRY_TIMER, Sweeper, remove_group
from headwater.coordinator.groups.group import ConsumerEngine, Engine
from headwater.coordinator.groups.offset_requests import OffsetRequests
from headwater.coordinator.groups.offsets import Offsets
from headwater.coordinator.groups.plain_commits import PlainCommits
from headwater.coordinator.records.group_records import GroupMetadataRecord, OffsetCommitRecord, read_record
from headwater.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from headwater.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headwater.wire.messages.delete_groups import DeletableGroupResult
from headwater.wire.messages.describe_groups import DescribedGroup
from headwater.wire.messages.heartbeat import HeartbeatRequest
from headwater.wire.messages.join_group import JoinGroupRequest
from headwater.wire.messages.leave_group import LeaveGroupRequest
from headwater.wire.messages.list_groups import ListedGroup
from headwater.wire.messages.offset_commit import OffsetCommitRequest
from headwater.wire.messages.offset_delete import OffsetDeleteRequest
from headwater.wire.messages.offset_fetch import OffsetFetchRequestGroup
from headwater.wire.messages.sync_group import SyncGroupRequest
from headwater.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

DESCRIBE_NOT_FOUND_SINCE: Final = 6  # of DescribeGroups: before that, a group that is not there is a dead one


class GroupShard:
    def __init__(
        self,
        settings: GroupSettings,
        random: Random,
        topics: Topics,
        make_consumer_engine: Callable[[ShardState, ClassicGroups], ConsumerEngine] | None = None,
        batch_bytes_max: Callable[[], int] | None = None,
        config_of: Callable[[str], Mapping[str, str]] | None = None,
    ) -> None:
        self.state = ShardState(settings, random, topics)
        if batch_bytes_max is not None:
            self.state.batch_bytes_max = batch_bytes_max
        if config_of is not None:
            self.state.config_of = config_of
        self.offsets = Offsets()
        self.classic = ClassicGroups(self.state)
        self.consumer = None if make_consumer_engine is None else make_consumer_engine(self.state, self.classic)
        self._requests = OffsetRequests(self.state, self.offsets)
        self.plain_commits = PlainCommits(self.state, self.offsets, self.classic)
        self._sweeper = Sweeper(self.state, self.offsets)

    # Membership

    def join_group(self, context: GroupContext, request: JoinGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        group = self.state.groups.get(request.group_id)
        # One without members becomes classic.
        engine = self.classic if group is None or group.is_empty else self._engine(request.group_id)
        return engine.join_group(context, request, ticket, now_ms)

    def sync_group(self, context: GroupContext, request: SyncGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        return self._engine(request.group_id).sync_group(context, request, ticket, now_ms)

    def heartbeat(self, context: GroupContext, request: HeartbeatRequest, ticket: Ticket, now_ms: int) -> Effects:
        return self._engine(request.group_id).heartbeat(context, request, ticket, now_ms)

    def heartbeat_may_write(self, group_id: str) -> bool:
        """That of a classic member may change a group whose coordinator assigns; in a classic group it keeps the member
        alive.
        """
        return self._engine(group_id) is not self.classic

    def leave_group(self, context: GroupContext, request: LeaveGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        return self._engine(request.group_id).leave_group(context, request, ticket, now_ms)

    def consumer_group_heartbeat(
        self, context: GroupContext, request: ConsumerGroupHeartbeatRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        if self.consumer is None:
            return _reply(ticket, ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        return self.consumer.consumer_group_heartbeat(context, request, ticket, now_ms)

    # Offsets

    def offset_commit(
        self, context: GroupContext, request: OffsetCommitRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        """Replies OffsetCommitResponse. Topics and partitions that the cluster does not have are answered here too."""
        response, records = self._requests.commit(context, request, now_ms)
        effects = Effects(records=records, replies=[(ticket, response)])
        group = self.state.groups.get(request.group_id)
        if records and isinstance(group, ClassicGroup):
            self.classic.offsets_committed(group, request.member_id, effects)
        return effects

    def txn_offset_commit(
        self, context: GroupContext, request: TxnOffsetCommitRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        """Replies TxnOffsetCommitResponse; `Effects.producer` is set when there are records."""
        response, records = self._requests.commit_in_transaction(context, request, now_ms)
        producer = Producer(request.producer_id, request.producer_epoch) if records else None
        return Effects(records=records, replies=[(ticket, response)], producer=producer)

    def offset_fetch(
        self,
        context: GroupContext,
        request: OffsetFetchRequestGroup,
        ticket: Ticket,
        now_ms: int,
        *,
        require_stable: bool,
    ) -> Effects:
        """Replies OffsetFetchResponseGroup, also for old versions: the handler puts it into the shape of its
        version.
        """
        del now_ms
        return _reply(
            ticket, offset_fetch.fetch(self.state, self.offsets, context, request, require_stable=require_stable)
        )

    def offset_delete(
        self, context: GroupContext, request: OffsetDeleteRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        del context, now_ms
        response, records = self._requests.delete(request)
        return Effects(records=records, replies=[(ticket, response)])

    def end_transaction(self, producer: Producer, *, committed: bool) -> Effects:
        """A marker was appended to this partition."""
        self.replay_marker(producer, committed=committed)
        return Effects()

    # Groups as a whole

    def describe_group(self, context: GroupContext, group_id: str, ticket: Ticket) -> Effects:
        """Replies describe_groups.DescribedGroup."""
        group = self.state.groups.get(group_id)
        try:
            if group is None:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
            described = group.describe()
        except KafkaError as error:
            described = DescribedGroup(group_id=group_id, group_state=State.DEAD.value)
            if context.api_version >= DESCRIBE_NOT_FOUND_SINCE:
                described.error_code, described.error_message = error.code, error.message
        return _reply(ticket, described)

    def consumer_group_describe(self, context: GroupContext, group_id: str, ticket: Ticket) -> Effects:
        """Replies consumer_group_describe.DescribedGroup."""
        del context
        if self.consumer is not None:
            return _reply(ticket, self.consumer.consumer_group_describe(group_id))
        missing = DescribedConsumerGroup(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        missing.error_message = bounded(f"Group {group_id} not found.")
        return _reply(ticket, missing)

    def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
        """The filters of ListGroups, whose case does not matter; empty ones let everything through."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {type_.lower() for type_ in types}
        return [
            group.listed()
            for group in self.state.groups.values()
            if (not wanted_states or group.state_name.lower() in wanted_states)
            and (not wanted_types or group.type in wanted_types)
        ]

    def delete_group(self, context: GroupContext, group_id: str, ticket: Ticket, now_ms: int) -> Effects:
        """Replies DeletableGroupResult."""
        del context, now_ms
        group = self.state.groups.get(group_id)
        result = DeletableGroupResult(group_id=group_id)
        effects = Effects(replies=[(ticket, result)])
        try:
            if group is None:
                raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
            group.validate_delete()
            if not self.state.fits([*self.offsets.group_tombstones(group_id), *group.tombstones()]):
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"Group {group_id} has too many offsets.")
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
            return effects
        effects.records += self.offsets.delete_group(group_id)
        remove_group(self.state, group_id, effects)
        return effects

    # The runtime's side

    def replay(self, record: CoordinatorRecord, producer: Producer | None = None) -> None:
        """Record types that nobody here knows (share and streams groups) are passed over."""
        read = read_record(record)
        if isinstance(read, OffsetCommitRecord):
            key = read.key
            if read.value is not None and key.group not in self.state.groups:
                self.state.groups[key.group] = ClassicGroup(key.group)
            self.offsets.apply(key.group, key.topic, key.partition, read.value, producer)
        elif isinstance(read, GroupMetadataRecord):
            self.classic.replay_group(read)
        elif self.consumer is not None:
            self.consumer.replay(record)

    def replay_marker(self, producer: Producer, *, committed: bool) -> None:
        self.offsets.end_transaction(producer.producer_id, committed=committed)

    def timers_found(self) -> Iterator[tuple[TimerKey, int]]:
        yield from self.classic.timers_found()
        if self.consumer is not None:
            yield from self.consumer.timers_found()

    def loaded(self, now_ms: int) -> Effects:
        effects = self.classic.loaded(now_ms)
        self._sweeper.start(effects)
        return effects

    def on_timer(self, key: TimerKey, now_ms: int) -> Effects:
        assert isinstance(key, tuple)
        if key[0] == "classic":
            return self.classic.on_timer(key, now_ms)
        if key[0] == "offsets":
            return self._sweeper.expire(now_ms) if key == EXPIRY_TIMER else self._sweeper.sweep_deleted()
        assert self.consumer is not None
        return self.consumer.on_timer(key, now_ms)

    def on_metadata_changed(self, topics: Topics, now_ms: int) -> Effects:
        self.state.topics = topics
        return Effects() if self.consumer is None else self.consumer.on_metadata_changed(now_ms)

    def topic_deleted(self, topic: str, topic_id: bytes, now_ms: int) -> Effects:
        """Its offsets go with it."""
        del now_ms
        return self._sweeper.topic_deleted(topic, topic_id)

    def parked(self) -> Parked:
        """Who waits, and how to tell them an error."""
        return self.classic.parked() + (self.consumer.parked() if self.consumer is not None else [])

    # Inside

    def _engine(self, group_id: str) -> Engine:
        group = self.state.groups.get(group_id)
        if group is not None and group.type == "consumer" and self.consumer is not None:
            return self.consumer
        return self.classic


def _reply(ticket: Ticket, response: object) -> Effects:
    return Effects(replies=[(ticket, response)])
