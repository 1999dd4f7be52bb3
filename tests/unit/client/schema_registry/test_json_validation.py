"""Values against their JSON Schema: what is allowed, and that nothing runs for ever."""

import json
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.client.schema_registry.json_validation import validator
from headwater.schemas import SchemaType, parse
from headwater.schemas.jsonschema import JsonSchema
from headwater.schemas.model import DataError

pytestmark = pytest.mark.timeout(60)
RUNS_FOR_EVER = "^(a+)+$"
LONG = "a" * 5_000 + "!"
CLOSED = {"additionalProperties": False}


def allows(schema: Any, value: Any) -> bool:
    parsed = parse(SchemaType.JSON, json.dumps(schema))
    assert isinstance(parsed, JsonSchema)
    validate = validator(parsed)
    try:
        validate(value)
    except DataError:
        return False
    return True


@pytest.mark.parametrize(
    ("schema", "value", "allowed"),
    [
        ({"pattern": "^a"}, "ab", True),
        ({"pattern": "^a"}, "b", False),
        ({"pattern": "^a"}, 5, True),
        ({"pattern": r"^\u0041\p{L}$"}, "Aé", True),
        ({"pattern": "a$"}, "a\n", False),
        ({"patternProperties": {"^n": {"type": "number"}}}, {"n1": 1, "x": "y"}, True),
        ({"patternProperties": {"^n": {"type": "number"}}}, {"n1": "1"}, False),
        ({"patternProperties": {"^n": {}}, **CLOSED}, {"n1": 1}, True),
        ({"patternProperties": {"^n": {}}, "properties": {"x": {}}, **CLOSED}, {"n1": 1, "x": 1}, True),
        ({"patternProperties": {"^n": {}}, **CLOSED}, {"m": 1}, False),
        ({"additionalProperties": {"type": "number"}}, {"m": "1"}, False),
        ({"additionalProperties": {"type": "number"}}, ["1"], True),
        ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, False),
        ({"uniqueItems": True}, [1, True, "1", {"a": 1}], True),
        ({"uniqueItems": True}, [{"a": [1]}, {"a": [1.0]}], False),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
        ({"uniqueItems": False}, [1, 1], True),
        ({"type": "object", "required": ["a"]}, {}, False),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 5, "exclusiveMaximum": True}, 5, False),
        ({"$defs": {"t": {"type": "string"}}, "$ref": "#/$defs/t"}, 5, False),
    ],
)
def test_what_a_schema_allows(schema: Any, value: Any, allowed: bool) -> None:
    assert allows(schema, value) is allowed


@pytest.mark.parametrize(
    ("schema", "value", "allowed"),
    [
        ({"pattern": RUNS_FOR_EVER}, LONG, False),
        ({"patternProperties": {RUNS_FOR_EVER: {"type": "string"}}, **CLOSED}, {LONG: 1}, False),
        ({"properties": {"x": {"pattern": RUNS_FOR_EVER}, "y": {"$ref": "#"}}}, {"y": {"x": LONG}}, False),
        (
            {"custom": {"$schema": "http://json-schema.org/draft-07/schema#", "pattern": RUNS_FOR_EVER}, "$ref": "#/custom"},
            LONG,
            False,
        ),
        ({"uniqueItems": True}, [{"a": number} for number in range(20_000)], True),
    ],
    ids=["pattern", "pattern of properties", "of the root again", "of another dialect", "unique objects"],
)  # fmt: skip
def test_what_ran_for_ever_has_an_answer(schema: Any, value: Any, allowed: bool) -> None:
    """With the package's own keywords, a record of 30 characters could hold a consumer for hours."""
    root = {"$schema": "http://json-schema.org/draft-07/schema#", **schema}
    assert allows(root, value) is allowed


def test_a_schema_that_refers_to_itself_for_ever_is_told() -> None:
    assert not allows({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}, 1)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"pattern": "^(?=a)b"}, "cannot be matched by RE2"),
        ({"patternProperties": {r"(a)\1": {}}}, "cannot be matched by RE2"),
        ({"patternProperties": {"a": {}}, "unevaluatedProperties": False}, "unevaluatedProperties beside"),
    ],
)
def test_a_schema_that_cannot_be_used_in_bounded_time_is_told(schema: Any, why: str) -> None:
    with pytest.raises(UserError, match=why):
        allows(schema, "b")


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"pattern": "^a"}, r'"\ud800"'),
        ({"patternProperties": {"^a": {}}}, r'{"\ud800": 1}'),
        ({"multipleOf": 0.1}, "1" + "0" * 400),
        ({"multipleOf": 0.1}, "1e999"),
        ({"multipleOf": 0.1}, "NaN"),
    ],
)
def test_a_value_that_no_schema_can_be_held_against_is_an_error_of_the_record(schema: Any, text: str) -> None:
    """As JSON it can be read: whoever has a place for bad records must see a bad record, and not stop."""
    assert allows(schema, json.loads(text)) is False
