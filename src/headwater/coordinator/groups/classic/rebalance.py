"""The course of a rebalance: who is waited for, for how long, and what happens when the wait is over.

Two waits. In PreparingRebalance the group waits for its members to join: at most the longest rebalance timeout among
them, after which those that did not come are put out. The first rebalance of an empty group waits
`group.initial.rebalance.delay.ms` instead, and longer as long as new members keep coming. In CompletingRebalance it
waits for all members to sync: again at most a rebalance timeout.

All functions change the group and add what is to be done to `effects`.
"""

from typing import Final

from headwater.base.errors import ErrorCode
from headwater.coordinator.effects import Effects
from headwater.coordinator.groups.classic.group import ClassicGroup, State
from headwater.coordinator.groups.classic.member import ClassicMember
from headwater.coordinator.groups.context import GroupSettings, ShardState
from headwater.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from headwater.wire.messages.sync_group import SyncGroupResponse

LOOK_AGAIN_MS: Final = 1_000  # for static members that do not come; their own time-out may be nothing at all


def join_response(group: ClassicGroup, member: ClassicMember, *, with_members: bool) -> JoinGroupResponse:
    """The answer of the current generation."""
    members = [
        JoinGroupResponseMember(
            member_id=other.member_id,
            group_instance_id=other.instance_id,
            metadata=other.metadata(group.protocol_name),
        )
        for other in (group.members.values() if with_members else ())
    ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=members,
    )


def sync_response(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )


def answer_join(group: ClassicGroup, member: ClassicMember, response: JoinGroupResponse, effects: Effects) -> None:
    ticket = group.take_join(member)
    if ticket is not None:
        effects.replies.append((ticket, response))


def answer_sync(member: ClassicMember, response: SyncGroupResponse, effects: Effects) -> bool:
    ticket, member.sync_ticket = member.sync_ticket, None
    if ticket is not None:
        effects.replies.append((ticket, response))
    return ticket is not None


def refuse(group: ClassicGroup, member: ClassicMember, code: ErrorCode, member_id: str, effects: Effects) -> None:
    """Whatever this member waits with is answered with an error."""
    answer_join(group, member, JoinGroupResponse(error_code=code, member_id=member_id), effects)
    answer_sync(member, SyncGroupResponse(error_code=code), effects)


def reset_session(group: ClassicGroup, member: ClassicMember, effects: Effects, timeout_ms: int | None = None) -> None:
    effects.timers[group.session_timer(member.member_id)] = (
        member.session_timeout_ms if timeout_ms is None else timeout_ms
    )


def remove_member(group: ClassicGroup, member_id: str, effects: Effects) -> None:
    """A member, or a pending one. What follows from that for the group is not decided here."""
    member = group.members.get(member_id)
    if member is not None:
        refuse(group, member, ErrorCode.UNKNOWN_MEMBER_ID, "", effects)
    if member is not None or member_id in group.pending_joins:
        effects.timers[group.session_timer(member_id)] = None
    group.remove(member_id)


def after_change(group: ClassicGroup, settings: GroupSettings, now_ms: int, effects: Effects) -> None:
    """Members came, left or changed: begin a rebalance, or see whether the one under way is complete."""
    if group.can_rebalance:
        prepare(group, settings, now_ms, effects)
    else:
        complete_if_all_joined(group, now_ms, effects)


def prepare(group: ClassicGroup, settings: GroupSettings, now_ms: int, effects: Effects) -> None:
    if group.state is State.COMPLETING_REBALANCE:  # those who wait for an assignment are to join again
        for member in group.members.values():
            member.assignment = b""
            if answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), effects):
                reset_session(group, member, effects)
    group.pending_syncs.clear()
    effects.timers[group.sync_timer] = None
    if group.state is State.EMPTY:
        group.transition(State.PREPARING_REBALANCE, now_ms)
        group.new_member_added = False
        group.initial_delay_ms = settings.initial_rebalance_delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - settings.initial_rebalance_delay_ms, 0)
        effects.timers[group.join_timer] = settings.initial_rebalance_delay_ms
        return
    group.transition(State.PREPARING_REBALANCE, now_ms)
    if group.has_all_joined:
        complete(group, now_ms, effects)
    else:
        effects.timers[group.join_timer] = group.rebalance_timeout_ms


