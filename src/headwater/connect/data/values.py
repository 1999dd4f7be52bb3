"""Values as text and back, by Connect's own notation: what SimpleHeaderConverter writes, and how literals in configs
are read.

`[1, 2]` is an array, `{"a": 1}` a map; `true`, `null`, whole numbers (of the smallest width that holds them),
fractions, dates (`2020-02-29`), times (`12:30:00.000Z`) and timestamps are what they look like; all else is a string.
Times are UTC.
"""

import re
from base64 import b64encode
from collections.abc import Sequence
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from headwater.connect.data import schema as s
from headwater.connect.data.java_text import java_float, java_string, to_float32
from headwater.connect.data.logical import (
    MILLISECONDS_PER_DAY,
    date_to_days,
    millis_of,
    millis_to_timestamp,
    scale_of_value,
    time_to_millis,
)
from headwater.connect.data.schema import NULL, Schema, SchemaAndValue, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError

_TOKEN: Final = re.compile(r'(?:[^\\:,{}\[\]"]|\\.?)+|[:,{}\[\]"]', re.DOTALL)
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_TIME: Final = re.compile(r"(\d\d):(\d\d):(\d\d)\.(\d{3})Z")
_TIMESTAMP: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)\.(\d{3})Z")
_NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?")
_WIDTHS: Final = ((s.INT8, 7), (s.INT16, 15), (s.INT32, 31), (s.INT64, 63))
_RANK: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
_EXPONENT_MAX: Final = 5000


def temporal_text(value: date | time | datetime) -> str:
    """A time of the first day (or before) is a time, midnight is a date, all else a timestamp: as Connect writes
    them.
    """
    millis = millis_of(value)
    moment = millis_to_timestamp(millis)
    clock = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    if millis < MILLISECONDS_PER_DAY:
        return clock
    day = f"{moment.year:04d}-{moment:%m-%d}"
    return day if millis % MILLISECONDS_PER_DAY == 0 else f"{day}T{clock}"


def text_of(value: Any, schema: Schema | None = None, *, embedded: bool = False) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        if not embedded:
            return value
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if isinstance(value, bytes | bytearray | memoryview):
        encoded = b64encode(bytes(value)).decode("ascii")
        return f'"{encoded}"' if embedded else encoded
    if isinstance(value, date | time | datetime):
        return temporal_text(value)
    if isinstance(value, list | tuple):
        inner = schema.value_schema if schema is not None else None
        return f"[{','.join(text_of(each, inner, embedded=True) for each in value)}]"
    if isinstance(value, dict):
        keys, values = (schema.key_schema, schema.value_schema) if schema is not None else (None, None)
        pairs = (f"{text_of(k, keys, embedded=True)}:{text_of(v, values, embedded=True)}" for k, v in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, Struct):
        fields = (
            f"{text_of(each.name, embedded=True)}:{text_of(value.get(each.name), each.schema, embedded=True)}"
            for each in value.schema.fields
        )
        return f"{{{','.join(fields)}}}"
    if schema is not None and schema.type is Type.FLOAT32:
        return java_float(value)
    return java_string(value)


def parse_text(text: str) -> SchemaAndValue:
    """Never fails: what is nothing else is a string."""
    if not text:
        return SchemaAndValue(s.STRING, text)
    stripped = text.strip()
    if stripped == "null":
        return NULL
    if stripped[:1] in ("[", "{"):
        parser = _Parser(_TOKEN.findall(text))
        try:
            return parser.value()
        except (DataError, IndexError, RecursionError):
            return SchemaAndValue(s.STRING, text)
    return _literal(stripped) or SchemaAndValue(s.STRING, text)


def _literal(token: str) -> SchemaAndValue | None:
    if token in ("true", "false"):
        return SchemaAndValue(s.BOOLEAN, token == "true")
    temporal = _temporal(token) if token[:1].isdigit() else None
    if temporal is not None:
        return temporal
    return _number(token) if _NUMBER.fullmatch(token) and token[0] != "." else None


def _temporal(token: str) -> SchemaAndValue | None:
    token = token.replace("\\:", ":")
    try:
        if found := _TIMESTAMP.fullmatch(token):
            *parts, millis = map(int, found.groups())
            moment = datetime(*parts, millis * 1000, tzinfo=millis_to_timestamp(0).tzinfo)  # type: ignore[misc,arg-type]
            return SchemaAndValue(s.TIMESTAMP_SCHEMA, moment)
        if found := _TIME.fullmatch(token):
            hour, minute, second, millis = map(int, found.groups())
            return SchemaAndValue(s.TIME_SCHEMA, time(hour, minute, second, millis * 1000))
        if found := _DATE.fullmatch(token):
            return SchemaAndValue(s.DATE_SCHEMA, date(*map(int, found.groups())))
    except ValueError:  # February 30
        return None
    return None


