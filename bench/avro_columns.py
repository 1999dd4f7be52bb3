"""`python -m bench.avro_columns`: Avro into columns and rows, and back, beside fastavro, in one run. Seconds are of
this process's CPU.
"""

import io
import json
import time
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa

from headwater.schemas import SchemaType, parse
from headwater.schemas.avro import AvroSchema
from headwater.schemas.avro.decoding import compile_reader
from headwater.schemas.avro.encoding import compile_writer
from headwater.schemas.columns import COMPILED, Decode, Encode, avro_columns, avro_rows

SCHEMA = {
    "type": "record",
    "name": "Visit",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": "string"},
        {"name": "page", "type": ["null", "string"]},
        {"name": "seconds", "type": "double"},
        {"name": "returning", "type": "boolean"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
ROWS = 200_000


def rate(work: Callable[[], object], rounds: int = 3, rows: int = ROWS) -> float:
    """The best of some rounds, in millions of records a second."""
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return rows / best / 1e6


def values(rows: int = ROWS) -> list[dict[str, Any]]:
    return [
        {"id": n, "user": f"user{n % 1000}", "page": None if n % 3 else f"/page/{n}", "seconds": n / 3, "returning": n % 2 == 0, "at": 1_700_000_000_000 + n}
        for n in range(rows)
    ]  # fmt: skip


def sample(rows: int = ROWS) -> tuple[AvroSchema, list[dict[str, Any]], list[bytes]]:
    """The schema, values, and the same as rows."""
    schema = parse(SchemaType.AVRO, json.dumps(SCHEMA))
    assert isinstance(schema, AvroSchema)
    made, write = values(rows), compile_writer(schema.root)
    return schema, made, [write(value) for value in made]


def codec(schema: AvroSchema) -> tuple[Decode, Encode]:
    return avro_columns(schema.root, schema.root), avro_rows(schema.root)


def main() -> None:
    schema, values, rows = sample()
    write, read = compile_writer(schema.root), compile_reader(schema.root)
    column = pa.array([b"\0\0\0\0\1" + row for row in rows], pa.binary())
    decode, encode = codec(schema)
    columns, prefix = decode(column, 5), b"\0\0\0\0\1"
    theirs = fastavro.parse_schema(SCHEMA)
    print(f"compiled: {COMPILED}; millions of records a second")
    print(f"into columns               {rate(lambda: decode(column, 5)):8.2f}")
    print(f"into dicts                 {rate(lambda: [read(row) for row in rows], 1):8.2f}")
    print(
        f"into dicts, fastavro       {rate(lambda: [fastavro.schemaless_reader(io.BytesIO(row), theirs, None) for row in rows], 1):8.2f}"
    )
    print(f"from columns               {rate(lambda: encode(columns, prefix)):8.2f}")
    print(f"from dicts                 {rate(lambda: [write(value) for value in values], 1):8.2f}")
    print(
        f"from dicts, fastavro       {rate(lambda: [fastavro.schemaless_writer(io.BytesIO(), theirs, value) for value in values], 1):8.2f}"
    )


if __name__ == "__main__":
    main()
