"""A classic group becomes a consumer group when a first member of the consumer protocol joins, and the other way round
when the last one leaves.

`group.consumer.migration.policy` says which of the two may happen. Members stay and keep their partitions: those of the
classic protocol are served in a consumer group too (`classic_members`).
"""

from collections.abc import Collection

from headwater.base.errors import ErrorCode, KafkaError
from headwater.coordinator.effects import Effects
from headwater.coordinator.groups.assignors.spec import NO_PARTITIONS
from headwater.coordinator.groups.classic import rebalance
from headwater.coordinator.groups.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, State
from headwater.coordinator.groups.classic.member import ClassicMember
from headwater.coordinator.groups.consumer import embedded
from headwater.coordinator.groups.consumer.decision import Decision
from headwater.coordinator.groups.consumer.group import ConsumerGroup
from headwater.coordinator.groups.consumer.member import ClassicMetadata, Member, target_to_value
from headwater.coordinator.groups.consumer.subscriptions import metadata_hash
from headwater.coordinator.groups.context import GroupSettings, ShardState, Topics
from headwater.coordinator.records.consumer_records import (
    ConsumerRecord,
    GroupMetadataValue,
    RecordType,
    TargetAssignmentMetadataValue,
)


def upgraded(classic: ClassicGroup, state: ShardState) -> tuple[ConsumerGroup, list[ConsumerRecord]]:
    """The consumer group that it becomes, and the records that make it. KafkaError if it may not. Changes nothing
    yet.
    """
    settings = state.settings
    if settings.consumer_migration_policy not in ("upgrade", "bidirectional"):
        raise _refused(classic, "online upgrade is disabled")
    if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _refused(classic, "the group does not use the consumer embedded protocol")
    if len(classic.members) > settings.consumer_group_size_max:
        raise _refused(classic, "the group size exceeds the consumer group maximum size")
    members = _members_from_classic(classic, state.topics)
    names = {name for member in members for name in member.topic_names}
    group = ConsumerGroup(classic.group_id)
    records = [group.record(RecordType.MEMBER_METADATA, each.metadata_value(), each.member_id) for each in members]
    hash_ = metadata_hash(names, state.topics)
    epoch = classic.generation
    records.append(group.record(RecordType.GROUP_METADATA, GroupMetadataValue(epoch=epoch, metadata_hash=hash_)))
    records += [
        group.record(RecordType.TARGET_ASSIGNMENT_MEMBER, target_to_value(frozenset(each.assigned)), each.member_id)
        for each in members
    ]
    records.append(
        group.record(RecordType.TARGET_ASSIGNMENT_METADATA, TargetAssignmentMetadataValue(assignment_epoch=epoch))
    )
    records += [
        group.record(RecordType.CURRENT_MEMBER_ASSIGNMENT, each.current_assignment_value(), each.member_id)
        for each in members
    ]
    for record in records:
        group.apply(record)
    return group, records


def release(classic: ClassicGroup, effects: Effects) -> None:
    """Everyone who waits in the classic group is sent to join again, and its timers end."""
    for member in classic.members.values():
        rebalance.refuse(classic, member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, effects)
    effects.timers |= dict.fromkeys(classic.timer_keys())


def _members_from_classic(classic: ClassicGroup, topics: Topics) -> list[Member]:
    if not classic.members:
        return []
    protocol = classic.select_protocol()
    members = []
    owners: dict[tuple[bytes, int], str] = {}
    for each in classic.members.values():
        try:
            subscription = embedded.read_subscription(each.metadata(protocol))
            assigned = embedded.read_assignment(each.assignment)
        except ValueError:
            raise _refused(classic, "the embedded consumer protocol is malformed") from None
        if assigned.has_user_data:
            raise _refused(
                classic,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade",
            )
        partitions = embedded.with_ids(assigned.partitions, topics)
        if any(owners.setdefault(partition, each.member_id) != each.member_id for partition in partitions):
            raise _refused(classic, "its leader gave a partition to two members")
        members.append(
            Member(
                each.member_id,
                member_epoch=classic.generation,
                previous_member_epoch=classic.generation,
                instance_id=each.instance_id,
                rack_id=subscription.rack_id,
                rebalance_timeout_ms=each.rebalance_timeout_ms,
                client_id=each.client_id,
                client_host=each.client_host,
                topic_names=frozenset(subscription.topics),
                classic=ClassicMetadata(each.session_timeout_ms, tuple(each.protocols)),
                assigned=dict.fromkeys(partitions, classic.generation),
            )
        )
    return members


def may_downgrade(group: ConsumerGroup, leaving: Collection[Member], settings: GroupSettings) -> bool:
    """Whether those who stay all speak the classic protocol, and may be a classic group."""
    gone = {member.member_id for member in leaving}
    staying = [member for member in group.members.values() if member.member_id not in gone]
    return (
        bool(staying)
        and all(member.classic is not None for member in staying)
        and settings.consumer_migration_policy in ("downgrade", "bidirectional")
        and len(staying) <= settings.group_size_max
    )


def downgrade(decision: Decision, leaving: Collection[Member], *, begin_rebalance: bool) -> None:
    """The group in the table is a classic one after this."""
    group, state, effects = decision.group, decision.state, decision.effects
    effects.timers |= dict.fromkeys(group.timer_keys())
    effects.records += [record.encode() for record in group.tombstone_records()]
    gone = {member.member_id for member in leaving}
    classic = ClassicGroup(group.group_id, decision.now_ms)
    classic.protocol_type = CONSUMER_PROTOCOL_TYPE
    classic.generation = group.group_epoch
    for member in group.members.values():
        if member.member_id not in gone:
            classic.add(_classic_member(member))
    classic.protocol_name = classic.select_protocol()
    for each in classic.members.values():
        version = embedded.read_version(each.metadata(classic.protocol_name))  # only their first protocol was looked at
        # Until it has joined again a member has what it has, whatever it was to have:
        # the group may become a consumer group before.
        has = (
            group.members[each.member_id].owned if begin_rebalance else group.target.get(each.member_id, NO_PARTITIONS)
        )
        each.assignment = embedded.write_assignment(has, state.topics, version)
        rebalance.reset_session(classic, each, effects)
    classic.state = State.STABLE
    classic.update_subscribed_topics()
    state.groups[group.group_id] = classic
    effects.records.append(classic.record())
    if begin_rebalance:
        rebalance.prepare(classic, state.settings, decision.now_ms, effects)


def _classic_member(member: Member) -> ClassicMember:
    assert member.classic is not None
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        list(member.classic.protocols),
    )


def _refused(classic: ClassicGroup, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}.",
    )
