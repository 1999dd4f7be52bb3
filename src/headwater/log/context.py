"""What every log of a broker shares: the ports it works through and the cache of open files."""

from dataclasses import dataclass, field

from headwater.base.ports import Disk, Random, Scheduler
from headwater.log.handles import Handles


@dataclass(slots=True)
class LogContext:
    disk: Disk
    scheduler: Scheduler
    random: Random
    handles: Handles = field(default_factory=Handles)
