"""Compaction against a list as its model: keys, tombstones, producers and transactions, cleaned at random moments, on a
disk that dies at any step of it.

What a reader of committed records sees must always be a part of what was written, in order, with the last record of
each key in it; the offsets, the producers' sequences and the last stable offset are what they were.
"""

from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from headwater.base.ids import TopicId, TopicPartition
from headwater.log.compaction.cleaner import CleanerSettings
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.manager import LogManager
from headwater.log.open_files import Handles
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record, read_batches, read_records
from headwater.sim.clock import SimClock
from headwater.sim.dying import DyingDisk, DyingError
from headwater.sim.scheduler import SimRandom, SimScheduler

PARTITION = TopicPartition("topic", 0)
TOPIC_ID = TopicId(bytes(range(16)))
RETENTION_MS = 500
CONFIG = LogConfig(
    segment_bytes=600,
    index_interval_bytes=150,
    file_delete_delay_ms=100,
    cleanup_compact=True,
    cleanup_delete=False,
    delete_retention_ms=RETENTION_MS,
    min_cleanable_dirty_ratio=0.01,
)
ENOUGH_BYTES = 1 << 20  # for all keys at once
KEYS = [b"", b"a", b"b", b"c", b"d", b"e"]
VALUES = st.lists(st.tuples(st.sampled_from(KEYS), st.booleans(), st.integers(0, 60)), min_size=1, max_size=4)


class CompactionMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 2**32), map_bytes=st.sampled_from([1, 400, 700, ENOUGH_BYTES, ENOUGH_BYTES]))
    def start(self, seed: int, map_bytes: int) -> None:
        self.clock = SimClock()
        self.disk = DyingDisk(seed)
        self.map_bytes = map_bytes
        self.committed: dict[int, Record] = {}  # by offset
        self.written_ms: dict[int, int] = {}
        self.sequences = {1: 0, 2: 0, 3: 0}
        self.open_transactions: dict[int, list[Record]] = {}
        self.epoch = 0
        self.manager = self.open_manager()
        self.log = self.manager.create(PARTITION, TOPIC_ID)
        self.settle()

    def open_manager(self) -> LogManager:
        self.scheduler = SimScheduler(self.clock)
        context = LogContext(self.disk, self.scheduler, SimRandom(1), Handles(open_files_max=3))
        manager = LogManager(
            context, ["/data"], lambda _: CONFIG, None, lambda: CleanerSettings(map_bytes=self.map_bytes, backoff_ms=0)
        )
        manager.lock()
        manager.claim("cluster", 0)
        manager.open(lambda: None)
        return manager

    def settle(self) -> None:
        self.log.flush()
        self.disk.run()
        self.manager.write_checkpoints()
        self.disk.run()

    # What can be done

    def records(self, values: list[tuple[bytes, bool, int]]) -> list[Record]:
        self.clock.advance(10)
        now_ms, offset = self.clock.now_ms(), self.log.log_end_offset
        return [
            Record(offset + at, now_ms + at, key, bytes([at]) * size if has_value else None, (("h", b"x"),))
            for at, (key, has_value, size) in enumerate(values)
        ]

    def append(self, records: list[Record], **fields: Any) -> None:
        base_offset = self.log.log_end_offset
        batch = build_batch(records, base_offset=base_offset, **fields)
        result = self.log.append_as_leader(memoryview(batch), self.epoch, self.clock.now_ms())
        assert result.base_offset == base_offset
        self.written_ms |= {record.offset: self.clock.now_ms() for record in records}

    @rule(values=VALUES, codec=st.sampled_from([0, 0, 1, 3]))
    def append_plain(self, values: list[tuple[bytes, bool, int]], codec: int) -> None:
        records = self.records(values)
        self.append(records, codec=codec)
        self.committed |= {record.offset: record for record in records}

    @rule(values=VALUES, producer_id=st.sampled_from([1, 2, 3]), transactional=st.booleans())
    def append_idempotent(self, values: list[tuple[bytes, bool, int]], producer_id: int, transactional: bool) -> None:
        transactional = transactional or producer_id in self.open_transactions
        records = self.records(values)
        self.append(
            records,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=self.sequences[producer_id],
            transactional=transactional,
        )
        self.sequences[producer_id] += len(records)
        if transactional:
            self.open_transactions.setdefault(producer_id, []).extend(records)
        else:
            self.committed |= {record.offset: record for record in records}

    @rule(commit=st.booleans(), producer_id=st.sampled_from([1, 2, 3]))
    def end_transaction(self, commit: bool, producer_id: int) -> None:
        if producer_id not in self.open_transactions:
            return
        marker = EndTransactionMarker(commit, 0)
        batch = build_end_transaction_marker(
            marker, producer_id=producer_id, producer_epoch=0, timestamp=self.clock.now_ms()
        )
        self.log.append_own(memoryview(batch), self.epoch, self.clock.now_ms(), marker)
        records = self.open_transactions.pop(producer_id)
        if commit:
            self.committed |= {record.offset: record for record in records}

    @rule(passed_ms=st.integers(0, 2 * RETENTION_MS))
    def pass_time(self, passed_ms: int) -> None:
        self.clock.advance(passed_ms)
        self.scheduler.run_due()
        self.disk.run()

    def clean(self) -> None:
        for _ in range(30):
            self.manager.cleaner.tick(self.clock.now_ms(), self.clock.monotonic_ms())
            self.scheduler.run_due()
            self.disk.run()
            if not self.manager.cleaner.busy_count:
                break
        assert self.manager.cleaner.counts.failures == 0
        assert self.manager.cleaner.busy_count == 0
        if self.map_bytes >= ENOUGH_BYTES and PARTITION in self.manager.cleaner.clean_to:
            clean_to = self.manager.cleaner.clean_to[PARTITION]
            keys = [record.key for record in self.read(0) if record.offset < clean_to]
            assert len(keys) == len(set(keys)), "a key is there twice"

    @rule()
    def clean_and_go_on(self) -> None:
        self.settle()
        self.clean()

    @rule()
    def clean_until_the_horizons_have_passed(self) -> None:
        for _ in range(3):
            self.append_plain([(b"filler", True, 60)] * 4, 0)
            self.append_plain([(b"filler", True, 60)] * 4, 0)
            self.settle()
            self.clean()
            self.pass_time(2 * RETENTION_MS)
        self.everything_again_from_the_records_alone()

    @rule(values=VALUES)
    def append_while_the_worker_is_busy(self, values: list[tuple[bytes, bool, int]]) -> None:
        self.settle()
        self.manager.cleaner.tick(self.clock.now_ms(), self.clock.monotonic_ms())
        self.append_plain(values, 0)
        self.clean()

    @rule(steps=st.integers(0, 60), crash=st.booleans())
    def die_while_cleaning(self, steps: int, crash: bool) -> None:
        self.settle()
        self.disk.left = steps
        with suppress(DyingError):
            self.clean()
        self.disk.left = None
        self.restart(crash)

    @rule(steps=st.integers(0, 25), again=st.integers(0, 25))
    def die_while_recovering_from_it(self, steps: int, again: int) -> None:
        self.settle()
        self.disk.left = steps
        with suppress(DyingError):
            self.clean()
        self.disk.crash()
        self.disk.left = again
        with suppress(DyingError):
            self.open_manager()
        self.disk.left = None
        self.restart(True)

    def restart(self, crash: bool) -> None:
        self.disk.crash() if crash else self.disk.kill()
        self.manager = self.open_manager()
        self.log = self.manager.logs[PARTITION]
        self.epoch += 1
        left = [name for name in self.disk.list_directory("/data/topic-0") if name.endswith((".cleaned", ".swap"))]
        assert not left

    @rule()
    def reopen_cleanly(self) -> None:
        self.disk.run()
        self.manager.close()
        assert self.disk.open_references == 0
        self.manager = self.open_manager()
        self.log = self.manager.logs[PARTITION]

    # What must hold

    def read(self, offset: int) -> list[Record]:
        """As a consumer of committed records does it."""
        end_offset = self.log.last_stable_offset(self.log.log_end_offset)
        found: list[Record] = []
        while offset < end_offset:
            piece = self.log.read(offset, 400, end_offset, min_one_batch=True)
            if piece is None:
                break
            data = piece.read()
            piece.release()
            for at, header in read_batches(data):
                batch = data[at : at + header.size_bytes]
                records = read_records(batch, 1 << 20)
                aborted = [
                    entry
                    for entry in self.log.aborted_transactions(header.base_offset, header.last_offset + 1)
                    if entry.producer_id == header.producer_id and header.is_transactional
                ]
                if not header.is_control and not aborted:
                    found += [record for record in records if record.offset >= offset]
                assert header.last_offset >= offset
                offset = header.last_offset + 1
        return found

    @invariant()
    def the_last_of_each_key_is_there(self) -> None:
        if not hasattr(self, "log"):
            return
        end_offset = self.log.last_stable_offset(self.log.log_end_offset)
        first_open = min((records[0].offset for records in self.open_transactions.values()), default=None)
        assert end_offset == (self.log.log_end_offset if first_open is None else first_open)
        stable = {offset: record for offset, record in self.committed.items() if offset < end_offset}
        seen = self.read(0)
        assert [record.offset for record in seen] == sorted({record.offset for record in seen})
        for record in seen:
            assert record == stable[record.offset], "something that was never written, or not committed"
        last = {record.key: record for _, record in sorted(stable.items())}
        seen_last = {record.key: record for record in seen}
        for key, record in last.items():
            if record.value is not None or self.clock.now_ms() - self.written_ms[record.offset] < RETENTION_MS:
                assert seen_last.get(key) == record
            else:
                assert seen_last.get(key) in (record, None)

    @rule(at=st.floats(0, 1))
    def read_from_anywhere(self, at: float) -> None:
        offset = round(at * self.log.log_end_offset)
        assert self.read(offset) == [record for record in self.read(0) if record.offset >= offset]

    @invariant()
    def producers_are_known(self) -> None:
        if hasattr(self, "log"):
            for producer_id, sequence in self.sequences.items():
                if sequence:
                    assert self.log.producers.producers[producer_id].next_sequence == sequence

    @rule()
    def everything_again_from_the_records_alone(self) -> None:
        """Without the snapshots, the producers' state comes from what compaction has left."""
        self.settle()
        for name in self.disk.list_directory("/data/topic-0"):
            if name.endswith(".snapshot"):
                self.disk.remove(f"/data/topic-0/{name}")
        self.disk.sync_directory_now("/data/topic-0")
        self.restart(True)


TestCompactionModel = CompactionMachine.TestCase
TestCompactionModel.settings = settings(
    max_examples=60, stateful_step_count=35, deadline=None, suppress_health_check=list(HealthCheck)
)
