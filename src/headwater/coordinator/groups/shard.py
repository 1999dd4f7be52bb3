"""GroupShard: one partition of `__consumer_offsets`. Groups by id, their committed offsets, and who decides about what.

Every request method takes (context, request, ticket, now_ms), never raises for a peer's mistake, and returns Effects whose replies
carry whole response messages, or, where one request names many groups, the part of the response about one group (`DescribedGroup`,
`OffsetFetchResponseGroup`, `DeletableGroupResult`). Only `list_groups` answers at once: it promises nothing.

The shard owns `ShardState` and `Offsets`; the engines own what is inside their groups.
"""

from collections.abc import Collection

from headwater.base.ports import Random
from headwater.coordinator.effects import CoordinatorRecord, Effects, Producer, Ticket, TimerKey
from headwater.coordinator.groups.context import GroupContext, GroupSettings, Parked, ShardState, Topics
from headwater.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headwater.wire.messages.heartbeat import HeartbeatRequest
from headwater.wire.messages.join_group import JoinGroupRequest
from headwater.wire.messages.leave_group import LeaveGroupRequest
from headwater.wire.messages.list_groups import ListedGroup
from headwater.wire.messages.offset_commit import OffsetCommitRequest
from headwater.wire.messages.offset_delete import OffsetDeleteRequest
from headwater.wire.messages.offset_fetch import OffsetFetchRequestGroup
from headwater.wire.messages.sync_group import SyncGroupRequest
from headwater.wire.messages.txn_offset_commit import TxnOffsetCommitRequest


class GroupShard:
    def __init__(self, settings: GroupSettings, random: Random, topics: Topics) -> None:
        self.state = ShardState(settings, random, topics)

    # Membership

    def join_group(self, context: GroupContext, request: JoinGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        raise NotImplementedError

    def sync_group(self, context: GroupContext, request: SyncGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        raise NotImplementedError

    def heartbeat(self, context: GroupContext, request: HeartbeatRequest, ticket: Ticket, now_ms: int) -> Effects:
        raise NotImplementedError

    def leave_group(self, context: GroupContext, request: LeaveGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        raise NotImplementedError

    def consumer_group_heartbeat(
        self, context: GroupContext, request: ConsumerGroupHeartbeatRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        raise NotImplementedError

    # Offsets

    def offset_commit(
        self, context: GroupContext, request: OffsetCommitRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        """Replies OffsetCommitResponse. Topics and partitions that the cluster does not have are answered here too."""
        raise NotImplementedError

    def txn_offset_commit(
        self, context: GroupContext, request: TxnOffsetCommitRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        """Replies TxnOffsetCommitResponse; `Effects.producer` is set when there are records."""
        raise NotImplementedError

    def offset_fetch(
        self,
        context: GroupContext,
        request: OffsetFetchRequestGroup,
        ticket: Ticket,
        now_ms: int,
        *,
        require_stable: bool,
    ) -> Effects:
        """Replies OffsetFetchResponseGroup, also for old versions: the handler puts it into the shape of its version."""
        raise NotImplementedError

    def offset_delete(
        self, context: GroupContext, request: OffsetDeleteRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        raise NotImplementedError

    def end_transaction(self, producer: Producer, *, committed: bool) -> Effects:
        """A marker was appended to this partition."""
        raise NotImplementedError

    # Groups as a whole

    def describe_group(self, context: GroupContext, group_id: str, ticket: Ticket) -> Effects:
        """Replies describe_groups.DescribedGroup."""
        raise NotImplementedError

    def consumer_group_describe(self, context: GroupContext, group_id: str, ticket: Ticket) -> Effects:
        """Replies consumer_group_describe.DescribedGroup."""
        raise NotImplementedError

    def list_groups(self, states: Collection[str] = (), types: Collection[str] = ()) -> list[ListedGroup]:
        """The filters of ListGroups; empty ones let everything through."""
        raise NotImplementedError

    def delete_group(self, context: GroupContext, group_id: str, ticket: Ticket, now_ms: int) -> Effects:
        """Replies DeletableGroupResult."""
        raise NotImplementedError

    # The runtime's side

    def replay(self, record: CoordinatorRecord, producer: Producer | None = None) -> None:
        raise NotImplementedError

    def replay_marker(self, producer: Producer, *, committed: bool) -> None:
        raise NotImplementedError

    def loaded(self, now_ms: int) -> Effects:
        raise NotImplementedError

    def on_timer(self, key: TimerKey, now_ms: int) -> Effects:
        raise NotImplementedError

    def on_metadata_changed(self, topics: Topics, now_ms: int) -> Effects:
        raise NotImplementedError

    def topic_deleted(self, topic: str, topic_id: bytes, now_ms: int) -> Effects:
        """Its offsets go with it."""
        raise NotImplementedError

    def parked(self) -> Parked:
        """Who waits, and how to tell them an error."""
        raise NotImplementedError
