"""JSON Schema: what is parsed and refused, references, and the rules of compatibility, kind by kind.

The kinds and what they mean for readers are those that Confluent publishes for its registry; each line below is one of
them.
"""

import json
from typing import Any

import pytest

from headwater.schemas import (
    CompatibilityLevel,
    CompatibilityPolicy,
    SchemaError,
    SchemaType,
    check,
    incompatibilities,
    parse,
)
from headwater.schemas.json_text import compact_json
from headwater.schemas.jsonschema import JsonSchema
from headwater.schemas.jsonschema.compatibility import changes
from headwater.schemas.jsonschema.documents import join
from headwater.schemas.jsonschema.kinds import COMPATIBLE


def schema(document: Any, **references: str) -> JsonSchema:
    parsed = parse(SchemaType.JSON, document if isinstance(document, str) else json.dumps(document), references)
    assert isinstance(parsed, JsonSchema)
    return parsed


def closed(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def opened(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def partly(rest: Any, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": rest}


def items(*named: Any, rest: Any = True) -> dict[str, Any]:
    return {"type": "array", "items": list(named), "additionalItems": rest}


S, N, INT, B = {"type": "string"}, {"type": "number"}, {"type": "integer"}, {"type": "boolean"}
REQUIRED = {"required": ["a"]}
PATTERN = {"patternProperties": {"^x": S}}

# (before, after, the kinds of change): the reader has the schema after.
RULES: list[tuple[Any, Any, list[str]]] = [
    (S, N, ["TYPE_CHANGED"]),
    (INT, N, ["TYPE_EXTENDED"]),
    (N, INT, ["TYPE_NARROWED"]),
    (S, {}, []),
    ({}, S, ["TYPE_CHANGED"]),
    (False, S, []),
    (S, S | {"title": "t", "description": "d"}, ["TITLE_CHANGED", "DESCRIPTION_CHANGED"]),
    (S, S | {"default": "x", "$id": "y"}, ["ID_CHANGED", "DEFAULT_CHANGED"]),
    *(
        case
        for type_, key, name in [
            ("string", "maxLength", "MAX_LENGTH"),
            ("string", "minLength", "MIN_LENGTH"),
            ("number", "maximum", "MAXIMUM"),
            ("number", "minimum", "MINIMUM"),
            ("number", "exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
            ("number", "exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
            ("object", "maxProperties", "MAX_PROPERTIES"),
            ("object", "minProperties", "MIN_PROPERTIES"),
            ("array", "maxItems", "MAX_ITEMS"),
            ("array", "minItems", "MIN_ITEMS"),
        ]
        for case in [
            ({"type": type_}, {"type": type_, key: 5}, [f"{name}_ADDED"]),
            ({"type": type_, key: 5}, {"type": type_}, [f"{name}_REMOVED"]),
            ({"type": type_, key: 5}, {"type": type_, key: 6}, [f"{name}_INCREASED"]),
            ({"type": type_, key: 5}, {"type": type_, key: 4}, [f"{name}_DECREASED"]),
        ]
    ),
    (
        N | {"maximum": 5, "exclusiveMaximum": True},
        N | {"exclusiveMaximum": 6},
        ["EXCLUSIVE_MAXIMUM_INCREASED"],
    ),  # draft 4
    (S, S | {"pattern": "a"}, ["PATTERN_ADDED"]),
    (S | {"pattern": "a"}, S, ["PATTERN_REMOVED"]),
    (S | {"pattern": "a"}, S | {"pattern": "b"}, ["PATTERN_CHANGED"]),
    (N, N | {"multipleOf": 2}, ["MULTIPLE_OF_ADDED"]),
    (N | {"multipleOf": 4}, N, ["MULTIPLE_OF_REMOVED"]),
    (N | {"multipleOf": 4}, N | {"multipleOf": 2}, ["MULTIPLE_OF_REDUCED"]),
    (N | {"multipleOf": 2}, N | {"multipleOf": 4}, ["MULTIPLE_OF_EXPANDED"]),
    (N | {"multipleOf": 2}, N | {"multipleOf": 3}, ["MULTIPLE_OF_CHANGED"]),
    ({"enum": ["a"]}, {"enum": ["a", "b"]}, ["ENUM_ARRAY_EXTENDED"]),
    ({"enum": ["a", "b"]}, {"enum": ["a"]}, ["ENUM_ARRAY_NARROWED"]),
    ({"enum": ["a"]}, {"enum": ["b"]}, ["ENUM_ARRAY_CHANGED"]),
    ({"const": 1}, {"const": 2}, ["ENUM_ARRAY_CHANGED"]),
    # properties
    (opened(a=S), opened(a=N), ["TYPE_CHANGED"]),
    (opened(a=S), opened(a=S) | REQUIRED, ["REQUIRED_ATTRIBUTE_ADDED"]),
    (
        opened(a=S | {"default": ""}),
        opened(a=S | {"default": ""}) | REQUIRED,
        ["REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED"],
    ),
    (opened(a=S) | REQUIRED, opened(a=S), ["REQUIRED_ATTRIBUTE_REMOVED"]),
    (opened(), opened(a=S), ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (opened(), opened(a={}), ["PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (opened(), opened(a={}) | REQUIRED, ["PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (opened(), opened(a=S) | REQUIRED, ["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (
        opened(),
        opened(a=S | {"default": ""}) | REQUIRED,
        ["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL"],
    ),
    (opened(a=S), opened(), ["PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL"]),
    (closed(), closed(a=S), ["OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"]),
    (closed(), closed(a=S) | REQUIRED, ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"]),
    (
        closed(),
        closed(a=S | {"default": ""}) | REQUIRED,
        ["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL"],
    ),
    (closed(a=S), closed(), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
    (closed(a=False), closed(), ["PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
    (
        partly(S),
        partly(S, a=S),
        [
            "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        ],
    ),
    (
        partly(S),
        partly(S, a=N),
        [
            "TYPE_CHANGED",
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL",
        ],
    ),
    (partly(S, a=S), partly(S), ["PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"]),
    (partly(S, a=N), partly(S), ["TYPE_CHANGED", "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"]),
    (
        closed(a1=INT),
        closed() | {"patternProperties": {"^a[0-9]": N}},
        ["TYPE_EXTENDED", "PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    ({"multipleOf": 0.3}, {"multipleOf": 0.1}, ["MULTIPLE_OF_REDUCED"]),
    ({"multipleOf": 0.1}, {"multipleOf": 0.3}, ["MULTIPLE_OF_EXPANDED"]),
    ({"multipleOf": 0.3}, {"multipleOf": 0.2}, ["MULTIPLE_OF_CHANGED"]),
    ({"multipleOf": 1e300}, {"multipleOf": 1e-300}, ["MULTIPLE_OF_REDUCED"]),
    (S | {"connect.type": "bytes"}, N | {"connect.type": "bytes"}, []),
    (S | {"connect.type": "bytes"}, N, ["TYPE_CHANGED"]),
    (opened() | PATTERN, opened(b=N) | PATTERN, ["OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"]),
    (
        opened() | PATTERN,
        opened(b=N) | PATTERN | {"required": ["b"]},
        ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"],
    ),
    (opened(b=N) | PATTERN, opened() | PATTERN, ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
    (partly(N, b=N) | PATTERN, partly(N) | PATTERN, ["PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"]),
    (closed(), opened(), ["ADDITIONAL_PROPERTIES_ADDED"]),
    (opened(), closed(), ["ADDITIONAL_PROPERTIES_REMOVED"]),
    (opened(), partly(S), ["ADDITIONAL_PROPERTIES_NARROWED"]),
    (partly(S), opened(), ["ADDITIONAL_PROPERTIES_EXTENDED"]),
    (partly(S), partly(N), ["TYPE_CHANGED"]),
    (opened() | {"unevaluatedProperties": False}, opened(), ["UNEVALUATED_PROPERTIES_ADDED"]),
    (opened(), opened() | {"unevaluatedProperties": False}, ["UNEVALUATED_PROPERTIES_REMOVED"]),
    (opened() | {"dependencies": {"a": ["b"]}}, opened(), ["DEPENDENCY_ARRAY_REMOVED"]),
    (opened(), opened() | {"dependentRequired": {"a": ["b"]}}, ["DEPENDENCY_ARRAY_ADDED"]),
    (
        opened() | {"dependencies": {"a": ["b"]}},
        opened() | {"dependencies": {"a": ["b", "c"]}},
        ["DEPENDENCY_ARRAY_EXTENDED"],
    ),
    (
        opened() | {"dependencies": {"a": ["b", "c"]}},
        opened() | {"dependencies": {"a": ["b"]}},
        ["DEPENDENCY_ARRAY_NARROWED"],
    ),
    (
        opened() | {"dependencies": {"a": ["b"]}},
        opened() | {"dependencies": {"a": ["c"]}},
        ["DEPENDENCY_ARRAY_CHANGED"],
    ),
    (opened() | {"dependencies": {"a": opened()}}, opened(), ["DEPENDENCY_SCHEMA_REMOVED"]),
    (opened(), opened() | {"dependentSchemas": {"a": opened()}}, ["DEPENDENCY_SCHEMA_ADDED"]),
    # items
    ({"type": "array"}, {"type": "array", "items": S}, ["SCHEMA_ADDED"]),
    ({"type": "array", "items": S}, {"type": "array"}, ["SCHEMA_REMOVED"]),
    ({"type": "array", "items": S}, {"type": "array", "items": N}, ["TYPE_CHANGED"]),
    ({"type": "array"}, {"type": "array", "uniqueItems": True}, ["UNIQUE_ITEMS_ADDED"]),
    ({"type": "array", "uniqueItems": True}, {"type": "array"}, ["UNIQUE_ITEMS_REMOVED"]),
    (items(S), items(S, N), ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (items(S), items(S, {}), ["ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (items(S, N), items(S), ["ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL"]),
    (items(S, rest=False), items(S, N, rest=False), ["ITEM_ADDED_TO_CLOSED_CONTENT_MODEL"]),
    (items(S, N, rest=False), items(S, rest=False), ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
    (items(S, False, rest=False), items(S, rest=False), ["ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
    (items(S, rest=S), items(S, S, rest=S), ["ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"]),
    (items(S, rest=S), items(S, N, rest=S), ["TYPE_CHANGED", "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"]),
    (items(S, S, rest=S), items(S, rest=S), ["ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"]),
    (
        items(S, N, rest=S),
        items(S, rest=S),
        ["TYPE_CHANGED", "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    (items(S, rest=False), items(S), ["ADDITIONAL_ITEMS_ADDED"]),
    (items(S), items(S, rest=False), ["ADDITIONAL_ITEMS_REMOVED"]),
    (items(S, rest=S), items(S), ["ADDITIONAL_ITEMS_EXTENDED"]),
    (items(S), items(S, rest=S), ["ADDITIONAL_ITEMS_NARROWED"]),
    ({"type": "array", "prefixItems": [S]}, {"type": "array", "prefixItems": [N]}, ["TYPE_CHANGED"]),  # draft 2020-12
    # combinations
    (S, {"oneOf": [N, S]}, ["SUM_TYPE_EXTENDED"]),
    (S, {"type": ["string", "null"]}, ["SUM_TYPE_EXTENDED"]),
    (S, {"allOf": [S]}, []),
    (S, {"allOf": [S, N]}, ["TYPE_CHANGED"]),
    ({"allOf": [S, N]}, S, ["PRODUCT_TYPE_NARROWED"]),
    ({"anyOf": [S, N]}, S, ["TYPE_CHANGED"]),
    ({"oneOf": [S]}, {"oneOf": [N, S]}, ["SUM_TYPE_EXTENDED"]),
    ({"oneOf": [N, S]}, {"oneOf": [S]}, ["SUM_TYPE_NARROWED"]),
    ({"allOf": [S]}, {"allOf": [S, {"maxLength": 5}]}, ["PRODUCT_TYPE_EXTENDED"]),
    ({"oneOf": [N, S]}, {"oneOf": [S, B]}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]),
    ({"oneOf": [N, S]}, {"anyOf": [S, N]}, ["COMBINED_TYPE_EXTENDED"]),
    ({"anyOf": [N, S]}, {"allOf": [S, N]}, ["COMBINED_TYPE_CHANGED"]),
    ({"oneOf": [INT, N]}, {"oneOf": [N, INT]}, []),  # the match that fits all, not the first one
    ({"not": N}, {"not": INT}, ["NOT_TYPE_NARROWED"]),
    ({"not": INT}, {"not": N}, ["NOT_TYPE_EXTENDED"]),
    ({"not": INT}, {"not": INT}, []),
    ({"if": S, "then": S}, {"if": S, "then": N}, ["CONDITION_CHANGED"]),
    # references
    (S, {"$ref": "#/$defs/a", "$defs": {"a": S}}, []),
    (opened(a={"$ref": "#/definitions/a"}) | {"definitions": {"a": S}}, opened(a=N), ["TYPE_CHANGED"]),
]


@pytest.mark.parametrize(("before", "after", "kinds"), RULES)
def test_rules(before: Any, after: Any, kinds: list[str]) -> None:
    old, new = schema(before), schema(after)
    found = changes(old._shapes, old.document, new._shapes, new.document)
    assert [change.kind for change in found if change.kind != "DEFAULT_CHANGED" or "DEFAULT_CHANGED" in kinds] == kinds
    assert bool(incompatibilities(new, old)) == any(kind not in COMPATIBLE for kind in kinds)


def test_a_message_says_where_and_why() -> None:
    told = check(schema(opened(a=opened(b=N))), [schema(opened(a=opened(b=S)))], CompatibilityLevel.BACKWARD)
    assert told == [
        "{errorType:'TYPE_CHANGED', description:'Found incompatible change at '#/properties/a/properties/b' in the new schema: "
        "the type is another one', path:'#/properties/a/properties/b'}"
    ]


def test_a_recursive_schema_is_compared() -> None:
    def tree(leaf: Any) -> JsonSchema:
        return schema(closed(leaf=leaf, inner={"type": "array", "items": {"$ref": "#"}}))

    assert incompatibilities(tree(S), tree(S)) == []
    assert [each.kind for each in incompatibilities(tree(N), tree(S))] == ["TYPE_CHANGED"]


def test_a_schema_that_excludes_itself_further_inside_is_compared() -> None:
    """It was `too deep to be compared`, and no second version of it could be registered."""

    def version(leaf: Any) -> JsonSchema:
        return schema({"not": closed(inner={"$ref": "#"}, leaf=leaf), "title": "T"})

    assert incompatibilities(version(N), version(N)) == []
    for reader, writer in ((N, S), (N, INT), (INT, N)):  # what is excluded there is allowed one level further inside
        assert [each.kind for each in incompatibilities(version(reader), version(writer))] == ["NOT_TYPE_EXTENDED"]


def test_what_is_found_within_a_schema_that_then_does_not_fit_is_looked_at_again() -> None:
    """`B` was compared while `A`, which it contains, was taken to fit; and so it stayed, also elsewhere."""

    def version(leaf: Any, *others: Any) -> JsonSchema:
        definitions = {"A": closed(b={"$ref": "#/$defs/B"}, k=leaf), "B": closed(back={"$ref": "#/$defs/A"})}
        first = {"anyOf": [{"$ref": "#/$defs/A"}, *others]} if others else {"$ref": "#/$defs/A"}
        return schema(closed(a=first, z={"$ref": "#/$defs/B"}) | {"$defs": definitions})

    assert incompatibilities(version(S, {}), version(S)) == []
    told = incompatibilities(version(N, {}), version(S))
    assert [(each.kind, each.path) for each in told] == [
        ("TYPE_CHANGED", "#/properties/z/properties/back/properties/k")
    ]


def test_canonical_and_normalized() -> None:
    one = schema('{"type": ["string", "null"], "required": ["b", "a"], "title": "T"}')
    two = schema('{"title": "T", "required": ["a", "b"], "type": ["null", "string"]}')
    assert one.canonical == '{"type":["string","null"],"required":["b","a"],"title":"T"}'
    assert one.normalized() == two.normalized()
    assert one.name == "T"


def test_references_between_schemas() -> None:
    address = json.dumps(
        {
            "$id": "http://x/address.json",
            "definitions": {"zip": S},
            "properties": {"zip": {"$ref": "#/definitions/zip"}},
        }
    )
    for reference, name in [
        ("address.json", "address.json"),
        ("http://x/address.json", "other"),
        ("address.json#/definitions/zip", "address.json"),
    ]:
        parsed = schema({"$id": "http://x/person.json", "properties": {"home": {"$ref": reference}}}, **{name: address})
        assert not incompatibilities(parsed, parsed)
    outer = parse(SchemaType.JSON, '{"$ref": "person"}', {"person": schema({"$ref": "address"}, address=address)})
    assert incompatibilities(outer, schema(address)) == []
    assert incompatibilities(outer, schema(opened(zip=N)))


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ("{", "JSON"),
        ("5", "an object, true or false"),
        ({"type": "text"}, "'text'"),
        ({"properties": {"a": {"type": "nope"}}}, "#/properties/a"),
        ({"properties": []}, "properties is an object"),
        ({"properties": {"a": 5}}, "#/properties/a"),
        ({"required": "a"}, "required"),
        ({"minLength": -1}, "minLength"),
        ({"minLength": "1"}, "minLength"),
        ({"maximum": "1"}, "maximum"),
        ({"multipleOf": 0}, "multipleOf"),
        ({"allOf": []}, "allOf"),
        ({"items": 3}, "items"),
        ({"items": [], "prefixItems": [{}]}, "where there are prefixItems"),
        ({"enum": 3}, "enum"),
        ({"$ref": "#/definitions/nope"}, "points to nothing"),
        ({"$ref": "#/type", "type": "string"}, "not a schema"),
        ({"$ref": "file:///etc/passwd"}, "nothing is fetched"),
        ({"$ref": "http://somewhere/else.json"}, "nothing is fetched"),
        ({"$ref": "#/definitions/a", "definitions": {"a": {"$ref": "#/definitions/a"}}}, "without an end"),
        ('{"not":' * 10_000 + "true" + "}" * 10_000, "nested"),
        ('{"title": "' + "x" * (10 << 20) + '"}', "characters"),
    ],
)
def test_what_is_refused(document: Any, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        schema(document)


def test_an_expression_that_would_run_for_ever_does_not() -> None:
    nasty = closed() | {"patternProperties": {"^(a+)+$": S, "(?=x)": S}}
    assert incompatibilities(schema(nasty), schema(closed(**{"a" * 5_000 + "!": S})))


def test_a_comparison_that_would_take_long_is_refused() -> None:
    wide = {"oneOf": [closed(**{f"p{index}": S}) for index in range(200)]}
    other = {"oneOf": [closed(**{f"q{index}": S}) for index in range(200)]}
    with pytest.raises(SchemaError, match="too large to be compared"):
        incompatibilities(schema(wide), schema(other))


def test_a_chain_of_references_is_refused_but_never_overflows() -> None:
    def chain(leaf: Any) -> dict[str, Any]:
        links = {f"d{index}": closed(a={"$ref": f"#/$defs/d{index + 1}"}) for index in range(500)}
        return {"$ref": "#/$defs/d0", "$defs": links | {"d500": leaf}}

    with pytest.raises(SchemaError, match="too deep"):
        incompatibilities(schema(chain(S)), schema(chain(N)))


@pytest.mark.parametrize(
    ("base", "reference", "expected"),
    [
        ("http://x/a/b.json", "c.json", "http://x/a/c.json"),
        ("http://x/a/b.json", "../c.json", "http://x/c.json"),
        ("http://x/a/b.json", "/c.json", "http://x/c.json"),
        ("http://x/a/b.json", "http://y/c", "http://y/c"),
        ("http://x/a/b.json", "//y/c", "http://y/c"),
        ("b.json", "c.json", "c.json"),
        ("", "./c.json", "c.json"),
        ("a/b.json", "", "a/b.json"),
    ],
)
def test_addresses_are_joined(base: str, reference: str, expected: str) -> None:
    assert join(base, reference) == expected


@pytest.mark.parametrize(
    "text",
    [
        '{"type":"number","maximum":1e400}',
        '{"minLength":1e400}',
        '{"const":-1e999}',
        '{"anyOf":[{"type":"string"}],"not":{"$ref":"#/anyOf/0000000009"}}',
        '{"anyOf":[{"type":"string"}],"not":{"$ref":"#/anyOf/1"}}',
        '{"anyOf":[{"type":"string"}],"not":{"$ref":"#/anyOf/\u00b2"}}',
        '{"title":"\\ud800"}',
        '{"patternProperties":{"a":true},"properties":{"\ud800":true}}',
    ],
)
def test_what_is_refused_rather_than_kept_or_fallen_over(text: str) -> None:
    with pytest.raises(SchemaError):
        parse(SchemaType.JSON, text)


def test_a_number_that_json_has_no_text_for_is_not_written() -> None:
    with pytest.raises(SchemaError, match="no numbers of JSON"):
        compact_json({"a": float("inf")})


# (before, after, whether the policy STRICT takes it, whether LENIENT does)
POLICIES: list[tuple[Any, Any, bool, bool]] = [
    (opened(), opened(a=S), False, True),
    (opened(), opened(a=S) | REQUIRED, False, False),
    (opened(), opened(a=S | {"default": "x"}) | REQUIRED, False, True),
    (closed(a=S), closed(), False, True),
    (closed(a=S), opened(), True, True),
    (opened(), closed(), False, True),
    (opened(), partly(N), False, True),
    (opened() | {"unevaluatedProperties": True}, opened() | {"unevaluatedProperties": False}, False, True),
    (partly(N), partly(N, a=S), False, False),  # something of another type was written there
    (opened(a=S), opened(a=N), False, False),
    (items(), items(S), False, False),  # it is about objects only
    ({"anyOf": [opened(), S]}, {"anyOf": [opened(a=S), S]}, False, True),
    ({"not": opened(a=S)}, {"not": opened()}, False, True),
    (opened(b=opened()), opened(b=opened(a=S)), False, True),
]


@pytest.mark.parametrize(("before", "after", "strict", "lenient"), POLICIES)
def test_what_the_policies_take(before: Any, after: Any, strict: bool, lenient: bool) -> None:
    for policy, is_taken in ((CompatibilityPolicy.STRICT, strict), (CompatibilityPolicy.LENIENT, lenient)):
        found = check(schema(after), [schema(before)], CompatibilityLevel.BACKWARD, policy)
        assert (found == []) == is_taken, found
        turned = check(schema(before), [schema(after)], CompatibilityLevel.FORWARD, policy)
        assert (turned == []) == is_taken, turned
