"""JoinGroup: enters a classic group.

The answer waits until all members are in; the leader then gets them all, to assign partitions.

v1 has a rebalance timeout apart from that of the session. From v4 on a new member is sent away with
MEMBER_ID_REQUIRED and comes back with the id that it was given. v5 has static members. v6 is flexible. v7 answers
the protocol type, v8 takes a reason, v9 can tell the leader not to assign.
"""

from headwater.wire.schema import BOOL, BYTES, INT16, INT32, STRING, Array, Message, Struct, field


class JoinGroupRequestProtocol(Struct):
    name: str = field(STRING)
    metadata: bytes = field(BYTES)


class JoinGroupRequest(Message, key=11, versions=(0, 9), flexible_since=6):
    group_id: str = field(STRING)
    session_timeout_ms: int = field(INT32)
    rebalance_timeout_ms: int = field(INT32, since=1, default=-1)  # -1: the session timeout counts
    member_id: str = field(STRING)  # empty from a new member
    group_instance_id: str | None = field(STRING, since=5, nullable_since=0)
    protocol_type: str = field(STRING)
    protocols: list[JoinGroupRequestProtocol] = field(Array(JoinGroupRequestProtocol))
    reason: str | None = field(STRING, since=8, nullable_since=0)


class JoinGroupResponseMember(Struct):
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=5, nullable_since=0)
    metadata: bytes = field(BYTES)


class JoinGroupResponse(Message, key=11, versions=(0, 9), flexible_since=6):
    throttle_time_ms: int = field(INT32, since=2)
    error_code: int = field(INT16)
    generation_id: int = field(INT32, default=-1)
    protocol_type: str | None = field(STRING, since=7, nullable_since=0)
    protocol_name: str | None = field(STRING, nullable_since=7)
    leader: str = field(STRING)
    skip_assignment: bool = field(BOOL, since=9)
    member_id: str = field(STRING)
    members: list[JoinGroupResponseMember] = field(Array(JoinGroupResponseMember))  # for the leader only
