"""Produce with a transactional id: no batch begins a transaction on a partition before the coordinator knows that it
takes part.

Up to v11 the producer has told its coordinator about the partition (AddPartitionsToTxn), and we ask whether that is so.
From v12 on (transaction version 2) nobody has, and we add the partition in the producer's name. Without this a batch
that was held up on its way could open a transaction that nobody will ever end.

While we wait for the coordinator the connection begins nothing else, so that a producer's batches stay in order, and
the batches are copied out of the read buffer. A marker that comes in between makes the verification void
(`Partition.begin_verification`). From v12 on a producer begins its next transaction while the markers of the last are
on their way: so the coordinator is not asked before they are here, or theirs could come in between. Where the
transaction has begun on every partition, all is as for any other produce.
"""

from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.broker.context import RequestContext
from headwater.broker.coordinators.marker_wait import Patience
from headwater.broker.deferred import Deferred
from headwater.broker.produce_appends import ACKS_NONE, append_all, find_partition
from headwater.log.results import AppendResult
from headwater.records.batch import HEADER_BYTES, TRANSACTIONAL, BatchHeader, read_header
from headwater.replication.partition import Partition
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

FIRST_WITH_ABORTABLE: Final = 11  # the first version that knows TRANSACTION_ABORTABLE
FIRST_THAT_ADDS: Final = 12
_WHO: Final = Struct(">21xh20xqhi")  # of a batch's header: attributes, producer id and epoch, first sequence
_HAS_BEGUN: Final = -1  # a guard for a transaction that is open already: nothing to verify
_RETRIED_BY_PRODUCERS: Final = frozenset(
    (
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    )
)  # a producer would take them for news of its own coordinator, so it is told NOT_ENOUGH_REPLICAS


def append_at_once(
    broker: "Broker", partition: Partition, transactional_id: bytes, records: memoryview, acks: int, version: int
) -> AppendResult | None:
    """On the hot path: appends what need not be asked about, or can be answered here and now. None: the general way.

    Raises what the log says about the batch, as the general way will.
    """
    if acks == ACKS_NONE or len(records) < HEADER_BYTES:
        return None
    attributes, producer_id, producer_epoch, first_sequence = _WHO.unpack_from(records)
    if not attributes & TRANSACTIONAL:
        return None
    guard = _HAS_BEGUN
    producers = partition.log.producers
    if not producers.has_open_transaction(producer_id, producer_epoch):
        name = TopicPartition(partition.topic, partition.index)
        if version >= FIRST_THAT_ADDS or not broker.transactions.is_verified(
            transactional_id, producer_id, producer_epoch, name
        ):
            return None
        guard = producers.begin_verification(producer_id, producer_epoch, first_sequence, False)
    return partition.append(records, broker.now_ms(), guard)


