"""AlterClientQuotas: sets and removes quotas. v1 is flexible."""

from headwater.wire.schema import BOOL, FLOAT64, INT16, INT32, STRING, Array, Message, Struct, field


class EntityData(Struct):
    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable_since=0)


class OpData(Struct):
    key: str = field(STRING)
    value: float = field(FLOAT64)
    remove: bool = field(BOOL)


class EntryData(Struct):
    entity: list[EntityData] = field(Array(EntityData))
    ops: list[OpData] = field(Array(OpData))


class AlterClientQuotasRequest(Message, key=49, versions=(0, 1), flexible_since=1):
    entries: list[EntryData] = field(Array(EntryData))
    validate_only: bool = field(BOOL)


class EntryResult(Struct):
    """Kafka's schema calls this EntryData as well."""

    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable_since=0)
    entity: list[EntityData] = field(Array(EntityData))


class AlterClientQuotasResponse(Message, key=49, versions=(0, 1), flexible_since=1):
    throttle_time_ms: int = field(INT32)
    entries: list[EntryResult] = field(Array(EntryResult))
