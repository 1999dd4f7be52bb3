"""Rows of a server's answer as values of Python: a DECIMAL keeps its digits, a DOUBLE is a float.

JSON writes both as a number with a point, so the type of the column says which of them it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from headwater.sql.language.errors import SqlError
from headwater.sql.language.reading import Reader
from headwater.sql.language.tokens import tokenize
from headwater.sql.language.types import ArrayType, DecimalType, MapType, StructType, Type


def row_reader(column_types: Sequence[str]) -> Callable[[bytes], Any]:
    """Reads a line of an answer: a row of these columns, or an object that tells of an error."""
    converters = [_converter(each) for each in column_types]

    def read(line: bytes) -> Any:
        found = json.loads(line, parse_float=Decimal)
        if not isinstance(found, list) or len(found) != len(converters):
            return _approximate(found)
        return [convert(each) for convert, each in zip(converters, found, strict=True)]

    return read


def _converter(text: str) -> Callable[[Any], Any]:
    if "DECIMAL" not in text:
        return _approximate
    try:
        wanted = Reader(tokenize(text), text, {}).type()
    except SqlError:
        return _approximate
    return lambda value: _exact(value, wanted)


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
