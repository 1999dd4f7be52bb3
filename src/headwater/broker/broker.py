"""The broker's state: its config, the cluster image, the partitions it has a replica of, and who waits for them.

One object, owned by one loop (the server's, or a simulated world's). Handlers get it as their first argument and find
everything here; it knows no socket, no thread and no clock of its own.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import NO_TOPIC_ID, BrokerId, LeaderEpoch, PartitionKey, TopicId, TopicPartition
from headwater.base.metrics import BrokerMetrics
from headwater.base.names import CONSUMER_OFFSETS, TRANSACTION_STATE
from headwater.base.peers import Peers
from headwater.base.ports import Clock, Disk, Random, Scheduler
from headwater.broker.audit.trail import AuditTrail
from headwater.broker.changes import ChangeQueue
from headwater.broker.fetch_sessions import FetchSessions
from headwater.broker.producer_ids import ProducerIds
from headwater.broker.schema_policy import SchemaPolicy, policy_of
from headwater.log.config import LogConfig
from headwater.log.log import Log
from headwater.log.manager import LogManager
from headwater.metadata.image import (
    AddressConfigured,
    BrokerConfigured,
    Change,
    ClientConfigured,
    ClusterImage,
    MetadataStore,
    PartitionsAdded,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
    TopicState,
    UserConfigured,
)
from headwater.replication.partition import Partition

if TYPE_CHECKING:
    from headwater.broker.coordinators.group_coordinator import GroupCoordinator
    from headwater.broker.coordinators.transaction_coordinator import TransactionCoordinator
    from headwater.broker.known_schemas import KnownSchemas
    from headwater.broker.quick_writes import QuickWrites
    from headwater.broker.quotas.client_quotas import ClientQuotas
    from headwater.broker.replicas import Replicas
    from headwater.broker.rights.authorizer import Authorizer
    from headwater.controller.controller import Controller

logger = logging.getLogger("headwater.broker")

_TOPIC_CHANGES: Final = (TopicCreated, TopicDeleted, PartitionsAdded)
_ELSEWHERE: Final = Partition.__new__(Partition)  # stands where the produce path has nothing to find
_ELSEWHERE.is_alone = False


class Broker:
    def __init__(
        self,
        config: BrokerConfig,
        image: ClusterImage,
        store: MetadataStore,
        logs: LogManager,
        *,
        clock: Clock,
        random: Random,
        scheduler: Scheduler,
        disk: Disk,
        peers: Peers | None = None,
    ) -> None:
        self.config = config
        self.broker_id = BrokerId(config.node_id())
        self.image = image
        self.store = store
        self.logs = logs
        self.clock = clock
        self.random = random
        self.scheduler = scheduler
        self.disk = disk
        self.peers = peers  # the other brokers; None for a broker that stands alone
        self.controller: Controller | None = None  # in a cluster; active on one broker at a time
        self.quick_writes: QuickWrites | None = None  # of the server
        # Of the server: raises UserError for settings that its listeners could not work with.
        self.check_config: Callable[[BrokerConfig], None] = lambda _config: None
        self.now_ms = clock.now_ms
        self.metrics = BrokerMetrics()
        self.fetch_sessions = FetchSessions(config.int("max.incremental.fetch.session.cache.slots"), random)
        self.producer_ids = ProducerIds(store)
        self.changes = ChangeQueue(store)
        self.partitions: dict[PartitionKey, Partition] = {}
        # The produce path finds a topic by the bytes of its name or by its id, whichever its request holds.
        self.partitions_by_wire_name: dict[bytes, list[Partition]] = {}
        self.partitions_by_topic_id: dict[bytes, list[Partition]] = {}
        self.schema_policies: dict[TopicId, SchemaPolicy] = {}  # of topics that ask for one: rarely any
        self.known_schemas: Callable[[], KnownSchemas] | None = None  # of the server, where a registry is named
        self._incomplete: set[TopicId] = set()  # topics of which not every log of ours is open
        self._unfound: set[PartitionKey] = set()  # their logs may lie in a directory that is offline: none are made
        self.replicas = None if peers is None else _replicas(self, peers)
        self.audit = AuditTrail(self)
        self.authorizer = _authorizer(self)
        self.quotas: ClientQuotas | None = None  # before anybody has been given one
        self.on_quotas: Callable[[], None] | None = None  # of the server: there are some for clients, or none any more
        if image.quota_generation:
            self._follow_quotas([])
        self.woken: list[Any] = []  # parked requests that are due

    # Partitions

    def open_partitions(self) -> None:
        """At start: every partition of the image that is ours gets its log."""
        if self.replicas is not None:
            self.replicas.open_all()
            return
        if self.logs.failed_directories():
            self._unfound = {
                PartitionKey(topic.topic_id, index)
                for topic in self.image.topics.values()
                for index in range(len(topic.partitions))
                if TopicPartition(topic.name, index) not in self.logs.logs
            }
        for topic in self.image.topics.values():
            self._open_topic(topic)

    def partition(self, topic: str, index: int) -> Partition:
        return self.partition_of(self.image.topic(topic).topic_id, index)

    def partition_of(self, topic_id: TopicId, index: int) -> Partition:
        """One that this broker leads; raises NOT_LEADER_OR_FOLLOWER and others."""
        partition = self.partitions.get(PartitionKey(topic_id, index))
        if partition is not None and partition.is_leader:
            return partition
        raise self._not_here(topic_id, index, partition)

    def replica_of(self, topic_id: TopicId, index: int) -> Partition:
        """One of which this broker has a replica, whoever leads it."""
        partition = self.partitions.get(PartitionKey(topic_id, index))
        if partition is not None:
            return partition
        raise self._not_here(topic_id, index, None)

    def _not_here(self, topic_id: TopicId, index: int, replica: Partition | None) -> KafkaError:
        topic = self.image.topic_by_id(topic_id)
        if 0 <= index < len(topic.partitions):
            if topic.partitions[index].leader != self.broker_id or replica is not None:
                return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "This broker does not lead that partition.")
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "The partition's log directory is not available.")
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")

    def high_watermark_of(self, log: Log) -> int:
        partition = self.partitions.get(PartitionKey(log.topic_id, log.partition.partition))
        if partition is not None:
            return partition.high_watermark
        return log.log_end_offset if self.replicas is None else self.logs.saved_high_watermark(log.partition)

    def log_config(self, topic: TopicState) -> LogConfig:
        return LogConfig.from_values(self.config.topic_values(topic.config))

    def apply(self, changes: Sequence[Change]) -> None:
        """Follows the image: called by the store right after it applied the changes."""
        if self.replicas is not None:
            self.replicas.apply(changes)
        for change in changes:
            match change:
                case TopicCreated(topic_id=topic_id) | PartitionsAdded(topic_id=topic_id) if self.replicas is None:
                    self._open_topic(self.image.topics[topic_id])
                case TopicDeleted(topic_id=topic_id) if self.replicas is None:
                    self._delete_topic(topic_id)
                case TopicConfigured(topic_id=topic_id) if topic_id in self.image.topics:
                    self._configure_topic(self.image.topics[topic_id])
                case BrokerConfigured():
                    self.configure()
                case _:
                    pass
        of_quotas = [
            change for change in changes if isinstance(change, UserConfigured | ClientConfigured | AddressConfigured)
        ]
        if of_quotas:
            self._follow_quotas(of_quotas)
        if "groups" in self.__dict__ and any(isinstance(change, _TOPIC_CHANGES) for change in changes):
            self.groups.topics_changed()

    def _follow_quotas(self, changes: Sequence[UserConfigured | ClientConfigured | AddressConfigured]) -> None:
        from headwater.broker.quotas.client_quotas import ClientQuotas  # a broker without quotas does not read it
        from headwater.broker.quotas.entities import entity_configured

        concerned_clients = self.quotas is not None and self.quotas.concerns_clients
        if self.quotas is None:
            self.quotas = ClientQuotas(self.image, self.config, self.clock.monotonic_ms)
        self.quotas.follow(entity_configured(change) for change in changes)
        if self.on_quotas is not None and self.quotas.concerns_clients != concerned_clients:
            self.on_quotas()

    def _open_topic(self, topic: TopicState) -> None:
        config = self.log_config(topic)
        missing: list[str] = []
        for index, state in enumerate(topic.partitions):
            key = PartitionKey(topic.topic_id, index)
            partition = self.partitions.get(key)
            if partition is None and state.leader == self.broker_id:
                try:
                    log = self.open_log(topic, index, config, is_new=key not in self._unfound)
                except KafkaError as problem:
                    missing.append(str(problem))
                else:
                    # What was adopted may have been written under later leaders than the image knows of.
                    state.leader_epoch = max(state.leader_epoch, LeaderEpoch(log.latest_epoch))
                    partition = Partition(topic.name, topic.topic_id, index, log, state.leader_epoch)
                    self.partitions[key] = partition
                    self.coordinate(partition)
            self.list_partition(topic, index, partition)
        if missing and topic.topic_id not in self._incomplete:
            logger.error("event=logs-not-opened topic=%s count=%d reason=%r", topic.name, len(missing), missing[0])
        (self._incomplete.add if missing else self._incomplete.discard)(topic.topic_id)

    def list_partition(self, topic: TopicState, index: int, partition: Partition | None) -> None:
        """For the produce path; None if it is not here. It would not ask who writes to internal topics, nor a registry
        for schemas.
        """
        policy = policy_of(topic.name, topic.config)
        if policy is not None:
            self.schema_policies[topic.topic_id] = policy
        else:
            self.schema_policies.pop(topic.topic_id, None)
        listed = self.partitions_by_topic_id.setdefault(topic.topic_id, [])
        self.partitions_by_wire_name[topic.name.encode()] = listed
        if not topic.is_internal:
            while len(listed) <= index:
                listed.append(_ELSEWHERE)
            listed[index] = partition if partition is not None and policy is None else _ELSEWHERE

    def unlist_topic(self, name: str, topic_id: TopicId) -> None:
        """It is gone. Another of the same name may be there already."""
        self.schema_policies.pop(topic_id, None)
        listed = self.partitions_by_topic_id.pop(topic_id, None)
        if listed is not None and self.partitions_by_wire_name.get(name.encode()) is listed:
            del self.partitions_by_wire_name[name.encode()]
        if "groups" in self.__dict__:
            self.groups.topic_deleted(name, topic_id)

    def open_missing(self) -> None:
        """Tries the logs again that could not be opened: a full disk may have room by now."""
        if self.replicas is not None:
            self.replicas.open_missing()
        for topic_id in tuple(self._incomplete):
            topic = self.image.topics.get(topic_id)
            if topic is None:
                self._incomplete.discard(topic_id)
            else:
                self._open_topic(topic)

    def coordinate(self, partition: Partition) -> None:
        """A partition of an internal topic that is led here brings its coordinator."""
        if partition.topic == CONSUMER_OFFSETS:
            self.groups.runtime.partition_opened(partition)
        elif partition.topic == TRANSACTION_STATE:
            self.transactions.runtime.partition_opened(partition)

    @cached_property
    def groups(self) -> "GroupCoordinator":
        """The group coordinator; nobody pays for it before somebody asks for a group."""
        from headwater.broker.coordinators.group_coordinator import GroupCoordinator

        return GroupCoordinator(self)

    @cached_property
    def transactions(self) -> "TransactionCoordinator":
        from headwater.broker.coordinators.transaction_coordinator import TransactionCoordinator

        return TransactionCoordinator(self)

    def open_log(self, topic: TopicState, index: int, config: LogConfig, *, is_new: bool) -> Log:
        """The log that was there at the start, or a new one. One that is not new may lie in a directory that is
        offline.
        """
        name = TopicPartition(topic.name, index)
        log = self.logs.logs.get(name)
        if log is not None and log.topic_id == NO_TOPIC_ID:
            self.logs.identify(log, topic.topic_id)
        if log is not None and log.topic_id != topic.topic_id:  # what is left of an earlier topic of this name
            if self.replicas is None:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.directory} belongs to another topic")
            self.logs.set_aside(name)
            log = None
        if log is None:
            failed = self.logs.failed_directories()
            if failed and not is_new:
                message = f"{name} may lie in {', '.join(failed)}, which cannot be used"
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
            return self.logs.create(name, topic.topic_id, config)
        log.update_config(config)
        if log.failed is None:
            log.flush_if_due()  # the topic may ask for more than was known when the log was opened
        return log

    def _delete_topic(self, topic_id: TopicId) -> None:
        name = None
        for key in [key for key in self.partitions if key.topic_id == topic_id]:
            partition = self.partitions.pop(key)
            name = partition.topic
            self.stop_coordinating(partition)
            partition.delete()
            self.delete_log(partition)
        if name is not None:
            self.unlist_topic(name, topic_id)

    def stop_coordinating(self, partition: Partition) -> None:
        if partition.topic == CONSUMER_OFFSETS:
            self.groups.runtime.partition_closed(partition)
        elif partition.topic == TRANSACTION_STATE:
            self.transactions.runtime.partition_closed(partition)

    def delete_log(self, partition: Partition) -> None:
        try:
            self.logs.delete(partition.log.partition)
        except KafkaError as problem:  # the directory is found and removed at the next start
            logger.error("event=log-not-deleted partition=%s reason=%r", partition.log.partition, problem.message)

    def _configure_topic(self, topic: TopicState) -> None:
        config = self.log_config(topic)
        policy = policy_of(topic.name, topic.config)
        relist = policy != self.schema_policies.get(topic.topic_id)
        for index in range(len(topic.partitions)):
            partition = self.partitions.get(PartitionKey(topic.topic_id, index))
            if partition is not None:
                if relist:
                    self.list_partition(topic, index, partition)
                partition.log.update_config(config)
                partition.config_changed()

    def configure(self) -> None:
        """As the image says of all brokers and of this one."""
        self.config.set_dynamic(
            self.image.broker_configs.get("", {}), self.image.broker_configs.get(str(self.broker_id), {})
        )
        for topic in self.image.topics.values():
            self._configure_topic(topic)

    # Changes to the cluster

    def new_topic_id(self) -> TopicId:
        """Random, as Kafka makes them: a version 4 UUID whose text form does not begin with a dash."""
        while True:
            raw = bytearray(self.random.bytes(16))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            if raw[0] >> 2 != 62:  # base64url digit 62 is "-"
                return TopicId(bytes(raw))

    def ensure_topic(
        self,
        name: str,
        partition_count: int,
        replication_factor: int,
        config: Mapping[str, str],
        done: Callable[[KafkaError | None], None],
    ) -> None:
        """Makes an internal topic unless it is there."""
        from headwater.broker.internal_topics import ensure_topic  # not at start-up

        ensure_topic(self, name, partition_count, replication_factor, config, done)

    # Parked requests

    def wake(self, parked: Any) -> None:
        """Notes that a parked request is due; it is answered when the events of this turn are handled."""
        if not self.woken:
            self.scheduler.call_soon(self.answer_woken)
        self.woken.append(parked)

    def answer_woken(self) -> None:
        woken, self.woken = self.woken, []
        for parked in woken:
            try:
                parked.answer()
            except Exception as problem:  # nobody else may wait in vain for what went wrong with this one
                logger.exception("event=parked-request-failed")
                deferred = getattr(parked, "deferred", None)  # what waits inside the broker has no client to tell
                if deferred is not None:
                    deferred.complete(problem)


def _authorizer(broker: Broker) -> "Authorizer | None":
    if not broker.config.string("authorizer.class.name"):
        return None
    from headwater.broker.rights.authorizer import authorizer_for  # a broker that is open to all starts without them
    from headwater.broker.rights.guards import check_complete

    check_complete()
    authorizer = authorizer_for(broker.config, lambda: broker.image)
    if authorizer is not None and broker.audit.is_on:
        authorizer.record = broker.audit.record
    return authorizer


def _replicas(broker: Broker, peers: Peers) -> "Replicas":
    """In a cluster: who leads and who follows. A broker that stands alone does not even import it."""
    from headwater.broker.replicas import Replicas

    return Replicas(broker, peers)
