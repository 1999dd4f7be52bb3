"""What every log of a broker shares: the ports it works through, the cache of open files, the cap on dirty pages."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.base.ports import Disk, Random, Scheduler
from headwater.log.open_files import Handles
from headwater.log.unflushed_bytes import DIRTY_BYTES_MAX, DirtyPages

if TYPE_CHECKING:
    from headwater.log.log import Log


@dataclass(slots=True)
class LogContext:
    disk: Disk
    scheduler: Scheduler
    random: Random
    handles: Handles = field(default_factory=Handles)
    dirty_bytes_max: int = DIRTY_BYTES_MAX
    on_failed: "Callable[[Log], None] | None" = None  # told of a log that takes no more records
    dirty: DirtyPages = field(init=False)

    def __post_init__(self) -> None:
        self.dirty = DirtyPages(self.disk, self.dirty_bytes_max)
