"""Avro into Arrow's columns: the compiled decoder beside its twin that goes row by row, on random schemas, and on bytes
that are not what they should be.
"""

import datetime
import json
import random
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from compat.support.avro_schemas import Schemas, Values
from headwater.schemas import SchemaError, SchemaType, incompatibilities, parse
from headwater.schemas import columns as columns_module
from headwater.schemas.avro import AvroSchema
from headwater.schemas.avro.encoding import compile_writer
from headwater.schemas.columns import NoColumns, avro_columns, avro_rows, frame_ids
from headwater.schemas.columns.encoder import row_encoder
from headwater.schemas.columns.rows import row_decoder
from headwater.schemas.model import DataError


def avro(schema: Any) -> AvroSchema:
    parsed = parse(SchemaType.AVRO, json.dumps(schema))
    assert isinstance(parsed, AvroSchema)
    return parsed


def record(*fields: Any, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def both(writer: Any, rows: list[bytes | None], reader: Any = None, prefix: int = 0) -> pa.Array:
    """What both decoders make of the rows, which must be the same."""
    wrote = avro(writer).root
    reads = wrote if reader is None else avro(reader).root
    column = pa.array(rows, pa.binary())
    compiled = avro_columns(wrote, reads)(column, prefix)
    compiled.validate(full=True)
    by_rows = row_decoder(wrote, reads)(column, prefix)
    assert compiled.type == by_rows.type
    assert compiled.to_pylist() == by_rows.to_pylist()
    return compiled


def test_the_decoder_is_compiled_where_the_other_codecs_are() -> None:
    from headwater.records import codec

    if not codec.COMPILED:
        pytest.skip("nothing is compiled here: no C compiler, or HEADWATER_PURE=1")
    assert columns_module.COMPILED, "build it: pip install -e ."


def test_random_rows_and_their_nulls() -> None:
    schemas, values, draw = Schemas(21), Values(21), random.Random(21)
    compared = 0
    for _ in range(400):
        schema = record({"name": "x", "type": schemas.schema()}, name="Top")
        try:
            write = compile_writer(avro(schema).root)
            avro_columns(avro(schema).root, avro(schema).root)
        except NoColumns:
            continue
        rows = [None if draw.random() < 0.2 else write(values.value(schema, {})) for _ in range(12)]
        both(schema, rows)
        compared += 1
    assert compared > 200


def test_random_rows_from_one_schema_to_another() -> None:
    schemas, values = Schemas(22), Values(22)
    compared = 0
    for _ in range(500):
        inner = schemas.schema()
        writer = record({"name": "x", "type": inner}, {"name": "gone", "type": schemas.random.choice(["int", "string", {"type": "map", "values": "long"}])}, name="Top")  # fmt: skip
        reader = record(
            {"name": "new", "type": ["null", "string"], "default": "d"},
            {"name": "x", "type": schemas.near(inner)},
            name="Top",
        )
        try:
            wrote, reads = avro(writer), avro(reader)
            if incompatibilities(reads, wrote):
                continue
            avro_columns(wrote.root, reads.root)
        except SchemaError:
            continue
        write = compile_writer(wrote.root)
        both(writer, [write(values.value(writer, {})) for _ in range(8)], reader)
        compared += 1
    assert compared > 100


def test_every_logical_type() -> None:
    fields: list[tuple[str, Any, Any]] = [
        ("date", {"type": "int", "logicalType": "date"}, datetime.date(2024, 2, 29)),
        ("tm", {"type": "int", "logicalType": "time-millis"}, datetime.time(1, 2, 3, 4000)),
        ("tu", {"type": "long", "logicalType": "time-micros"}, datetime.time(1, 2, 3, 4)),
        ("sm", {"type": "long", "logicalType": "timestamp-millis"}, datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)),
        ("su", {"type": "long", "logicalType": "timestamp-micros"}, datetime.datetime(1950, 1, 1, tzinfo=datetime.UTC)),
        ("lu", {"type": "long", "logicalType": "local-timestamp-micros"}, datetime.datetime(2024, 1, 1)),  # noqa: DTZ001
        ("id", {"type": "string", "logicalType": "uuid"}, uuid.UUID(int=9)),
        (
            "d",
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 3},
            Decimal("-12345678901234567890.123"),
        ),
        (
            "f",
            {"type": "fixed", "name": "F", "size": 20, "logicalType": "decimal", "precision": 5, "scale": 2},
            Decimal("-1.25"),
        ),
        ("big", {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 0}, None),
        ("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
    ]
    schema = record(*({"name": name, "type": ["null", kind]} for name, kind, _ in fields))
    write = compile_writer(avro(schema).root)
    made = both(
        schema, [write({name: value for name, _, value in fields}), write({name: None for name, _, _ in fields})]
    )
    row = made.to_pylist()[0]
    assert row == {name: str(value) if name == "id" else value for name, _, value in fields}
    assert made.type.field("sm").type == pa.timestamp("ms", tz="UTC")
    assert made.type.field("e").type == pa.dictionary(pa.int32(), pa.string())


