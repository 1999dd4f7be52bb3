"""ListGroups: the groups that this broker coordinates. v3 is flexible, v4 filters by state, v5 by type."""

from headwater.wire.schema import INT16, INT32, STRING, Array, Message, Struct, field


class ListGroupsRequest(Message, key=16, versions=(0, 5), flexible_since=3):
    states_filter: list[str] = field(Array(STRING), since=4)
    types_filter: list[str] = field(Array(STRING), since=5)


class ListedGroup(Struct):
    group_id: str = field(STRING)
    protocol_type: str = field(STRING)
    group_state: str = field(STRING, since=4)
    group_type: str = field(STRING, since=5)


class ListGroupsResponse(Message, key=16, versions=(0, 5), flexible_since=3):
    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16)
    groups: list[ListedGroup] = field(Array(ListedGroup))
