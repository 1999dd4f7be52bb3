"""Shards that are being read from their logs: a few records in each turn of the loop, so that everybody else is served
in between.

A broker that takes over the coordinators of another has many to read at once. They take turns; one that is small is
ready long before one that is large.

Owned by the runtime of one internal topic, on the broker's loop.
"""

import logging
from collections import deque
from collections.abc import Generator, Iterator
from typing import Final, Protocol

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import Scheduler
from headwater.coordinator.effects import CoordinatorRecord, Producer
from headwater.log.log import Log
from headwater.records.batch import BatchHeader
from headwater.records.control import read_end_transaction_marker
from headwater.records.reader import read_batches, read_records

RECORDS_PER_TURN: Final = 200  # some milliseconds
_BYTES_LIKE_A_RECORD: Final = 256  # two members of a classic group
_READ_BYTES: Final = 1 << 18
_BATCH_BYTES_MAX: Final = 128 << 20

logger = logging.getLogger("headwater.broker")


class Replayed(Protocol):
    def replay(self, record: CoordinatorRecord, producer: Producer | None) -> None: ...

    def replay_marker(self, producer: Producer, *, committed: bool) -> None: ...


class Loading:
    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: deque[Iterator[int]] = deque()
        self._is_planned = False

    def begin(self, steps: Iterator[int]) -> None:
        """Each step tells how many records it took. What follows when they are over is their own business."""
        self._waiting.append(steps)
        self._plan()

    def _plan(self) -> None:
        if self._waiting and not self._is_planned:
            self._is_planned = True
            self._scheduler.call_later(0, self._turn)

    def _turn(self) -> None:
        self._is_planned = False
        taken = 0
        waiting = self._waiting
        while waiting and taken < RECORDS_PER_TURN:
            steps = waiting.popleft()
            try:
                count = next(steps, None)
            except Exception:  # the others are loaded all the same
                logger.exception("event=coordinator-not-loaded")
                continue
            if count is not None:
                taken += count
                waiting.append(steps)
        self._plan()


def replay_log(log: Log, shard: Replayed, offset: int) -> Generator[int, None, int]:
    """Tells the shard all that stands in its log from there on, past the high watermark too. Gives the end of what was
    read.
    """
    _check_files(log)
    while offset < log.log_end_offset:
        piece = log.read(offset, _READ_BYTES, log.log_end_offset, min_one_batch=True)
        if piece is None:
            break
        try:
            data = piece.read()
        finally:
            piece.release()
        if not data:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{log.partition}: its file ends before offset {offset}")
        for at, header in read_batches(data):
            yield from _replay_batch(header, data[at : at + header.size_bytes], shard)
            offset = header.last_offset + 1
    return log.log_end_offset


def _check_files(log: Log) -> None:
    """A file that somebody has cut looks like one whose last records were compacted away: what it had would be passed
    over.
    """
    for segment in log.segments:
        if segment.size_bytes and segment.open_file().size() < segment.size_bytes:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{log.partition}: the segment of offset {segment.base_offset} is shorter than it was",
            )


def _replay_batch(header: BatchHeader, batch: bytes, shard: Replayed) -> Iterator[int]:
    """Most batches are of a few records; a large one is cut. A record counts by its size too: that of a group holds all
    its members.
    """
    producer = Producer(header.producer_id, header.producer_epoch)
    of_transaction = producer if header.is_transactional else None
    taken = 1  # an empty batch, too, takes its time
    for record in read_records(batch, _BATCH_BYTES_MAX):
        if header.is_control:
            marker = read_end_transaction_marker(record)
            if marker is not None:
                shard.replay_marker(producer, committed=marker.committed)
        elif record.key is not None:
            shard.replay(CoordinatorRecord(record.key, record.value), of_transaction)
        taken += 1 if record.value is None else 1 + len(record.value) // _BYTES_LIKE_A_RECORD
        if taken >= RECORDS_PER_TURN:
            yield taken
            taken = 0
    yield taken
