"""Columns of framed records and the schema that they are read with, without a registry."""

import pyarrow as pa
import pytest

from headwater.base.errors import KafkaError
from headwater.client.schema_registry import AvroColumns, ProtobufColumns, RegisteredSchema, SchemaRegistryClient
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
