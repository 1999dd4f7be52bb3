"""The state of a task in memory: for tests, and for stores that are restored from their changelog at each start.

Queries of other threads read rows as they were at a commit. A commit does not wait for them: it copies a map that one
of them reads before it changes it.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from headwater.streams.stores.ordered import PendingMap
from headwater.streams.stores.snapshot import StateSnapshot
from headwater.streams.stores.sorted_keys import SortedKeys
from headwater.streams.stores.spec import StoreSpec
from headwater.streams.stores.state import STORE_NOTES, ChangelogPartition, Owner, Reloads, StateFenced, is_map_of


class MemoryMap:
    """An `ordered.CommittedMap`. Only a commit changes it, and no iterator of its owner lives across one."""

    __slots__ = ("_ordered", "_rows", "is_shared")

    def __init__(self) -> None:
        self._rows: dict[bytes, bytes] = {}
        self._ordered: SortedKeys | None = None  # from the first scan on
        self.is_shared = False  # a snapshot has these rows

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def scan(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        if not self._rows:
            return iter(())
        if self._ordered is None:
            self._ordered = SortedKeys(self._rows)
        found = [(key, self._rows[key]) for key in self._ordered.between(lower, upper)]
        return reversed(found) if reverse else iter(found)

    def count(self) -> int:
        return len(self._rows)

    def end(self) -> bytes | None:
        return None  # to look for a row costs no more

    def shared(self) -> "UnsortedMap":
        self.is_shared = True
        return UnsortedMap(self._rows)

    def apply(self, changes: Mapping[bytes, bytes | None], floor: bytes = b"") -> None:
        if floor:
            self._rows = {key: value for key, value in self._rows.items() if key >= floor}
            self._ordered, self.is_shared = None, False
        if changes and self.is_shared:
            self._rows, self.is_shared = dict(self._rows), False
        for key, value in changes.items():
            if value is None:
                if self._rows.pop(key, None) is not None and self._ordered is not None:
                    self._ordered.discard(key)
            else:
                if self._ordered is not None and key not in self._rows:
                    self._ordered.add(key)
                self._rows[key] = value


class UnsortedMap:
    """An `ordered.CommittedMap` for readers of other threads: it leaves the order that the owner keeps alone."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Mapping[bytes, bytes]) -> None:
        self._rows = rows

    def get(self, key: bytes) -> bytes | None:
        return self._rows.get(key)

    def scan(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        keys = [key for key in self._rows if (lower is None or key >= lower) and (upper is None or key < upper)]
        keys.sort(reverse=reverse)
        return ((key, self._rows[key]) for key in keys)

    def count(self) -> int:
        return len(self._rows)

    def end(self) -> bytes | None:
        return None


class MemoryState:
    """A `state.TaskState`."""

    def __init__(self) -> None:
        self._maps: dict[str, tuple[MemoryMap, PendingMap]] = {}
        self._positions: dict[ChangelogPartition, int] = {}
        self._claimed = self._owner = Owner(-1, -1)
        self._reloads = Reloads()
        self._snapshots = threading.Lock()  # held while one is taken or given back, and while rows change
        self._readers = 0
        self.notes = self.map("/notes")
        self.times = self.map("/times")

    def part(self, spec: StoreSpec) -> Self:  # noqa: ARG002
        return self

    def map(self, name: str) -> PendingMap:
        if name not in self._maps:
            committed = MemoryMap()
            with self._snapshots:
                self._maps[name] = committed, PendingMap(committed)
        return self._maps[name][1]

    @property
    def positions(self) -> Mapping[ChangelogPartition, int]:
        return self._positions

    def claim(self, owner: Owner) -> None:
        if self._owner > owner:
            self.wipe()
        self._claimed = self._owner = owner

    def commit(self, positions: Mapping[ChangelogPartition, int], *, later: bool = False) -> None:  # noqa: ARG002
        if self._owner != self._claimed:
            raise StateFenced("memory", self._claimed, self._owner)
        with self._snapshots:
            for committed, pending in self._maps.values():
                pending.commit()
                committed.apply(pending.unwritten, pending.unwritten_floor)
                pending.written()
        self._positions.update(positions)

    @contextmanager
    def snapshot(self) -> Iterator[StateSnapshot]:
        """The last commit, for readers of other threads."""
        with self._snapshots:
            self._readers += 1
            maps = {name: committed.shared() for name, (committed, _) in self._maps.items()}
        try:
            yield StateSnapshot(maps.get)
        finally:
            with self._snapshots:
                self._readers -= 1
                if not self._readers:
                    for committed, _ in self._maps.values():
                        committed.is_shared = False

    def discard(self) -> None:
        for _, pending in self._maps.values():
            pending.discard()
        self._reloads.run()

    def on_discard(self, reload: Callable[[], None]) -> None:
        self._reloads.add(reload)

    def wipe(self) -> None:
        with self._snapshots:
            for committed, _ in self._maps.values():
                committed.apply({key: None for key, _ in committed.scan(None, None, False)})
        self._positions.clear()
        self.discard()

    def forget_store(self, spec: StoreSpec, changelogs: Iterable[ChangelogPartition]) -> None:
        own = [maps for name, maps in self._maps.items() if is_map_of(spec.name, name)]
        notes = [kind + spec.name.encode() for kind in STORE_NOTES]
        with self._snapshots:
            for committed, _ in own:
                committed.apply({key: None for key, _ in committed.scan(None, None, False)})
            self._maps["/notes"][0].apply(dict.fromkeys(notes))
        for _, pending in own:
            pending.forget()
        self.notes.forget_keys(notes)
        for each in changelogs:
            self._positions.pop(each, None)
        self._reloads.run()

    def write_out(self) -> None:
        """Commits are written at once."""

    def close(self) -> None:
        """Nothing is held."""
