"""Messages by a parsed .proto file: what google.protobuf writes is read, and what is written it reads."""

import datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory, timestamp_pb2, wrappers_pb2

from headwater.schemas import SchemaType, parse
from headwater.schemas.columns.protobuf_shapes import Label, shape_of
from headwater.schemas.model import DataError
from headwater.schemas.protobuf import ProtobufSchema
from headwater.schemas.protobuf.messages import compile_message_reader, compile_message_writer

_EVERYTHING = """
syntax = "proto3";
import "google/protobuf/wrappers.proto";
import "google/protobuf/timestamp.proto";
message Everything {
  int32 i = 1; int64 l = 2; uint32 u = 3; uint64 ul = 4; sint32 s = 5; sint64 sl = 6; fixed32 f = 7; fixed64 fl = 8;
  sfixed32 sf = 9; sfixed64 sfl = 10; float fl4 = 11; double d = 12; bool b = 13; string t = 14; bytes y = 15;
  Suit suit = 16; Inner inner = 17; repeated int32 many = 18; repeated string texts = 19; repeated Inner inners = 20;
  map<string, int64> counts = 21; map<int32, Inner> named = 22; optional int32 maybe = 23;
  google.protobuf.Int32Value wrapped = 24; google.protobuf.Timestamp at = 25; repeated Suit suits = 26; repeated double rates = 27;
  oneof choice { string word = 28; int32 number = 29; }
  enum Suit { SPADES = 0; HEARTS = 1; CLUBS = 4; }
  message Inner { string x = 1; }
}
"""
_VALUES: dict[str, Any] = {
    "i": -1, "l": -(1 << 63), "u": (1 << 32) - 1, "ul": (1 << 64) - 1, "s": -5, "sl": -(1 << 40), "f": 7, "fl": 1 << 63, "sf": -8,
    "sfl": -9, "fl4": 1.5, "d": -2.25, "b": True, "t": "grüße", "y": b"\x00\xff", "suit": "CLUBS", "inner": {"x": "a"},
    "many": [1, -2, 300], "texts": ["", "b"], "inners": [{"x": "p"}, {"x": ""}], "counts": {"a": 1, "": 0},
    "named": {3: {"x": "q"}}, "maybe": 0, "wrapped": 0, "at": datetime.datetime(2024, 2, 29, 12, 30, 15, 250_000),  # noqa: DTZ001
    "suits": ["HEARTS", "SPADES"], "rates": [0.5], "word": None, "number": 0,
}  # fmt: skip


def schema(text: str) -> ProtobufSchema:
    parsed = parse(SchemaType.PROTOBUF, text)
    assert isinstance(parsed, ProtobufSchema)
    return parsed


def theirs(parsed: ProtobufSchema) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for module in (wrappers_pb2, timestamp_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    file = descriptor_pb2.FileDescriptorProto.FromString(parsed.descriptor("default.proto"))
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(parsed.file.messages[0].full_name))


def test_googles_library_reads_what_was_written_and_the_other_way_round() -> None:
    parsed = schema(_EVERYTHING)
    message = theirs(parsed)()
    written = compile_message_writer(parsed.file.messages[0])(_VALUES)
    message.ParseFromString(written)
    shown = json_format.MessageToDict(message, preserving_proto_field_name=True)
    assert (shown["l"], shown["t"], shown["suit"], shown["counts"]) == (
        str(-(1 << 63)),
        "grüße",
        "CLUBS",
        {"a": "1", "": "0"},
    )
    assert (shown["at"], shown["named"], shown["number"], shown["wrapped"]) == (
        "2024-02-29T12:30:15.250Z",
        {"3": {"x": "q"}},
        0,
        0,
    )
    assert compile_message_reader(parsed.file.messages[0])(message.SerializeToString()) == _VALUES


