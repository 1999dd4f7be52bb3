"""ConsumerGroupHeartbeat of a member that joins or stays: what it says is taken up, and it hears what it is to have."""

from collections.abc import Iterable
from dataclasses import replace

from headwater.base.errors import ErrorCode, KafkaError
from headwater.coordinator.groups.assignors.spec import Partition
from headwater.coordinator.groups.consumer import validation
from headwater.coordinator.groups.consumer.decision import Decision
from headwater.coordinator.groups.consumer.group import ConsumerGroup
from headwater.coordinator.groups.consumer.member import JOIN_EPOCH, Member, by_topic
from headwater.coordinator.groups.consumer.subscriptions import compile_regex
from headwater.coordinator.groups.context import GroupContext, GroupSettings
from headwater.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)


def validate(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, settings: GroupSettings) -> None:
    """All that can be wrong with this request to this group. After this, nothing fails."""
    joins = request.member_epoch == JOIN_EPOCH
    throw_if_full(group, request.member_id, settings)
    owned = owned_partitions(request.topic_partitions)
    if request.instance_id is None:
        member = group.members.get(request.member_id) if joins else group.member(request.member_id)
    elif joins:
        member = group.static_member(request.instance_id)
        if member is not None and member.classic is None:
            validation.instance_is_released(member, request.member_id, request.instance_id)
    else:
        member = validation.static_member(
            group.static_member(request.instance_id), request.member_id, request.instance_id
        )
    if member is not None and not joins:
        validation.member_epoch(member, request.member_epoch, owned)
    validation.known_state(member, owned)
    if request.subscribed_topic_regex and not group.regex_subscribers(request.subscribed_topic_regex):
        compile_regex(request.subscribed_topic_regex)


def throw_if_full(group: ConsumerGroup, member_id: str, settings: GroupSettings) -> None:
    if len(group.members) >= settings.consumer_group_size_max and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {settings.consumer_group_size_max} members.",
        )


def heartbeat(
    decision: Decision, context: GroupContext, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> ConsumerGroupHeartbeatResponse:
    """`request` was validated; `member_id` is that of the request, or a new one where it had none."""
    settings = decision.state.settings_of(decision.group.group_id)
    old = known_or_new_member(decision, member_id, request.instance_id)
    owned = owned_partitions(request.topic_partitions)
    updated = update_member(decision, old, _with_request(old, context, request), owned)
    if old.classic is not None:
        for timer in ("join", "sync"):
            decision.set_timer(timer, member_id, None)
        decision.group.join_timers.discard(member_id)
    decision.set_timer("session", member_id, settings.consumer_session_timeout_ms)
    response = ConsumerGroupHeartbeatResponse(
        member_id=member_id,
        member_epoch=updated.member_epoch,
        heartbeat_interval_ms=decision.next_heartbeat_ms(),
    )
    if request.member_epoch == JOIN_EPOCH or _is_full(request) or updated.assigned != old.assigned:
        response.assignment = _assignment(updated.assigned)
    return response


def known_or_new_member(decision: Decision, member_id: str, instance_id: str | None) -> Member:
    """A static member that comes back under another id has taken the place of the old one after this."""
    group = decision.group
    static = group.static_member(instance_id)
    if static is not None and static.member_id != member_id:
        member = replace(static, member_id=member_id, member_epoch=0, previous_member_epoch=0)
        decision.replace_member(static, member)
        return member
    return group.members.get(member_id) or Member(member_id)


def update_member(
    decision: Decision, old: Member, new: Member, owned: list[Partition] | None, *, assign: bool = True
) -> Member:
    """The member's subscription, then what follows for the group, then its next step towards the target.

    Without `assign` a target that is out of date stays, and no step is made towards it: the group is about to become a
    classic one.
    """
    names_changed = decision.put_member(old, new)
    regex_changed = new.regex != old.regex
    if regex_changed:
        decision.drop_unused_regexes()
    resolved_changed = decision.resolve_regexes() if new.regex or decision.group.regexes else False
    decision.update_group_epoch(changed=names_changed or regex_changed or resolved_changed)
    if assign:
        decision.update_target()
    elif decision.group.assignment_epoch < decision.group.group_epoch:
        return new
    return decision.reconcile(new, owned, subscription_changed=names_changed or regex_changed)


def owned_partitions(topics: Iterable[TopicPartitions] | None) -> list[Partition] | None:
    if topics is None:
        return None
    return [(topic.topic_id, partition) for topic in topics for partition in topic.partitions]


def _with_request(member: Member, context: GroupContext, request: ConsumerGroupHeartbeatRequest) -> Member:
    """What is null in the request did not change."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        topic_names=member.topic_names if names is None else frozenset(names),
        regex=member.regex if regex is None else regex,
        client_id=context.client_id,
        client_host=context.client_host,
        classic=None,
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A member that sends everything wants to hear everything: it may have lost its state."""
    subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and subscribes and request.topic_partitions is not None


def _assignment(partitions: Iterable[Partition]) -> Assignment:
    topics = by_topic(partitions).items()
    return Assignment(
        topic_partitions=[TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in topics]
    )
