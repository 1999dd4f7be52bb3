"""Rows of a server's answer as values of Python: a DECIMAL keeps its digits, a DOUBLE is a float.

JSON writes both as a number with a point, so the type of the column says which of them it is. `for_python` goes
further: dates, times and bytes, which JSON has not, become those of Python.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final

from headwater.sql import values
from headwater.sql.expressions import casting
from headwater.sql.language import types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.token_reader import TokenReader
from headwater.sql.language.tokens import tokenize
from headwater.sql.language.types import ArrayType, Base, DecimalType, MapType, StructType, Type


def row_reader(column_types: Sequence[str]) -> Callable[[bytes], Any]:
    """Reads a line of an answer: a row of these columns, or an object that tells of an error."""
    converters = [_converter(each) for each in column_types]

    def read(line: bytes) -> Any:
        found = json.loads(line, parse_float=Decimal)
        if not isinstance(found, list) or len(found) != len(converters):
            return _approximate(found)
        return [convert(each) for convert, each in zip(converters, found, strict=True)]

    return read


def type_named(text: str) -> Type | None:
    """What the server calls the type of a column; None if it is none of ours."""
    try:
        return TokenReader(tokenize(text), text, {}).type()
    except SqlError:
        return None


def for_python(wanted: Type | None) -> Callable[[Any], Any] | None:
    """How what `row_reader` gives for a column becomes what a Python program expects; None: it is that already."""
    match wanted:
        case ArrayType():
            item = for_python(wanted.item)
            return None if item is None else _unless_null(lambda value: [item(each) for each in value])
        case MapType():
            key = casting.converter(types.STRING, wanted.key) or _same
            each_value = for_python(wanted.value) or _same
            return _unless_null(lambda value: {key(name): each_value(each) for name, each in value.items()})
        case StructType():
            inner = {name: change for name, each in wanted.fields if (change := for_python(each)) is not None}
            if not inner:
                return None
            return _unless_null(lambda value: {name: inner.get(name, _same)(each) for name, each in value.items()})
        case _:
            change = None if wanted is None else _MOMENTS.get(wanted.base)
            return None if change is None else _unless_null(change)


def _same(value: Any) -> Any:
    return value


def _unless_null(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else change(value)


# As text where they are columns, as numbers within arrays, maps and structs: as the server writes them.
_MOMENTS: Final[dict[Base, Callable[[Any], Any]]] = {
    Base.DATE: lambda value: values.from_days(value) if isinstance(value, int) else date.fromisoformat(value),
    Base.TIME: lambda value: values.from_time_millis(value) if isinstance(value, int) else time.fromisoformat(value),
    Base.TIMESTAMP: lambda value: (
        values.from_millis(value) if isinstance(value, int) else datetime.fromisoformat(value)
    ),
    Base.BYTES: base64.b64decode,
    Base.DOUBLE: lambda value: float(value) if isinstance(value, str) else value,  # "NaN" and "Infinity"
}


def _converter(text: str) -> Callable[[Any], Any]:
    if "DECIMAL" not in text:
        return _approximate
    wanted = type_named(text)
    return _approximate if wanted is None else (lambda value: _exact(value, wanted))


def _approximate(value: Any) -> Any:
    """Numbers with a point are floats."""
    match value:
        case Decimal():
            return float(value)
        case list():
            return [_approximate(each) for each in value]
        case dict():
            return {name: _approximate(each) for name, each in value.items()}
        case _:
            return value


def _exact(value: Any, wanted: Type) -> Any:
    """A value as its type means it: Decimals where it says DECIMAL, floats elsewhere."""
    match wanted, value:
        case DecimalType(), int() | Decimal() if not isinstance(value, bool):
            return Decimal(value)
        case ArrayType(item=item), list():
            return [_exact(each, item) for each in value]
        case MapType(value=inner), dict():
            return {name: _exact(each, inner) for name, each in value.items()}
        case StructType(fields=fields), dict():
            known = dict(fields)
            return {
                name: _exact(each, known[name]) if name in known else _approximate(each) for name, each in value.items()
            }
        case _:
            return _approximate(value)
