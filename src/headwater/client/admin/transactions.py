"""Admin calls about transactions: list, describe, who writes to a partition, and the end of one that hangs.

Transactional ids are asked of their coordinator, producers of a partition's leader. No state.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin.call_routing import (
    by_topic,
    each_of,
    every_broker,
    introduce,
    of_broker,
    of_coordinator,
    of_leaders,
)
from headwater.client.errors import error_for, raise_for
from headwater.client.outcomes import all_or_raise
from headwater.client.reactor.link import Link
from headwater.client.session import COORDINATOR_MOVED, KeyType, Session
from headwater.wire.messages import describe_producers as producers
from headwater.wire.messages import describe_transactions as transactions
from headwater.wire.messages import write_txn_markers as markers
from headwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

_ANY_DURATION: Final = -1
_FENCING_TIMEOUT_MS: Final = 60_000
_BUSY: Final = COORDINATOR_MOVED | {ErrorCode.CONCURRENT_TRANSACTIONS}


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


class FencedProducer(NamedTuple):
    """The producer id and epoch that the transactional id has from now on."""

    producer_id: int
    producer_epoch: int


async def list_transactions(
    session: Session,
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

    async def one(broker_id: int) -> ListTransactionsResponse:
        _check_filters(await session.link(broker_id), request)
        response = await of_broker(
            session, broker_id, request, ListTransactionsResponse, lambda answer: [answer.error_code]
        )
        raise_for(response.error_code, f"broker {broker_id} cannot list its transactions")
        return response

    answers = all_or_raise(await each_of(session, await every_broker(session), one))
    return sorted(
        TransactionListing(each.transactional_id, broker_id, each.producer_id, each.transaction_state)
        for broker_id, response in answers.items()
        for each in response.transaction_states
    )


def _check_filters(link: Link, request: ListTransactionsRequest) -> None:
    """An old broker would leave a filter out, and list what was not asked for."""
    version = link.version_for(request)
    if (request.duration_filter != _ANY_DURATION and version < 1) or (request.transactional_id_pattern and version < 2):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker cannot filter transactions in this way")


async def describe_transactions(
    session: Session, transactional_ids: Iterable[str]
) -> dict[str, TransactionDescription | KafkaError]:
    """TRANSACTIONAL_ID_NOT_FOUND for one that is not there."""

    async def one(transactional_id: str) -> TransactionDescription:
        return await describe_transaction(session, transactional_id)

    return await each_of(session, transactional_ids, one)


async def describe_transaction(session: Session, transactional_id: str) -> TransactionDescription:
    """TRANSACTIONAL_ID_NOT_FOUND if there is none."""
    response = await of_coordinator(
        session,
        transactional_id,
        KeyType.TRANSACTION,
        transactions.DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        transactions.DescribeTransactionsResponse,
        lambda answer: answer.transaction_states[0].error_code,
    )
    state = response.transaction_states[0]
    raise_for(state.error_code, f"transactional id {transactional_id!r}")
    return TransactionDescription(
        transactional_id,
        await session.coordinator(transactional_id, KeyType.TRANSACTION),
        state.producer_id,
        state.producer_epoch,
        state.transaction_state,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms,
        sorted(TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions),
    )


async def describe_producers(
    session: Session, partitions: Iterable[TopicPartition], *, broker_id: int | None = None
) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
    """Who has written to these partitions lately, as their leaders know it, or as the replicas of one broker do."""
    wanted = list(partitions)
    if broker_id is not None:
        answer = await of_broker(session, broker_id, _of_producers(wanted), producers.DescribeProducersResponse)
        return _told(answer)

    async def ask(link: Link, asked: list[TopicPartition]) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
        return _told(await link.call(_of_producers(asked), producers.DescribeProducersResponse))

    return await of_leaders(session, wanted, ask)


def _of_producers(partitions: list[TopicPartition]) -> producers.DescribeProducersRequest:
    topics = [producers.TopicRequest(name=name, partition_indexes=at) for name, at in by_topic(partitions).items()]
    return producers.DescribeProducersRequest(topics=topics)


def _told(response: producers.DescribeProducersResponse) -> dict[TopicPartition, list[ActiveProducer] | KafkaError]:
    return {
        TopicPartition(answered.name, each.partition_index): error_for(each.error_code, each.error_message)
        if each.error_code
        else [_producer(state) for state in each.active_producers]
        for answered in response.topics
        for each in answered.partitions
    }


def _producer(state: producers.ProducerState) -> ActiveProducer:
    return ActiveProducer(
        state.producer_id,
        state.producer_epoch,
        state.coordinator_epoch,
        state.last_sequence,
        state.last_timestamp,
        state.current_txn_start_offset,
    )


async def abort_transaction(
    session: Session, partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> None:
    """Writes an abort marker to one partition, past the coordinator: for a transaction that no coordinator knows of."""
    marker = markers.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transaction_result=False,
        topics=[markers.WritableTxnMarkerTopic(name=partition.topic, partition_indexes=[partition.partition])],
        coordinator_epoch=max(coordinator_epoch, 0),
    )

    async def ask(link: Link, _: list[TopicPartition]) -> dict[TopicPartition, bool | KafkaError]:
        request = markers.WriteTxnMarkersRequest(markers=[marker])
        response = await link.call(request, markers.WriteTxnMarkersResponse)
        (result,) = response.markers[0].topics[0].partitions
        return {partition: error_for(result.error_code) if result.error_code else True}

    answer = (await of_leaders(session, [partition], ask))[partition]
    if isinstance(answer, KafkaError):
        raise answer


async def fence_producers(session: Session, transactional_ids: Iterable[str]) -> dict[str, FencedProducer | KafkaError]:
    """Takes transactional ids over for a moment: what their producers had open is aborted, and they are fenced."""
    await introduce(session)

    async def one(transactional_id: str) -> FencedProducer:
        response = await session.call_coordinator(
            transactional_id,
            KeyType.TRANSACTION,
            InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=_FENCING_TIMEOUT_MS),
            InitProducerIdResponse,
            lambda answer: answer.error_code,
            retriable=_BUSY,
        )
        raise_for(response.error_code, f"transactional id {transactional_id!r}")
        return FencedProducer(response.producer_id, response.producer_epoch)

    return await each_of(session, transactional_ids, one)
