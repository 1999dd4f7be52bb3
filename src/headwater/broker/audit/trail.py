"""The audit topic (`headwater.audit.topic`): one JSON object per event,
in the order in which they happened at a broker.

Events wait in a queue and are written a few times per second, to the topic's only partition: here, if this broker leads
it, otherwise by a produce request to its leader, with the rights of the brokers' own principal. Nobody waits for it: a
request is answered before its event is written. While the topic cannot be written, the queue keeps `QUEUE_MAX` changes
by administrators and as many other events; older ones are dropped and counted, and the next event that is written says
how many are missing. What waits when a broker is killed is lost.

A batch has half of the bytes that the topic takes. Where that is too much all the same (the limit was changed a moment
ago), the next one has half as many events; an event that does not fit alone is dropped and counted.

What peers say of themselves is cut, and JSON escapes what could be taken for the end of a line or an order to a
terminal. No secret is ever an argument of `record`.

Owned by the broker's loop.
"""

import json
import logging
import re
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId
from headwater.base.peers import Lane, Unreachable
from headwater.broker.audit.event_queue import Event, EventQueue
from headwater.broker.leader_hints import leader_of

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

QUEUE_MAX: Final = 10_000
BATCH_MAX: Final = 500
_TEXT_MAX: Final = 255
_WRITE_AFTER_MS: Final = 200
_TRY_AGAIN_MS: Final = 1000
_TIMEOUT_MS: Final = 10_000
_PRODUCE_VERSION: Final = 9
_ACKS_ALL: Final = -1
_NO_TOPIC_ID: Final = bytes(16)
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_UNSEEN: Final = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069]")  # DEL, C1, ends of lines, directions of text

logger = logging.getLogger("headwater.audit")


