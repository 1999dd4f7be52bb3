"""Protobuf's messages as Python's dicts and back, by a parsed .proto file. Pure; whoever compiles owns the functions.

    decode = compile_message_reader(message)      # bytes -> {field name: value}
    encode = compile_message_writer(message)      # and back

A field that the wire does not have is its default, or None where the schema can tell (`optional`, a oneof, a message).
Well-known types are Python's own: wrappers their value, Timestamp a datetime in UTC without a zone, google.type.Date
and TimeOfDay a date and a time, confluent.type.Decimal a Decimal. An enum is the name of its value, or its number where
it has none. Bytes come from peers: every length is looked at before it is used.
"""

import struct
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from headwater.schemas.model import DataError
from headwater.schemas.protobuf.types import Enum, Field, Message
from headwater.schemas.protobuf.wire import Writer, signed

ReadMessage = Callable[[bytes], dict[str, Any]]
WriteMessage = Callable[[Mapping[str, Any]], bytes]

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001  # UTC, without a zone
_FIXED: Final = {
    "double": struct.Struct("<d"), "float": struct.Struct("<f"), "fixed64": struct.Struct("<Q"), "sfixed64": struct.Struct("<q"),
    "fixed32": struct.Struct("<I"), "sfixed32": struct.Struct("<i"),
}  # fmt: skip
_ZERO: Final = {"bool": False, "string": "", "bytes": b"", "double": 0.0, "float": 0.0}
_LENGTHS: Final = {1: 8, 5: 4}
_DEPTH_MAX: Final = 100


def compile_message_reader(message: Message) -> ReadMessage:
    read = _Readers().of(message)

    def decode(data: bytes) -> dict[str, Any]:
        return read(data, 0)

    return decode


def compile_message_writer(message: Message) -> WriteMessage:
    write = _Writers().of(message)

    def encode(value: Mapping[str, Any]) -> bytes:
        try:
            return write(value)
        except (struct.error, TypeError, ValueError, OverflowError, AttributeError) as error:
            raise DataError(f"the value does not fit {message.full_name}: {error}") from error

    return encode


def has_presence(field: Field, message: Message) -> bool:
    """Whether the wire can tell an absent field from one with its default."""
    if field.label == "repeated" or field.type == "map":
        return False
    proto2 = message.file is not None and message.file.syntax == "proto2"
    return bool(proto2 or field.label == "optional" or field.oneof or isinstance(field.target, Message))


def is_wrapper(message: Message) -> bool:
    name = message.full_name
    return name.startswith("google.protobuf.") and name.endswith("Value") and [each.name for each in message.fields] == ["value"]  # fmt: skip


# -- reading -----------------------------------------------------------------------------------------------------------


def _chunks(data: bytes) -> list[tuple[int, int, Any]]:
    """Number, wire type and raw value of each field."""
    found: list[tuple[int, int, Any]] = []
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == 0:
            number, position = _varint(data, position)
            found.append((tag >> 3, kind, number))
            continue
        if kind == 2:
            length, position = _varint(data, position)
        elif kind in _LENGTHS:
            length = _LENGTHS[kind]
        else:
            raise DataError(f"the bytes are no message: a field has the wire type {kind}")
        if length > len(data) - position:
            raise DataError("the bytes end within a field")
        found.append((tag >> 3, kind, data[position : position + length]))
        position += length
    return found


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), position
        shift += 7
    raise DataError("the bytes end within a number")


def _scalar(kind: str, raw: Any) -> Any:
    if kind in _FIXED:
        return _FIXED[kind].unpack(raw)[0]
    if kind == "string":
        return raw.decode()
    if kind == "bytes":
        return bytes(raw)
    if not isinstance(raw, int):
        raise DataError(f"a field of the type {kind} is not a number on the wire")
    if kind == "bool":
        return raw != 0
    if kind in ("sint32", "sint64"):
        return (raw >> 1) ^ -(raw & 1)
    if kind == "int32":
        low = raw & 0xFFFFFFFF
        return low - (1 << 32) if low >> 31 else low
    if kind == "uint32":
        return raw & 0xFFFFFFFF
    return raw if kind == "uint64" else signed(raw)


