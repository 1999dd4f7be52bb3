"""Descriptors beside google.protobuf: what it compiled is read, printed, parsed and written again, and must be the same
file.
"""

import base64
import importlib
import pkgutil
from types import ModuleType
from typing import Any

import google.protobuf
import google.type
import pytest
from google.protobuf import descriptor_pb2

from headwater.schemas import SchemaError, SchemaType, parse
from headwater.schemas.protobuf import ProtobufSchema
from headwater.schemas.protobuf.wellknown import TEXTS


def modules() -> dict[str, ModuleType]:
    """Every compiled .proto file of the two packages, by its path."""
    found = {}
    for package in (google.protobuf, google.type):
        for each in pkgutil.iter_modules(package.__path__):
            if each.name.endswith("_pb2"):
                module = importlib.import_module(f"{package.__name__}.{each.name}")
                found[module.DESCRIPTOR.name] = module
    return found


MODULES = modules()


def schema_of(path: str) -> ProtobufSchema:
    module = MODULES[path]
    references = {each.name: schema_of(each.name) for each in module.DESCRIPTOR.dependencies}
    parsed = parse(SchemaType.PROTOBUF, base64.b64encode(module.DESCRIPTOR.serialized_pb).decode(), references)
    assert isinstance(parsed, ProtobufSchema)
    return parsed


def comparable(data: bytes) -> descriptor_pb2.FileDescriptorProto:
    """Without what is not kept: who may import a type, and names in JSON that protoc gives by itself."""
    file = descriptor_pb2.FileDescriptorProto.FromString(data)
    file.name = ""
    pending = list(file.message_type)
    fields = list(file.extension)
    while pending:
        message = pending.pop()
        fields += [*message.field, *message.extension]
        message.ClearField("visibility")
        nested = sorted(message.nested_type, key=lambda each: each.name)
        del message.nested_type[:]
        message.nested_type.extend(nested)
        pending = [*pending, *message.nested_type]
    for field in fields:
        field.ClearField("json_name")
    return file


@pytest.mark.parametrize("path", sorted(MODULES))
def test_a_descriptor_becomes_text_and_a_descriptor_again(path: str) -> None:
    from_descriptor = schema_of(path)
    references = {each.name: schema_of(each.name) for each in MODULES[path].DESCRIPTOR.dependencies}
    from_text = parse(SchemaType.PROTOBUF, from_descriptor.canonical, references)
    assert isinstance(from_text, ProtobufSchema)
    assert from_text.canonical == from_descriptor.canonical
    expected = comparable(MODULES[path].DESCRIPTOR.serialized_pb)
    assert comparable(from_descriptor.descriptor()) == expected
    assert comparable(from_text.descriptor()) == expected
    assert comparable(parse_normalized(from_text, references).descriptor()) is not None


def parse_normalized(schema: ProtobufSchema, references: dict[str, ProtobufSchema]) -> ProtobufSchema:
    again = parse(SchemaType.PROTOBUF, schema.normalized(), references)
    assert isinstance(again, ProtobufSchema)
    assert again.normalized() == schema.normalized()
    return again


@pytest.mark.parametrize("path", sorted(path for path in TEXTS if path in MODULES and "descriptor" not in path))
def test_well_known_files_are_what_google_defines(path: str) -> None:
    def fields(file: descriptor_pb2.FileDescriptorProto) -> dict[str, list[tuple[int, str, int, str]]]:
        return {m.name: sorted((f.number, f.name, f.type, f.type_name) for f in m.field) for m in file.message_type}

    ours = parse(SchemaType.PROTOBUF, TEXTS[path])
    assert isinstance(ours, ProtobufSchema)
    theirs = descriptor_pb2.FileDescriptorProto.FromString(MODULES[path].DESCRIPTOR.serialized_pb)
    mine = descriptor_pb2.FileDescriptorProto.FromString(ours.descriptor())
    assert fields(mine) == fields(theirs)
    assert {e.name: [(v.name, v.number) for v in e.value] for e in mine.enum_type} == {
        e.name: [(v.name, v.number) for v in e.value] for e in theirs.enum_type
    }


def _is_read(data: bytes) -> bool:
    """Nothing but a SchemaError says that it is not."""
    try:
        parse(SchemaType.PROTOBUF, base64.b64encode(data).decode())
    except SchemaError:
        return False
    return True


def test_bytes_cut_at_each_place_are_refused_or_read() -> None:
    data = MODULES["google/protobuf/struct.proto"].DESCRIPTOR.serialized_pb
    outcomes = [_is_read(data[:length]) for length in range(len(data))]
    assert outcomes.count(True) < 50 < outcomes.count(False)  # a field that ends there is the end of a shorter file


def test_bytes_that_are_changed_are_refused_or_read() -> None:
    data = MODULES["google/protobuf/struct.proto"].DESCRIPTOR.serialized_pb
    assert _is_read(data)
    damaged = [data[:at] + bytes([byte]) + data[at + 1 :] for at in range(len(data)) for byte in (0x00, 0xFF)]
    outcomes = [_is_read(each) for each in damaged]
    assert outcomes.count(True) > 10  # numbers of fields, letters of comments
    assert outcomes.count(False) > 100