class TransactionalProduce:
    def __init__(
        self, broker: "Broker", context: RequestContext, request: ProduceRequest, refused: Mapping[int, KafkaError]
    ) -> None:
        """`refused`: by the identity of a partition's data, what it was refused for already."""
        self._broker = broker
        self._context = context
        self._request = request
        self._version = context.api_version
        self._verified: dict[int, int | KafkaError] = dict(refused)
        # By partition: a request may name one twice, and what the coordinator says holds for both entries.
        self._asked: dict[TopicPartition, list[tuple[PartitionProduceData, Partition, BatchHeader]]] = {}
        self._producers: set[tuple[int, int]] = set()
        self._deferred: Deferred | None = None
        self._appending: Deferred | None = None
        self._patience = Patience(broker)
        self._is_over = False

    def begin(self) -> ProduceResponse | Deferred | None:
        if self._request.acks == ACKS_NONE:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, "a transactional producer must ask for an answer")
        for topic in self._request.topic_data:
            for data in topic.partition_data:
                if id(data) in self._verified:
                    continue
                try:
                    self._look_at(topic, data)
                except KafkaError as problem:
                    self._verified[id(data)] = problem
        if len(self._producers) > 1:
            self._refuse_all("Transactional records contained more than one producer ID")
        if self._asked and self._must_ask():
            self._ask()
            if not self._is_over:
                return self._wait()
        return append_all(self._broker, self._context, self._request, self._verified)

    def _refuse_all(self, message: str) -> None:
        self._asked.clear()
        for topic in self._request.topic_data:
            for data in topic.partition_data:
                self._verified[id(data)] = KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message)

    def _look_at(self, topic: TopicProduceData, data: PartitionProduceData) -> None:
        partition = find_partition(self._broker, self._version, topic, data.index)
        if data.records is None or len(data.records) < HEADER_BYTES:
            return  # the append says what is wrong with it
        header = read_header(data.records)
        if not header.is_transactional:
            return
        self._producers.add((header.producer_id, header.producer_epoch))
        if partition.needs_verification(header):
            self._asked.setdefault(TopicPartition(partition.topic, data.index), []).append((data, partition, header))
            self._begin_verification(data, partition, header)
        else:
            self._verified[id(data)] = _HAS_BEGUN

    def _begin_verification(self, data: PartitionProduceData, partition: Partition, header: BatchHeader) -> None:
        self._verified[id(data)] = partition.begin_verification(header, self._version >= FIRST_THAT_ADDS)

    def _must_ask(self) -> bool:
        return self._version >= FIRST_THAT_ADDS or self._broker.config.bool("transaction.partition.verification.enable")

    def _ask(self) -> None:
        if self._version >= FIRST_THAT_ADDS and any(
            partition.awaits_marker(header) for asked in self._asked.values() for _, partition, header in asked
        ):
            self._told(dict.fromkeys(self._asked, ErrorCode.CONCURRENT_TRANSACTIONS))
            return
        ((producer_id, epoch),) = self._producers
        transactional_id = self._request.transactional_id
        assert transactional_id is not None
        self._broker.transactions.verify_or_add(
            transactional_id,
            producer_id,
            epoch,
            list(self._asked),
            add=self._version >= FIRST_THAT_ADDS,
            done=self._told,
        )

    def _wait(self) -> Deferred:
        """Not answered at once: the request's bytes belong to somebody else when this returns."""
        for topic in self._request.topic_data:
            for data in topic.partition_data:
                if data.records is not None:
                    data.records = memoryview(bytearray(data.records))
        self._deferred = Deferred(self._cancelled, holds_order=True)
        return self._deferred

    def _told(self, codes: dict[TopicPartition, ErrorCode]) -> None:
        if self._is_over:
            return
        if (
            self._version >= FIRST_THAT_ADDS
            and ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            and self._patience.asks_again(self._ask_again)
        ):  # the markers of the transaction before are about to be written
            return
        self._is_over = True
        for name, asked in self._asked.items():
            code = codes.get(name, ErrorCode.UNKNOWN_SERVER_ERROR)
            if code is not ErrorCode.NONE:
                for data, _, _ in asked:
                    self._verified[id(data)] = self._problem(code)
        if self._deferred is not None:
            self._append_late(self._deferred)

    def _ask_again(self) -> None:
        if not self._is_over:
            for asked in self._asked.values():
                for each in asked:
                    self._begin_verification(*each)  # a marker has come since, most likely
            self._ask()

    def _append_late(self, deferred: Deferred) -> None:
        try:
            result = append_all(self._broker, self._context, self._request, self._verified)
        except Exception as problem:  # noqa: BLE001 - nobody above us belongs to this connection
            deferred.complete(problem)
            return
        if isinstance(result, Deferred):
            self._appending = result
            result.listen(deferred.complete)
        else:
            deferred.complete(result)

    def _cancelled(self) -> None:
        self._is_over = True
        if self._appending is not None:
            self._appending.cancel()

    def _problem(self, code: ErrorCode) -> KafkaError:
        """What a producer of this version understands."""
        if code is ErrorCode.PRODUCER_FENCED:
            return KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "The producer has been replaced by a later one.")
        if code is ErrorCode.TRANSACTION_ABORTABLE and self._version < FIRST_WITH_ABORTABLE:
            return KafkaError(ErrorCode.INVALID_TXN_STATE, "Partition was not added to the transaction")
        if code in _RETRIED_BY_PRODUCERS or (
            code is ErrorCode.CONCURRENT_TRANSACTIONS and self._version < FIRST_THAT_ADDS
        ):
            return KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}",
            )
        return KafkaError(code)
