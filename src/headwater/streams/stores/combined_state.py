"""The state of a task whose stores lie in several places: LMDB, RocksDB, memory.

LMDB is always there. It has the owner, the times of operators, what is noted of changelog topics, and all stores that
lie nowhere else; RocksDB, if some store is to be there, has a directory `rocksdb` of its own in that of the task. Each
store lies in one part together with its position and notes, and each part commits on its own: a process that is killed
between two of them leaves one behind its changelogs, never ahead, and only that one is replayed.
"""

import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from headwater.base.errors import UserError
from headwater.streams.stores.disk_state import DiskState
from headwater.streams.stores.lmdb import LmdbState
from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.ordered import PendingMap
from headwater.streams.stores.snapshot import StateSnapshot
from headwater.streams.stores.spec import StoreSpec, StoreType
from headwater.streams.stores.state import ChangelogPartition, Owner, Reloads

_log: Final = logging.getLogger("headwater.streams")
ROCKSDB: Final = "rocksdb"  # the directory of that part in that of the task
Part = LmdbState | MemoryState | DiskState[Any]


class CombinedSnapshot(StateSnapshot):
    """What is no store's is of LMDB. Another part is opened when one of its stores is asked for."""

    def __init__(
        self, lmdb: StateSnapshot, others: Mapping[StoreType, Callable[[], StateSnapshot]], default: StoreType
    ) -> None:
        super().__init__(lambda _: None)
        self._parts = {StoreType.LMDB: lmdb}
        self._others = others
        self._default = default

    def part(self, spec: StoreSpec) -> StateSnapshot:
        kind = spec.lies_in(self._default)
        if kind not in self._parts:
            self._parts[kind] = self._others[kind]()
        return self._parts[kind]

    def map(self, name: str) -> PendingMap:
        return self._parts[StoreType.LMDB].map(name)


class CombinedState:
    """A `state.TaskState`. `changelogs`: of the stores of the task."""

    def __init__(
        self, parts: Mapping[StoreType, Part], default: StoreType, changelogs: Mapping[ChangelogPartition, StoreSpec]
    ) -> None:
        self._parts = parts
        self._lmdb = parts[StoreType.LMDB]
        self._default = default
        self._changelogs = changelogs
        self._reloads = Reloads()
        self.notes = self._lmdb.notes
        self.times = self._lmdb.times

    def part(self, spec: StoreSpec) -> Part:
        return self._parts[spec.lies_in(self._default)]

    def map(self, name: str) -> PendingMap:
        return self._lmdb.map(name)

    @property
    def positions(self) -> Mapping[ChangelogPartition, int]:
        return {where: at for part in self._parts.values() for where, at in part.positions.items()}

    def claim(self, owner: Owner) -> None:
        for part in self._parts.values():
            part.claim(owner)

    def commit(self, positions: Mapping[ChangelogPartition, int], *, later: bool = False) -> None:
        for part in self._parts.values():
            mine = {where: at for where, at in positions.items() if self.part(self._changelogs[where]) is part}
            part.commit(mine, later=later)

    def write_out(self) -> None:
        for part in self._parts.values():
            part.write_out()

    def discard(self) -> None:
        for part in self._parts.values():
            part.discard()
        self._reloads.run()

    def on_discard(self, reload: Callable[[], None]) -> None:
        self._reloads.add(reload)

    def wipe(self) -> None:
        for part in self._parts.values():
            part.wipe()
        self._reloads.run()

    def forget_store(self, spec: StoreSpec, changelogs: Iterable[ChangelogPartition]) -> None:
        self.part(spec).forget_store(spec, changelogs)
        self._reloads.run()

    def forget_strays(self, stores: Iterable[StoreSpec]) -> None:
        """What a part has of a store that lies elsewhere now. If the store came back, its rows would be older than what
        compaction may have taken from its changelog. Other stores, which may have no changelog, and the times of
        operators stay.
        """
        for spec in stores:
            changelogs = [where for where, logged in self._changelogs.items() if logged.name == spec.name]
            for kind, part in self._parts.items():
                if part is self.part(spec) or not isinstance(part, DiskState):
                    continue
                if part.forget_rows_of(spec.name, changelogs) and not spec.logged:
                    _log.warning("a store without a changelog begins empty store=%s was_in=%s", spec.name, kind)

    @contextmanager
    def snapshot(self) -> Iterator[StateSnapshot]:
        """The last commits that are written, for readers of other threads. Parts are opened when a store of theirs is
        asked for, but LMDB, which tells whether the state is closed.
        """
        with ExitStack() as stack:
            lmdb = stack.enter_context(self._lmdb.snapshot())
            others = {kind: partial(_entered, stack, part) for kind, part in self._parts.items()}
            yield CombinedSnapshot(lmdb, others, self._default)

    def close(self) -> None:
        with ExitStack() as stack:  # each is closed, whatever another says; LMDB, whose lock is the task's, last
            for part in self._parts.values():
                stack.callback(part.close)


def _entered(stack: ExitStack, part: Part) -> StateSnapshot:
    return stack.enter_context(part.snapshot())


OpenState = LmdbState | CombinedState


def open_state(
    directory: Path,
    stores: Iterable[StoreSpec],
    changelogs: Mapping[ChangelogPartition, StoreSpec],
    default: StoreType = StoreType.LMDB,
) -> OpenState:
    """Of a task with these stores. `default`: where a store lies that says nothing. Raises StateInUse."""
    specs = list(stores)
    kinds = {spec.lies_in(default) for spec in specs}
    parts: dict[StoreType, Part] = {StoreType.LMDB: (lmdb := LmdbState(directory))}
    try:
        if StoreType.ROCKSDB in kinds:
            parts[StoreType.ROCKSDB] = _rocksdb(directory / ROCKSDB)
        else:  # of a time when some store was there; nothing but stores is
            shutil.rmtree(directory / ROCKSDB, ignore_errors=True)
        if StoreType.IN_MEMORY in kinds:
            parts[StoreType.IN_MEMORY] = MemoryState()
        combined = CombinedState(parts, default, changelogs)
        combined.forget_strays(specs)
    except BaseException:
        for part in reversed(parts.values()):
            part.close()
        raise
    return combined if len(parts) > 1 else lmdb


def _rocksdb(directory: Path) -> DiskState[Any]:
    check_installed([StoreType.ROCKSDB])
    from headwater.streams.stores.rocksdb import RocksState

    return RocksState(directory)


def check_installed(kinds: Iterable[StoreType]) -> None:
    """Raises UserError if a package is missing."""
    if StoreType.ROCKSDB in kinds and find_spec("rocksdict") is None:
        raise UserError(
            "Stores in RocksDB need the package rocksdict",
            "it is not installed where the application runs",
            "pip install 'headwater[rocksdb]'",
        )
