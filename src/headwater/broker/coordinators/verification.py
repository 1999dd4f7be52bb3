"""Before a transactional append: asks the transaction's coordinator on another broker whether partitions are in it, or
to add them.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from headwater.base.errors import ErrorCode
from headwater.base.ids import BrokerId, TopicPartition
from headwater.base.peers import Lane, Unreachable
from headwater.broker.coordinators.host import CoordinatorHost
from headwater.broker.coordinators.markers import Results
from headwater.coordinator.effects import Producer
from headwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

_VERSION: Final = 5
_TIMEOUT_MS_MAX: Final = 10_000  # a producer waits for it, and will ask again


def ask_coordinator(
    broker: CoordinatorHost,
    coordinator: BrokerId,
    transactional_id: str,
    producer: Producer,
    partitions: Sequence[TopicPartition],
    *,
    add: bool,
    done: Callable[[Results], None],
) -> None:
    """`done` gets each partition's code; NETWORK_EXCEPTION if no answer came, and then nobody knows."""
    peers = broker.peers
    assert peers is not None

    def answered(response: Any, problem: Unreachable | None) -> None:
        if problem is not None:
            done(dict.fromkeys(partitions, ErrorCode.NETWORK_EXCEPTION))
            return
        codes = dict.fromkeys(partitions, ErrorCode(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR))
        for transaction in response.results_by_transaction:
            for topic in transaction.topic_results:
                for part in topic.results_by_partition:
                    codes[TopicPartition(topic.name, part.partition_index)] = ErrorCode(part.partition_error_code)
        done(codes)

    topics: dict[str, list[int]] = {}
    for name in partitions:
        topics.setdefault(name.topic, []).append(name.partition)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=not add,
        topics=[AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics.items()],
    )
    timeout_ms = min(broker.config.int("request.timeout.ms"), _TIMEOUT_MS_MAX)
    request = AddPartitionsToTxnRequest(transactions=[transaction])
    peers.ask(coordinator, Lane.TRANSACTIONS, request, _VERSION, answered, timeout_ms=timeout_ms)
