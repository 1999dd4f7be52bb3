"""A producer with a transactional id, on a broker that coordinates its transactions and takes its offsets."""

from typing import Any

from headwater.client.producer.transaction_manager import TransactionManager
from headwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from headwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from headwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.wire.messages.produce import ProduceRequest
from headwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from unit.client.producer.producer_fakes import Rig


class Coordinated(Rig):
    """A rig whose broker coordinates transactions. `codes` holds answers to come, by request type."""

    def __init__(self, *, new: bool, **settings: Any) -> None:
        self.epoch = 0
        self.codes: dict[type, list[int]] = {}
        super().__init__(partitions=2, **{"transactional.id": "tx", "max.block.ms": 5000, **settings})
        broker = self.broker
        if new:
            broker.finalized_features = {"transaction.version": 2}
            broker.disconnect()
        broker.coordinates()
        broker.on(InitProducerIdRequest, self._init)
        broker.on(EndTxnRequest, self._end)
        broker.on(AddPartitionsToTxnRequest, self._add_partitions)
        broker.on(
            AddOffsetsToTxnRequest, lambda _: AddOffsetsToTxnResponse(error_code=self._code(AddOffsetsToTxnRequest))
        )
        broker.on(TxnOffsetCommitRequest, self._commit_offsets)
        assert self.core.transactions is not None
        self.transactions: TransactionManager = self.core.transactions
        self.new = new

    def _code(self, kind: type) -> int:
        waiting = self.codes.get(kind)
        return waiting.pop(0) if waiting else 0

    def _init(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        code = self._code(InitProducerIdRequest)
        if not code and request.producer_id >= 0:
            self.epoch += 1
        return InitProducerIdResponse(error_code=code, producer_id=9, producer_epoch=self.epoch)

    def _end(self, request: EndTxnRequest) -> EndTxnResponse:
        code = self._code(EndTxnRequest)
        if code or not self.new:
            return EndTxnResponse(error_code=code)
        self.epoch += 1
        return EndTxnResponse(producer_id=9, producer_epoch=self.epoch)

    def _add_partitions(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        code = self._code(AddPartitionsToTxnRequest)
        topics = [
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=each, partition_error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topics)

    def _commit_offsets(self, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
        code = self._code(TxnOffsetCommitRequest)
        topics = [
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return TxnOffsetCommitResponse(topics=topics)

    def init(self) -> None:
        self.world.run(self.transactions.init())

    def commit(self) -> None:
        self.world.run(self.transactions.commit())

    def abort(self) -> None:
        self.world.run(self.transactions.abort())

    def asked(self) -> list[str]:
        """The names of the requests about transactions and records, in order."""
        kinds = (
            InitProducerIdRequest,
            AddPartitionsToTxnRequest,
            AddOffsetsToTxnRequest,
            TxnOffsetCommitRequest,
            ProduceRequest,
            EndTxnRequest,
        )
        return [
            type(request).__name__.removesuffix("Request")
            for request in self.broker.requests
            if isinstance(request, kinds)
        ]

    def versions(self, kind: type) -> set[int]:
        return {version for key, version in self.broker.request_versions if key == kind.KEY}  # type: ignore[attr-defined]
