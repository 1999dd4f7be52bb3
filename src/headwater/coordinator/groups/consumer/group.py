"""ConsumerGroup: the state of one consumer group, changed by its records alone.

A decision first makes a list of `ConsumerRecord`, then `apply` changes the state by each of them: by the same code that
replays the log. So the state of a coordinator that was loaded is the state of the one that wrote. What is not in
records is soft: it is lost with the coordinator and found again (timers that run, whether the topics must be looked at
again).

Invariant: `owners` has every partition that any member has or has not yet given up, and no partition is with two
members.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.coordinator.effects import CoordinatorRecord, TimerKey
from headwater.coordinator.groups.assignors.spec import NO_PARTITIONS, Partition, Partitions
from headwater.coordinator.groups.consumer import validation
from headwater.coordinator.groups.consumer.member import (
    LEAVE_EPOCH,
    NO_EPOCHS,
    Member,
    MemberState,
    target_from_value,
)
from headwater.coordinator.groups.consumer.subscriptions import ResolvedRegex
from headwater.coordinator.groups.context import GroupContext
from headwater.coordinator.groups.group import CommitValidator, GroupType
from headwater.coordinator.records.consumer_records import (
    ConsumerRecord,
    CurrentMemberAssignmentValue,
    GroupMetadataValue,
    MemberMetadataValue,
    RecordType,
    RegularExpressionValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
)
from headwater.wire.messages.describe_groups import DescribedGroup
from headwater.wire.messages.list_groups import ListedGroup

PROTOCOL_TYPE: Final = "consumer"
TIMERS: Final = ("session", "rebalance", "join", "sync")


def timer_key(timer: str, group_id: str, member_id: str) -> TimerKey:
    return ("consumer", timer, group_id, member_id)


class ConsumerGroup:
    type: GroupType = "consumer"

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = 1  # Kafka's first; the first change makes it 2
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.target: dict[str, Partitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.owners: dict[Partition, str] = {}
        self.has_partition_metadata = False  # a record of Kafka before 4.1, to be deleted
        # Soft
        self.topics_version_seen = -1  # of the metadata that `metadata_hash` was last compared with
        self.regexes_checked: dict[str, tuple[int, int]] = {}  # regex -> metadata version and time of the last look
        self.revoking_at: dict[str, int] = {}  # member -> its epoch when its rebalance timer was set
        self.join_timers: set[str] = set()  # members of the classic protocol that were told to join again

    # What every group can be asked

    @property
    def state_name(self) -> str:
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        stable = all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values())
        return "Stable" if stable else "Reconciling"

    @property
    def is_empty(self) -> bool:
        return not self.members

    def listed(self) -> ListedGroup:
        return ListedGroup(
            group_id=self.group_id, protocol_type=PROTOCOL_TYPE, group_state=self.state_name, group_type=self.type
        )

    def describe(self) -> DescribedGroup:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {self.group_id} is not a classic group.")

    def validate_offset_commit(
        self, context: GroupContext, member_id: str, instance_id: str | None, epoch: int, *, transactional: bool
    ) -> CommitValidator | None:
        if epoch < 0 and not self.members:
            return None  # an admin
        if transactional and epoch == -1 and not member_id and instance_id is None:
            return None  # a producer of before KIP-447
        return validation.offset_commit(self.member(member_id), epoch, context.api_version, transactional=transactional)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        if member_id is None and member_epoch < 0:
            return  # an admin
        validation.offset_fetch(self.member(member_id or ""), member_epoch)

    def validate_offset_delete(self) -> None:
        """Always: which topics are subscribed to is known."""

    def validate_delete(self) -> None:
        if self.members:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        return any(topic in member.topic_names for member in self.members.values()) or any(
            topic in resolved.topics for resolved in self.regexes.values()
        )

    def offsets_expire_from_ms(self, commit_timestamp_ms: int) -> int | None:
        return commit_timestamp_ms

    def tombstones(self) -> list[CoordinatorRecord]:
        return [record.encode() for record in self.tombstone_records()]

    def timer_keys(self) -> list[TimerKey]:
        return [key for member_id in self.members for key in self.timers_of(member_id)]

    def timers_of(self, member_id: str) -> list[TimerKey]:
        return [timer_key(timer, self.group_id, member_id) for timer in TIMERS]

    # Members

    def member(self, member_id: str) -> Member:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str | None) -> Member | None:
        if instance_id is None:
            return None
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def regex_subscribers(self, regex: str) -> int:
        return sum(member.regex == regex for member in self.members.values())

    @property
    def classic_member_count(self) -> int:
        return sum(member.classic is not None for member in self.members.values())

    def supports_classic(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether someone with these protocols can join: all members of the classic protocol must share one of them."""
        if protocol_type != PROTOCOL_TYPE:
            return False
        known = [
            {name for name, _ in member.classic.protocols}
            for member in self.members.values()
            if member.classic is not None
        ]
        return any(all(name in supported for supported in known) for name in names)

    def waits_for_others(self, member: Member) -> bool:
        """Whether what the member's target has, and it has not, is still with others."""
        missing = self.target.get(member.member_id, NO_PARTITIONS) - member.assigned.keys()
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(each in self.owners for each in missing)

    # Changes

    def copy(self) -> "ConsumerGroup":
        """As it is now. Its members and their targets are immutable."""
        copied = ConsumerGroup(self.group_id)
        for name, value in vars(self).items():
            setattr(copied, name, value.copy() if isinstance(value, dict | set) else value)
        copied.topics_version_seen = -1  # whoever decides next looks at them again
        return copied

    def apply(self, record: ConsumerRecord) -> None:
        _APPLY[record.type](self, record.name, record.value)

    def tombstone_records(self) -> list[ConsumerRecord]:
        members = list(self.members)
        records = [self.record(RecordType.CURRENT_MEMBER_ASSIGNMENT, None, member) for member in members]
        records += [self.record(RecordType.TARGET_ASSIGNMENT_MEMBER, None, member) for member in members]
        records.append(self.record(RecordType.TARGET_ASSIGNMENT_METADATA, None))
        records += [self.record(RecordType.MEMBER_METADATA, None, member) for member in members]
        records += [self.record(RecordType.REGULAR_EXPRESSION, None, regex) for regex in self.regexes]
        records.append(self.record(RecordType.PARTITION_METADATA, None))
        records.append(self.record(RecordType.GROUP_METADATA, None))
        return records

    def record(self, type_: RecordType, value: object, name: str = "") -> ConsumerRecord:
        return ConsumerRecord(type_, self.group_id, name, value)  # type: ignore[arg-type]

    def _set_member(self, member: Member) -> None:
        old = self.members.get(member.member_id)
        self._disown(old)
        if old is not None and old.instance_id != member.instance_id:
            self._release_instance(old)
        self.members[member.member_id] = member
        for partition in member.owned:
            self.owners[partition] = member.member_id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def _disown(self, member: Member | None) -> None:
        """In a compacted log the record that took a partition away can be gone, and its new owner stand first."""
        if member is None:
            return
        for partition in member.owned:
            if self.owners.get(partition) == member.member_id:
                del self.owners[partition]

    def _release_instance(self, member: Member) -> None:
        """Unless another one has taken it over."""
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _apply_group(self, _: str, value: GroupMetadataValue | None) -> None:
        if value is not None:
            self.group_epoch = value.epoch
            self.metadata_hash = value.metadata_hash

    def _apply_partition_metadata(self, _: str, value: object) -> None:
        self.has_partition_metadata = value is not None

    def _apply_member(self, member_id: str, value: MemberMetadataValue | None) -> None:
        old = self.members.get(member_id)
        if value is not None:
            self._set_member((old or Member(member_id)).with_metadata(value))
        elif old is not None:
            self._disown(old)
            del self.members[member_id]
            self._release_instance(old)
            self.revoking_at.pop(member_id, None)
            self.join_timers.discard(member_id)

    def _apply_target_metadata(self, _: str, value: TargetAssignmentMetadataValue | None) -> None:
        self.assignment_epoch = -1 if value is None else value.assignment_epoch
        self.assignment_timestamp_ms = 0 if value is None else value.assignment_timestamp

    def _apply_target_member(self, member_id: str, value: TargetAssignmentMemberValue | None) -> None:
        if value is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target_from_value(value)

    def _apply_current(self, member_id: str, value: CurrentMemberAssignmentValue | None) -> None:
        old = self.members.get(member_id)
        if value is not None:
            self._set_member((old or Member(member_id)).with_current_assignment(value))
        elif old is not None:
            self._set_member(
                replace(
                    old,
                    member_epoch=LEAVE_EPOCH,
                    previous_member_epoch=LEAVE_EPOCH,
                    assigned=NO_EPOCHS,
                    pending_revocation=NO_EPOCHS,
                )
            )

    def _apply_regex(self, regex: str, value: RegularExpressionValue | None) -> None:
        if value is None:
            self.regexes.pop(regex, None)
            self.regexes_checked.pop(regex, None)
        else:
            self.regexes[regex] = ResolvedRegex.from_value(value)


_APPLY: Final[dict[RecordType, Callable[[ConsumerGroup, str, Any], None]]] = {
    RecordType.GROUP_METADATA: ConsumerGroup._apply_group,
    RecordType.PARTITION_METADATA: ConsumerGroup._apply_partition_metadata,
    RecordType.MEMBER_METADATA: ConsumerGroup._apply_member,
    RecordType.TARGET_ASSIGNMENT_METADATA: ConsumerGroup._apply_target_metadata,
    RecordType.TARGET_ASSIGNMENT_MEMBER: ConsumerGroup._apply_target_member,
    RecordType.CURRENT_MEMBER_ASSIGNMENT: ConsumerGroup._apply_current,
    RecordType.REGULAR_EXPRESSION: ConsumerGroup._apply_regex,
}
