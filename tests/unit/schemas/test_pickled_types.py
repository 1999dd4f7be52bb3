"""Schemas travel to other processes with what uses them: a field without a default has none there either, and
references mean what they meant.
"""

import pickle

import pytest

from headwater.schemas import SchemaType, incompatibilities, parse
from headwater.schemas.avro.types import NO_DEFAULT

SCHEMAS = {
    SchemaType.AVRO: '{"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}',
    SchemaType.PROTOBUF: 'syntax = "proto3"; message R { string a = 1; }',
    SchemaType.JSON: '{"$id": "http://a/b", "properties": {"a": {"$ref": "#/$defs/t"}}, "$defs": {"t": {"type": "string"}}}',
}

NUMBERS = {SchemaType.AVRO: "int", SchemaType.PROTOBUF: "int32", SchemaType.JSON: "integer"}


def test_the_absence_of_a_default_stays_itself() -> None:
    assert pickle.loads(pickle.dumps(NO_DEFAULT)) is NO_DEFAULT


@pytest.mark.parametrize("schema_type", SchemaType)
def test_a_schema_that_was_compared_travels_and_is_compared_there(schema_type: SchemaType) -> None:
    schema = parse(schema_type, SCHEMAS[schema_type])
    other = parse(schema_type, SCHEMAS[schema_type].replace("string", NUMBERS[schema_type]))
    assert incompatibilities(schema, schema) == []
    travelled = pickle.loads(pickle.dumps(schema))
    assert travelled.canonical == schema.canonical
    assert incompatibilities(travelled, schema) == []
    assert incompatibilities(other, travelled) == incompatibilities(other, schema) != []


def test_references_of_a_schema_travel_with_it() -> None:
    referred = parse(SchemaType.JSON, '{"type": "string"}')
    schema = parse(SchemaType.JSON, '{"properties": {"a": {"$ref": "t"}}}', {"t": referred})
    travelled = pickle.loads(pickle.dumps(schema))
    changed = parse(SchemaType.JSON, '{"properties": {"a": {"type": "integer"}}}')
    assert incompatibilities(changed, travelled) == incompatibilities(changed, schema) != []
