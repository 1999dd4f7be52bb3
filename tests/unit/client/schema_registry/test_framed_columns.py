"""Columns of framed records and the schema that they are read with, without a registry."""

import json

import pyarrow as pa
import pytest

from headwater.base.errors import KafkaError
from headwater.client.schema_registry import (
    AvroColumns,
    ProtobufColumns,
    RegisteredSchema,
    RegistryColumns,
    SchemaRegistryClient,
)
from headwater.schemas import ParsedSchema, SchemaType, StoredSchema, parse

_AVRO = StoredSchema('"long"', SchemaType.AVRO)
_PROTOBUF = StoredSchema('syntax = "proto3"; message Box { int32 width = 1; }', SchemaType.PROTOBUF)


class _Registry(SchemaRegistryClient):
    """Knows one schema, and another as the latest of every subject."""

    def __init__(self, written: StoredSchema, latest: StoredSchema) -> None:
        self._written, self._newest = written, latest

    def schema_by_id(self, schema_id: int, subject: str | None = None, *, serialized: bool = False) -> StoredSchema:
        return self._written

    def version(self, subject: str, version: int | str = "latest", *, deleted: bool = False) -> RegisteredSchema:
        return RegisteredSchema(1, self._newest, subject, 2)

    def parsed(self, schema: StoredSchema) -> ParsedSchema:
        return parse(schema.schema_type, schema.text)


def test_a_reader_of_another_format_is_told_in_a_sentence() -> None:
    rows = pa.array([b"\0\0\0\0\1\2"], pa.binary())
    assert AvroColumns(_Registry(_AVRO, _AVRO), subject="orders-value")(rows).to_pylist() == [1]
    with pytest.raises(KafkaError, match="the reader's schema is PROTOBUF, not Avro"):
        AvroColumns(_Registry(_AVRO, _PROTOBUF), subject="orders-value")(rows)
    with pytest.raises(KafkaError, match="the reader's schema is AVRO, not Protobuf"):
        ProtobufColumns(_Registry(_PROTOBUF, _AVRO), subject="orders-value")(pa.array([b"\0\0\0\0\1\0"], pa.binary()))


_JSON = StoredSchema(
    json.dumps({"properties": {"n": {"type": "integer"}, "day": {"type": "string", "format": "date"}}}), SchemaType.JSON
)


@pytest.mark.parametrize(
    ("texts", "kind", "found"),
    [
        ([b"1", b"2"], pa.int64(), [1, 2]),
        ([b"1", b"1.0", b"1e3"], pa.float64(), [1.0, 1.0, 1000.0]),
        ([b"9223372036854775808"], pa.float64(), [float(1 << 63)]),
        ([b'"of an older version"'], pa.string(), ["of an older version"]),
        ([b'{"inner":1}'], pa.struct([("inner", pa.int64())]), [{"inner": 1}]),
    ],
)
def test_values_that_are_not_of_the_type_leave_their_field_untyped(
    texts: list[bytes], kind: pa.DataType, found: list[object]
) -> None:
    records = [b'\0\0\0\0\1{"n":%s,"day":"2026-11-17","more":true}' % text for text in texts]
    columns = RegistryColumns(_Registry(_JSON, _JSON), subject="orders-value")
    read = columns(pa.array([*records, None], pa.binary()))
    assert read.type == pa.struct([("n", kind), ("day", pa.string()), ("more", pa.bool_())])
    assert [None if row is None else row["n"] for row in read.to_pylist()] == [*found, None]


def test_what_is_no_json_is_told_whatever_its_types() -> None:
    columns = RegistryColumns(_Registry(_JSON, _JSON), subject="orders-value")
    with pytest.raises(KafkaError, match="cannot be decoded as JSON"):
        columns(pa.array([b'\0\0\0\0\1{"n":'], pa.binary()))
