"""Values of options, from text to the bytes that protoc puts into descriptors, and back. Pure.

A value is a scalar, or an aggregate: a message in Protobuf's text format. What the text names are fields and extensions
that a `Scope` knows; what it does not know is a SchemaError.

Each option becomes a field of bytes, parts of one message that are set one by one as well. `in_order` brings those of
one element into the form in which protoc writes them: by their numbers, parts of a message as one, repeated numbers
packed where their file says so, without what a field without presence has anyhow, and without what is for the source
alone (`retention`).
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.schemas.model import DEPTH_MAX, SchemaError
from headwater.schemas.protobuf.field_features import feature, is_packed
from headwater.schemas.protobuf.text_format import TextField, parse_text_format, print_text_format
from headwater.schemas.protobuf.types import Enum, Field, File, Message, Option, Value
from headwater.schemas.protobuf.wire import Fields, Writer, records, signed

_INTEGERS: Final = {
    "int32": (-(1 << 31), (1 << 31) - 1), "sint32": (-(1 << 31), (1 << 31) - 1), "sfixed32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1), "sint64": (-(1 << 63), (1 << 63) - 1), "sfixed64": (-(1 << 63), (1 << 63) - 1),
    "uint32": (0, (1 << 32) - 1), "fixed32": (0, (1 << 32) - 1), "uint64": (0, (1 << 64) - 1), "fixed64": (0, (1 << 64) - 1),
}  # fmt: skip
_FIXED: Final = {"fixed32": "<I", "sfixed32": "<i", "float": "<f", "fixed64": "<Q", "sfixed64": "<q", "double": "<d"}
_NOT_FINITE: Final = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
_TRUE: Final = ("true", "True", "t")
_FALSE: Final = ("false", "False", "f")
_VARINT, _DATA, _BEGIN, _END = 0, 2, 3, 4


@dataclass(frozen=True, slots=True)
class Extension:
    name: str  # its full name
    field: Field
    file: File


@dataclass(slots=True)
class Scope:
    """What names in options can mean: all extensions of the file and of what it imports, and the types of options."""

    extensions: Mapping[str, Extension]  # by full name
    messages: Mapping[str, Message | Enum]  # by full name
    by_number: dict[tuple[str, int], Extension] = field(default_factory=dict)  # of what they extend, and their number
    _fields: dict[Message, dict[str, Field]] = field(default_factory=dict)
    _required: dict[Message, list[Field]] = field(default_factory=dict)
    _numbers: dict[Message, dict[int, Field]] = field(default_factory=dict)
    _enums: dict[Enum, dict[str, int]] = field(default_factory=dict)
    _enum_names: dict[Enum, dict[int, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for each in self.extensions.values():
            if each.field.extended is not None:
                self.by_number[each.field.extended.full_name, each.field.number] = each

    def extension(self, name: str, place: str) -> Extension | None:
        """By the name as it is written at a place: looked for from the innermost scope outwards."""
        if name.startswith("."):
            return self.extensions.get(name[1:])
        found = self.extensions.get(f"{place}.{name}" if place else name)
        while found is None and place:
            place = place.rpartition(".")[0]
            found = self.extensions.get(f"{place}.{name}" if place else name)
        return found

    def field(self, message: Message, name: str) -> Field | None:
        known = self._fields.get(message)
        if known is None:
            known = self._fields[message] = {each.name: each for each in message.fields}
            # A group is named by its message in the text format.
            known |= {each.target.name: each for each in message.fields if each.type == "group" and each.target}
        return known.get(name)

    def required(self, message: Message) -> list[Field]:
        known = self._required.get(message)
        if known is None:
            known = self._required[message] = [each for each in message.fields if each.label == "required"]
        return known

    def numbered(self, message: Message, number: int) -> tuple[str, Field] | None:
        """A field by its number: how the text format names it, and the field."""
        known = self._numbers.get(message)
        if known is None:
            known = self._numbers[message] = {each.number: each for each in message.fields}
        found = known.get(number)
        if found is not None:
            return (found.target.name if found.type == "group" and found.target else found.name), found
        extension = self.by_number.get((message.full_name, number))
        return None if extension is None else (f"[{extension.name}]", extension.field)

    def described(self, message: Message, number: int) -> tuple[Field | None, File | None]:
        """A field by its number, and the file that says how it is written."""
        found = self.numbered(message, number)
        if found is None:
            return None, None
        extension = self.by_number.get((message.full_name, number)) if found[1].extendee else None
        return found[1], message.file if extension is None else extension.file

    def enum_name(self, enum: Enum, number: int) -> str | None:
        known = self._enum_names.get(enum)
        if known is None:
            known = self._enum_names[enum] = {each.number: each.name for each in reversed(enum.values)}
        return known.get(number)

    def enum_number(self, enum: Enum, name: str) -> int | None:
        known = self._enums.get(enum)
        if known is None:
            known = self._enums[enum] = {each.name: each.number for each in enum.values}
        return known.get(name)


# --- from text to bytes


def encode_option(path: list[Field], value: Value, scope: Scope) -> bytes:
    """The option that `path` leads to, within those around it."""
    *outer, last = path
    if last.type == "map":
        if value.kind != "aggregate":
            raise SchemaError("it is a map: its value is one entry, { key: ... value: ... }")
        encoded = _message_record(last, _message(_entry(last), parse_text_format(value.text), scope))
    elif isinstance(last.target, Message):
        if value.kind != "aggregate":
            raise SchemaError("it is a message: set all of it, = { field: value }, or its fields one by one")
        encoded = _message_record(last, _message(last.target, parse_text_format(value.text), scope))
    elif value.kind == "aggregate":
        raise SchemaError(f"it is of the type {last.type}: its value does not stand in braces")
    else:
        encoded = _scalar_record(last, _scalar(last, value, scope, in_text_format=False))
    for each in reversed(outer):
        encoded = _message_record(each, encoded)
    return encoded


def _message(message: Message, fields: tuple[TextField, ...], scope: Scope) -> bytes:
    if message.full_name == "google.protobuf.Any" and len(fields) == 1 and "/" in fields[0].name:
        return _any(fields[0], scope)
    out = bytearray()
    found: set[int] = set()
    oneofs: dict[str, str] = {}
    for each in fields:
        known = _named(message, each.name, scope)
        is_repeated = known.label == "repeated" or known.type == "map"
        if known.number in found and not is_repeated:
            raise SchemaError(f"{each.name} of {message.full_name} is there twice")
        if known.oneof and oneofs.setdefault(known.oneof, each.name) != each.name:
            raise SchemaError(f"{each.name} and {oneofs[known.oneof]} of {message.full_name} are of one oneof")
        found.add(known.number)
        inside = _entry(known) if known.type == "map" else known.target
        if isinstance(inside, Message):
            if not isinstance(each.value, tuple):
                raise SchemaError(f"{each.name} of {message.full_name} is a message: its value stands in braces")
            out += _message_record(known, _message(inside, each.value, scope))
        elif isinstance(each.value, tuple):
            raise SchemaError(f"{each.name} of {message.full_name} is not a message")
        else:
            out += _scalar_record(known, _scalar(known, each.value, scope, in_text_format=True))
    for known in scope.required(message):
        if known.number not in found:
            raise SchemaError(f"{known.name} of {message.full_name} is required, and not there")
    return bytes(out)


def _named(message: Message, name: str, scope: Scope) -> Field:
    if name.startswith("["):
        extension = scope.extension(name[1:-1], message.full_name)
        extended = extension.field.extended if extension is not None else None
        if extension is None or extended is None or extended.full_name != message.full_name:
            raise SchemaError(f"{name} is not an extension of {message.full_name} that is defined here or imported")
        return extension.field
    known = scope.field(message, name)
    if known is None:
        raise SchemaError(f"{message.full_name} has no field {name[:200]!r}")
    return known


def _any(expanded: TextField, scope: Scope) -> bytes:
    """`[type.googleapis.com/a.B] { ... }`"""
    address = expanded.name[1:-1]
    message = scope.messages.get(address.rpartition("/")[2])
    if not isinstance(message, Message):
        raise SchemaError(f"{expanded.name} is not a message that is defined here or imported")
    if not isinstance(expanded.value, tuple):
        raise SchemaError(f"{expanded.name} is a message: its value stands in braces")
    inner = in_order(_message(message, expanded.value, scope), message, scope)
    return Writer().text(1, address).data(2, inner).bytes()


def _entry(known: Field) -> Message:
    """The message of a map's entries."""
    key = Field("key", 1, known.map_key, "optional")
    value = Field("value", 2, known.map_value, "optional", target=known.target)
    return Message("Entry", [key, value], full_name=f"the entry of {known.name}")


