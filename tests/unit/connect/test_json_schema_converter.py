"""Connect's schemas as JSON Schemas and back, by Confluent's rules, and the converter with a registry in memory."""

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from headwater.client.schema_registry.client import SchemaRegistryClient
from headwater.connect.converters.jsonschema.converter import JsonSchemaConverter, JsonValues
from headwater.connect.converters.jsonschema.schemas import JsonSchemaOptions, connect_schema, json_schema
from headwater.connect.data import schema as s
from headwater.connect.data.json_text import dumps
from headwater.connect.data.schema import Schema, Type
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError
from headwater.connect.plugins import Catalog, Kind
from headwater.schemas import SchemaType, parse
from headwater.schemas.jsonschema import JsonSchema
from unit.connect.registry_memory import Memory

LOGICAL = "org.apache.kafka.connect.data."
ONE_OF = "io.confluent.connect.json.OneOf"
ENUM = "io.confluent.connect.json.Enum"
INT32 = {"type": "integer", "connect.type": "int32"}
LINE = s.struct([("n", s.INT32)], name="shop.Line")

# Connect's schema, the JSON Schema, a value of Connect's, and its JSON
CASES: dict[str, tuple[Schema, Any, Any, str]] = {
    "int8": (s.INT8, {"type": "integer", "connect.type": "int8"}, -3, "-3"),
    "int16": (s.INT16, {"type": "integer", "connect.type": "int16"}, 300, "300"),
    "int32": (s.INT32, INT32, 7, "7"),
    "int64": (s.INT64, {"type": "integer", "connect.type": "int64"}, 1 << 40, str(1 << 40)),
    "float32": (s.FLOAT32, {"type": "number", "connect.type": "float32"}, 1.5, "1.5"),
    "float64": (s.FLOAT64, {"type": "number", "connect.type": "float64"}, 0.1, "0.1"),
    "boolean": (s.BOOLEAN, {"type": "boolean"}, True, "true"),
    "string": (s.STRING, {"type": "string"}, "foo", '"foo"'),
    "bytes": (s.BYTES, {"type": "string", "connect.type": "bytes"}, b"\x00\xff", '"AP8="'),
    "optional": (s.OPTIONAL_STRING, {"oneOf": [{"type": "null"}, {"type": "string"}]}, "foo", '"foo"'),
    "a default": (s.FLOAT64.changed(default=0.5), {"default": 0.5, "type": "number", "connect.type": "float64"}, 1.0, "1.0"),
    "decimal": (
        s.decimal_schema(2),
        {"title": LOGICAL + "Decimal", "type": "number", "connect.type": "bytes", "connect.version": 1, "connect.parameters": {"scale": "2"}},
        Decimal("-1.50"),
        '"/2o="',
    ),
    "date": (s.DATE_SCHEMA, {"title": LOGICAL + "Date", **INT32, "connect.version": 1}, date(1970, 1, 11), "10"),
    "timestamp": (
        s.TIMESTAMP_SCHEMA,
        {"title": LOGICAL + "Timestamp", "type": "integer", "connect.type": "int64", "connect.version": 1},
        datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC),
        "2000",
    ),
    "array": (s.array(s.INT32), {"type": "array", "items": INT32}, [1, 2], "[1,2]"),
    "map": (s.map_of(s.STRING, s.INT32), {"type": "object", "additionalProperties": INT32, "connect.type": "map"}, {"a": 1}, '{"a":1}'),
    "map with keys that are no strings": (
        s.map_of(s.INT32, s.STRING),
        {"type": "array", "items": {"type": "object", "properties": {"key": {**INT32, "connect.index": 0}, "value": {"type": "string", "connect.index": 1}}}, "connect.type": "map"},
        {1: "a"},
        '[{"key":1,"value":"a"}]',
    ),
    "enum": (Schema(Type.STRING, parameters={ENUM: "", ENUM + ".A": "A", ENUM + ".B": "B"}), {"enum": ["A", "B"]}, "B", '"B"'),
    "struct": (
        s.struct([("z", s.INT32), ("a", s.OPTIONAL_STRING), ("line", LINE.as_optional())], name="shop.Order", version=2, doc="orders"),
        {
            "title": "shop.Order", "description": "orders", "type": "object",
            "properties": {
                "z": {**INT32, "connect.index": 0},
                "a": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1},
                "line": {"oneOf": [{"type": "null"}, {"title": "shop.Line", "type": "object", "properties": {"n": {**INT32, "connect.index": 0}}}], "connect.index": 2},
            },
            "connect.version": 2,
        },
        {"z": 1, "a": None, "line": {"n": 3}},
        '{"z":1,"a":null,"line":{"n":3}}',
    ),
    "one of several": (
        s.struct([(ONE_OF + ".field.0", s.OPTIONAL_INT32), (ONE_OF + ".field.1", s.OPTIONAL_STRING)], name=ONE_OF, optional=True),
        {"oneOf": [{"type": "null"}, {**INT32, "connect.index": 0}, {"type": "string", "connect.index": 1}]},
        {ONE_OF + ".field.1": "x"},
        '"x"',
    ),
}  # fmt: skip


