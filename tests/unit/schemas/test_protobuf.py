"""Protobuf: the parser, what it refuses, the printed form, and the rules of compatibility, kind by kind.

The kinds are those that Confluent publishes for its registry; which scalars read each other stands in Protobuf's
language guide.
"""

import base64

import pytest
from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from headwater.schemas import CompatibilityLevel, SchemaError, SchemaType, check, incompatibilities, parse
from headwater.schemas.protobuf import ProtobufSchema
from headwater.schemas.protobuf.compatibility import COMPATIBLE, changes
from headwater.schemas.protobuf.types import Message
from headwater.schemas.protobuf.wellknown import well_known

PROTO3 = 'syntax = "proto3"; '


def proto(text: str, **references: str | ProtobufSchema) -> ProtobufSchema:
    parsed = parse(SchemaType.PROTOBUF, text, references)
    assert isinstance(parsed, ProtobufSchema)
    return parsed


EVERYTHING = """
// everything that the printer knows
syntax = "proto2";
package a.b;
import "google/protobuf/timestamp.proto";
import public "google/protobuf/any.proto";
option java_package = "x.\\"y\\"\\n";
option optimize_for = LITE_RUNTIME;
option (my.own).part = { key: "v" list: [1, 2] };
/* a message */
message M {
  option deprecated = true;
  reserved 5, 7 to 9, 1000 to max;
  reserved "old", 'older';
  required int32 id = 1 [deprecated = true, json_name = "ID"];
  optional string text = 2 [default = "a\\tb"];
  optional bytes data = 3 [default = "\\001\\377"];
  repeated Inner inners = 4 [(validate.rules).repeated.min_items = 1];
  map<string, .a.b.M.Inner> by_name = 10;
  oneof choice { int64 number = 11; google.protobuf.Timestamp at = 12; }
  optional group Extra = 13 { optional double d = 1 [default = -1.5]; }
  extensions 100 to 199;
  message Inner { optional Color color = 1 [default = RED]; message message { } optional message m = 2; }
  enum Color { option allow_alias = true; RED = 0; ROT = 0; BLUE = -1 [deprecated = true]; reserved 5 to 7; reserved "PINK"; }
  extend M { optional int32 inside = 101; }
}
extend M { repeated M more = 100; }
service S { option deprecated = true; rpc Get (M) returns (stream M.Inner) { option idempotency_level = IDEMPOTENT; } rpc Put (stream M) returns (M); }
"""


def test_what_is_printed_is_parsed_to_the_same() -> None:
    parsed = proto(EVERYTHING)
    assert proto(parsed.canonical).canonical == parsed.canonical
    assert proto(parsed.canonical).descriptor() == parsed.descriptor()
    assert proto(parsed.normalized()).normalized() == parsed.normalized()
    assert parsed.name == "a.b.M"


def test_google_takes_our_descriptor_and_uses_it() -> None:
    pool = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2, any_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        known.DESCRIPTOR.CopyToProto(file)
        pool.Add(file)
    pool.AddSerializedFile(proto(EVERYTHING).descriptor("everything.proto"))
    descriptor = pool.FindMessageTypeByName("a.b.M")
    assert descriptor.fields_by_name["id"].json_name == "ID"
    assert descriptor.fields_by_name["text"].default_value == "a\tb"
    assert descriptor.fields_by_name["data"].default_value == b"\x01\xff"
    assert [field.name for field in descriptor.oneofs_by_name["choice"].fields] == ["number", "at"]
    message = message_factory.GetMessageClass(descriptor)(id=1)
    message.by_name["k"].color = -1
    message.extra.d = 2.5
    again = message_factory.GetMessageClass(descriptor).FromString(message.SerializeToString())
    assert again == message


def test_the_canonical_text() -> None:
    text = 'syntax="proto3";package a;import "google/protobuf/any.proto";message M{optional string s=1;map<int32,E>m=2;oneof o{bool b=3;}enum E{Z=0;}}'
    assert proto(text).canonical == (
        'syntax = "proto3";\npackage a;\n\nimport "google/protobuf/any.proto";\n\nmessage M {\n  optional string s = 1;\n'
        "  map<int32, E> m = 2;\n  oneof o {\n    bool b = 3;\n  }\n\n  enum E {\n    Z = 0;\n  }\n}\n"
    )


def test_what_means_the_same_is_normalized_to_the_same() -> None:
    one = proto(PROTO3 + "package p; message M { N n = 2; string s = 1; message N { } }")
    two = proto(PROTO3 + "package p; message M { string s = 1; .p.M.N n = 2; message N { } }")
    assert one.canonical != two.canonical
    assert one.normalized() == two.normalized()


