"""Schemas that were made to cost time: each of these ran for ever, or for minutes, in an earlier version of what it
goes through.
"""

import json
from typing import Any

import pytest

from headwater.schemas import SchemaError, SchemaType, incompatibilities, parse
from headwater.schemas.json_text import limit_depth

pytestmark = pytest.mark.timeout(60)


@pytest.mark.parametrize(
    "text", ["[]," * 200 + '"' + "x" * 500_000, "[]," * 200 + '"' + '\\"' * 250_000, "[]," * 200 + '"\\']
)
def test_a_string_without_an_end(text: str) -> None:
    limit_depth(text)
    with pytest.raises(SchemaError):
        parse(SchemaType.AVRO, text)


def test_text_that_is_nearly_base64() -> None:
    with pytest.raises(SchemaError):
        parse(SchemaType.PROTOBUF, "A" + " " * 500_000 + "!")


def test_a_default_within_unions_of_records_that_contain_each_other() -> None:
    value: Any = "this fits nothing"
    for _ in range(60):
        value = {"x": value}
    one = {"type": "record", "name": "One", "fields": [{"name": "x", "type": ["null", "One", "Two"]}]}
    two = {"type": "record", "name": "Two", "fields": [{"name": "x", "type": ["null", one, "Two"]}]}
    last = {"name": "g", "type": ["One", "Two"], "default": value}
    schema = {"type": "record", "name": "Top", "fields": [{"name": "f", "type": two}, last]}
    with pytest.raises(SchemaError, match="fits no branch"):
        parse(SchemaType.AVRO, json.dumps(schema))


def test_many_patterns_and_many_properties() -> None:
    closed = {"type": "object", "additionalProperties": False}
    patterns = json.dumps(
        {**closed, "patternProperties": {f"^a{index}b*$": {"type": "string"} for index in range(2_000)}}
    )
    properties = json.dumps({**closed, "properties": {f"p{index}": {"type": "string"} for index in range(2_000)}})
    with pytest.raises(SchemaError, match="too large to be compared"):
        incompatibilities(parse(SchemaType.JSON, patterns), parse(SchemaType.JSON, properties))


def test_many_files_that_import_all_before_them() -> None:
    messages = " ".join(f"message M{{0}}_{index} {{{{ }}}}" for index in range(50))
    references: dict[str, str] = {}
    for number in range(200):
        imports = " ".join(f'import "{path}";' for path in references)
        references[f"{number}.proto"] = f'syntax = "proto3"; {imports} {messages.format(number)}'
    with pytest.raises(SchemaError, match="too large"):
        parse(SchemaType.PROTOBUF, 'syntax = "proto3"; import "199.proto";', references)


def test_a_ladder_of_records_each_with_two_fields_of_the_one_below() -> None:
    def ladder(leaf: str) -> Any:
        lower: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": leaf}]}
        for number in range(1, 40):
            fields = [{"name": "a", "type": lower}, {"name": "b", "type": f"R{number - 1}"}]
            lower = {"type": "record", "name": f"R{number}", "fields": fields}
        return parse(SchemaType.AVRO, json.dumps(lower))

    (difference,) = incompatibilities(ladder("string"), ladder("int"))
    assert difference.kind == "TYPE_MISMATCH"


def test_a_ladder_of_objects_each_with_two_properties_of_the_one_below() -> None:
    def ladder(leaf: str) -> Any:
        steps: dict[str, Any] = {"s0": {"type": "object", "properties": {"x": {"type": leaf}}}}
        for number in range(1, 40):
            below = {"$ref": f"#/definitions/s{number - 1}"}
            steps[f"s{number}"] = {"type": "object", "properties": {"a": below, "b": below}}
        return parse(SchemaType.JSON, json.dumps({"definitions": steps, "$ref": "#/definitions/s39"}))

    assert incompatibilities(ladder("string"), ladder("string")) == []
    with pytest.raises(SchemaError, match="too large to be compared"):
        incompatibilities(ladder("string"), ladder("number"))


def test_many_changes_under_a_name_as_long_as_a_schema_may_be() -> None:
    def wide(leaf: str) -> Any:
        inner = {"type": "object", "properties": {f"p{number}": {"type": leaf} for number in range(2_000)}}
        return parse(SchemaType.JSON, json.dumps({"type": "object", "properties": {"n" * 500_000: inner}}))

    with pytest.raises(SchemaError, match="too large to be compared"):
        incompatibilities(wide("string"), wide("number"))


def test_a_deep_json_schema_is_compared() -> None:
    def deep(leaf: str) -> Any:
        node: Any = {"type": leaf, "description": "x" * 200_000}
        for _ in range(70):
            node = {"anyOf": [node]}
        return parse(SchemaType.JSON, json.dumps(node))

    assert incompatibilities(deep("string"), deep("string")) == []
    assert incompatibilities(deep("string"), deep("number"))
