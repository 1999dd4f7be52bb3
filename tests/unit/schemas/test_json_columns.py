"""Which types a JSON Schema gives to columns."""

import json
from typing import Any

import pyarrow as pa
import pytest

from headwater.schemas.columns.json_types import json_arrow_schema

DEEP: dict[str, Any] = {"type": "integer"}
for _ in range(60):
    DEEP = {"type": "object", "properties": {"inner": DEEP, "n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "integer"}, pa.int64()),
        ({"type": "number"}, pa.float64()),
        ({"type": ["string", "null"], "format": "date"}, pa.string()),
        ({"oneOf": [{"type": "null"}, {"type": "boolean"}]}, pa.bool_()),
        ({"type": "array", "items": {"type": "integer"}}, pa.list_(pa.int64())),
        ({"properties": {"b": {"type": "string"}}}, pa.struct([("b", pa.string())])),
        ({"$ref": "#/definitions/N~1n"}, pa.int64()),
        ({"type": ["string", "integer"]}, None),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, None),
        ({"type": "object"}, None),
        ({"type": "array"}, None),
        ({"$ref": "http://elsewhere/x"}, None),
        ({"$ref": "#/properties/a"}, None),  # contains itself
        ({}, None),
        (True, None),
    ],
)
def test_a_property_has_the_type_that_is_certain(schema: Any, wanted: pa.DataType | None) -> None:
    document = {"type": "object", "properties": {"a": schema, "z": {"type": "integer"}}}
    found = json_arrow_schema(json.dumps({**document, "definitions": {"N/n": {"type": "integer"}}}))
    fields = [("z", pa.int64())] if wanted is None else [("a", wanted), ("z", pa.int64())]
    assert found == pa.schema(fields)


@pytest.mark.parametrize("schema", [True, {"type": "string"}, {"type": "array", "items": {"type": "integer"}}, {}])
def test_what_is_no_object_has_no_columns(schema: Any) -> None:
    assert json_arrow_schema(json.dumps(schema)) is None


def test_schemas_that_grow_from_references_are_bounded() -> None:
    parts: dict[str, Any] = {"d0": {"type": "integer"}}
    for level in range(1, 30):
        both = {name: {"$ref": f"#/definitions/d{level - 1}"} for name in ("a", "b")}
        parts[f"d{level}"] = {"type": "object", "properties": both}
    text = json.dumps({"type": "object", "properties": {"x": {"$ref": "#/definitions/d29"}}, "definitions": parts})
    json_arrow_schema(text)
    assert json_arrow_schema(json.dumps(DEEP)) is not None
