"""A log on a simulated disk, and batches to put into it."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.ids import TopicId, TopicPartition
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.log import Log
from headwater.log.manager import LogManager, ManagerSettings
from headwater.log.open_files import Handles
from headwater.records.builder import build_batch
from headwater.records.reader import Record, read_batches
from headwater.sim.clock import SimClock
from headwater.sim.disk import SimDisk
from headwater.sim.scheduler import SimRandom, SimScheduler

PARTITION = TopicPartition("topic", 0)
TOPIC_ID = TopicId(bytes(range(16)))


class World:
    """One broker's disk, and the manager of its logs, which can be closed, crashed and opened again."""

    partition = PARTITION
    directory = "/data/topic-0"

    def __init__(self, seed: int = 1) -> None:
        self.clock = SimClock()
        self.disk = SimDisk(seed)
        self.disk.now_ms = self.clock.now_ms()
        self.config = LogConfig()
        self.settings = ManagerSettings()
        self.open_files_max = 100
        self.manager: LogManager = self.open()

    def open(self) -> LogManager:
        self.scheduler = SimScheduler(self.clock)
        context = LogContext(self.disk, self.scheduler, SimRandom(1), Handles(self.open_files_max))
        self.manager = LogManager(context, ["/data"], lambda _: self.config, self.settings)
        self.manager.lock()
        self.manager.claim("cluster", 0)
        self.opened = False
        self.manager.open(self._opened)
        return self.manager

    def _opened(self) -> None:
        self.opened = True

    def create(self, partition: TopicPartition = PARTITION, **config: Any) -> Log:
        self.config = LogConfig(**config)
        return self.manager.create(partition, TOPIC_ID)

    def reopen(self) -> Log:
        self.disk.run()
        self.manager.close()
        return self.open().logs[PARTITION]

    def crash(self) -> Log:
        """The process dies and the machine with it."""
        self.disk.crash()
        return self.open().logs[PARTITION]

    def kill(self) -> Log:
        """Only the process dies: the kernel keeps what was written."""
        self.disk.kill()
        return self.open().logs[PARTITION]

    def pass_time(self, delay_ms: int) -> None:
        self.clock.advance(delay_ms)
        self.scheduler.run_due()
        self.disk.now_ms = self.clock.now_ms()
        self.disk.run()

    def files(self) -> list[str]:
        return self.disk.list_directory(self.directory)

    def batch(self, count: int = 1, size: int = 10, timestamp: int | None = None, **fields: Any) -> memoryview:
        first = self.clock.now_ms() if timestamp is None else timestamp
        records = [Record(at, first, b"key", bytes(size)) for at in range(count)]
        return memoryview(build_batch(records, **fields))

    def append(self, log: Log, count: int = 1, size: int = 10, *, epoch: int = 0, **fields: Any) -> int:
        """The offset that the batch was given."""
        batch = self.batch(count, size, **fields)
        return log.append_as_leader(batch, epoch, self.clock.now_ms()).base_offset

    @staticmethod
    def contents(log: Log) -> list[int]:
        """The base offsets of all batches that can be read."""
        found = []
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            piece = log.read(offset, 1 << 20, log.log_end_offset, min_one_batch=True)
            assert piece is not None
            for _, header in read_batches(piece.read()):
                found.append(header.base_offset)
                offset = header.last_offset + 1
            piece.release()
        return found


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def worlds() -> Callable[[int], World]:
    """By seed: what a crash takes differs."""
    return World
