"""The rows about typed records: Avro, Protobuf and JSON to Arrow's columns and back, beside the libraries that make
objects of them.

Rates are records by CPU second of one core. Without Spark it is all in this process; `from_avro` of Spark's JVM module,
whose jar comes from tests/tools.sh, is measured by a driver with one core, over the same records.
"""

import io
import json
from collections.abc import Callable
from typing import Any

from bench import avro_columns as avro
from bench import protobuf_columns as protobuf
from bench.report import MORE, Figure, Kind
from bench.rows import Bench, Figures, Scenario, check
from bench.spark import driver

ROWS = 50_000  # Python makes objects of them in a second or two
PREFIX = b"\0\0\0\0\1"
FROM_AVRO = "from_avro of Spark"
MANY = 1e6


def avro_rows(_bench: Bench) -> Figures:
    import fastavro

    schema, values, rows = avro.sample(ROWS)
    theirs = fastavro.parse_schema(avro.SCHEMA)
    decode, encode = avro.codec(schema)
    column = framed(rows)
    columns = decode(column, len(PREFIX))
    check("rows", len(columns), ROWS)
    read = rate(lambda: [fastavro.schemaless_reader(io.BytesIO(row), theirs, None) for row in rows], 1)
    wrote = rate(lambda: [fastavro.schemaless_writer(io.BytesIO(), theirs, value) for value in values], 1)
    confluent = rate(confluents_deserializer(column.to_pylist()), 1)
    to_columns = rate(lambda: decode(column, len(PREFIX)))
    return {
        "columns-avro-read": figure(
            to_columns, read, f"{to_columns / confluent:,.0f}x of confluent-kafka's deserializer"
        ),
        "columns-avro-write": figure(rate(lambda: encode(columns, PREFIX)), wrote),
    }


def protobuf_rows(_bench: Bench) -> Figures:
    visit, messages, rows, decode, encode = protobuf.sample(ROWS)
    import pyarrow as pa

    column = pa.array(rows, pa.binary())
    columns = decode(column, 0, b"")
    check("rows", len(columns), ROWS)
    read = rate(lambda: [fields_of(visit.FromString(row)) for row in rows], 1)
    wrote = rate(lambda: [each.SerializeToString() for each in messages], 1)
    return {
        "columns-protobuf-read": figure(rate(lambda: decode(column, 0, b"")), read),
        "columns-protobuf-write": figure(rate(lambda: encode(columns, b"")), wrote),
    }


def json_rows(_bench: Bench) -> Figures:
    import pyarrow as pa

    from headwater.client.consumer.arrow import decode_column
    from headwater.client.producer.encoding import encode_column

    values = avro.values(ROWS)
    rows = [json.dumps(value).encode() for value in values]
    column = pa.array(rows, pa.binary())
    columns = decode_column(column, "json")
    check("rows", len(columns), ROWS)
    return {
        "columns-json-read": figure(
            rate(lambda: decode_column(column, "json"), 1), rate(lambda: [json.loads(row) for row in rows], 1)
        ),
        "columns-json-write": figure(
            rate(lambda: encode_column(columns, "json"), 1),
            rate(lambda: [json.dumps(value).encode() for value in values], 1),
        ),
    }


def spark_rows(bench: Bench) -> Figures:
    """The same records on one core of Spark's."""
    schema, _, rows = avro.sample(ROWS)
    decode, _ = avro.codec(schema)
    column = framed(rows)
    ours = rate(lambda: decode(column, len(PREFIX)))
    found = driver("from-avro", bench, master="local[1]", schema=json.dumps(avro.SCHEMA), count=10 * ROWS)
    return {"columns-avro-spark": Figure(ours * MANY, found["from_avro"])}


def rate(work: Callable[[], object], rounds: int = 3) -> float:
    return avro.rate(work, rounds, ROWS)


def framed(rows: list[bytes]) -> Any:
    import pyarrow as pa

    return pa.array([PREFIX + row for row in rows], pa.binary())


def fields_of(message: Any) -> tuple[Any, ...]:
    """A column has looked at each of them, too."""
    return message.id, message.user, message.page, message.seconds, message.returning, message.at


def confluents_deserializer(data: list[bytes]) -> Callable[[], object]:
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient.new_client({"url": "mock://"})
    check("the id", client.register_schema("visits-value", Schema(json.dumps(avro.SCHEMA), "AVRO")), 1)
    read, where = AvroDeserializer(client), SerializationContext("visits", MessageField.VALUE)
    return lambda: [read(each, where) for each in data]


def figure(ours_millions: float, theirs_millions: float, also: str = "") -> Figure:
    return Figure(ours_millions * MANY, theirs_millions * MANY, also)


def column_scenarios() -> list[Scenario]:
    def kind(row: str, title: str, limit: str, target: float | None = None) -> Kind:
        return Kind(f"columns-{row}", title, "records/s", MORE, limit, target, of_limit=True)

    google, stdlib = "the protobuf package", "Python's json"
    made: list[tuple[tuple[Kind, ...], Callable[[Bench], Figures]]] = [
        (
            (
                kind("avro-read", "Avro to columns, six fields", "fastavro", 10),
                kind("avro-write", "columns to Avro, six fields", "fastavro"),
            ),
            avro_rows,
        ),
        (
            (
                kind("protobuf-read", "Protobuf to columns, six fields", google),
                kind("protobuf-write", "columns to Protobuf, six fields", google),
            ),
            protobuf_rows,
        ),
        (
            (
                kind("json-read", "JSON to columns, six fields", stdlib),
                kind("json-write", "columns to JSON, six fields", stdlib),
            ),
            json_rows,
        ),
        ((kind("avro-spark", "Avro to columns, six fields", FROM_AVRO),), spark_rows),
    ]
    return [Scenario(kinds, measure, 1, about_broker=False) for kinds, measure in made]
