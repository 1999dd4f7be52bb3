"""Decoded values as values of SQL's types, and what a STRING, a number or a STRUCT takes: ksqlDB's coercions.

Text takes numbers and booleans, BIGINT what INTEGER takes, DOUBLE whole numbers too; everything else must be what it is
declared as. Names are found as they are, then whatever their case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from headwater.sql import values
from headwater.sql.language.types import ArrayType, Base, DecimalType, MapType, StructType, Type
from headwater.sql.values import EvaluationError

Convert = Callable[[Any], Any]


def reading(wanted: Type) -> Convert:
    """What was decoded as a value of `wanted`; None stays None. Raises EvaluationError."""
    inner = _reading(wanted)
    return lambda value: None if value is None else inner(value)


def _reading(wanted: Type) -> Convert:
    if isinstance(wanted, ArrayType):
        item = reading(wanted.item)
        return lambda value: [item(each) for each in _of(list, value, wanted)]
    if isinstance(wanted, MapType):
        return _map(wanted)
    if isinstance(wanted, StructType):
        return _struct_reader(wanted.fields, _row_as_struct)
    if isinstance(wanted, DecimalType):
        return lambda value: values.fit(Decimal(_number(value, wanted)), wanted.precision, wanted.scale)
    return {
        Base.BOOLEAN: lambda value: _of(bool, value, wanted),
        Base.INTEGER: lambda value: values.int32(_whole(value, wanted)),
        Base.BIGINT: lambda value: values.int64(_whole(value, wanted)),
        Base.DOUBLE: lambda value: float(_number(value, wanted)),
        Base.STRING: _text,
        Base.BYTES: lambda value: bytes(_of(bytes, value, wanted)),
        Base.DATE: _date,
        Base.TIME: _time,
        Base.TIMESTAMP: _timestamp,
    }[wanted.base]


def _row_as_struct(names: Sequence[str], row: list[Any]) -> Any:
    return dict(zip(names, row, strict=True))


def row_reader(fields: Sequence[tuple[str, Type]]) -> Convert:
    """A decoded record as a row of these columns."""
    return _struct_reader(fields, lambda _, row: row)


def _struct_reader(fields: Sequence[tuple[str, Type]], made: Callable[[Sequence[str], list[Any]], Any]) -> Convert:
    names = [name for name, _ in fields]
    places = {name.upper(): place for place, name in enumerate(names)}
    exact = {name: place for place, name in enumerate(names)}
    read = [reading(each) for _, each in fields]

    def convert(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise EvaluationError(f"is no record but {type(value).__name__}")
        row: list[Any] = [None] * len(names)
        for name, each in value.items():
            place = exact.get(name)
            if place is None:
                place = places.get(name.upper())
            if place is not None:
                try:
                    row[place] = read[place](each)
                except EvaluationError as error:
                    raise EvaluationError(f"field {names[place]}: {error}") from None
        return made(names, row)

    return convert


def _map(wanted: MapType) -> Convert:
    key, item = reading(wanted.key), reading(wanted.value)

    def convert(value: Any) -> dict[Any, Any]:
        if isinstance(value, list):  # entries of key and value: how keys that may be NULL are written
            pairs = [(each.get("key"), each.get("value")) for each in value if isinstance(each, Mapping)]
        else:
            pairs = list(_of(dict, value, wanted).items())
        return {key(name): item(each) for name, each in pairs}

    return convert


def _of(kind: type, value: Any, wanted: Type) -> Any:
    if not isinstance(value, kind):
        raise EvaluationError(f"Cannot deserialize {type(value).__name__} as type {wanted}")
    return value


def _number(value: Any, wanted: Type) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise EvaluationError(f"Cannot deserialize {type(value).__name__} as type {wanted}")
    return value


def _whole(value: Any, wanted: Type) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        if isinstance(value, date | datetime | time):  # a logical type read as the number that it is stored as
            return _stored(value)
        raise EvaluationError(f"Cannot deserialize {type(value).__name__} as type {wanted}")
    return value


def _stored(value: Any) -> int:
    if isinstance(value, datetime):
        return values.millis(_naive(value))
    return values.days(value) if isinstance(value, date) else values.time_millis(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value if value.isascii() else values.encodable(value)
    if isinstance(value, list | dict | bytes):
        raise EvaluationError(f"Cannot deserialize {type(value).__name__} as type STRING")
    return values.as_text(value) if isinstance(value, bool | int | float | Decimal) else str(value)


def _naive(value: datetime) -> datetime:
    return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value


def _date(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    return values.from_days(_whole(value, Type(Base.DATE)))


def _time(value: Any) -> time:
    return value if isinstance(value, time) else values.from_time_millis(_whole(value, Type(Base.TIME)))


def _timestamp(value: Any) -> datetime:
    return _naive(value) if isinstance(value, datetime) else values.from_millis(_whole(value, Type(Base.TIMESTAMP)))
