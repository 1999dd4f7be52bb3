"""The requests of a member of a classic group. Pure."""

from collections.abc import Iterable
from typing import Final

from headwater.client.consumer.assignors.formats import encode_subscription
from headwater.client.consumer.membership.classic_state import ClassicState
from headwater.client.consumer.membership.settings import MembershipSettings
from headwater.wire.messages.heartbeat import HeartbeatRequest
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from headwater.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

PROTOCOL_TYPE: Final = "consumer"


def join_request(
    settings: MembershipSettings, state: ClassicState, topics: Iterable[str], reason: str
) -> JoinGroupRequest:
    """A member has as long as between two polls to come to a rebalance."""
    names = list(topics)
    return JoinGroupRequest(
        group_id=settings.group_id,
        session_timeout_ms=settings.session_timeout_ms,
        rebalance_timeout_ms=settings.max_poll_interval_ms,
        member_id=state.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[
            JoinGroupRequestProtocol(
                name=each.name, metadata=encode_subscription(state.subscription(each, names, settings.rack_id))
            )
            for each in settings.assignors
        ],
        reason=reason,
    )


def sync_request(
    settings: MembershipSettings, joined: JoinGroupResponse, assignments: list[SyncGroupRequestAssignment]
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=settings.group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=settings.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=joined.protocol_name,
        assignments=assignments,
    )


def heartbeat_request(settings: MembershipSettings, state: ClassicState) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=settings.group_id,
        generation_id=state.generation,
        member_id=state.member_id,
        group_instance_id=settings.group_instance_id,
    )


def leave_request(settings: MembershipSettings, member_id: str, reason: str) -> LeaveGroupRequest:
    """Old brokers read the first member id, later ones the list."""
    identity = MemberIdentity(member_id=member_id, group_instance_id=settings.group_instance_id, reason=reason)
    return LeaveGroupRequest(group_id=settings.group_id, member_id=member_id, members=[identity])
