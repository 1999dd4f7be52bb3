"""Types of SQL as Arrow's, and back; rows as Arrow's tables. Needs pyarrow, which is imported when it is first
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
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


def to_arrow(given: Type) -> Callable[[Any], Any] | None:
    """How values of a type are brought into what `arrow_type` of it takes; None: they are that already."""
    if isinstance(given, ArrayType):
        item = to_arrow(given.item)
        return None if item is None else lambda value: None if value is None else [item(each) for each in value]
    if isinstance(given, MapType):
        return _map_to_pairs(to_arrow(given.key) or _as_it_is, to_arrow(given.value) or _as_it_is)
    if isinstance(given, StructType):
        return _struct_with({name: change for name, each in given.fields if (change := to_arrow(each)) is not None})
    if isinstance(given, DecimalType) and given.precision > 76:
        return lambda value: None if value is None else str(value)
    return None


def from_arrow(given: Type) -> Callable[[Any], Any] | None:
    """Back, from what Arrow gives as objects of Python."""
    if isinstance(given, ArrayType):
        item = from_arrow(given.item)
        return None if item is None else lambda value: None if value is None else [item(each) for each in value]
    if isinstance(given, MapType):
        return _pairs_to_map(from_arrow(given.key) or _as_it_is, from_arrow(given.value) or _as_it_is)
    if isinstance(given, StructType):
        return _struct_with({name: change for name, each in given.fields if (change := from_arrow(each)) is not None})
    if isinstance(given, DecimalType) and given.precision > 76:
        return lambda value: Decimal(value) if isinstance(value, str) else value
    return None


def _as_it_is(value: Any) -> Any:
    return value


def _map_to_pairs(key: Callable[[Any], Any], item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else [(key(name), item(each)) for name, each in value.items()]


def _pairs_to_map(key: Callable[[Any], Any], item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: {key(name): item(each) for name, each in value} if isinstance(value, list) else value


def _struct_with(changes: dict[str, Callable[[Any], Any]]) -> Callable[[Any], Any] | None:
    if not changes:
        return None

    def change(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: changes[name](each) if name in changes else each for name, each in value.items()}

    return change


def table_of(columns: Sequence[tuple[str, Type]], rows: Sequence[Sequence[Any]]) -> pa.Table:
    import pyarrow as pa

    arrays = []
    for place, (_, given) in enumerate(columns):
        change = to_arrow(given)
        values = [row[place] if change is None else change(row[place]) for row in rows]
        arrays.append(pa.array(values, arrow_type(given)))
    return pa.table(arrays, names=[name for name, _ in columns])
