"""The log against a list as its model, on a disk that loses unflushed bytes and tears writes.

The model knows what was appended, and which states the log has gone through since the last flush that was completed.
After a crash the log must be the beginning of one of those states, and hold at least what was flushed and not truncated
since.
"""

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicId, TopicPartition
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.log import Log
from headwater.log.manager import LogManager
from headwater.log.open_files import Handles
from headwater.records.builder import build_batch
from headwater.records.reader import Record, read_batches
from headwater.sim.clock import SimClock
from headwater.sim.disk import SimDisk
from headwater.sim.scheduler import SimRandom, SimScheduler

PARTITION = TopicPartition("topic", 0)
TOPIC_ID = TopicId(bytes(range(16)))
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=150, retention_ms=5_000, file_delete_delay_ms=100)
PRODUCER_ID = 4711

Batch = tuple[int, bytes]  # base offset, the whole batch


class LogMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32))
    def start(self, seed: int) -> None:
        self.clock = SimClock()
        self.disk = SimDisk(seed)
        self.epoch = 0
        self.sequence = 0
        self.batches: list[Batch] = []
        self.end_offset = 0
        self.start_offset = 0
        self.states: list[list[Batch]] = [[]]
        self.flushed_to = 0
        self.waits_for_room = False  # our producer's next batch found none, and the log's end has not moved since
        self.manager = self.open_manager()
        self.log = self.manager.create(PARTITION, TOPIC_ID)
        self.flush()
        self.manager.write_checkpoints()
        self.disk.run()

    def open_manager(self) -> LogManager:
        self.scheduler = SimScheduler(self.clock)
        context = LogContext(self.disk, self.scheduler, SimRandom(1), Handles(open_files_max=2))
        manager = LogManager(context, ["/data"], lambda _: CONFIG)
        manager.lock()
        manager.claim("cluster", 0)
        opened: list[bool] = []
        manager.open(lambda: opened.append(True))
        assert opened
        return manager

    def reopened(self) -> Log:
        self.manager = self.open_manager()
        self.waits_for_room = False  # nothing is left of it in another process
        return self.manager.logs[PARTITION]

    def changed(self) -> None:
        self.states.append(list(self.batches))

    def next_timestamp(self) -> int:
        self.clock.advance(10)
        self.disk.now_ms = self.clock.now_ms()
        return self.clock.now_ms()

    # What can be done to a log

    @rule(count=st.integers(1, 4), size=st.integers(0, 120), idempotent=st.booleans())
    def append(self, count: int, size: int, idempotent: bool) -> None:
        now_ms = self.next_timestamp()
        records = [Record(at, now_ms, b"k", bytes(size)) for at in range(count)]
        producer = (
            {"producer_id": PRODUCER_ID, "producer_epoch": 0, "base_sequence": self.sequence} if idempotent else {}
        )
        batch = build_batch(records, **producer)
        result = self.log.append_as_leader(memoryview(batch), self.epoch, now_ms)
        assert (result.base_offset, result.last_offset) == (self.end_offset, self.end_offset + count - 1)
        assert not result.duplicate
        if idempotent:
            self.sequence += count
            again = self.log.append_as_leader(memoryview(bytearray(batch)), self.epoch, now_ms)
            assert again.duplicate
            assert again.base_offset == result.base_offset
        self.batches.append((self.end_offset, bytes(batch)))
        self.end_offset += count
        self.waits_for_room = False
        self.changed()

    @rule(missing=st.integers(1, 5))
    def append_out_of_order(self, missing: int) -> None:
        if PRODUCER_ID not in self.log.producers.producers:
            return
        record = [Record(0, self.clock.now_ms(), b"k", b"v")]
        batch = build_batch(record, producer_id=PRODUCER_ID, producer_epoch=0, base_sequence=self.sequence + missing)
        with pytest.raises(KafkaError) as caught:
            self.log.append_as_leader(memoryview(batch), self.epoch, self.clock.now_ms())
        missed = ErrorCode.KAFKA_STORAGE_ERROR if self.waits_for_room else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert caught.value.code == missed

    @rule(free_bytes=st.integers(0, 200), idempotent=st.booleans())
    def append_on_a_full_disk(self, free_bytes: int, idempotent: bool) -> None:
        self.disk.faults.free_bytes, before = free_bytes, self.disk.faults.free_bytes
        producer = (
            {"producer_id": PRODUCER_ID, "producer_epoch": 0, "base_sequence": self.sequence} if idempotent else {}
        )
        batch = build_batch([Record(0, self.clock.now_ms(), b"k", bytes(300))], **producer)
        self.waits_for_room |= idempotent
        with pytest.raises(KafkaError) as caught:
            self.log.append_as_leader(memoryview(batch), self.epoch, self.clock.now_ms())
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        self.disk.faults.free_bytes = before

    @rule(at=st.floats(0, 1))
    def truncate(self, at: float) -> None:
        """As a follower does under a new leader: to a batch border, then on under a later epoch."""
        kept = [batch for batch in self.batches if batch[0] < self.start_offset]
        rest = self.batches[len(kept) :]
        rest = rest[: round(at * len(rest))]
        offset = self.end_of(kept + rest)
        if offset < self.start_offset:
            return
        self.log.truncate_to(offset)
        self.waits_for_room &= offset == self.end_offset
        self.batches = kept + rest
        self.end_offset = offset
        self.flushed_to = min(self.flushed_to, offset)
        self.sequence = self.sequence_of(self.batches)
        self.epoch += 1
        self.changed()

    @rule(at=st.floats(0, 1))
    def delete_records(self, at: float) -> None:
        offset = self.start_offset + round(at * (self.end_offset - self.start_offset))
        self.log.delete_records_before(offset)
        self.start_offset = offset

    @rule(passed_ms=st.integers(0, 4_000))
    def apply_retention(self, passed_ms: int) -> None:
        self.pass_time(passed_ms)
        self.log.apply_retention(self.clock.now_ms())
        self.start_offset = max(self.start_offset, self.log.log_start_offset)
        assert self.log.log_start_offset == self.start_offset

    @rule(count=st.integers(0, 6))
    def disk_works(self, count: int) -> None:
        self.disk.run(count)

    @rule(passed_ms=st.integers(0, 200))
    def pass_time(self, passed_ms: int) -> None:
        self.clock.advance(passed_ms)
        self.scheduler.run_due()
        self.disk.now_ms = self.clock.now_ms()

    @rule()
    def flush(self) -> None:
        told: list[OSError | None] = []
        self.log.flush(told.append)
        self.disk.run()
        assert told == [None]
        assert self.log.recovery_point == self.end_offset
        self.flushed_to = self.end_offset
        self.states = [list(self.batches)]

    @rule()
    def checkpoint(self) -> None:
        self.manager.write_checkpoints()

    @rule()
    def reopen_cleanly(self) -> None:
        self.disk.run()
        self.manager.close()
        assert self.disk.open_references == 0
        self.flushed_to = self.end_offset
        self.states = [list(self.batches)]
        self.disk.bytes_read.clear()
        self.log = self.reopened()
        assert self.manager.clean_start
        assert not [path for path in self.disk.bytes_read if path.endswith(".log")]

    @rule()
    def crash_and_recover(self) -> None:
        self.disk.crash()
        self.log = self.reopened()
        found = self.contents()
        self.start_offset = self.log.log_start_offset
        possible = [
            state
            for state in self.states
            if [batch for batch in state if batch[0] >= self.first_offset(found)][: len(found)] == found
        ]
        assert possible, "what came back was never in the log"
        assert self.log.log_end_offset >= min(self.flushed_to, self.end_offset), "flushed data is gone"
        state = possible[-1]
        self.batches = [batch for batch in state if self.end_of([batch]) <= self.log.log_end_offset and found]
        self.end_offset = self.log.log_end_offset
        self.sequence = self.sequence_of(self.batches)
        self.epoch += 1  # a leader that comes back leads under a new epoch
        self.states = [list(self.batches)]

    @rule()
    def kill_and_recover(self) -> None:
        """The process dies, the kernel does not: nothing that was appended is lost."""
        self.disk.kill()
        self.log = self.reopened()
        assert self.log.log_start_offset <= self.start_offset
        self.start_offset = self.log.log_start_offset
        self.sequence = self.sequence_of(self.batches)
        self.epoch += 1

    # What must hold

    def first_offset(self, batches: list[Batch]) -> int:
        return batches[0][0] if batches else self.log.log_end_offset

    def end_of(self, batches: list[Batch]) -> int:
        if not batches:
            return 0
        (_, header), *_ = read_batches(batches[-1][1])
        return header.last_offset + 1

    def sequence_of(self, batches: list[Batch]) -> int:
        producer = self.log.producers.producers.get(PRODUCER_ID)
        for _, data in reversed(batches):
            (_, header), *_ = read_batches(data)
            if header.producer_id == PRODUCER_ID:
                if producer is not None:
                    assert producer.next_sequence == header.base_sequence + header.record_count
                return header.base_sequence + header.record_count
        return producer.next_sequence if producer else 0

    def contents(self) -> list[Batch]:
        """Everything that can be read, from the start of the log to its end."""
        found: list[Batch] = []
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            piece = self.log.read(offset, 400, self.log.log_end_offset, min_one_batch=True)
            assert piece is not None, f"nothing at {offset}"
            data = piece.read()
            piece.release()
            for at, header in read_batches(data):
                found.append((header.base_offset, data[at : at + header.size_bytes]))
                offset = header.last_offset + 1
        return found

    @invariant()
    def the_log_is_the_model(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.log_end_offset == self.end_offset
        assert self.log.log_start_offset == self.start_offset
        visible = [batch for batch in self.batches if self.end_of([batch]) > self.start_offset]
        assert self.contents() == visible
        assert self.log.recovery_point <= self.end_offset

    @invariant()
    def epochs_grow(self) -> None:
        if hasattr(self, "log"):
            entries = self.log.epochs.entries
            assert entries == sorted(set(entries))
            assert all(start <= self.end_offset for _, start in entries)

    @rule(at=st.floats(0, 1), max_bytes=st.integers(0, 900), upper=st.floats(0, 1))
    def read_anywhere(self, at: float, max_bytes: int, upper: float) -> None:
        offset = round(at * self.end_offset)
        if offset < self.start_offset:
            return
        borders = [base for base, _ in self.batches] + [self.end_offset]
        upper_offset = borders[round(upper * (len(borders) - 1))]
        piece = self.log.read(offset, max_bytes, upper_offset, min_one_batch=False)
        expected = [
            (base, data) for base, data in self.batches if self.end_of([(base, data)]) > offset and base < upper_offset
        ]
        if piece is None:
            assert not expected or len(expected[0][1]) > max_bytes or offset >= upper_offset
            return
        data = piece.read()
        piece.release()
        assert 0 < len(data) <= max_bytes
        assert b"".join(batch for _, batch in expected).startswith(data)
        assert [header.size_bytes for _, header in read_batches(data)]

    @rule(at=st.floats(0, 1))
    def find_by_time(self, at: float) -> None:
        visible = [batch for batch in self.batches if self.end_of([batch]) > self.start_offset]
        if visible:
            (_, header), *_ = read_batches(visible[round(at * (len(visible) - 1))][1])
            found = self.log.offset_for_timestamp(header.max_timestamp, self.end_offset)
            assert found is not None
            assert found.offset == max(header.base_offset, self.start_offset)


TestLogModel = LogMachine.TestCase
TestLogModel.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
