"""The state of a task: its ordered maps, the owner who may write them, and the positions in changelog topics they
reflect.

Invariants. What is committed is never ahead of the changelog topics: a commit here follows that of the transaction
which wrote the changes there. A commit checks in its own transaction that the owner is still the one who claimed the
state last. Positions and changes become visible together.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from weakref import WeakMethod

from headwater.base.errors import UserError
from headwater.streams.stores.ordered import PendingMap
from headwater.streams.stores.spec import StoreSpec


class Owner(NamedTuple):
    """Who may write: the number of the application's run and, within it, the epoch of the slot. A higher one fences a
    lower one.
    """

    run: int
    epoch: int


@dataclass(frozen=True, slots=True)
class ChangelogPartition:
    topic: str
    partition: int


class StateFenced(UserError):
    """A later owner has claimed the state. Nothing was written."""

    def __init__(self, where: str, owner: Owner, found: Owner) -> None:
        super().__init__(
            f"The state in {where} belongs to another process now",
            f"run {found.run}, slot epoch {found.epoch} claimed it after run {owner.run}, slot epoch {owner.epoch}",
            "This process has been replaced: it may end",
        )


class StateClosed(UserError):
    def __init__(self, where: str) -> None:
        super().__init__(f"The state in {where} has been closed", "its task is being moved or ended", "Ask again")


class Reloads:
    """The methods of stores that read again what a discard took back. They do not keep the stores alive: a task that
    recovers opens new ones.
    """

    def __init__(self) -> None:
        self._methods: list[WeakMethod[Callable[[], None]]] = []

    def add(self, reload: Callable[[], None]) -> None:
        self._methods = [method for method in self._methods if method() is not None]
        self._methods.append(WeakMethod(reload))

    def run(self) -> None:
        for method in self._methods:
            reload = method()
            if reload is not None:
                reload()


class TaskState(Protocol):
    """Implemented by `memory.MemoryState`, `lmdb.LmdbState`, `rocksdb.RocksState`, and `combined_state.CombinedState`
    where stores of a task lie in several of these.
    """

    def part(self, spec: StoreSpec) -> "TaskState":
        """The state in which that store lies: itself, where all lie in one."""

    def map(self, name: str) -> PendingMap:
        """The map of that name, the same object each time. Maps of stores are named by their store."""

    @property
    def notes(self) -> PendingMap:
        """What stores remember beside their rows: stream times, sequence numbers. Follows from the changelog, so it is
        written with the rows only: a note ahead of them would make a replay drop what it should bring back.
        """

    @property
    def times(self) -> PendingMap:
        """Of operators: stream time as they observed it, punctuation. In no changelog: a lost disk loses them. Written
        with every commit.
        """

    @property
    def positions(self) -> Mapping[ChangelogPartition, int]:
        """The next offset of each changelog partition that the committed state does not have yet, written or not."""

    def claim(self, owner: Owner) -> None:
        """Makes this the owner. State of a higher one is wiped first: numbers have begun anew, or a run is late; the
        changelog has it all.

        Whoever claims holds the state alone, so nobody writes beside it.
        """

    def commit(self, positions: Mapping[ChangelogPartition, int], *, later: bool = False) -> None:
        """What is pending and these positions stand, and are written for the owner that claimed last. Raises
        StateFenced.

        `later`: all but `times` may wait in memory for `write_out`. A process that dies before has lost nothing that
        the changelog does not have.
        """

    def write_out(self) -> None:
        """Writes what earlier commits have left, and nothing that is pending. Raises StateFenced."""

    def discard(self) -> None:
        """Forgets what is pending."""

    def on_discard(self, reload: Callable[[], None]) -> None:
        """The method is called whenever pending changes were discarded, as long as its object lives: what was read from
        maps must be read again.
        """

    def wipe(self) -> None:
        """Forgets everything but the owner, at once."""

    def forget_store(self, spec: StoreSpec, changelogs: Iterable[ChangelogPartition]) -> None:
        """Forgets the rows of one store, its notes and its position, at once.
        What others have stays, written or not.
        """

    def close(self) -> None: ...


STORE_NOTES: Final = (b"stream-time\x00", b"sequence\x00")  # and the name of the store; others are of the task


def is_map_of(store: str, name: str) -> bool:
    """Whether the map of that name is one of the store's: its rows, or an index of them."""
    return name == store or name.startswith(f"{store}/")


_COPY = b"standby"


def mark_copy(state: TaskState, *, is_copy: bool) -> None:
    """Whether this is a standby's copy of the state of a task that another slot processes, or one that is not restored
    to its end yet. Saved with the next commit.
    """
    if is_copied(state) != is_copy:
        state.notes.put(_COPY, b"1" if is_copy else None)


def is_copied(state: TaskState) -> bool:
    return state.notes.get(_COPY) is not None
