"""ClassicGroup: the state of one classic group and the questions about it. What happens when is decided in `rebalance`,
`join` and `engine`.

States and the ways between them:

    Empty -> PreparingRebalance                    a first member joins
    PreparingRebalance -> CompletingRebalance      all are in, or time is up: a new generation
    PreparingRebalance -> Empty                    nobody is left
    CompletingRebalance -> Stable                  the leader has assigned
    CompletingRebalance, Stable -> PreparingRebalance
    any -> Dead                                    deleted; it leaves the table with that

Durable is what `metadata_value` says: it is written when a group is made, becomes Stable or Empty, or replaces a static
member. Tickets, pending members and the flags of a running rebalance live in memory only: after a reload their members
join again.
"""

from enum import StrEnum
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.coordinator.effects import CoordinatorRecord, Ticket, TimerKey
from headwater.coordinator.groups.classic.member import ClassicMember
from headwater.coordinator.groups.classic.subscription import subscribed_topics
from headwater.coordinator.groups.context import GroupContext
from headwater.coordinator.groups.group import CommitValidator, GroupType
from headwater.coordinator.records.group_records import (
    GroupMetadataValue,
    MemberMetadata,
    group_metadata_record,
    group_metadata_tombstone,
)
from headwater.wire.messages.describe_groups import DescribedGroup
from headwater.wire.messages.list_groups import ListedGroup

CONSUMER_PROTOCOL_TYPE: Final = "consumer"


