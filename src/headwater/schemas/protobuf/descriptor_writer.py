"""From a resolved .proto file to a serialized FileDescriptorProto, as protoc would give it. Pure."""

import struct
from typing import Final

from headwater.schemas.protobuf.lexer import escape
from headwater.schemas.protobuf.option_values import Scope
from headwater.schemas.protobuf.options import write_options
from headwater.schemas.protobuf.types import Enum, Field, File, Message, Option, Service
from headwater.schemas.protobuf.wire import Writer

TYPES: Final = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9, "group": 10, "message": 11,
    "bytes": 12, "uint32": 13, "enum": 14, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
_LABELS: Final = {"": 1, "optional": 1, "required": 2, "repeated": 3}
_FLOAT: Final = struct.Struct("<f")
EDITIONS: Final = {"2023": 1000, "2024": 1001}


def write_file(file: File, name: str, scope: Scope | None) -> bytes:
    """`scope` is what its options mean, if it has any."""
    writer = Writer().text(1, name).optional_text(2, file.package)
    for each in file.imports:
        writer.text(3, each.path)
    for message in file.messages:
        writer.data(4, _message(message, file, scope))
    for enum in file.enums:
        writer.data(5, _enum(enum, scope))
    for service in file.services:
        writer.data(6, _service(service, scope))
    for extension in file.extensions:
        writer.data(7, _field(extension, file, {}, scope))
    writer.optional_data(8, write_options(file.options, "FileOptions", scope))
    for number, kind in ((10, "public"), (11, "weak")):
        for index, each in enumerate(file.imports):
            if each.kind == kind:
                writer.number(number, index)
    if file.syntax != "proto2":
        writer.text(12, file.syntax)
    if file.syntax == "editions":
        writer.number(14, EDITIONS.get(file.edition, 1000))
    return writer.bytes()


def _message(message: Message, file: File, scope: Scope | None) -> bytes:
    writer = Writer().text(1, message.name)
    oneofs = {oneof.name: index for index, oneof in enumerate(message.oneofs)}
    synthetic = [f for f in message.fields if file.syntax == "proto3" and f.label == "optional"]
    for index, field in enumerate(synthetic):
        oneofs[f"_{field.name}"] = len(message.oneofs) + index
    for field in message.fields:
        writer.data(2, _field(field, file, oneofs, scope, message))
    nested = [(field.entry_place, 0, _map_entry(field, scope)) for field in message.fields if field.type == "map"]
    nested += [(place, 1, _message(inner, file, scope)) for place, inner in enumerate(message.messages)]
    for _, _, each in sorted(nested, key=lambda each: each[:2]):
        writer.data(3, each)
    for enum in message.enums:
        writer.data(4, _enum(enum, scope))
    for start, end in message.extension_ranges.numbers:
        written = write_options(message.extension_ranges.options.get((start, end), []), "ExtensionRangeOptions", scope)
        writer.data(5, Writer().number(1, start).number(2, end + 1).optional_data(3, written).bytes())
    for extension in message.extensions:
        writer.data(6, _field(extension, file, {}, scope))
    writer.optional_data(7, write_options(message.options, "MessageOptions", scope))
    for oneof in message.oneofs:
        written = write_options(oneof.options, "OneofOptions", scope)
        writer.data(8, Writer().text(1, oneof.name).optional_data(2, written).bytes())
    for field in synthetic:
        writer.data(8, Writer().text(1, f"_{field.name}").bytes())
    for start, end in message.reserved.numbers:
        writer.data(9, Writer().number(1, start).number(2, end + 1).bytes())
    for name in message.reserved.names:
        writer.text(10, name)
    return writer.bytes()


def map_entry_name(field_name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in field_name.split("_")) + "Entry"


def _map_entry(field: Field, scope: Scope | None) -> bytes:
    features = [each for each in field.options if each.name.partition(".")[0] == "features"]
    key = Field("key", 1, field.map_key, "optional", options=features)
    value = Field("value", 2, field.map_value, "optional", target=field.target, options=features)
    plain = File(syntax="proto2")  # no oneofs of its own making
    writer = Writer().text(1, map_entry_name(field.name))
    writer.data(2, _field(key, plain, {}, scope)).data(2, _field(value, plain, {}, scope))
    return writer.data(7, Writer().number(7, 1).bytes()).bytes()


