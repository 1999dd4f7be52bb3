"""The replicas on this broker of a cluster: which partitions it leads, which it follows and from whom, and when that
changes.

Level-triggered: for each partition that a change touches, what is here is compared with what the image says now, so
that a change that comes twice, or several that come as one, do no harm. A role begins with a new `Partition` object on
the same log and ends with its retirement. What is not ours any more is deleted from the disk.

Owned by the broker, and there only if it has peers.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from headwater.base.errors import KafkaError
from headwater.base.ids import NO_BROKER, BrokerId, PartitionKey, TopicId
from headwater.base.peers import Peers
from headwater.broker.in_sync_keeper import InSyncKeeper
from headwater.broker.throttles import Throttles
from headwater.log.log import Log
from headwater.metadata.image import (
    BrokerGone,
    BrokerRegistered,
    Change,
    PartitionChanged,
    PartitionsAdded,
    PartitionState,
    TopicCreated,
    TopicDeleted,
    TopicState,
)
from headwater.replication.fetch_requests import FetcherSettings
from headwater.replication.fetcher import Fetcher
from headwater.replication.partition import Partition

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")


class Hurried(Protocol):
    def hurry(self) -> None:
        """Is answered soon, with what there is."""
        ...


class Replicas:
    def __init__(self, broker: "Broker", peers: Peers) -> None:
        self._broker = broker
        self._peers = peers
        self._me = broker.broker_id
        self.fetchers: dict[BrokerId, Fetcher] = {}
        self._followed: dict[PartitionKey, BrokerId] = {}  # from whom
        self._names: dict[TopicId, str] = {}  # a change that deletes a topic does not name it
        self.parked: dict[BrokerId, Hurried] = {}  # followers' fetches that wait for appends
        self._missing: set[PartitionKey] = set()  # what the image says of them could not be done yet
        self._epoch = -1
        self._is_closed = False
        self.keeper = InSyncKeeper(broker)
        self.throttles = Throttles(broker)
        self.on_full: Callable[[Partition], None] | None = None  # as `Fetcher.on_full`
        self.on_failed_in_sync: Callable[[Partition], None] | None = None  # told of a follower whose log has failed

    def close(self) -> None:
        """Nothing is fetched any more: the logs are about to be closed."""
        self._is_closed = True
        self.keeper.close()
        for fetcher in self.fetchers.values():
            fetcher.close()
        self.fetchers.clear()
        self._followed.clear()

    def hurry_followers(self) -> None:
        """Something is to be told to them that is no record."""
        for parked in tuple(self.parked.values()):
            parked.hurry()

    # Changes

    def apply(self, changes: Sequence[Change]) -> None:
        """The image has them already."""
        for change in changes:
            match change:
                case BrokerRegistered(broker) if broker.broker_id in self.fetchers:
                    self.fetchers[broker.broker_id].leader_is_back()
                case BrokerGone(broker_id):
                    self._peers.forget(broker_id)
                case TopicDeleted(topic_id):
                    self._delete_topic(topic_id)
                case _:
                    pass
        if any(isinstance(change, BrokerRegistered) and change.broker.broker_id == self._me for change in changes):
            self.open_all()
            self.keeper.consider_all()  # we are in sync under a new epoch
            return
        for key in _touched(changes, self._broker):
            self._follow(key)

    def open_all(self) -> None:
        for topic in self._broker.image.topics.values():
            for index in range(len(topic.partitions)):
                self._follow(PartitionKey(topic.topic_id, index))

    @property
    def missing(self) -> Collection[PartitionKey]:
        """Those that have no role here although the image gives them one: their logs could not be opened or made."""
        return self._missing - self._broker.partitions.keys()

    def open_missing(self) -> None:
        for key in tuple(self._missing):
            self._follow(key)

    def _follow(self, key: PartitionKey) -> None:
        """What goes wrong with one partition keeps no other from its role. It is tried again."""
        try:
            self._follow_image(key)
        except Exception:
            if key not in self._missing:
                logger.exception("event=image-not-followed topic_id=%s partition=%d", key.topic_id.hex(), key.partition)
            self._missing.add(key)

    def _follow_image(self, key: PartitionKey) -> None:
        topic = self._broker.image.topics.get(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions) or self._is_closed:
            self._missing.discard(key)
            return
        self._names[key.topic_id] = topic.name
        state = topic.partitions[key.partition]
        partition = self._broker.partitions.get(key)
        if self._me not in state.replicas:
            self._missing.discard(key)
            if partition is not None:
                logger.info("event=replica-removed partition=%s", partition.log.partition)
                self._drop(key, partition)
            return
        leads = self._leads(state, partition)
        if partition is None or partition.leader_epoch != state.leader_epoch or partition.is_leader != leads:
            partition = self._new_term(key, topic, state, partition, leads=leads)
            if partition is None:
                return
        if leads:
            self.keeper.knows_replicas(partition, state)
        else:
            self._fetch_from(NO_BROKER if state.leader == self._me else state.leader, key, partition)
            if partition.log.failed is not None and self._me in state.in_sync_replicas and self.on_failed_in_sync:
                self.on_failed_in_sync(partition)
        self._missing.discard(key)

    def _leads(self, state: PartitionState, partition: Partition | None) -> bool:
        """Whether the state means this life of the broker, or the last one, if that lost nothing: it may have had more
        then.

        What it leads already it goes on leading with a new session. Otherwise it waits: the controller sees the new
        registration too, and decides again.
        """
        if state.leader != self._me:
            return False
        if partition is not None and partition.is_leader and partition.leader_epoch == state.leader_epoch:
            return True
        registered = self._broker.image.brokers.get(self._me)
        if registered is None:
            return False
        epochs = dict(zip(state.in_sync_replicas, state.in_sync_epochs, strict=False))
        known = epochs.get(self._me)
        return known is not None and (known == registered.epoch or known == registered.previous_epoch >= 0)

    # Terms

    def _new_term(
        self, key: PartitionKey, topic: TopicState, state: PartitionState, old: Partition | None, *, leads: bool
    ) -> Partition | None:
        """The next role of this replica; None if there is no log for it."""
        broker = self._broker
        if old is not None:
            self._end_term(key, old)
            log, high_watermark = old.log, old.high_watermark
        else:
            try:
                log = broker.open_log(topic, key.partition, broker.log_config(topic), is_new=self._is_new(state))
            except KafkaError as problem:
                if key not in self._missing:
                    logger.error(
                        "event=log-not-opened partition=%s-%d reason=%r", topic.name, key.partition, str(problem)
                    )
                self._missing.add(key)
                return None
            high_watermark = self._saved_high_watermark(log)
        partition = Partition(
            topic.name, key.topic_id, key.partition, log, state.leader_epoch,
            is_leader=leads, high_watermark=high_watermark, began_ms=broker.now_ms() if leads else None,
        )  # fmt: skip
        if old is not None:
            partition.bytes_in, partition.bytes_out, partition.records_in = old.bytes_in, old.bytes_out, old.records_in
        broker.partitions[key] = partition
        broker.list_partition(topic, key.partition, partition)
        if leads:
            self._begin_epoch(partition)
            self.keeper.knows_replicas(partition, state)
            broker.coordinate(partition)
        return partition

    def _is_new(self, state: PartitionState) -> bool:
        """Whether this broker never had records of it that count: it is not in sync, or the partition was made in this
        life of ours.
        """
        if self._me not in state.in_sync_replicas:
            return True
        registered = self._broker.image.brokers.get(self._me)
        epochs = dict(zip(state.in_sync_replicas, state.in_sync_epochs, strict=False))
        return registered is not None and state.leader_epoch == 0 and epochs.get(self._me) == registered.epoch

    def _begin_epoch(self, partition: Partition) -> None:
        log = partition.log
        logger.info(
            "event=leads partition=%s epoch=%d from=%d", log.partition, partition.leader_epoch, log.log_end_offset
        )
        log.begin_term(partition.leader_epoch)

    def _saved_high_watermark(self, log: Log) -> int:
        """As it was written down. What lies past it is committed or not: the next leader knows."""
        saved = self._broker.logs.saved_high_watermark(log.partition)
        return min(max(saved, log.log_start_offset), log.log_end_offset)

    def _end_term(self, key: PartitionKey, partition: Partition) -> None:
        self._fetch_from(NO_BROKER, key, partition)
        if partition.is_leader:
            self._broker.stop_coordinating(partition)
        partition.delete()

    def _drop(self, key: PartitionKey, partition: Partition) -> None:
        """Not ours any more, or nobody's."""
        self._end_term(key, partition)
        del self._broker.partitions[key]
        topic = self._broker.image.topics.get(key.topic_id)
        if topic is not None:
            self._broker.list_partition(topic, key.partition, None)
        self._broker.delete_log(partition)

    def _delete_topic(self, topic_id: TopicId) -> None:
        broker = self._broker
        name = self._names.pop(topic_id, None)
        for key in [key for key in broker.partitions if key.topic_id == topic_id]:
            self._drop(key, broker.partitions[key])
        if name is not None:
            broker.unlist_topic(name, topic_id)

    # Following

    def _fetch_from(self, leader: BrokerId, key: PartitionKey, partition: Partition) -> None:
        before = self._followed.get(key, NO_BROKER)
        if before != leader:
            if before != NO_BROKER:
                self._leave(before, key)
            if leader != NO_BROKER:
                self._followed[key] = leader
        if leader != NO_BROKER:
            fetcher = self.fetchers.get(leader)
            if fetcher is None:
                fetcher = self.fetchers[leader] = self._new_fetcher(leader)
            if fetcher.partitions.get(key) is not partition:
                fetcher.add(partition)

    def _leave(self, leader: BrokerId, key: PartitionKey) -> None:
        del self._followed[key]
        fetcher = self.fetchers[leader]
        fetcher.remove(key)
        if not fetcher.partitions:
            fetcher.close()
            del self.fetchers[leader]

    def _new_fetcher(self, leader: BrokerId) -> Fetcher:
        broker = self._broker
        config = broker.config
        settings = FetcherSettings(
            max_wait_ms=config.int("replica.fetch.wait.max.ms"),
            min_bytes=config.int("replica.fetch.min.bytes"),
            partition_bytes_max=config.int("replica.fetch.max.bytes"),
            response_bytes_max=config.int("replica.fetch.response.max.bytes"),
            rest_max_ms=config.int("replica.fetch.backoff.ms"),
            timeout_ms=config.int("replica.socket.timeout.ms"),
        )
        fetcher = Fetcher(
            leader, self._peers, broker.scheduler, broker.clock, settings, self._identity, self.throttles.following
        )
        if self.on_full is not None:
            fetcher.on_full = self.on_full
        return fetcher

    def _identity(self) -> tuple[BrokerId, int]:
        """Who fetches, and in which life. While we are not registered, the last one: nothing is lost with a session."""
        registered = self._broker.image.brokers.get(self._me)
        if registered is not None:
            self._epoch = registered.epoch
        return self._me, self._epoch


def _touched(changes: Sequence[Change], broker: "Broker") -> Iterable[PartitionKey]:
    """Each once, in the order in which they come up."""
    found: dict[PartitionKey, None] = {}
    for change in changes:
        match change:
            case TopicCreated(topic_id=topic_id) | PartitionsAdded(topic_id=topic_id):
                topic = broker.image.topics.get(topic_id)
                for index in range(0 if topic is None else len(topic.partitions)):
                    found[PartitionKey(topic_id, index)] = None
            case PartitionChanged(topic_id=topic_id, partition=index):
                found[PartitionKey(topic_id, index)] = None
            case _:
                pass
    return found
