"""What transactions need: WRITE of the transactional id, and of the topics and groups that take part; markers are for
brokers.
"""

from typing import TYPE_CHECKING, Any

from headwater.base.acls import Operation
from headwater.base.errors import ErrorCode
from headwater.broker.rights.authorizer import Caller
from headwater.broker.rights.outcome import (
    CLUSTER_DENIED,
    GROUP_DENIED,
    TOPIC_DENIED,
    TRANSACTION_DENIED,
    Narrowed,
    Outcome,
    Refused,
    divide,
)
from headwater.broker.rights.records import name_of
from headwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from headwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from headwater.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from headwater.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from headwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from headwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from headwater.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_FIRST_OF_BROKERS = 4  # AddPartitionsToTxn: from here on brokers send it, for several transactions at once


def init_producer_id(_broker: "Broker", caller: Caller, request: InitProducerIdRequest, _version: int) -> Outcome:
    """Idempotence alone needs IDEMPOTENT_WRITE on the cluster or, since KIP-679, WRITE on any topic."""
    code = 0
    if request.transactional_id is not None:
        if not caller.may_transaction(Operation.WRITE, request.transactional_id):
            code = TRANSACTION_DENIED
    elif not caller.may_cluster(Operation.IDEMPOTENT_WRITE) and not caller.may_any_topic(Operation.WRITE):
        code = CLUSTER_DENIED
    return Refused(InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)) if code else None


def add_partitions_to_txn(
    _broker: "Broker", caller: Caller, request: AddPartitionsToTxnRequest, version: int
) -> Outcome:
    """All or nothing: beside a topic that may not be written, the others are not attempted.

    A broker asks in the name of somebody whose produce it has checked.
    """
    if version >= _FIRST_OF_BROKERS:
        if caller.may_cluster(Operation.CLUSTER_ACTION):
            return None
        return Refused(AddPartitionsToTxnResponse(error_code=CLUSTER_DENIED, results_by_transaction=[]))
    topics = request.v3_and_below_topics
    if not caller.may_transaction(Operation.WRITE, request.v3_and_below_transactional_id):
        return _not_added(topics, {}, TRANSACTION_DENIED)
    denied = [topic.name for topic in topics if not caller.may_topic(Operation.WRITE, topic.name)]
    if not denied:
        return None
    return _not_added(topics, dict.fromkeys(denied, TOPIC_DENIED), int(ErrorCode.OPERATION_NOT_ATTEMPTED))


def _not_added(topics: list[AddPartitionsToTxnTopic], codes: dict[str, int], otherwise: int) -> Refused:
    return Refused(
        AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(
                            partition_index=index, partition_error_code=codes.get(topic.name, otherwise)
                        )
                        for index in topic.partitions
                    ],
                )
                for topic in topics
            ]
        )
    )


def add_offsets_to_txn(_broker: "Broker", caller: Caller, request: AddOffsetsToTxnRequest, _version: int) -> Outcome:
    code = 0
    if not caller.may_transaction(Operation.WRITE, request.transactional_id):
        code = TRANSACTION_DENIED
    elif not caller.may_group(Operation.READ, request.group_id):
        code = GROUP_DENIED
    return Refused(AddOffsetsToTxnResponse(error_code=code)) if code else None


def end_txn(_broker: "Broker", caller: Caller, request: EndTxnRequest, _version: int) -> Outcome:
    if caller.may_transaction(Operation.WRITE, request.transactional_id):
        return None
    return Refused(EndTxnResponse(error_code=TRANSACTION_DENIED))


def txn_offset_commit(broker: "Broker", caller: Caller, request: TxnOffsetCommitRequest, _version: int) -> Outcome:
    code = 0
    if not caller.may_transaction(Operation.WRITE, request.transactional_id):
        code = TRANSACTION_DENIED
    elif not caller.may_group(Operation.READ, request.group_id):
        code = GROUP_DENIED

    def may_commit(topic: Any) -> bool:
        name = topic.name or name_of(broker, topic.topic_id)
        return not code and (name is None or caller.may_topic(Operation.READ, name))

    allowed, denied = divide(request.topics, may_commit)
    results = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code or TOPIC_DENIED)
                for part in topic.partitions
            ],
        )
        for topic in denied
    ]
    if code or (denied and not allowed):
        return Refused(TxnOffsetCommitResponse(topics=results))
    request.topics = allowed

    def complete(response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        response.topics += results
        return response

    return Narrowed(complete) if denied else None


def write_txn_markers(_broker: "Broker", caller: Caller, request: WriteTxnMarkersRequest, _version: int) -> Outcome:
    """ALTER of the cluster lets a person abort what hangs (KIP-664)."""
    if caller.may_cluster(Operation.ALTER) or caller.may_cluster(Operation.CLUSTER_ACTION):
        return None
    return Refused(
        WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(partition_index=index, error_code=CLUSTER_DENIED)
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in request.markers
            ]
        )
    )


def describe_producers(_broker: "Broker", caller: Caller, request: DescribeProducersRequest, _version: int) -> Outcome:
    request.topics, denied = divide(request.topics, lambda topic: caller.may_topic(Operation.READ, topic.name))

    def complete(response: DescribeProducersResponse) -> DescribeProducersResponse:
        response.topics += [
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(partition_index=index, error_code=TOPIC_DENIED, active_producers=[])
                    for index in topic.partition_indexes
                ],
            )
            for topic in denied
        ]
        return response

    return Narrowed(complete) if denied else None


def describe_transactions(
    _broker: "Broker", caller: Caller, request: DescribeTransactionsRequest, _version: int
) -> Outcome:
    request.transactional_ids, denied = divide(
        request.transactional_ids, lambda name: caller.may_transaction(Operation.DESCRIBE, name)
    )

    def complete(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for state in response.transaction_states:
            state.topics = [each for each in state.topics if caller.may_topic(Operation.DESCRIBE, each.topic)]
        response.transaction_states += [
            TransactionState(
                error_code=TRANSACTION_DENIED,
                transactional_id=name,
                transaction_state="",
                transaction_timeout_ms=0,
                transaction_start_time_ms=-1,
                producer_id=-1,
                producer_epoch=-1,
                topics=[],
            )
            for name in denied
        ]
        return response

    return Narrowed(complete)


def list_transactions(_broker: "Broker", caller: Caller, _request: ListTransactionsRequest, _version: int) -> Outcome:
    def complete(response: ListTransactionsResponse) -> ListTransactionsResponse:
        response.transaction_states = [
            state
            for state in response.transaction_states
            if caller.may_transaction(Operation.DESCRIBE, state.transactional_id)
        ]
        return response

    return Narrowed(complete)