def complete_if_all_joined(group: ClassicGroup, now_ms: int, effects: Effects) -> None:
    if group.state is not State.PREPARING_REBALANCE or group.initial_delay_ms is not None:
        return  # the first rebalance waits its time, whoever is there
    if group.has_all_joined:
        complete(group, now_ms, effects)


def on_join_timer(group: ClassicGroup, settings: GroupSettings, now_ms: int, effects: Effects) -> None:
    if group.state is not State.PREPARING_REBALANCE:
        return
    if group.initial_delay_ms is not None and group.new_member_added and group.initial_remaining_ms:
        group.new_member_added = False
        delay_ms = min(settings.initial_rebalance_delay_ms, group.initial_remaining_ms)
        group.initial_remaining_ms = max(group.initial_remaining_ms - group.initial_delay_ms, 0)
        group.initial_delay_ms = delay_ms
        effects.timers[group.join_timer] = delay_ms
        return
    complete(group, now_ms, effects)


def complete(group: ClassicGroup, now_ms: int, effects: Effects) -> None:
    """The wait for joins is over: a new generation of those who are in, static members included that are not."""
    effects.timers[group.join_timer] = None
    group.initial_delay_ms = None
    for member in list(group.members.values()):
        if not member.is_awaiting_join and not member.is_static:
            remove_member(group, member.member_id, effects)
    if group.members and not _elect_joined_leader(group):
        effects.timers[group.join_timer] = max(group.rebalance_timeout_ms, LOOK_AGAIN_MS)  # until their sessions end
        return
    group.next_generation(now_ms)
    if group.is_empty:
        effects.records.append(group.record())
        return
    for member in group.members.values():
        answer_join(group, member, join_response(group, member, with_members=_leads(group, member)), effects)
        reset_session(group, member, effects)
        member.is_new = False
        group.pending_syncs[member.member_id] = None
    effects.timers[group.sync_timer] = group.rebalance_timeout_ms


def synced(group: ClassicGroup, member: ClassicMember, effects: Effects) -> None:
    group.pending_syncs.pop(member.member_id, None)
    if not group.pending_syncs:
        effects.timers[group.sync_timer] = None


def assign(
    group: ClassicGroup, assignments: dict[str, bytes], state: ShardState, now_ms: int, effects: Effects
) -> None:
    """The leader has spoken: the group is stable, and all who wait for it hear their part."""
    for member in group.members.values():
        member.assignment = assignments.get(member.member_id, b"")
    group.transition(State.STABLE, now_ms)
    record = group.record()
    if not state.fits([record]):
        _take_back(group, state.settings, now_ms, effects)
        return
    effects.records.append(record)
    for member in group.members.values():
        if answer_sync(member, sync_response(group, member), effects):
            reset_session(group, member, effects)


def _take_back(group: ClassicGroup, settings: GroupSettings, now_ms: int, effects: Effects) -> None:
    """What the members want and get is more than one record can be: they hear of it, and are to join again, as in
    Kafka.
    """
    for member in group.members.values():
        member.assignment = b""
        if answer_sync(member, SyncGroupResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), effects):
            reset_session(group, member, effects)
    prepare(group, settings, now_ms, effects)


def on_sync_timer(group: ClassicGroup, settings: GroupSettings, now_ms: int, effects: Effects) -> None:
    if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.pending_syncs:
        return
    for member_id in list(group.pending_syncs):
        remove_member(group, member_id, effects)
    prepare(group, settings, now_ms, effects)


def on_session_timer(
    group: ClassicGroup, member_id: str, settings: GroupSettings, now_ms: int, effects: Effects
) -> None:
    member = group.members.get(member_id)
    if member is not None and not member.may_expire:
        return  # its session begins anew when it gets its answer
    if member is None and member_id not in group.pending_joins:
        return
    remove_member(group, member_id, effects)
    if member is not None and group.state in (State.STABLE, State.COMPLETING_REBALANCE):
        prepare(group, settings, now_ms, effects)
    else:
        complete_if_all_joined(group, now_ms, effects)


def _leads(group: ClassicGroup, member: ClassicMember) -> bool:
    return group.leader_id == member.member_id


def _elect_joined_leader(group: ClassicGroup) -> bool:
    """Keeps the leader if it is in; else the first that is. False when nobody is."""
    assert group.leader_id is not None
    if group.members[group.leader_id].is_awaiting_join:
        return True
    for member in group.members.values():
        if member.is_awaiting_join:
            group.leader_id = member.member_id
            return True
    return False