class State(StrEnum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_PREVIOUS: Final = {
    State.EMPTY: {State.PREPARING_REBALANCE},
    State.PREPARING_REBALANCE: {State.EMPTY, State.COMPLETING_REBALANCE, State.STABLE},
    State.COMPLETING_REBALANCE: {State.PREPARING_REBALANCE},
    State.STABLE: {State.COMPLETING_REBALANCE},
    State.DEAD: set(State),
}


class ClassicGroup:
    type: GroupType = "classic"

    def __init__(self, group_id: str, state_timestamp_ms: int | None = None) -> None:
        self.group_id = group_id
        self.state = State.EMPTY
        self.state_timestamp_ms = state_timestamp_ms
        self.protocol_type: str | None = None  # None: a simple group, which only has offsets
        self.protocol_name: str | None = None
        self.generation = 0
        self.leader_id: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.pending_joins: dict[str, None] = {}  # ids that were given out and not used yet
        self.pending_syncs: dict[str, None] = {}
        self.subscribed_topics: frozenset[str] | None = None  # None: not known
        self.awaiting_join_count = 0
        self._support: dict[str, int] = {}  # protocol -> how many members have it
        # Of the first rebalance of an empty group: it waits for more members.
        self.new_member_added = False
        self.initial_delay_ms: int | None = None
        self.initial_remaining_ms = 0

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue) -> "ClassicGroup":
        timestamp_ms = value.current_state_timestamp
        group = cls(group_id, None if timestamp_ms < 0 else timestamp_ms)
        group.protocol_type = value.protocol_type or None
        group.protocol_name = value.protocol
        group.generation = value.generation
        for saved in value.members:
            timeout_ms = saved.session_timeout if saved.rebalance_timeout < 0 else saved.rebalance_timeout
            group.add(
                ClassicMember(
                    saved.member_id,
                    saved.group_instance_id,
                    saved.client_id,
                    saved.client_host,
                    timeout_ms,
                    saved.session_timeout,
                    [(value.protocol or "", saved.subscription)],
                    saved.assignment,
                )
            )
        group.leader_id = value.leader
        group.state = State.STABLE if group.members else State.EMPTY
        group.update_subscribed_topics()
        return group

    # What every group can be asked

    @property
    def state_name(self) -> str:
        return self.state.value

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    @property
    def is_simple(self) -> bool:
        return self.protocol_type is None

    def listed(self) -> ListedGroup:
        return ListedGroup(
            group_id=self.group_id,
            protocol_type=self.protocol_type or "",
            group_state=self.state_name,
            group_type=self.type,
        )

    def describe(self) -> DescribedGroup:
        protocol = self.protocol_name if self.state is State.STABLE else None
        return DescribedGroup(
            group_id=self.group_id,
            group_state=self.state_name,
            protocol_type=self.protocol_type or "",
            protocol_data=protocol or "",
            members=[member.described(protocol) for member in self.members.values()],
        )

    def validate_offset_commit(
        self, context: GroupContext, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool
    ) -> CommitValidator | None:
        del context  # the rules are the same for all versions
        if epoch < 0 and self.is_empty:
            return None  # a consumer that no group manages, or an admin
        if epoch >= 0 or member_id or instance_id is not None:
            self.validate_member(member_id, instance_id)
            if epoch != self.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        elif not transactional:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        if not transactional and self.state is State.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        return None

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Anyone may ask a classic group."""

    def validate_offset_delete(self) -> None:
        if not self.is_empty and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)  # what its members read cannot be known

    def validate_delete(self) -> None:
        if not self.is_empty:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL_TYPE  # to be on the safe side
        return topic in self.subscribed_topics

    def offsets_expire_from_ms(self, commit_timestamp_ms: int) -> int | None:
        if self.is_simple:
            return commit_timestamp_ms
        if self.is_empty:
            return commit_timestamp_ms if self.state_timestamp_ms is None else self.state_timestamp_ms
        if self.state is State.STABLE and self.subscribed_topics is not None:
            return commit_timestamp_ms
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        return [group_metadata_tombstone(self.group_id)]

    def timer_keys(self) -> list[TimerKey]:
        keys: list[TimerKey] = [self.join_timer, self.sync_timer]
        keys += [self.session_timer(member_id) for member_id in (*self.members, *self.pending_joins)]
        return keys

    # Timers

    @property
    def join_timer(self) -> TimerKey:
        return ("classic", "join", self.group_id)

    @property
    def sync_timer(self) -> TimerKey:
        return ("classic", "sync", self.group_id)

    def session_timer(self, member_id: str) -> TimerKey:
        return ("classic", "session", self.group_id, member_id)

    # Members

    def add(self, member: ClassicMember) -> None:
        assert member.member_id not in self.members
        assert member.join_ticket is None
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        if member.instance_id is not None:
            assert member.instance_id not in self.static_members
            self.static_members[member.instance_id] = member.member_id
        self._count_support(member, 1)
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Also a pending one. Its tickets must have been answered."""
        member = self.members.pop(member_id, None)
        if member is not None:
            assert member.join_ticket is None
            assert member.sync_ticket is None
            self._count_support(member, -1)
            if member.instance_id is not None:
                del self.static_members[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)

    def replace_static(self, old: ClassicMember, new_member_id: str) -> ClassicMember:
        """The same member under a new id; its old tickets must have been answered."""
        assert old.instance_id is not None
        was_leader = self.leader_id == old.member_id
        was_pending = old.member_id in self.pending_syncs
        self.remove(old.member_id)
        old.member_id = new_member_id
        self.add(old)
        if was_leader:
            self.leader_id = new_member_id
        if was_pending:
            self.pending_syncs[new_member_id] = None
        return old

    def park_join(self, member: ClassicMember, ticket: Ticket) -> None:
        assert member.join_ticket is None
        member.join_ticket = ticket
        self.awaiting_join_count += 1

    def take_join(self, member: ClassicMember) -> Ticket | None:
        ticket, member.join_ticket = member.join_ticket, None
        self.awaiting_join_count -= ticket is not None
        return ticket

    def set_protocols(self, member: ClassicMember, protocols: list[tuple[str, bytes]]) -> None:
        self._count_support(member, -1)
        member.protocols = protocols
        self._count_support(member, 1)

    def validate_member(self, member_id: str, instance_id: str | None) -> ClassicMember:
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def supports(self, protocol_type: str, names: list[str]) -> bool:
        """Whether someone with these protocols can be a member: all others must share one of them."""
        if self.is_empty:
            return bool(protocol_type and names)
        return protocol_type == self.protocol_type and any(
            self._support.get(name, 0) == len(self.members) for name in names
        )

    def select_protocol(self) -> str:
        """The one with most votes among those that all have; of equals, the one that was voted for first."""
        candidates = {name for name, count in self._support.items() if count == len(self.members)}
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(votes, key=lambda name: votes[name])

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def has_all_joined(self) -> bool:
        return self.awaiting_join_count == len(self.members) and not self.pending_joins

    @property
    def can_rebalance(self) -> bool:
        return self.state in _PREVIOUS[State.PREPARING_REBALANCE]

    # Changes of state

    def transition(self, state: State, now_ms: int) -> None:
        assert self.state in _PREVIOUS[state], f"{self.state} -> {state}"
        self.state = state
        self.state_timestamp_ms = now_ms

    def next_generation(self, now_ms: int) -> None:
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.update_subscribed_topics()
        self.transition(State.COMPLETING_REBALANCE if self.members else State.EMPTY, now_ms)
        self.pending_syncs.clear()

    def update_subscribed_topics(self) -> None:
        self.subscribed_topics = None
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE or (self.members and self.protocol_name is None):
            return
        topics: set[str] = set()
        for member in self.members.values():
            of_member = subscribed_topics(member.metadata(self.protocol_name))
            if of_member is None:
                return
            topics.update(of_member)
        self.subscribed_topics = frozenset(topics)

    def metadata_value(self) -> GroupMetadataValue:
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol_name,
            leader=self.leader_id,
            current_state_timestamp=-1 if self.state_timestamp_ms is None else self.state_timestamp_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata(self.protocol_name),
                    assignment=member.assignment,
                )
                for member in self.members.values()
            ],
        )

    def record(self) -> CoordinatorRecord:
        return group_metadata_record(self.group_id, self.metadata_value())

    def _count_support(self, member: ClassicMember, change: int) -> None:
        for name in {name for name, _ in member.protocols}:
            self._support[name] = self._support.get(name, 0) + change
            if not self._support[name]:
                del self._support[name]
