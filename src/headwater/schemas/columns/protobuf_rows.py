"""The twin in Python: messages are read and written one by one, without the `protobuf` package. Slow, and what the
compiled codec is held against.
"""

import datetime
import struct
from collections.abc import Iterator
from typing import Any, Final

from headwater.schemas.columns.protobuf_arrow import digits, names_of
from headwater.schemas.columns.protobuf_shapes import FieldShape, Kind, Label, MessageShape
from headwater.schemas.model import DataError

DEPTH_MAX: Final = 100
_VARINT, _FIXED64, _LENGTH, _GROUP, _END_GROUP, _FIXED32 = range(6)
_NUMBER_MAX: Final = (1 << 29) - 1
_FIXED: Final = {
    Kind.DOUBLE: "<d",
    Kind.FLOAT: "<f",
    Kind.FIXED32: "<I",
    Kind.FIXED64: "<Q",
    Kind.SFIXED32: "<i",
    Kind.SFIXED64: "<q",
}
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_ZERO: Final = b"\0" * 8


def wire_of(kind: Kind) -> int:
    if kind in (Kind.DOUBLE, Kind.FIXED64, Kind.SFIXED64):
        return _FIXED64
    if kind in (Kind.FLOAT, Kind.FIXED32, Kind.SFIXED32):
        return _FIXED32
    return _LENGTH if kind in (Kind.STRING, Kind.BYTES) or kind >= Kind.MESSAGE else _VARINT


# Reading


def read_message(shape: MessageShape, data: bytes, depth: int = 0) -> dict[str, Any]:
    """Values as pyarrow takes them; times as microseconds. Raises DataError."""
    if depth >= DEPTH_MAX:
        raise DataError("the bytes are nested too deep")
    fields = {each.number: each for each in shape.fields}
    seen: dict[int, list[tuple[int, Any]]] = {}
    holders: dict[str, int] = {}
    for number, wire, value in _entries(data, depth + 1):
        each = fields.get(number)
        if each is None or not _takes(each, wire):
            continue
        if each.oneof and holders.get(each.oneof) != number:
            seen.pop(number, None)
            holders[each.oneof] = number
        seen.setdefault(number, []).append((wire, value))
    row: dict[str, Any] = {}
    for each in shape.fields:
        found = seen.get(each.number, [])
        if each.oneof and holders.get(each.oneof) != each.number:
            found = []
        row[each.name] = _field(each, found, depth)
    return row


def _takes(each: FieldShape, wire: int) -> bool:
    wanted = wire_of(each.kind)
    if wire == wanted or (wire == _GROUP and each.kind >= Kind.MESSAGE):
        return True
    return wire == _LENGTH and each.label is Label.REPEATED and wanted != _LENGTH


def _field(each: FieldShape, found: list[tuple[int, Any]], depth: int) -> Any:
    if each.label is Label.REPEATED:
        items: list[Any] = []
        for wire, value in found:
            if wire == _LENGTH and wire_of(each.kind) != _LENGTH:
                items += [_value(each, item, depth) for item in _packed(each.kind, value)]
            else:
                items.append(_value(each, value, depth))
        return [(item["key"], item["value"]) for item in items] if each.is_map else items
    if not found:
        return None if each.label is Label.EXPLICIT else _value(each, _zero(each.kind), depth)
    if each.kind >= Kind.MESSAGE:
        return _value(each, b"".join(value for _, value in found), depth)
    return _value(each, found[-1][1], depth)


def _zero(kind: Kind) -> Any:
    wire = wire_of(kind)
    return 0 if wire == _VARINT else b"" if wire == _LENGTH else _ZERO[: 8 if wire == _FIXED64 else 4]


def _packed(kind: Kind, data: bytes) -> Iterator[Any]:
    at = 0
    wire = wire_of(kind)
    while at < len(data):
        value, at = _after_tag(data, at, 0, wire, 0)
        yield value


def _value(each: FieldShape, value: Any, depth: int) -> Any:
    match each.kind:
        case Kind.MESSAGE:
            assert each.message is not None
            return read_message(each.message, value, depth + 1)
        case Kind.TIMESTAMP | Kind.DURATION:
            return _micros(value, depth + 1)
        case Kind.WRAPPER:
            assert each.wrapped is not None
            wire = wire_of(each.wrapped)
            found = [item for number, kind, item in _entries(value, depth + 2) if number == 1 and kind == wire]
            return _scalar(each.wrapped, found[-1] if found else _zero(each.wrapped))
        case Kind.ENUM:
            assert each.enum is not None
            number = _signed(value, 32)
            return names_of(each.enum).get(number, str(number))
    return _scalar(each.kind, value)


def _scalar(kind: Kind, value: Any) -> Any:
    match kind:
        case Kind.STRING:
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise DataError("text is not UTF-8") from None
        case Kind.BYTES:
            return value
        case Kind.BOOL:
            return value != 0
        case Kind.INT32:
            return _signed(value, 32)
        case Kind.INT64:
            return _signed(value, 64)
        case Kind.UINT32:
            return value & 0xFFFFFFFF
        case Kind.UINT64:
            return value
        case Kind.SINT32:
            value &= 0xFFFFFFFF
            return (value >> 1) ^ -(value & 1)
        case Kind.SINT64:
            return (value >> 1) ^ -(value & 1)
    return struct.unpack(_FIXED[kind], value)[0]


