"""Tags inside schemas: `confluent:tags` of Avro and JSON Schema, `confluent.field_meta` and `confluent.message_meta` of
Protobuf. Pure.

An entity is a record or a field, named by its path as Confluent's catalog has it: `shop.Order.card` in Avro,
`object.cards.array.object.number` in JSON Schema, `Order.Card.number` in Protobuf. What `tagged_entities` lists can be
named in `with_tags`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, NamedTuple

from headwater.schemas.model import SchemaError

TAGS: Final = "confluent:tags"
_PATH_CHARACTERS_MAX: Final = 16 * 1024 * 1024  # of all paths of one schema: a long path with many leaves


class EntityType(StrEnum):
    RECORD = "sr_record"
    FIELD = "sr_field"


class Entity(NamedTuple):
    path: str
    type: EntityType


Tags = Mapping[Entity, Iterable[str]]


@dataclass(slots=True)
class PathBudget:
    """Characters left for the paths of one schema."""

    left: int = field(default=_PATH_CHARACTERS_MAX)

    def entity(self, path: str, kind: EntityType) -> Entity:
        return Entity(self.path(path), kind)

    def path(self, path: str) -> str:
        self.left -= len(path)
        if self.left < 0:
            raise SchemaError("the paths of the schema's fields are too long, all together, for tags")
        return path


def changed(tags: Iterable[str], add: Iterable[str], remove: Iterable[str]) -> list[str]:
    """Those that are there stay in front; added ones stand once."""
    gone = set(remove)
    return [each for each in dict.fromkeys([*tags, *add]) if each not in gone]


def not_there(entity: Entity) -> SchemaError:
    return SchemaError(f"No matching path '{entity.path[:200]}' found in the schema")


def json_tags(entities: Mapping[Entity, dict[str, Any]]) -> dict[Entity, list[str]]:
    """Of entities that are objects of JSON, those that have tags."""
    found = {entity: tags_of(node) for entity, node in entities.items()}
    return {entity: tags for entity, tags in found.items() if tags}


def tags_of(node: Mapping[str, Any]) -> list[str]:
    tags = node.get(TAGS)
    return [str(each) for each in tags] if isinstance(tags, list) else []


def set_tags(node: dict[str, Any], tags: list[str]) -> None:
    if tags:
        node[TAGS] = tags
    else:
        node.pop(TAGS, None)
