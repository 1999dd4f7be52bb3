"""Avro's parser: what it takes, what it refuses and how it says so, and that it does so in bounded time."""

import json
from typing import Any

import pytest

from headwater.schemas import SchemaError, SchemaType, parse
from headwater.schemas.avro import AvroSchema
from headwater.schemas.avro.types import Fixed, LogicalType, Record, Union, logical_type


def avro(schema: Any, **references: str) -> AvroSchema:
    parsed = parse(SchemaType.AVRO, schema if isinstance(schema, str) else json.dumps(schema), references)
    assert isinstance(parsed, AvroSchema)
    return parsed


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def test_names_are_resolved_by_their_namespace() -> None:
    inner = {"type": "fixed", "name": "F", "size": 4}
    parsed = avro(
        record({"name": "a", "type": inner}, {"name": "b", "type": "F"}, {"name": "c", "type": "x.F"}, namespace="x")
    )
    assert isinstance(parsed.root, Record)
    types = [field.type for field in parsed.root.fields]
    assert isinstance(types[0], Fixed)
    assert types[0].name == "x.F"
    assert types[1] is types[0]
    assert types[2] is types[0]
    assert parsed.name == "x.R"


def test_a_record_contains_itself() -> None:
    parsed = avro(record({"name": "next", "type": ["null", "R"]}))
    assert isinstance(parsed.root, Record)
    union = parsed.root.fields[0].type
    assert isinstance(union, Union)
    assert union.branches[1] is parsed.root


@pytest.mark.parametrize(
    ("schema", "where", "why"),
    [
        ("nonsense", "JSON", "Expecting value"),
        ('{"type": "record"', "JSON", "delimiter"),
        ('"unknown"', "/", "not a type that has been defined"),
        ("5", "/", "not 5"),
        ({"name": "R"}, "/", 'needs a "type"'),
        ({"type": "record", "name": "R"}, "/", '"fields" is missing'),
        (record({"name": "a"}), "/fields/0", '"type" is missing'),
        (record({"name": "1a", "type": "int"}), "/fields/0", "'1a' is not a name"),
        (record({"name": "a", "type": "int"}, {"name": "a", "type": "int"}), "/fields/1", "twice"),
        (record({"name": "a", "type": "nope"}), "/fields/0/type", "'nope'"),
        (record({"name": "a", "type": "int", "order": "up"}), "/fields/0", '"order"'),
        (record(name="a-b"), "/", "'a-b' is not a name"),
        (record(name="int"), "/", "Avro's own types"),
        ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "/", "twice"),
        ({"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}, "/", "'B' is not a symbol"),
        ({"type": "enum", "name": "E", "symbols": ["A-B"]}, "/", "'A-B' is not a name"),
        ({"type": "fixed", "name": "F", "size": -1}, "/", '"size"'),
        ({"type": "fixed", "name": "F", "size": True}, "/", '"size"'),
        ({"type": "array"}, "/", '"items" is missing'),
        ({"type": "map", "values": ["int", "int"]}, "/values/1", "twice"),
        (["int", ["null"]], "/1", "within a union"),
        ([record(), record()], "/1", "defined twice"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(schema: Any, where: str, why: str) -> None:
    with pytest.raises(SchemaError) as told:
        avro(schema)
    assert where in str(told.value)
    assert why in str(told.value)


@pytest.mark.parametrize(
    ("type_", "default"),
    [
        ("null", None),
        ("int", -(2**31)),
        ("long", 2**63 - 1),
        ("float", 1),
        ("double", "NaN"),
        ("bytes", "\u00ff\u0000"),
        ("string", "é"),
        (["null", "int"], 5),
        ({"type": "array", "items": "int"}, [1, 2]),
        ({"type": "map", "values": "boolean"}, {"a": True}),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "A"),
        ({"type": "fixed", "name": "F", "size": 2}, "ab"),
        (record({"name": "x", "type": "int", "default": 1}, {"name": "y", "type": "int"}, name="In"), {"y": 2}),
    ],
)
def test_defaults_that_fit(type_: Any, default: Any) -> None:
    avro(record({"name": "a", "type": type_, "default": default}))


@pytest.mark.parametrize(
    ("type_", "default"),
    [
        ("null", 0),
        ("int", 2**31),
        ("int", True),
        ("int", 1.5),
        ("long", 2**63),
        ("float", "one"),
        ("boolean", 0),
        ("bytes", "\u0100"),
        ("string", None),
        (["null", "int"], "text"),
        ({"type": "array", "items": "int"}, [1, None]),
        ({"type": "map", "values": "int"}, []),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B"),
        ({"type": "fixed", "name": "F", "size": 2}, "abc"),
        (record({"name": "x", "type": "int"}, name="In"), {}),
    ],
)
def test_defaults_that_do_not_fit(type_: Any, default: Any) -> None:
    with pytest.raises(SchemaError, match="/fields/0/default"):
        avro(record({"name": "a", "type": type_, "default": default}))


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "int", "logicalType": "date"}, LogicalType("date")),
        ({"type": "string", "logicalType": "date"}, None),
        ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, LogicalType("decimal", 5, 2)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 5}, None),
        ({"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 3}, None),
        (
            {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4},
            LogicalType("decimal", 4),
        ),
        ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, LogicalType("duration")),
        ({"type": "string", "logicalType": "uuid"}, LogicalType("uuid")),
        ({"type": "long", "logicalType": "of-my-own"}, None),
    ],
)
def test_logical_types_that_are_used_wrongly_are_ignored(schema: Any, expected: LogicalType | None) -> None:
    assert logical_type(avro(schema).root) == expected


