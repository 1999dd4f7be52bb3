"""DescribeGroups: state, protocol and members of classic groups.

v3 has authorised operations, v4 static members. v5 is flexible. From v6 on an unknown group is an error, before that
it is a dead group.
"""

from headwater.wire.schema import BOOL, BYTES, INT16, INT32, STRING, Array, Message, Struct, field


class DescribeGroupsRequest(Message, key=15, versions=(0, 6), flexible_since=5):
    groups: list[str] = field(Array(STRING))
    include_authorized_operations: bool = field(BOOL, since=3)


class DescribedGroupMember(Struct):
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=4, nullable_since=0)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    member_metadata: bytes = field(BYTES)
    member_assignment: bytes = field(BYTES)


class DescribedGroup(Struct):
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=6, nullable_since=0)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    protocol_type: str = field(STRING)
    protocol_data: str = field(STRING)
    members: list[DescribedGroupMember] = field(Array(DescribedGroupMember))
    authorized_operations: int = field(INT32, since=3, default=-0x8000_0000)


class DescribeGroupsResponse(Message, key=15, versions=(0, 6), flexible_since=5):
    throttle_time_ms: int = field(INT32, since=1)
    groups: list[DescribedGroup] = field(Array(DescribedGroup))
