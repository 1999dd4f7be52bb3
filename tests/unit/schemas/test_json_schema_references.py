"""JSON Schemas whose parts refer to each other: what is looked at again, by several threads, or from far away."""

import json
import threading
from typing import Any

import pytest

from headwater.schemas import CompatibilityLevel, SchemaError, SchemaType, check, parse
from headwater.schemas.jsonschema.shapes import Shape, _Making


def closed(a: Any, **beside: Any) -> str:
    return json.dumps({"type": "object", "properties": {"a": a}, "additionalProperties": False, **beside})


def chain(length: int, last: Any) -> str:
    definitions = {f"d{at}": {"allOf": [{"$ref": f"#/definitions/d{at + 1}"}]} for at in range(length)}
    return closed({"$ref": "#/definitions/d0"}, definitions={**definitions, f"d{length}": last})


@pytest.mark.parametrize("length", [150, 500])
def test_a_long_chain_of_references_is_refused_each_time_that_it_is_compared(length: int) -> None:
    """The same POST of a schema that does not fit gave 500, 500, and then 200: it was registered."""
    old = parse(SchemaType.JSON, chain(length, {"type": "string"}))
    new = parse(SchemaType.JSON, chain(length, {"type": "integer"}))
    for _ in range(4):
        with pytest.raises(SchemaError, match="too deep"):
            check(new, [old], CompatibilityLevel.BACKWARD)


def test_schemas_too_deep_for_the_stack_that_is_left_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was an internal error (500)."""
    schema = parse(SchemaType.JSON, closed({"type": "string"}))

    def overflows(self: _Making, shape: Shape, node: dict[str, Any]) -> None:
        raise RecursionError

    monkeypatch.setattr(_Making, "_fill", overflows)
    with pytest.raises(SchemaError, match="too deep"):
        check(schema, [schema], CompatibilityLevel.BACKWARD)


def test_a_comparison_that_ended_halfway_leaves_nothing_that_counts_as_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first POST of a schema that does not fit gave 422, and the second one 200."""
    old = parse(SchemaType.JSON, closed({"type": "string"}))
    new = parse(SchemaType.JSON, closed({"allOf": [{"type": "integer"}, {"maximum": 3}]}))
    typed = _Making._typed

    def fails(self: _Making, node: dict[str, Any]) -> list[Shape]:
        if "maximum" in node:
            raise SchemaError("no")
        return typed(self, node)

    monkeypatch.setattr(_Making, "_typed", fails)
    with pytest.raises(SchemaError):
        check(new, [old], CompatibilityLevel.BACKWARD)
    monkeypatch.undo()
    assert check(new, [old], CompatibilityLevel.BACKWARD) != []


def test_two_threads_that_compare_the_same_schemas_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two registrations at once of a schema that does not fit, one was sometimes taken."""
    old = parse(SchemaType.JSON, closed({"type": "string"}))
    new = parse(SchemaType.JSON, closed({"type": "integer"}))
    began, may_go_on = threading.Event(), threading.Event()
    fill = _Making._fill

    def slowly(self: _Making, shape: Shape, node: dict[str, Any]) -> None:
        if node.get("type") == "integer" and not began.is_set():
            began.set()
            may_go_on.wait(10)
        fill(self, shape, node)

    monkeypatch.setattr(_Making, "_fill", slowly)
    found: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: found.append(check(new, [old], CompatibilityLevel.BACKWARD))) for _ in range(2)
    ]
    threads[0].start()
    assert began.wait(10)
    threads[1].start()
    threads[1].join(0.2)
    may_go_on.set()
    for each in threads:
        each.join(10)
    assert len(found) == 2
    assert found[0] == found[1] != []


def test_a_reference_beside_an_empty_list_of_types_is_what_it_refers_to() -> None:
    """The properties of what it refers to were not looked at."""
    old = parse(SchemaType.JSON, closed({"type": [], "$ref": "#/definitions/d"}, definitions={"d": {"type": "string"}}))
    definitions = {"d": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": False}}
    new = parse(SchemaType.JSON, closed({"type": [], "$ref": "#/definitions/d"}, definitions=definitions))
    changed = json.loads(json.dumps(definitions).replace("string", "integer"))
    third = parse(SchemaType.JSON, closed({"type": [], "$ref": "#/definitions/d"}, definitions=changed))
    assert check(new, [old], CompatibilityLevel.BACKWARD) != []
    assert check(third, [new], CompatibilityLevel.BACKWARD) != []


@pytest.mark.parametrize(
    "components",
    [
        {"x": {"type": "object", "properties": [1]}},
        {"x": {"type": "strnig"}},
        {"x": {"$ref": "#/components/y", "properties": [1]}, "y": {"type": "string"}},
        {"x": {"properties": {"b": {"$ref": "#/components/y"}}}, "y": {"allOf": 1}},
        {"x": {"allOf": [{"$ref": "#/nowhere"}]}},
    ],
)
def test_what_is_referred_to_below_a_keyword_that_nobody_knows_is_checked(components: Any) -> None:
    """It was registered, and from then on every registration under that subject was 500."""
    with pytest.raises(SchemaError, match="not a JSON Schema"):
        parse(SchemaType.JSON, closed({"$ref": "#/components/x"}, components=components))


def test_what_refers_to_itself_below_a_keyword_that_nobody_knows_is_checked_once() -> None:
    parse(SchemaType.JSON, closed({"$ref": "#/components/x"}, components={"x": {"items": {"$ref": "#/components/x"}}}))
