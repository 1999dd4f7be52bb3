"""The end of a transaction that is plainly fine, for whoever writes its markers himself, right after it is decided.

Three steps: `admit` decides and changes nothing; `prepare` changes the state, and its record must be committed before a marker is
written; `marked` is told which partitions have none in spite of that. Without any, the transaction is complete; else it goes on as
every other does, and its markers are asked for until all are there. Whatever is not plainly fine (a retry, a fenced producer, an epoch
that is the last) is not admitted: `TransactionShard.end_txn` decides about it, by the same rules. The state is the shard's.
"""

from headwater.base.ids import TopicPartition
from headwater.coordinator.transactions.decisions import GO, decide_end
from headwater.coordinator.transactions.effects import TransactionEffects
from headwater.coordinator.transactions.shard import TIMEOUT, TransactionShard
from headwater.coordinator.transactions.transaction import NONE, Transaction


def admit(
    shard: TransactionShard,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    transaction_version: int,
) -> Transaction | None:
    """The transaction, if it is open, has partitions, and this producer may end it now."""
    transaction = shard.transactions.get(transactional_id)
    if decide_end(transaction, producer_id, producer_epoch, committed, transaction_version) is not GO:
        return None
    assert transaction is not None
    return None if transaction.is_exhausted or not transaction.partitions else transaction


def prepare(
    shard: TransactionShard, transaction: Transaction, committed: bool, transaction_version: int, now_ms: int
) -> TransactionEffects:
    transaction.prepare(committed, transaction_version, NONE, now_ms)
    return TransactionEffects(
        records=[transaction.record(shard.settings.transaction_version)],
        timers={(TIMEOUT, transaction.transactional_id): None},
    )


def marked(
    shard: TransactionShard, transaction: Transaction, missing: set[TopicPartition], now_ms: int
) -> TransactionEffects:
    if missing:
        effects = TransactionEffects()
        shard.send_markers(effects, transaction, missing)
        return effects
    transaction.complete(now_ms)
    return TransactionEffects(records=[transaction.record(shard.settings.transaction_version)])
