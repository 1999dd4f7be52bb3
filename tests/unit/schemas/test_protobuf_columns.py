"""Protobuf into Arrow's columns and back: the compiled codec beside its twin in Python, with google's own as oracle,
and on bytes that are no messages.
"""

import datetime
import random
import struct
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, duration_pb2, message_factory, timestamp_pb2, wrappers_pb2

from headwater.schemas import SchemaType, parse
from headwater.schemas.columns import NoColumns, protobuf
from headwater.schemas.columns.protobuf import (
    OtherMessage,
    message_row_encoder,
    message_rows,
    protobuf_columns,
    protobuf_rows,
)
from headwater.schemas.columns.protobuf_rows import read_message
from headwater.schemas.columns.protobuf_shapes import Label, MessageShape, shape_of
from headwater.schemas.model import DataError
from headwater.schemas.protobuf import ProtobufSchema
from headwater.schemas.protobuf.messages import compile_message_reader

EVERYTHING = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";

enum Colour { NONE = 0; RED = 1; DARK = -7; }

message Line {
  string sku = 1;
  sint32 count = 2;
  repeated string tags = 3;
  map<string, Price> prices = 4;
}
message Price { double amount = 1; optional string currency = 2; }

message Order {
  int64 id = 1;
  optional int32 maybe = 2;
  uint32 u32 = 3;
  uint64 u64 = 4;
  sint64 s64 = 5;
  fixed32 f32 = 6;
  fixed64 f64 = 7;
  sfixed32 sf32 = 8;
  sfixed64 sf64 = 9;
  bool flag = 10;
  bytes raw = 11;
  float share = 12;
  Colour colour = 13;
  optional Colour second = 14;
  Line first = 15;
  repeated Line lines = 16;
  repeated int32 numbers = 17;
  repeated sint64 loose = 18 [packed = false];
  repeated Colour colours = 19;
  map<int32, string> names = 20;
  map<bool, Colour> switches = 21;
  oneof choice { string text = 22; int64 number = 23; Price price = 24; }
  google.protobuf.Timestamp at = 25;
  google.protobuf.Duration took = 26;
  google.protobuf.Int64Value wrapped = 27;
  google.protobuf.StringValue wrapped_text = 28;
  repeated google.protobuf.Timestamp times = 29;
  repeated google.protobuf.DoubleValue doubles = 30;
  repeated double more = 2000;
  int32 int32 = 536870911;
}
"""
OLD = """
syntax = "proto2";
message Old {
  optional int32 a = 1 [default = 5];
  required string b = 2;
  repeated int32 c = 3;
  optional group Inner = 4 { optional int32 x = 1; repeated group Deep = 2 { optional bool y = 1; } }
}
"""


def schema_of(text: str) -> ProtobufSchema:
    parsed = parse(SchemaType.PROTOBUF, text)
    assert isinstance(parsed, ProtobufSchema)
    return parsed


def shape(text: str, name: str) -> MessageShape:
    return shape_of(schema_of(text).messages[name])


def google_class(text: str, name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for known in (timestamp_pb2, duration_pb2, wrappers_pb2):
        pool.AddSerializedFile(known.DESCRIPTOR.serialized_pb)
    pool.Add(descriptor_pb2.FileDescriptorProto.FromString(schema_of(text).descriptor("test.proto")))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


ORDER = shape(EVERYTHING, "shop.Order")
Order = google_class(EVERYTHING, "shop.Order")


class Messages:
    """Random messages of google's classes, filled in by what their descriptors say."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def fill(self, message: Any, depth: int = 0) -> Any:
        draw = self.random
        for field in message.DESCRIPTOR.fields:
            if draw.random() < 0.4:
                continue
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
                for _ in range(draw.randrange(3)):
                    held = getattr(message, field.name)
                    if value.message_type is not None:
                        self.fill(held[self.scalar(key)], depth + 1)
                    else:
                        held[self.scalar(key)] = self.scalar(value)
            elif field.is_repeated:
                for _ in range(draw.choice([0, 1, 2, 30])):
                    if field.message_type is not None:
                        self.inside(getattr(message, field.name).add(), depth)
                    else:
                        getattr(message, field.name).append(self.scalar(field))
            elif field.message_type is not None:
                getattr(message, field.name).SetInParent()
                self.inside(getattr(message, field.name), depth)
            else:
                setattr(message, field.name, self.scalar(field))
        return message

    def inside(self, message: Any, depth: int) -> None:
        if message.DESCRIPTOR.full_name == "google.protobuf.Timestamp":
            message.FromMicroseconds(self.random.randint(-(10**16), 10**17))
        elif message.DESCRIPTOR.full_name == "google.protobuf.Duration":
            message.FromMicroseconds(self.random.randint(-(10**12), 10**12))
        else:
            self.fill(message, depth + 1)

    def scalar(self, field: Any) -> Any:
        draw = self.random
        kinds = descriptor_pb2.FieldDescriptorProto
        match field.type:
            case kinds.TYPE_STRING:
                return draw.choice(["", "a", "äöü" * draw.randrange(40), "x" * 200])
            case kinds.TYPE_BYTES:
                return draw.randbytes(draw.choice([0, 3, 200]))
            case kinds.TYPE_BOOL:
                return draw.random() < 0.5
            case kinds.TYPE_ENUM:
                return draw.choice([0, 1, -7, 99])
            case kinds.TYPE_DOUBLE:
                return draw.choice([0.0, -0.0, 1.5, float("inf"), draw.random()])
            case kinds.TYPE_FLOAT:
                return struct.unpack("<f", struct.pack("<f", draw.choice([0.0, 2.5, -draw.random()])))[0]
        bits = 32 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
        if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
            return draw.choice([0, 1, draw.randrange(1 << bits), (1 << bits) - 1])
        return draw.choice([0, -1, draw.randrange(-(1 << bits - 1), 1 << bits - 1), -(1 << bits - 1)])