@pytest.mark.parametrize(("head", "written"), [('edition = "2023";', "reserved foo, bar;"), ('syntax = "proto3";', 'reserved "foo", "bar";')])  # fmt: skip
def test_reserved_names_are_written_as_protoc_takes_them(head: str, written: str) -> None:
    """In editions they were written in quotes, which protoc refuses there."""
    for given in ("reserved foo, bar;", 'reserved "foo", "bar";'):
        printed = proto(f"{head} message M {{ {given} }} enum E {{ {given} A = 0; }}").canonical
        assert printed.count(written) == 2
        assert proto(printed).canonical == printed


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("google/protobuf/type.proto", "google.protobuf.Enum"),
        ("google/protobuf/api.proto", "google.protobuf.Api"),
        ("confluent/type/variant.proto", "confluent.type.Variant"),
    ],
)
def test_files_that_everyone_has_are_imported_without_a_reference(path: str, name: str) -> None:
    """Three were not here: a schema that imports them was refused, and Confluent's registry takes it."""
    assert proto(f'{PROTO3} import "{path}"; message M {{ {name} a = 1; }}').messages.keys() == {"M"}


def test_editions_are_parsed() -> None:
    parsed = proto(
        'edition = "2023"; option features.field_presence = IMPLICIT; message M { repeated int32 a = 1 [features.repeated_field_encoding = EXPANDED]; string b = 2; }'
    )
    file = descriptor_pb2.FileDescriptorProto.FromString(parsed.descriptor())
    assert (file.syntax, file.edition) == ("editions", descriptor_pb2.EDITION_2023)
    assert proto(parsed.canonical).canonical == parsed.canonical


