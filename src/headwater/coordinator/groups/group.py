"""What the two kinds of group have in common, so that offsets, listing and deletion need not know which one it is.

A group is `classic` (its leader assigns) or `consumer` (KIP-848: the coordinator assigns). Both live in
`ShardState.groups` under their id. Validations raise `KafkaError`; whoever calls turns it into the response.
"""

from collections.abc import Iterator
from typing import Literal, Protocol, TypeAlias

from headwater.coordinator.effects import CoordinatorRecord, Effects, Ticket, TimerKey
from headwater.coordinator.groups.context import GroupContext, Parked
from headwater.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from headwater.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headwater.wire.messages.describe_groups import DescribedGroup
from headwater.wire.messages.heartbeat import HeartbeatRequest
from headwater.wire.messages.join_group import JoinGroupRequest
from headwater.wire.messages.leave_group import LeaveGroupRequest
from headwater.wire.messages.list_groups import ListedGroup
from headwater.wire.messages.sync_group import SyncGroupRequest

GroupType: TypeAlias = Literal["classic", "consumer"]


class CommitValidator(Protocol):
    """Looks at one partition of a commit that as a whole was allowed. Raises KafkaError when this partition is not."""

    def __call__(self, topic: str, topic_id: bytes, partition: int) -> None: ...


class Group(Protocol):
    @property
    def group_id(self) -> str: ...

    @property
    def type(self) -> GroupType: ...

    @property
    def state_name(self) -> str:
        """As Kafka shows it: "Stable", "PreparingRebalance", "Reconciling" ..."""
        ...

    @property
    def is_empty(self) -> bool: ...

    def listed(self) -> ListedGroup:
        """Its row in ListGroups, all fields set."""
        ...

    def describe(self) -> DescribedGroup:
        """Its row in DescribeGroups; KafkaError(GROUP_ID_NOT_FOUND) with a message if it is not a classic one."""
        ...

    def validate_offset_commit(
        self, context: GroupContext, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool
    ) -> CommitValidator | None:
        """Whether this member may commit. `epoch` is the classic generation or the member epoch."""
        ...

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None: ...

    def validate_offset_delete(self) -> None: ...

    def validate_delete(self) -> None:
        """NON_EMPTY_GROUP, or GROUP_ID_NOT_FOUND for a dead one."""
        ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def offsets_expire_from_ms(self, commit_timestamp_ms: int) -> int | None:
        """From when the retention of an offset that was committed then counts; None as long as it may not expire."""
        ...

    def tombstones(self) -> list[CoordinatorRecord]:
        """The records that delete the group itself. Its offsets are not its business."""
        ...

    def timer_keys(self) -> list[TimerKey]:
        """All timers that may be armed for it: they are cancelled when it is deleted."""
        ...


class Engine(Protocol):
    """The state machine of one kind of group. Timer keys are tuples that begin with the kind's name."""

    def join_group(self, context: GroupContext, request: JoinGroupRequest, ticket: Ticket, now_ms: int) -> Effects: ...

    def sync_group(self, context: GroupContext, request: SyncGroupRequest, ticket: Ticket, now_ms: int) -> Effects: ...

    def heartbeat(self, context: GroupContext, request: HeartbeatRequest, ticket: Ticket, now_ms: int) -> Effects: ...

    def leave_group(
        self, context: GroupContext, request: LeaveGroupRequest, ticket: Ticket, now_ms: int
    ) -> Effects: ...

    def replay(self, record: CoordinatorRecord) -> bool:
        """False for a record of a type that this engine does not write: others may know it."""
        ...

    def timers_found(self) -> Iterator[tuple[TimerKey, int]]:
        """Those of all members that were read from the log: they get their whole time again."""
        ...

    def on_timer(self, key: TimerKey, now_ms: int) -> Effects: ...

    def parked(self) -> Parked: ...


class ConsumerEngine(Engine, Protocol):
    """KIP-848. Its classic methods serve members of the classic protocol in a group of type consumer.

    A group in `ShardState.groups` that is of type classic is handed over whole: `consumer_group_heartbeat` converts it
    or refuses.
    """

    def consumer_group_heartbeat(
        self, context: GroupContext, request: ConsumerGroupHeartbeatRequest, ticket: Ticket, now_ms: int
    ) -> Effects: ...

    def consumer_group_describe(self, group_id: str) -> DescribedConsumerGroup: ...

    def on_metadata_changed(self, now_ms: int) -> Effects:
        """`ShardState.topics` is another one than before."""
        ...
