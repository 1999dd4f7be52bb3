"""The thread of a run. What ends it is kept for whoever waits; whoever wants to hear of the end is called."""

import threading
from collections.abc import Callable

from headwater.streams.lead.end_callbacks import EndCallbacks


def _nothing() -> None:
    pass


class RunThread:
    def __init__(self, run: Callable[[], None], name: str, before_end: Callable[[], None] = _nothing) -> None:
        """`before_end` is called in the thread when `run` has ended, however, before anybody is told."""
        self._run, self._before_end = run, before_end
        self.started = threading.Event()  # by `run` when all is open; in any case at its end
        self.error: BaseException | None = None
        self.end = EndCallbacks()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def join(self) -> None:
        """Until it has ended, however. The run itself cannot wait for its end."""
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def wait(self, timeout: float | None = None) -> bool:
        """Until it has ended; False if it has not within `timeout` seconds, or if it is the run itself that asks: a
        function of the application, which must return first. Raises what ended it.
        """
        if threading.current_thread() is self._thread:
            return False
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self.error is not None:
            raise self.error
        return True

    def _main(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001 - whoever waits is told
            self.error = error
        finally:
            self._before_end()
            self.started.set()
            self.end.end()
