"""The audit topic (`headwater.audit.topic`): one JSON object per event, in the order in which they happened at a broker.

Events wait in a queue and are written a few times per second, to the topic's only partition: here, if this broker leads
it, otherwise by a produce request to its leader, with the rights of the brokers' own principal. Nobody waits for it: a
request is answered before its event is written. While the topic cannot be written, the queue keeps `QUEUE_MAX` events;
older ones are dropped and counted, and the next event that is written says how many are missing. What waits when a
broker is killed is lost.

What peers say of themselves is cut, and JSON escapes it. No secret is ever an argument of `record`.

Owned by the broker's loop.
"""

import json
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId
from headwater.base.peers import Lane, Unreachable
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

logger = logging.getLogger("headwater.audit")


class AuditTrail:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._topic = (broker.config.string("headwater.audit.topic") or "").strip()
        self._queue: deque[tuple[int, bytes, bytes]] = deque()  # time, key, value
        self._sending: list[tuple[int, bytes, bytes]] = []  # in the batch that is being written
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
        if not self._topic:
            return
        now_ms = self._broker.now_ms()
        told = {
            "time_ms": now_ms,
            "broker": self._broker.broker_id,
            "event": event,
            "principal": principal,
            "host": host,
            **details,
        }
        value = json.dumps({name: _cut(each) for name, each in told.items()}, separators=(",", ":"))
        self._queue.append((now_ms, principal[:_TEXT_MAX].encode("utf-8", "replace"), value.encode()))
        self._drop_oldest()
        self._write_later(_WRITE_AFTER_MS)

    def _drop_oldest(self) -> None:
        while len(self._queue) > QUEUE_MAX:
            self._queue.popleft()
            self._missing += 1
            self.dropped += 1

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
            waiting = len(self._queue)
            self._append()
            if len(self._queue) >= waiting:
                return

    def _leader(self) -> BrokerId | None:
        leader = leader_of(self._broker, self._topic, _NO_TOPIC_ID, 0)
        return None if leader is None else leader.leader_id

    def _append(self) -> None:
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
        except (KafkaError, OSError) as problem:
            self._not_written(str(problem))
        else:
            self._is_written()

    def _batch(self) -> bytearray:
        from headwater.records.builder import build_batch
        from headwater.records.record import Record

        self._sending = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_MAX))]
        told = self._sending
        if self._missing:
            first_ms = told[0][0]
            lost = {"time_ms": first_ms, "broker": self._broker.broker_id, "event": "events-lost"}
            text = json.dumps({**lost, "count": self._missing}, separators=(",", ":"))
            told = [(first_ms, b"", text.encode()), *told]
        return bytearray(build_batch([Record(at, *each) for at, each in enumerate(told)]))

    def _send(self, leader: BrokerId, batch: bytes) -> None:
        from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

        peers = self._broker.peers
        assert peers is not None, "a broker that stands alone leads all partitions"
        data = [TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
        request = ProduceRequest(transactional_id=None, acks=_ACKS_ALL, timeout_ms=_TIMEOUT_MS, topic_data=data)

        def answered(response: Any, problem: Unreachable | None) -> None:
            self._is_due = False
            code = 0 if problem is not None else response.responses[0].partition_responses[0].error_code
            if problem is not None or code:
                self._not_written(str(problem) if problem is not None else ErrorCode(code).name)
            else:
                self._is_written()

        self._is_due = True
        peers.ask(leader, Lane.CONTROL, request, _PRODUCE_VERSION, answered, timeout_ms=2 * _TIMEOUT_MS)

    def _is_written(self) -> None:
        self.written += len(self._sending)
        self._sending = []
        self._missing = 0
        if self._problem:
            logger.info("event=audit-topic-written topic=%r", self._topic)
            self._problem = ""
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
        self._queue.extendleft(reversed(self._sending))
        self._sending = []
        self._drop_oldest()


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= _TEXT_MAX else value[:_TEXT_MAX] + "..."
    if isinstance(value, list | tuple):
        return [_cut(each) for each in value[:_TEXT_MAX]]
    return value