class AuditTrail:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._topic = (broker.config.string("headwater.audit.topic") or "").strip()
        self._queue = EventQueue(QUEUE_MAX)
        self._sending: list[Event] = []  # in the batch that is being written
        self._batch_max = BATCH_MAX  # fewer after a batch that was too large
        self._is_due = False  # a write is under way, or comes
        self._missing = 0  # dropped since the last event that was written
        self._problem = ""  # said once
        self.dropped = 0
        self.written = 0

    @property
    def is_on(self) -> bool:
        return bool(self._topic)

    def record(self, event: str, principal: str, host: str, **details: Any) -> None:
        """`details` are texts, numbers, or lists of them."""
        if self._topic:
            self._add(event, principal, host, details, is_change=False)

    def record_change(self, event: str, principal: str, host: str, **details: Any) -> None:
        """By an administrator: other events, however many, do not push it out."""
        if self._topic:
            self._add(event, principal, host, details, is_change=True)

    def _add(self, event: str, principal: str, host: str, details: dict[str, Any], *, is_change: bool) -> None:
        now_ms = self._broker.now_ms()
        told = {
            "time_ms": now_ms,
            "broker": self._broker.broker_id,
            "event": event,
            "principal": principal,
            "host": host,
            **details,
        }
        value = _json({name: _cut(each) for name, each in told.items()})
        key = principal[:_TEXT_MAX].encode("utf-8", "replace")
        self._count_dropped(self._queue.add(now_ms, key, value, is_change=is_change))
        self._write_later(_WRITE_AFTER_MS)

    def _count_dropped(self, count: int) -> None:
        self._missing += count
        self.dropped += count

    def _write_later(self, after_ms: int) -> None:
        if not self._is_due:
            self._is_due = True
            self._broker.scheduler.call_later(after_ms, self._write)

    def _write(self) -> None:
        self._is_due = False
        if not self._queue:
            return
        if self._topic not in self._broker.image.ids_by_name:
            self._is_due = True
            replicas = self._broker.config.int("default.replication.factor")
            self._broker.ensure_topic(self._topic, 1, replicas, {}, self._ensured)
            return
        self._append()

    def _ensured(self, problem: KafkaError | None) -> None:
        self._is_due = False
        if problem is not None:
            self._not_written(str(problem))
        else:
            self._append()

    def flush(self) -> None:
        """Before the end: what can be written without waiting."""
        self._return()
        while self._queue and self._leader() == self._broker.broker_id:
            waiting, batch_max = len(self._queue), self._batch_max
            self._append()
            if len(self._queue) >= waiting and self._batch_max >= batch_max:
                return

    def _leader(self) -> BrokerId | None:
        leader = leader_of(self._broker, self._topic, _NO_TOPIC_ID, 0)
        return None if leader is None else leader.leader_id

    def _append(self) -> None:
        if not self._queue:
            return
        leader = self._leader()
        if leader is None:
            self._not_written("the topic has no leader")
            return
        batch = self._batch()
        if leader != self._broker.broker_id:
            self._send(leader, bytes(batch))
            return
        try:
            self._broker.partition(self._topic, 0).append(memoryview(batch), self._broker.now_ms())
        except KafkaError as problem:
            self._refused(problem.code, str(problem))
        except OSError as problem:
            self._not_written(str(problem))
        else:
            self._is_written()

    def _bytes_max(self) -> int:
        """Of a batch: half of what the topic takes."""
        image = self._broker.image
        topic = image.topics[image.ids_by_name[self._topic]]
        values = self._broker.config.topic_values(topic.config)
        sizes = [values[name] for name in ("max.message.bytes", "segment.bytes")]
        return min(size for size in sizes if isinstance(size, int)) // 2

    def _batch(self) -> bytearray:
        from headwater.records.builder import build_batch
        from headwater.records.record import Record

        self._sending = self._queue.take(self._batch_max, self._bytes_max())
        told = [(event.time_ms, event.key, event.value) for event in self._sending]
        if self._missing:
            first_ms = told[0][0]
            lost = {"time_ms": first_ms, "broker": self._broker.broker_id, "event": "events-lost"}
            told.insert(0, (first_ms, b"", _json({**lost, "count": self._missing})))
        return bytearray(build_batch([Record(at, *each) for at, each in enumerate(told)]))

    def _send(self, leader: BrokerId, batch: bytes) -> None:
        from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

        peers = self._broker.peers
        assert peers is not None, "a broker that stands alone leads all partitions"
        data = [TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
        request = ProduceRequest(transactional_id=None, acks=_ACKS_ALL, timeout_ms=_TIMEOUT_MS, topic_data=data)

        def answered(response: Any, problem: Unreachable | None) -> None:
            self._is_due = False
            if problem is not None:
                self._not_written(str(problem))
                return
            code = response.responses[0].partition_responses[0].error_code
            if code:
                self._refused(ErrorCode(code), ErrorCode(code).name)
            else:
                self._is_written()

        self._is_due = True
        peers.ask(leader, Lane.CONTROL, request, _PRODUCE_VERSION, answered, timeout_ms=2 * _TIMEOUT_MS)

    def _is_written(self) -> None:
        self.written += len(self._sending)
        self._sending = []
        self._missing = 0
        self._batch_max = BATCH_MAX
        if self._problem:
            logger.info("event=audit-topic-written topic=%r", self._topic)
            self._problem = ""
        if self._queue:
            self._write_later(0)

    def _refused(self, code: ErrorCode, why: str) -> None:
        if code not in _TOO_LARGE:
            self._not_written(why)
        elif len(self._sending) > 1:
            self._batch_max = len(self._sending) // 2
            self._return()
            self._write_later(0)
        else:
            self._count_dropped(len(self._sending))
            self._sending = []
            if why != self._problem:
                self._problem = why
                logger.warning("event=audit-event-dropped topic=%r reason=%r", self._topic, why)
            if self._queue:
                self._write_later(0)

    def _not_written(self, why: str) -> None:
        """They are tried again: where only the answer was lost, events stand in the topic twice."""
        self._return()
        if why != self._problem:
            self._problem = why
            logger.warning("event=audit-not-written topic=%r reason=%r waiting=%d", self._topic, why, len(self._queue))
        self._write_later(_TRY_AGAIN_MS)

    def _return(self) -> None:
        sending, self._sending = self._sending, []
        self._count_dropped(self._queue.give_back(sending))


def _json(told: dict[str, Any]) -> bytes:
    """UTF-8, in which names of any language are short; halves of surrogate pairs, which it has not, are replaced."""
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=False)
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode("utf-8", "replace")


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _TEXT_MAX else value[:_TEXT_MAX] + "..."
    if isinstance(value, list | tuple):
        return [_cut(each) for each in value[:_TEXT_MAX]]
    return value
