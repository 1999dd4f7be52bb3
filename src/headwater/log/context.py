"""What every log of a broker shares: the ports it works through, the cache of open files, the cap on dirty pages."""

from dataclasses import dataclass, field

from headwater.base.ports import Disk, Random, Scheduler
from headwater.log.dirty import DIRTY_BYTES_MAX, DirtyPages
from headwater.log.handles import Handles


@dataclass(slots=True)
class LogContext:
    disk: Disk
    scheduler: Scheduler
    random: Random
    handles: Handles = field(default_factory=Handles)
    dirty_bytes_max: int = DIRTY_BYTES_MAX
    dirty: DirtyPages = field(init=False)

    def __post_init__(self) -> None:
        self.dirty = DirtyPages(self.disk, self.dirty_bytes_max)
