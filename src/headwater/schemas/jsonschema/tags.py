"""Tags of objects and properties of JSON Schema: `confluent:tags`. Pure.

A path says what one goes through: `object.card` is a property, `object.cards.array.object` the object that is each item
of a list, `oneof.1.object` the second choice, `allof.0.conditional.then.object` and `object.definitions.Card.object`
likewise. Alternatives are numbered as they stand in the schema. References (`$ref`) are not followed: what they lead to
has a path of its own.
"""

from collections.abc import Iterator
from typing import Any, Final

from headwater.schemas.json_text import compact_json, parse_json
from headwater.schemas.tag_entities import Entity, EntityType, PathBudget, Tags, changed, not_there, set_tags, tags_of

Entities = dict[Entity, dict[str, Any]]
Place = tuple[dict[str, Any], str, bool]  # a schema, the path before it, and whether it is a property itself

_CHOICES: Final = (("anyOf", "anyof"), ("allOf", "allof"), ("oneOf", "oneof"))
_CONDITIONS: Final = ("if", "then", "else")
_DEFINITIONS: Final = ("definitions", "$defs")


def json_schema_entities(text: str) -> tuple[Any, Entities]:
    """The document, and what in it can have tags."""
    document = parse_json(text)
    found: Entities = {}
    budget = PathBudget()
    pending: list[Place] = [(document, "", False)] if isinstance(document, dict) else []
    while pending:
        node, scope, is_property = pending.pop()
        inner: list[Place] = []
        if _is_object(node):
            path = f"{scope}object"
            if not is_property:
                found[budget.entity(path, EntityType.RECORD)] = node
            for name, each in _schemas(node.get("properties")):
                found[budget.entity(f"{path}.{name}", EntityType.FIELD)] = each
                inner.append((each, budget.path(f"{path}.{name}."), True))
            for keyword in _DEFINITIONS:
                for name, each in _schemas(node.get(keyword)):
                    inner.append((each, budget.path(f"{path}.{keyword}.{name}."), False))
        for each, place in _parts(node, scope):
            inner.append((each, budget.path(place), False))
        pending += reversed(inner)
    return document, found


def _is_object(node: dict[str, Any]) -> bool:
    kind = node.get("type")
    return kind == "object" or (isinstance(kind, list) and "object" in kind) or "properties" in node


def _schemas(node: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        for name, each in node.items():
            if isinstance(each, dict):
                yield name, each


def _parts(node: dict[str, Any], scope: str) -> Iterator[tuple[dict[str, Any], str]]:
    items = node.get("items")
    if isinstance(items, dict):
        yield items, f"{scope}array."
    for keyword, word in _CHOICES:
        choices = node.get(keyword)
        for number, each in enumerate(choices if isinstance(choices, list) else ()):
            if isinstance(each, dict):
                yield each, f"{scope}{word}.{number}."
    for keyword in _CONDITIONS:
        if isinstance(node.get(keyword), dict):
            yield node[keyword], f"{scope}allof.0.conditional.{keyword}."
    if isinstance(node.get("not"), dict):
        yield node["not"], f"{scope}not."


def json_schema_with_tags(text: str, add: Tags, remove: Tags) -> str:
    document, entities = json_schema_entities(text)
    for entity in dict.fromkeys([*add, *remove]):
        node = entities.get(entity)
        if node is None:
            raise not_there(entity)
        set_tags(node, changed(tags_of(node), add.get(entity, ()), remove.get(entity, ())))
    return compact_json(document)
