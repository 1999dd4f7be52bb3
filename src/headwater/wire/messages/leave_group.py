"""LeaveGroup: members leave a classic group. v3 takes many at once, v4 is flexible, v5 takes reasons."""

from headwater.wire.schema import INT16, INT32, STRING, Array, Message, Struct, field


class MemberIdentity(Struct):
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, nullable_since=0)
    reason: str | None = field(STRING, since=5, nullable_since=0)


class LeaveGroupRequest(Message, key=13, versions=(0, 5), flexible_since=4):
    group_id: str = field(STRING)
    member_id: str = field(STRING, until=2)
    members: list[MemberIdentity] = field(Array(MemberIdentity), since=3)


class MemberResponse(Struct):
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, nullable_since=0)
    error_code: int = field(INT16)


class LeaveGroupResponse(Message, key=13, versions=(0, 5), flexible_since=4):
    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    members: list[MemberResponse] = field(Array(MemberResponse), since=3)
