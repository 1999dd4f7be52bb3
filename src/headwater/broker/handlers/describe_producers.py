"""DescribeProducers (key 61), version 0: the producers that a partition's log knows, and where their open transactions
begin.

Asked of any broker that has a replica: what it tells is that replica's. What is told is what decides on the next
batch: epoch, last sequence (-1 when no batch is known), the newest timestamp, the epoch of the coordinator that wrote
the last marker.
"""

from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.names import validate_topic_name
from headwater.broker.context import RequestContext
from headwater.log.producer_state import NONE, Producer
from headwater.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: DescribeProducersRequest,
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[_describe(broker, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _describe(broker: "Broker", topic: str, index: int) -> PartitionResponse:
    result = PartitionResponse(partition_index=index, error_code=0, error_message=None, active_producers=[])
    try:
        validate_topic_name(topic)
        log = broker.replica_of(broker.image.topic(topic).topic_id, index).log
    except KafkaError as problem:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if problem.code == ErrorCode.UNKNOWN_TOPIC_ID else problem.code
        result.error_code, result.error_message = int(code), problem.message
        return result
    result.active_producers = [_state(producer) for producer in log.producers.producers.values()]
    return result


def _state(producer: Producer) -> ProducerState:
    last = producer.last_batch()
    return ProducerState(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        last_sequence=NONE if last is None else last.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_first_offset,
    )