def plain(message: Any) -> dict[str, Any]:
    """A message of google's as its columns should be."""
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            item = field.message_type.fields_by_name["value"]
            row[field.name] = sorted((key, plain_value(item, value[key])) for key in value)
        elif field.is_repeated:
            row[field.name] = [plain_value(field, each) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = plain_value(field, value)
    return row


def plain_value(field: Any, value: Any) -> Any:
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name == "google.protobuf.Timestamp":
        return value.ToMicroseconds()
    if name == "google.protobuf.Duration":
        return datetime.timedelta(microseconds=value.ToMicroseconds())
    if name.startswith("google.protobuf."):
        return value.value
    return plain(value)


def comparable(rows: Any) -> Any:
    """Maps in order, and times as microseconds: pyarrow's own datetimes end before Protobuf's times do."""
    if isinstance(rows, dict):
        return {name: comparable(value) for name, value in rows.items()}
    if isinstance(rows, list):
        made = [comparable(each) for each in rows]
        is_map = bool(made) and all(isinstance(each, tuple) for each in made)
        return sorted(made, key=lambda each: each[0]) if is_map else made
    if isinstance(rows, tuple):
        return tuple(comparable(each) for each in rows)
    if isinstance(rows, datetime.datetime):
        return (rows - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
    return rows


def both(of: MessageShape, rows: list[bytes | None], prefix: int = 0, path: bytes = b"") -> pa.Array:
    column = pa.array(rows, pa.binary())
    compiled = protobuf_columns(of)(column, prefix, path)
    compiled.validate(full=True)
    by_rows = message_rows(of)(column, prefix, path)
    assert compiled.type == by_rows.type
    assert repr(compiled.to_pylist()) == repr(by_rows.to_pylist())  # repr: -0.0 and NaN
    return compiled


def test_the_codec_is_compiled_where_the_other_codecs_are() -> None:
    from headwater.records import codec

    if not codec.COMPILED:
        pytest.skip("nothing is compiled here: no C compiler, or HEADWATER_PURE=1")
    assert protobuf.COMPILED, "build it: pip install -e ."


def test_random_messages_come_out_as_google_reads_them() -> None:
    messages = Messages(1)
    made = [messages.fill(Order()) for _ in range(60)]
    rows: list[bytes | None] = [each.SerializeToString() for each in made]
    rows.insert(3, None)
    column = both(ORDER, rows)
    wanted: list[Any] = [comparable(plain(each)) for each in made]
    wanted.insert(3, None)
    assert comparable(column.to_pylist()) == wanted
    assert both(ORDER, [b"12345\0" + (row or b"") for row in rows], 5, b"\0").to_pylist()[0] == column[0].as_py()


def test_columns_are_written_as_google_writes_them() -> None:
    """But for the order of maps, which has none; twice, so that slices are written as well."""
    messages = Messages(2)
    made = [messages.fill(Order()) for _ in range(60)]
    column = both(ORDER, [each.SerializeToString() for each in made])
    for part, expected in ((column, made), (column.slice(7, 20), made[7:27])):
        compiled = protobuf_rows(ORDER)(part, b"pre")
        assert compiled.to_pylist() == message_row_encoder(ORDER)(part, b"pre").to_pylist()
        assert [Order.FromString(each[3:]) for each in compiled.to_pylist()] == expected
    without_maps = [each for each in made if not (each.names or each.switches or each.first.prices or each.lines)]
    assert without_maps
    column = both(ORDER, [each.SerializeToString() for each in without_maps])
    assert protobuf_rows(ORDER)(column, b"").to_pylist() == [each.SerializeToString() for each in without_maps]


def test_null_rows_stay_null_on_the_way_back() -> None:
    column = both(ORDER, [None, b"", None])
    assert protobuf_rows(ORDER)(column, b"x").to_pylist() == [None, b"x", None]


def test_fields_in_any_order_the_last_wins_and_parts_are_merged() -> None:
    one, two = Order(id=1, u32=5), Order(id=2)
    one.first.sku, two.first.count = "a", 3
    one.first.tags.append("x")
    two.first.tags.append("y")
    one.numbers.extend([1, 2])
    two.numbers.append(3)
    data = two.SerializeToString() + one.SerializeToString()
    (row,) = both(ORDER, [data]).to_pylist()
    assert comparable(row) == comparable(plain(Order.FromString(data)))
    assert row["first"]["tags"] == ["y", "x"]
    assert row["id"] == 1


def test_of_a_oneof_only_the_last_counts_and_what_was_before_it_is_gone() -> None:
    first, second, third = Order(), Order(text="t"), Order()
    first.price.amount = 1.5
    third.price.currency = "EUR"
    data = first.SerializeToString() + second.SerializeToString() + third.SerializeToString()
    (row,) = both(ORDER, [data]).to_pylist()
    assert row["price"] == {"amount": 0.0, "currency": "EUR"}
    assert row["text"] is None
    (row,) = both(ORDER, [first.SerializeToString() + second.SerializeToString()]).to_pylist()
    assert (row["text"], row["price"]) == ("t", None)


def test_packed_and_loose_numbers_are_read_alike() -> None:
    loose = b"".join(b"\x88\x01" + bytes([number]) for number in (1, 2))  # field 17, one by one
    packed = b"\x8a\x01\x02\x03\x04"
    (row,) = both(ORDER, [loose + packed]).to_pylist()
    assert row["numbers"] == [1, 2, 3, 4]


def test_what_a_reader_does_not_know_or_has_another_type_is_passed_over() -> None:
    unknown = b"\xc2\x3e\x03abc" + b"\xc3\x3e\x08\x01\xc4\x3e"  # field 1000: bytes, then a group
    (row,) = both(ORDER, [unknown + b"\x08\x05" + b"\x0a\x01x"]).to_pylist()  # and id as text
    assert row["id"] == 5


def test_proto2_has_presence_everywhere_and_groups() -> None:
    old, cls = shape(OLD, "Old"), google_class(OLD, "Old")
    assert [each.label for each in old.fields] == [Label.EXPLICIT, Label.EXPLICIT, Label.REPEATED, Label.EXPLICIT]
    message = cls(b="b", c=[1, 2])
    message.inner.x = 4
    message.inner.deep.add().y = True
    rows: list[bytes | None] = [message.SerializeToString(), cls(a=0, b="").SerializeToString()]
    column = both(old, rows)
    assert column.to_pylist() == [
        {"a": None, "b": "b", "c": [1, 2], "inner": {"x": 4, "deep": [{"y": True}]}},
        {"a": 0, "b": "", "c": [], "inner": None},
    ]
    assert protobuf_rows(old)(column, b"").to_pylist() == rows
    assert message_row_encoder(old)(column, b"").to_pylist() == rows


def test_editions_say_what_is_absent_and_packed() -> None:
    text = """edition = "2023";
    message E { int32 a = 1; int32 b = 2 [features.field_presence = IMPLICIT]; repeated int32 c = 3; repeated int32 d = 4 [features.repeated_field_encoding = EXPANDED]; }"""
    fields = shape(text, "E").fields
    assert [each.label for each in fields] == [Label.EXPLICIT, Label.IMPLICIT, Label.REPEATED, Label.REPEATED]
    assert [each.is_packed for each in fields] == [False, False, True, False]


def test_messages_within_themselves_have_no_columns() -> None:
    with pytest.raises(NoColumns, match="Tree contains itself"):
        shape('syntax = "proto3"; message Tree { repeated Tree children = 1; }', "Tree")


def test_columns_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.schemas.columns import protobuf_shapes

    monkeypatch.setattr(protobuf_shapes, "FIELDS_MAX", 40)
    with pytest.raises(NoColumns, match="more than 40 columns"):
        shape(EVERYTHING, "shop.Order")


# Bytes that are no messages


def outcome(decode: Any, rows: list[bytes]) -> Any:
    try:
        return repr(decode(pa.array(rows, pa.binary()), 0, b"").to_pylist())
    except DataError as error:
        return str(error)


def test_damage_means_the_same_to_both() -> None:
    draw, messages = random.Random(3), Messages(3)
    compiled, twin = protobuf_columns(ORDER), message_rows(ORDER)
    refused = 0
    for _ in range(600):
        data = bytearray(messages.fill(Order()).SerializeToString())
        for _ in range(draw.randrange(1, 4)):
            if data:
                data[draw.randrange(len(data))] = draw.choice([0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)])
        del data[draw.choice([len(data), draw.randrange(len(data) + 1)]) :]
        found = outcome(compiled, [bytes(data)])
        wanted = outcome(twin, [bytes(data)])
        if found.startswith("row") or wanted.startswith("row"):
            assert found.startswith("row"), (wanted, bytes(data))
            assert wanted.startswith("row"), (found, bytes(data))
            refused += 1
        else:
            assert found == wanted
    assert refused > 100


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x08", "end too early"),
        (b"\x08" + b"\xff" * 10, "number is too large"),
        (b"\x09\x01", "end too early"),
        (b"\x5a\x05ab", "beyond the bytes"),
        (b"\x00\x01", "no such field"),
        (b"\x0e", "no such field"),
        (b"\x0c", "no such field"),
        (b"\x7b\x08", "end too early"),
        (b"\x7a\x03\x0a\x01\xff", "UTF-8"),
        (b"\x0b" * 200 + b"\x0c" * 200, "nested too deep"),
        (b"\xca\x01\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "number is too large"),
    ],
)
def test_what_is_wrong_is_told_by_both(data: bytes, reason: str) -> None:
    for decode in (protobuf_columns(ORDER), message_rows(ORDER)):
        assert reason in outcome(decode, [b"", data])
        assert outcome(decode, [b"", data]).startswith("row 1: ")


