"""One decision about one consumer group: the records that it makes, applied as they are made, and what is to be done
besides.

Everything that can be refused is refused before the first record. Only how large they become together is seen at the
end: then the group is put back as it was (`before`), and nothing of the decision has happened. The steps that all
decisions share are here: a member is put or removed, the group's epoch grows when what it reads changed, a new target
is computed when its time has come, and the member that asked goes one step towards it.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from headwater.coordinator.effects import Effects
from headwater.coordinator.groups.assignors.spec import NO_PARTITIONS, Partition
from headwater.coordinator.groups.consumer.group import ConsumerGroup, timer_key
from headwater.coordinator.groups.consumer.member import Member, MemberState, target_to_value
from headwater.coordinator.groups.consumer.reconcile import Target, reconcile
from headwater.coordinator.groups.consumer.subscriptions import (
    metadata_hash,
    resolve_regex,
    subscribed_ids,
    subscribed_names,
)
from headwater.coordinator.groups.consumer.target import new_targets
from headwater.coordinator.groups.context import ShardState
from headwater.coordinator.groups.group import Group
from headwater.coordinator.records.consumer_records import (
    GroupMetadataValue,
    RecordType,
    TargetAssignmentMetadataValue,
)

_HEARTBEAT_MARGIN_MS = 20  # members count from when they sent, we from when we decided
REGEX_REFRESH_INTERVAL_MIN_MS = 10_000  # Kafka's: however often topics come and go


@dataclass(slots=True)
class Decision:
    state: ShardState
    group: ConsumerGroup
    now_ms: int
    effects: Effects = field(default_factory=Effects)
    known: Group | None = None  # what the table had: the group itself, one that it takes the place of, or nothing
    before: ConsumerGroup | None = None  # the group, before the first record was applied

    def put(self, type_: RecordType, value: object, name: str = "") -> None:
        if self.before is None:
            self.before = self.group.copy()
        record = self.group.record(type_, value, name)
        self.group.apply(record)
        self.effects.records.append(record.encode())

    def take_back(self) -> bool:
        """Everything is as it was, timers included. Not if classic members were told to join a group of the other
        kind.
        """
        groups, group_id = self.state.groups, self.group.group_id
        if self.known is self.group:
            groups[group_id] = self.before or self.group
        elif self.known is None:
            del groups[group_id]
        elif self.known.is_empty:
            groups[group_id] = self.known
        else:
            return False
        return True

    # Members

    def put_member(self, old: Member, new: Member) -> bool:
        """Whether the topics that it is subscribed to by name changed."""
        if new != old or new.member_id not in self.group.members:
            self.put(RecordType.MEMBER_METADATA, new.metadata_value(), new.member_id)
        return new.topic_names != old.topic_names

    def remove_member(self, member_id: str) -> None:
        for type_ in (
            RecordType.CURRENT_MEMBER_ASSIGNMENT,
            RecordType.TARGET_ASSIGNMENT_MEMBER,
            RecordType.MEMBER_METADATA,
        ):
            self.put(type_, None, member_id)
        self.effects.timers |= dict.fromkeys(self.group.timers_of(member_id))

    def replace_member(self, old: Member, new: Member) -> None:
        """A static member came back under another id: it takes over all that the old one had."""
        target = self.group.target.get(old.member_id, NO_PARTITIONS)
        self.remove_member(old.member_id)
        self.put(RecordType.MEMBER_METADATA, new.metadata_value(), new.member_id)
        self.put(RecordType.TARGET_ASSIGNMENT_MEMBER, target_to_value(target), new.member_id)
        self.put(RecordType.CURRENT_MEMBER_ASSIGNMENT, new.current_assignment_value(), new.member_id)

    # What the group reads

    def drop_unused_regexes(self) -> None:
        used = {member.regex for member in self.group.members.values()}
        for regex in [regex for regex in self.group.regexes if regex not in used]:
            self.put(RecordType.REGULAR_EXPRESSION, None, regex)

    def resolve_regexes(self) -> bool:
        """Whether one of them stands for other topics than before. One that is new is resolved at once, the others now
        and then.
        """
        changed = False
        for regex in sorted({member.regex for member in self.group.members.values() if member.regex}):
            if not self._regex_is_due(regex):
                continue
            resolved = resolve_regex(regex, self.state.topics, self.now_ms)
            self.group.regexes_checked[regex] = (resolved.version, self.now_ms)
            before = self.group.regexes.get(regex)
            if before is None or before.topics != resolved.topics:
                self.put(RecordType.REGULAR_EXPRESSION, resolved.value(), regex)
                changed = changed or before is not None or bool(resolved.topics)
        return changed

    def _regex_is_due(self, regex: str) -> bool:
        known = self.group.regexes.get(regex)
        if known is None:
            return True
        version, time_ms = self.group.regexes_checked.get(regex, (known.version, known.timestamp_ms))
        age_ms = abs(self.now_ms - time_ms)  # the clock may have been set back
        if version != self.state.topics.version and age_ms > REGEX_REFRESH_INTERVAL_MIN_MS:
            return True
        return age_ms > self.state.settings.consumer_regex_refresh_interval_ms

    def update_group_epoch(self, *, changed: bool) -> None:
        """Grows when a subscription changed, or the topics behind it did."""
        group, topics = self.group, self.state.topics
        if not changed and group.topics_version_seen == topics.version:
            return
        hash_ = self._metadata_hash()
        group.topics_version_seen = topics.version
        if changed or hash_ != group.metadata_hash:
            self._put_group_epoch(hash_)
        if group.has_partition_metadata:
            self.put(RecordType.PARTITION_METADATA, None)

    def raise_group_epoch(self) -> None:
        """After members left."""
        self._put_group_epoch(self._metadata_hash())

    def _put_group_epoch(self, hash_: int) -> None:
        value = GroupMetadataValue(epoch=self.group.group_epoch + 1, metadata_hash=hash_)
        self.put(RecordType.GROUP_METADATA, value)

    def _metadata_hash(self) -> int:
        group = self.group
        names = frozenset[str]().union(*(subscribed_names(each, group.regexes) for each in group.members.values()))
        return metadata_hash(names, self.state.topics)

    # Assignment

    def update_target(self) -> None:
        group = self.group
        if group.assignment_epoch >= group.group_epoch or not self._may_compute_target():
            return
        for member_id, partitions in new_targets(group, self.state.topics, self.state.settings).items():
            if group.target.get(member_id) != partitions:
                self.put(RecordType.TARGET_ASSIGNMENT_MEMBER, target_to_value(partitions), member_id)
        self.put(
            RecordType.TARGET_ASSIGNMENT_METADATA,
            TargetAssignmentMetadataValue(assignment_epoch=group.group_epoch, assignment_timestamp=self.now_ms),
        )

    def _may_compute_target(self) -> bool:
        return self._target_due_in_ms() == 0

    def _target_due_in_ms(self) -> int:
        """When many join at once, one assignment for all of them is less work and moves less than one for each.

        A member that is alone waits for nobody: what it changes about itself counts at once.
        """
        since_ms = self.now_ms - self.group.assignment_timestamp_ms
        interval_ms = self.state.settings_of(self.group.group_id).consumer_assignment_interval_ms
        if self.group.assignment_timestamp_ms == 0 or since_ms < 0 or len(self.group.members) <= 1:
            return 0
        return max(0, interval_ms - since_ms)

    def next_heartbeat_ms(self) -> int:
        """When the member that asked is to come again: if a new target is to be computed, as soon as that may be.

        Only a heartbeat can tell a member what it is to have. With the usual interval, a subscription that changed
        within a second of the last assignment would be acted on five seconds later.
        """
        interval_ms = self.state.settings_of(self.group.group_id).consumer_heartbeat_interval_ms
        if self.group.assignment_epoch >= self.group.group_epoch:
            return interval_ms
        return min(interval_ms, self._target_due_in_ms() + _HEARTBEAT_MARGIN_MS)

    def reconcile(self, member: Member, owned: Collection[Partition] | None, *, subscription_changed: bool) -> Member:
        group = self.group
        if not subscription_changed and member.is_reconciled_to(group.assignment_epoch):
            return member
        target = Target(
            group.assignment_epoch,
            group.target.get(member.member_id, NO_PARTITIONS),
            subscribed_ids(member, group.regexes, self.state.topics),
            group.owners.__contains__,
        )
        updated = reconcile(member, target, owned, subscription_changed=subscription_changed)
        if updated == member:
            return member
        assert all(group.owners.get(each, member.member_id) == member.member_id for each in updated.owned)
        self.put(RecordType.CURRENT_MEMBER_ASSIGNMENT, updated.current_assignment_value(), member.member_id)
        if updated.classic is None:
            self._set_rebalance_timer(updated)
        return updated

    # Timers

    def set_timer(self, timer: str, member_id: str, delay_ms: int | None) -> None:
        self.effects.timers[timer_key(timer, self.group.group_id, member_id)] = delay_ms

    def _set_rebalance_timer(self, member: Member) -> None:
        """How long a member may take to give partitions up. Counts for the epoch at which it was told to."""
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            self.group.revoking_at[member.member_id] = member.member_epoch
            self.set_timer("rebalance", member.member_id, member.rebalance_timeout_ms)
        elif self.group.revoking_at.pop(member.member_id, None) is not None:
            self.set_timer("rebalance", member.member_id, None)
