"""Tags of Avro's records and their fields: `confluent:tags`. Pure."""

from typing import Any

from headwater.schemas.json_text import compact_json, parse_json
from headwater.schemas.tag_entities import Entity, EntityType, PathBudget, Tags, changed, not_there, set_tags, tags_of

Entities = dict[Entity, dict[str, Any]]


def avro_entities(text: str) -> Entities:
    return _entities(parse_json(text))


def avro_with_tags(text: str, add: Tags, remove: Tags) -> str:
    """A record may be named without its namespace, as long as no other is called so."""
    document = parse_json(text)
    entities = _entities(document)
    for entity in dict.fromkeys([*add, *remove]):
        node = entities.get(entity)
        if node is None:
            node = _by_short_name(entities, entity)
        set_tags(node, changed(tags_of(node), add.get(entity, ()), remove.get(entity, ())))
    return compact_json(document)


def _by_short_name(entities: Entities, entity: Entity) -> dict[str, Any]:
    wanted = entity.path.count(".")
    for each, node in entities.items():
        if each.type is entity.type and ".".join(each.path.rsplit(".", wanted + 1)[-wanted - 1 :]) == entity.path:
            return node
    raise not_there(entity)


def _entities(document: Any) -> Entities:
    """Records and their fields, by full names: a record before its fields, a field before what is in it."""
    found: Entities = {}
    budget = PathBudget()
    pending: list[tuple[Any, str, str]] = [(document, "", "")]  # a type, or a field of the record named last
    while pending:
        node, namespace, record = pending.pop()
        if isinstance(node, list):
            pending += [(each, namespace, "") for each in reversed(node)]
        elif not isinstance(node, dict):
            continue
        elif record:
            found.setdefault(budget.entity(f"{record}.{node.get('name')}", EntityType.FIELD), node)
            pending.append((node.get("type"), namespace, ""))
        elif node.get("type") in ("record", "error"):
            full_name, inner = _full_name(node, namespace)
            found.setdefault(budget.entity(full_name, EntityType.RECORD), node)
            pending += [(each, inner, full_name) for each in reversed(node.get("fields") or [])]
        else:
            pending += [(node.get(name), namespace, "") for name in ("values", "items", "type")]
    return found


def _full_name(node: dict[str, Any], namespace: str) -> tuple[str, str]:
    name = str(node.get("name"))
    if "." in name:
        return name, name.rpartition(".")[0]
    inner = node["namespace"] if isinstance(node.get("namespace"), str) else namespace
    return (f"{inner}.{name}" if inner else name), inner
