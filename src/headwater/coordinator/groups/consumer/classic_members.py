"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, served from the
target assignment.

Such a member sees a group like any other, but nobody waits for anybody: JoinGroup takes it to its next epoch (its
generation) at once, SyncGroup hands out what it has, and Heartbeat sends it to join again when there is a step to take.
It gives partitions up by joining without them: so it goes through a join for each step. It has a rebalance timeout to
come back when it was sent to join, and to sync when it has joined.
"""

from dataclasses import replace

from headwater.base.errors import ErrorCode, KafkaError
from headwater.coordinator.groups.consumer import conversion, embedded, validation
from headwater.coordinator.groups.consumer.decision import Decision
from headwater.coordinator.groups.consumer.group import PROTOCOL_TYPE, ConsumerGroup
from headwater.coordinator.groups.consumer.heartbeat import known_or_new_member, throw_if_full, update_member
from headwater.coordinator.groups.consumer.leave import remove
from headwater.coordinator.groups.consumer.member import ClassicMetadata, Member, MemberState
from headwater.coordinator.groups.context import GroupContext, GroupSettings, Topics
from headwater.wire.messages.heartbeat import HeartbeatRequest
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from headwater.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MEMBER_ID_REQUIRED_SINCE = 4


def validate_join(
    group: ConsumerGroup, request: JoinGroupRequest, member_id: str, settings: GroupSettings, topics: Topics
) -> embedded.Subscription:
    """All that can be wrong with a join. `member_id` is that of the request, or a new one where it had none."""
    if not settings.session_timeout_min_ms <= request.session_timeout_ms <= settings.session_timeout_max_ms:
        raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
    throw_if_full(group, member_id, settings)
    if not group.supports_classic(request.protocol_type, [protocol.name for protocol in request.protocols]):
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")
    if request.group_instance_id is not None and request.member_id:
        validation.static_member(
            group.static_member(request.group_instance_id), request.member_id, request.group_instance_id
        )
    try:
        subscription = embedded.read_subscription(bytes(request.protocols[0].metadata))
    except ValueError as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from None
    member = group.static_member(request.group_instance_id) or group.members.get(member_id)
    validation.known_state(member, embedded.with_ids(subscription.owned, topics))
    return subscription


def needs_known_id(context: GroupContext, request: JoinGroupRequest) -> bool:
    dynamic = request.group_instance_id is None
    return dynamic and not request.member_id and context.api_version >= MEMBER_ID_REQUIRED_SINCE


def join(
    decision: Decision,
    context: GroupContext,
    request: JoinGroupRequest,
    member_id: str,
    subscription: embedded.Subscription,
) -> JoinGroupResponse:
    group, topics = decision.group, decision.state.topics
    replaced = group.static_member(request.group_instance_id)
    downgrade = replaced is not None and _leaves_only_classic(decision, replaced)
    old = known_or_new_member(decision, member_id, request.group_instance_id)
    new = _with_request(old, context, request, subscription)
    owned = embedded.with_ids(subscription.owned, topics)
    updated = update_member(decision, old, new, owned, assign=not downgrade)
    protocol = request.protocols[0].name
    if downgrade:
        conversion.downgrade(decision, (), begin_rebalance=group.assignment_epoch < group.group_epoch)
    else:
        group.join_timers.discard(member_id)
        decision.set_timer("join", member_id, None)
        decision.set_timer("session", member_id, request.session_timeout_ms)
        decision.set_timer("sync", member_id, new.rebalance_timeout_ms)
        if group.revoking_at.pop(member_id, None) is not None:  # it spoke the consumer protocol until now
            decision.set_timer("rebalance", member_id, None)
    return JoinGroupResponse(
        member_id=member_id,
        generation_id=updated.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol,
    )


def sync(decision: Decision, request: SyncGroupRequest) -> SyncGroupResponse:
    group = decision.group
    member, classic = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    protocol, metadata = classic.protocols[0]
    for claimed, actual in ((request.protocol_type, PROTOCOL_TYPE), (request.protocol_name, protocol)):
        if claimed is not None and claimed != actual:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.assignment_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
    decision.set_timer("sync", member.member_id, None)
    decision.set_timer("session", member.member_id, classic.session_timeout_ms)
    version = embedded.read_subscription(metadata).version
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=embedded.write_assignment(member.assigned, decision.state.topics, version),
    )


def send_to_join(decision: Decision, member_id: str) -> None:
    """It was told that a rebalance is in progress. The time until it joins runs from the first time."""
    if member_id not in decision.group.join_timers and member_id in decision.group.members:
        decision.group.join_timers.add(member_id)
        decision.set_timer("join", member_id, decision.group.members[member_id].rebalance_timeout_ms)


def heartbeat(decision: Decision, request: HeartbeatRequest) -> ErrorCode:
    group = decision.group
    member, classic = _classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    decision.set_timer("session", member.member_id, classic.session_timeout_ms)
    # Kafka leaves this to members of the consumer protocol. There may be none, if groups may not become classic ones.
    decision.update_group_epoch(changed=decision.resolve_regexes() if group.regexes else False)
    decision.update_target()
    can_step = member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_others(member)
    behind = member.member_epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS
    return ErrorCode.REBALANCE_IN_PROGRESS if behind or can_step else ErrorCode.NONE


def leave(decision: Decision, request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
    identities = request.members if version >= 3 else [MemberIdentity(member_id=request.member_id)]
    answers = []
    leaving: dict[str, Member] = {}
    for identity in identities:
        answer = MemberResponse(member_id=identity.member_id, group_instance_id=identity.group_instance_id)
        try:
            member = _leaving_member(decision.group, identity)
            leaving[member.member_id] = member
        except KafkaError as error:
            answer.error_code = error.code
        answers.append(answer)
    remove(decision, leaving.values())
    return LeaveGroupResponse(members=answers) if version >= 3 else LeaveGroupResponse(error_code=answers[0].error_code)


def _leaves_only_classic(decision: Decision, replaced: Member) -> bool:
    """Whether the member that is about to be replaced is the last of the consumer protocol."""
    group, settings = decision.group, decision.state.settings
    others_classic = group.classic_member_count == len(group.members) - 1 and replaced.classic is None
    allowed = settings.consumer_migration_policy in ("downgrade", "bidirectional")
    return others_classic and allowed and len(group.members) <= settings.group_size_max


def _with_request(
    member: Member, context: GroupContext, request: JoinGroupRequest, subscription: embedded.Subscription
) -> Member:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else request.session_timeout_ms,
        topic_names=frozenset(subscription.topics),
        regex="",
        client_id=context.client_id,
        client_host=context.client_host,
        classic=ClassicMetadata(
            request.session_timeout_ms,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        ),
    )


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> tuple[Member, ClassicMetadata]:
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = validation.static_member(group.static_member(instance_id), member_id, instance_id)
    if member.classic is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation != member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> Member:
    if identity.group_instance_id is None:
        return group.member(identity.member_id)
    member = group.static_member(identity.group_instance_id)
    claimed = identity.member_id or (member.member_id if member is not None else "")
    return validation.static_member(member, claimed, identity.group_instance_id)
