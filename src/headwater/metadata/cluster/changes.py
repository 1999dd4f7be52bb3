"""The entries of the log of changes: what was written in one step, as JSON, and what of it is news to an image.

An entry may be met again: a broker that loads the nodes sees them as they are now, and then reads on from where the log
stood before it began. So nothing here depends on having been read once only, and what is known already is no change.
"""

import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from headwater.base.ids import TopicId
from headwater.metadata.cluster import layout
from headwater.metadata.image import (
    AclsSet,
    AddressConfigured,
    BrokerConfigured,
    BrokerRegistered,
    BrokerState,
    Change,
    ClientConfigured,
    ClusterImage,
    Endpoint,
    GroupConfigured,
    PartitionChanged,
    PartitionsAdded,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    UserConfigured,
)

logger = logging.getLogger("headwater.metadata")


@dataclass(slots=True, frozen=True)
class PartitionsAddedFrom:
    """`PartitionsAdded`, and the number of the first one: so that it can be met again."""

    topic_id: TopicId
    first: int
    assignments: tuple[tuple[int, ...], ...]


Announced = (
    TopicCreated
    | TopicDeleted
    | PartitionsAddedFrom
    | TopicConfigured
    | BrokerConfigured
    | GroupConfigured
    | UserConfigured
    | ClientConfigured
    | AddressConfigured
    | AclsSet
    | PartitionChanged
    | BrokerRegistered
)

_KINDS: Final[dict[str, type[Any]]] = {
    "TopicCreated": TopicCreated,
    "TopicDeleted": TopicDeleted,
    "PartitionsAdded": PartitionsAddedFrom,
    "TopicConfigured": TopicConfigured,
    "BrokerConfigured": BrokerConfigured,
    "GroupConfigured": GroupConfigured,
    "UserConfigured": UserConfigured,
    "ClientConfigured": ClientConfigured,
    "AddressConfigured": AddressConfigured,
    "AclsSet": AclsSet,
    "PartitionChanged": PartitionChanged,
    "BrokerRegistered": BrokerRegistered,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
_REPLICAS: Final = ("replicas", "in_sync_replicas", "in_sync_epochs", "adding", "removing")


def encode_change(change: Announced) -> bytes:
    out: dict[str, Any] = {"type": _NAMES[type(change)]}
    for field in fields(change):
        value = getattr(change, field.name)
        if isinstance(value, bytes):
            value = value.hex()
        elif isinstance(value, BrokerState):
            value = asdict(value)
        out[field.name] = value
    return layout.to_json(out)


def join_changes(encoded: Sequence[bytes]) -> bytes:
    """An entry, of changes that are encoded already."""
    return b"[" + b",".join(encoded) + b"]"


def encode_entry(changes: Sequence[Announced]) -> bytes:
    return join_changes([encode_change(change) for change in changes])


def decode_entry(data: bytes) -> list[Announced]:
    """What cannot be read is left out: a later version may have written it. The log does not show it: entries hold
    configs of users and brokers.
    """
    changes: list[Announced] = []
    try:
        items = list(json.loads(data))
    except (ValueError, TypeError):
        items = []
        logger.warning("event=change-unreadable size_bytes=%d", len(data))
    for item in items:
        try:
            changes.append(_decode_change(item))
        except layout.UNREADABLE as problem:
            kind = str(item.get("type"))[:40] if isinstance(item, dict) else type(item).__name__
            logger.warning("event=change-unreadable type=%r problem=%s", kind, type(problem).__name__)
    return changes


def _decode_change(item: dict[str, Any]) -> Announced:
    kind = _KINDS[item["type"]]
    names = {field.name for field in fields(kind)}
    values = {name: value for name, value in item.items() if name in names}
    if "topic_id" in values:
        values["topic_id"] = bytes.fromhex(values["topic_id"])
    if "assignments" in values:
        values["assignments"] = tuple(tuple(replicas) for replicas in values["assignments"])
    if "broker" in values and kind is BrokerRegistered:
        values["broker"] = _decode_broker(values["broker"])
    if "rules" in values:
        values["rules"] = tuple(tuple(rule) for rule in values["rules"])
    for name in _REPLICAS:
        if name in values:
            values[name] = tuple(values[name])
    change: Announced = kind(**values)
    return change


def _decode_broker(item: dict[str, Any]) -> BrokerState:
    names = {field.name for field in fields(BrokerState)}
    values = {name: value for name, value in item.items() if name in names}
    values["endpoints"] = [Endpoint(e["listener"], e["host"], e["port"]) for e in values["endpoints"]]
    return BrokerState(**values)


def apply_news(changes: Sequence[Announced], image: ClusterImage) -> list[Change]:
    """Applies what is news to the image; returns that."""
    told: list[Change] = []
    for change in changes:
        news = news_of(change, image)
        if news is not None:
            image.apply(news)
            told.append(news)
    return told


def news_of(change: Announced, image: ClusterImage) -> Change | None:
    """The change, or what of it the image does not have yet."""
    match change:
        case TopicCreated(name, topic_id):
            is_known = name in image.ids_by_name or topic_id in image.topics or topic_id in image.deleted_topics
            return None if is_known else change
        case TopicDeleted(topic_id):
            return change if topic_id in image.topics else None
        case PartitionsAddedFrom():
            return _partitions_news(change, image)
        case TopicConfigured(topic_id, config):
            return change if topic_id in image.topics and image.topics[topic_id].config != config else None
        case BrokerConfigured(broker, config):
            return change if image.broker_configs.get(broker) != config else None
        case GroupConfigured(group, config):
            return change if image.group_configs.get(group, {}) != config else None
        case UserConfigured(user, config):
            return change if image.user_configs.get(user, {}) != config else None
        case ClientConfigured(user_or_all, client, config):
            return change if image.client_configs.get((user_or_all, client), {}) != config else None
        case AddressConfigured(address, config):
            return change if image.address_configs.get(address, {}) != config else None
        case AclsSet(rules=rules):
            return change if image.acls.get(change.pattern, ()) != rules else None
        case PartitionChanged():
            return change if _is_newer(change, image) else None
        case BrokerRegistered(broker):
            return change if _says_something(broker, image) else None


def _partitions_news(change: PartitionsAddedFrom, image: ClusterImage) -> PartitionsAdded | None:
    topic = image.topics.get(change.topic_id)
    if topic is None or change.first > len(topic.partitions):
        return None
    unknown = change.assignments[len(topic.partitions) - change.first :]
    return PartitionsAdded(change.topic_id, unknown) if unknown else None


def _is_newer(change: PartitionChanged, image: ClusterImage) -> bool:
    topic = image.topics.get(change.topic_id)
    if topic is None or change.partition >= len(topic.partitions):
        return False
    return change.version > topic.partitions[change.partition].version


def _says_something(broker: BrokerState, image: ClusterImage) -> bool:
    """Only of the life that is known: who lives is seen in /brokers/ids alone."""
    known = image.brokers.get(broker.broker_id)
    return known is not None and known.epoch == broker.epoch and known != broker
