"""The JSON format, as ksqlDB reads and writes it.

Fields are found by name whatever their case; a field that is missing is NULL. Numbers are taken from text too, text
from anything. DECIMAL is a number with its digits, BYTES base64, DATE days, TIME and TIMESTAMP milliseconds.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from headwater.sql import values
from headwater.sql.expressions import lossless
from headwater.sql.expressions.casting import converter, decimal_of, double_of
from headwater.sql.formats.json_columns import Columns, NotTogether
from headwater.sql.formats.port import Field, FormatOptions, Row, RowError, RowSerde
from headwater.sql.json_text import dump, text_of, without_halves
from headwater.sql.language import types
from headwater.sql.language.errors import SqlError
from headwater.sql.language.types import ArrayType, Base, DecimalType, MapType, StructType, Type
from headwater.sql.values import EvaluationError

Convert = Callable[[Any], Any]
_NUMBERS: Final = (Base.INTEGER, Base.BIGINT, Base.DOUBLE, Base.DECIMAL)


class JsonFormat:
    name = "JSON"

    def check(self, fields: Sequence[Field], /) -> None:
        for each in fields:
            _check_maps(each.type)

    def serde(self, fields: Sequence[Field], options: FormatOptions, /) -> RowSerde:
        return _JsonSerde(fields, wrapped=options.wrap_single or len(fields) != 1)


def _check_maps(given: Type) -> None:
    """The keys of JSON's objects are text."""
    if isinstance(given, MapType):
        if given.key.base is not Base.STRING:
            raise SqlError("JSON only supports MAP types with STRING keys")
        _check_maps(given.value)
    elif isinstance(given, ArrayType):
        _check_maps(given.item)
    elif isinstance(given, StructType):
        for _, each in given.fields:
            _check_maps(each)


class _JsonSerde:
    name = "JSON"

    def __init__(self, fields: Sequence[Field], *, wrapped: bool) -> None:
        self._wrapped = wrapped
        self._names = [each.name for each in fields]
        self._types = [each.type for each in fields]
        self._places = {each.name.upper(): place for place, each in enumerate(fields)}
        self._exact = {each.name: place for place, each in enumerate(fields)}
        self._read = [reading(each.type) for each in fields]
        self._write = [writing(each.type) for each in fields]
        self._before = [f"{',' if place else '{'}{dump(each.name)}:" for place, each in enumerate(fields)]
        self._together: Columns | None = None  # made when a lane asks for it

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_together": None}  # a parser of Python's cannot travel

    def serialize(self, value: Row) -> bytes:
        if not self._wrapped:
            return dump(_written(self._write[0], value[0])).encode("utf-8", "replace")
        if not self._names:
            return b"{}"
        pieces = [
            before + (dump(write(each)) if each is not None else "null")
            for before, write, each in zip(self._before, self._write, value, strict=True)
        ]
        return ("".join(pieces) + "}").encode("utf-8", "replace")

    def deserialize(self, data: bytes) -> Row:
        try:
            value = loaded(data)
        except (ValueError, RecursionError) as error:
            raise RowError(f"is no JSON: {error}") from None
        if not self._wrapped:
            return [self._item(0, value)]
        if value is None:
            return [None] * len(self._names)
        if not isinstance(value, dict):
            raise RowError(f"is no JSON object: {type(value).__name__}")
        row: Row = [None] * len(self._names)
        for name, each in value.items():
            place = self._exact.get(name)
            if place is None:
                place = self._places.get(name.upper())
            if place is not None:
                row[place] = self._item(place, each)
        return row

    def deserialize_all(self, cells: list[bytes | None]) -> list[Row | None]:
        """A run of them. What cannot be read raises whatever it raises: nobody reads it there."""
        if self._wrapped and len(cells) > 1:
            with contextlib.suppress(NotTogether):
                return self._columns().read(cells)
        return [None if cell is None else self.deserialize(cell) for cell in cells]

    def serialize_all(self, rows: list[Row | None]) -> list[bytes | None]:
        if self._wrapped and self._names and len(rows) > 1:
            return self._columns().write(rows)
        return [None if row is None else self.serialize(row) for row in rows]

    def _columns(self) -> Columns:
        if self._together is None:
            texts = [lambda value, write=write: dump(write(value)) for write in self._write]
            self._together = Columns(self._names, self._types, self._item, _digits, texts)
        return self._together

    def _item(self, place: int, value: Any) -> Any:
        if value is None:
            return None
        try:
            return self._read[place](value)
        except (EvaluationError, TypeError, ValueError, binascii.Error, OverflowError, RecursionError) as error:
            raise RowError(f"field {self._names[place]}: {error}") from None


def _written(write: Convert, value: Any) -> Any:
    return None if value is None else write(value)


def loaded(data: bytes) -> Any:
    """As `json.loads`, without half characters (`text_of`)."""
    if len(data) >= 4 and data[0] == 0x7B and data[1]:
        return _DECODER.decode(text_of(data))
    text = data.decode(json.detect_encoding(data), "surrogatepass")
    return _DECODER.decode(text_of(text.encode("utf-8", "surrogatepass")))


def _digits(text: str) -> Decimal | float:
    try:
        value = Decimal(text)
    except InvalidOperation:  # an exponent that no Decimal has
        return float(text)
    if abs(value.adjusted()) > 2_000:
        return float(text)
    return value


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


_DECODER: Final = json.JSONDecoder(parse_float=_digits, parse_constant=_no_constant)


