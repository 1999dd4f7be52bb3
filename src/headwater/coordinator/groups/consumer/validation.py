"""What a request to a consumer group must be like. Each function raises KafkaError with Kafka's code and message."""

from headwater.base.errors import ErrorCode, KafkaError
from headwater.coordinator.groups.assignors.spec import Partition
from headwater.coordinator.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    Member,
    MemberState,
)
from headwater.coordinator.groups.context import GroupSettings
from headwater.coordinator.groups.group import CommitValidator
from headwater.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest


def heartbeat_request(request: ConsumerGroupHeartbeatRequest, version: int, settings: GroupSettings) -> None:
    """What is wrong with the request whatever the group is."""
    if "consumer" not in settings.rebalance_protocols:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    if version >= 1 or request.member_epoch > 0 or request.member_epoch == LEAVE_EPOCH:
        _not_blank(request.member_id, "MemberId can't be empty.")
    _not_blank(request.group_id, "GroupId can't be empty.")
    _not_blank(request.instance_id, "InstanceId can't be empty.")
    _not_blank(request.rack_id, "RackId can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise _invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
    elif request.member_epoch == LEAVE_STATIC_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < LEAVE_STATIC_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in settings.consumer_assignors:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. "
            f"Supported assignors: {', '.join(settings.consumer_assignors)}.",
        )


def member_epoch(member: Member, epoch: int, owned: list[Partition] | None) -> None:
    """A member that missed our last answer comes with its epoch before that: fine, if it has nothing that it should
    not.
    """
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    behind = epoch < member.member_epoch
    if behind and epoch == member.previous_member_epoch and owned is not None and set(owned) <= member.assigned.keys():
        return
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'smaller' if behind else 'greater'} member epoch ({epoch}) than the one known "
        f"by the group coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin.",
    )


def known_state(member: Member | None, owned: list[Partition] | None) -> None:
    """A later version of Kafka may have written a state that we do not know: its member begins again, with nothing."""
    if member is not None and member.state is MemberState.UNKNOWN and (owned is None or owned):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.",
        )


def instance_is_released(member: Member, member_id: str, instance_id: str) -> None:
    if member.member_epoch != LEAVE_STATIC_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id is "
            f"owned by {member.member_id} member.",
        )


def static_member(member: Member | None, member_id: str, instance_id: str) -> Member:
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def offset_commit(member: Member, epoch: int, version: int, *, transactional: bool) -> CommitValidator | None:
    """A commit with an older epoch counts for those partitions that the member has had since then (KIP-1251)."""
    if not transactional and member.classic is None and version < 9:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
        )
    if epoch == member.member_epoch:
        return None
    if epoch > member.member_epoch:
        raise _stale(member, f"epoch {epoch} is newer than current member epoch {member.member_epoch}.")
    return _AssignedSince(member, epoch)


def offset_fetch(member: Member, epoch: int) -> None:
    if epoch != member.member_epoch:
        raise _stale(member, f"epoch {epoch} does not match the expected member epoch {member.member_epoch}.")


class _AssignedSince:
    """Allows commits of partitions that the member has, and had at the epoch of the commit."""

    def __init__(self, member: Member, epoch: int) -> None:
        self._member = member
        self._epoch = epoch

    def __call__(self, topic: str, topic_id: bytes, partition: int) -> None:
        key = (topic_id, partition)
        since = self._member.assigned.get(key, self._member.pending_revocation.get(key))
        if since is None:
            raise _stale(self._member, f"{topic}-{partition} is not assigned or pending revocation for member.")
        if self._epoch < since:
            raise _stale(
                self._member, f"epoch {self._epoch} is older than assignment epoch {since} for {topic}-{partition}."
            )


def _stale(member: Member, message: str) -> KafkaError:
    code = ErrorCode.STALE_MEMBER_EPOCH if member.classic is None else ErrorCode.ILLEGAL_GENERATION
    return KafkaError(code, message)


def _not_blank(text: str | None, message: str) -> None:
    if text is not None and not text.strip():
        raise _invalid(message)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