def test_what_is_not_on_the_wire_is_its_default_or_none() -> None:
    found = compile_message_reader(schema(_EVERYTHING).file.messages[0])(b"")
    assert (found["i"], found["t"], found["suit"], found["many"], found["counts"]) == (0, "", "SPADES", [], {})
    assert [found[name] for name in ("inner", "maybe", "wrapped", "at", "word", "number")] == [None] * 6
    older = schema('syntax = "proto2"; message A { optional int32 x = 1; }').file.messages[0]
    assert compile_message_reader(older)(b"") == {"x": None}


def test_known_types_are_pythons_own() -> None:
    text = """syntax = "proto3"; import "confluent/type/decimal.proto"; import "google/type/date.proto"; import "google/type/timeofday.proto";
    message M { confluent.type.Decimal d = 1; google.type.Date day = 2; google.type.TimeOfDay at = 3; }"""
    message = schema(text).file.messages[0]
    value = {"d": Decimal("-12.50"), "day": datetime.date(1999, 12, 31), "at": datetime.time(23, 59, 59, 5_000)}
    assert compile_message_reader(message)(compile_message_writer(message)(value)) == value


DECIMAL = 'syntax = "proto3"; import "confluent/type/decimal.proto"; message M { confluent.type.Decimal d = 1; }'


@pytest.mark.parametrize(
    ("value", "unscaled", "precision", "scale"),
    [
        ("12345678901234567890123456789012345678.90", 1234567890123456789012345678901234567890, 40, 2),
        ("-1.28", b"\x80", 3, 2),
        ("0.001", 1, 1, 3),
        ("1E+3", 1, 1, -3),
        ("0.00", 0, 1, 2),
        ("1E-2147483647", 1, 1, 2147483647),
    ],
)
def test_a_decimal_is_written_as_java_does_and_read_with_every_digit(
    value: str, unscaled: int | bytes, precision: int, scale: int
) -> None:
    """28 digits were kept, -1.28 took two bytes, and a scale beyond a million ended in an error of Python's own."""
    message = schema(DECIMAL).file.messages[0]
    written = compile_message_writer(message)({"d": Decimal(value)})
    fields = compile_message_reader(message.fields[0].target)(written[2:])  # type: ignore[arg-type]
    data = unscaled if isinstance(unscaled, bytes) else unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big")
    assert fields == {"value": data, "precision": precision, "scale": scale}
    found = compile_message_reader(message)(written)["d"]
    assert found.as_tuple() == Decimal(value).as_tuple()


@pytest.mark.parametrize(("unscaled", "precision", "found"), [(12345, 3, "123"), (-99_95, 3, "-100"), (12345, 0, "123.45")])  # fmt: skip
def test_a_decimal_of_more_digits_than_its_precision_is_rounded_as_confluents(
    unscaled: int, precision: int, found: str
) -> None:
    message = schema(DECIMAL).file.messages[0]
    inner = {"value": unscaled.to_bytes(2, "big", signed=True), "precision": precision, "scale": 2}
    assert compile_message_reader(message)(compile_message_writer(message)({"d": inner}))["d"] == Decimal(found)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "1E-2147483649"])
def test_a_decimal_without_digits_or_beyond_a_scale_is_refused(value: str) -> None:
    with pytest.raises(DataError, match=r"is no confluent\.type\.Decimal"):
        compile_message_writer(schema(DECIMAL).file.messages[0])({"d": Decimal(value)})


def test_unknown_fields_are_passed_over_and_unpacked_lists_are_lists() -> None:
    message = schema('syntax = "proto3"; message A { repeated int32 x = 1; }').file.messages[0]
    assert compile_message_reader(message)(b"\x08\x01\x08\x02\x12\x01a\x1d\x00\x00\x00\x00") == {"x": [1, 2]}


@pytest.mark.parametrize("data", [b"\x08", b"\x0a\x05a", b"\x0b", b"\x08" + b"\xff" * 11, b"\x72\x01\xff", b"\x0d\x01"])
def test_bytes_that_are_no_message_are_told(data: bytes) -> None:
    with pytest.raises(DataError):
        compile_message_reader(schema(_EVERYTHING).file.messages[0])(data)


