"""What is fuzzed of schemas: any bytes to the compiled decoders of Avro and Protobuf, held against their twins in
Python.

The first byte chooses the schemas, the second how many of the bytes behind it are the first row; the rest is the
second. Both decoders give the same columns or refuse the row, and what came out of the compiled one goes back through
the compiled encoder.
"""

import datetime
import functools
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headwater.schemas import SchemaType, parse
from headwater.schemas.avro import AvroSchema
from headwater.schemas.avro.encoding import compile_writer
from headwater.schemas.columns import avro_columns, avro_rows
from headwater.schemas.columns.protobuf import message_rows, protobuf_columns, protobuf_rows
from headwater.schemas.columns.protobuf_rows import write_message
from headwater.schemas.columns.protobuf_shapes import MessageShape, shape_of
from headwater.schemas.columns.rows import row_decoder
from headwater.schemas.model import DataError
from headwater.schemas.protobuf import ProtobufSchema

Decode = Callable[[pa.Array], pa.Array]
CHOICES_BYTES = 2


def _record(*fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields], **more}


INNER = {"type": "record", "name": "Inner", "fields": [{"name": "n", "type": "long"}, {"name": "t", "type": "string"}]}
EVERYTHING = _record(
    ("i", "int"),
    ("l", ["null", "long"]),
    ("d", "double"),
    ("f", ["float", "null"]),
    ("b", "boolean"),
    ("s", "string"),
    ("raw", "bytes"),
    ("fixed", {"type": "fixed", "name": "F", "size": 5}),
    ("e", {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}),
    ("day", {"type": "int", "logicalType": "date"}),
    ("at", ["null", {"type": "long", "logicalType": "timestamp-micros"}]),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}),
)
NESTED = _record(
    ("inner", INNER),
    ("list", {"type": "array", "items": ["null", "Inner"]}),
    ("map", {"type": "map", "values": {"type": "array", "items": "int"}}),
    ("nulls", {"type": "array", "items": "null"}),
)
READER = _record(
    ("map", {"type": "map", "values": {"type": "array", "items": "double"}}),
    ("inner", {**INNER, "fields": [{"name": "t", "type": "bytes"}]}),
)
READER["fields"].append({"name": "new", "type": ["null", "string"], "default": "d"})
PROTO = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
enum Colour { NONE = 0; RED = 1; }
message Line { string sku = 1; sint32 count = 2; repeated string tags = 3; map<string, double> prices = 4; }
message Order {
  int64 id = 1; optional uint32 maybe = 2; bool flag = 3; bytes raw = 4; float share = 5; fixed64 f = 6;
  Colour colour = 7; Line first = 8; repeated Line lines = 9; repeated int32 numbers = 10; map<int32, Colour> names = 11;
  oneof choice { string text = 12; Line line = 13; }
  google.protobuf.Timestamp at = 14; google.protobuf.Int64Value wrapped = 15;
}
"""
OLD = """syntax = "proto2";
message Old { required string b = 2; repeated int32 c = 3; optional group Inner = 4 { optional sint64 x = 1; } }
"""
AVRO_PAIRS = ((EVERYTHING, EVERYTHING), (NESTED, NESTED), (NESTED, READER))
MESSAGES = ((PROTO, "Order"), (OLD, "Old"))


@functools.cache
def codecs() -> list[tuple[Decode, Decode, Decode | None]]:
    """The compiled decoder, its twin, and the encoder back."""
    found: list[tuple[Decode, Decode, Decode | None]] = []
    for writer, reader in AVRO_PAIRS:
        wrote, reads = (_avro(each) for each in (writer, reader))
        compiled, twin, encode = avro_columns(wrote, reads), row_decoder(wrote, reads), avro_rows(reads)
        found.append(
            (
                lambda column, compiled=compiled: compiled(column, 0),
                lambda column, twin=twin: twin(column, 0),
                (lambda column, encode=encode: encode(column, b"")) if writer is reader else None,
            )
        )
    for text, name in MESSAGES:
        shape = _shape(text, name)
        compiled_messages, rows, write = protobuf_columns(shape), message_rows(shape), protobuf_rows(shape)
        found.append(
            (
                lambda column, decode=compiled_messages: decode(column, 0, b""),
                lambda column, decode=rows: decode(column, 0, b""),
                lambda column, write=write: write(column, b""),
            )
        )
    return found


def _avro(schema: Any) -> Any:
    parsed = parse(SchemaType.AVRO, json.dumps(schema))
    assert isinstance(parsed, AvroSchema)
    return parsed.root


def _shape(text: str, name: str) -> MessageShape:
    schema = parse(SchemaType.PROTOBUF, text)
    assert isinstance(schema, ProtobufSchema)
    return shape_of(schema.messages[name])


def columns(data: bytes) -> None:
    if len(data) < CHOICES_BYTES:
        return
    compiled, twin, encode = codecs()[data[0] % len(codecs())]
    rest = data[CHOICES_BYTES:]
    rows = [rest[: data[1]], None, rest[data[1] :]]
    for column in (pa.array(rows[:1], pa.binary()), pa.array(rows, pa.binary()).slice(1)):
        found, refusal = _outcome(compiled, column)
        wanted, reason = _outcome(twin, column)
        if "beyond what Python" in reason:  # a column holds dates that Python does not
            continue
        assert bool(refusal) == bool(reason), (refusal, reason)
        if found is None or wanted is None:
            continue
        found.validate(full=True)
        assert repr(found.to_pylist()) == repr(wanted.to_pylist())
        written, _ = _outcome(encode, found) if encode is not None else (None, "")
        if written is not None:
            assert repr(compiled(written).to_pylist()) == repr(found.to_pylist())


def _outcome(decode: Decode, column: pa.Array) -> tuple[pa.Array | None, str]:
    try:
        return decode(column), ""
    except DataError as error:
        return None, str(error)


VALUES: tuple[dict[str, Any], ...] = (
    {
        "i": 1, "l": 42, "d": 0.5, "f": None, "b": True, "s": "ab", "raw": b"\xff", "fixed": b"fives", "e": "B",
        "day": datetime.date(2024, 2, 29), "at": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), "price": Decimal("1.25"),
    },
    {"inner": {"n": 7, "t": "x"}, "list": [None, {"n": -1, "t": ""}], "map": {"k": [1, 2]}, "nulls": [None] * 3},
)  # fmt: skip
LINE = {"sku": "s", "count": -3, "tags": ["a", "b"], "prices": [("eur", 1.5)]}
ORDERS: tuple[dict[str, Any], ...] = (
    {
        "id": 5, "maybe": 0, "flag": True, "raw": b"r", "share": 0.5, "f": 6, "colour": "RED", "first": LINE, "lines": [LINE],
        "numbers": [1, -2], "names": [(1, "RED")], "text": "t", "line": None, "wrapped": 7,
        "at": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
    },
    {"b": "b", "c": [1, 2], "inner": {"x": -1}},
)  # fmt: skip


def seeds() -> list[bytes]:
    """A valid row of each kind, twice."""
    everything, nested = (
        compile_writer(_avro(of))(value) for of, value in zip((EVERYTHING, NESTED), VALUES, strict=True)
    )
    messages = [write_message(_shape(*of), value) for of, value in zip(MESSAGES, ORDERS, strict=True)]
    return [bytes([which, len(row)]) + row + row for which, row in enumerate((everything, nested, nested, *messages))]
