"""The cluster image: what one broker knows of topics, brokers and configs, and the changes that make it.

An image is owned by one broker and changed only by `apply`, with changes that a `MetadataStore` has committed. Topics
are keyed by id; names live at the edge, in `ids_by_name`. The same changes in the same order give the same image, so a
store may keep the changes themselves.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from headwater.base.acls import Pattern, Rule, Rules
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import NO_BROKER, BrokerId, LeaderEpoch, TopicId
from headwater.base.names import INTERNAL_TOPICS

DELETED_TOPICS_MAX: Final = 10_000  # ids that are remembered; every start removes what it finds of them
NEW_DATA: Final = -2  # `data_since` of a broker that is about to register: since that registration


@dataclass(slots=True)
class PartitionState:
    """Who holds a partition. `replicas[0]` is the preferred leader; while it is reassigned, `replicas` holds the old
    and the new.

    `in_sync_epochs` has the broker epoch under which each in-sync replica is one: a broker that died and came back has
    another, and does not count until its leader has taken it in again. `version` is that of the partition's node in
    ZooKeeper: whoever changes the state writes over the version from which the change was decided.
    """

    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: list[BrokerId]
    in_sync_replicas: list[BrokerId]
    in_sync_epochs: list[int] = field(default_factory=list)
    adding: list[BrokerId] = field(default_factory=list)
    removing: list[BrokerId] = field(default_factory=list)
    version: int = -1


@dataclass(slots=True)
class TopicState:
    name: str
    topic_id: TopicId
    partitions: list[PartitionState]
    config: dict[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


@dataclass(slots=True, frozen=True)
class Endpoint:
    """Where clients of one listener reach a broker."""

    listener: str
    host: str
    port: int
    protocol: str = field(
        default="", compare=False
    )  # for who reads the registration; empty: the listener's name says it


@dataclass(slots=True)
class BrokerState:
    """A live broker. Every registration has a new, higher `epoch`; `previous_epoch` is the one of the last life, if
    that ended cleanly.

    `data_since` is the epoch of its first life with the data that it has; what it had under earlier ones is gone. -1:
    nobody knows of any.
    """

    broker_id: BrokerId
    endpoints: list[Endpoint]
    rack: str | None = None
    epoch: int = -1
    previous_epoch: int = -1
    is_stopping: bool = False  # it has asked to be relieved of its leaderships
    free_bytes: int = -1  # on its log directories, when it registered
    data_since: int = -1


@dataclass(slots=True, frozen=True)
class TopicCreated:
    name: str
    topic_id: TopicId
    assignments: tuple[tuple[int, ...], ...]
    config: dict[str, str]


@dataclass(slots=True, frozen=True)
class TopicDeleted:
    topic_id: TopicId


@dataclass(slots=True, frozen=True)
class PartitionsAdded:
    topic_id: TopicId
    assignments: tuple[tuple[int, ...], ...]


@dataclass(slots=True, frozen=True)
class TopicConfigured:
    """The topic's overrides from now on: the whole of them."""

    topic_id: TopicId
    config: dict[str, str]


@dataclass(slots=True, frozen=True)
class BrokerConfigured:
    """The dynamic config of one broker (its id as text) or of all (the empty string): the whole of it."""

    broker: str
    config: dict[str, str]


@dataclass(slots=True, frozen=True)
class GroupConfigured:
    """The config of one consumer group, whether there is such a group or not: the whole of it."""

    group: str
    config: dict[str, str]


@dataclass(slots=True, frozen=True)
class UserConfigured:
    """The config of one user (the empty string: of users that have none): SCRAM credentials and quotas, the whole of
    it.
    """

    user: str
    config: dict[str, str]


@dataclass(slots=True, frozen=True)
class ClientConfigured:
    """The quotas of a client id (the empty string: of those that have none), for one user (the same), or (None) whoever
    its user is: the whole of them.
    """

    user: str | None
    client: str
    config: dict[str, str]


@dataclass(slots=True, frozen=True)
class AddressConfigured:
    """The quotas of connections from one address (the empty string: from those that have none): the whole of them."""

    address: str
    config: dict[str, str]


@dataclass(slots=True, frozen=True)
class AclsSet:
    """The access rules on one resource, or on all whose names begin so: the whole of them. Each is principal, host,
    operation, permission.
    """

    resource_type: int
    pattern_type: int
    resource_name: str
    rules: tuple[tuple[str, str, int, int], ...]

    @property
    def pattern(self) -> Pattern:
        return Pattern(self.resource_type, self.pattern_type, self.resource_name)