def _micros(data: bytes, depth: int) -> int:
    seconds = nanos = 0
    for number, wire, value in _entries(data, depth + 1):
        if number == 1 and wire == _VARINT:
            seconds = _signed(value, 64)
        elif number == 2 and wire == _VARINT:
            nanos = _signed(value, 32)
    micros = seconds * 1_000_000 + nanos // 1000
    if not -(1 << 63) <= seconds * 1_000_000 < 1 << 63 or not -(1 << 63) <= micros < 1 << 63:
        raise DataError("a number is too large")
    return micros


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _entries(data: bytes, depth: int) -> Iterator[tuple[int, int, Any]]:
    at = 0
    while at < len(data):
        number, wire, at = _tag(data, at)
        value, at = _after_tag(data, at, number, wire, depth)
        yield number, wire, value


def _tag(data: bytes, at: int) -> tuple[int, int, int]:
    tag, at = _varint(data, at)
    if tag >> 32 or not 0 < tag >> 3 <= _NUMBER_MAX:
        raise DataError("there is no such field or wire type")
    return tag >> 3, tag & 7, at


def _after_tag(data: bytes, at: int, number: int, wire: int, depth: int) -> tuple[Any, int]:
    if wire == _VARINT:
        return _varint(data, at)
    if wire in (_FIXED64, _FIXED32):
        end = at + (8 if wire == _FIXED64 else 4)
        if end > len(data):
            raise DataError("the bytes end too early")
        return data[at:end], end
    if wire == _LENGTH:
        size, at = _varint(data, at)
        if size > len(data) - at:
            raise DataError("a length is beyond the bytes that are there")
        return data[at : at + size], at + size
    if wire == _GROUP:
        return _group(data, at, number, depth + 1)
    raise DataError("there is no such field or wire type")


def _group(data: bytes, at: int, number: int, depth: int) -> tuple[bytes, int]:
    if depth > DEPTH_MAX:
        raise DataError("the bytes are nested too deep")
    begin = at
    while True:
        end = at
        if at >= len(data):
            raise DataError("the bytes end too early")
        inner, wire, at = _tag(data, at)
        if wire == _END_GROUP:
            if inner != number:
                raise DataError("there is no such field or wire type")
            return data[begin:end], at
        _, at = _after_tag(data, at, inner, wire, depth)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise DataError("the bytes end too early")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
    raise DataError("a number is too large")


# Writing


def write_message(shape: MessageShape, row: dict[str, Any], *, is_entry: bool = False) -> bytes:
    """A row as pyarrow gives it, cast to the schema's types before, as a message."""
    out = bytearray()
    for oneof in shape.oneofs:
        if sum(row[each.name] is not None for each in shape.fields if each.oneof == oneof) > 1:
            raise DataError(f"several fields of the oneof {oneof} have a value, and only one may")
    for each in shape.by_number:
        value = row[each.name]
        if value is None:
            if is_entry:
                raise DataError("a map has a null, which Protobuf has no way to write")
            continue
        if each.label is Label.REPEATED:
            _write_items(each, value, out)
        else:
            data = _encoded(each, value)
            if is_entry or each.label is Label.EXPLICIT or not _is_zero(each, data):
                _write_tagged(each, data, out)
    return bytes(out)


def _is_zero(each: FieldShape, data: bytes) -> bool:
    if each.kind in (Kind.STRING, Kind.BYTES):
        return not data
    return wire_of(each.kind) != _LENGTH and not any(data)


def _write_items(each: FieldShape, values: list[Any], out: bytearray) -> None:
    if any(value is None for value in values):
        raise DataError("there is a null where the schema has none")
    if each.is_map:
        assert each.message is not None
        for key, value in values:
            _write_tagged(each, write_message(each.message, {"key": key, "value": value}, is_entry=True), out)
    elif each.is_packed:
        if values:
            data = b"".join(_encoded(each, value) for value in values)
            out += _number(each.number << 3 | _LENGTH) + _number(len(data)) + data
    else:
        for value in values:
            _write_tagged(each, _encoded(each, value), out)


def _write_tagged(each: FieldShape, data: bytes, out: bytearray) -> None:
    if each.is_delimited:
        out += _number(each.number << 3 | _GROUP) + data + _number(each.number << 3 | _END_GROUP)
        return
    wire = wire_of(each.kind)
    out += _number(each.number << 3 | wire)
    if wire == _LENGTH:
        out += _number(len(data))
    out += data


def _encoded(each: FieldShape, value: Any) -> bytes:
    """Without tag and length."""
    match each.kind:
        case Kind.MESSAGE:
            assert each.message is not None
            return write_message(each.message, value)
        case Kind.TIMESTAMP:
            seconds, rest = divmod((value - _EPOCH) // datetime.timedelta(microseconds=1), 1_000_000)
            return _time(seconds, rest)
        case Kind.DURATION:
            micros = value // datetime.timedelta(microseconds=1)
            sign = -1 if micros < 0 else 1
            return _time(sign * (abs(micros) // 1_000_000), sign * (abs(micros) % 1_000_000))
        case Kind.WRAPPER:
            assert each.wrapped is not None
            inner = FieldShape("value", 1, each.wrapped, Label.IMPLICIT)
            out = bytearray()
            data = _encoded(inner, value)
            if not _is_zero(inner, data):
                _write_tagged(inner, data, out)
            return bytes(out)
        case Kind.ENUM:
            assert each.enum is not None
            numbers = {named.name: named.number for named in each.enum.values}
            return _number(numbers[value] if value in numbers else digits(value, each.enum))
        case Kind.STRING:
            return bytes(value.encode())
        case Kind.BYTES:
            return bytes(value)
        case Kind.SINT32 | Kind.SINT64:
            return _number((value << 1) ^ (value >> 63))
    if each.kind in _FIXED:
        return struct.pack(_FIXED[each.kind], value)
    return _number(int(value))


def _time(seconds: int, micros: int) -> bytes:
    out = b""
    if seconds:
        out += b"\x08" + _number(seconds)
    if micros:
        out += b"\x10" + _number(micros * 1000)
    return out


def _number(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
