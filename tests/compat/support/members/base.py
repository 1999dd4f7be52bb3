"""What the tests of groups ask of a member: it polls in a thread of its own, keeps what it got, and does what it is
told.

Each adapter uses its library as a user would. `received` and `events` only grow; `assignment` is what the member holds
now. Whoever makes a member closes it: the fixture `join` in conftest.py does.
"""

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

WAIT_S = 180
POLL_S = 0.05

Place = tuple[str, int]


class Got(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: bytes


@dataclass(frozen=True)
class Joining:
    """How to join. `pattern` instead of topics subscribes by a regular expression; `instance` makes a static member."""

    group: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    protocol: str = "classic"
    assignor: str = "range"  # of the classic protocol
    remote: str | None = None  # the broker's, of the consumer protocol
    instance: str | None = None
    session_ms: int = 6000
    auto_commit_ms: int = 0  # 0: no commits but those of the test
    reset: str = "earliest"
    committed: bool = False  # isolation level read_committed
    metadata_ms: int = 1000

    @property
    def heartbeat_ms(self) -> int:
        """A rebalance is heard of with the next one, however long a session lasts."""
        return min(max(self.session_ms // 10, 100), 600)


class Member(ABC):
    """One member of a group. `do` runs a piece of work in the thread that polls, and waits for it."""

    name: ClassVar[str]
    assignors: ClassVar[tuple[str, ...]] = ("range", "roundrobin", "sticky", "cooperative-sticky")

    def __init__(self, bootstrap: str, joining: Joining, java: Any = None) -> None:
        self.bootstrap = bootstrap
        self.joining = joining
        self.java = java
        self.assignment: frozenset[Place] = frozenset()
        self.received: list[Got] = []
        self.events: list[tuple[str, frozenset[Place]]] = []
        self.errors: list[str] = []
        self.closed = False

    @property
    def values(self) -> list[bytes]:
        return [got.value for got in self.received]

    def event(self, kind: str, places: Collection[Place]) -> None:
        self.events.append((kind, frozenset(places)))

    @abstractmethod
    def open(self) -> None: ...

    @abstractmethod
    def close(self) -> None:
        """Leaves the group."""

    @abstractmethod
    def commit(self, offsets: dict[Place, int] | None = None) -> None:
        """Waits for the answer. None: the positions of all that is assigned."""

    def commit_soon(self, *offsets: dict[Place, int]) -> None:
        """Several commits, none of them waited for, where the library can do so."""
        raise NotImplementedError

    @abstractmethod
    def committed(self, *places: Place) -> dict[Place, int | None]: ...

    @abstractmethod
    def seek(self, place: Place, offset: int) -> None: ...

    @abstractmethod
    def pause(self, *places: Place) -> None: ...

    @abstractmethod
    def resume(self, *places: Place) -> None: ...


class ThreadMember(Member):
    """A member whose library lives in this process: `_turn` polls once."""

    def open(self) -> None:
        self._work: queue.Queue[tuple[Callable[[], Any], queue.Queue[Any]]] = queue.Queue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"{self.name} {self.joining.group}")
        self._thread.start()

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _turn(self) -> None: ...

    @abstractmethod
    def _end(self) -> None: ...

    def do(self, work: Callable[[], Any]) -> Any:
        answer: queue.Queue[Any] = queue.Queue()
        self._work.put((work, answer))
        found = answer.get(timeout=WAIT_S)
        if isinstance(found, BaseException):
            raise found
        return found

    def _run(self) -> None:
        try:
            self._start()
            while not self._stop.is_set():
                while not self._work.empty():
                    work, answer = self._work.get()
                    try:
                        answer.put(work())
                    except Exception as error:  # noqa: BLE001 - for whoever asked
                        answer.put(error)
                self._turn()
        except Exception as error:  # noqa: BLE001 - a test looks at it
            self.errors.append(repr(error))
        finally:
            self._end()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._stop.set()
            self._thread.join(WAIT_S)
            assert not self._thread.is_alive(), f"{self.name} did not end"


def until(true: Callable[[], Any], what: str | Callable[[], object], timeout_s: float = WAIT_S) -> Any:
    """Waits until something holds: other processes need their time. What it was when it held.

    Asks less often the longer it takes: an answer often takes of the processor that is waited for.
    """
    began = time.monotonic()
    while not (found := true()):
        waited_s = time.monotonic() - began
        if waited_s > timeout_s:
            raise AssertionError(f"not within {timeout_s} s: {what() if callable(what) else what}")
        time.sleep(min(max(0.02, waited_s / 10), 0.1))
    return found


def shared(members: Collection[Member], places: Collection[Place]) -> bool:
    """Whether the members hold these partitions, each by one of them."""
    held = [place for member in members for place in member.assignment]
    return sorted(held) == sorted(places)


def until_shared(members: Collection[Member], places: Collection[Place], sizes: list[int] | None = None) -> None:
    """Waits until all is assigned, each to one member, and in parts of these sizes (or everyone has a part)."""

    def holds() -> bool:
        found = sorted(len(member.assignment) for member in members)
        return shared(members, places) and (found == sizes if sizes is not None else all(found))

    until(
        holds,
        lambda: [(member.name, sorted(member.assignment), member.errors, member.events[-3:]) for member in members],
    )


def places(topic: str, partitions: int) -> list[Place]:
    return [(topic, partition) for partition in range(partitions)]
