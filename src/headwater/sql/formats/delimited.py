"""The DELIMITED format: one line of comma-separated values, quoted where needed; an empty field is NULL."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Sequence
from typing import Any, Final

from headwater.sql import values
from headwater.sql.expressions.casting import converter, double_of
from headwater.sql.formats.port import Field, FormatOptions, Row, RowError, RowSerde
from headwater.sql.language import types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.types import Base, Type
from headwater.sql.values import EvaluationError

_NAMED: Final = {"TAB": "\t", "SPACE": " "}
csv.field_size_limit(max(csv.field_size_limit(), 2**31 - 1))  # of the process: a record has a bound of its own


class DelimitedFormat:
    name = "DELIMITED"

    def check(self, fields: Sequence[Field], /) -> None:
        for each in fields:
            if each.type.base in (Base.ARRAY, Base.MAP, Base.STRUCT):
                raise SqlError(
                    f"The 'DELIMITED' format does not support type '{each.type.base.value}', column: {types.quoted(each.name)}"
                )

    def serde(self, fields: Sequence[Field], options: FormatOptions, /) -> RowSerde:
        return _DelimitedSerde(fields, options.delimiter)


def delimiter(given: str) -> str:
    """The character of VALUE_DELIMITER and KEY_DELIMITER."""
    found = _NAMED.get(given.upper(), given)
    if len(found) != 1:
        raise SqlError(
            f"Invalid delimiter value: '{given}'. Delimiter must be a single character or one of {', '.join(_NAMED)}"
        )
    return found


class _DelimitedSerde:
    name = "DELIMITED"

    def __init__(self, fields: Sequence[Field], separator: str) -> None:
        self._names = [each.name for each in fields]
        self._types = [each.type for each in fields]
        self._separator = separator

    def serialize(self, value: Row) -> bytes:
        shown = [
            "" if each is None else _quoted(_text(each, given), self._separator, first=place == 0)
            for place, (each, given) in enumerate(zip(value, self._types, strict=True))
        ]
        return self._separator.join(shown).encode("utf-8", "replace")

    def deserialize(self, data: bytes) -> Row:
        try:
            text = data.decode()
            lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=self._separator, strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise RowError(f"is no DELIMITED row: {error}") from None
        items = lines[0] if lines else []
        if len(items) != len(self._names):
            raise RowError(f"Unexpected field count, csv line: expected {len(self._names)}, got {len(items)}")
        return [self._item(place, each) for place, each in enumerate(items)]

    def _item(self, place: int, text: str) -> Any:
        given = self._types[place]
        if text == "":
            return None
        try:
            return _value(text, given)
        except (EvaluationError, ValueError) as error:
            raise RowError(f"field {self._names[place]}: {error}") from None


def _quoted(item: str, separator: str, *, first: bool) -> str:
    """In quotes where Apache Commons CSV, which ksqlDB writes with, puts them: also around what begins with a sign."""
    if not item:
        return '""' if first else item
    odd = first and not (item[0].isascii() and item[0].isalnum())
    if odd or item[0] <= "#" or item[-1] <= " " or any(sign in item for sign in ("\n", "\r", '"', separator)):
        return '"' + item.replace('"', '""') + '"'
    return item


def _text(value: Any, given: Type) -> str:
    match given.base:
        case Base.BYTES:
            return base64.b64encode(value).decode()
        case Base.DATE:
            return str(values.days(value))
        case Base.TIME:
            return str(values.time_millis(value))
        case Base.TIMESTAMP:
            return str(values.millis(value))
        case _:
            return values.as_text(value)


def _value(text: str, given: Type) -> Any:
    match given.base:
        case Base.STRING:
            return text
        case Base.BYTES:
            return base64.b64decode(text, validate=True)
        case Base.DATE:
            return values.from_days(int(text))
        case Base.TIME:
            return values.from_time_millis(int(text))
        case Base.TIMESTAMP:
            return values.from_millis(int(text))
        case Base.BOOLEAN:
            return text.lower() == "true"
        case Base.DOUBLE:
            return double_of(text)
        case _:
            convert = converter(types.STRING, given)
            assert convert is not None
            return convert(text)