@dataclass(slots=True, frozen=True)
class ProducerIdsReserved:
    """Ids below `next_producer_id` belong to blocks that brokers hold."""

    next_producer_id: int


@dataclass(slots=True, frozen=True)
class PartitionChanged:
    """The whole state of a partition from now on. Applied only if its version is higher than the one that is known."""

    topic_id: TopicId
    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    in_sync_replicas: tuple[BrokerId, ...]
    in_sync_epochs: tuple[int, ...] = ()
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    version: int = -1


@dataclass(slots=True, frozen=True)
class BrokerRegistered:
    """A broker came, came back (with another epoch), or says something new about itself."""

    broker: BrokerState


@dataclass(slots=True, frozen=True)
class BrokerGone:
    broker_id: BrokerId


@dataclass(slots=True, frozen=True)
class ControllerElected:
    """`broker_id` is NO_BROKER while there is none."""

    broker_id: BrokerId
    epoch: int


Change = (
    TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | TopicConfigured
    | BrokerConfigured
    | GroupConfigured
    | UserConfigured
    | ClientConfigured
    | AddressConfigured
    | AclsSet
    | ProducerIdsReserved
    | PartitionChanged
    | BrokerRegistered
    | BrokerGone
    | ControllerElected
)


class ChangedMeanwhile(KafkaError):
    """A commit was refused because somebody else had changed the same config or the same rules, such as a tool of
    Apache Kafka in ZooKeeper. The image has it now: who plans anew and commits that loses neither change.
    """

    def __init__(self) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, "Others changed the same in ZooKeeper, again and again.")


class MetadataStore(Protocol):
    """Keeps the changes. `done` comes after the changes were applied, with None, or with the reason that they were not.

    With several brokers, only the controller commits (NOT_CONTROLLER otherwise); leaders propose, and any broker
    reserves ids.
    """

    def commit(self, changes: Sequence[Change], done: Callable[[KafkaError | None], None]) -> None: ...

    def propose(self, change: PartitionChanged, done: Callable[[KafkaError | None], None]) -> None:
        """From a partition's leader: other in-sync replicas, over `change.version` only (INVALID_UPDATE_VERSION
        otherwise).
        """
        ...

    def confirm(self, topic_id: TopicId, partition: int, done: Callable[[KafkaError | None], None]) -> None:
        """Whether the image has the present state of the partition: nobody leads it since who this broker does not know
        of.
        """
        ...

    def reserve_producer_ids(self, count: int, done: Callable[[int, KafkaError | None], None]) -> None:
        """The first of `count` ids that nobody else is given."""
        ...


EntityKey = tuple[str | None, str | None, str | None]
"""Of whom a config of quotas is: the user, the client, the address."""