def _scalar(known: Field, value: Value, scope: Scope, *, in_text_format: bool) -> int | float | bytes:
    kind = "enum" if isinstance(known.target, Enum) else known.type
    text = value.text
    if kind in ("string", "bytes"):
        if value.kind != "string":
            raise SchemaError(f"{known.name} is of the type {kind}: its value stands in quotes, not {text[:50]!r}")
        if kind == "string":
            _require_utf8(known, value.data)
        return value.data
    if value.kind == "string":
        raise SchemaError(f"{known.name} is of the type {kind}: its value does not stand in quotes")
    if kind == "bool":
        if text in (_TRUE if in_text_format else _TRUE[:1]) or (in_text_format and text == "1"):
            return 1
        if text in (_FALSE if in_text_format else _FALSE[:1]) or (in_text_format and text == "0"):
            return 0
        raise SchemaError(f"{known.name} is true or false, not {text[:50]!r}")
    if kind == "enum":
        assert isinstance(known.target, Enum)
        number = scope.enum_number(known.target, text)
        if number is None and in_text_format and value.kind == "number":
            number = _whole(known, value, "int32")
        if number is None:
            raise SchemaError(f"the enum {known.target.full_name} has no value {text[:200]!r}")
        return number
    if kind in ("float", "double"):
        return _floating(known, value, in_text_format=in_text_format)
    return _whole(known, value, kind)


