"""ListOffsets (key 2), versions 1 to 11: the ends of a partition, or the first offset as late as a time.

Special timestamps: -1 latest, -2 earliest, -3 (v7) largest timestamp, -4 (v8) earliest on local disk, -5 (v9) latest in
tiered storage and -6 (v11) earliest not yet uploaded, which this broker, having no tiers, answers with offset -1.
"Latest" is what the reader may see: the high watermark, or with read_committed the last stable offset. v4 has leader
epochs. A new leader may not know yet how far its predecessor had told clients that records are committed; until it
does, it answers OFFSET_NOT_AVAILABLE rather than something that looks as if the partition had shrunk (KIP-207; before
v5: LEADER_NOT_AVAILABLE). A follower is told the log's end.
"""

import logging
from collections import Counter
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import RequestContext
from headwater.replication.partition import Partition
from headwater.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

logger = logging.getLogger("headwater.broker")

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6

_FIRST_VERSION: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
_NEVER: Final = 1 << 15
_FIRST_NOT_AVAILABLE: Final = 5
_READ_COMMITTED: Final = 1


def handle(broker: "Broker", context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    counts = Counter((topic.name, part.partition_index) for topic in request.topics for part in topic.partitions)
    topics = []
    for topic in request.topics:
        answers = []
        for part in topic.partitions:
            answer = ListOffsetsPartitionResponse(partition_index=part.partition_index, error_code=0)
            try:
                if counts[topic.name, part.partition_index] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST)
                partition = broker.partition(topic.name, part.partition_index)
                _find(partition, part, context.api_version, _upper(partition, request), answer)
            except KafkaError as problem:
                answer.error_code = int(problem.code)
            except OSError as problem:
                logger.error("event=lookup-failed topic=%s error=%r", topic.name, str(problem))
                answer.error_code = int(ErrorCode.KAFKA_STORAGE_ERROR)
            answers.append(answer)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _find(
    partition: Partition,
    asked: ListOffsetsPartition,
    version: int,
    upper: int,
    answer: ListOffsetsPartitionResponse,
) -> None:
    partition.check_leader_epoch(asked.current_leader_epoch)
    if asked.timestamp < 0 and version < _FIRST_VERSION.get(asked.timestamp, _NEVER):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    log = partition.log
    match asked.timestamp:
        case -1:
            _check_is_known(partition, version)
            answer.offset, answer.leader_epoch = upper, partition.leader_epoch
        case -2 | -4:
            answer.offset = log.log_start_offset
            answer.leader_epoch = log.epochs.epoch_of(log.log_start_offset)
        case -5 | -6:
            pass
        case timestamp:
            found = (
                log.max_timestamp_offset() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp, upper)
            )
            if found is not None and found.offset < upper:
                answer.timestamp, answer.offset, answer.leader_epoch = found
            else:
                _check_is_known(partition, version)


def _upper(partition: Partition, request: ListOffsetsRequest) -> int:
    if request.replica_id >= 0:
        return partition.log.log_end_offset
    if request.isolation_level != _READ_COMMITTED:
        return partition.high_watermark
    # An open transaction may have begun before the log does by now:
    # nobody is sent there, where he would be out of range.
    return max(partition.last_stable_offset, partition.log.log_start_offset)


def _check_is_known(partition: Partition, version: int) -> None:
    if not partition.knows_what_is_committed:
        code = ErrorCode.OFFSET_NOT_AVAILABLE if version >= _FIRST_NOT_AVAILABLE else ErrorCode.LEADER_NOT_AVAILABLE
        raise KafkaError(code)
