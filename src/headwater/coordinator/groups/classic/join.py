"""JoinGroup: who may join, under which id, and whether that sets off a rebalance.

A new dynamic member of version 4 and up is first given an id and sent away with MEMBER_ID_REQUIRED: a client that gives
up and tries again would otherwise leave a dead member behind each time. A new static member takes the place of the one
that had its instance id; in a stable group that goes without a rebalance, if the protocol stays the same.
"""

from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import Random
from headwater.coordinator.effects import CoordinatorRecord, Effects, Ticket
from headwater.coordinator.groups.classic import rebalance
from headwater.coordinator.groups.classic.group import ClassicGroup, State
from headwater.coordinator.groups.classic.member import ClassicMember
from headwater.coordinator.groups.context import GroupContext, ShardState
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

MEMBER_ID_REQUIRED_SINCE: Final = 4
SKIP_ASSIGNMENT_SINCE: Final = 9
NEW_MEMBER_TIMEOUT_MS: Final = 5 * 60_000  # for a member that waits for its first answer; Kafka has no property for it

_NAME_CHARACTERS_MAX: Final = 249


def member_id_for(name: str, random: Random) -> str:
    """`<name>-<uuid4>`. Of a long name the start only: the whole must fit into a string of the protocol."""
    raw = bytearray(random.bytes(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return f"{name[:_NAME_CHARACTERS_MAX]}-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class Join:
    """One JoinGroup request to one group."""

    __slots__ = ("context", "effects", "group", "now_ms", "random", "request", "settings", "state", "ticket")

    def __init__(
        self,
        group: ClassicGroup,
        context: GroupContext,
        request: JoinGroupRequest,
        ticket: Ticket,
        now_ms: int,
        *,
        state: ShardState,
        effects: Effects,
    ) -> None:
        self.group = group
        self.context = context
        self.request = request
        self.ticket = ticket
        self.now_ms = now_ms
        self.state = state
        self.settings = state.settings
        self.random = state.random
        self.effects = effects

    def run(self) -> None:
        group, member_id = self.group, self.request.member_id
        if not self._has_room(member_id):
            rebalance.remove_member(group, member_id, self.effects)
            self._fail(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
        elif not group.supports(self.request.protocol_type, [protocol.name for protocol in self.request.protocols]):
            self._fail(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id)
        elif not member_id:
            self._join_new()
        elif member_id in group.pending_joins and self.request.group_instance_id is None:
            self._add(member_id)
        else:
            self._join_known(member_id)

    def _has_room(self, member_id: str) -> bool:
        group, size_max = self.group, self.settings.group_size_max
        if group.is_empty:
            return True
        member = group.members.get(member_id)
        if group.state is State.PREPARING_REBALANCE:  # after the limit was lowered, the last to come do not get in
            return (member is not None and member.is_awaiting_join) or group.awaiting_join_count < size_max
        return member is not None or len(group.members) < size_max

    def _join_new(self) -> None:
        group, instance_id = self.group, self.request.group_instance_id
        if instance_id is not None:
            new_id = member_id_for(instance_id, self.random)
            known_id = group.static_members.get(instance_id)
            if known_id is None:
                self._add(new_id)
            else:
                self._replace_static(group.members[known_id], new_id)
            return
        new_id = member_id_for(self.context.client_id, self.random)
        if self.context.api_version < MEMBER_ID_REQUIRED_SINCE:
            self._add(new_id)
            return
        group.pending_joins[new_id] = None
        self.effects.timers[group.session_timer(new_id)] = self.request.session_timeout_ms
        self._fail(ErrorCode.MEMBER_ID_REQUIRED, new_id)

    def _join_known(self, member_id: str) -> None:
        group = self.group
        try:
            member = group.validate_member(member_id, self.request.group_instance_id)
        except KafkaError as error:
            self._fail(error.code, member_id)
            return
        changed = member.protocols != self._protocols()
        leads = group.leader_id == member_id
        if group.state is State.PREPARING_REBALANCE or changed or (group.state is State.STABLE and leads):
            self._update(member)
            rebalance.after_change(group, self.settings, self.now_ms, self.effects)
        else:  # it missed our answer, or asks without need
            with_members = leads and group.state is State.COMPLETING_REBALANCE
            self._reply(rebalance.join_response(group, member, with_members=with_members))

    def _add(self, member_id: str) -> None:
        group, request = self.group, self.request
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            self.context.client_id,
            self.context.client_host,
            self._rebalance_timeout_ms(),
            request.session_timeout_ms,
            self._protocols(),
            is_new=True,
        )
        if group.initial_delay_ms is not None:
            group.new_member_added = True
        if not group.members:
            group.protocol_type = request.protocol_type
        group.add(member)
        group.park_join(member, self.ticket)
        rebalance.reset_session(group, member, self.effects, NEW_MEMBER_TIMEOUT_MS)
        rebalance.after_change(group, self.settings, self.now_ms, self.effects)

    def _update(self, member: ClassicMember) -> None:
        """What the member now says counts, and it waits with this request instead of an earlier one."""
        rebalance.refuse(self.group, member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, self.effects)
        self.group.set_protocols(member, self._protocols())
        member.rebalance_timeout_ms = self._rebalance_timeout_ms()
        member.session_timeout_ms = self.request.session_timeout_ms
        self.group.park_join(member, self.ticket)

    def _replace_static(self, member: ClassicMember, new_id: str) -> None:
        group, old_id, old_leader = self.group, member.member_id, self.group.leader_id
        assert not group.is_empty
        rebalance.refuse(group, member, ErrorCode.FENCED_INSTANCE_ID, old_id, self.effects)
        self.effects.timers[group.session_timer(old_id)] = None
        group.replace_static(member, new_id)
        self._update(member)
        rebalance.reset_session(group, member, self.effects)
        if group.state is State.STABLE and group.select_protocol() == group.protocol_name:
            record = group.record()
            if self.state.fits([record]):
                self._keep_generation(member, old_leader or "", record)
                return
        rebalance.after_change(group, self.settings, self.now_ms, self.effects)

    def _keep_generation(self, member: ClassicMember, old_leader: str, record: CoordinatorRecord) -> None:
        """The new one goes on with the assignment of the one that it replaces."""
        group = self.group
        group.update_subscribed_topics()
        self.effects.records.append(record)
        leads = group.leader_id == member.member_id
        if self.context.api_version >= SKIP_ASSIGNMENT_SINCE:
            response = rebalance.join_response(group, member, with_members=leads)
            response.skip_assignment = leads
        else:  # an older leader must not learn that it leads, or it would assign
            response = rebalance.join_response(group, member, with_members=False)
            response.leader = old_leader
        rebalance.answer_join(group, member, response, self.effects)

    def _protocols(self) -> list[tuple[str, bytes]]:
        return [(protocol.name, bytes(protocol.metadata)) for protocol in self.request.protocols]

    def _rebalance_timeout_ms(self) -> int:
        timeout_ms = self.request.rebalance_timeout_ms
        return self.request.session_timeout_ms if self.context.api_version == 0 or timeout_ms < 0 else timeout_ms

    def _fail(self, code: ErrorCode, member_id: str) -> None:
        self._reply(JoinGroupResponse(error_code=code, member_id=member_id))

    def _reply(self, response: JoinGroupResponse) -> None:
        self.effects.replies.append((self.ticket, response))
