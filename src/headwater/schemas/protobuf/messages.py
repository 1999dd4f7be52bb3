"""Protobuf's messages as Python's dicts and back, by a parsed .proto file. Pure; whoever compiles owns the functions.

    decode = compile_message_reader(message)      # bytes -> {field name: value}
    encode = compile_message_writer(message)      # and back

A field that the wire does not have is its default, or None where the schema can tell (`optional`, a oneof, a message).
Well-known types are Python's own: wrappers their value, Timestamp a datetime in UTC without a zone, google.type.Date
and TimeOfDay a date and a time, confluent.type.Decimal a Decimal. An enum is the name of its value, or its number where
it has none. Bytes come from peers: every length is looked at before it is used. Reading is as Protobuf's own parsers
do it: of a oneof the last field counts, a message that comes in parts is all of them, and a field whose wire type is
another one, like one that the message has not got, is passed over. Groups are written as such, and lists packed where
the schema says so.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from headwater.schemas.model import DataError
from headwater.schemas.protobuf.field_features import has_presence, is_delimited, is_packed
from headwater.schemas.protobuf.types import FIELD_NUMBER_MAX, Enum, Field, Message
from headwater.schemas.protobuf.well_known_values import from_well_known, to_well_known
from headwater.schemas.protobuf.wire import Writer, signed

ReadMessage = Callable[[bytes], dict[str, Any]]
WriteMessage = Callable[[Mapping[str, Any]], bytes]

_FIXED: Final = {
    "double": struct.Struct("<d"), "float": struct.Struct("<f"), "fixed64": struct.Struct("<Q"), "sfixed64": struct.Struct("<q"),
    "fixed32": struct.Struct("<I"), "sfixed32": struct.Struct("<i"),
}  # fmt: skip
_INT32: Final = (-(1 << 31), (1 << 31) - 1)
_INT64: Final = (-(1 << 63), (1 << 63) - 1)
_BOUNDS: Final = {  # numbers without a sign are also taken as Java has them: the upper half as negative ones
    "int32": _INT32, "sint32": _INT32, "uint32": (-(1 << 31), (1 << 32) - 1), "int64": _INT64, "sint64": _INT64,
    "uint64": (-(1 << 63), (1 << 64) - 1), "bool": (0, 1),
}  # fmt: skip
_ZERO: Final = {"bool": False, "string": "", "bytes": b"", "double": 0.0, "float": 0.0}
_VARINT, _FIXED64, _LENGTH, _GROUP, _END_GROUP, _FIXED32 = range(6)
_LENGTHS: Final = {_FIXED64: 8, _FIXED32: 4}
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


# -- reading -----------------------------------------------------------------------------------------------------------


def _chunks(data: bytes, depth: int) -> list[tuple[int, int, Any]]:
    """Number, wire type and raw value of each field."""
    found: list[tuple[int, int, Any]] = []
    position, size = 0, len(data)
    while position < size:
        tag, position = _tag(data, position)
        kind = tag & 7
        if kind == _VARINT:
            number, position = _varint(data, position)
            found.append((tag >> 3, kind, number))
            continue
        begin, end, position = _extent(data, position, tag, depth)
        found.append((tag >> 3, kind, data[begin:end]))
    return found


def _tag(data: bytes, position: int) -> tuple[int, int]:
    tag = data[position]
    if 8 <= tag < 0x80:  # as nearly all are
        return tag, position + 1
    tag, position = _varint(data, position)
    if not 0 < tag >> 3 <= FIELD_NUMBER_MAX:
        raise DataError(f"the bytes are no message: a field has the number {tag >> 3}")
    return tag, position


def _extent(data: bytes, position: int, tag: int, depth: int) -> tuple[int, int, int]:
    """Where the bytes of a value begin and end, and what is behind it."""
    kind = tag & 7
    if kind == _LENGTH:
        length, position = _varint(data, position)
    elif kind in _LENGTHS:
        length = _LENGTHS[kind]
    elif kind == _GROUP:
        end, behind = _group(data, position, tag >> 3, depth + 1)
        return position, end, behind
    else:
        raise DataError(f"the bytes are no message: a field has the wire type {kind}")
    if length > len(data) - position:
        raise DataError("the bytes end within a field")
    return position, position + length, position + length


def _group(data: bytes, position: int, number: int, depth: int) -> tuple[int, int]:
    """Where a group ends, and what is behind it."""
    if depth > _DEPTH_MAX:
        raise DataError("the message is nested too deep")
    while position < len(data):
        end = position
        tag, position = _tag(data, position)
        kind = tag & 7
        if kind == _END_GROUP:
            if tag >> 3 != number:
                raise DataError("the bytes are no message: a group ends that did not begin")
            return end, position
        if kind == _VARINT:
            _, position = _varint(data, position)
        else:
            _, _, position = _extent(data, position, tag, depth)
    raise DataError("the bytes end within a group")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    if position < len(data) and data[position] < 0x80:
        return data[position], position + 1
    value = shift = 0
    while position < len(data) and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & ((1 << 64) - 1), position
        shift += 7
    raise DataError("the bytes end within a number")


def _int32(raw: int) -> int:
    low = raw & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def _sint(raw: int) -> int:
    return (raw >> 1) ^ -(raw & 1)


def _fixed(kind: str) -> Callable[[bytes], Any]:
    unpack = _FIXED[kind].unpack
    return lambda raw: unpack(raw)[0]


_SCALARS: Final[dict[str, Callable[[Any], Any]]] = {
    **{kind: _fixed(kind) for kind in _FIXED},
    "string": bytes.decode,
    "bytes": bytes,
    "bool": bool,
    "int32": _int32,
    "int64": signed,
    "uint32": lambda raw: raw & 0xFFFFFFFF,
    "uint64": int,
    "sint32": lambda raw: _sint(raw & 0xFFFFFFFF),
    "sint64": _sint,
}


def _scalar(kind: str, raw: Any) -> Any:
    """`raw` is of the wire type that this kind has."""
    return _SCALARS[kind](raw)


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
        by_number = {
            each.number: (
                each,
                _wire_types(each),
                _others(each, message),
                _is_single_message(each),
                _single_scalar(each),
            )
            for each in message.fields
        }
        start = {each.name: _absent(each, message) for each in message.fields}

        def read(data: bytes, depth: int) -> dict[str, Any]:
            if depth >= _DEPTH_MAX:
                raise DataError("the message is nested too deep")
            found = {name: _fresh(value) for name, value in start.items()}
            parts: dict[int, list[bytes]] = {}  # of messages that stand alone: they are read when all is there
            try:
                for number, kind, raw in _chunks(data, depth + 1):
                    field, kinds, others, is_part, scalar = by_number.get(number, _UNKNOWN)
                    if field is None or kind not in kinds:
                        continue
                    for other in others:
                        found[other.name] = None
                        parts.pop(other.number, None)
                    if scalar is not None:
                        found[field.name] = scalar(raw)
                    elif is_part:
                        parts.setdefault(number, []).append(raw)
                    else:
                        self._take(field, kind, raw, found, depth)
                for number, raw in parts.items():
                    field = by_number[number][0]
                    found[field.name] = self._value(field, field.type, b"".join(raw), depth)
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
        elif kind == _LENGTH and _wire_type(field.type, field.target) != _LENGTH:
            plain = "int32" if isinstance(field.target, Enum) else field.type
            items = _packed(plain, raw)
            found[field.name] += [_enum_name(field.target, each) for each in items] if isinstance(field.target, Enum) else items  # fmt: skip
        else:
            found[field.name].append(self._value(field, field.type, raw, depth))

    def _entry(self, field: Field, raw: bytes, depth: int) -> tuple[Any, Any]:
        key: Any = _ZERO.get(field.map_key, 0)
        value: Any = None if isinstance(field.target, Message) else _zero(field.map_value, field.target)
        message: list[bytes] = []
        for number, kind, inner in _chunks(raw, depth + 2):
            if number == 1 and kind == _wire_type(field.map_key, None):
                key = _scalar(field.map_key, inner)
            elif number == 2 and isinstance(field.target, Message) and kind in (_LENGTH, _GROUP):
                message.append(inner)
            elif number == 2 and kind == _wire_type(field.map_value, field.target):
                value = self._value(field, field.map_value, inner, depth + 1)
        if isinstance(field.target, Message):
            value = self._value(field, field.map_value, b"".join(message), depth + 1)
        return key, value

    def _value(self, field: Field, kind: str, raw: Any, depth: int) -> Any:
        if isinstance(field.target, Enum):
            return _enum_name(field.target, _scalar("int32", raw))
        if isinstance(field.target, Message):
            return from_well_known(field.target, self.of(field.target)(raw, depth + 1))
        return _scalar(kind, raw)


_UNKNOWN: Final[tuple[None, frozenset[int], tuple[Field, ...], bool, None]] = (None, frozenset(), (), False, None)


def _wire_type(kind: str, target: Message | Enum | None) -> int:
    """Of one value."""
    if isinstance(target, Message) or kind in ("string", "bytes", "map"):
        return _LENGTH
    if kind in _FIXED and target is None:
        return _FIXED64 if _FIXED[kind].size == 8 else _FIXED32
    return _VARINT


def _wire_types(field: Field) -> frozenset[int]:
    """Those that it is read from: messages may be groups, and lists of numbers packed or not."""
    own = _wire_type(field.type, field.target)
    if isinstance(field.target, Message) or field.type == "map":
        return frozenset((_LENGTH, _GROUP))
    return frozenset((own, _LENGTH)) if field.label == "repeated" else frozenset((own,))


def _others(field: Field, message: Message) -> tuple[Field, ...]:
    """Of the same oneof: only the last that comes counts."""
    if not field.oneof:
        return ()
    return tuple(each for each in message.fields if each.oneof == field.oneof and each is not field)


def _single_scalar(field: Field) -> Callable[[Any], Any] | None:
    return _SCALARS[field.type] if field.target is None and field.label != "repeated" and field.type != "map" else None


def _is_single_message(field: Field) -> bool:
    return isinstance(field.target, Message) and field.label != "repeated" and field.type != "map"


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
            self._repeated(writer, field, message, item)
        elif has_presence(field, message) or not _is_default(field, item):
            self._value(writer, field.number, field, field.type, item, is_delimited(field, message.file))

    def _repeated(self, writer: Writer, field: Field, message: Message, items: list[Any]) -> None:
        if is_packed(field, message.file):
            target = field.target
            packed = b"".join(
                _packed_item("int32", _enum_number(target, each))
                if isinstance(target, Enum)
                else _packed_item(field.type, each)
                for each in items
            )
            if items:
                writer.data(field.number, packed)
            return
        delimited = is_delimited(field, message.file)
        for each in items:
            self._value(writer, field.number, field, field.type, each, delimited)

    def _value(self, writer: Writer, number: int, field: Field, kind: str, item: Any, delimited: bool = False) -> None:
        if isinstance(field.target, Enum):
            writer.number(number, _enum_number(field.target, item))
        elif isinstance(field.target, Message):
            data = self.of(field.target)(to_well_known(field.target, item))
            if delimited:
                writer.varint(number << 3 | _GROUP).raw(data).varint(number << 3 | _END_GROUP)
            else:
                writer.data(number, data)
        else:
            _put(writer, number, kind, item)


def _is_default(field: Field, item: Any) -> bool:
    """By its bytes: -0.0 is none."""
    if isinstance(field.target, Enum):
        return _enum_number(field.target, item) == 0
    if field.type in _FIXED:
        return not any(_FIXED[field.type].pack(item))
    return bool(item == _zero(field.type, None))


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
    low, high = _BOUNDS[kind]
    if not low <= number <= high or (number != item and not isinstance(item, str)):
        raise DataError(f"{str(item)[:100]} is no {kind}")
    if kind == "uint32":
        return number & high
    return (number << 1) ^ (number >> 63) if kind in ("sint32", "sint64") else number


def _enum_number(target: Enum, item: Any) -> int:
    if isinstance(item, int):
        return _varint_of("int32", item)
    found = next((each.number for each in target.values if each.name == item), None)
    if found is None:
        raise DataError(f"{str(item)[:100]!r} is no value of the enum {target.full_name}")
    return found
