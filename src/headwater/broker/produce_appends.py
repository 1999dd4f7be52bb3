"""Produce, the general way: each partition of a decoded request is appended or refused by itself, then answered when
its acks allow.

Both a plain produce (`handlers/produce.py`) and one in a transaction, whose partitions were verified before
(`transactional_produce.py`), end here.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicId
from headwater.base.names import is_internal_topic
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.leader_hints import TOLD_WITH, addresses_of, leader_of
from headwater.log.validation import RecordsRefused
from headwater.replication.partition import Partition
from headwater.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

ACKS_NONE: Final = 0
ACKS_LEADER: Final = 1
ACKS_ALL: Final = -1

FIRST_TOPIC_ID: Final = 13
_FIRST_WITH_LEADERS: Final = 10


def append_all(
    broker: "Broker", context: RequestContext, request: ProduceRequest, verified: Mapping[int, int | KafkaError]
) -> ProduceResponse | Deferred | None:
    """`verified`: by the identity of a partition's data, the guard of its transaction,
    or why it may not be appended.
    """
    acks = request.acks
    responses = [
        TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[])
        for topic in request.topic_data
    ]
    response = ProduceResponse(responses=responses)
    awaited: list[tuple[Partition, int, PartitionProduceResponse]] = []
    for topic, answer in zip(request.topic_data, responses, strict=True):
        for data in topic.partition_data:
            part = PartitionProduceResponse(index=data.index, error_code=0, base_offset=-1)
            answer.partition_responses.append(part)
            try:
                guard = verified.get(id(data), 0)
                if not isinstance(guard, int):
                    raise guard
                _produce_one(broker, context, request, topic, data, part, awaited, guard)
            except KafkaError as problem:
                part.error_code = int(problem.code)
                part.error_message = problem.message
                if isinstance(problem, RecordsRefused):
                    part.record_errors = [
                        BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                        for index, message in problem.records
                    ]
                if problem.code in TOLD_WITH and context.api_version >= _FIRST_WITH_LEADERS:
                    _tell_leader(broker, context, response, topic, part)
    if acks == ACKS_NONE:
        failed = next((p for t in responses for p in t.partition_responses if p.error_code), None)
        if failed is not None:
            raise KafkaError(
                ErrorCode(failed.error_code), "produce with acks=0 failed; closing is the only way to tell"
            )
        return None
    if awaited:
        return ProduceWait(broker, response, awaited, request.timeout_ms, acks).deferred
    return response


def _tell_leader(
    broker: "Broker",
    context: RequestContext,
    response: ProduceResponse,
    topic: TopicProduceData,
    answer: PartitionProduceResponse,
) -> None:
    leader = leader_of(broker, topic.name, topic.topic_id, answer.index)
    if leader is not None:
        answer.current_leader = LeaderIdAndEpoch(leader_id=leader.leader_id, leader_epoch=leader.leader_epoch)
        if all(known.node_id != leader.leader_id for known in response.node_endpoints):
            found = addresses_of(broker, context.connection.listener, [leader.leader_id])
            response.node_endpoints += [NodeEndpoint(**each._asdict()) for each in found]


def find_partition(broker: "Broker", version: int, topic: TopicProduceData, index: int) -> Partition:
    if version >= FIRST_TOPIC_ID:
        return broker.partition_of(TopicId(topic.topic_id), index)
    return broker.partition(topic.name, index)


def _produce_one(
    broker: "Broker",
    context: RequestContext,
    request: ProduceRequest,
    topic: TopicProduceData,
    data: PartitionProduceData,
    answer: PartitionProduceResponse,
    awaited: list[tuple[Partition, int, PartitionProduceResponse]],
    guard: int,
) -> None:
    if request.acks not in (ACKS_NONE, ACKS_LEADER, ACKS_ALL):
        raise KafkaError(
            ErrorCode.INVALID_REQUIRED_ACKS,
            f"acks must be 0, 1 or all (-1), not {request.acks}; 2 and more ended with Kafka 0.9",
        )
    partition = find_partition(broker, context.api_version, topic, data.index)
    if is_internal_topic(partition.topic):  # a coordinator would read it back as its own
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"clients do not write to {partition.topic}")
    if not data.records:
        raise KafkaError(ErrorCode.INVALID_RECORD, "The request has no records for the partition.")
    now_ms = broker.now_ms()
    if request.acks == ACKS_ALL:
        partition.check_enough_in_sync(now_ms)
    result = partition.append(data.records, now_ms, guard)
    answer.base_offset = result.base_offset
    answer.log_append_time_ms = result.append_time_ms
    answer.log_start_offset = result.log_start_offset
    if request.acks != ACKS_NONE and not _is_kept(partition, result.last_offset, request.acks):
        awaited.append((partition, result.last_offset, answer))


def _is_kept(partition: Partition, offset: int, acks: int) -> bool:
    """Whether the producer may be told: acks=all asks every in-sync replica, acks=1 the leader,
    which may owe a flush.
    """
    if acks == ACKS_ALL:
        return partition.is_committed(offset)
    return offset < partition.log.committable_offset


class ProduceWait:
    """A produce whose records are appended and not yet where its acks want them: on all in-sync replicas, or on the
    device.
    """

    def __init__(
        self,
        broker: "Broker",
        response: ProduceResponse,
        awaited: list[tuple[Partition, int, PartitionProduceResponse]],
        timeout_ms: int,
        acks: int = ACKS_ALL,
    ) -> None:
        self._broker = broker
        self._acks = acks
        self._response = response
        self._awaited = awaited
        self._is_woken = False
        self.deferred = Deferred(self._leave)
        self._timer = broker.scheduler.call_later(timeout_ms, self._timed_out)
        for partition, _, _ in awaited:
            partition.waiters[self] = None

    def on_progress(self, appended_bytes: int) -> None:  # noqa: ARG002
        if not self._is_woken and all(p.is_over or _is_kept(p, offset, self._acks) for p, offset, _ in self._awaited):
            self._is_woken = True
            self._broker.wake(self)

    def answer(self) -> None:
        if self.deferred.done:
            return
        for partition, offset, answer in self._awaited:
            code = ErrorCode.NONE
            if not _is_kept(partition, offset, self._acks):
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER if partition.deleted else ErrorCode.KAFKA_STORAGE_ERROR
            elif self._acks == ACKS_ALL and not partition.has_enough_in_sync:
                code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            if code is not ErrorCode.NONE:
                answer.error_code = int(code)
                answer.base_offset = -1
        self._leave()
        self.deferred.complete(self._response)

    def _timed_out(self) -> None:
        for partition, offset, answer in self._awaited:
            if not _is_kept(partition, offset, self._acks):
                answer.error_code = int(ErrorCode.REQUEST_TIMED_OUT)
                answer.base_offset = -1
        self._leave()
        self.deferred.complete(self._response)

    def _leave(self) -> None:
        self._timer.cancel()
        for partition, _, _ in self._awaited:
            partition.waiters.pop(self, None)
