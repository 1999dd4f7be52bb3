"""The state of a task on disk: what LMDB (`lmdb`) and RocksDB (`rocksdb`) have in common.

All maps, positions and the check of the owner are one write, which is there as a whole or not at all. A commit may
leave its rows in memory for `write_out`: they are written with their positions and notes later, so that what a kill
takes is replayed. Only the times of operators, which no replay brings back, are written with every commit.
"""

import os
import shutil
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from struct import Struct
from typing import ClassVar, Final, Generic, Self, TypeVar

from headwater.base.errors import UserError
from headwater.streams.stores.ordered import CommittedMap, PendingMap
from headwater.streams.stores.snapshot import StateSnapshot
from headwater.streams.stores.spec import StoreSpec
from headwater.streams.stores.state import STORE_NOTES, ChangelogPartition, Owner, Reloads, StateFenced, is_map_of
from headwater.streams.stores.state_directory import boot_id, is_believed, lock_directory, mark_clean, mark_opened

_RECENT_BYTES: Final = 32 << 20  # of rows of each map that stay in memory
MOST_UNWRITTEN: Final = 100_000  # rows of commits that wait in memory
_OWNER: Final = Struct(">qq")
_POSITION: Final = Struct(">q")

Map = TypeVar("Map", bound=CommittedMap)


