"""Transactions on their hot path: partitions that enter one, and its end, decided, written and committed in one go.

Only where nobody has to be waited for: the shard is at rest (`Hosted.is_at_rest`), and what is appended to each
partition of the transaction is committed with the append. None or False says that nothing was changed, and
`Transactions.call` must look at it. When the shard's own append fails, the shard is made anew from the log, so that
nothing was changed then either. No state.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import KafkaError
from headwater.base.ids import PartitionKey, TopicPartition
from headwater.broker.coordinators.host import CoordinatorHost
from headwater.broker.coordinators.markers import NOTHING_TO_END, Marker, write_marker
from headwater.coordinator.effects import Producer
from headwater.coordinator.transactions import plain_ends
from headwater.coordinator.transactions.decisions import GO, check_producer
from headwater.coordinator.transactions.shard import TIMEOUT
from headwater.coordinator.transactions.states import TransactionState
from headwater.coordinator.transactions.transaction import NEVER_MS, NONE, Transaction
from headwater.replication.partition import Partition

if TYPE_CHECKING:
    from headwater.broker.coordinators.hosted import Hosted
    from headwater.coordinator.transactions.shard import TransactionShard

_NO_BUMP: Final = 0  # the transaction version of clients that name their partitions


def add_at_once(
    broker: CoordinatorHost,
    transactional_id: str,
    producer: Producer,
    topic: str,
    partitions: frozenset[TopicPartition],
) -> bool:
    """Whether all of `partitions`, which are of `topic`, are in the transaction now."""
    hosted = broker.transactions.runtime.at_rest(transactional_id)
    image = broker.image
    topic_id = image.ids_by_name.get(topic)
    if hosted is None or topic_id is None:
        return False
    count = len(image.topics[topic_id].partitions)
    for _, index in partitions:
        if not 0 <= index < count:
            return False
    transaction = hosted.shard.transactions.get(transactional_id)
    if check_producer(transaction, *producer) is not GO:
        return False
    assert transaction is not None
    is_new = transaction.state is not TransactionState.ONGOING
    if not is_new and partitions <= transaction.partitions:
        return True
    if not hosted.shard.has_room(transaction, partitions):
        return False
    now_ms = broker.now_ms()
    transaction.add_partitions(partitions, _NO_BUMP, now_ms)
    if not _write(broker, hosted, transaction, now_ms):
        return False
    if is_new and transaction.timeout_ms != NEVER_MS:
        hosted.set_timer((TIMEOUT, transactional_id), transaction.timeout_ms + 1)
    return True


def end_at_once(
    broker: CoordinatorHost,
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
    if transaction is None:
        return None
    partitions = _alone(broker, transaction.partitions)
    if partitions is None:
        return None
    now_ms = broker.now_ms()
    transaction.prepare(committed, transaction_version, NONE, now_ms)
    if not _write(broker, hosted, transaction, now_ms):
        return None
    hosted.set_timer((TIMEOUT, transactional_id), None)
    after = transaction.after_markers()
    marker = Marker(
        transaction.producer_id,
        transaction.producer_epoch,
        shard.coordinator_epoch,
        committed,
        transaction.client_transaction_version,
    )
    missing = set(transaction.partitions)
    try:
        for name, partition in partitions:
            if _has_marker(broker, partition, marker, now_ms):
                missing.remove(name)
    finally:  # whatever happened: what is decided is brought to its end
        if missing:
            hosted.run(plain_ends.ask_for(shard, transaction, missing))
        else:
            transaction.complete(now_ms)
            _write(broker, hosted, transaction, now_ms)
    return after


def _write(broker: CoordinatorHost, hosted: "Hosted[TransactionShard]", transaction: Transaction, now_ms: int) -> bool:
    """The state that the transaction has now, committed with its append. False: see `Hosted.write`."""
    version = hosted.shard.settings.transaction_version
    quick = broker.quick_writes
    if quick is not None and version >= 1:
        offset = quick.append_transaction(hosted.partition, transaction, now_ms)
        if offset >= 0:
            hosted.wrote(offset)
            return True
    return hosted.write(transaction.record(version), now_ms)


def _has_marker(broker: CoordinatorHost, partition: Partition, marker: Marker, now_ms: int) -> bool:
    try:
        write_marker(broker, partition, marker, now_ms)
    except KafkaError as problem:
        return problem.code in NOTHING_TO_END
    return True


def _alone(broker: CoordinatorHost, names: frozenset[TopicPartition]) -> list[tuple[TopicPartition, Partition]] | None:
    """The partitions of that name, if a marker on each of them is committed with its append."""
    found = []
    for name in names:
        topic_id = broker.image.ids_by_name.get(name.topic)
        partition = None if topic_id is None else broker.partitions.get(PartitionKey(topic_id, name.partition))
        if partition is None or not partition.is_alone:
            return None
        found.append((name, partition))
    return found
