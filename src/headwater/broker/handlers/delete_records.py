"""DeleteRecords (key 21), versions 0 to 2: moves the start of partitions forward; -1 stands for the high watermark.

Readers see the new start at once. Whole segments below it go with the next retention. A topic that is only compacted
has no start that may move: POLICY_VIOLATION, as in Apache Kafka.

It is answered when the logs of all replicas that live or may be elected have begun there; their lowest start is the low
watermark. Apache Kafka waits for those that live only. Who still lags when the time is over makes it REQUEST_TIMED_OUT:
the start has moved all the same, and the others follow.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.replication.partition import Partition
from headwater.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

HIGH_WATERMARK: Final = -1
_LOOK_AGAIN_MS: Final = 10


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse | Deferred:
    return _Deletion(broker).begin(request)


class _Waiting(NamedTuple):
    partition: Partition
    offset: int
    result: DeleteRecordsPartitionResult


class _Deletion:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._waiting: list[_Waiting] = []
        self._deferred = Deferred()

    def begin(self, request: DeleteRecordsRequest) -> DeleteRecordsResponse | Deferred:
        self._response = DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(
                    name=topic.name,
                    partitions=[
                        self._delete(topic.name, part.partition_index, part.offset) for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
        self._give_up_ms = self._broker.clock.monotonic_ms() + request.timeout_ms
        self._look()
        if not self._waiting:
            return self._response
        assert self._broker.replicas is not None
        self._broker.replicas.hurry_followers()
        self._look_later()
        return self._deferred

    def _delete(self, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
        result = DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=0)
        try:
            partition = self._broker.partition(topic, index)
            log = partition.log
            if log.config.cleanup_compact and not log.config.cleanup_delete:
                raise KafkaError(ErrorCode.POLICY_VIOLATION)
            if offset == HIGH_WATERMARK:
                offset = partition.high_watermark
            if not 0 <= offset <= partition.high_watermark:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            log.delete_records_before(offset)
            self._waiting.append(_Waiting(partition, offset, result))
        except KafkaError as problem:
            result.error_code = int(problem.code)
        return result

    def _look(self) -> None:
        for waiting in tuple(self._waiting):
            partition, result = waiting.partition, waiting.result
            start = partition.log.log_start_offset
            result.low_watermark = start if partition.in_sync is None else partition.in_sync.low_watermark(start)
            if result.low_watermark >= waiting.offset:
                self._waiting.remove(waiting)
            elif partition.deleted:
                self._waiting.remove(waiting)
                result.error_code, result.low_watermark = int(ErrorCode.NOT_LEADER_OR_FOLLOWER), -1

    def _look_later(self) -> None:
        self._broker.scheduler.call_later(_LOOK_AGAIN_MS, self._look_again)

    def _look_again(self) -> None:
        if self._deferred.done:
            return
        self._look()
        if self._waiting and self._broker.clock.monotonic_ms() < self._give_up_ms:
            self._look_later()
            return
        for waiting in self._waiting:
            waiting.result.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
        self._deferred.complete(self._response)