def test_few_bytes_cannot_make_many_values() -> None:
    if not protobuf.COMPILED:
        pytest.skip("the twin has Python's limits alone")
    fields = "".join(f"int32 f{number} = {number};" for number in range(1, 2001))
    wide = shape(f'syntax = "proto3"; message W {{ {fields} }} message Top {{ repeated W w = 1; }}', "Top")
    with pytest.raises(DataError, match="too many values"):
        protobuf_columns(wide)(pa.array([b"\x0a\x00" * 100_000], pa.binary()), 0, b"")


def test_another_path_than_expected_is_told() -> None:
    for decode in (protobuf_columns(ORDER), message_rows(ORDER)):
        with pytest.raises(OtherMessage, match="row 1"):
            decode(pa.array([b"\0", b"\2\0"], pa.binary()), 0, b"\0")


# Columns that do not fit


def test_what_a_message_cannot_hold_is_refused_by_both() -> None:
    small = 'syntax = "proto3"; enum E { A = 0; } message S { oneof o { int32 a = 1; int32 b = 2; } repeated int32 r = 3; E e = 4; map<string, int32> m = 5; }'
    of = shape(small, "S")
    fine = {"a": None, "b": 1, "r": [1], "e": "A", "m": [("k", 1)]}
    bad = [{**fine, "a": 1}, {**fine, "r": [None]}, {**fine, "e": "B"}, {**fine, "m": [("k", None)]}]
    of_type = pa.struct(
        [("a", pa.int32()), ("b", pa.int32()), ("r", pa.list_(pa.int32())), ("e", pa.string()), ("m", pa.map_(pa.string(), pa.int32()))]
    )  # fmt: skip
    for encode in (protobuf_rows(of), message_row_encoder(of)):
        assert encode(pa.array([fine, {**fine, "e": "7"}], of_type), b"").null_count == 0
        for each in bad:
            with pytest.raises(DataError):
                encode(pa.array([fine, each], of_type), b"")
        with pytest.raises(DataError, match="does not fit"):
            encode(pa.array(["x"]), b"")


