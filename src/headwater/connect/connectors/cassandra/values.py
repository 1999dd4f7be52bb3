"""A value of a record as the driver wants it for a column, by the column's CQL type."""

import base64
import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from headwater.connect.data.logical import days_to_date, millis_of, millis_to_timestamp
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError

_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_COLLECTION: Final = re.compile(r"(frozen|list|set|map)<(.*)>")


def to_cql(kind: str, value: Any) -> Any:
    """Raises DataError if the value cannot be one of this type."""
    if value is None:
        return None
    try:
        collection = _COLLECTION.fullmatch(kind)
        if collection is not None:
            return _collected(collection[1], collection[2], value)
        if kind in _BITS or kind == "varint":
            return _whole(kind, value)
        if kind in _SCALARS:
            return _SCALARS[kind](value)
    except (ValueError, TypeError, ArithmeticError, AttributeError):
        raise DataError(f"The value {value!r} cannot be a {kind}") from None
    raise DataError(f"Columns of the type {kind} are not supported")


def is_known(kind: str) -> bool:
    collection = _COLLECTION.fullmatch(kind)
    if collection is not None:
        return all(is_known(each) for each in _arguments(collection[2]))
    return kind in _BITS or kind == "varint" or kind in _SCALARS


def _collected(outer: str, inner: str, value: Any) -> Any:
    kinds = list(_arguments(inner))
    if outer == "frozen":
        return to_cql(inner, value)
    value = json.loads(value) if isinstance(value, str) else value
    if outer == "map":
        pairs = value.as_dict() if isinstance(value, Struct) else value
        return {to_cql(kinds[0], name): to_cql(kinds[1], each) for name, each in pairs.items()}
    if not isinstance(value, list | tuple):
        raise TypeError
    made = [to_cql(kinds[0], each) for each in value]
    return set(made) if outer == "set" else made


def _arguments(text: str) -> Iterator[str]:
    """`int, map<int, text>` is two."""
    depth = start = 0
    for at, character in enumerate(text):
        depth += (character == "<") - (character == ">")
        if character == "," and depth == 0:
            yield text[start:at].strip()
            start = at + 1
    yield text[start:].strip()


def _whole(kind: str, value: Any) -> int:
    if isinstance(value, date | time):
        value = millis_of(value)
    if isinstance(value, bool) or value != value or (not isinstance(value, str) and int(value) != value):
        raise ValueError
    made = int(value)
    if kind in _BITS and not -(1 << _BITS[kind] - 1) <= made < 1 << _BITS[kind] - 1:
        raise ValueError
    return made


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Struct | dict | list):
        return json.dumps(_plain(value), ensure_ascii=False, default=str)
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return _plain(value.as_dict())
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _ascii(value: Any) -> str:
    return _text(value).encode("ascii").decode()


def _truth(value: Any) -> bool:
    if value in (0, 1, True, False):
        return bool(value)
    return {"true": True, "false": False}[value.lower()] if value.lower() in ("true", "false") else _wrong()


def _wrong() -> Any:
    raise ValueError


def _number(value: Any) -> float:
    return _wrong() if isinstance(value, bool) else float(value)


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError
    return Decimal(str(value))


def _moment(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    if isinstance(value, int) and not isinstance(value, bool):
        return millis_to_timestamp(value)
    return _moment(millis_to_timestamp(int(value)) if value.lstrip("-").isdecimal() else datetime.fromisoformat(value))


def _day(value: Any) -> date:
    if isinstance(value, datetime):
        return value.astimezone(UTC).date()
    if isinstance(value, date):
        return value
    if isinstance(value, bool):
        raise TypeError
    return days_to_date(value) if isinstance(value, int) else date.fromisoformat(value)


def _time_of_day(value: Any) -> time:
    if isinstance(value, datetime):
        return value.astimezone(UTC).time()
    return value if isinstance(value, time) else time.fromisoformat(value)


def _uuid(value: Any) -> UUID:
    return value if isinstance(value, UUID) else UUID(value)


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return bytes.fromhex(value[2:]) if value.startswith("0x") else base64.b64decode(value, validate=True)
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else _wrong()


_SCALARS: Final[dict[str, Callable[[Any], Any]]] = {
    "text": _text,
    "varchar": _text,
    "ascii": _ascii,
    "boolean": _truth,
    "float": _number,
    "double": _number,
    "decimal": _decimal,
    "timestamp": _moment,
    "date": _day,
    "time": _time_of_day,
    "uuid": _uuid,
    "timeuuid": _uuid,
    "blob": _bytes,
    "inet": _text,
}