def test_messages_within_messages_are_bounded() -> None:
    message = schema('syntax = "proto3"; message A { A a = 1; }').file.messages[0]
    data = b""
    for _ in range(120):
        data = b"\x0a" + _length(len(data)) + data
    with pytest.raises(DataError, match="nested too deep"):
        compile_message_reader(message)(data)


@pytest.mark.timeout(60)
def test_a_message_in_many_parts_is_put_together_once() -> None:
    """With a copy of what came before for each part, this takes many minutes."""
    text = 'syntax = "proto3"; message A { B b = 1; map<string, B> m = 2; } message B { bytes x = 1; int32 n = 2; }'
    read = compile_message_reader(schema(text).file.messages[0])
    part = b"\x0a" + _length(1000) + bytes(1000)
    parts = 20_000
    whole = (b"\x0a" + _length(len(part)) + part) * parts + b"\x0a\x02\x10\x07"
    assert read(whole)["b"] == {"x": bytes(1000), "n": 7}
    entry = (b"\x12" + _length(len(part)) + part) * parts + b"\x12\x02\x10\x08"
    size = len(entry)
    varint = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14 & 0x7F | 0x80, size >> 21])
    assert read(b"\x12" + varint + entry)["m"] == {"": {"x": bytes(1000), "n": 8}}


def _length(size: int) -> bytes:
    return bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])


def test_values_that_do_not_fit_are_told() -> None:
    write = compile_message_writer(schema(_EVERYTHING).file.messages[0])
    for value in ({"suit": "STARS"}, {"inner": 4}, {"fl4": "x"}, {"many": ["x"]}):
        with pytest.raises(DataError):
            write(value)


GROUPS = """syntax = "proto2"; message A {
  optional group G = 1 { optional int32 x = 1; repeated group Deep = 2 { optional bool y = 1; } } repeated group H = 2 { optional string s = 1; }
  oneof o { group K = 3 { optional int32 k = 1; } int32 z = 4; } repeated int32 plain = 5; repeated int32 packed = 6 [packed = true];
  optional B b = 7; message B { optional string s = 1; } repeated E e = 8; enum E { NONE = 0; ONE = 1; } }"""
DELIMITED = """edition = "2023"; option features.message_encoding = DELIMITED; message A { B b = 1; repeated B c = 2;
  B d = 3 [features.message_encoding = LENGTH_PREFIXED]; map<int32, B> m = 4; repeated E e = 5; repeated int32 plain = 6 [features.repeated_field_encoding = EXPANDED];
  message B { int32 x = 1; } enum E { NONE = 0; ONE = 1; } }"""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            GROUPS,
            {
                "g": {"x": 5, "deep": [{"y": True}, {"y": None}]}, "h": [{"s": "a"}, {"s": ""}], "k": {"k": 3}, "z": None, "plain": [1, 2],
                "packed": [3], "b": {"s": "c"}, "e": ["ONE", "NONE"],
            },
        ),
        (
            DELIMITED,
            {"b": {"x": 0}, "c": [{"x": 1}, {"x": None}], "d": {"x": 2}, "m": {1: {"x": 3}}, "e": ["ONE"], "plain": [1, -1]},
        ),
    ],
)  # fmt: skip
def test_groups_and_lists_are_written_in_googles_bytes(text: str, value: dict[str, Any]) -> None:
    """A group was written with a length, which every other reader passes over as a field that it does not know."""
    parsed = schema(text)
    written = compile_message_writer(parsed.file.messages[0])(value)
    message = theirs(parsed).FromString(written)
    assert message.SerializeToString(deterministic=True) == written
    assert not [name for name, each in value.items() if each and not getattr(message, name)]
    assert compile_message_reader(parsed.file.messages[0])(written) == value


