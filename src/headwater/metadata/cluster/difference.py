"""What stands in ZooKeeper's nodes, as one broker read them, and the changes that bring its image there."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headwater.base.acls import Pattern, Rules
from headwater.base.ids import BrokerId, TopicId
from headwater.metadata.image import (
    AclsSet,
    AddressConfigured,
    BrokerConfigured,
    BrokerGone,
    BrokerRegistered,
    BrokerState,
    Change,
    ClientConfigured,
    ClusterImage,
    EntityKey,
    GroupConfigured,
    PartitionChanged,
    PartitionsAdded,
    PartitionState,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    TopicState,
    UserConfigured,
)


@dataclass(slots=True)
class Snapshot:
    cluster_id: str = ""  # if there is none that can be read
    topics: dict[str, TopicState] = field(default_factory=dict)
    unreadable: set[str] = field(
        default_factory=set
    )  # topics of which nothing is known; least of all that they are gone
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    user_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    client_configs: dict[tuple[str | None, str], dict[str, str]] = field(default_factory=dict)
    client_directories: set[str] = field(default_factory=set)
    address_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    acls: dict[Pattern, Rules] = field(default_factory=dict)

    def empty_entities(self) -> set[EntityKey]:
        """Users, clients and addresses whose node is there and says nothing."""
        return {
            *((user, None, None) for user, config in self.user_configs.items() if not config),
            *((*key, None) for key, config in self.client_configs.items() if not config),
            *((None, None, address) for address, config in self.address_configs.items() if not config),
        }


def difference(snapshot: Snapshot, image: ClusterImage) -> list[Change]:
    changes: list[Change] = []
    for name, topic_id in image.ids_by_name.items():
        found = snapshot.topics.get(name)
        is_gone = found is None or found.topic_id != topic_id
        if is_gone and name not in snapshot.unreadable:
            changes.append(TopicDeleted(topic_id))
    for topic in snapshot.topics.values():
        changes += _topic_difference(topic, image.topics.get(topic.topic_id))
    for broker in sorted(image.broker_configs.keys() | snapshot.broker_configs.keys()):
        config = snapshot.broker_configs.get(broker, {})
        if config != image.broker_configs.get(broker, {}) or broker not in image.broker_configs:
            changes.append(BrokerConfigured(broker, config))
    for group in sorted(image.group_configs.keys() | snapshot.group_configs.keys()):
        config = snapshot.group_configs.get(group, {})
        if config != image.group_configs.get(group, {}):
            changes.append(GroupConfigured(group, config))
    for user in sorted(image.user_configs.keys() | snapshot.user_configs.keys()):
        config = snapshot.user_configs.get(user, {})
        if config != image.user_configs.get(user, {}):
            changes.append(UserConfigured(user, config))
    for key in sorted(image.client_configs.keys() | snapshot.client_configs.keys(), key=_client_order):
        config = snapshot.client_configs.get(key, {})
        if config != image.client_configs.get(key, {}):
            changes.append(ClientConfigured(*key, config))
    for address in sorted(image.address_configs.keys() | snapshot.address_configs.keys()):
        config = snapshot.address_configs.get(address, {})
        if config != image.address_configs.get(address, {}):
            changes.append(AddressConfigured(address, config))
    for pattern in sorted(image.acls.keys() | snapshot.acls.keys()):
        rules = snapshot.acls.get(pattern, ())
        if rules != image.acls.get(pattern, ()):
            changes.append(AclsSet(*pattern, rules))
    return changes


def _client_order(key: tuple[str | None, str]) -> tuple[bool, str, str]:
    user, client = key
    return user is not None, user or "", client


def _topic_difference(topic: TopicState, known: TopicState | None) -> list[Change]:
    changes: list[Change] = []
    assignments = tuple(tuple(partition.replicas) for partition in topic.partitions)
    known_partitions: list[PartitionState] = [] if known is None else known.partitions
    if known is None:
        changes.append(TopicCreated(topic.name, topic.topic_id, assignments, topic.config))
    elif len(known_partitions) < len(topic.partitions):
        changes.append(PartitionsAdded(topic.topic_id, assignments[len(known_partitions) :]))
    for number, state in enumerate(topic.partitions):
        if number >= len(known_partitions) or state.version > known_partitions[number].version:
            changes.append(changed(topic.topic_id, number, state))
    if known is not None and known.config != topic.config:
        changes.append(TopicConfigured(topic.topic_id, topic.config))
    return changes


def changed(topic_id: TopicId, number: int, state: PartitionState) -> PartitionChanged:
    return PartitionChanged(
        topic_id,
        number,
        state.leader,
        state.leader_epoch,
        tuple(state.replicas),
        tuple(state.in_sync_replicas),
        tuple(state.in_sync_epochs),
        tuple(state.adding),
        tuple(state.removing),
        state.version,
    )


def members_difference(members: Mapping[BrokerId, BrokerState], image: ClusterImage) -> list[Change]:
    """A broker with another epoch died and came back: it is told as both. Within a life nobody stops stopping."""
    gone: list[Change] = []
    come: list[Change] = []
    for broker_id, known in image.brokers.items():
        if broker_id not in members or members[broker_id].epoch != known.epoch:
            gone.append(BrokerGone(broker_id))
    for broker_id, member in members.items():
        before = image.brokers.get(broker_id)
        if before is not None and before.epoch == member.epoch and before.is_stopping:
            member = replace(member, is_stopping=True)
        if before != member:
            come.append(BrokerRegistered(member))
    return [*gone, *come]