class DiskState(ABC, Generic[Map]):
    """A `state.TaskState`. Owns the directory as long as it is open; used by one thread, but for `snapshot`."""

    folder: ClassVar[str]  # within the directory: all rows lie there

    def __init__(self, directory: Path, boot: str | None = None) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = lock_directory(directory)
        self._maps: dict[str, tuple[Map, PendingMap]] = {}
        self._reloads = Reloads()
        self._claimed = Owner(-1, -1)
        self._unwritten_positions: dict[ChangelogPartition, int] = {}
        self._snapshots = threading.Lock()  # held while one is read, and by what no reader may see
        try:
            self._open(boot or boot_id())
            self.notes = self.map("/notes")
            self.times = self.map("/times")
        except BaseException:
            os.close(self._lock)
            raise

    def _open(self, boot: str) -> None:
        path = self._directory / self.folder
        if not is_believed(self._directory, boot):
            shutil.rmtree(path, ignore_errors=True)
        mark_opened(self._directory, boot)
        self._open_rows(path)

    # What the two have of their own

    @abstractmethod
    def _open_rows(self, path: Path) -> None: ...

    @abstractmethod
    def _make_map(self, name: str) -> Map:
        """No snapshot is read while it is made."""

    @abstractmethod
    def _written_positions(self) -> Iterable[tuple[bytes, bytes]]: ...

    @abstractmethod
    def _written_owner(self) -> Owner: ...

    @abstractmethod
    def _write_owner(self, row: bytes) -> None: ...

    @abstractmethod
    def _write_rows(self, maps: list[tuple[Map, PendingMap]], positions: Mapping[ChangelogPartition, int]) -> None:
        """Raises StateFenced if another owner is found."""

    @abstractmethod
    def _wipe_rows(self) -> None:
        """Of all maps, also those that nobody has asked for yet, and positions."""

    @abstractmethod
    def _map_names(self) -> list[str]:
        """Of all maps that are on disk."""

    @abstractmethod
    def _forget_rows(self, maps: list[Map], notes: list[bytes], positions: list[ChangelogPartition]) -> None:
        """All rows of the maps, these notes and these positions: one write."""

    def _most_unwritten(self) -> int:
        """How many rows of commits may wait in memory."""
        return MOST_UNWRITTEN

    @abstractmethod
    def _sync(self) -> None: ...

    @abstractmethod
    def _close_rows(self) -> None: ...

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[StateSnapshot]:
        """The last commit that is written, for readers of other threads: one at a time."""

    # A `state.TaskState`

    def part(self, spec: StoreSpec) -> Self:  # noqa: ARG002
        return self

    def map(self, name: str) -> PendingMap:
        if name not in self._maps:
            with self._snapshots:  # else one would have a map in it that it does not know
                committed = self._make_map(name)
                self._maps[name] = committed, PendingMap(committed, _RECENT_BYTES)
        return self._maps[name][1]

    @property
    def positions(self) -> Mapping[ChangelogPartition, int]:
        found = {}
        for key, value in self._written_positions():
            topic, partition = key.decode().rsplit("\x00", 1)
            found[ChangelogPartition(topic, int(partition))] = _POSITION.unpack(value)[0]
        return found | self._unwritten_positions

    def claim(self, owner: Owner) -> None:
        found = self._written_owner()
        if found > owner:  # it has let go of the lock, so it does not write any more
            self.wipe()
        elif found != self._claimed:  # another one has written since
            self._forget_unwritten()
        self._write_owner(_OWNER.pack(*owner))
        self._claimed = owner

    def _forget_unwritten(self) -> None:
        for _, pending in self._maps.values():
            pending.forget()
        self._unwritten_positions = {}

    def commit(self, positions: Mapping[ChangelogPartition, int], *, later: bool = False) -> None:
        for _, pending in self._maps.values():
            pending.commit()
        self._unwritten_positions.update(positions)
        if later and sum(len(pending.unwritten) for _, pending in self._maps.values()) < self._most_unwritten():
            self._write_maps(["/times"], {})  # ahead of the rows, which a replay brings to where these are
        else:
            self._write_all()

    def write_out(self) -> None:
        if self._unwritten_positions or any(pending.has_unwritten for _, pending in self._maps.values()):
            self._write_all()

    def _write_all(self) -> None:
        self._write_maps(list(self._maps), self._unwritten_positions)
        self._unwritten_positions = {}

    def _write_maps(self, names: list[str], positions: Mapping[ChangelogPartition, int]) -> None:
        maps = [self._maps[name] for name in names if self._maps[name][1].has_unwritten]
        try:
            self._write_rows(maps, positions)
        except StateFenced:
            self._forget_unwritten()
            raise
        for _, pending in maps:
            pending.written()

    def _check_owner(self, found: Owner) -> None:
        if found != self._claimed:
            raise StateFenced(str(self._directory), self._claimed, found)

    def discard(self) -> None:
        for _, pending in self._maps.values():
            pending.discard()
        self._reloads.run()

    def on_discard(self, reload: Callable[[], None]) -> None:
        self._reloads.add(reload)

    def wipe(self) -> None:
        self._wipe_rows()
        self._forget_unwritten()
        self.discard()

    def forget_store(self, spec: StoreSpec, changelogs: Iterable[ChangelogPartition]) -> None:
        self.forget_rows_of(spec.name, changelogs)

    def forget_rows_of(self, store: str, changelogs: Iterable[ChangelogPartition]) -> bool:
        """False: there were none."""
        self.write_out()  # of other stores; what is forgotten is not worth a second way
        own = [each for each in {*self._map_names(), *self._maps} if is_map_of(store, each)]
        for each in own:
            self.map(each)
        maps = [committed for committed, _ in map(self._maps.__getitem__, own) if committed.end()]
        of_store = [kind + store.encode() for kind in STORE_NOTES]
        notes = [note for note in of_store if self.notes.get(note) is not None]
        known = self.positions
        positions = [each for each in changelogs if each in known]
        if maps or notes or positions:
            self._forget_rows(maps, notes, positions)
        for each in own:
            self._maps[each][1].forget()
        self.notes.forget_keys(of_store)
        self._reloads.run()
        return bool(maps)

    def close(self) -> None:
        """What is pending is lost; what is committed is on the device, but where another owner has come in between."""
        try:
            try:
                with suppress(StateFenced):
                    self.write_out()
                self._sync()
            finally:  # whatever the disk says: the next one must be able to open it
                self._close_rows()
            mark_clean(self._directory)
        finally:
            os.close(self._lock)


def cannot_be_opened(kind: str, path: Path, error: Exception) -> UserError:
    return UserError(
        f"The {kind} state in {path} cannot be opened",
        str(error),
        f"If it is damaged, delete {path}: it is restored from the changelog topics",
    )


def position_row(partition: ChangelogPartition, offset: int) -> tuple[bytes, bytes]:
    return f"{partition.topic}\x00{partition.partition}".encode(), _POSITION.pack(offset)


def owner_of(row: bytes | None) -> Owner:
    return Owner(*_OWNER.unpack(row)) if row is not None else Owner(-1, -1)