@pytest.mark.parametrize("all_in_one", [False, True])
def test_features_of_an_edition_hold_however_they_are_told(all_in_one: bool) -> None:
    """Those of a descriptor, which has them in one message, were passed over: 0 came out as null."""
    text = """edition = "2023"; option features.field_presence = IMPLICIT;
    message A { int32 a = 1; int32 b = 2 [features.field_presence = EXPLICIT]; repeated int32 c = 3 [features.repeated_field_encoding = EXPANDED]; }"""
    parsed = schema(text)
    if all_in_one:
        parsed = schema(parsed.serialized())
    message = parsed.file.messages[0]
    assert compile_message_reader(message)(b"") == {"a": 0, "b": None, "c": []}
    assert compile_message_writer(message)({"a": 0, "b": 0, "c": [1, 2]}) == b"\x10\x00\x18\x01\x18\x02"
    assert [each.name for each in shape_of(message).fields if each.label is Label.EXPLICIT] == ["b"]


@pytest.mark.parametrize(
    "value",
    [
        {"i": 1 << 31}, {"i": -(1 << 31) - 1}, {"u": 1 << 32}, {"l": 1 << 63}, {"ul": 1 << 64}, {"s": 1 << 31}, {"sl": 1 << 63}, {"i": 1.5},
        {"many": [1 << 31]}, {"named": {1 << 31: {}}}, {"suit": 1 << 31}, {"wrapped": 1 << 31}, {"b": 2},
    ],
)  # fmt: skip
def test_a_number_that_its_field_cannot_hold_is_refused(value: dict[str, Any]) -> None:
    """It was written without its upper bits, or what is behind its point: readers got another number."""
    with pytest.raises(DataError, match=r"is no (int|uint|sint)(32|64)|is no bool"):
        compile_message_writer(schema(_EVERYTHING).file.messages[0])(value)


def test_the_upper_half_of_numbers_without_a_sign_may_be_negative_as_in_java() -> None:
    parsed = schema(_EVERYTHING)
    written = compile_message_writer(parsed.file.messages[0])({"u": -1, "ul": -1})
    assert written == theirs(parsed)(u=(1 << 32) - 1, ul=(1 << 64) - 1).SerializeToString()


@pytest.mark.parametrize(
    "value", [{"d": -0.0}, {"fl4": -0.0}, {"fl4": 1e-60}, {"suit": 0}, {"suit": "SPADES"}, {"d": 0}]
)
def test_what_is_left_out_as_a_default_is_what_google_leaves_out(value: dict[str, Any]) -> None:
    """-0.0 was read as 0.0: it equals the default, and is not the default."""
    parsed = schema(_EVERYTHING)
    written = compile_message_writer(parsed.file.messages[0])(value)
    assert written == theirs(parsed)(**value).SerializeToString()


def test_a_time_with_a_zone_is_written_in_utc() -> None:
    """Its zone was cut off: 12:00+02:00 became 12:00Z."""
    parsed = schema(_EVERYTHING)
    zone = datetime.timezone(datetime.timedelta(hours=2))
    written = compile_message_writer(parsed.file.messages[0])({"at": datetime.datetime(2024, 1, 1, 1, tzinfo=zone)})
    assert theirs(parsed).FromString(written).at.ToJsonString() == "2023-12-31T23:00:00Z"


@pytest.mark.parametrize("kind", ["google.type.Date", "google.type.TimeOfDay", "google.type.DateTime", "B"])
def test_a_time_is_no_message_but_its_own(kind: str) -> None:
    """What the message has no field for was left out: a message of zeros, or a DateTime of many seconds."""
    text = f"""syntax = "proto3"; import "google/type/date.proto"; import "google/type/timeofday.proto"; import "google/type/datetime.proto";
    message M {{ {kind} a = 1; }} message B {{ int32 x = 1; }}"""
    with pytest.raises(DataError, match="is wanted, not time" if kind != "google.type.TimeOfDay" else "not datetime"):
        compile_message_writer(schema(text).file.messages[0])(
            {"a": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC) if "Of" in kind else datetime.time(1)}
        )