def _field(
    field: Field, file: File, oneofs: dict[str, int], scope: Scope | None, message: Message | None = None
) -> bytes:
    writer = Writer().text(1, field.name)
    if field.extended is not None:
        writer.text(2, f".{field.extended.full_name}")
    writer.number(3, field.number)
    writer.number(4, 3 if field.type == "map" else _LABELS[field.label])
    if field.type == "map":
        assert message is not None
        writer.number(5, TYPES["message"]).text(6, f".{message.full_name}.{map_entry_name(field.name)}")
    elif field.target is not None:
        kind = "enum" if isinstance(field.target, Enum) else "group" if field.type == "group" else "message"
        writer.number(5, TYPES[kind]).text(6, f".{field.target.full_name}")
    else:
        writer.number(5, TYPES[field.type])
    special = {option.name: option for option in field.options if option.name in ("default", "json_name")}
    if "default" in special:
        writer.text(7, _default(special["default"], field))
    written = write_options([each for each in field.options if each.name not in special], "FieldOptions", scope)
    writer.optional_data(8, written)
    proto3_optional = file.syntax == "proto3" and field.label == "optional"
    oneof = f"_{field.name}" if proto3_optional and not field.extendee else field.oneof
    if oneof:
        writer.number(9, oneofs[oneof])
    if "json_name" in special:
        writer.text(10, special["json_name"].value.text)
    if proto3_optional:
        writer.number(17, 1)
    return writer.bytes()


def _default(option: Option, field: Field) -> str:
    if field.type == "bytes":
        return escape(option.value.data)[1:-1]
    if option.value.kind == "string" or field.target is not None or field.type == "bool":
        return option.value.text
    return _number_text(option.value.text, field.type)


def _number_text(text: str, kind: str) -> str:
    """In the one way in which protoc writes numbers, whatever they look like in a .proto file."""
    digits, sign = text.removeprefix("-"), -1 if text.startswith("-") else 1
    try:
        if kind not in ("double", "float"):
            return str(sign * _whole(digits))
        try:
            number = sign * float(_whole(digits))
        except ValueError:
            number = sign * float(digits if digits in ("inf", "nan") else digits.rstrip("fF"))
        if kind == "double":
            short = f"{number:.15g}"
            return short if float(short) == number else f"{number:.17g}"
        single = _single(number)
        short = f"{single:.6g}"
        return short if _single(float(short)) == single else f"{single:.9g}"
    except (ValueError, OverflowError):
        return text


def _whole(digits: str) -> int:
    return int(digits, 8 if digits.startswith("0") and digits.isdigit() else 0)


def _single(number: float) -> float:
    """The nearest float of four bytes."""
    return float(_FLOAT.unpack(_FLOAT.pack(number))[0])


def _enum(enum: Enum, scope: Scope | None) -> bytes:
    writer = Writer().text(1, enum.name)
    for value in enum.values:
        written = write_options(value.options, "EnumValueOptions", scope)
        writer.data(2, Writer().text(1, value.name).number(2, value.number).optional_data(3, written).bytes())
    writer.optional_data(3, write_options(enum.options, "EnumOptions", scope))
    for start, end in enum.reserved.numbers:
        writer.data(4, Writer().number(1, start).number(2, end).bytes())
    for name in enum.reserved.names:
        writer.text(5, name)
    return writer.bytes()


def _service(service: Service, scope: Scope | None) -> bytes:
    writer = Writer().text(1, service.name)
    for method in service.methods:
        inner = Writer().text(1, method.name).text(2, f".{method.request_full_name}")
        inner.text(3, f".{method.response_full_name}")
        if method.options or method.has_braces:
            inner.data(4, write_options(method.options, "MethodOptions", scope))
        for number, streaming in ((5, method.client_streaming), (6, method.server_streaming)):
            if streaming:
                inner.number(number, 1)
        writer.data(2, inner.bytes())
    return writer.optional_data(3, write_options(service.options, "ServiceOptions", scope)).bytes()
