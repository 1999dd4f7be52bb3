"""SyncGroup: the leader of a classic group hands in the assignment, and each member gets its own.

v3 has static members, v4 is flexible, v5 checks protocol type and name.
"""

from headwater.wire.schema import BYTES, INT16, INT32, STRING, Array, Message, Struct, field


class SyncGroupRequestAssignment(Struct):
    member_id: str = field(STRING)
    assignment: bytes = field(BYTES)


class SyncGroupRequest(Message, key=14, versions=(0, 5), flexible_since=4):
    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable_since=0)
    protocol_type: str | None = field(STRING, since=5, nullable_since=0)
    protocol_name: str | None = field(STRING, since=5, nullable_since=0)
    assignments: list[SyncGroupRequestAssignment] = field(Array(SyncGroupRequestAssignment))


class SyncGroupResponse(Message, key=14, versions=(0, 5), flexible_since=4):
    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    protocol_type: str | None = field(STRING, since=5, nullable_since=0)
    protocol_name: str | None = field(STRING, since=5, nullable_since=0)
    assignment: bytes = field(BYTES)
