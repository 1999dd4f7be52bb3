"""The three texts of an Avro schema, and its fingerprint beside fastavro's."""

import json
from typing import Any

import fastavro.schema
import pytest

from headwater.schemas import SchemaType, parse
from headwater.schemas.avro import AvroSchema

FULL: dict[str, Any] = {
    "name": "Event",
    "owner": "me",
    "type": "record",
    "namespace": "x.y",
    "doc": "d",
    "aliases": ["Old", "z.Older"],
    "fields": [
        {
            "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"], "default": "A"},
            "name": "kind",
            "default": "B",
        },
        {"name": "id", "type": {"name": "q.Id", "type": "fixed", "size": 16}, "order": "ignore", "tag": 1},
        {"name": "at", "type": {"logicalType": "timestamp-millis", "type": "long"}, "aliases": ["b", "a"]},
        {"name": "more", "type": ["null", {"type": "map", "values": "q.Id"}, "Event"], "default": None},
        {"name": "again", "type": {"type": "array", "items": "Kind"}, "default": []},
    ],
}


def avro(schema: Any) -> AvroSchema:
    parsed = parse(SchemaType.AVRO, json.dumps(schema))
    assert isinstance(parsed, AvroSchema)
    return parsed


def test_the_canonical_text_is_javas() -> None:
    assert avro(FULL).canonical == (
        '{"type":"record","name":"Event","namespace":"x.y","doc":"d","fields":['
        '{"name":"kind","type":{"type":"enum","name":"Kind","symbols":["A","B"],"default":"A"},"default":"B"},'
        '{"name":"id","type":{"type":"fixed","name":"Id","namespace":"q","size":16},"order":"ignore","tag":1},'
        '{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"},"aliases":["b","a"]},'
        '{"name":"more","type":["null",{"type":"map","values":"q.Id"},"Event"],"default":null},'
        '{"name":"again","type":{"type":"array","items":"Kind"},"default":[]}],'
        '"owner":"me","aliases":["Old","z.Older"]}'
    )


def test_the_canonical_text_is_its_own() -> None:
    canonical, normalized = avro(FULL).canonical, avro(FULL).normalized()
    assert parse(SchemaType.AVRO, canonical).canonical == canonical
    assert parse(SchemaType.AVRO, canonical).normalized() == normalized
    assert parse(SchemaType.AVRO, normalized).normalized() == normalized


def test_what_means_the_same_is_normalized_to_the_same() -> None:
    other = {**FULL, "name": "x.y.Event", "aliases": ["z.Older", "x.y.Old"]}
    del other["namespace"]
    other["fields"] = [dict(reversed(field.items())) for field in FULL["fields"]]
    assert avro(other).normalized() == avro(FULL).normalized()


def test_names_within_properties_and_defaults_are_normalized_too() -> None:
    """Only those right within a type were: a schema whose objects had another order was another version."""
    inner = {"type": "record", "name": "I", "doc": "", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]}  # fmt: skip
    one = {"type": "record", "name": "R", "connect.parameters": {"x": "1", "y": [{"k": 1, "l": 2}]}, "fields": [{"name": "i", "type": inner, "default": {"a": 1, "b": 2}}]}  # fmt: skip
    other = {**one, "connect.parameters": {"y": [{"l": 2, "k": 1}], "x": "1"}}
    other["fields"] = [{**one["fields"][0], "type": {**inner, "doc": None}, "default": {"b": 2, "a": 1}}]  # type: ignore[dict-item,index]
    assert avro(one).canonical != avro(other).canonical
    assert avro(one).normalized() == avro(other).normalized()


@pytest.mark.parametrize(
    "schema", [FULL, "int", ["null", "string"], {"type": "array", "items": {"type": "int", "x": 1}}]
)
def test_the_parsing_form_and_its_fingerprint_are_fastavros(schema: Any) -> None:
    form = fastavro.schema.to_parsing_canonical_form(fastavro.schema.parse_schema(schema))
    assert avro(schema).parsing_canonical_form() == form
    assert avro(schema).fingerprint().to_bytes(8, "little").hex() == fastavro.schema.fingerprint(form, "CRC-64-AVRO")
