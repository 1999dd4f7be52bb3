"""Heartbeat: a member of a classic group lives, and hears of rebalances. v3 has static members, v4 is flexible."""

from headwater.wire.schema import INT16, INT32, STRING, Message, field


class HeartbeatRequest(Message, key=12, versions=(0, 4), flexible_since=4):
    group_id: str = field(STRING)
    generation_id: int = field(INT32)
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable_since=0)


class HeartbeatResponse(Message, key=12, versions=(0, 4), flexible_since=4):
    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
