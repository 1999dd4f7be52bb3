"""The nodes by which Apache Kafka's brokers and tools tell each other that a config or an access rule has changed.

    /config/changes/config_change_<digits>             {"version":2,"entity_path":"users/alice"}
    /kafka-acl-changes/acl_changes_<digits>            TOPIC:orders
    /kafka-acl-extended-changes/acl_changes_<digits>   {"version":1,"resourceType":"TOPIC","name":"team-",
                                                        "patternType":"PREFIXED"}

They say where something has changed, and not what: who reads one reads the node that it is about. What our controller
commits is announced so too. What others announce, the controller takes over (foreign_changes.py).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headwater.base.acls import Pattern, PatternType, ResourceType
from headwater.base.coordination import Create
from headwater.metadata.cluster import layout
from headwater.metadata.image import (
    AclsSet,
    AddressConfigured,
    BrokerConfigured,
    ClientConfigured,
    ClusterImage,
    GroupConfigured,
    TopicConfigured,
    UserConfigured,
)

DIRECTORIES: Final = {
    layout.CONFIG_CHANGES: "config_change_",
    layout.ACL_CHANGES: "acl_changes_",
    layout.EXTENDED_ACL_CHANGES: "acl_changes_",
}
Configured = (
    TopicConfigured
    | BrokerConfigured
    | GroupConfigured
    | UserConfigured
    | ClientConfigured
    | AddressConfigured
    | AclsSet
)
"""The changes that are announced so."""
_RESOURCES: Final = {kind.name.replace("_", "").lower(): kind for kind in ResourceType}


@dataclass(frozen=True, slots=True)
class Entity:
    """Something that has a config or rules of its own: its node, and what becomes of the data in it. `change` raises
    one of layout.UNREADABLE, and gives None for what is nothing here.
    """

    path: str
    change: Callable[[bytes, ClusterImage], Configured | None]


def announcement(path: str, change: Configured) -> Create:
    """Of a change whose node is `path`."""
    if isinstance(change, AclsSet):
        return _acl_announcement(change.pattern)
    data = layout.to_json({"version": 2, "entity_path": path.removeprefix("/config/")})
    return Create(f"{layout.CONFIG_CHANGES}/config_change_", data, sequential=True)


def entity(path: str, change: Configured) -> Entity:
    """What such a change is about."""
    told = announcement(path, change)
    return entity_of(told.path.rpartition("/")[0], told.data)


def _acl_announcement(pattern: Pattern) -> Create:
    kind = ResourceType(pattern.resource_type).name
    if pattern.pattern_type == PatternType.LITERAL:
        return Create(f"{layout.ACL_CHANGES}/acl_changes_", f"{kind}:{pattern.name}".encode(), sequential=True)
    event = {
        "version": 1,
        "resourceType": kind,
        "name": pattern.name,
        "patternType": PatternType(pattern.pattern_type).name,
    }
    return Create(f"{layout.EXTENDED_ACL_CHANGES}/acl_changes_", layout.to_json(event), sequential=True)


def sequence_of(directory: str, name: str) -> int:
    """-1 for what is none of these nodes."""
    digits = name.removeprefix(DIRECTORIES[directory])
    return int(digits) if digits != name and digits.isascii() and digits.isdigit() else -1


def entity_of(directory: str, data: bytes) -> Entity:
    """What such a node is about. Raises one of layout.UNREADABLE."""
    if directory == layout.CONFIG_CHANGES:
        node = json.loads(data)
        path = node["entity_path"] if node["version"] == 2 else f"{node['entity_type']}/{node['entity_name']}"
        return _configured(str(path))
    if directory == layout.ACL_CHANGES:
        kind, _, name = data.decode().partition(":")
        return _guarded(kind, PatternType.LITERAL, name)
    node = json.loads(data)
    return _guarded(node["resourceType"], PatternType[node["patternType"].upper()], str(node["name"]))


def _guarded(kind: str, pattern_type: PatternType, name: str) -> Entity:
    if not name or pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise ValueError("rules are on names, or on what names begin with")
    pattern = Pattern(int(_RESOURCES[kind.replace("_", "").lower()]), int(pattern_type), name)

    def change(data: bytes, _image: ClusterImage) -> Configured:
        return AclsSet(*pattern, layout.decode_rules(data) if data else ())

    return Entity(layout.acl_path(pattern), change)


def _configured(entity_path: str) -> Entity:
    parts = entity_path.split("/")
    if not all(layout.can_be_a_node(part) for part in parts):
        raise ValueError("no node can have this path")
    make = _maker(parts)

    def change(data: bytes, image: ClusterImage) -> Configured | None:
        return make(layout.decode_config(data) if data else {}, image)

    return Entity(f"/config/{entity_path}", change)


def _maker(parts: list[str]) -> Callable[[dict[str, str], ClusterImage], Configured | None]:
    match parts:
        case ["topics", name]:
            return lambda config, image: _topic_configured(name, config, image)
        case ["brokers", name]:
            return lambda config, _image: BrokerConfigured(layout.broker_of_config(name), config)
        case ["groups", name]:
            return lambda config, _image: GroupConfigured(layout.group_of_config(name), config)
        case ["ips", name]:
            return lambda config, _image: AddressConfigured(layout.address_of_config(name), config)
        case ["users", name]:
            return lambda config, _image: UserConfigured(layout.user_of_config(name), config)
        case ["clients", name]:
            return lambda config, _image: ClientConfigured(None, layout.client_of_config(name), config)
        case ["users", user, "clients", name]:
            return lambda config, _image: ClientConfigured(
                layout.user_of_config(user), layout.client_of_config(name), config
            )
    raise ValueError("no such kind of entity")


def _topic_configured(name: str, config: dict[str, str], image: ClusterImage) -> Configured | None:
    topic_id = image.ids_by_name.get(name)
    return None if topic_id is None else TopicConfigured(topic_id, config)


def is_announcement(written: Any) -> bool:
    """Of the path of a node that was made."""
    return isinstance(written, str) and written.rpartition("/")[0] in DIRECTORIES
