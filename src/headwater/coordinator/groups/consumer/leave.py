"""Members that go: they leave, for good or for a while, or are put out because they were not heard of in time."""

from collections.abc import Collection
from dataclasses import replace

from headwater.coordinator.groups.consumer import conversion, validation
from headwater.coordinator.groups.consumer.decision import Decision
from headwater.coordinator.groups.consumer.group import ConsumerGroup
from headwater.coordinator.groups.consumer.member import LEAVE_STATIC_EPOCH, NO_EPOCHS, Member
from headwater.coordinator.records.consumer_records import RecordType
from headwater.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def leaving_member(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> Member:
    if request.instance_id is None:
        return group.member(request.member_id)
    return validation.static_member(group.static_member(request.instance_id), request.member_id, request.instance_id)


def leave(decision: Decision, member: Member, member_epoch: int) -> ConsumerGroupHeartbeatResponse:
    if member_epoch == LEAVE_STATIC_EPOCH:
        _leave_for_a_while(decision, member)
    else:
        remove(decision, [member])
    return ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=member_epoch)


def remove(decision: Decision, members: Collection[Member]) -> None:
    """What they had is free at once. When only members of the classic protocol stay, the group becomes a classic
    one.
    """
    if not members:
        return
    if conversion.may_downgrade(decision.group, members, decision.state.settings):
        conversion.downgrade(decision, members, begin_rebalance=True)
        return
    for member in members:
        decision.remove_member(member.member_id)
    decision.drop_unused_regexes()
    decision.raise_group_epoch()


def _leave_for_a_while(decision: Decision, member: Member) -> None:
    """It keeps its partitions until its session ends. Its epoch begins again at 0 when it is back, so those of its
    partitions do.
    """
    away = replace(
        member,
        member_epoch=LEAVE_STATIC_EPOCH,
        pending_revocation=NO_EPOCHS,
        assigned=dict.fromkeys(member.assigned, 0),
    )
    decision.put(RecordType.CURRENT_MEMBER_ASSIGNMENT, away.current_assignment_value(), member.member_id)
