"""DeleteRecords (key 21), versions 0 to 2: moves the start of partitions forward; -1 stands for the high watermark.

Readers see the new start at once. Whole segments below it go with the next retention. A topic that is only compacted has
no start that may move: POLICY_VIOLATION, as in Apache Kafka.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import RequestContext
from headwater.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

HIGH_WATERMARK: Final = -1


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name,
                partitions=[
                    _delete(broker, topic.name, part.partition_index, part.offset) for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _delete(broker: "Broker", topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=0)
    try:
        partition = broker.partition(topic, index)
        log = partition.log
        if log.config.cleanup_compact and not log.config.cleanup_delete:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        if offset == HIGH_WATERMARK:
            offset = partition.high_watermark
        if not 0 <= offset <= partition.high_watermark:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        log.delete_records_before(offset)
        result.low_watermark = log.log_start_offset
    except KafkaError as problem:
        result.error_code = int(problem.code)
    return result