def _number(token: str) -> SchemaAndValue | None:
    try:
        decimal = Decimal(token)
    except InvalidOperation:
        return None
    if abs(decimal.adjusted()) > _EXPONENT_MAX:
        return None
    if decimal == decimal.to_integral_value():
        whole = int(decimal)
        for schema, bits in _WIDTHS:
            if -(1 << bits) <= whole < 1 << bits:
                return SchemaAndValue(schema, whole)
    scale = scale_of_value(decimal)
    single = to_float32(float(decimal))
    if scale != 0 and abs(single) != float("inf"):
        return SchemaAndValue(s.FLOAT32, single)
    if scale != 0 and abs(float(decimal)) != float("inf"):
        return SchemaAndValue(s.FLOAT64, float(decimal))
    return SchemaAndValue(s.decimal_schema(scale), decimal)


class _Parser:
    """Arrays and maps, over tokens: delimiters, and what stands between them."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def value(self) -> SchemaAndValue:
        if self._next_is("["):
            return self._array()
        if self._next_is("{"):
            return self._map()
        if self._next_is('"'):
            return self._quoted()
        return self._bare()

    def _skip_blank(self) -> None:
        while self._at < len(self._tokens) and not self._tokens[self._at].strip():
            self._at += 1

    def _next_is(self, delimiter: str) -> bool:
        self._skip_blank()
        if self._at < len(self._tokens) and self._tokens[self._at].strip() == delimiter:
            self._at += 1
            return True
        return False

    def _quoted(self) -> SchemaAndValue:
        parts: list[str] = []
        while self._tokens[self._at] != '"':
            parts.append(self._tokens[self._at])
            self._at += 1
        self._at += 1
        content = "".join(parts)
        return _temporal(content) or SchemaAndValue(s.STRING, content)

    def _bare(self) -> SchemaAndValue:
        token = self._tokens[self._at].strip()
        spread = "".join(self._tokens[self._at : self._at + 5]).strip()  # a time has two colons in it
        found = _temporal(spread)
        if found is not None:
            self._at += 5
            return found
        self._at += 1
        if token == "null":
            return NULL
        literal = _literal(token)
        if literal is None:
            raise DataError("Failed to parse embedded value")
        return literal

    def _array(self) -> SchemaAndValue:
        found: list[SchemaAndValue] = []
        while not self._next_is("]"):
            if found and not self._comma:
                raise DataError("Array elements missing ',' delimiter")
            found.append(self.value())
            self._comma = self._next_is(",")
        common = _common(found)
        values = [_as(common, each.value) for each in found]
        return SchemaAndValue(Schema(Type.ARRAY, value_schema=common), values)

    def _map(self) -> SchemaAndValue:
        found: list[tuple[SchemaAndValue, SchemaAndValue]] = []
        while not self._next_is("}"):
            key = self.value()
            if key.value is None or isinstance(key.value, list | dict) or not self._next_is(":"):
                raise DataError("Map entry is missing its key or ':'")
            found.append((key, self.value()))
            self._next_is(",")
        keys, values = _common([key for key, _ in found]), _common([value for _, value in found])
        schema = Schema(Type.MAP, key_schema=keys, value_schema=values)
        return SchemaAndValue(schema, {_as(keys, k.value): _as(values, v.value) for k, v in found})

    _comma = False


def _common(found: list[SchemaAndValue]) -> Schema | None:
    """The schema that all of them have, numbers widened; None if there is none."""
    common: Schema | None = None
    for schema, _ in found:
        if schema is None:
            continue
        if common is None or common.type is schema.type:
            common = schema
        elif common.type in _RANK and schema.type in _RANK:
            common = max(common, schema, key=lambda each: _RANK.index(each.type))
        else:
            return None
    return common


def _as(schema: Schema | None, value: Any) -> Any:
    if schema is None:
        return value
    if value is None:  # as in Connect: a null among others makes all of it text
        raise DataError("Unable to convert a null value to a schema that requires a value")
    if schema.type in (Type.FLOAT32, Type.FLOAT64) and isinstance(value, int):
        return float(value)
    return value


def numeric_of(value: Any) -> int | Decimal | float:
    """A number out of anything that stands for one; used by casts of logical values."""
    if isinstance(value, datetime):
        return millis_of(value)
    if isinstance(value, time):
        return time_to_millis(value)
    if isinstance(value, date):
        return date_to_days(value)
    if isinstance(value, int | float | Decimal):
        return value
    raise DataError(f"Unable to convert {value!r} to a number")