def _packed(kind: str, raw: bytes) -> list[Any]:
    if kind in _FIXED:
        size = _FIXED[kind].size
        if len(raw) % size:
            raise DataError("the bytes end within a packed list")
        return [each[0] for each in _FIXED[kind].iter_unpack(raw)]
    found, position = [], 0
    while position < len(raw):
        number, position = _varint(raw, position)
        found.append(_scalar(kind, number))
    return found


class _Readers:
    def __init__(self) -> None:
        self._made: dict[str, Callable[[bytes, int], dict[str, Any]]] = {}

    def of(self, message: Message) -> Callable[[bytes, int], dict[str, Any]]:
        known = self._made.get(message.full_name)
        if known is not None:
            return known
        by_number = {each.number: each for each in message.fields}
        start = {each.name: _absent(each, message) for each in message.fields}

        def read(data: bytes, depth: int) -> dict[str, Any]:
            if depth > _DEPTH_MAX:
                raise DataError("the message is nested too deep")
            found = {name: _fresh(value) for name, value in start.items()}
            try:
                for number, kind, raw in _chunks(data):
                    field = by_number.get(number)
                    if field is not None:
                        self._take(field, kind, raw, found, depth)
            except (struct.error, UnicodeDecodeError, TypeError, AttributeError) as error:
                raise DataError(f"the bytes are no {message.full_name}: {error}") from error
            return found

        self._made[message.full_name] = read
        return read

    def _take(self, field: Field, kind: int, raw: Any, found: dict[str, Any], depth: int) -> None:
        if field.type == "map":
            key, value = self._entry(field, raw, depth)
            found[field.name][key] = value
        elif field.label != "repeated":
            found[field.name] = self._value(field, field.type, raw, depth)
        elif kind == 2 and (isinstance(field.target, Enum) or (field.target is None and field.type not in ("string", "bytes"))):  # fmt: skip
            plain = "int32" if isinstance(field.target, Enum) else field.type
            items = _packed(plain, raw)
            found[field.name] += [_enum_name(field.target, each) for each in items] if isinstance(field.target, Enum) else items  # fmt: skip
        else:
            found[field.name].append(self._value(field, field.type, raw, depth))

    def _entry(self, field: Field, raw: bytes, depth: int) -> tuple[Any, Any]:
        key: Any = _ZERO.get(field.map_key, 0)
        value: Any = None if isinstance(field.target, Message) else _zero(field.map_value, field.target)
        for number, _, inner in _chunks(raw):
            if number == 1:
                key = _scalar(field.map_key, inner)
            elif number == 2:
                value = self._value(field, field.map_value, inner, depth)
        if value is None and isinstance(field.target, Message):
            value = self._value(field, field.map_value, b"", depth)
        return key, value

    def _value(self, field: Field, kind: str, raw: Any, depth: int) -> Any:
        if isinstance(field.target, Enum):
            return _enum_name(field.target, _scalar("int32", raw))
        if isinstance(field.target, Message):
            return _from_well_known(field.target, self.of(field.target)(raw, depth + 1))
        return _scalar(kind, raw)


def _fresh(value: Any) -> Any:
    return type(value)() if isinstance(value, list | dict) else value


def _absent(field: Field, message: Message) -> Any:
    if field.type == "map":
        return {}
    if field.label == "repeated":
        return []
    return None if has_presence(field, message) else _zero(field.type, field.target)


def _zero(kind: str, target: Message | Enum | None) -> Any:
    if isinstance(target, Enum):
        return _enum_name(target, 0)
    return _ZERO.get(kind, 0)


def _enum_name(target: Message | Enum | None, number: int) -> Any:
    assert isinstance(target, Enum)
    return next((each.name for each in target.values if each.number == number), number)