def test_a_slice_of_a_column_and_what_stands_before_each_value() -> None:
    schema = record({"name": "a", "type": "int"})
    column = pa.array([b"\0\0\0\0\7\2", None, b"\0\0\0\0\7\4", b"\1\0\0\0\0\6", b"x"], pa.binary())
    root = avro(schema).root
    assert avro_columns(root, root)(column.slice(1, 2), 5).to_pylist() == [None, {"a": 2}]
    assert avro_columns(root, root)(column.slice(4, 0), 5).to_pylist() == []
    assert frame_ids(column).to_pylist() == [7, None, 7, -1, -1]
    assert frame_ids(column.slice(2, 2)).to_pylist() == [7, -1]


def test_bytes_cut_or_changed_are_refused_by_both_or_read_alike() -> None:
    schemas, values, draw = Schemas(23), Values(23), random.Random(23)
    compared = 0
    for _ in range(150):
        schema = record({"name": "x", "type": schemas.schema()}, name="Top")
        root = avro(schema).root
        try:
            compiled = avro_columns(root, root)
        except NoColumns:
            continue
        compared += 1
        by_rows = row_decoder(root, root)
        data = compile_writer(root)(values.value(schema, {}))
        damaged = [data[:length] for length in range(len(data))] + [data + b"\0"]
        for _ in range(20):
            at = draw.randrange(len(data)) if data else 0
            damaged.append(data[:at] + draw.randbytes(1) + data[at + 1 :])
        for each in damaged:
            column = pa.array([each], pa.binary())
            expected = outcome(by_rows, column)
            if "beyond what Python" not in expected:  # a column holds dates that Python does not
                assert outcome(compiled, column) == expected, (schema, each)
    assert compared > 75


def outcome(decode: Any, column: pa.Array) -> str:
    try:
        return repr(decode(column, 0).to_pylist())
    except DataError as error:
        return "refused" if "beyond what Python" not in str(error) else str(error)


