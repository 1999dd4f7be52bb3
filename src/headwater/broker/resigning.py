"""Gives up the leadership of partitions whose log directory has failed or is full, or whose log cannot be opened, if another in-sync
replica lives to take over.

All in-sync replicas have what is committed, so the leader may name the next one itself. The proposal stands over the version of the state
that it knows: if that has changed meanwhile, it is refused, and looked at again with the next call. Where there is nobody else, the
broker stays the leader, and answers KAFKA_STORAGE_ERROR to producers.
"""

import logging
from typing import TYPE_CHECKING

from headwater.base.errors import KafkaError
from headwater.base.ids import BrokerId, LeaderEpoch, PartitionKey
from headwater.metadata.image import BrokerState, PartitionChanged, PartitionState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")


def successor(
    key: PartitionKey, state: PartitionState, me: BrokerId, brokers: "Mapping[BrokerId, BrokerState]"
) -> PartitionChanged | None:
    """The state in which somebody else leads and this replica is not in sync; None if nobody could."""
    epochs = dict(zip(state.in_sync_replicas, state.in_sync_epochs, strict=False))
    in_sync = [replica for replica in state.in_sync_replicas if replica != me]
    able = [
        replica
        for replica in state.replicas
        if replica in in_sync
        and replica in brokers
        and brokers[replica].epoch == epochs.get(replica)
        and not brokers[replica].is_stopping
    ]
    if not able or state.leader != me:
        return None
    return PartitionChanged(
        key.topic_id,
        key.partition,
        able[0],
        LeaderEpoch(state.leader_epoch + 1),
        tuple(state.replicas),
        tuple(in_sync),
        tuple(epochs.get(replica, -1) for replica in in_sync),
        tuple(state.adding),
        tuple(state.removing),
        state.version,
    )


class Resigning:
    """Owned by the broker's loop."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._asked: set[PartitionKey] = set()  # nobody has answered yet

    def look(self) -> None:
        """Called every now and then."""
        broker = self._broker
        for key in self._without_logs():
            topic = broker.image.topics.get(key.topic_id)
            if topic is not None and key.partition < len(topic.partitions):
                self._resign(key, topic.partitions[key.partition])

    def _without_logs(self) -> list[PartitionKey]:
        """What cannot be led from here: its log has failed, its disk is full, or the log is not even there."""
        broker = self._broker
        missing = list(broker.replicas.missing) if broker.replicas is not None else []
        for key, partition in broker.partitions.items():
            if partition.is_leader and (partition.log.failed is not None or partition.log.is_full):
                missing.append(key)
        return missing

    def _resign(self, key: PartitionKey, state: PartitionState) -> None:
        broker = self._broker
        change = successor(key, state, broker.broker_id, broker.image.brokers)
        if change is None or key in self._asked:
            return
        self._asked.add(key)
        name = broker.image.topics[key.topic_id].name
        logger.warning("event=resigns partition=%s-%d successor=%d", name, key.partition, change.leader)

        def answered(problem: KafkaError | None) -> None:
            self._asked.discard(key)
            if problem is not None:
                logger.info("event=not-resigned partition=%s-%d reason=%r", name, key.partition, str(problem))

        broker.store.propose(change, answered)
