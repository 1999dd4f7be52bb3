"""Sending members of a group away, so that their partitions go to others without waiting for a session to end. No
state.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.admin.call_routing import failure, introduce, of_coordinator
from headwater.client.admin.groups import describe_group
from headwater.client.errors import raise_for
from headwater.client.session import KeyType, Session
from headwater.wire.messages import leave_group as wire

_MANY_SINCE: Final = 3


class MemberToRemove(NamedTuple):
    """A static member by its instance id, or a dynamic one by its member id."""

    instance_id: str | None = None
    member_id: str = ""

    def __str__(self) -> str:
        return self.member_id if self.instance_id is None else f"instance {self.instance_id}"


async def remove_members(
    session: Session,
    group_id: str,
    members: Iterable[MemberToRemove] | None = None,
    *,
    reason: str = "removed by an admin client",
) -> dict[MemberToRemove, KafkaError | None]:
    """These members, or all (None). Of a group of the new protocol, static members only."""
    leaving = list(dict.fromkeys(members)) if members is not None else await _all_members(session, group_id)
    if not leaving:
        return {}
    request = wire.LeaveGroupRequest(
        group_id=group_id,
        members=[
            wire.MemberIdentity(member_id=each.member_id, group_instance_id=each.instance_id, reason=reason)
            for each in leaving
        ],
    )
    await introduce(session)
    link = await session.coordinator_link(group_id, KeyType.GROUP)
    if link.version_for(request) < _MANY_SINCE:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker lets members leave by themselves only")
    response = await of_coordinator(
        session, group_id, KeyType.GROUP, request, wire.LeaveGroupResponse, lambda answer: answer.error_code
    )
    raise_for(response.error_code, f"group {group_id!r}")
    by_instance = {each.group_instance_id: each.error_code for each in response.members}
    by_member = {each.member_id: each.error_code for each in response.members}
    return {
        each: failure(
            by_member.get(each.member_id, 0) if each.instance_id is None else by_instance.get(each.instance_id, 0)
        )
        for each in leaving
    }


async def _all_members(session: Session, group_id: str) -> list[MemberToRemove]:
    described = await describe_group(session, group_id)
    return [
        MemberToRemove(None, each.member_id) if each.instance_id is None else MemberToRemove(each.instance_id)
        for each in described.members
    ]
