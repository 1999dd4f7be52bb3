"""FindCoordinator: the broker that coordinates a group or a transactional id.

v1 has transactional ids, v3 is flexible, v4 asks for many keys at once. v5 and v6 allow TRANSACTION_ABORTABLE and
share groups.
"""

from headwater.wire.schema import INT8, INT16, INT32, STRING, Array, Message, Struct, field


class FindCoordinatorRequest(Message, key=10, versions=(0, 6), flexible_since=3):
    key: str = field(STRING, until=3)
    key_type: int = field(INT8, since=1)  # 0 group, 1 transactional id, 2 share group
    coordinator_keys: list[str] = field(Array(STRING), since=4)


class Coordinator(Struct):
    key: str = field(STRING)
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)


class FindCoordinatorResponse(Message, key=10, versions=(0, 6), flexible_since=3):
    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16, until=3)
    error_message: str | None = field(STRING, since=1, until=3, nullable_since=0)
    node_id: int = field(INT32, until=3)
    host: str = field(STRING, until=3)
    port: int = field(INT32, until=3)
    coordinators: list[Coordinator] = field(Array(Coordinator), since=4)