def _from_well_known(message: Message, value: dict[str, Any]) -> Any:
    if is_wrapper(message):
        return value["value"]
    try:
        match message.full_name:
            case "google.protobuf.Timestamp":
                return _EPOCH + timedelta(seconds=value["seconds"], microseconds=value["nanos"] // 1000)
            case "google.type.Date":
                return date(value["year"], value["month"], value["day"])
            case "google.type.TimeOfDay":
                return time(value["hours"], value["minutes"], value["seconds"], value["nanos"] // 1000)
            case "confluent.type.Decimal":
                return Decimal(int.from_bytes(value["value"], "big", signed=True)).scaleb(-value["scale"])
    except (ValueError, OverflowError) as error:
        raise DataError(f"a {message.full_name} has no such value: {error}") from error
    return value


# -- writing -----------------------------------------------------------------------------------------------------------


class _Writers:
    def __init__(self) -> None:
        self._made: dict[str, WriteMessage] = {}

    def of(self, message: Message) -> WriteMessage:
        known = self._made.get(message.full_name)
        if known is not None:
            return known

        def write(value: Mapping[str, Any]) -> bytes:
            writer = Writer()
            for field in message.fields:
                item = value.get(field.name)
                if item is not None:
                    self._field(writer, field, message, item)
            return writer.bytes()

        self._made[message.full_name] = write
        return write

    def _field(self, writer: Writer, field: Field, message: Message, item: Any) -> None:
        if field.type == "map":
            for key, value in item.items():
                entry = Writer()
                _put(entry, 1, field.map_key, key)
                if value is not None:
                    self._value(entry, 2, field, field.map_value, value)
                writer.data(field.number, entry.bytes())
        elif field.label == "repeated":
            self._repeated(writer, field, item)
        elif has_presence(field, message) or item != _zero(field.type, field.target):
            self._value(writer, field.number, field, field.type, item)

    def _repeated(self, writer: Writer, field: Field, items: list[Any]) -> None:
        if field.target is None and field.type not in ("string", "bytes"):
            packed = b"".join(_packed_item(field.type, each) for each in items)
            if items:
                writer.data(field.number, packed)
            return
        for each in items:
            self._value(writer, field.number, field, field.type, each)

    def _value(self, writer: Writer, number: int, field: Field, kind: str, item: Any) -> None:
        if isinstance(field.target, Enum):
            writer.number(number, _enum_number(field.target, item))
        elif isinstance(field.target, Message):
            writer.data(number, self.of(field.target)(_to_well_known(field.target, item)))
        else:
            _put(writer, number, kind, item)


def _put(writer: Writer, number: int, kind: str, item: Any) -> None:
    if kind == "string":
        writer.text(number, item)
    elif kind == "bytes":
        writer.data(number, item)
    elif kind in _FIXED:
        writer.varint(number << 3 | (1 if _FIXED[kind].size == 8 else 5)).raw(_FIXED[kind].pack(item))
    else:
        writer.number(number, _varint_of(kind, item))


def _packed_item(kind: str, item: Any) -> bytes:
    return _FIXED[kind].pack(item) if kind in _FIXED else Writer().varint(_varint_of(kind, item)).bytes()


def _varint_of(kind: str, item: Any) -> int:
    number = int(item)
    return (number << 1) ^ (number >> 63) if kind in ("sint32", "sint64") else number


def _enum_number(target: Enum, item: Any) -> int:
    if isinstance(item, int):
        return item
    found = next((each.number for each in target.values if each.name == item), None)
    if found is None:
        raise DataError(f"{str(item)[:100]!r} is no value of the enum {target.full_name}")
    return found


def _to_well_known(message: Message, value: Any) -> Mapping[str, Any]:
    if is_wrapper(message):
        return {"value": value}
    if isinstance(value, datetime):
        micros = (value.replace(tzinfo=None) - _EPOCH) // timedelta(microseconds=1)
        return {"seconds": micros // 1_000_000, "nanos": micros % 1_000_000 * 1000}
    if isinstance(value, date):
        return {"year": value.year, "month": value.month, "day": value.day}
    if isinstance(value, time):
        return {
            "hours": value.hour,
            "minutes": value.minute,
            "seconds": value.second,
            "nanos": value.microsecond * 1000,
        }
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
        number = int("".join(map(str, digits)) or "0") * (-1 if sign else 1) * 10 ** max(exponent, 0)
        data = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
        return {"value": data, "precision": max(len(digits), -exponent), "scale": max(-exponent, 0)}
    if not isinstance(value, Mapping):
        raise DataError(f"a {message.full_name} is wanted, not {type(value).__name__}")
    return value
