"""Avro's binary encoding, both ways and from one schema to another, beside fastavro; and bytes that are not what they
should be.
"""

import datetime
import io
import json
import math
import uuid
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from compat.support.avro_schemas import Schemas, Values
from headwater.schemas import SchemaError, SchemaType, incompatibilities, parse
from headwater.schemas.avro import AvroSchema
from headwater.schemas.avro.decoding import compile_reader
from headwater.schemas.avro.encoding import compile_writer
from headwater.schemas.model import DataError


def avro(schema: Any) -> AvroSchema:
    parsed = parse(SchemaType.AVRO, json.dumps(schema))
    assert isinstance(parsed, AvroSchema)
    return parsed


def encode(schema: Any, value: Any) -> bytes:
    return compile_writer(avro(schema).root)(value)


def decode(data: bytes, writer: Any, reader: Any = None) -> Any:
    return compile_reader(avro(writer).root, None if reader is None else avro(reader).root)(data)


def fastavro_bytes(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def test_random_values_are_encoded_and_decoded_as_fastavro_does() -> None:
    schemas, values = Schemas(7), Values(7)
    for _ in range(300):
        schema = schemas.schema()
        parsed = avro(schema)
        write, read = compile_writer(parsed.root), compile_reader(parsed.root)
        for _ in range(3):
            value = values.value(schema, {})
            data = write(value)
            try:
                theirs = fastavro_bytes(schema, value)
            except ValueError as error:
                assert "isoformat" in str(error)  # noqa: PT017  # in a union, it takes any text for a date
                continue
            assert data == theirs, schema
            assert read(data) == fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(schema), None)


def test_random_values_are_resolved_as_fastavro_does() -> None:
    schemas, values = Schemas(8), Values(8)
    resolved = 0
    for _ in range(400):
        writer = schemas.schema()
        reader = schemas.near(writer)
        try:
            parsed_writer, parsed_reader = avro(writer), avro(reader)
        except SchemaError:  # a change may make two branches alike, or leave a default behind
            continue
        if incompatibilities(parsed_reader, parsed_writer) or json.dumps(reader) == json.dumps(writer):
            continue
        data = compile_writer(parsed_writer.root)(values.value(writer, {}))
        ours = compile_reader(parsed_writer.root, parsed_reader.root)(data)
        try:
            theirs = fastavro.schemaless_reader(
                io.BytesIO(data), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
            )
        except (
            fastavro.read.SchemaResolutionError,
            EOFError,
            IndexError,
            KeyError,
        ):  # it refuses a few that Avro's rules allow
            continue
        assert ours == theirs, (writer, reader)
        resolved += 1
    assert resolved > 40


LOGICAL = [
    ({"type": "int", "logicalType": "date"}, datetime.date(2024, 2, 29)),
    ({"type": "int", "logicalType": "time-millis"}, datetime.time(23, 59, 59, 999_000)),
    ({"type": "long", "logicalType": "time-micros"}, datetime.time(1, 2, 3, 456_789)),
    (
        {"type": "long", "logicalType": "timestamp-millis"},
        datetime.datetime(1969, 12, 31, 23, 59, 59, 1000, datetime.UTC),
    ),
    ({"type": "long", "logicalType": "timestamp-micros"}, datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.UTC)),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, datetime.datetime(2024, 1, 2, 3, 4, 5, 6000)),  # noqa: DTZ001
    ({"type": "long", "logicalType": "local-timestamp-micros"}, datetime.datetime(2024, 1, 2, 3, 4, 5, 6)),  # noqa: DTZ001
    ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=5)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("-1234567.89")),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, Decimal("1.20")),
    ({"type": "bytes", "logicalType": "decimal", "precision": 40}, Decimal(10) ** 39),
    (
        {"type": "fixed", "name": "F", "size": 8, "logicalType": "decimal", "precision": 10, "scale": 4},
        Decimal("12.3400"),
    ),
]


@pytest.mark.parametrize(("schema", "value"), LOGICAL)
def test_logical_types(schema: Any, value: Any) -> None:
    data = encode(schema, value)
    assert data == fastavro_bytes(schema, value)
    assert decode(data, schema) == value
    assert decode(encode(["null", "string", schema] if schema["type"] != "string" else ["null", schema], value), ["null", "string", schema] if schema["type"] != "string" else ["null", schema]) == value  # fmt: skip


