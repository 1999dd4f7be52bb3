"""From a serialized FileDescriptorProto to a .proto file: what confluent-kafka's serializers register. Pure.

What protoc made of the text is turned back: entries of maps become maps, oneofs of one optional field become the word
optional.
"""

import re
from typing import Final

from headwater.schemas.model import DEPTH_MAX, NAME_LENGTH_MAX, SchemaError
from headwater.schemas.protobuf import options
from headwater.schemas.protobuf.descriptor_writer import EDITIONS, TYPES
from headwater.schemas.protobuf.lexer import unescape
from headwater.schemas.protobuf.types import (
    FIELD_NUMBER_MAX,
    Enum,
    EnumValue,
    Field,
    File,
    Import,
    Label,
    Message,
    Method,
    Oneof,
    Option,
    Ranges,
    Service,
    Value,
)
from headwater.schemas.protobuf.wire import Fields, signed

_TYPE_NAMES: Final = {number: name for name, number in TYPES.items()}
_LABELS: Final[dict[int, Label]] = {1: "optional", 2: "required", 3: "repeated"}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DOTTED: Final = re.compile(r"\.?[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_DEFAULT: Final = re.compile(r"-?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)")
_INT32_MAX: Final = (1 << 31) - 1


def read_file(data: bytes) -> File:
    fields = Fields(data)
    file = File(
        fields.text(12) or "proto2", package=_dotted(fields.text(2)) if fields.has(2) else "", name=fields.text(1)
    )
    if file.package.startswith("."):
        raise SchemaError(f"not a descriptor of a .proto file: the package {file.package[:50]!r} is not a name")
    if file.syntax not in ("proto2", "proto3", "editions"):
        raise SchemaError(f"not a descriptor of a .proto file: the syntax {file.syntax[:50]!r} is not known")
    if file.syntax == "editions":
        number = fields.number(14)
        file.edition = next((name for name, each in EDITIONS.items() if each == number), "2023")
    file.imports = [Import(path) for path in fields.texts(3)]
    for index in fields.integers(10):
        if index < len(file.imports):
            file.imports[index].kind = "public"
    for index in fields.integers(11):
        if index < len(file.imports):
            file.imports[index].kind = "weak"
    file.messages = [_message(each, file.syntax, 1) for each in fields.messages(4)]
    file.enums = [_enum(each) for each in fields.messages(5)]
    file.services = [_service(each) for each in fields.messages(6)]
    file.extensions = [_field(each, file.syntax, {}, []) for each in fields.messages(7)]
    file.options = options.read_options(fields.message(8))
    if not file.messages and not file.enums and not file.services and not file.extensions and not fields.has(1):
        raise SchemaError("not a descriptor of a .proto file: there is nothing in it")
    return file


def _message(fields: Fields, syntax: str, depth: int) -> Message:
    if depth > DEPTH_MAX:
        raise SchemaError(f"the schema is nested more than {DEPTH_MAX} levels deep")
    message = Message(_name(fields.text(1)))
    entries: dict[str, Message] = {}
    for each in fields.messages(3):
        inner = _message(each, syntax, depth + 1)
        described = each.message(7)
        if described is not None and described.number(7):
            entries[inner.name] = inner
        else:
            message.messages.append(inner)
    oneofs = [_name(each.text(1)) for each in fields.messages(8)]
    message.fields = [_field(each, syntax, entries, oneofs) for each in fields.messages(2)]
    used = {field.oneof for field in message.fields}
    for each in fields.messages(8):
        if each.text(1) in used:
            message.oneofs.append(Oneof(each.text(1), options.read_options(each.message(2))))
    message.enums = [_enum(each) for each in fields.messages(4)]
    message.extensions = [_field(each, syntax, {}, []) for each in fields.messages(6)]
    message.options = options.read_options(fields.message(7))
    message.extension_ranges.numbers = _ranges(fields, 5, 1, FIELD_NUMBER_MAX, inclusive=False)
    for extent, each in zip(message.extension_ranges.numbers, fields.messages(5), strict=True):
        if each.has(3):
            message.extension_ranges.options[extent] = options.read_options(each.message(3))
    message.reserved = Ranges(_ranges(fields, 9, 1, FIELD_NUMBER_MAX, inclusive=False), fields.texts(10))
    return message


