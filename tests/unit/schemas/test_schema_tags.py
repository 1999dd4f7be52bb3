"""Tags inside schemas: where they stand, how they are listed, added and removed."""

import json

import pytest

from headwater.schemas import SchemaError, SchemaType, parse
from headwater.schemas.tag_entities import Entity, EntityType
from headwater.schemas.tags import tagged_entities, with_tags

RECORD, FIELD = EntityType.RECORD, EntityType.FIELD

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {
                "name": "cards",
                "type": {
                    "type": "array",
                    "items": ["null", {"type": "record", "name": "Card", "fields": [{"name": "n", "type": "string"}]}],
                },
            },
            {"name": "by", "type": {"type": "map", "values": "Card"}, "confluent:tags": ["PII", "GDPR"]},
        ],
    }
)
JSON = json.dumps(
    {
        "type": "object",
        "confluent:tags": ["all"],
        "properties": {
            "cards": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "string"}}}},
            "who.else": {"oneOf": [{"type": "null"}, {"type": "object", "properties": {"name": {"type": "string"}}}]},
        },
        "definitions": {"Card": {"type": "object", "properties": {"n": {"type": "string"}}}},
        "if": {"properties": {"a": {}}},
    }
)
PROTOBUF = """
syntax = "proto3";
package shop;
message Order {
  int64 id = 1 [deprecated = true];
  message Card { string n = 1; }
  oneof who { string name = 2; Card card = 3; }
}
"""
PLACES = [
    (SchemaType.AVRO, AVRO, Entity("shop.Order", RECORD)),
    (SchemaType.AVRO, AVRO, Entity("shop.Order.id", FIELD)),
    (SchemaType.AVRO, AVRO, Entity("shop.Card.n", FIELD)),
    (SchemaType.JSON, JSON, Entity("object.cards", FIELD)),
    (SchemaType.JSON, JSON, Entity("object.cards.array.object", RECORD)),
    (SchemaType.JSON, JSON, Entity("object.cards.array.object.n", FIELD)),
    (SchemaType.JSON, JSON, Entity("object.who.else.oneof.1.object.name", FIELD)),
    (SchemaType.JSON, JSON, Entity("object.definitions.Card.object", RECORD)),
    (SchemaType.JSON, JSON, Entity("allof.0.conditional.if.object.a", FIELD)),
    (SchemaType.PROTOBUF, PROTOBUF, Entity("Order", RECORD)),
    (SchemaType.PROTOBUF, PROTOBUF, Entity("Order.id", FIELD)),
    (SchemaType.PROTOBUF, PROTOBUF, Entity("Order.Card", RECORD)),
    (SchemaType.PROTOBUF, PROTOBUF, Entity("Order.Card.n", FIELD)),
    (SchemaType.PROTOBUF, PROTOBUF, Entity("Order.name", FIELD)),
]


@pytest.mark.parametrize(("kind", "text", "entity"), PLACES, ids=lambda each: getattr(each, "path", ""))
def test_what_is_added_is_listed_and_can_be_removed(kind: SchemaType, text: str, entity: Entity) -> None:
    before = parse(kind, text)
    listed = tagged_entities(before)
    added = parse(kind, with_tags(before, {entity: ["PII", "own", "PII"]}, {}))
    assert tagged_entities(added) == listed | {entity: ["PII", "own"]}
    partly = parse(kind, with_tags(added, {entity: ["third"]}, {entity: ["PII"]}))
    assert tagged_entities(partly)[entity] == ["own", "third"]
    removed = parse(kind, with_tags(partly, {}, {entity: ["own", "third", "never"]}))
    assert tagged_entities(removed) == listed
    if kind is not SchemaType.PROTOBUF:  # which keeps the import
        assert removed.canonical == before.canonical


@pytest.mark.parametrize(
    ("kind", "text", "path", "meant"),
    [
        (SchemaType.AVRO, AVRO, "Card.n", "shop.Card.n"),
        (SchemaType.PROTOBUF, PROTOBUF, ".Order.who.name", "Order.name"),
        (SchemaType.PROTOBUF, PROTOBUF, "shop.Order.Card.n", "Order.Card.n"),
    ],
)
def test_other_names_of_an_entity_are_known(kind: SchemaType, text: str, path: str, meant: str) -> None:
    tagged = parse(kind, with_tags(parse(kind, text), {Entity(path, FIELD): ["PII"]}, {}))
    assert tagged_entities(tagged)[Entity(meant, FIELD)] == ["PII"]


@pytest.mark.parametrize(
    ("kind", "text", "entity"),
    [
        (SchemaType.AVRO, AVRO, Entity("shop.Order.none", FIELD)),
        (SchemaType.AVRO, AVRO, Entity("shop.Order.id", RECORD)),
        (SchemaType.AVRO, AVRO, Entity("", RECORD)),
        (SchemaType.JSON, JSON, Entity("object.cards.n", FIELD)),
        (SchemaType.JSON, "true", Entity("object", RECORD)),
        (SchemaType.PROTOBUF, PROTOBUF, Entity("Order", FIELD)),
        (SchemaType.PROTOBUF, PROTOBUF, Entity("..Order", RECORD)),
    ],
)
def test_an_entity_that_is_not_there_is_told(kind: SchemaType, text: str, entity: Entity) -> None:
    with pytest.raises(SchemaError, match="No matching path"):
        with_tags(parse(kind, text), {entity: ["PII"]}, {})


def test_a_record_of_a_reference_is_listed_with_the_schema() -> None:
    card = '{"type": "record", "name": "Card", "confluent:tags": ["PII"], "fields": []}'
    order = '{"type": "record", "name": "Order", "fields": [{"name": "card", "type": "Card"}]}'
    assert tagged_entities(parse(SchemaType.AVRO, order, {"Card": card})) == {Entity("Card", RECORD): ["PII"]}


META = 'syntax = "proto3"; import "confluent/meta.proto"; message M { string a = 1 [%s]; }'


@pytest.mark.parametrize(
    ("options", "after"),
    [
        ('(confluent.field_meta) = { doc: "d", tags: ["x", "y"] }', '(confluent.field_meta) = { doc : "d" tags : "y" tags : "z" }'),
        ('(confluent.field_meta).doc = "d", (confluent.field_meta).tags = "x"', '(confluent.field_meta).doc = "d", (confluent.field_meta).tags = "z"'),
        ('deprecated = true, (.confluent.field_meta).tags = "x"', 'deprecated = true, (confluent.field_meta) = { tags : "z" }'),
        ('(confluent.field_meta) = { params <key: "k" value: -1> tags: "x" }', '(confluent.field_meta) = { params { key : "k" value : - 1 } tags : "z" }'),
    ],
)  # fmt: skip
def test_other_parts_of_protobufs_option_stay(options: str, after: str) -> None:
    entity = Entity("M.a", FIELD)
    text = with_tags(parse(SchemaType.PROTOBUF, META % options), {entity: ["z"]}, {entity: ["x"]})
    assert f"string a = 1 [{after}];" in text


def test_long_paths_with_many_leaves_are_bounded() -> None:
    inner: dict[str, object] = {"type": "object", "properties": {f"leaf{n}": {} for n in range(5000)}}
    for _ in range(40):
        inner = {"type": "object", "properties": {"n" * 2000: inner}}
    schema = parse(SchemaType.JSON, json.dumps(inner))
    with pytest.raises(SchemaError, match="too long"):
        tagged_entities(schema)