def test_a_uuid_in_sixteen_bytes() -> None:
    schema = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
    assert encode(schema, uuid.UUID(int=7)) == uuid.UUID(int=7).bytes
    assert decode(uuid.UUID(int=7).bytes, schema) == uuid.UUID(int=7)


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ("int", 2**31, "does not fit int"),
        ("int", True, "not a whole number"),
        ("int", "5", "not a whole number"),
        ("long", 2**63, "does not fit long"),
        ("float", "x", "not a number"),
        ("string", 5, "not text"),
        ("string", "\ud800", "UTF-8"),
        ("bytes", "x", "not bytes"),
        ("null", 0, "not null"),
        ("boolean", 1, "not true or false"),
        (["null", "int"], "x", "not a whole number"),
        (["int", "string"], 1.5, "fits no branch"),
        ({"type": "array", "items": "int"}, [1, "x"], "^1: 'x'"),
        ({"type": "array", "items": "int"}, "12", "not a list"),
        ({"type": "map", "values": "int"}, {"k": "x"}, "^k: 'x'"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "not a symbol"),
        ({"type": "fixed", "name": "F", "size": 2}, b"abc", "not 2 bytes"),
        (record({"name": "a", "type": "int"}), {}, "^a: the field is missing"),
        (
            record({"name": "a", "type": record({"name": "b", "type": "int"}, name="S")}),
            {"a": {"b": "x"}},
            "^a: b: 'x'",
        ),
        (record(), 5, "not a mapping"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
            Decimal("1234"),
            "more than 3 digits",
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}, Decimal("1.23"), "behind the point"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
            Decimal("1E-999999999"),
            "behind the point",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1},
            Decimal("1E+999999999"),
            "more than 3",
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}, Decimal("NaN"), "not a decimal"),
    ],
)
def test_values_that_do_not_fit(schema: Any, value: Any, why: str) -> None:
    with pytest.raises(DataError, match=why):
        encode(schema, value)


def test_a_value_within_itself_is_refused() -> None:
    value: dict[str, Any] = {}
    value["next"] = value
    with pytest.raises(DataError, match="nested too deep"):
        encode(record({"name": "next", "type": ["null", "R"]}), value)


def test_branches_of_unions() -> None:
    one, two = (
        record({"name": "a", "type": "int"}, name="One"),
        record({"name": "a", "type": "int"}, {"name": "b", "type": "int"}, name="Two"),
    )
    assert encode([one, two], {"a": 1, "b": 2}) == b"\x02\x02\x04"
    assert encode([one, two], {"a": 1}) == b"\x00\x02"
    assert encode([one, two], ("One", {"a": 1, "b": 2})) == b"\x00\x02"
    assert encode(["null", "string", "bytes"], b"x") == b"\x04\x02x"
    assert encode(["null", {"type": "long", "logicalType": "timestamp-millis"}, "string"], "x") == b"\x04\x02x"


def test_missing_fields_are_written_as_their_defaults() -> None:
    schema = record(
        {"name": "a", "type": {"type": "array", "items": "int"}, "default": [1]},
        {"name": "b", "type": ["null", "bytes"], "default": "\u00ff"},
        {"name": "m", "type": {"type": "map", "values": "double"}, "default": {"k": 1}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "default": "B"},
        {"name": "r", "type": record({"name": "x", "type": "int", "default": 4}, name="In"), "default": {}},
    )
    assert decode(encode(schema, {}), schema) == {"a": [1], "b": b"\xff", "m": {"k": 1.0}, "e": "B", "r": {"x": 4}}


def test_a_default_is_nobody_elses() -> None:
    reader = record({"name": "l", "type": {"type": "array", "items": "int"}, "default": []})
    read = compile_reader(avro(record()).root, avro(reader).root)
    read(b"")["l"].append(1)
    assert read(b"") == {"l": []}


def test_fields_come_in_the_readers_order() -> None:
    writer = record({"name": "a", "type": "int"}, {"name": "b", "type": "int"}, {"name": "gone", "type": "string"})
    reader = record(
        {"name": "new", "type": "int", "default": 9},
        {"name": "c", "type": "long", "aliases": ["b"]},
        {"name": "a", "type": "int"},
    )
    assert list(decode(encode(writer, {"a": 1, "b": 2, "gone": "x"}), writer, reader).items()) == [
        ("new", 9),
        ("c", 2),
        ("a", 1),
    ]


def test_a_reader_that_cannot_read_is_refused_at_once() -> None:
    with pytest.raises(SchemaError, match="is string in the reader"):
        decode(b"\x00", "int", "string")


NARROWER: list[tuple[Any, Any, Any, Any]] = [
    (["null", "string"], "string", "a", None),
    (["int", "string"], ["null", "string"], "a", 1),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, {"type": "enum", "name": "E", "symbols": ["B"]}, "B", "A"),
    ({"type": "array", "items": ["null", "int"]}, {"type": "array", "items": "long"}, [1, 2], [1, None]),
]


