"""ConsumerGroups: the requests, timers and records of consumer groups, each led to its group.

Owns no state of its own: groups live in `ShardState.groups`, and those of type consumer are changed here only. Nothing
waits in a consumer group: every request is answered by the decision that it sets off.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from typing import Any

from headwater.base.errors import ErrorCode, KafkaError, bounded
from headwater.coordinator.effects import CoordinatorRecord, Effects, Ticket, TimerKey
from headwater.coordinator.groups.classic.group import ClassicGroup
from headwater.coordinator.groups.consumer import classic_members, conversion, describe, heartbeat, leave, validation
from headwater.coordinator.groups.consumer.decision import Decision
from headwater.coordinator.groups.consumer.group import ConsumerGroup, timer_key
from headwater.coordinator.groups.consumer.member import JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH, MemberState
from headwater.coordinator.groups.context import GroupContext, Parked, ShardState
from headwater.coordinator.records.consumer_records import RecordType, decode
from headwater.wire.messages.consumer_group_describe import DescribedGroup
from headwater.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from headwater.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


class ConsumerGroups:
    def __init__(self, state: ShardState) -> None:
        self._state = state

    def group(self, group_id: str) -> ConsumerGroup | None:
        group = self._state.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    # Members of the consumer protocol

    def consumer_group_heartbeat(
        self, context: GroupContext, request: ConsumerGroupHeartbeatRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        try:
            validation.heartbeat_request(request, context.api_version, self._state.settings)
            if request.member_epoch in (LEAVE_EPOCH, LEAVE_STATIC_EPOCH):
                return self._leave(request, ticket, now_ms)
            return self._heartbeat(context, request, ticket, now_ms)
        except KafkaError as error:
            response = ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
            return Effects(replies=[(ticket, response)])

    def consumer_group_describe(self, group_id: str) -> DescribedGroup:
        group = self._state.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return describe.described(group, self._state.topics, self._state.settings)
        reason = "not found" if group is None else "is not a consumer group"
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=bounded(f"Group {group_id} {reason}."),
        )

    def _heartbeat(
        self, context: GroupContext, request: ConsumerGroupHeartbeatRequest, ticket: Ticket, now_ms: int
    ) -> Effects:
        decision, classic = self._decide_or_create(request.group_id, now_ms, create=request.member_epoch == JOIN_EPOCH)
        heartbeat.validate(decision.group, request, self._state.settings)
        if classic is not None:
            self._take_over(classic, decision)
        self._state.groups[request.group_id] = decision.group
        member_id = request.member_id or self._new_member_id()
        response = heartbeat.heartbeat(decision, context, request, member_id)
        return self._told(decision, ticket, response, ConsumerGroupHeartbeatResponse)

    def _leave(self, request: ConsumerGroupHeartbeatRequest, ticket: Ticket, now_ms: int) -> Effects:
        decision = self._decide(request.group_id, now_ms)
        member = leave.leaving_member(decision.group, request)
        response = leave.leave(decision, member, request.member_epoch)
        return self._told(decision, ticket, response, ConsumerGroupHeartbeatResponse)

    # Members of the classic protocol

    def join_group(self, context: GroupContext, request: JoinGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        decision = self._decide(request.group_id, now_ms)
        member_id = request.member_id or self._new_member_id()
        try:
            subscription = classic_members.validate_join(
                decision.group, request, member_id, self._state.settings, self._state.topics
            )
            if classic_members.needs_known_id(context, request):
                raise KafkaError(ErrorCode.MEMBER_ID_REQUIRED)
        except KafkaError as error:
            told_id = member_id if error.code == ErrorCode.MEMBER_ID_REQUIRED else ""
            return Effects(replies=[(ticket, JoinGroupResponse(error_code=error.code, member_id=told_id))])
        response = classic_members.join(decision, context, request, member_id, subscription)
        return self._told(decision, ticket, response, JoinGroupResponse)

    def sync_group(self, context: GroupContext, request: SyncGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        del context
        decision = self._decide(request.group_id, now_ms)
        try:
            response = classic_members.sync(decision, request)
        except KafkaError as error:
            response = SyncGroupResponse(error_code=error.code)
            if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
                classic_members.send_to_join(decision, request.member_id)
        return self._told(decision, ticket, response, SyncGroupResponse)

    def heartbeat(self, context: GroupContext, request: HeartbeatRequest, ticket: Ticket, now_ms: int) -> Effects:
        del context
        decision = self._decide(request.group_id, now_ms)
        try:
            code = classic_members.heartbeat(decision, request)
        except KafkaError as error:
            code = error.code
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            classic_members.send_to_join(decision, request.member_id)
        return self._told(decision, ticket, HeartbeatResponse(error_code=code), HeartbeatResponse)

    def leave_group(self, context: GroupContext, request: LeaveGroupRequest, ticket: Ticket, now_ms: int) -> Effects:
        decision = self._decide(request.group_id, now_ms)
        response = classic_members.leave(decision, request, context.api_version)
        return self._told(decision, ticket, response, LeaveGroupResponse)

    # The runtime's side

    def replay(self, record: CoordinatorRecord) -> bool:
        read = decode(record)
        if read is None:
            return False
        group = self.group(read.group_id)
        if group is None:
            if read.value is None:
                return True  # the end of something whose beginning was compacted away
            group = self._state.groups[read.group_id] = ConsumerGroup(read.group_id)
        group.apply(read)
        if read.type is RecordType.GROUP_METADATA and read.value is None:
            del self._state.groups[read.group_id]
        return True

    def timers_found(self) -> Iterator[tuple[TimerKey, int]]:
        for group in self._state.groups.values():
            if isinstance(group, ConsumerGroup):
                session_ms = self._state.settings_of(group.group_id).consumer_session_timeout_ms
                for member in group.members.values():
                    yield timer_key("session", group.group_id, member.member_id), session_ms
                    if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
                        group.revoking_at[member.member_id] = member.member_epoch
                        yield timer_key("rebalance", group.group_id, member.member_id), member.rebalance_timeout_ms

    def on_timer(self, key: TimerKey, now_ms: int) -> Effects:
        assert isinstance(key, tuple)
        _, timer, group_id, member_id = key
        group = self.group(group_id)
        member = None if group is None else group.members.get(member_id)
        if group is None or member is None:
            return Effects()
        if timer == "rebalance" and group.revoking_at.pop(member_id, None) != member.member_epoch:
            return Effects()  # it went on in time
        group.join_timers.discard(member_id)
        decision = Decision(self._state, group, now_ms)
        leave.remove(decision, [member])
        return decision.effects

    def on_metadata_changed(self, now_ms: int) -> Effects:
        """Nothing yet: a group looks at its topics again when a member is heard of, for only then can it tell
        someone.
        """
        del now_ms
        return Effects()

    def parked(self) -> Parked:
        return []

    # Inside

    def _told(self, decision: Decision, ticket: Ticket, response: Any, refused: Callable[..., Any]) -> Effects:
        """The decision with its answer, or nothing but an error if its records are more than the log takes at once."""
        if not self._state.fits(decision.effects.records) and decision.take_back():
            return Effects(replies=[(ticket, refused(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))])
        decision.effects.replies.append((ticket, response))
        return decision.effects

    def _decide(self, group_id: str, now_ms: int) -> Decision:
        group = self._state.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return Decision(self._state, group, now_ms, known=group)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")

    def _decide_or_create(self, group_id: str, now_ms: int, *, create: bool) -> tuple[Decision, ClassicGroup | None]:
        """Also the classic group that the decision's group is to take the place of. Nothing is changed yet."""
        group = self._state.groups.get(group_id)
        if not create or isinstance(group, ConsumerGroup):
            return self._decide(group_id, now_ms), None
        assert group is None or isinstance(group, ClassicGroup)
        if group is None or group.is_empty:
            effects = Effects(records=[] if group is None else group.tombstones())
            return Decision(self._state, ConsumerGroup(group_id), now_ms, effects, known=group), group
        consumer, records = conversion.upgraded(group, self._state)
        decision = Decision(self._state, consumer, now_ms, known=group)
        decision.effects.records += [*group.tombstones(), *(record.encode() for record in records)]
        return decision, group

    def _take_over(self, classic: ClassicGroup, decision: Decision) -> None:
        conversion.release(classic, decision.effects)
        for member in decision.group.members.values():
            assert member.classic is not None
            decision.set_timer("session", member.member_id, member.classic.session_timeout_ms)

    def _new_member_id(self) -> str:
        return urlsafe_b64encode(self._state.random.bytes(16)).rstrip(b"=").decode()
