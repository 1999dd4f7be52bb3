"""Admin calls about transactions: list, describe, who writes to a partition, and the end of one that hangs.

Transactional ids are asked of their coordinator, producers of a partition's leader. No state.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.cluster import Cluster
from headwater.client.connection import Connection
from headwater.client.coordinators import KeyType, ask_coordinator, find_coordinator
from headwater.client.errors import error_for, raise_for
from headwater.wire.messages import describe_producers as producers
from headwater.wire.messages import describe_transactions as transactions
from headwater.wire.messages import write_txn_markers as markers
from headwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

_ANY_DURATION: Final = -1
_FENCING_TIMEOUT_MS: Final = 60_000


class TransactionListing(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    state: str


class TransactionDescription(NamedTuple):
    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    started_ms: int  # -1: none is open
    partitions: list[TopicPartition]


class ActiveProducer(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int  # -1: no marker of it is known
    last_sequence: int
    last_timestamp_ms: int
    transaction_start_offset: int  # -1: it has no transaction open


def list_transactions(
    cluster: Cluster,
    *,
    states: Iterable[str] = (),
    producer_ids: Iterable[int] = (),
    running_longer_than_ms: int = _ANY_DURATION,
    pattern: str | None = None,
) -> list[TransactionListing]:
    """The transactional ids of all coordinators, filtered, by id. A pattern is a regular expression (RE2)."""
    request = ListTransactionsRequest(
        state_filters=list(states),
        producer_id_filters=list(producer_ids),
        duration_filter=running_longer_than_ms,
        transactional_id_pattern=pattern,
    )
    cluster.refresh()
    found = []
    for broker_id in sorted(cluster.view.brokers):
        connection = cluster.broker(broker_id)
        _check_filters(connection, request)
        response = connection.call(request, ListTransactionsResponse)
        raise_for(response.error_code, f"broker {broker_id} cannot list its transactions")
        found += [
            TransactionListing(each.transactional_id, broker_id, each.producer_id, each.transaction_state)
            for each in response.transaction_states
        ]
    return sorted(found)


def _check_filters(connection: Connection, request: ListTransactionsRequest) -> None:
    """An old broker would leave a filter out, and list what was not asked for."""
    version = connection.version_for(request)
    if (request.duration_filter != _ANY_DURATION and version < 1) or (request.transactional_id_pattern and version < 2):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker cannot filter transactions in this way")


def describe_transaction(cluster: Cluster, transactional_id: str) -> TransactionDescription:
    """TRANSACTIONAL_ID_NOT_FOUND if there is none."""
    request = transactions.DescribeTransactionsRequest(transactional_ids=[transactional_id])
    response = ask_coordinator(
        cluster,
        transactional_id,
        KeyType.TRANSACTION,
        lambda connection: connection.call(request, transactions.DescribeTransactionsResponse),
        lambda answer: answer.transaction_states[0].error_code,
    )
    state = response.transaction_states[0]
    raise_for(state.error_code, f"transactional id {transactional_id!r}")
    return TransactionDescription(
        transactional_id,
        find_coordinator(cluster, transactional_id, KeyType.TRANSACTION).id,
        state.producer_id,
        state.producer_epoch,
        state.transaction_state,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms,
        sorted(TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions),
    )


def describe_producers(
    cluster: Cluster, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
    def send(
        connection: Connection, asked: list[TopicPartition]
    ) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        topics: dict[str, producers.TopicRequest] = {}
        for each in asked:
            topic = topics.setdefault(each.topic, producers.TopicRequest(name=each.topic, partition_indexes=[]))
            topic.partition_indexes.append(each.partition)
        request = producers.DescribeProducersRequest(topics=list(topics.values()))
        response = connection.call(request, producers.DescribeProducersResponse)
        return {
            TopicPartition(answered.name, each.partition_index): error_for(each.error_code, each.error_message)
            if each.error_code
            else [_producer(state) for state in each.active_producers]
            for answered in response.topics
            for each in answered.partitions
        }

    return cluster.per_leader(partitions, send)


def _producer(state: producers.ProducerState) -> ActiveProducer:
    return ActiveProducer(
        state.producer_id,
        state.producer_epoch,
        state.coordinator_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.current_txn_start_offset,
    )


def abort_hanging(
    cluster: Cluster, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> None:
    """Writes an abort marker to one partition, past the coordinator: for a transaction that no coordinator knows of."""
    marker = markers.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[markers.WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        coordinator_epoch=max(coordinator_epoch, 0),
    )

    def send(connection: Connection, _: list[TopicPartition]) -> dict[TopicPartition, bool | KafkaError]:
        response = connection.call(markers.WriteTxnMarkersRequest(markers=[marker]), markers.WriteTxnMarkersResponse)
        (result,) = response.markers[0].topics[0].partitions
        return {partition: error_for(result.error_code) if result.error_code else True}

    answer = cluster.per_leader([partition], send)[partition]
    if isinstance(answer, KafkaError):
        raise answer


def fence_producer(cluster: Cluster, transactional_id: str) -> None:
    """Takes the transactional id over for a moment: what its producer had open is aborted, and the producer is fenced."""
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=_FENCING_TIMEOUT_MS)
    deadline = cluster.deadline()
    attempt = 0
    while True:
        response = ask_coordinator(
            cluster,
            transactional_id,
            KeyType.TRANSACTION,
            lambda connection: connection.call(request, InitProducerIdResponse),
            lambda answer: answer.error_code,
        )
        if response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS or not cluster.pause(attempt, deadline):
            raise_for(response.error_code, f"transactional id {transactional_id!r}")
            return
        attempt += 1
