"""DescribeClientQuotas: quotas of users, clients and addresses that match a filter. v1 is flexible."""

from headwater.wire.schema import BOOL, FLOAT64, INT8, INT16, INT32, STRING, Array, Message, Struct, field


class ComponentData(Struct):
    entity_type: str = field(STRING)
    match_type: int = field(INT8)  # 0 exact, 1 default, 2 any specified
    match: str | None = field(STRING, nullable_since=0)


class DescribeClientQuotasRequest(Message, key=48, versions=(0, 1), flexible_since=1):
    components: list[ComponentData] = field(Array(ComponentData))
    strict: bool = field(BOOL)


class EntityData(Struct):
    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable_since=0)


class ValueData(Struct):
    key: str = field(STRING)
    value: float = field(FLOAT64)


class EntryData(Struct):
    entity: list[EntityData] = field(Array(EntityData))
    values: list[ValueData] = field(Array(ValueData))


class DescribeClientQuotasResponse(Message, key=48, versions=(0, 1), flexible_since=1):
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    entries: list[EntryData] | None = field(Array(EntryData), nullable_since=0)
