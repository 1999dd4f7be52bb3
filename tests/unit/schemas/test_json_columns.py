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


def _doubling(levels: int) -> str:
    """2 ** levels integers, from so many definitions that refer to the one below twice."""
    parts: dict[str, Any] = {"d0": {"type": "integer"}}
    for level in range(1, levels + 1):
        both = {name: {"$ref": f"#/definitions/d{level - 1}"} for name in ("a", "b")}
        parts[f"d{level}"] = {"type": "object", "properties": both}
    top = {"x": {"$ref": f"#/definitions/d{levels}"}}
    return json.dumps({"type": "object", "properties": top, "definitions": parts})


def test_schemas_that_grow_from_references_are_bounded() -> None:
    def leaves(kind: pa.DataType) -> int:
        return sum(leaves(field.type) for field in kind) if pa.types.is_struct(kind) else 1

    small, grown = (json_arrow_schema(_doubling(levels)) for levels in (3, 18))
    assert small is not None
    assert leaves(small.field("x").type) == 8
    assert grown is not None
    assert 1_000 < leaves(grown.field("x").type) < 10_000
    assert json_arrow_schema(_doubling(29)) is None  # too deep

    inner: Any = json_arrow_schema(json.dumps(DEEP))
    levels = 0
    while "inner" in inner.names:
        inner = inner.field("inner").type
        levels += 1
    assert 10 < levels <= 50
