"""What a producer counts, under the names that Kafka's producer has. Rates are over the last half minute or so.

Owned by the owner of the kernel; numbers are added per batch, never per record.
"""

from collections.abc import Callable
from typing import Final

from headwater.client.producer.batch import ProducerBatch

_WINDOW: Final = 30.0


class Window:
    """A sum over the last window: the part of the one before fades out as the present one grows."""

    __slots__ = ("_before", "_now", "_since")

    def __init__(self, now: float) -> None:
        self._since = now
        self._now = 0.0
        self._before = 0.0

    def add(self, amount: float, now: float) -> None:
        self._turn(now)
        self._now += amount

    def rate(self, now: float, started_at: float) -> float:
        """Per second."""
        self._turn(now)
        passed = now - self._since
        total = self._now + self._before * max(0.0, 1 - passed / _WINDOW)
        return total / max(min(_WINDOW, now - started_at), 0.001)

    def _turn(self, now: float) -> None:
        if now - self._since >= _WINDOW:
            self._before = self._now if now - self._since < 2 * _WINDOW else 0.0
            self._now = 0.0
            self._since = now


class Meter:
    def __init__(self, now: float) -> None:
        self.started_at = now
        self.records_sent = 0
        self.bytes_sent = 0
        self.batches_sent = 0
        self.raw_bytes = 0
        self.requests = 0
        self.retries = 0
        self.errors = 0
        self.splits = 0
        self.answers = 0
        self.latency_sum = 0.0
        self.latency_max = 0.0
        self.queue_time_sum = 0.0
        self.queue_time_max = 0.0
        self.throttle_ms_sum = 0
        self.blocked = 0.0  # seconds that `send` waited for memory
        self._records = Window(now)
        self._bytes = Window(now)

    def sent(self, batch: ProducerBatch, size_bytes: int, now: float) -> None:
        self.batches_sent += 1
        self.bytes_sent += size_bytes
        self.raw_bytes += batch.size_bytes
        waited = now - batch.created_at
        self.queue_time_sum += waited
        if waited > self.queue_time_max:
            self.queue_time_max = waited
        self._bytes.add(size_bytes, now)

    def answered(self, sent_at: float, now: float, throttle_ms: int) -> None:
        taken = now - sent_at
        self.answers += 1
        self.latency_sum += taken
        if taken > self.latency_max:
            self.latency_max = taken
        self.throttle_ms_sum += throttle_ms

    def finished(self, batch: ProducerBatch, now: float) -> None:
        if batch.error is None:
            self.records_sent += batch.count
            self._records.add(batch.count, now)
        else:
            self.errors += batch.count

    def snapshot(self, now: float, more: Callable[[], dict[str, float]]) -> dict[str, float]:
        batches, answers = max(self.batches_sent, 1), max(self.answers, 1)
        return {
            "record-send-total": self.records_sent,
            "record-send-rate": self._records.rate(now, self.started_at),
            "record-error-total": self.errors,
            "record-retry-total": self.retries,
            "outgoing-byte-total": self.bytes_sent,
            "outgoing-byte-rate": self._bytes.rate(now, self.started_at),
            "batch-total": self.batches_sent,
            "batch-size-avg": self.raw_bytes / batches,
            "batch-split-total": self.splits,
            "compression-rate-avg": self.bytes_sent / max(self.raw_bytes, 1),
            "records-per-request-avg": self.records_sent / max(self.requests, 1),
            "record-queue-time-avg": self.queue_time_sum / batches * 1000,
            "record-queue-time-max": self.queue_time_max * 1000,
            "request-total": self.requests,
            "request-latency-avg": self.latency_sum / answers * 1000,
            "request-latency-max": self.latency_max * 1000,
            "produce-throttle-time-avg": self.throttle_ms_sum / answers,
            "bufferpool-wait-time-total": self.blocked * 1000,
            **more(),
        }
