"""Counts of errors: their names, and who counts them where no task's metrics are, as in an executor of Spark's."""

import threading
from collections.abc import Callable
from typing import Final, Protocol

ERROR_COUNTS: Final = (
    "total-record-failures",
    "total-record-errors",
    "total-records-skipped",
    "total-retries",
    "total-errors-logged",
    "deadletterqueue-produce-requests",
    "deadletterqueue-produce-failures",
)
LAST_ERROR: Final = "last-error-timestamp"


class ErrorCounter(Protocol):
    def error(self, *names: str, at: bool = False) -> None:
        """One more of each of these; `at`: the time is that of the last error."""


class ErrorCounts:
    """Counts until somebody takes them. The producer of dead letters counts in a thread of its own."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._lock = threading.Lock()
        self._found: dict[str, int] = {}

    def error(self, *names: str, at: bool = False) -> None:
        with self._lock:
            for name in names:
                self._found[name] = self._found.get(name, 0) + 1
            if at:
                self._found[LAST_ERROR] = self._wall_ms()

    def take(self) -> dict[str, int]:
        with self._lock:
            found, self._found = self._found, {}
        return found