@pytest.mark.parametrize(("writer", "reader", "good", "bad"), NARROWER)
def test_a_field_that_is_not_compatible_is_decided_by_each_value(writer: Any, reader: Any, good: Any, bad: Any) -> None:
    """Nothing was read where one value could not have been; Avro's own libraries read what they can."""
    old, new = record({"name": "f", "type": writer}), record({"name": "f", "type": reader})
    assert decode(encode(old, {"f": good}), old, new) == {"f": good}
    theirs = fastavro.schemaless_reader(io.BytesIO(encode(old, {"f": good})), fastavro.parse_schema(old), fastavro.parse_schema(new))  # fmt: skip
    assert theirs == {"f": good}
    with pytest.raises(DataError, match=r"^f: "):
        decode(encode(old, {"f": bad}), old, new)
    wrapped = ["null", new]
    assert decode(encode(old, {"f": good}), old, wrapped) == {"f": good}


def test_a_writers_union_is_decided_by_each_value() -> None:
    assert decode(encode(["int", "string"], 5), ["int", "string"], "int") == 5
    with pytest.raises(DataError, match="cannot be read as int"):
        decode(encode(["int", "string"], "x"), ["int", "string"], "int")


def test_bytes_cut_at_each_place_are_refused() -> None:
    schemas, values = Schemas(9), Values(9)
    for _ in range(60):
        schema = schemas.schema()
        data = encode(schema, values.value(schema, {}))
        for length in range(len(data)):
            with pytest.raises(DataError):
                decode(data[:length], schema)
        with pytest.raises(DataError):
            decode(data + b"\0", schema)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("string", b"\x01"),
        ("bytes", b"\xff" * 12),
        ("string", b"\x02\xff"),
        ("int", b"\x80\x80\x80\x80\x20"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ({"type": "array", "items": "null"}, b"\x80\x89\x7a" * 1),
        ({"type": "array", "items": "int"}, b"\x01\x80\x80\x80\x80\x10"),
        ({"type": "map", "values": "int"}, b"\x02\x02"),
        (["null", "int"], b"\x04"),
        (["null", "int"], b"\x01"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02"),
        (record({"name": "next", "type": ["null", "R"]}), b"\x02" * 100_000),
        ({"type": "string", "logicalType": "uuid"}, b"\x02x"),
        ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ({"type": "int", "logicalType": "time-millis"}, b"\x01"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x04\x7f\xff"),
    ],
)
def test_hostile_bytes_are_refused(schema: Any, data: bytes) -> None:
    with pytest.raises(DataError):
        decode(data, schema)


def test_a_stored_schema_whose_default_does_not_fit_reads_and_writes_what_it_can() -> None:
    """Registries did not look at defaults once. It matters only where the default is needed."""
    text = json.dumps(record({"name": "a", "type": "int", "default": ""}, {"name": "b", "type": "int"}))
    with pytest.raises(SchemaError, match="does not fit its type"):
        parse(SchemaType.AVRO, text)
    stored = parse(SchemaType.AVRO, text, stored=True)
    assert isinstance(stored, AvroSchema)
    assert "/fields/0/default" in stored.problem
    write = compile_writer(stored.root)
    assert compile_reader(stored.root, None)(write({"a": 1, "b": 2})) == {"a": 1, "b": 2}
    with pytest.raises(DataError, match="a: the field is missing"):
        write({"b": 2})
    with pytest.raises(SchemaError, match="the default of the field 'a' does not fit"):
        compile_reader(avro(record({"name": "b", "type": "int"})).root, stored.root)


def test_names_of_a_stored_schema_may_have_any_characters_and_must_be_names() -> None:
    odd = record({"name": "a-b", "type": {"type": "enum", "name": "E", "symbols": ["x y"]}}, name="R", namespace="m-n")
    stored = parse(SchemaType.AVRO, json.dumps(odd), stored=True)
    assert "'m-n'" in stored.problem
    assert parse(SchemaType.AVRO, stored.canonical, stored=True).canonical == stored.canonical
    for wrong in (record(name=""), record({"name": 7, "type": "int"}), record({"name": "", "type": "int"})):
        with pytest.raises(SchemaError, match="is not a name"):
            parse(SchemaType.AVRO, json.dumps(wrong), stored=True)


DAY = {"type": "int", "logicalType": "date"}
MOMENT = {"type": "long", "logicalType": "timestamp-micros"}
NOON = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("union", "value", "index"),
    [
        (["null", DAY, MOMENT], NOON, 2),
        (["null", DAY, MOMENT], NOON.date(), 1),
        (["null", "string", DAY], NOON, 2),
        (["double", "long"], (1 << 60) + 1, 1),
        (["double", "long"], 5, 0),
        (["null", "float", "int"], (1 << 24) + 1, 2),
        (["float", "double"], 1.1, 1),
        (["float", "double"], 1e300, 1),
        (["float", "double"], math.inf, 0),
        (["float", "string"], 1.1, 0),
    ],
)
def test_a_union_takes_a_branch_that_keeps_the_value(union: Any, value: Any, index: int) -> None:
    """The first one took a moment as a day, and 2^60 + 1 as the nearest double."""
    data = encode(union, value)
    assert data[0] == 2 * index
    if index and union[index] is not DAY:
        assert decode(data, union) == value
