"""Who is to be told that a run has ended. Safe for threads: each callback is called once, whoever comes first, it or
the end.
"""

import contextlib
import threading
from collections.abc import Callable


class EndCallbacks:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def has_ended(self) -> bool:
        return self._ended.is_set()

    def wait(self) -> None:
        """For the end of the run. Whoever hears of it may still be called: it may be who waits."""
        self._ended.wait()

    def add(self, callback: Callable[[], None]) -> None:
        """Calls it when the run ends, in the run's thread; at once if it has ended."""
        with self._lock:
            if not self.has_ended:
                self._callbacks.append(callback)
                return
        callback()

    def end(self) -> None:
        """By the run's thread, as the last thing that it does. Each one is called, whatever others raise."""
        with self._lock:
            self._ended.set()
            callbacks, self._callbacks = self._callbacks, []
        with contextlib.ExitStack() as all_of_them:
            for callback in reversed(callbacks):
                all_of_them.callback(callback)
