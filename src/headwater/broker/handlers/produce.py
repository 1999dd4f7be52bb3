"""Produce (key 0), versions 3 to 13; 0 to 2 are advertised only (see broker/registry.py).

Each partition of a request stands for itself: its batches are appended or refused with a code of their own. acks=0 gets no
answer, and an error then closes the connection, which is the only way to tell. acks=1 is answered after the append. acks=all
(-1) is answered when the high watermark has passed the last record, or with REQUEST_TIMED_OUT; there must be enough in-sync
replicas before the append. v8 has error messages, v9 is flexible, v10 names the leader on NOT_LEADER, v13 has topic ids.

`handle_frame` is the hot path: one topic, one partition, appended and committed in one go; in a transaction only if it has begun
there, or its coordinator is here and knows of it. It works on the
bytes of the frame without decoding it into objects, and gives up (None) before it has changed anything whenever a request
is not of that shape; `handle` is the general way and means the same. NON_OBVIOUS.md tells what may not be put in here.
"""

import struct
from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicId
from headwater.base.names import is_internal_topic
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.moved import TOLD_WITH, addresses_of, leader_of
from headwater.replication.partition import Partition
from headwater.wire.headers import response_header_bytes
from headwater.wire.messages.produce import (
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

_FIRST_FLEXIBLE: Final = 9
_FIRST_WITH_LEADERS: Final = 10
_FIRST_TOPIC_ID: Final = 13
_LAST: Final = 13

_SHORT: Final = Struct(">h")
# Behind a transactional id, its last bytes stand where its length does here.
_CLASSIC_BODY: Final = Struct(">hhiih")  # length of the transactional id, acks, timeout, one topic, length of its name
_CLASSIC_PARTITION: Final = Struct(">iii")  # one partition, its index, length of its records
_FLEXIBLE_BODY: Final = Struct(">BBhiB")  # no header tags, length of the transactional id, acks, timeout, one topic
_FLEXIBLE_PARTITION: Final = Struct(">Bi")  # one partition, its index
_VARINT_SHIFT_MAX: Final = 28  # of the fifth byte, the last that 32 bits can have
_NO_TAGS: Final = b"\0\0\0"  # partition, topic, request


def handle_frame(
    broker: "Broker", frame: memoryview, at: int, end: int, version: int, correlation_id: int
) -> bytes | None:
    """The whole answer, framed (empty for acks=0), or None: take the general way. `at` is behind the correlation id."""
    transactional_id = None
    try:
        (size,) = _SHORT.unpack_from(frame, at)  # the client id
        at += 2 + size if size > 0 else 2  # null is -1
        if version < _FIRST_FLEXIBLE:
            if version < 3:
                return None
            transaction, acks, _, topics, size = _CLASSIC_BODY.unpack_from(frame, at)
            if transaction >= 0:
                transactional_id = bytes(frame[at + 2 : at + 2 + transaction])
                at += transaction
                _, acks, _, topics, size = _CLASSIC_BODY.unpack_from(frame, at)
            if transaction < -1 or topics != 1 or size < 0:
                return None
            at += 14 + size
            partitions = broker.partitions_by_wire_name.get(bytes(frame[at - size : at]))
            one, index, size = _CLASSIC_PARTITION.unpack_from(frame, at)
            at += 12
            if one != 1 or at + size != end:
                return None
        else:
            tags, transaction, acks, _, topics = _FLEXIBLE_BODY.unpack_from(frame, at)
            if transaction:  # one more than the length of its id
                transactional_id = bytes(frame[at + 2 : at + 1 + transaction])
                at += transaction - 1
                _, _, acks, _, topics = _FLEXIBLE_BODY.unpack_from(frame, at)
            if tags or transaction > 127 or topics != 2 or version > _LAST:
                return None
            at += 9
            if version < _FIRST_TOPIC_ID:
                size = frame[at]  # one more than the length of the name
                if size > 127:
                    return None
                at += size
                partitions = broker.partitions_by_wire_name.get(bytes(frame[at + 1 - size : at]))
            else:
                at += 16
                partitions = broker.partitions_by_topic_id.get(bytes(frame[at - 16 : at]))
            one, index = _FLEXIBLE_PARTITION.unpack_from(frame, at)
            at += 5
            size = shift = 0
            while (byte := frame[at]) > 127:
                size |= (byte & 127) << shift
                shift += 7
                at += 1
                if shift > _VARINT_SHIFT_MAX:
                    return None  # a whole frame of such bytes would make a number of its size, byte by byte
            size = (size | byte << shift) - 1
            at += 1
            if one != 2 or at + size + 3 != end or bytes(frame[at + size : end]) != _NO_TAGS:
                return None
        if partitions is None or size <= 0 or index < 0 or not -1 <= acks <= 1:
            return None
        partition = partitions[index]
        if not partition.is_alone:
            return None
        if transactional_id is None:
            result = partition.append(frame[at : at + size], broker.now_ms())
        else:
            from headwater.broker.transactional_produce import append_at_once  # not at start-up

            result = append_at_once(broker, partition, transactional_id, frame[at : at + size], acks, version)
    except (struct.error, IndexError, KafkaError):
        return None  # the general way says what is wrong; nothing was appended
    if result is None:
        return None
    if acks == ACKS_NONE:
        return b""
    reply = partition.produce_replies.get(version)
    if reply is None:
        reply = partition.produce_replies[version] = _reply_for(partition, version)
    pack, size, before, behind = reply
    answer: bytes = pack(
        size, correlation_id, before, result.base_offset, result.append_time_ms, result.log_start_offset, behind
    )
    return answer


def _reply_for(partition: Partition, version: int) -> tuple[Any, int, bytes, bytes]:
    """What is the same in every answer for this partition: cut out of one that the general encoder made."""
    marks = (0x1111111111111111, 0x2222222222222222, 0x3333333333333333)
    sample = PartitionProduceResponse(
        index=partition.index,
        error_code=0,
        base_offset=marks[0],
        log_append_time_ms=marks[1],
        log_start_offset=marks[2],
    )
    topic = TopicProduceResponse(name=partition.topic, topic_id=partition.topic_id, partition_responses=[sample])
    body = response_header_bytes(0, version, 0)[4:] + b"".join(ProduceResponse(responses=[topic]).encode(version))
    has_start = version >= 5
    offsets = Struct(">qqq").pack(*marks) if has_start else Struct(">qq").pack(*marks[:2])
    before, behind = body.split(offsets)
    if has_start:
        whole = Struct(f">ii{len(before)}sqqq{len(behind)}s")
        return whole.pack, whole.size - 4, before, behind
    old = Struct(f">ii{len(before)}sqq{len(behind)}s")

    def pack_old(
        size: int, correlation: int, start: bytes, base: int, time_ms: int, _log_start: int, rest: bytes
    ) -> bytes:
        return old.pack(size, correlation, start, base, time_ms, rest)

    return pack_old, old.size - 4, before, behind


def handle(broker: "Broker", context: RequestContext, request: ProduceRequest) -> ProduceResponse | Deferred | None:
    if request.transactional_id is None:
        return append_all(broker, context, request, {})
    from headwater.broker.transactional_produce import TransactionalProduce  # not at start-up

    return TransactionalProduce(broker, context, request).begin()


def append_all(
    broker: "Broker", context: RequestContext, request: ProduceRequest, verified: Mapping[int, int | KafkaError]
) -> ProduceResponse | Deferred | None:
    """`verified`: by the identity of a partition's data, the guard of its transaction, or why it may not be appended."""
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
    if version >= _FIRST_TOPIC_ID:
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
    if request.acks == ACKS_ALL:
        partition.check_enough_in_sync()
    result = partition.append(data.records, broker.now_ms(), guard)
    answer.base_offset = result.base_offset
    answer.log_append_time_ms = result.append_time_ms
    answer.log_start_offset = result.log_start_offset
    if request.acks != ACKS_NONE and not _is_kept(partition, result.last_offset, request.acks):
        awaited.append((partition, result.last_offset, answer))


def _is_kept(partition: Partition, offset: int, acks: int) -> bool:
    """Whether the producer may be told: acks=all asks every in-sync replica, acks=1 the leader, which may owe a flush."""
    if acks == ACKS_ALL:
        return partition.is_committed(offset)
    return offset < partition.log.committable_offset


class ProduceWait:
    """A produce whose records are appended and not yet where its acks want them: on all in-sync replicas, or on the device."""

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
