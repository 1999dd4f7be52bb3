"""The end of a transaction that is plainly fine, for whoever writes its markers himself, right after it is decided.

Three steps: `admit` decides and changes nothing; `Transaction.prepare` changes the state, which must be committed
before a marker is written, and the timeout ends with it; with all markers written, `Transaction.complete`. Where some
are missing it goes on as every other does, and they are asked for (`ask_for`) until all are there. Whatever is not
plainly fine (a retry, a fenced producer, an epoch that is the last) is not admitted: `TransactionShard.end_txn` decides
about it, by the same rules. The state is the shard's.
"""

from headwater.base.ids import TopicPartition
from headwater.coordinator.transactions.decisions import GO, decide_end
from headwater.coordinator.transactions.effects import TransactionEffects
from headwater.coordinator.transactions.shard import TransactionShard
from headwater.coordinator.transactions.transaction import Transaction


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


def ask_for(shard: TransactionShard, transaction: Transaction, missing: set[TopicPartition]) -> TransactionEffects:
    effects = TransactionEffects()
    shard.send_markers(effects, transaction, missing)
    return effects