# The reader of dicts (`protobuf.messages`): without times, which it makes Python's own

NO_TIMES = "\n".join(line for line in EVERYTHING.splitlines() if "Timestamp" not in line and "Duration" not in line)


def as_read(read: Any, data: bytes) -> str | None:
    try:
        return repr(alike(read(data)))
    except DataError:
        return None


def alike(value: Any) -> Any:
    """Maps, which are pairs to the twin; and numbers of enums that have no name, which are text to it."""
    if isinstance(value, list):
        return [alike(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, each in value.items():
        if name in ("names", "switches", "prices"):
            each = {key: str(item) if name == "switches" else alike(item) for key, item in dict(each).items()}
        elif name in ("colour", "second") and each is not None:
            each = str(each)
        elif name == "colours":
            each = [str(item) for item in each]
        made[name] = each if name in ("names", "switches", "prices") else alike(each)
    return made


def test_dicts_are_read_as_columns_are() -> None:
    """Parts in any order, two fields of a oneof, groups, wire types that are another's, and bytes that are damaged."""
    message = schema_of(NO_TIMES).messages["shop.Order"]
    read, shaped = compile_message_reader(message), shape_of(message)
    messages, seen = Messages(5), {"good": 0, "bad": 0}
    draw = messages.random
    for _ in range(300):
        data = messages.fill(Order()).SerializeToString()
        match draw.randrange(4):
            case 0:
                data += messages.fill(Order()).SerializeToString()
            case 1:
                at = draw.randrange(len(data) + 1)
                data = data[:at] + draw.randbytes(draw.randrange(1, 4)) + data[at + draw.randrange(3) :]
            case 2:
                data = data[: draw.randrange(len(data) + 1)]
            case 3:
                data += b"\x0b" + data[: draw.choice([0, 0, 5])] + b"\x0c" + draw.choice([b"", b"\xfb\x01\xfc\x01"])
        found, wanted = as_read(read, data), as_read(lambda each: read_message(shaped, each), data)
        assert found == wanted, data.hex()
        seen["good" if wanted is not None else "bad"] += 1
    assert min(seen.values()) > 50


def test_dicts_of_proto2_with_groups_and_of_editions() -> None:
    old, cls = schema_of(OLD).messages["Old"], google_class(OLD, "Old")
    message = cls(b="b", c=[1, 2])
    message.inner.x = 4
    message.inner.deep.add().y = True
    assert compile_message_reader(old)(message.SerializeToString()) == {
        "a": None, "b": "b", "c": [1, 2], "inner": {"x": 4, "deep": [{"y": True}]},
    }  # fmt: skip
    text = 'edition = "2023"; message E { int32 a = 1; int32 b = 2 [features.field_presence = IMPLICIT]; }'
    assert compile_message_reader(schema_of(text).messages["E"])(b"") == {"a": None, "b": 0}
