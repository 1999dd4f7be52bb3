"""ClassicGroups: the requests, timers and records of classic groups, each led to its group.

Owns no state of its own: groups live in `ShardState.groups`, and those of type classic are changed here only.
"""

from collections.abc import Iterator

from headwater.base.errors import ErrorCode, KafkaError
from headwater.coordinator.effects import CoordinatorRecord, Effects, Ticket, TimerKey
from headwater.coordinator.groups.classic import rebalance
from headwater.coordinator.groups.classic.group import ClassicGroup, State
from headwater.coordinator.groups.classic.join import Join
from headwater.coordinator.groups.context import ErrorResponse, GroupContext, Parked, ShardState
from headwater.coordinator.records.group_records import GroupMetadataRecord, read_record
from headwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicGroups:
    def __init__(self, state: ShardState) -> None:
        self._state = state

    def group(self, group_id: str) -> ClassicGroup | None:
        group = self._state.groups.get(group_id)
        return group if isinstance(group, ClassicGroup) else None

    # Requests

    def join_group(self, context: GroupContext, request: JoinGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        effects = Effects()
        settings = self._state.settings
        if not request.group_id:
            return _join_error(ticket, ErrorCode.INVALID_GROUP_ID, request.member_id)
        if not settings.session_timeout_min_ms <= request.session_timeout_ms <= settings.session_timeout_max_ms:
            return _join_error(ticket, ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id)
        if any(len(protocol.metadata) > self._state.batch_bytes_max() for protocol in request.protocols):
            return _join_error(
                ticket, ErrorCode.UNKNOWN_SERVER_ERROR, request.member_id
            )  # no group could be written down
        group = self.group(request.group_id)
        if group is None:
            if request.member_id:
                return _join_error(ticket, ErrorCode.UNKNOWN_MEMBER_ID, request.member_id)
            if not request.protocol_type or not request.protocols:
                return _join_error(ticket, ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
            group = self._create(request.group_id, now_ms, effects)
        Join(group, context, request, ticket, now_ms, state=self._state, effects=effects).run()
        return effects

    def sync_group(self, context: GroupContext, request: SyncGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        del context
        effects = Effects()
        try:
            group = self._group_for_sync(request)
            member = group.validate_member(request.member_id, request.group_instance_id)
            _validate_generation(group, request)
        except KafkaError as error:
            effects.replies.append((ticket, SyncGroupResponse(error_code=error.code)))
            return effects
        if group.state is State.PREPARING_REBALANCE:
            effects.replies.append((ticket, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)))
            return effects
        rebalance.synced(group, member, effects)
        if (
            group.state is State.STABLE
        ):  # a member that comes back: from here on it has a whole session again, it will think
            rebalance.reset_session(group, member, effects)
            effects.replies.append((ticket, rebalance.sync_response(group, member)))
            return effects
        again = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        rebalance.answer_sync(member, again, effects)  # one that waits already, from before it lost its connection
        member.sync_ticket = ticket
        if group.leader_id == member.member_id:
            assignments = {each.member_id: bytes(each.assignment) for each in request.assignments}
            rebalance.assign(group, assignments, self._state, now_ms, effects)
        return effects

    def heartbeat(self, context: GroupContext, request: HeartbeatRequest, ticket: Ticket, now_ms: int) -> Effects:
        del context, now_ms
        effects = Effects()
        code = ErrorCode.NONE
        try:
            group = self._existing(request.group_id)
            member = group.validate_member(request.member_id, request.group_instance_id)
            if request.generation_id != group.generation:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            rebalance.reset_session(group, member, effects)
            if group.state is State.PREPARING_REBALANCE:
                code = ErrorCode.REBALANCE_IN_PROGRESS
        except KafkaError as error:
            code = error.code
        effects.replies.append((ticket, HeartbeatResponse(error_code=code)))
        return effects

    def leave_group(self, context: GroupContext, request: LeaveGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        effects = Effects()
        leaving = request.members
        if context.api_version < 3:
            leaving = [MemberIdentity(member_id=request.member_id)]
        if not request.group_id:
            effects.replies.append((ticket, LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID)))
            return effects
        group = self.group(request.group_id)
        answers = [self._leave(group, identity, effects) for identity in leaving]
        if group is not None and any(answer.error_code == ErrorCode.NONE for answer in answers):
            if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
                rebalance.prepare(group, self._state.settings, now_ms, effects)
            else:
                rebalance.complete_if_all_joined(group, now_ms, effects)
        response = LeaveGroupResponse(members=answers)
        if context.api_version < 3:
            response = LeaveGroupResponse(error_code=answers[0].error_code)
        effects.replies.append((ticket, response))
        return effects

    def offsets_committed(self, group: ClassicGroup, member_id: str, effects: Effects) -> None:
        """A commit of a member is as good as a heartbeat."""
        member = group.members.get(member_id)
        if member is not None and group.state in (State.STABLE, State.PREPARING_REBALANCE):
            rebalance.reset_session(group, member, effects)

    # The runtime's side

    def replay(self, record: CoordinatorRecord) -> bool:
        read = read_record(record)
        if not isinstance(read, GroupMetadataRecord):
            return False
        self.replay_group(read)
        return True

    def replay_group(self, read: GroupMetadataRecord) -> None:
        group_id = read.key.group
        if read.value is not None:
            self._state.groups[group_id] = ClassicGroup.from_record(group_id, read.value)
        elif self.group(group_id) is not None:
            del self._state.groups[group_id]

    def timers_found(self) -> Iterator[tuple[TimerKey, int]]:
        for group in self._all():
            for member in group.members.values():
                yield group.session_timer(member.member_id), member.session_timeout_ms

    def loaded(self, now_ms: int) -> Effects:
        effects = Effects()
        for group in self._all():
            if len(group.members) > self._state.settings.group_size_max:
                rebalance.prepare(group, self._state.settings, now_ms, effects)
        return effects

    def on_timer(self, key: TimerKey, now_ms: int) -> Effects:
        effects = Effects()
        assert isinstance(key, tuple)
        kind, group_id = key[1], key[2]
        group = self.group(group_id)
        if group is None:
            return effects
        if kind == "session":
            rebalance.on_session_timer(group, key[3], self._state.settings, now_ms, effects)
        elif kind == "join":
            rebalance.on_join_timer(group, self._state.settings, now_ms, effects)
        else:
            assert kind == "sync"
            rebalance.on_sync_timer(group, self._state.settings, now_ms, effects)
        return effects

    def parked(self) -> Parked:
        waiting: Parked = []
        for group in self._all():
            for member in group.members.values():
                if member.join_ticket is not None:
                    waiting.append((member.join_ticket, _join_failure(member.member_id)))
                if member.sync_ticket is not None:
                    waiting.append((member.sync_ticket, _sync_failure))
        return waiting

    # Inside

    def _all(self) -> list[ClassicGroup]:
        return [group for group in self._state.groups.values() if isinstance(group, ClassicGroup)]

    def _existing(self, group_id: str) -> ClassicGroup:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = self.group(group_id)
        if group is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def _group_for_sync(self, request: SyncGroupRequest) -> ClassicGroup:
        group = self._existing(request.group_id)
        if group.is_empty:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def _create(self, group_id: str, now_ms: int, effects: Effects) -> ClassicGroup:
        """In place of a consumer group without members, if there is one; its offsets stay."""
        previous = self._state.groups.pop(group_id, None)
        if previous is not None:
            assert previous.is_empty
            effects.records += previous.tombstones()
            effects.timers |= dict.fromkeys(previous.timer_keys())
        group = ClassicGroup(group_id, now_ms)
        self._state.groups[group_id] = group
        effects.records.append(group.record())
        return group

    def _leave(self, group: ClassicGroup | None, identity: MemberIdentity, effects: Effects) -> MemberResponse:
        answer = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
        member_id = identity.member_id
        try:
            if group is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if not member_id and identity.group_instance_id is not None:  # an admin names an instance alone
                member_id = group.static_members.get(identity.group_instance_id, "")
            if member_id not in group.pending_joins:
                group.validate_member(member_id, identity.group_instance_id)
            rebalance.remove_member(group, member_id, effects)
        except KafkaError as error:
            answer.error_code = error.code
        return answer


def _validate_generation(group: ClassicGroup, request: SyncGroupRequest) -> None:
    if request.generation_id != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    for claimed, actual in (
        (request.protocol_type, group.protocol_type),
        (request.protocol_name, group.protocol_name),
    ):
        if claimed is not None and actual is not None and claimed != actual:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _join_error(ticket: Ticket, code: ErrorCode, member_id: str) -> Effects:
    return Effects(replies=[(ticket, JoinGroupResponse(error_code=code, member_id=member_id))])


def _join_failure(member_id: str) -> ErrorResponse:
    return lambda code: JoinGroupResponse(error_code=code, member_id=member_id)


def _sync_failure(code: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)