@pytest.mark.parametrize(
    ("schema", "data", "why"),
    [
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a length"),
        ("string", b"\x01", "a length"),
        ("string", b"\x02\xff", "UTF-8"),
        ("string", b"\x06\xed\xa0\x80", "UTF-8"),
        ("string", b"\x04\xc0\x80", "UTF-8"),
        ("long", b"\xff" * 11, "too large"),
        ("int", b"\x80\x80\x80\x80\x20", "too large"),
        ("double", b"\0" * 7, "end too early"),
        (["null", "int"], b"\x04", "no such branch"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "no such symbol"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", "too many items"),
        ({"type": "array", "items": "null"}, b"\x80\xb5\x18" * 3 + b"\0", "too many items"),
        ({"type": "array", "items": "int"}, b"\x01\x80\x80\x80\x80\x10", "a length"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x04\x7f\xff", "too many digits"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38}, b"\x22\x01" + b"\0" * 16, "too many digits"),
    ],
)
def test_hostile_bytes_are_refused(schema: Any, data: bytes, why: str) -> None:
    if not columns_module.COMPILED:
        why = ""  # the rows say it in other words
    root = avro(record({"name": "x", "type": schema})).root
    with pytest.raises(DataError, match=f"row 1: .*{why}"):
        avro_columns(root, root)(pa.array([None, data], pa.binary()), 0)


def test_a_recursive_field_that_nobody_reads_is_passed_over() -> None:
    tree = record({"name": "left", "type": ["null", "Tree"]}, {"name": "right", "type": ["null", "Tree"]}, name="Tree")
    writer = record({"name": "tree", "type": tree}, {"name": "a", "type": "int"})
    reader = record({"name": "a", "type": "int"})
    write = compile_writer(avro(writer).root)
    leaf = {"left": None, "right": None}
    assert both(
        writer, [write({"tree": {"left": leaf, "right": {"left": leaf, "right": None}}, "a": 3})], reader
    ).to_pylist() == [{"a": 3}]
    decode = avro_columns(avro(writer).root, avro(reader).root)
    with pytest.raises(DataError, match="nested too deep"):
        decode(pa.array([b"\x02" * 100_000], pa.binary()), 0)


def test_what_nobody_reads_need_not_be_text_or_a_date_of_pythons() -> None:
    """The decoder of rows refused what the compiled one, and Avro's own libraries, pass over."""
    late = {"type": "int", "logicalType": "date"}
    writer = record({"name": "gone", "type": {"type": "map", "values": "string"}}, {"name": "day", "type": late}, {"name": "a", "type": "int"})  # fmt: skip
    row = b"\x02\x02\xff\x02\xfe\x00" + b"\xfe\xff\xff\xff\x0f" + b"\x06"
    assert both(writer, [row], record({"name": "a", "type": "int"})).to_pylist() == [{"a": 3}]


@pytest.mark.parametrize("schema", [["int", "string"], record({"name": "n", "type": ["null", "R"]})])
def test_what_has_no_columns_is_told(schema: Any) -> None:
    root = avro(record({"name": "x", "type": schema}, name="Top")).root
    with pytest.raises(NoColumns):
        avro_columns(root, root)
    with pytest.raises(SchemaError, match="cannot read"):
        avro_columns(avro("int").root, avro("string").root)


def test_a_field_that_is_not_compatible_is_decided_by_each_value() -> None:
    suits = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    writer = record({"name": "a", "type": ["null", "int"]}, {"name": "e", "type": suits})
    reader = record({"name": "a", "type": "int"}, {"name": "e", "type": {**suits, "symbols": ["B"]}})
    assert both(writer, [b"\x02\x04\x02"], reader).to_pylist() == [{"a": 2, "e": "B"}]
    for data in (b"\x00\x02", b"\x02\x04\x00"):
        for decode in (avro_columns, row_decoder):
            with pytest.raises(DataError, match="row 0"):
                decode(avro(writer).root, avro(reader).root)(pa.array([data], pa.binary()), 0)


def test_random_columns_become_the_rows_that_they_came_from() -> None:
    schemas, values, draw = Schemas(24), Values(24), random.Random(24)
    compared = 0
    for _ in range(400):
        schema = record({"name": "x", "type": schemas.schema()}, {"name": "y", "type": ["string", "null"]}, name="Top")
        root = avro(schema).root
        try:
            decode = avro_columns(root, root)
        except NoColumns:
            continue
        write = compile_writer(root)
        rows = [None if draw.random() < 0.2 else write(values.value(schema, {})) for _ in range(10)]
        column = decode(pa.array(rows, pa.binary()), 0)
        assert avro_rows(root)(column, b"").to_pylist() == rows, schema
        sliced = column.slice(3, 5)
        framed = [None if row is None else b"\0id" + row for row in rows[3:8]]
        assert avro_rows(root)(sliced, b"\0id").to_pylist() == row_encoder(root)(sliced, b"\0id").to_pylist() == framed
        compared += 1
    assert compared > 200


def test_columns_are_cast_to_the_schema() -> None:
    schema = record(
        {"name": "n", "type": "long"},
        {"name": "t", "type": ["null", "string"]},
        {
            "name": "d",
            "type": {"type": "fixed", "name": "F", "size": 3, "logicalType": "decimal", "precision": 6, "scale": 2},
        },
        {"name": "m", "type": {"type": "map", "values": "double"}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
    )
    root = avro(schema).root
    fields = [
        ("n", pa.int16()),
        ("t", pa.large_string()),
        ("d", pa.decimal128(5, 2)),
        ("m", pa.map_(pa.string(), pa.float32())),
        ("e", pa.string()),
    ]
    rows = [
        {"n": 1, "t": None, "d": Decimal("-1.25"), "m": {"k": 0.5}, "e": "B"},
        {"n": 2, "t": "x", "d": Decimal("99.99"), "m": {}, "e": "A"},
    ]
    column = pa.array(rows, pa.struct(fields))
    write = compile_writer(root)
    assert (
        avro_rows(root)(column, b"").to_pylist()
        == [write(row) for row in rows]
        == row_encoder(root)(column, b"").to_pylist()
    )


@pytest.mark.parametrize("make", [avro_rows, row_encoder])
def test_columns_that_do_not_fit_are_refused(make: Any) -> None:
    needed = avro(record({"name": "a", "type": "int"})).root
    with pytest.raises(DataError, match="row 1: "):
        make(needed)(pa.array([{"a": 1}, {"a": None}]), b"")
    with pytest.raises(DataError, match="does not fit the schema"):
        make(needed)(pa.array([{"a": "text"}]), b"")
    enum = avro(record({"name": "a", "type": {"type": "enum", "name": "E", "symbols": ["A"]}})).root
    with pytest.raises(DataError, match="'Z' is not a symbol"):
        make(enum)(pa.array([{"a": "Z"}]), b"")
    small = avro(
        record(
            {"name": "a", "type": {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4}}
        )
    ).root
    assert make(small)(pa.array([{"a": Decimal(9999)}], pa.struct([("a", pa.decimal128(4, 0))])), b"").to_pylist() == [
        b"\x27\x0f"
    ]


def test_what_stands_behind_a_null_record_is_nobodys_symbol() -> None:
    """A frame with a null struct could not be written: the text behind the null was no symbol of the enum."""
    schema = record({"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}})
    names = pa.array(["A", ""], pa.string())
    column = pa.StructArray.from_arrays([names], ["e"], mask=pa.array([False, True]))
    assert avro_rows(avro(schema).root)(column, b"").to_pylist() == [b"\0", None]