def _require_utf8(known: Field, data: bytes) -> None:
    try:
        data.decode()
    except UnicodeDecodeError:
        raise SchemaError(f"{known.name} is of the type string, and its value is not UTF-8") from None


def _whole(known: Field, value: Value, kind: str) -> int:
    digits = value.text.removeprefix("-")
    try:
        if value.kind != "number" or len(digits) > 30:
            raise ValueError
        number = int(digits, 8 if digits[:1] == "0" and digits.isdigit() else 0)
    except ValueError:
        raise SchemaError(f"{known.name} is a whole number of the type {kind}, not {value.text[:50]!r}") from None
    number = -number if value.text.startswith("-") else number
    low, high = _INTEGERS[kind]
    if not low <= number <= high:
        raise SchemaError(f"{known.name} is of the type {kind}, from {low} to {high}: not {value.text[:50]}")
    return number


def _floating(known: Field, value: Value, *, in_text_format: bool) -> float:
    is_negative = value.text.startswith("-")
    digits = value.text.removeprefix("-")
    word = digits.lower() if in_text_format else digits
    if word in _NOT_FINITE and (in_text_format or word != "infinity"):
        number = _NOT_FINITE[word]
        return -number if is_negative and (in_text_format or word == "inf") else number
    is_decimal = digits[:2] not in ("0x", "0X") and not (len(digits) > 1 and digits[:1] == "0" and digits.isdigit())
    try:
        if value.kind != "number" or (in_text_format and not is_decimal):
            raise ValueError
        number = float(digits.rstrip("fF")) if is_decimal else float(int(digits, 8 if digits.isdigit() else 16))
        return -number if is_negative else number
    except (ValueError, OverflowError):
        raise SchemaError(f"{known.name} is a number, not {value.text[:50]!r}") from None


def _wire_kind(known: Field) -> int:
    if known.type in _FIXED and known.target is None:
        return 5 if known.type in ("fixed32", "sfixed32", "float") else 1
    return _DATA if known.type in ("string", "bytes") else _VARINT


def _scalar_data(known: Field, number: int | float | bytes) -> bytes:
    """What stands behind the tag, and behind the length of data."""
    if isinstance(number, bytes):
        return number
    if known.type in _FIXED and known.target is None:
        try:
            return struct.pack(_FIXED[known.type], number)
        except OverflowError:  # beyond what a float can hold
            return struct.pack("<f", math.copysign(math.inf, number))
    whole = int(number)
    if known.type in ("sint32", "sint64") and known.target is None:
        whole = whole << 1 if whole >= 0 else (-whole << 1) - 1
    return Writer().varint(whole).bytes()


def _scalar_record(known: Field, number: int | float | bytes) -> bytes:
    if isinstance(number, bytes):
        return Writer().data(known.number, number).bytes()
    return Writer().varint(known.number << 3 | _wire_kind(known)).raw(_scalar_data(known, number)).bytes()


def _message_record(known: Field, data: bytes) -> bytes:
    if known.type == "group":
        begin, end = known.number << 3 | _BEGIN, known.number << 3 | _END
        return Writer().varint(begin).raw(data).varint(end).bytes()
    return Writer().data(known.number, data).bytes()


# --- in the order of protoc


def in_order(data: bytes, message: Message, scope: Scope) -> bytes:
    """The fields of a message as protoc writes them; what the message does not know stands behind them."""
    by_number: dict[int, list[tuple[bytes, bytes]]] = {}
    for number, record, content in records(data):
        by_number.setdefault(number, []).append((record, content))
    out, unknown = bytearray(), bytearray()
    for number, found in sorted(by_number.items()):
        known, file = scope.described(message, number)
        if known is None:
            unknown += b"".join(record for record, _ in found)
        elif _option(known.options, "retention") != "RETENTION_SOURCE":
            out += _field_in_order(known, file, found, scope)
    return bytes(out + unknown)


def _field_in_order(known: Field, file: File | None, found: list[tuple[bytes, bytes]], scope: Scope) -> bytes:
    if known.type == "map":
        return b"".join(_message_record(known, _entry_in_order(known, content, scope)) for _, content in found)
    if isinstance(known.target, Message):
        contents = [content for _, content in found]
        if known.label != "repeated":
            contents = [b"".join(contents)]
        return b"".join(_message_record(known, in_order(each, known.target, scope)) for each in contents)
    if known.label != "repeated":
        record, content = found[-1]
        return record if _has_presence(known, file) or any(content) else b""
    if is_packed(known, file):
        return Writer().data(known.number, b"".join(content for _, content in found)).bytes()
    return b"".join(record for record, _ in found)