def reading(wanted: Type, *, exact: bool = False) -> Convert:
    """JSON's value as one of `wanted`; never called with None. `exact`: of a row that is inserted, where a number that
    it cannot hold is refused, however deep it is, decimals are rounded and dates and times may be text; else numbers
    wrap, are cut off or rounded, as ksqlDB reads them from topics.
    """
    if wanted.base in _NUMBERS:
        return _exact_number(wanted) if exact else _number(wanted)
    if wanted.base is Base.STRING:
        return lambda value: value if isinstance(value, str) else dump(value)
    if wanted.base is Base.BOOLEAN:
        return _boolean
    if wanted.base is Base.BYTES:
        return lambda value: base64.b64decode(value, validate=True)
    if isinstance(wanted, ArrayType):
        item = _optional(reading(wanted.item, exact=exact))
        return lambda value: [item(each) for each in _of(list, value, "array")]
    if isinstance(wanted, MapType):
        return _map(wanted, exact)
    if isinstance(wanted, StructType):
        return _struct(wanted, exact)
    made = {Base.DATE: values.from_days, Base.TIME: values.from_time_millis, Base.TIMESTAMP: values.from_millis}
    make = made[wanted.base]
    if not exact:
        return lambda value: make(_whole(value, None))
    parse = converter(types.STRING, wanted)
    assert parse is not None
    return lambda value: parse(value) if isinstance(value, str) else make(_whole(value, wanted))


def _optional(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _of(kind: type, value: Any, name: str) -> Any:
    if not isinstance(value, kind):
        raise EvaluationError(f"is no {name}: {dump(value)[:100]}")
    return value


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise EvaluationError(f"can't convert {dump(value)[:100]} to BOOLEAN")


def _whole(value: Any, exactly: Type | None) -> int:
    if isinstance(value, bool) or not isinstance(value, int | Decimal | float):
        if isinstance(value, str):
            convert = converter(types.STRING, types.BIGINT)
            assert convert is not None
            return int(convert(value))
        raise EvaluationError(f"can't convert {dump(value)[:100]} to a whole number")
    return int(value) if exactly is None else lossless.whole(value, exactly)


def _number(wanted: Type) -> Convert:
    parse = double_of if wanted.base is Base.DOUBLE else converter(types.STRING, wanted)
    assert parse is not None

    whole_in = {Base.INTEGER: 2**31, Base.BIGINT: 2**63}.get(wanted.base, 0)

    def convert(value: Any) -> Any:
        if type(value) is int and -whole_in <= value < whole_in:
            return value
        if isinstance(value, str):
            return parse(value)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise EvaluationError(f"can't convert {dump(value)[:100]} to {wanted}")
        if wanted.base is Base.DOUBLE:
            return float(value)
        if isinstance(wanted, DecimalType):
            return values.fit(Decimal(value), wanted.precision, wanted.scale)
        whole = int(value)
        return values.int32(whole) if wanted.base is Base.INTEGER else values.int64(whole)

    return convert


def _exact_number(wanted: Type) -> Convert:
    """A decimal is rounded to its scale, half up, as ksqlDB does with rows of /inserts-stream (not with VALUES)."""
    parse, take = converter(types.STRING, wanted), lossless.number(wanted)
    assert parse is not None

    def convert(value: Any) -> Any:
        if isinstance(value, str):
            value = decimal_of(value) if wanted.base in (Base.DECIMAL, Base.DOUBLE) else parse(value)
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
            raise EvaluationError(f"can't convert {dump(value)[:100]} to {wanted}")
        if isinstance(wanted, DecimalType):
            exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
            return values.fit(exact, wanted.precision, wanted.scale)
        return take(value)

    return convert


def _map(wanted: MapType, exact: bool) -> Convert:
    item = _optional(reading(wanted.value, exact=exact))
    key = converter(types.STRING, wanted.key)
    assert key is not None
    return lambda value: {key(name): item(each) for name, each in _of(dict, value, "object").items()}


def _struct(wanted: StructType, exact: bool) -> Convert:
    as_named = {name: (name, _optional(reading(each, exact=exact))) for name, each in wanted.fields}
    fields = {name.upper(): found for name, found in as_named.items()}
    empty = dict.fromkeys(name for name, _ in wanted.fields)

    def convert(value: Any) -> dict[str, Any]:
        if isinstance(value, str):  # an object within text, as some producers send it
            try:
                value = json.loads(without_halves(value), parse_float=_digits)
            except (ValueError, RecursionError):
                raise EvaluationError("is no object") from None
        result: dict[str, Any] = dict(empty)
        for name, each in _of(dict, value, "object").items():
            found = as_named.get(name) or fields.get(name.upper())
            if found is not None:
                result[found[0]] = found[1](each)
        return result

    return convert


def writing(given: Type) -> Convert:
    """A value of `given` as JSON's; never called with None."""
    if isinstance(given, ArrayType):
        item = _optional(writing(given.item))
        return lambda value: [item(each) for each in value]
    if isinstance(given, MapType):
        each_value = _optional(writing(given.value))
        return lambda value: {values.as_text(name): each_value(each) for name, each in value.items()}
    if isinstance(given, StructType):
        fields = [(name, _optional(writing(each))) for name, each in given.fields]
        return lambda value: {name: write(value.get(name)) for name, write in fields}
    plain: dict[Base, Convert] = {Base.DATE: values.days, Base.TIME: values.time_millis, Base.TIMESTAMP: values.millis}
    return plain.get(given.base, lambda value: value)
