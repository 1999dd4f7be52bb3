"""Options that extensions define, beside what protoc made of the files in `protoc/` (descriptors.binpb, which
tests/compat/test_protoc_descriptors.py makes anew and compares).
"""

import base64
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from headwater.schemas import SchemaError, SchemaType, check, parse
from headwater.schemas.model import CompatibilityLevel
from headwater.schemas.protobuf import ProtobufSchema
from unit.schemas.protoc_files import REFUSED, USING, without_usual_json_names

HERE = Path(__file__).parent / "protoc"
PROTOC = {
    each.name: each
    for each in descriptor_pb2.FileDescriptorSet.FromString((HERE / "descriptors.binpb").read_bytes()).file
}
OWN = sorted(path.name for path in HERE.glob("*.proto"))


def expected(name: str) -> bytes:
    file = descriptor_pb2.FileDescriptorProto.FromString(PROTOC[name].SerializeToString())
    without_usual_json_names(file)
    return file.SerializeToString(deterministic=True)


def references(name: str) -> dict[str, ProtobufSchema]:
    """Those that nobody has built in."""
    return {each: proto(each) for each in PROTOC[name].dependency if each in OWN or "cpp_features" in each}


def proto(name: str, text: str = "") -> ProtobufSchema:
    text = text or ((HERE / name).read_text() if name in OWN else base64.b64encode(expected(name)).decode())
    parsed = parse(SchemaType.PROTOBUF, text, references(name))
    assert isinstance(parsed, ProtobufSchema)
    parsed.require_complete()
    return parsed


@pytest.mark.parametrize("name", OWN)
def test_descriptors_are_protocs_byte_for_byte(name: str) -> None:
    assert proto(name).descriptor(name) == expected(name)


@pytest.mark.parametrize("name", OWN)
def test_options_of_a_descriptor_become_text_that_means_the_same(name: str) -> None:
    """What confluent-kafka's serializer registers is a descriptor with numbers; what is stored is text."""
    from_descriptor = proto(name, base64.b64encode(expected(name)).decode())
    assert from_descriptor.descriptor(name) == expected(name)
    assert proto(name, from_descriptor.canonical).descriptor(name) == expected(name)
    assert proto(name, from_descriptor.canonical).canonical == from_descriptor.canonical
    again = proto(name, from_descriptor.normalized())
    assert again.normalized() == from_descriptor.normalized()
    assert proto(name, proto(name).canonical).descriptor(name) == expected(name)


def test_an_option_whose_file_is_not_there_is_left_out_of_the_text() -> None:
    text = 'syntax = "proto3"; package p; import "google/protobuf/descriptor.proto"; extend google.protobuf.FieldOptions { optional string own = 50000; } message M { string a = 1 [(own) = "x", deprecated = true]; }'
    file = descriptor_pb2.FileDescriptorProto.FromString(descriptor(text))
    del file.extension[:]
    stored = parse(SchemaType.PROTOBUF, base64.b64encode(file.SerializeToString()).decode())
    assert "a = 1 [deprecated = true];" in stored.canonical
    stored.require_complete()


def descriptor(text: str) -> bytes:
    parsed = parse(SchemaType.PROTOBUF, text)
    assert isinstance(parsed, ProtobufSchema)
    parsed.require_complete()
    return parsed.descriptor("m.proto")


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_an_option_that_protoc_refuses_is_told_and_does_not_stand(text: str, why: str) -> None:
    files = {each: proto(each) for each in ("options.proto", "options2.proto")}
    parsed = parse(SchemaType.PROTOBUF, USING + text, files)  # it may be stored already: it is read all the same
    assert parsed.canonical
    with pytest.raises(SchemaError, match=r"not a .proto file that stands: the option .* of .*: ") as caught:
        parsed.require_complete()
    assert why in str(caught.value)


def test_an_option_that_is_not_known_keeps_its_name_and_does_not_hinder_a_comparison() -> None:
    first = parse(SchemaType.PROTOBUF, 'syntax = "proto3"; message M { string a = 1 [(nobody.knows) = "x"]; }')
    assert isinstance(first, ProtobufSchema)
    options = descriptor_pb2.FileDescriptorProto.FromString(first.descriptor()).message_type[0].field[0].options
    assert options.uninterpreted_option[0].name[0].name_part == "nobody.knows"
    second = parse(SchemaType.PROTOBUF, 'syntax = "proto3"; message M { string a = 1; string b = 2; }')
    assert check(second, [first], CompatibilityLevel.FULL) == []


def test_confluents_options_need_no_import() -> None:
    with_import = descriptor(
        'syntax = "proto3"; import "confluent/meta.proto"; message M { string a = 1 [(confluent.field_meta).tags = "PII"]; }'
    )
    without = descriptor('syntax = "proto3"; message M { string a = 1 [(confluent.field_meta).tags = "PII"]; }')
    theirs = descriptor_pb2.FileDescriptorProto.FromString(with_import)
    theirs.ClearField("dependency")
    assert without == theirs.SerializeToString(deterministic=True)


def test_long_and_deep_names_of_options_are_bounded() -> None:
    own = 'syntax = "proto3"; package p; import "google/protobuf/descriptor.proto"; message R { R r = 1; string s = 2; } extend google.protobuf.FileOptions { R own = 50000; } '
    parsed = parse(SchemaType.PROTOBUF, own + "option (own)" + ".r" * 10_000 + '.s = "x";')
    with pytest.raises(SchemaError, match="more than 50 parts"):
        parsed.require_complete()
    deep = own + "option (own)" + ".r" * 48 + " = " + "{ r " * 100 + "{ }" + "}" * 100 + ";"
    assert len(descriptor(deep)) > 300


@pytest.mark.parametrize("features", ["features.repeated_field_encoding = EXPANDED", "features = { repeated_field_encoding: EXPANDED }"])  # fmt: skip
def test_options_of_an_edition_are_packed_as_its_features_say_however_they_are_told(features: str) -> None:
    text = f"""edition = "2023"; import "google/protobuf/descriptor.proto"; option {features};
    extend google.protobuf.MessageOptions {{ repeated int32 many = 50001; }} message M {{ option (many) = 1; option (many) = 2; }}"""
    parsed = parse(SchemaType.PROTOBUF, text)
    assert isinstance(parsed, ProtobufSchema)
    file = descriptor_pb2.FileDescriptorProto.FromString(parsed.descriptor("m.proto"))
    assert file.message_type[0].options.SerializeToString() == b"\x88\xb5\x18\x01\x88\xb5\x18\x02"
