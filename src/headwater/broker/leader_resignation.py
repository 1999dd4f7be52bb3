"""Gives up the leadership of partitions whose log directory has failed or is full, or whose log cannot be opened, if
another in-sync replica lives to take over.

All in-sync replicas have what is committed, so the leader may name the next one itself. The proposal stands over the
version of the state that it knows: if that has changed meanwhile, it is refused, and looked at again with the next
call. Where there is nobody else, the broker stays the leader, and answers KAFKA_STORAGE_ERROR to producers.

One whose disk is full has all that is committed, and nobody knows whether its successor lives: a session lasts on when
the power is gone. So it stays in sync and follows. Not before the new leader has sent it records, which it has no room
for, does it leave the in-sync replicas: it would hold up writes with acks=all until `replica.lag.time.max.ms` is over.
A replica whose log has failed leaves at once, as leader or as follower: nobody may count on what it has, and nobody
else would notice before the next record. So it does if it comes to be in sync afterwards, by a fetch that was on its
way when the log failed.
"""

import logging
from typing import TYPE_CHECKING

from headwater.base.errors import KafkaError
from headwater.base.ids import BrokerId, LeaderEpoch, PartitionKey
from headwater.metadata.image import BrokerState, PartitionChanged, PartitionState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.broker.broker import Broker
    from headwater.replication.partition import Partition

logger = logging.getLogger("headwater.broker")


def successor(
    key: PartitionKey,
    state: PartitionState,
    me: BrokerId,
    brokers: "Mapping[BrokerId, BrokerState]",
    *,
    stays_in_sync: bool = False,
) -> PartitionChanged | None:
    """The state in which somebody else leads; None if nobody could."""
    epochs = dict(zip(state.in_sync_replicas, state.in_sync_epochs, strict=False))
    able = [
        replica
        for replica in state.replicas
        if replica in epochs
        and replica != me
        and replica in brokers
        and brokers[replica].epoch == epochs.get(replica)
        and not brokers[replica].is_stopping
    ]
    if not able or state.leader != me:
        return None
    if not stays_in_sync:
        epochs.pop(me, None)
    return _changed(key, state, able[0], LeaderEpoch(state.leader_epoch + 1), epochs)


def without(key: PartitionKey, state: PartitionState, me: BrokerId) -> PartitionChanged | None:
    """The state in which this follower is not in sync; None if it is not, or leads, or nobody else is."""
    epochs = dict(zip(state.in_sync_replicas, state.in_sync_epochs, strict=False))
    if state.leader == me or epochs.pop(me, None) is None or not epochs:
        return None
    return _changed(key, state, state.leader, state.leader_epoch, epochs)


def _changed(
    key: PartitionKey, state: PartitionState, leader: BrokerId, leader_epoch: LeaderEpoch, in_sync: dict[BrokerId, int]
) -> PartitionChanged:
    return PartitionChanged(
        key.topic_id,
        key.partition,
        leader,
        leader_epoch,
        tuple(state.replicas),
        tuple(in_sync),
        tuple(in_sync.values()),
        tuple(state.adding),
        tuple(state.removing),
        state.version,
    )


class LeaderResignation:
    """Owned by the broker's loop."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._asked: set[PartitionKey] = set()  # nobody has answered yet
        if broker.replicas is not None:
            broker.replicas.on_full = broker.replicas.on_failed_in_sync = self._leave

    def look(self) -> None:
        """Called every now and then."""
        broker = self._broker
        for key in list(broker.replicas.missing) if broker.replicas is not None else ():
            self._resign(key, stays_in_sync=False)
        for key, partition in list(broker.partitions.items()):
            log = partition.log
            if partition.is_leader and (log.failed is not None or log.is_full):
                self._resign(key, stays_in_sync=log.failed is None)
            elif log.failed is not None:
                self._leave(partition)

    def _resign(self, key: PartitionKey, *, stays_in_sync: bool) -> None:
        broker = self._broker
        state = self._state(key)
        if state is not None:
            change = successor(key, state, broker.broker_id, broker.image.brokers, stays_in_sync=stays_in_sync)
            self._propose(key, change, "resigns")

    def _leave(self, partition: "Partition") -> None:
        """Its log has failed, or the leader has just sent records that there is no room for, so that one lives."""
        key = PartitionKey(partition.topic_id, partition.index)
        state = self._state(key)
        if state is not None and state.leader_epoch == partition.leader_epoch:
            self._propose(key, without(key, state, self._broker.broker_id), "leaves-in-sync-replicas")

    def _state(self, key: PartitionKey) -> PartitionState | None:
        topic = self._broker.image.topics.get(key.topic_id)
        return topic.partitions[key.partition] if topic is not None and key.partition < len(topic.partitions) else None

    def _propose(self, key: PartitionKey, change: PartitionChanged | None, what: str) -> None:
        broker = self._broker
        if change is None or key in self._asked:
            return
        self._asked.add(key)
        name = broker.image.topics[key.topic_id].name
        logger.warning("event=%s partition=%s-%d leader=%d", what, name, key.partition, change.leader)

        def answered(problem: KafkaError | None) -> None:
            self._asked.discard(key)
            if problem is not None:
                logger.info("event=not-proposed partition=%s-%d reason=%r", name, key.partition, str(problem))

        broker.store.propose(change, answered)
