"""DeleteGroups: removes empty groups and their offsets. v2 is flexible, v3 answers a message with each error."""

from headwater.wire.schema import INT16, INT32, STRING, Array, Message, Struct, field


class DeleteGroupsRequest(Message, key=42, versions=(0, 3), flexible_since=2):
    groups_names: list[str] = field(Array(STRING))


class DeletableGroupResult(Struct):
    group_id: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, since=3, nullable_since=0)


class DeleteGroupsResponse(Message, key=42, versions=(0, 3), flexible_since=2):
    throttle_time_ms: int = field(INT32)
    results: list[DeletableGroupResult] = field(Array(DeletableGroupResult))
