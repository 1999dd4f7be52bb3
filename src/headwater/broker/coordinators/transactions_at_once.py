"""Transactions on their hot path: partitions that enter one, and its end, decided, written and committed in one go.

Only where nobody has to be waited for: the shard is at rest (`Hosted.is_at_rest`), and what is appended to each partition of the
transaction is committed with the append. None or False says that nothing was changed, and `Transactions.call` must look at it. When the
shard's own append fails, the shard is made anew from the log, so that nothing was changed then either. No state.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.broker.coordinators.markers import NOTHING_TO_END, Marker, Results, write_markers
from headwater.coordinator.effects import Producer
from headwater.coordinator.transactions import plain_ends

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_NO_BUMP: Final = 0  # the transaction version of clients that name their partitions


def add_at_once(
    broker: "Broker", transactional_id: str, producer: Producer, topic: str, partitions: frozenset[TopicPartition]
) -> bool:
    """Whether all of `partitions`, which are of `topic`, are in the transaction now."""
    hosted = broker.transactions.runtime.at_rest(transactional_id)
    topic_id = broker.image.ids_by_name.get(topic)
    if hosted is None or topic_id is None:
        return False
    count = len(broker.image.topics[topic_id].partitions)
    for name in partitions:
        if not 0 <= name.partition < count:
            return False
    code, effects = hosted.shard.add(transactional_id, producer, partitions, _NO_BUMP, broker.now_ms())
    if code is not ErrorCode.NONE:
        return False
    if effects.records:
        hosted.run(effects)
    return hosted.is_loaded


def end_at_once(
    broker: "Broker",
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    transaction_version: int,
) -> tuple[int, int] | None:
    """The producer id and epoch of the producer's next transaction."""
    hosted = broker.transactions.runtime.at_rest(transactional_id)
    if hosted is None:
        return None
    shard = hosted.shard
    transaction = plain_ends.admit(shard, transactional_id, producer_id, producer_epoch, committed, transaction_version)
    if transaction is None or not _are_alone(broker, transaction.partitions):
        return None
    now_ms = broker.now_ms()
    hosted.run(plain_ends.prepare(shard, transaction, committed, transaction_version, now_ms))
    if not hosted.is_loaded or hosted.shard is not shard:
        return None
    after = transaction.after_markers()
    results: Results = {}
    marker = Marker(
        transaction.producer_id,
        transaction.producer_epoch,
        shard.coordinator_epoch,
        committed,
        transaction.client_transaction_version,
    )
    try:
        write_markers(broker, marker, transaction.partitions, results.update)
    finally:  # whatever happened: what is decided is brought to its end
        missing = {name for name in transaction.partitions if results.get(name) not in NOTHING_TO_END}
        hosted.run(plain_ends.marked(shard, transaction, missing, now_ms))
    return after


def _are_alone(broker: "Broker", partitions: set[TopicPartition]) -> bool:
    """Whether a marker on each of them is committed with its append."""
    for name in partitions:
        try:
            if not broker.partition(name.topic, name.partition).is_alone:
                return False
        except KafkaError:
            return False
    return True