@dataclass(slots=True)
class ClusterImage:
    cluster_id: str
    controller_id: BrokerId = NO_BROKER
    controller_epoch: int = 0
    brokers: dict[BrokerId, BrokerState] = field(default_factory=dict)
    topics: dict[TopicId, TopicState] = field(default_factory=dict)
    ids_by_name: dict[str, TopicId] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    group_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    # Groups whose node in ZooKeeper is there and says nothing, or nothing that can be read:
    # who configs one finds it there.
    empty_group_nodes: set[str] = field(default_factory=set, compare=False)
    user_configs: dict[str, dict[str, str]] = field(default_factory=dict)  # of those that have one
    client_configs: dict[tuple[str | None, str], dict[str, str]] = field(default_factory=dict)  # likewise
    address_configs: dict[str, dict[str, str]] = field(default_factory=dict)  # likewise
    quota_generation: int = field(default=0, compare=False)  # of the three above
    client_directories: set[str] = field(
        default_factory=set, compare=False
    )  # users below whose node in ZooKeeper clients can stand
    # Users, clients (with their users) and addresses whose node in ZooKeeper is there and says nothing.
    empty_entity_nodes: set[EntityKey] = field(default_factory=set, compare=False)
    acls: dict[Pattern, Rules] = field(default_factory=dict)
    acl_generation: int = field(default=0, compare=False)  # of `acls`: who remembers something of them compares it
    # Patterns whose node in ZooKeeper is there and has no rule that can be read.
    empty_acl_nodes: set[Pattern] = field(default_factory=set, compare=False)
    next_producer_id: int = 0
    # In the order they went: a directory that a crash left behind, or that was offline, is not adopted again.
    deleted_topics: dict[TopicId, None] = field(default_factory=dict)

    def topic(self, name: str) -> TopicState:
        """By name; raises UNKNOWN_TOPIC_OR_PARTITION."""
        topic_id = self.ids_by_name.get(name)
        if topic_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return self.topics[topic_id]

    def topic_by_id(self, topic_id: TopicId) -> TopicState:
        """By id; raises UNKNOWN_TOPIC_ID."""
        topic = self.topics.get(topic_id)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        return topic

    def apply(self, change: Change) -> None:
        match change:
            case TopicCreated(name, topic_id, assignments, config):
                assert name not in self.ids_by_name, name
                self.topics[topic_id] = TopicState(
                    name, topic_id, [_new_partition(a) for a in assignments], dict(config)
                )
                self.ids_by_name[name] = topic_id
            case TopicDeleted(topic_id):
                self._remember_deleted(topic_id)
                topic = self.topics.pop(topic_id, None)
                if topic is not None:
                    del self.ids_by_name[topic.name]
            case PartitionsAdded(topic_id, assignments):
                self.topics[topic_id].partitions.extend(_new_partition(a) for a in assignments)
            case TopicConfigured(topic_id, config):
                self.topics[topic_id].config = dict(config)
            case BrokerConfigured(broker, config):
                self.broker_configs[broker] = dict(config)
            case GroupConfigured(group, config):
                self.empty_group_nodes.discard(group)
                if config:
                    self.group_configs[group] = dict(config)
                else:  # groups come and go: one without configs leaves nothing behind
                    self.group_configs.pop(group, None)
            case UserConfigured(user, config):
                self.quota_generation += 1
                self.empty_entity_nodes.discard((user, None, None))
                _keep(self.user_configs, user, config)
            case ClientConfigured(user_or_all, client, config):
                self.quota_generation += 1
                self.empty_entity_nodes.discard((user_or_all, client, None))
                _keep(self.client_configs, (user_or_all, client), config)
                if user_or_all is not None:
                    self.client_directories.add(user_or_all)
            case AddressConfigured(address, config):
                self.quota_generation += 1
                self.empty_entity_nodes.discard((None, None, address))
                _keep(self.address_configs, address, config)
            case AclsSet(rules=rules):
                self.acl_generation += 1
                self.empty_acl_nodes.discard(change.pattern)
                if rules:
                    self.acls[change.pattern] = tuple(Rule(*rule) for rule in rules)
                else:
                    self.acls.pop(change.pattern, None)
            case ProducerIdsReserved(next_producer_id):
                assert next_producer_id >= self.next_producer_id
                self.next_producer_id = next_producer_id
            case PartitionChanged():
                self._change_partition(change)
            case BrokerRegistered(broker):
                self.brokers[broker.broker_id] = broker
            case BrokerGone(broker_id):
                self.brokers.pop(broker_id, None)
            case ControllerElected(broker_id, epoch):
                self.controller_id, self.controller_epoch = broker_id, epoch

    def _remember_deleted(self, topic_id: TopicId) -> None:
        self.deleted_topics[topic_id] = None
        while len(self.deleted_topics) > DELETED_TOPICS_MAX:
            del self.deleted_topics[next(iter(self.deleted_topics))]

    def _change_partition(self, change: PartitionChanged) -> None:
        topic = self.topics.get(change.topic_id)
        if topic is None or change.partition >= len(topic.partitions):
            return  # deleted since
        state = topic.partitions[change.partition]
        if change.version <= state.version:
            return
        state.leader = change.leader
        state.leader_epoch = change.leader_epoch
        state.replicas = list(change.replicas)
        state.in_sync_replicas = list(change.in_sync_replicas)
        state.in_sync_epochs = list(change.in_sync_epochs)
        state.adding = list(change.adding)
        state.removing = list(change.removing)
        state.version = change.version


_K = TypeVar("_K")


def _keep(configs: dict[_K, dict[str, str]], key: _K, config: Mapping[str, str]) -> None:
    """Who has no config leaves nothing behind."""
    if config:
        configs[key] = dict(config)
    else:
        configs.pop(key, None)


def _new_partition(replicas: Sequence[int]) -> PartitionState:
    ids = [BrokerId(replica) for replica in replicas]
    return PartitionState(leader=ids[0], leader_epoch=LeaderEpoch(0), replicas=ids, in_sync_replicas=list(ids))