def _entry_in_order(known: Field, data: bytes, scope: Scope) -> bytes:
    """Both fields of an entry are written, whatever their values."""
    entry = _entry(known)
    written = {number: record for number, record, _ in records(in_order(data, entry, scope))}
    for each in entry.fields:
        if each.number not in written:
            is_message = isinstance(each.target, Message)
            zero: int | bytes = b"" if each.type in ("string", "bytes") else 0
            written[each.number] = _message_record(each, b"") if is_message else _scalar_record(each, zero)
    return written[1] + written[2]


def _option(options: list[Option], name: str) -> str | None:
    return next((each.value.text for each in options if each.name == name), None)


def _has_presence(known: Field, file: File | None) -> bool:
    if known.oneof or known.label == "optional" or known.extendee or file is None or file.syntax == "proto2":
        return True
    return file.syntax == "editions" and feature(known, file, "field_presence") != "IMPLICIT"


# --- from bytes to text


def decode_option(name: str, known: Field, values: list[int | bytes], scope: Scope) -> list[Option]:
    """The options that stand in a descriptor under the number of this field; none where text cannot say it."""
    if known.label != "repeated" and known.type != "map":
        if isinstance(known.target, Message):  # its parts may have been set one by one
            values = [b"".join(each for each in values if isinstance(each, bytes))]
        else:
            values = values[-1:]
    found = []
    for each in _values(known, values, scope, 1):
        if isinstance(each, tuple):
            found.append(Option(name, Value("aggregate", print_text_format(each))))
        elif not (isinstance(known.target, Enum) and each.kind == "number"):
            found.append(Option(name, each))
    return found


def _values(known: Field, values: list[int | bytes], scope: Scope, depth: int) -> list[Value | tuple[TextField, ...]]:
    if depth > DEPTH_MAX:
        raise SchemaError(f"the value of an option is nested more than {DEPTH_MAX} levels deep")
    found: list[Value | tuple[TextField, ...]] = []
    for each in values:
        if known.type == "map":
            if isinstance(each, bytes):
                found.append(_text_fields(Fields(each), _entry(known), scope, depth + 1))
        elif isinstance(known.target, Message):
            if isinstance(each, bytes):
                found.append(_text_fields(Fields(each), known.target, scope, depth + 1))
        elif known.type in ("string", "bytes"):
            if isinstance(each, bytes):
                found.append(Value("string", each.decode("utf-8", "replace"), each))
        elif isinstance(each, int):
            found.append(_number(known, each, scope))
        elif known.type in _FIXED and known.target is None:
            size = struct.calcsize(_FIXED[known.type])
            if len(each) % size == 0:
                found += [_fixed(number) for (number,) in struct.iter_unpack(_FIXED[known.type], each)]
        else:  # packed
            packed = Fields(Writer().data(1, each).bytes())
            found += [_number(known, number, scope) for number in packed.integers(1)]
    return found


def _text_fields(fields: Fields, message: Message, scope: Scope, depth: int) -> tuple[TextField, ...]:
    """What the message does not know is left out."""
    found = []
    for number in fields.numbers():
        known = scope.numbered(message, number)
        if known is not None:
            values = _values(known[1], fields.values(number), scope, depth)
            is_repeated = known[1].label == "repeated" or known[1].type == "map"
            found += [TextField(known[0], each) for each in (values if is_repeated else values[-1:])]
    return tuple(found)


def _number(known: Field, number: int, scope: Scope) -> Value:
    if isinstance(known.target, Enum):
        value = (signed(number) + (1 << 31)) % (1 << 32) - (1 << 31)
        name = scope.enum_name(known.target, value)
        return Value("number", str(value)) if name is None else Value("identifier", name)
    if known.type == "bool":
        return Value("identifier", "true" if number else "false")
    if known.type in ("sint32", "sint64"):
        return Value("number", str(number >> 1 if number & 1 == 0 else -(number >> 1) - 1))
    if known.type.startswith("u"):
        return Value("number", str(number % (1 << 32) if known.type == "uint32" else number))
    whole = signed(number)
    return Value("number", str((whole + (1 << 31)) % (1 << 32) - (1 << 31) if known.type == "int32" else whole))


def _fixed(number: int | float) -> Value:
    if isinstance(number, float) and not math.isfinite(number):
        return (
            Value("identifier", "nan")
            if math.isnan(number)
            else Value("number" if number < 0 else "identifier", str(number))
        )
    return Value("number", repr(number))