def built(schema: Schema, value: Any) -> Any:
    if schema.type is not Type.STRUCT or value is None:
        return value
    fields = {each.name: each.schema for each in schema.fields}
    return Struct(schema, {name: built(fields[name], each) for name, each in value.items()})


def parsed(document: Any) -> JsonSchema:
    found = parse(SchemaType.JSON, document if isinstance(document, str) else json.dumps(document))
    assert isinstance(found, JsonSchema)
    return found


@pytest.mark.parametrize("case", CASES)
def test_schemas_and_values_go_to_json_schema_and_come_back(case: str) -> None:
    schema, expected, given, text = CASES[case]
    values, value = JsonValues(), built(schema, given)
    made = json_schema(schema, values.to_json)
    assert json.loads(dumps(made)) == expected
    assert connect_schema(parsed(dumps(made)), values.from_json) == schema
    assert dumps(values.to_json(schema, value)) == text
    assert values.from_json(schema, json.loads(text, parse_float=Decimal)) == value


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"type": "integer"}, s.INT64),
        ({"type": ["null", "string"]}, s.OPTIONAL_STRING),
        ({"type": "string", "enum": ["A"]}, Schema(Type.STRING, parameters={ENUM: "", ENUM + ".A": "A"})),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "number"}}}, s.FLOAT64),
        ({"type": "object", "title": "U", "properties": {"b": {"type": "boolean"}, "a": {"type": "string"}}, "required": ["b"]},
         s.struct([("b", s.BOOLEAN), ("a", s.STRING)], name="U")),
    ],
)  # fmt: skip
def test_schemas_that_others_wrote(document: Any, expected: Schema) -> None:
    assert connect_schema(parsed(document), JsonValues().from_json) == expected


def test_what_is_not_required_is_optional_if_asked_for() -> None:
    document = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a"]}
    found = connect_schema(parsed(document), JsonValues().from_json, JsonSchemaOptions(required=True))
    assert found == s.struct([("a", s.STRING), ("b", s.OPTIONAL_STRING)])
    made = json_schema(found, JsonValues().to_json, JsonSchemaOptions(closed=True, required=True))
    assert (made["required"], made["additionalProperties"]) == (["a"], False)


def test_a_struct_may_be_a_default() -> None:
    values = JsonValues()
    schema = s.struct([("line", LINE.changed(default=Struct(LINE, {"n": 4})))])
    made = json_schema(schema, values.to_json)
    assert made["properties"]["line"]["default"] == {"n": 4}
    assert connect_schema(parsed(dumps(made)), values.from_json) == schema
    assert dumps(values.to_json(schema, Struct(schema))) == '{"line":{"n":4}}'


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (True, "says nothing of a type"),
        ({"type": "object", "properties": {"next": {"$ref": "#"}}}, "contains itself"),
        ({"type": "array"}, "did not specify the items"),
        ({"allOf": [{"type": "string"}, {"type": "object"}]}, "allOf"),
    ],
)
def test_what_has_no_counterpart_is_refused(document: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        connect_schema(parsed(document), JsonValues().from_json)


def converter(memory: Memory, **props: str) -> JsonSchemaConverter:
    class InMemory(JsonSchemaConverter):
        def connect(self, config: Mapping[str, Any]) -> SchemaRegistryClient:
            return SchemaRegistryClient({"latest.cache.ttl.sec": 0}, transport=memory)

    made = InMemory()
    made.configure({"schema.registry.url": "http://registry", **props})
    return made


def test_records_are_framed_with_the_id_of_their_schema() -> None:
    memory = Memory()
    ours = converter(memory)
    data = ours.from_connect("t", LINE, Struct(LINE, {"n": 1}))
    assert data == b'\x00\x00\x00\x00\x01{"n":1}'
    assert memory.subjects == {"t-value": [1]}
    assert memory.schemas[0]["schemaType"] == "JSON"
    assert ours.to_connect("t", data) == (LINE.changed(version=1), Struct(LINE.changed(version=1), {"n": 1}))
    with pytest.raises(DataError, match="without a schema"):
        ours.from_connect("t", None, {"a": 1})
    memory.register("t-value", {"schema": '"string"'})
    with pytest.raises(DataError, match="of the type AVRO, not JSON"):
        ours.to_connect("t", b"\x00\x00\x00\x00\x02\x02a")


def test_decimals_are_numbers_if_asked_for() -> None:
    ours = converter(Memory(), **{"decimal.format": "numeric"})
    data = ours.from_connect("t", s.decimal_schema(2), Decimal("1.50"))
    assert data == b"\x00\x00\x00\x00\x011.50"
    assert ours.to_connect("t", data).value == Decimal("1.50")


def test_the_converter_is_found_under_all_its_names() -> None:
    catalog = Catalog(installed=False)
    for name in ("io.confluent.connect.json.JsonSchemaConverter", "JsonSchemaConverter", "JsonSchema"):
        assert catalog.find(name, Kind.CONVERTER).cls is JsonSchemaConverter