def test_types_of_references_are_known_and_stay_names_in_the_canonical_text() -> None:
    address = json.dumps(record({"name": "street", "type": "string"}, name="Address", namespace="a"))
    person = record({"name": "home", "type": "Address"}, name="Person", namespace="a")
    parsed = avro(person, **{"a.Address": address})
    expected = '{"type":"record","name":"Person","namespace":"a","fields":[{"name":"home","type":"Address"}]}'
    assert parsed.canonical == parsed.formatted("") == expected
    assert json.loads(parsed.formatted("resolved"))["fields"][0]["type"]["fields"] == [
        {"name": "street", "type": "string"}
    ]
    assert parsed.formatted("serialized") == expected  # a format of another type
    again = parse(SchemaType.AVRO, '"a.Person"', {"a.Person": parsed})
    assert again.canonical == '"a.Person"'
    with pytest.raises(SchemaError, match="in the reference 'bad'"):
        avro(person, bad="{")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 10_000, "nested more than"),
        ('{"type":"array","items":' * 10_000 + '"int"' + "}" * 10_000, "nested more than"),
        ('"' + "x" * (10 << 20) + '"', "characters"),
        ('{"type":"record","name":"R","fields":[],"x":' + "9" * 5000 + "}", "JSON"),
        ('{"type":"record","name":"R","fields":[],"x":NaN}', "NaN"),
        ('"\\', "JSON"),
    ],
)
def test_what_is_deep_or_large_is_refused(text: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        parse(SchemaType.AVRO, text)


def test_a_string_full_of_brackets_is_not_deep() -> None:
    avro(record(doc="[" * 1_000 + '\\"{' * 10))


def test_a_schema_that_is_as_deep_as_allowed_is_taken_and_compared() -> None:
    text = '{"type":"array","items":' * 149 + '"int"' + "}" * 149
    assert not avro(text).differences(avro(text), None)  # type: ignore[arg-type]  # nothing is told


@pytest.mark.parametrize("default", ["[]", '{"a":1}', "1", '"C"'])
def test_the_default_of_an_enum_is_one_of_its_symbols(default: str) -> None:
    with pytest.raises(SchemaError, match="not a symbol of the enum"):
        parse(SchemaType.AVRO, f'{{"type":"enum","name":"E","symbols":["A","B"],"default":{default}}}')


def test_a_number_that_no_float_holds_is_refused() -> None:
    with pytest.raises(SchemaError, match="too large"):
        parse(SchemaType.AVRO, '{"type":"int","x":1e400}')


@pytest.mark.parametrize(
    ("size", "precision", "holds"),
    [(0, 1, False), (1, 2, True), (1, 3, False), (4, 9, True), (4, 10, False), (8, 18, True), (8, 19, False), (64, 153, True), (64, 154, False), (16, 10**18, False)],
)  # fmt: skip
def test_a_decimal_of_more_digits_than_its_bytes_hold_is_none(size: int, precision: int, holds: bool) -> None:
    properties = {"logicalType": "decimal", "precision": precision}
    assert (logical_type(Fixed("fixed", properties, "F", (), None, size)) is not None) == holds