def test_a_deep_descriptor_is_refused() -> None:
    message = b"\x0a\x01M"
    for _ in range(2_000):
        message = b"\x0a\x01M\x1a" + _varint(len(message)) + message
    with pytest.raises(SchemaError, match="nested"):
        parse(SchemaType.PROTOBUF, base64.b64encode(b"\x22" + _varint(len(message)) + message).decode())


def _varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def test_options_and_entries_of_maps_stand_where_protoc_puts_them() -> None:
    text = """syntax = "proto3"; option go_package = "g"; option java_package = "j";
    message M { message A {} map<string, A> of = 1; message B {} }"""
    schema = parse(SchemaType.PROTOBUF, text)
    assert isinstance(schema, ProtobufSchema)
    data = schema.descriptor("m.proto")
    file = descriptor_pb2.FileDescriptorProto.FromString(data)
    assert [each.name for each in file.message_type[0].nested_type] == ["A", "OfEntry", "B"]
    assert data == file.SerializeToString(deterministic=True)


def test_a_default_that_is_no_value_and_a_group_apart_from_its_message_are_refused() -> None:
    """Found by `make fuzz`: their text could not be read again, or meant something else."""
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", message_type=[{"name": "M"}])  # type: ignore[list-item]
    field = file.message_type[0].field.add(name="a", number=1, label=1, type=2, default_value=".5x")
    with pytest.raises(SchemaError, match="is not a default value"):
        parse(SchemaType.PROTOBUF, base64.b64encode(file.SerializeToString()).decode())
    field.default_value = "-1.5e+10"
    parse(SchemaType.PROTOBUF, base64.b64encode(file.SerializeToString()).decode())
    field.ClearField("default_value")
    file.message_type[0].nested_type.add(name="Part")
    field.type, field.type_name = descriptor_pb2.FieldDescriptorProto.TYPE_GROUP, ".M.Part"
    with pytest.raises(SchemaError, match="the group a is not that of a message beside it"):
        parse(SchemaType.PROTOBUF, base64.b64encode(file.SerializeToString()).decode())
    field.name = "part"
    parse(SchemaType.PROTOBUF, base64.b64encode(file.SerializeToString()).decode())


@pytest.mark.parametrize(
    ("message", "enum", "why"),
    [
        ({"reserved_range": [{"start": 0, "end": 5}]}, {}, "0 to 4 is not a range"),
        ({"extension_range": [{"start": -5, "end": 5}]}, {}, "-5 to 4 is not a range"),
        ({"reserved_range": [{"start": 5, "end": 5}]}, {}, "5 to 4 is not a range"),
        ({}, {"reserved_range": [{"start": 6, "end": 5}]}, "6 to 5 is not a range"),
    ],
)
def test_ranges_that_no_text_can_have_are_refused(message: dict[str, Any], enum: dict[str, Any], why: str) -> None:
    """The schema was registered, and its text could not be read again."""
    values = [{"name": "A", "number": 1}]
    file = descriptor_pb2.FileDescriptorProto(
        name="m.proto",
        message_type=[{"name": "M", **message}],  # type: ignore[list-item]
        enum_type=[{"name": "E", "value": values, **enum}],  # type: ignore[list-item]
    )
    with pytest.raises(SchemaError, match=why):
        parse(SchemaType.PROTOBUF, base64.b64encode(file.SerializeToString()).decode())


@pytest.mark.parametrize("number", [1 << 31, -(1 << 31) - 1])
def test_a_number_of_an_enum_beyond_32_bits_is_refused(number: int) -> None:
    value = b"\x0a\x01A\x10" + _varint(number & (1 << 64) - 1)
    enum = b"\x0a\x01E\x12" + _varint(len(value)) + value
    data = b"\x0a\x07m.proto\x2a" + _varint(len(enum)) + enum
    with pytest.raises(SchemaError, match=f"A has the number {number}"):
        parse(SchemaType.PROTOBUF, base64.b64encode(data).decode())


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [
        ("int32", "0x1F", "31"), ("int64", "-010", "-8"), ("uint64", "18446744073709551615", "18446744073709551615"), ("double", ".5", "0.5"),
        ("float", "1.", "1"), ("double", "0x10", "16"), ("double", "1e3", "1000"), ("float", "1.50", "1.5"), ("double", "1e20", "1e+20"),
        ("double", "-inf", "-inf"), ("double", "nan", "nan"), ("float", "0.1", "0.1"), ("double", "0.1", "0.1"), ("float", "16777217", "16777216"),
        ("double", "123456789.123456789", "123456789.12345679"), ("double", "1.5f", "1.5"),
    ],
)  # fmt: skip
def test_a_default_stands_in_a_descriptor_as_protoc_writes_it(kind: str, written: str, expected: str) -> None:
    """It stood there as in the text: 010 is another number to those who read it, and 0x1F and .5 were none to us."""
    parsed = parse(SchemaType.PROTOBUF, f"message M {{ optional {kind} a = 1 [default = {written}]; }}")
    assert isinstance(parsed, ProtobufSchema)
    file = descriptor_pb2.FileDescriptorProto.FromString(parsed.descriptor("m.proto"))
    assert file.message_type[0].field[0].default_value == expected
    again = parse(SchemaType.PROTOBUF, parsed.serialized())
    assert isinstance(again, ProtobufSchema)
    assert again.descriptor("m.proto") == parsed.descriptor("m.proto")
