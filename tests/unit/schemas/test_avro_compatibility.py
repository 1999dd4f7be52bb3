"""Avro's rules of resolution, rule by rule, and the seven levels. Random pairs beside Java: test_avro_java.py."""

import json
from typing import Any

import pytest

from headwater.schemas import CompatibilityLevel, SchemaError, SchemaType, check, incompatibilities, parse
from headwater.schemas.model import ParsedSchema


def avro(schema: Any) -> ParsedSchema:
    return parse(SchemaType.AVRO, json.dumps(schema))


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, type_: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F") -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size}


A, B = field("a", "int"), field("b", "string")

# Avro's specification, "Schema Resolution": the reader, the writer, and the kinds of what keeps them apart.
RULES: list[tuple[Any, Any, list[str]]] = [
    ("int", "int", []),
    ("long", "int", []),
    ("float", "long", []),
    ("double", "float", []),
    ("string", "bytes", []),
    ("bytes", "string", []),
    ("int", "long", ["TYPE_MISMATCH"]),
    ("float", "double", ["TYPE_MISMATCH"]),
    ("string", "int", ["TYPE_MISMATCH"]),
    ("null", "int", ["TYPE_MISMATCH"]),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, []),
    ({"type": "array", "items": "int"}, {"type": "array", "items": "long"}, ["TYPE_MISMATCH"]),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, ["TYPE_MISMATCH"]),
    ({"type": "map", "values": "int"}, {"type": "array", "items": "int"}, ["TYPE_MISMATCH"]),
    (fixed(4), fixed(4), []),
    (fixed(4), fixed(5), ["FIXED_SIZE_MISMATCH"]),
    (fixed(4), fixed(4, "G"), ["NAME_MISMATCH"]),
    ({**fixed(4), "aliases": ["G"]}, fixed(4, "G"), []),
    (enum("A", "B"), enum("A"), []),
    (enum("A"), enum("A", "B"), ["MISSING_ENUM_SYMBOLS"]),
    (enum("A", default="A"), enum("A", "B"), []),
    (record(A), record(A, B), []),
    (record(A, B), record(A), ["READER_FIELD_MISSING_DEFAULT_VALUE"]),
    (record(A, {**B, "default": ""}), record(A), []),
    (record(B, A), record(A, B), []),
    (record(field("a", "long")), record(A), []),
    (record(field("c", "int", aliases=["a"])), record(A), []),
    (record(field("c", "int", aliases=["a", "d"])), record(A, field("d", "int")), ["NAME_MISMATCH"]),
    (record(A), record(A, name="S"), ["NAME_MISMATCH"]),
    (record(A, aliases=["S"]), record(A, name="S"), []),
    (record(A, namespace="x"), record(A, namespace="y"), []),  # only the name without its namespace must match
    (["null", "int"], "int", []),
    (["null", "long"], "int", []),
    ("int", ["int"], []),
    ("int", ["null", "int"], ["TYPE_MISMATCH"]),
    (["int", "null", "string"], ["null", "int"], []),
    (["null", "int"], ["null", "int", "string"], ["MISSING_UNION_BRANCH"]),
    (["null", "int"], "string", ["MISSING_UNION_BRANCH"]),
    (record(field("n", ["null", "R"])), record(field("n", ["null", "R"])), []),
    (
        record(field("n", ["null", "R"]), field("v", "int")),
        record(field("n", ["null", "R"]), field("v", "string")),
        ["TYPE_MISMATCH"],
    ),
]


@pytest.mark.parametrize(("reader", "writer", "kinds"), RULES)
def test_resolution(reader: Any, writer: Any, kinds: list[str]) -> None:
    assert [found.kind for found in incompatibilities(avro(reader), avro(writer))] == kinds


def test_a_message_says_where_and_why() -> None:
    found = check(avro(record(A, B)), [avro(record(A))], CompatibilityLevel.BACKWARD)
    assert found == [
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'The field 'b' at path '/fields/1' in the new schema has no "
        "default value and is missing in the old schema', path:'/fields/1'}"
    ]


ADDED = {**B, "default": ""}
FIRST, SECOND, THIRD = record(A), record(A, ADDED), record(A, B)  # the third reads the second, not the first
L = CompatibilityLevel


@pytest.mark.parametrize(
    ("new", "previous", "allowed"),
    [
        (FIRST, [], set(L)),
        (THIRD, [FIRST, SECOND], {L.NONE, L.BACKWARD, L.FORWARD, L.FULL, L.FORWARD_TRANSITIVE}),
        (THIRD, [FIRST], {L.NONE, L.FORWARD, L.FORWARD_TRANSITIVE}),
        (FIRST, [THIRD], {L.NONE, L.BACKWARD, L.BACKWARD_TRANSITIVE}),
        (FIRST, [THIRD, SECOND], {L.NONE, L.BACKWARD, L.BACKWARD_TRANSITIVE, L.FORWARD, L.FULL}),
        ("int", [FIRST], {L.NONE}),
    ],
)
def test_levels(new: Any, previous: list[Any], allowed: set[CompatibilityLevel]) -> None:
    earlier = [avro(each) for each in previous]
    assert {level for level in L if not check(avro(new), earlier, level)} == allowed


def test_a_comparison_that_would_take_long_is_refused() -> None:
    def wide(prefix: str) -> Any:
        return [record(field(prefix, "int"), name=f"{prefix}{index}") for index in range(500)]

    with pytest.raises(SchemaError, match="too large to be compared"):
        incompatibilities(avro(wide("a")), avro(wide("b")))


def test_a_chain_of_names_deeper_than_any_text_is_refused_or_compared_but_never_overflows() -> None:
    fields = [field("f0", record(A, name="N0"))]
    for index in range(1, 600):
        fields.append(field(f"f{index}", record(field("n", f"N{index - 1}"), name=f"N{index}")))
    forward = avro(record(*fields))  # meets each pair before it is deep
    assert incompatibilities(forward, forward) == []
    parsed = parse(SchemaType.AVRO, '"N599"', {"R": forward})
    with pytest.raises(SchemaError, match="too deep to be compared"):
        incompatibilities(parsed, parsed)