def test_imports_are_references() -> None:
    inner = PROTO3 + "package x; message Inner { string s = 1; }"
    outer = proto(PROTO3 + 'import "inner.proto"; message Outer { x.Inner inner = 1; }', **{"inner.proto": inner})
    assert outer.files.keys() == {"inner.proto"}
    third = proto(PROTO3 + 'import "outer.proto"; message Third { Outer o = 1; }', **{"outer.proto": outer})
    assert third.files.keys() == {"inner.proto", "outer.proto"}
    with pytest.raises(SchemaError, match=r"imports 'nowhere\.proto'"):
        proto(PROTO3 + 'import "nowhere.proto";')


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("nonsense", "nothing in it|end too early|no known form"),
        ("message M {", "ends too early"),
        ("message M { optional int32 a = ; }", "line 1, column 32"),
        ('syntax = "proto4";', "proto2 or proto3"),
        (PROTO3 + "message M { string a = 0; }", "0 is not from 1"),
        (PROTO3 + "message M { string a = 536870912; }", "is not from 1"),
        (PROTO3 + "message M { string a = 19500; }", "19000"),
        (PROTO3 + "message M { string a = 1; int32 b = 1; }", "both have the number 1"),
        (PROTO3 + "message M { string a = 1; int32 a = 2; }", "twice"),
        (PROTO3 + "message M {} message M {}", "defined twice"),
        (PROTO3 + "message M { Nope a = 1; }", "'Nope'"),
        (PROTO3 + "message M { required string a = 1; }", "required"),
        (PROTO3 + "message M { map<float, string> a = 1; }", "key of the map"),
        (PROTO3 + "message M { reserved 1 to 5; string a = 3; }", "reserved"),
        (PROTO3 + 'message M { reserved "a"; string a = 3; }', "reserved"),
        (PROTO3 + "enum E { }", "no values"),
        (PROTO3 + "enum E { A = 0; B = 0; }", "allow_alias"),
        ("message M { string a = 1; }", "optional, required or repeated"),
        (PROTO3 + "message M { string a = 1", "ends too early"),
        (PROTO3 + "message M { \x00 }", "not understood"),
        (PROTO3 + '"open', "not understood"),
        (PROTO3 + "/* open", "wanted|not understood"),
        (PROTO3 + "message M { " * 10_000, "nested"),
        (PROTO3 + "option (a) = " + "{ a: " * 10_000, "nested"),
        ("//" + "x" * (10 << 20), "characters"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        proto(text)


def message(*fields: str, more: str = "") -> str:
    return PROTO3 + "message M { " + " ".join(fields) + " }" + more


A, B, C = "string a = 1;", "string b = 2;", "string c = 3;"

RULES: list[tuple[str, str, list[str]]] = [
    (message(A), PROTO3 + "package p; message M { string a = 1; }", ["PACKAGE_CHANGED"]),
    (message(A), message(A, more="message N {}"), ["MESSAGE_ADDED"]),
    (message(A, more="message N {}"), message(A), ["MESSAGE_REMOVED"]),
    (PROTO3 + "message M {} message N {}", PROTO3 + "message N {} message M {}", ["MESSAGE_MOVED", "MESSAGE_MOVED"]),
    (message(A), message(A, B), ["FIELD_ADDED"]),
    (message(A, B), message(A), ["FIELD_REMOVED"]),
    (message(A), message("string z = 1;"), ["FIELD_NAME_CHANGED"]),
    (message(A), message("bytes a = 1;"), []),
    (message("int32 a = 1;"), message("uint64 a = 1;"), []),
    (message("int32 a = 1;"), message("bool a = 1;"), []),
    (message("sint32 a = 1;"), message("sint64 a = 1;"), []),
    (message("fixed32 a = 1;"), message("sfixed32 a = 1;"), []),
    (message("int32 a = 1;"), message("sint32 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
    (message("int32 a = 1;"), message(A), ["FIELD_SCALAR_KIND_CHANGED"]),
    (message("float a = 1;"), message("double a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
    (message("fixed32 a = 1;"), message("fixed64 a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
    (message("int32 a = 1;"), message("E a = 1;", more="enum E { Z = 0; }"), ["ENUM_ADDED"]),
    (message(A), message("M a = 1;"), ["FIELD_KIND_CHANGED"]),
    (message(A), message("map<string, string> a = 1;"), ["FIELD_KIND_CHANGED"]),
    (message("map<string, int32> a = 1;"), message("map<string, bool> a = 1;"), []),
    (message("map<string, int32> a = 1;"), message("map<int32, int32> a = 1;"), ["FIELD_SCALAR_KIND_CHANGED"]),
    (message("map<string, int32> a = 1;"), message("map<string, M> a = 1;"), ["FIELD_KIND_CHANGED"]),
    (message("N a = 1;", more="message N {} message O {}"), message("O a = 1;", more="message N {} message O {}"), ["FIELD_NAMED_TYPE_CHANGED"]),
    (message("repeated int32 a = 1;"), message("int32 a = 1;"), ["FIELD_NUMERIC_LABEL_CHANGED"]),
    (message("repeated string a = 1;"), message(A), ["FIELD_STRING_OR_BYTES_LABEL_CHANGED"]),
    (message("repeated M a = 1;"), message("M a = 1;"), []),
    ("message M { required int32 a = 1; }", "message M { }", ["REQUIRED_FIELD_REMOVED"]),
    ("message M { }", "message M { required int32 a = 1; }", ["REQUIRED_FIELD_ADDED"]),
    (message(A), message("oneof o {", A, "}"), ["ONEOF_ADDED"]),
    (message(A, B), message("oneof o {", A, B, "}"), ["MULTIPLE_FIELDS_MOVED_TO_ONEOF", "ONEOF_ADDED"]),
    (message("oneof o {", A, "}", B), message("oneof o {", A, B, "}"), ["FIELD_MOVED_TO_EXISTING_ONEOF"]),
    (message("oneof o {", A, "}"), message("oneof o {", A, B, "}"), ["ONEOF_FIELD_ADDED"]),
    (message("oneof o {", A, B, "}"), message("oneof o {", A, "}"), ["ONEOF_FIELD_REMOVED"]),
    (message("oneof o {", A, B, "}", C), message(C), ["ONEOF_REMOVED"]),
    (message("oneof o {", A, B, "}"), message("oneof o {", A, "}", B), ["ONEOF_FIELD_MOVED_TO_TOP_LEVEL"]),
    ("message M { optional group G = 1 { } }", "message M { }", ["FIELD_REMOVED"]),
    ("message M { oneof o { group G = 1 { } } }", "message M { }", ["ONEOF_REMOVED"]),
    ("message M { optional group G = 1 { optional int32 a = 1; } }", "message M { optional group G = 1 { optional bool a = 1; } }", []),
    ("message M { optional group G = 1 { optional int32 a = 1; } }", "message M { optional group G = 1 { optional string a = 1; } }", ["FIELD_SCALAR_KIND_CHANGED", "FIELD_NAMED_TYPE_CHANGED"]),
    ("message M { optional group G = 1 { } }", "message M { optional G g = 1; message G { } }", ["FIELD_KIND_CHANGED"]),
    ("message M { optional G g = 1; message G { } }", "message M { optional group G = 1 { } }", ["FIELD_KIND_CHANGED"]),
    ("message M { optional group G = 1 { } }", 'edition = "2023"; message M { G g = 1 [features.message_encoding = DELIMITED]; message G { } }', []),
    (PROTO3 + "enum E { A = 0; }", PROTO3 + "enum E { A = 0; B = 1; }", ["ENUM_CONST_ADDED"]),
    (PROTO3 + "enum E { A = 0; B = 1; }", PROTO3 + "enum E { A = 0; }", ["ENUM_CONST_REMOVED"]),
    (PROTO3 + "enum E { A = 0; }", PROTO3 + "enum E { B = 0; }", ["ENUM_CONST_CHANGED"]),
    (PROTO3 + "enum E { A = 0; } message M {}", PROTO3 + "message M {}", ["ENUM_REMOVED"]),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "kinds"), RULES)
def test_rules(before: str, after: str, kinds: list[str]) -> None:
    old, new = proto(before), proto(after)
    assert [kind for kind, _ in changes(old.file, new.file)] == kinds
    assert bool(incompatibilities(new, old)) == any(kind not in COMPATIBLE for kind in kinds)


def test_an_imported_message_is_compared_where_it_is_used() -> None:
    def using(text: str) -> ProtobufSchema:
        return proto(PROTO3 + 'import "n.proto"; message M { N n = 1; }', **{"n.proto": PROTO3 + text})

    assert incompatibilities(using("message N { string a = 1; }"), using("message N { bytes a = 1; }")) == []
    told = incompatibilities(using("message N { string a = 1; }"), using("message N { int32 a = 1; }"))
    assert [(each.kind, each.path) for each in told] == [
        ("FIELD_SCALAR_KIND_CHANGED", "#/N/1"),
        ("FIELD_NAMED_TYPE_CHANGED", "#/M/1"),
    ]


def test_a_message_says_where_and_why() -> None:
    assert check(proto(message("int32 a = 1;")), [proto(message(A))], CompatibilityLevel.BACKWARD) == [
        "{errorType:'FIELD_SCALAR_KIND_CHANGED', description:'Found incompatible change at '#/M/1' in the new schema: the field has a "
        "scalar type that is encoded differently', path:'#/M/1'}"
    ]


def test_a_chain_of_messages_is_refused_but_never_overflows() -> None:
    inner = proto(PROTO3 + "message D0 { string a = 1; }")
    links = " ".join(f"message D{index} {{ D{index - 1} a = 1; }}" for index in range(1, 500))
    chain = proto(PROTO3 + 'import "d0.proto"; message Top { D499 d = 1; } ' + links, **{"d0.proto": inner})
    with pytest.raises(SchemaError, match="too deep"):
        incompatibilities(chain, proto(PROTO3 + "message Top { D499 d = 1; } message D0 { string a = 1; } " + links))


def test_names_in_services_and_extensions_are_normalized() -> None:
    """A schema that came as text was another one than the same that came as a descriptor."""
    text = """syntax = "proto2"; package p; message M { extensions 5 to 9; optional int32 a = 1; } extend M { optional int32 x = 5; }
    service S { rpc F (stream M) returns (M); }"""
    written = proto(text)
    assert "extend .p.M {" in written.normalized()
    assert "rpc F (stream .p.M) returns (.p.M);" in written.normalized()
    assert "rpc F (stream M) returns (M);" in written.canonical
    assert proto(written.serialized()).normalized() == written.normalized()


def test_a_schema_does_not_change_what_well_known_files_mean_to_others() -> None:
    """Once somebody had an Any of their own in google.protobuf, an Option of everybody's held that one."""
    own = "package google.protobuf; message Any { int32 mine = 1; } message Duration { int32 mine = 1; }"
    proto(f'{PROTO3} import "google/protobuf/type.proto"; import "google/type/datetime.proto"; {own}')
    other = proto(f'{PROTO3} import "google/protobuf/type.proto"; import "google/type/datetime.proto";')
    targets = {
        field.target.full_name: [each.name for each in field.target.fields]
        for file in other.files.values()
        for message in file.messages
        for field in message.fields
        if isinstance(field.target, Message)
    }
    assert targets["google.protobuf.Any"] == ["type_url", "value"]
    assert targets["google.protobuf.Duration"] == ["seconds", "nanos"]


def test_imports_that_nobody_knows_are_not_kept() -> None:
    """Each path was kept for as long as the process lived."""
    proto(f'{PROTO3} import "google/protobuf/any.proto";')
    before = well_known.cache_info().currsize
    with pytest.raises(SchemaError, match="not among its references"):
        proto(f'{PROTO3} import "nobody/knows.proto";')
    assert well_known.cache_info().currsize == before


def test_a_package_does_not_begin_with_a_dot() -> None:
    """It was taken, and normalized into text that nobody could read."""
    with pytest.raises(SchemaError, match="a name is wanted"):
        proto(f"{PROTO3} package .b; message M {{ N n = 1; message N {{ int32 x = 1; }} }}")
    descriptor = descriptor_pb2.FileDescriptorProto(package=".b", syntax="proto3").SerializeToString()
    with pytest.raises(SchemaError, match="is not a name"):
        proto(base64.b64encode(descriptor).decode())
