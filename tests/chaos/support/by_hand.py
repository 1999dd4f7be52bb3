"""A transactional producer by hand: it sends what no client would, such as a request of long ago, to whom it is told
to.
"""

import time
from typing import Any

from chaos.support import asking
from chaos.support.cluster import Cluster
from chaos.support.processes import WAIT_S
from compat.support.members import until
from headwater.base.errors import ErrorCode
from headwater.records.builder import build_batch
from headwater.records.record import Record
from headwater.wire.messages.end_txn import EndTxnRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.init_producer_id import InitProducerIdRequest
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from headwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

GROUP, TRANSACTION = 0, 1  # the types of keys
TRY_AGAIN = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION,
}


def coordinator(cluster: Cluster, transactional_id: str, key_type: int = TRANSACTION) -> int:
    """Asked for, which also makes the topic of transactions; one that lives is waited for."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[transactional_id])

    def found() -> int:
        answer = ask(cluster, cluster.well()[0], request, 4).coordinators[0]
        return answer.node_id if answer.error_code == 0 and answer.node_id in cluster.well() else 0

    return int(until(found, f"{transactional_id} has no coordinator", WAIT_S))


def ask(cluster: Cluster, broker: int, request: Any, version: int) -> Any:
    return asking.ask(cluster.members[broker].port, request, version)


class ByHand:
    """Transactions of version 2 (KIP-890): a partition is added by writing to it, and each end of a transaction bumps
    the epoch.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, topic: str) -> None:
        self._cluster, self._id, self._topic = cluster, transactional_id, topic
        self._sequence = 0
        self.producer_id, self.epoch = -1, -1

    def init(self) -> None:
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=WAIT_S * 1000)
        answer = self._of_coordinator(request, 5)
        assert answer.error_code == 0, answer
        self.producer_id, self.epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0

    def send(self, value: bytes) -> int:
        """The error code."""
        batch = build_batch(
            [Record(0, int(time.time() * 1000), None, value, ())],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        partition = PartitionProduceData(index=0, records=bytes(batch))
        request = ProduceRequest(
            transactional_id=self._id,
            acks=-1,
            timeout_ms=WAIT_S * 1000,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[partition])],
        )

        def answer() -> Any:
            try:
                response = ask(self._cluster, self._cluster.leader(self._topic), request, 12)
            except ConnectionError:
                return None  # the leader died
            found = response.responses[0].partition_responses[0]
            return None if found.error_code in TRY_AGAIN else found

        found = until(answer, "the record is not taken", WAIT_S)
        if found.error_code == 0:
            self._sequence += 1
        return int(found.error_code)

    def send_offset(self, group: str, offset: int) -> int:
        """Of the topic's only partition, by the group of this name, which has no members. The error code."""
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self._topic, partitions=[part])],
        )

        def answer() -> Any:
            try:
                response = ask(self._cluster, coordinator(self._cluster, group, GROUP), request, 5)
            except ConnectionError:
                return None  # it died
            found = response.topics[0].partitions[0]
            return None if found.error_code in TRY_AGAIN else found

        return int(until(answer, "the offset is not taken", WAIT_S).error_code)

    def end(self, *, committed: bool) -> EndTxnRequest:
        """What was sent, so that it can be sent again."""
        request = EndTxnRequest(
            transactional_id=self._id, producer_id=self.producer_id, producer_epoch=self.epoch, committed=committed
        )
        answer = self._of_coordinator(request, 5)
        assert answer.error_code == 0, answer
        self.producer_id, self.epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0
        return request

    def replay(self, request: EndTxnRequest) -> int:
        """The error code that a request of long ago gets now."""
        return int(self._of_coordinator(request, 5).error_code)

    def _of_coordinator(self, request: Any, version: int) -> Any:
        def answer() -> Any:
            try:
                response = ask(self._cluster, coordinator(self._cluster, self._id), request, version)
            except ConnectionError:
                return None  # it died
            return None if response.error_code in TRY_AGAIN else response

        return until(answer, f"no answer to {request}", WAIT_S)
