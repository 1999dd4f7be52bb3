"""A worker process that is killed at any step of its job, which is then begun once more in another: nothing shows of
it.

`server/loop.py` begins the job again; here is why it may, for each of the three kinds of job.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headwater.base.ids import TopicId, TopicPartition
from headwater.log.compaction.cleaner import CleanerSettings
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.directory_moves import MoveSettings
from headwater.log.log import Log
from headwater.log.manager import LogManager
from headwater.log.open_files import Handles
from headwater.records.builder import build_batch
from headwater.records.reader import Record, read_batches, read_records
from headwater.sim.clock import SimClock
from headwater.sim.dying import DyingDisk, DyingError
from headwater.sim.scheduler import SimRandom, SimScheduler

PARTITION = TopicPartition("topic", 0)
CONFIG = LogConfig(segment_bytes=300, cleanup_compact=True, cleanup_delete=False, index_interval_bytes=1)


class KilledOnce(SimScheduler):
    """Its worker dies after `steps` changes of the disk, the first time; `was_killed` tells whether the job got that
    far.
    """

    disk: DyingDisk
    steps: int | None = None
    was_killed = False

    def compute(
        self, function: Callable[..., Any], *arguments: Any, done: Callable[[Any, BaseException | None], None]
    ) -> None:
        if self.steps is not None:
            self.disk.left, self.steps = self.steps, None
            try:
                function(*arguments)
            except DyingError:
                self.was_killed = True
            self.disk.left = None
        super().compute(function, *arguments, done=done)


class Lab:
    def __init__(self) -> None:
        self.clock = SimClock()
        self.disk = DyingDisk(1)
        self.cleaner = CleanerSettings()
        self.open()
        self.log = self.manager.create(PARTITION, TopicId(bytes(range(16))))
        for number in range(6):
            records = [Record(at, self.clock.now_ms(), b"k%d" % at, b"%d" % number * 30) for at in range(3)]
            self.log.append_as_leader(memoryview(build_batch(records)), 0, self.clock.now_ms())

    def open(self, steps: int | None = None) -> None:
        self.scheduler = KilledOnce(self.clock)
        self.scheduler.disk = self.disk
        self.scheduler.steps = steps
        context = LogContext(self.disk, self.scheduler, SimRandom(1), Handles(100))
        self.manager = LogManager(context, ["/a", "/b"], lambda _: CONFIG, None, lambda: self.cleaner, MoveSettings)
        self.manager.lock()
        self.manager.claim("cluster", 0)
        self.manager.open(lambda: None)

    def settle(self) -> None:
        while self.disk.run() + self.scheduler.run_due():
            pass

    def offsets(self) -> list[int]:
        log: Log = self.manager.logs[PARTITION]
        found = []
        for segment in log.segments:
            data = segment.open_file().pread(0, segment.size_bytes)
            for at, header in read_batches(data):
                found += [record.offset for record in read_records(data[at : at + header.size_bytes], 1 << 20)]
        return found


def compacted(lab: Lab, steps: int) -> None:
    lab.log.flush()
    lab.settle()
    lab.manager.write_checkpoints()
    lab.settle()
    lab.scheduler.steps = steps
    lab.manager.cleaner.tick(lab.clock.now_ms(), lab.clock.monotonic_ms())
    lab.settle()
    assert lab.manager.cleaner.counts.cleanings == 1
    assert lab.offsets() == [12, 13, 14, 15, 16, 17]


def moved(lab: Lab, steps: int) -> None:
    before = lab.manager.directory_of(PARTITION)
    target = lab.manager.directory_at({"/a": "/b", "/b": "/a"}[before])
    assert target is not None
    lab.cleaner = CleanerSettings(enabled=False)
    lab.scheduler.steps = steps
    lab.manager.move(PARTITION, target)
    for _ in range(20):
        lab.settle()
        lab.clock.advance(1_000)
        lab.manager.tick(lab.clock.now_ms(), lab.clock.monotonic_ms())
    assert lab.manager.directory_of(PARTITION) == target.path
    assert lab.offsets() == list(range(18))


def recovered(lab: Lab, steps: int) -> None:
    lab.log.active.open_file().append(b"half a batch")
    lab.disk.kill()
    lab.open(steps)
    lab.settle()
    assert lab.offsets() == list(range(18))


def steps_until(job: Callable[[Lab, int], None]) -> Iterator[int]:
    for steps in range(200):
        lab = Lab()
        job(lab, steps)
        if not lab.scheduler.was_killed:
            return
        yield steps
    raise AssertionError("a job that never ends")


@pytest.mark.parametrize(("job", "steps_min"), [(compacted, 10), (moved, 10), (recovered, 2)])
def test_a_job_may_be_begun_again_wherever_its_worker_was_killed(
    job: Callable[[Lab, int], None], steps_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.log.opening.RECOVER_IN_PLACE_BYTES", 10)
    assert len(list(steps_until(job))) >= steps_min
