"""The processes of the demo beside its own: which of them has ended, and what a person is told of it.

A broker or a JVM that was killed shows itself as anything: a request without an answer for a minute, an error of Py4J.
So a thread looks at all of them and tells at once which has ended, how, and where its log is. The others then end in
order if they can, and `give_up` comes when they cannot: their standard inputs close with this process, which is their
sign to end.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from headwater.base.errors import UserError
from headwater.cli.supervision import exit_text

OWN: Final = "The demo's own"
_LOOKS_S: Final = 0.2
_SETTLES_S: Final = 2.0  # a process closes its sockets before it can be seen to have ended
_ENDS_S: Final = 15.0


class Process(Protocol):
    """What `subprocess.Popen` has, too."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...


class Watched(NamedTuple):
    name: str
    process: Process
    log: Path


def end_error(name: str, pid: int, exit_code: int, log: Path) -> UserError:
    """`exit_code` as the subprocess module has it: below zero is a signal."""
    return UserError(
        f"{name} (process {pid}) has ended: {exit_text(exit_code)}",
        f"Its log is {log}",
        "Start the demo again: it goes on from there",
    )


def first_end(watched: Sequence[Watched]) -> UserError | None:
    """Of the first that has ended. Those that others need come first."""
    for name, process, log in watched:
        exit_code = process.poll()
        if exit_code is not None:
            return end_error(name, process.pid, exit_code, log)
    return None


class Watch:
    """`over` watches a process within a `with` block that lies inside of the one that ends it. Owned by the main
    thread; the lock is there for the thread that looks.
    """

    def __init__(self, tell: Callable[[UserError], object], give_up: Callable[[], object]) -> None:
        self._tell = tell
        self._give_up = give_up
        self._watched: list[Watched] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._has_told = threading.Event()
        self._thread = threading.Thread(target=self._work, name="watched-processes", daemon=True)
        self.error: UserError | None = None

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        self._thread.join()

    @contextmanager
    def over(self, name: str, process: Process, log: Path) -> Iterator[None]:
        watched = Watched(name, process, log)
        with self._lock:
            self._watched.append(watched)
        try:
            yield
        except Exception:
            self._has_told.wait(_SETTLES_S)  # what is raised may only follow from an end
            raise
        finally:
            with self._lock:
                self._watched.remove(watched)

    def check(self) -> None:
        if self.error is not None:
            raise self.error

    def _work(self) -> None:
        while not self._closing.wait(_LOOKS_S):
            with self._lock:
                self.error = first_end(self._watched)
            if self.error is not None:
                break
        if self.error is None:
            return
        self._tell(self.error)
        self._has_told.set()
        last = threading.Timer(_ENDS_S, self._give_up)
        last.daemon = True
        last.start()
