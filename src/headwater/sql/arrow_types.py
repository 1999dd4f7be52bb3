"""Types of SQL as Arrow's, and back; rows as Arrow's tables. Needs pyarrow, which is imported when it is first
needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from headwater.sql.language import types
from headwater.sql.language.types import ArrayType, Base, DecimalType, MapType, StructType, Type

if TYPE_CHECKING:
    import pyarrow as pa

HUGE: Final = (38, 0)  # how DuckDB gives sums of whole numbers


def arrow_type(given: Type) -> pa.DataType:
    import pyarrow as pa

    if isinstance(given, ArrayType):
        return pa.list_(arrow_type(given.item))
    if isinstance(given, MapType):
        return pa.map_(arrow_type(given.key), arrow_type(given.value))
    if isinstance(given, DecimalType):
        if given.precision > 76:
            return pa.string()
        return pa.decimal128(given.precision, given.scale) if given.precision <= 38 else pa.decimal256(given.precision, given.scale)  # fmt: skip
    if isinstance(given, StructType):
        return pa.struct([(name, arrow_type(each)) for name, each in given.fields])
    plain: dict[Base, pa.DataType] = {
        Base.BOOLEAN: pa.bool_(), Base.INTEGER: pa.int32(), Base.BIGINT: pa.int64(), Base.DOUBLE: pa.float64(),
        Base.STRING: pa.string(), Base.BYTES: pa.binary(), Base.DATE: pa.date32(), Base.TIME: pa.time64("us"),
        Base.TIMESTAMP: pa.timestamp("ms"),
    }  # fmt: skip
    return plain[given.base]


def sql_type(given: pa.DataType) -> Type:
    """The type that a column of a result has; STRING where SQL has none like it."""
    import pyarrow as pa

    checks = pa.types
    if checks.is_boolean(given):
        return types.BOOLEAN
    if checks.is_integer(given):
        return types.INTEGER if given.bit_width <= 32 and not checks.is_uint32(given) else types.BIGINT
    if checks.is_floating(given):
        return types.DOUBLE
    if checks.is_decimal(given):
        return types.BIGINT if (given.precision, given.scale) == HUGE else types.decimal(given.precision, given.scale)
    if checks.is_binary(given) or checks.is_large_binary(given):
        return types.BYTES
    if checks.is_date(given):
        return types.DATE
    if checks.is_time(given):
        return types.TIME
    if checks.is_timestamp(given):
        return types.TIMESTAMP
    if checks.is_list(given) or checks.is_large_list(given):
        return types.array(sql_type(given.value_type))
    if checks.is_map(given):
        return types.mapping(sql_type(given.key_type), sql_type(given.item_type))
    if checks.is_struct(given):
        return types.struct(*((each.name, sql_type(each.type)) for each in given))
    return types.STRING


def table_of(columns: Sequence[tuple[str, Type]], rows: Sequence[Sequence[Any]]) -> pa.Table:
    import pyarrow as pa

    arrays = []
    for place, (_, given) in enumerate(columns):
        wanted = arrow_type(given)
        values: Any = [row[place] for row in rows]
        if isinstance(given, MapType):
            values = [None if each is None else list(each.items()) for each in values]
        elif isinstance(given, DecimalType) and given.precision > 76:
            values = [None if each is None else str(each) for each in values]
        arrays.append(pa.array(values, wanted))
    return pa.table(arrays, names=[name for name, _ in columns])