def _field(fields: Fields, syntax: str, entries: dict[str, Message], oneofs: list[str]) -> Field:
    number = fields.number(3)
    if not 1 <= number <= FIELD_NUMBER_MAX:
        raise SchemaError(f"not a descriptor of a .proto file: a field has the number {number}")
    kind = _TYPE_NAMES.get(fields.number(5), "message")
    type_name = _dotted(fields.text(6)) if fields.has(6) else ""
    label = _LABELS.get(fields.number(4), "optional")
    field = Field(
        _name(fields.text(1)), number, type_name or kind, extendee=_dotted(fields.text(2)) if fields.has(2) else ""
    )
    field.options = _field_options(fields, kind)
    entry = entries.get(type_name.rpartition(".")[2])
    if entry is not None and label == "repeated" and len(entry.fields) == 2:
        key, value = sorted(entry.fields, key=lambda each: each.number)
        field.type, field.map_key, field.map_value = "map", key.type, value.type
        return field
    if kind == "group":
        field.type, field.map_value = "group", type_name
    proto3_optional = bool(fields.number(17))
    if fields.has(9) and not proto3_optional:
        index = fields.number(9)
        if index >= len(oneofs):
            raise SchemaError(f"not a descriptor of a .proto file: {field.name} is in a oneof that is not there")
        field.oneof = oneofs[index]
    elif label != "optional" or proto3_optional or syntax == "proto2":
        field.label = label
    return field


def _field_options(fields: Fields, kind: str) -> list[Option]:
    found = []
    if fields.has(7):
        text = fields.text(7)
        if kind in ("string", "bytes"):
            data = unescape(f'"{text}"') if kind == "bytes" else text.encode()
            found.append(Option("default", Value("string", text, data)))
        elif _DEFAULT.fullmatch(text):
            found.append(Option("default", Value("identifier", text)))
        else:
            raise SchemaError(f"not a descriptor of a .proto file: {text[:50]!r} is not a default value")
    if fields.has(10) and fields.text(10) != _json_name(fields.text(1)):
        found.append(Option("json_name", Value("string", fields.text(10), fields.data(10))))
    return found + options.read_options(fields.message(8))


def _json_name(name: str) -> str:
    """What protoc gives by itself: lowerCamelCase."""
    return re.sub(r"_+(.?)", lambda match: match[1].upper(), name)


def _enum(fields: Fields) -> Enum:
    enum = Enum(_name(fields.text(1)))
    for each in fields.messages(2):
        value = EnumValue(_name(each.text(1)), signed(each.number(2)))
        if not -_INT32_MAX - 1 <= value.number <= _INT32_MAX:
            raise SchemaError(f"not a descriptor of a .proto file: {value.name} has the number {value.number}")
        value.options = options.read_options(each.message(3))
        enum.values.append(value)
    enum.options = options.read_options(fields.message(3))
    enum.reserved = Ranges(_ranges(fields, 4, -_INT32_MAX - 1, _INT32_MAX, inclusive=True), fields.texts(5))
    return enum


def _service(fields: Fields) -> Service:
    service = Service(_name(fields.text(1)), options=options.read_options(fields.message(3)))
    for each in fields.messages(2):
        method = Method(
            _name(each.text(1)),
            _dotted(each.text(2)),
            _dotted(each.text(3)),
            bool(each.number(5)),
            bool(each.number(6)),
        )
        method.options = options.read_options(each.message(4))
        service.methods.append(method)
    return service


def _ranges(fields: Fields, number: int, low: int, high: int, *, inclusive: bool) -> list[tuple[int, int]]:
    found = []
    for each in fields.messages(number):
        start, end = signed(each.number(1)), signed(each.number(2)) - (not inclusive)
        if not low <= start <= end <= high:
            raise SchemaError(f"not a descriptor of a .proto file: {start} to {end} is not a range")
        found.append((start, end))
    return found


def _name(text: str) -> str:
    if len(text) > NAME_LENGTH_MAX or not _NAME.fullmatch(text):
        raise SchemaError(f"not a descriptor of a .proto file: {text[:50]!r} is not a name")
    return text


def _dotted(text: str) -> str:
    if not _DOTTED.fullmatch(text):
        raise SchemaError(f"not a descriptor of a .proto file: {text[:50]!r} is not a name")
    return text
