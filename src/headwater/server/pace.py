"""How fast a worker process may read and write: `log.cleaner.io.max.bytes.per.second`. Runs in the worker, never on the
loop.
"""

import os
import time
from typing import Final

_LONGEST_SLEEP_S: Final = 1.0
_NICE: Final = 5  # the loop comes first where there are few processors


class WorkerPace:
    """Pickles as its limit: each job counts from its own beginning."""

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._began_s: float | None = None
        self._moved_bytes = 0

    def __reduce__(self) -> tuple[type["WorkerPace"], tuple[float]]:
        return WorkerPace, (self._bytes_per_second,)

    def __call__(self, size_bytes: int) -> None:
        """Told of bytes that were moved; sleeps as long as they are ahead of their time."""
        if self._began_s is None:
            self._began_s = time.monotonic()
            if os.nice(0) == 0:
                os.nice(_NICE)
        self._moved_bytes += size_bytes
        due_s = self._began_s + self._moved_bytes / self._bytes_per_second
        while (left_s := due_s - time.monotonic()) > 0:
            time.sleep(min(left_s, _LONGEST_SLEEP_S))
