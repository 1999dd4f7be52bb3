"""One broker's disks and the manager of its logs, of whom everything can be taken: room, descriptors, fsyncs, power,
the process.
"""

import errno
import os
from typing import Final

from headwater.base.ids import TopicId, TopicPartition
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.directory_moves import MoveSettings
from headwater.log.log import Log
from headwater.log.manager import LogManager
from headwater.log.open_files import Handles
from headwater.sim.clock import SimClock
from headwater.sim.disk import SimDisk, SimFile
from headwater.sim.scheduler import SimRandom, SimScheduler

PARTITION: Final = TopicPartition("topic", 0)
TOPIC_ID: Final = TopicId(bytes(range(16)))
ROOMY: Final = 1 << 40  # free bytes: more than any world writes
_RETRY_OFFLINE_MS: Final = 2_000  # as the manager has it


class FailingDisk(SimDisk):
    """Also runs out of descriptors, as long as the test says so: files that are open stay in use. Others may write to
    it as well, so that there is no room even where something was just removed.
    """

    has_descriptors = True
    others_fill_it = False

    @property
    def is_roomy(self) -> bool:
        return not self.others_fill_it and self.faults.free_bytes >= ROOMY // 2

    def make_room(self) -> None:
        self.others_fill_it = False
        self.faults.free_bytes = ROOMY

    def take_space(self, size: int, path: str) -> None:
        if self.others_fill_it:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        super().take_space(size, path)

    def _take_descriptor(self, path: str) -> None:
        if not self.has_descriptors:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self._take_descriptor(path)
        return super().open(path, create=create)

    def read_file(self, path: str) -> bytes:
        self._take_descriptor(path)
        return super().read_file(path)

    def write_file(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._take_descriptor(path)
        super().write_file(path, data, durable=durable)

    def sync_directory_now(self, path: str) -> None:
        self._take_descriptor(path)
        super().sync_directory_now(path)

    def on_device(self, path: str) -> bytes:
        """What would be left of a file, whatever its readers see."""
        return bytes(self._inode(path).device)


class Machine:
    def __init__(self, seed: int, directories: list[str], open_files_max: int, config: LogConfig) -> None:
        self.clock = SimClock()
        self.disk = FailingDisk(seed)
        self.disk.now_ms = self.clock.now_ms()
        self.move_bytes_per_second = 700
        self._directories = directories
        self._open_files_max = open_files_max
        self._config = config
        self._starts = 0  # each has its own random names
        self.start()
        self.create()

    def start(self) -> None:
        self._starts += 1
        self.scheduler = SimScheduler(self.clock)
        context = LogContext(self.disk, self.scheduler, SimRandom(self._starts), Handles(self._open_files_max))
        self.manager = LogManager(
            context,
            self._directories,
            lambda _: self._config,
            move_settings=lambda: MoveSettings(bytes_per_second=self.move_bytes_per_second),
        )
        self.manager.lock()
        self.manager.claim("cluster", 0)
        opened: list[bool] = []
        self.manager.open(lambda: opened.append(True))
        assert opened, "the logs were not opened at once"

    def create(self) -> Log:
        return self.manager.create(PARTITION, TOPIC_ID)

    @property
    def log(self) -> Log:
        return self.manager.logs[PARTITION]

    def homes(self) -> list[str]:
        """The directories in which the log stands under its own name."""
        return [path for path in self._directories if self.disk.exists(f"{path}/{PARTITION.topic}-0")]

    def tick(self) -> None:
        self.manager.tick(self.clock.now_ms(), self.clock.monotonic_ms())
        self.scheduler.run_due()

    def pass_time(self, delay_ms: int) -> None:
        self.clock.advance(delay_ms)
        self.disk.now_ms = self.clock.now_ms()
        self.tick()
        self.disk.run()

    def open_what_is_offline(self) -> None:
        self.pass_time(0)
        self.pass_time(_RETRY_OFFLINE_MS)

    # Ways to end

    def stop(self) -> None:
        self.disk.run()
        self.manager.close()
        self.disk.kill()

    def kill(self) -> None:
        self.disk.kill()

    def lose_power(self) -> None:
        self.disk.crash()
