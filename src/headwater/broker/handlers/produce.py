"""Produce (key 0), versions 3 to 13; 0 to 2 are advertised only (see broker/registry.py).

Each partition of a request stands for itself: its batches are appended or refused with a code of their own. acks=0 gets
no answer, and an error then closes the connection, which is the only way to tell. acks=1 is answered after the append.
acks=all (-1) is answered when the high watermark has passed the last record, or with REQUEST_TIMED_OUT; there must be
enough in-sync replicas before the append. v8 has error messages, and names the records for which a batch is refused
(KIP-467). v9 is flexible, v10 names the leader on NOT_LEADER, v13 has topic ids.

`handle_frame` is the hot path: one topic, one partition, appended and committed in one go; in a transaction only if it
has begun there, or its coordinator is here and knows of it. It works on the bytes of the frame without decoding it into
objects, and gives up (None) before it has changed anything whenever a request is not of that shape; `handle` is the
general way and means the same. NON_OBVIOUS.md tells what may not be put in here.
"""

import struct
from collections.abc import Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import KafkaError
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.produce_appends import ACKS_NONE, FIRST_TOPIC_ID, append_all
from headwater.broker.rights.connection_rights import ConnectionRights
from headwater.replication.partition import Partition
from headwater.wire.headers import response_header_bytes
from headwater.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_FIRST_FLEXIBLE: Final = 9
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
    asked: "Broker | ConnectionRights", frame: memoryview, at: int, end: int, version: int, correlation_id: int
) -> bytes | None:
    """The whole answer, framed (empty for acks=0), or None: take the general way. `at` is behind the correlation id.

    `asked` is the broker or, where its sender has access rules, the rights of its connection, which then have to allow
    it.
    """
    transactional_id = None
    rights = None
    if type(asked) is ConnectionRights:
        rights, broker = asked, asked.broker
        if not rights.hold():
            return None
    else:
        broker = asked
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
            if version < FIRST_TOPIC_ID:
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
    except (struct.error, IndexError):
        return None  # the general way says what is wrong
    if not partition.is_alone:
        return None
    if rights is not None and (transactional_id is not None or partition.topic_id not in rights.writable):
        return None
    try:
        if transactional_id is None:
            result = partition.append(frame[at : at + size], broker.now_ms())
        else:
            from headwater.broker.transactional_produce import append_at_once  # not at start-up

            result = append_at_once(broker, partition, transactional_id, frame[at : at + size], acks, version)
    except KafkaError:
        return None  # refused before the write: the general way says why. Anything else may come from behind the write
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
    if broker.schema_policies:  # of some topics; the hot path does not find those
        from headwater.broker.validated_produce import validated  # not at start-up

        return validated(broker, request, lambda refused: _append(broker, context, request, refused))
    return _append(broker, context, request, {})


def _append(
    broker: "Broker", context: RequestContext, request: ProduceRequest, refused: Mapping[int, KafkaError]
) -> ProduceResponse | Deferred | None:
    """`refused`: by the identity of a partition's data, why it may not be appended."""
    if request.transactional_id is None:
        return append_all(broker, context, request, refused)
    from headwater.broker.transactional_produce import TransactionalProduce  # not at start-up

    return TransactionalProduce(broker, context, request, refused).begin()
