"""AddPartitionsToTxn and EndTxn on their hot path: what is plainly fine is decided, written and answered at once.

As with Produce, a request is given up (None) before anything was changed whenever it is not of that shape, and its
handler runs it. A producer of transaction version 1 sends the same two requests again and again, but for their
correlation ids: so what the general codecs read is remembered, with the answer. State: these memories, bounded in
number and size.
"""

from functools import lru_cache
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.broker.coordinators.transactions_at_once import add_at_once, end_at_once
from headwater.coordinator.effects import Producer
from headwater.coordinator.transactions.listing import partition_results
from headwater.coordinator.transactions.transaction import EPOCH_BUMP_VERSION
from headwater.wire.errors import DecodeError
from headwater.wire.headers import decode_request_header, response_header_bytes
from headwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTransaction,
)
from headwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

ADD_PARTITIONS: Final = 24
END: Final = 26

_ADD_LAST: Final = 3  # then come those of brokers
_END_LAST: Final = 5
_END_FIRST_WITH_BUMP: Final = 5
_BYTES_MAX: Final = 1024
_REMEMBERED: Final = 1024

_HEAD: Final = Struct(">hhi")  # API key, version, correlation id
_START: Final = Struct(">ii")  # of an answer: its length, correlation id


class Addition(NamedTuple):
    transactional_id: str
    producer: Producer
    topic: str
    partitions: frozenset[TopicPartition]
    answer: bytes  # behind the correlation id, if all goes well


class Ending(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


def handle_add_frame(
    broker: "Broker", frame: memoryview, at: int, end: int, version: int, correlation_id: int
) -> bytes | None:
    """The whole answer, framed, or None: take the general way. `at` is behind the correlation id."""
    if end - at > _BYTES_MAX or not 0 <= version <= _ADD_LAST:
        return None
    read = _read_addition(bytes(frame[at:end]), version)
    if read is None or not add_at_once(broker, read.transactional_id, read.producer, read.topic, read.partitions):
        return None
    return _START.pack(4 + len(read.answer), correlation_id) + read.answer


def handle_end_frame(
    broker: "Broker", frame: memoryview, at: int, end: int, version: int, correlation_id: int
) -> bytes | None:
    """The same for the end of a transaction."""
    if end - at > _BYTES_MAX or not 0 <= version <= _END_LAST:
        return None
    read = _read_ending(bytes(frame[at:end]), version)
    if read is None:
        return None
    transaction_version = EPOCH_BUMP_VERSION if version >= _END_FIRST_WITH_BUMP else 0
    after = end_at_once(broker, *read, transaction_version)
    if after is None:
        return None
    answer = _ended(version, *after) if version >= _END_FIRST_WITH_BUMP else _ended_as_before(version)
    return _START.pack(4 + len(answer), correlation_id) + answer


@lru_cache(maxsize=_REMEMBERED)
def _read_addition(body: bytes, version: int) -> Addition | None:
    """None for what does not name partitions of exactly one topic, or is no request at all."""
    frame = _HEAD.pack(ADD_PARTITIONS, version, 0) + body
    try:
        request = AddPartitionsToTxnRequest.decode(frame, decode_request_header(frame).body_at, version)
    except DecodeError:
        return None
    topics = request.v3_and_below_topics
    if len(topics) != 1 or not topics[0].partitions:
        return None
    named = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=topics,
    )
    results = partition_results(named, lambda _: ErrorCode.NONE).topic_results
    response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    return Addition(
        named.transactional_id,
        Producer(named.producer_id, named.producer_epoch),
        topics[0].name,
        frozenset(TopicPartition(topics[0].name, index) for index in topics[0].partitions),
        _behind_correlation_id(ADD_PARTITIONS, version, response),
    )


@lru_cache(maxsize=_REMEMBERED)
def _read_ending(body: bytes, version: int) -> Ending | None:
    frame = _HEAD.pack(END, version, 0) + body
    try:
        request = EndTxnRequest.decode(frame, decode_request_header(frame).body_at, version)
    except DecodeError:
        return None
    return Ending(request.transactional_id, request.producer_id, request.producer_epoch, request.committed)


@lru_cache(maxsize=_END_FIRST_WITH_BUMP)
def _ended_as_before(version: int) -> bytes:
    """The producer keeps its epoch, so all are answered alike."""
    return _ended(version, -1, -1)


def _ended(version: int, producer_id: int, producer_epoch: int) -> bytes:
    response = EndTxnResponse(error_code=0, producer_id=producer_id, producer_epoch=producer_epoch)
    return _behind_correlation_id(END, version, response)


def _behind_correlation_id(key: int, version: int, response: AddPartitionsToTxnResponse | EndTxnResponse) -> bytes:
    return response_header_bytes(key, version, 0)[4:] + b"".join(response.encode(version))


HANDLERS: Final = {ADD_PARTITIONS: handle_add_frame, END: handle_end_frame}
