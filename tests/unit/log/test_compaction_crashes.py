"""A compaction that dies at each of its steps: nothing is lost, nothing is there twice,
and the next start tidies up.
"""

from typing import Any

import pytest

from headwater.base.ids import TopicId, TopicPartition
from headwater.log.compaction.cleaner import CleanerSettings
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.log import Log
from headwater.log.manager import LogManager
from headwater.log.scan import headers_from
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record, read_batches, read_records
from headwater.sim.clock import SimClock
from headwater.sim.dying import DyingDisk, DyingError
from headwater.sim.scheduler import SimRandom, SimScheduler

PARTITION = TopicPartition("topic", 0)
BATCHES = 24
CONFIG: dict[str, Any] = {"cleanup_compact": True, "cleanup_delete": False, "index_interval_bytes": 1}
STEPS_MAX = 150


class Compacted:
    """A log of many small segments, which a compaction makes one of; or one and the next, where memory is short."""

    def __init__(self, seed: int, map_bytes: int) -> None:
        self.clock = SimClock()
        self.disk = DyingDisk(seed)
        self.config = LogConfig(segment_bytes=700, **CONFIG)
        self.map_bytes = map_bytes
        self.open()
        self.log = self.manager.create(PARTITION, TopicId(bytes(16)))
        for number in range(BATCHES):
            self._append(number)
        self.log.flush()
        self.disk.run()
        self.manager.write_checkpoints()
        self.disk.run()
        self.config = LogConfig(segment_bytes=2100, **CONFIG)
        self.log.update_config(self.config)

    def _append(self, number: int) -> None:
        records = [Record(at, 1, b"%d" % (at % 3), b"%d" % number) for at in range(5)]
        fields = {"producer_id": number % 2, "producer_epoch": 0, "transactional": True}
        batch = build_batch(records, **fields, base_sequence=5 * (number // 2))
        self.log.append_as_leader(memoryview(batch), 0, 1)
        marker = EndTransactionMarker(number % 4 != 1, 0)
        ending = build_end_transaction_marker(marker, producer_id=number % 2, producer_epoch=0, timestamp=1)
        self.log.append_own(memoryview(ending), 0, 1, marker)

    def open(self) -> None:
        self.scheduler = SimScheduler(self.clock)
        self.manager = LogManager(
            LogContext(self.disk, self.scheduler, SimRandom(1)),
            ["/data"],
            lambda _: self.config,
            cleaner_settings=lambda: CleanerSettings(map_bytes=self.map_bytes),
        )
        self.manager.lock()
        self.manager.claim("cluster", 0)
        self.manager.open(lambda: None)

    def clean(self) -> None:
        self.manager.cleaner.tick(10, 10)
        self.scheduler.run_due()
        self.disk.run()
        assert self.manager.cleaner.counts.cleanings == 1

    def restart(self, machine: bool) -> None:
        self.disk.left = None
        self.disk.crash() if machine else self.disk.kill()
        self.open()
        self.log = self.manager.logs[PARTITION]


def committed(log: Log, offset: int = 0) -> list[tuple[int, bytes | None, bytes | None]]:
    found = []
    first = offset
    while offset < log.log_end_offset:
        piece = log.read(offset, 1 << 20, log.log_end_offset, min_one_batch=True)
        assert piece is not None
        data = piece.read()
        piece.release()
        for at, header in read_batches(data):
            offset = header.last_offset + 1
            aborted = log.aborted_transactions(header.base_offset, offset)
            if not header.is_control and all(entry.producer_id != header.producer_id for entry in aborted):
                records = read_records(data[at : at + header.size_bytes], 1 << 20)
                found += [(record.offset, record.key, record.value) for record in records if record.offset >= first]
    return found


def from_everywhere(log: Log) -> list[tuple[int, bytes | None, bytes | None]]:
    """Each record, read from its own offset on: by the indexes."""
    return [committed(log, offset)[0] for offset, _, _ in committed(log)]


def ends(log: Log) -> list[int]:
    """Where each segment begins and its batches end."""
    found = []
    for segment in log.segments:
        found.append(segment.base_offset)
        found += [header.last_offset for _, header in headers_from(segment.open_file(), 0, segment.size_bytes)][-1:]
    return found


@pytest.mark.parametrize("machine", [True, False], ids=["power-loss", "killed"])
@pytest.mark.parametrize("map_bytes", [1, 1 << 20], ids=["small-map", "large-map"])
def test_dying_at_every_step_loses_nothing(map_bytes: int, machine: bool) -> None:
    for steps in range(STEPS_MAX):
        world = Compacted(steps, map_bytes)
        before = committed(world.log)
        last = {key: (offset, key, value) for offset, key, value in before}
        segments = len(world.log.segments)
        world.disk.left = steps
        try:
            world.clean()
        except DyingError:
            finished = False
        else:
            finished = True
        stable_offset = world.log.last_stable_offset(world.log.log_end_offset)
        world.restart(machine)
        log = world.log
        assert log.last_stable_offset(log.log_end_offset) == stable_offset == 6 * BATCHES
        after = committed(log)
        assert set(last.values()) <= set(after) <= set(before)
        assert after == sorted(after)
        assert from_everywhere(log) == after
        assert ends(log) == sorted(ends(log)), "segments overlap"
        assert sorted(log.producers.producers) == [0, 1]
        names = world.disk.list_directory("/data/topic-0")
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
        assert len([name for name in names if name.endswith(".log")]) == len(log.segments) <= segments
        if finished:
            assert len(after) < len(before)
            return
    pytest.fail("the compaction never came to its end")
