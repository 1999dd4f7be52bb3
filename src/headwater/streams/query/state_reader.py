"""The state of an application that another process of this machine has open: what `headwater stream serve` answers
from.

LMDB lets many processes read while one writes, and RocksDB lets them follow what one has written. So queries need no
part of the processor that computes, and go on being answered (with the last commit) while the application restarts.
Tasks are found as directories below the state directory, and looked for again every second: they come, go, and are made
anew. Stores in memory are not here, nor are global tables, which are in memory always.
"""

import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lmdb

from headwater.base.errors import UserError
from headwater.streams.engine.task_settings import TaskSettings
from headwater.streams.query.directory import Host
from headwater.streams.query.readable import NotReady
from headwater.streams.stores.combined_state import ROCKSDB, CombinedSnapshot
from headwater.streams.stores.lmdb import lmdb_snapshot, owner_in
from headwater.streams.stores.snapshot import StateSnapshot
from headwater.streams.stores.spec import StoreType
from headwater.streams.stores.state import Owner, is_copied
from headwater.streams.stores.state_directory import boot_id, is_believed
from headwater.streams.stores.task_counts import read_task_counts
from headwater.streams.topology.topology import SubTopology

if TYPE_CHECKING:
    from headwater.streams.stores.rocksdb import RocksReader

_LOOK_EVERY_S: Final = 1.0
_MOST_MAPS: Final = 512


class StateOfTask:
    """A `readable.Readable`: one directory. Used by one thread at a time."""

    def __init__(
        self, plan: SubTopology, partition: int, settings: TaskSettings, directory: Path, *, stale: bool = False
    ) -> None:
        """`stale`: reads also what is a standby's copy, which may be behind."""
        self._stale = stale
        self.plan = plan
        self.partition = partition
        self.settings = settings
        self.directory = directory
        self.inode = _inode(directory)
        self._environment = lmdb.open(
            str(directory / "lmdb"), readonly=True, create=False, max_dbs=_MOST_MAPS, lock=True, readahead=False
        )
        self._databases: dict[str, Any] = {}
        kinds = {store.spec.lies_in(settings.store_type) for store in plan.stores}
        self._follower = Follower(directory / ROCKSDB) if StoreType.ROCKSDB in kinds else None

    @property
    def owner(self) -> Owner:
        with self._environment.begin() as reading:
            return owner_in(self._environment, reading)

    @contextmanager
    def snapshot(self) -> Iterator[StateSnapshot]:
        if self._environment.stat()["entries"] != len(self._databases):
            self._open_databases()
        reading = self._begin()
        try:
            snapshot = lmdb_snapshot(reading, self._databases)
            if not self._stale and is_copied(snapshot):
                raise NotReady(
                    f"What lies here of task {self.directory.name} is a standby's copy, or is being restored",
                    "another slot has the task, or not all of its state is here yet",
                    "Ask again, or the machine of that slot, or allow stale answers",
                )
            if self._follower is None:
                yield snapshot
            else:
                others = {StoreType.ROCKSDB: self._follower.snapshot}
                yield CombinedSnapshot(snapshot, others, self.settings.store_type)
        finally:
            reading.abort()

    def _begin(self) -> Any:
        try:
            return self._environment.begin()
        except lmdb.MapResizedError:  # the writer has made room
            self._environment.set_mapsize(0)
            return self._environment.begin()

    def _open_databases(self) -> None:
        """A handle is known to transactions that begin after it was opened, so this comes first."""
        with self._begin() as reading:
            names = [bytes(name) for name, _ in reading.cursor()]
        self._databases = {name.decode(): self._environment.open_db(name, create=False) for name in names}

    def close(self) -> None:
        self._environment.close()
        if self._follower is not None:
            self._follower.close()


class Follower:
    """RocksDB as another process writes it: opened when it is asked for, and again when it was made anew."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._own = Path(tempfile.mkdtemp(prefix="headwater-reader-"))
        self._reader: RocksReader | None = None

    def snapshot(self) -> StateSnapshot:
        """As of the last commit that is written, until the next one is asked for. Raises NotReady."""
        from headwater.streams.stores.rocksdb import RocksReader

        try:
            if self._reader is None or self._reader.is_gone:
                self._let_go()
                self._reader = RocksReader(self._directory, self._own)
            self._reader.catch_up()
        except Exception as problem:  # noqa: BLE001 - RocksDB has one type for all: its files come and go while they are read
            self._let_go()
            raise NotReady(f"The state in {self._directory} cannot be read now", str(problem), "Ask again") from None
        return StateSnapshot(self._reader.find)

    def _let_go(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def close(self) -> None:
        self._let_go()
        shutil.rmtree(self._own, ignore_errors=True)


class StateReader:
    """The tasks of one application below a state directory. `tasks` is asked by one thread at a time."""

    def __init__(
        self,
        state_dir: Path,
        application: str,
        plans: list[SubTopology],
        settings: TaskSettings,
        cluster: str | None,
        *,
        stale: bool = False,
    ) -> None:
        """`stale`: answers also from standbys' copies."""
        self._stale = stale
        self._root = _root(state_dir, application, cluster)
        here = [_on_disk(plan, settings.store_type) for plan in plans if not plan.is_global]
        self._plans = {plan.number: plan for plan in here if plan.stores}
        self._settings = settings
        self._found: dict[str, StateOfTask] = {}
        self._looked_at = -_LOOK_EVERY_S
        self._lock = threading.Lock()

    def tasks(self) -> list[StateOfTask]:
        """Those of this moment, or of a second ago. Raises NotReady while there is none."""
        with self._lock:
            now = time.monotonic()
            if now - self._looked_at >= _LOOK_EVERY_S or not self._found:
                self._look()
                self._looked_at = now
            if not self._found:
                raise NotReady(f"There is no state of tasks in {self._root}", "the application has not run here", "")
            return list(self._found.values())

    # A `directory.Directory`: all that is asked is here, or nowhere

    def others(self) -> Sequence[Host]:
        return ()

    def partitions(self, store: str) -> int:
        """Of the run, whichever of them are here. Raises NotReady where no run has told."""
        numbers = [
            number
            for number, plan in self._plans.items()
            if any(each.name == store and not each.buffer for each in plan.stores)
        ]
        if not numbers:
            return 0
        found = read_task_counts(self._root).get(numbers[0])
        if found is None:
            raise NotReady(
                f"Nobody knows how many partitions {store} has",
                f"there is no number of tasks in {self._root}",
                "It is written when the application starts",
            )
        return found

    def close(self) -> None:
        for task in self._found.values():
            task.close()
        self._found = {}

    def _look(self) -> None:
        here = self._candidates()
        for name, known in list(self._found.items()):
            if here.get(name) != [known.directory] or _inode(known.directory) != known.inode:
                known.close()
                del self._found[name]
        for name, directories in here.items():
            if name not in self._found:
                opened = [task for each in directories if (task := self._open(name, each)) is not None]
                opened.sort(key=lambda task: task.owner)
                for older in opened[:-1]:
                    older.close()
                if opened:
                    self._found[name] = opened[-1]

    def _candidates(self) -> dict[str, list[Path]]:
        """By task: its directory, and those beside it that were made while a stopped process held the first."""
        found: dict[str, list[Path]] = {}
        for path in sorted(self._root.iterdir()) if self._root.is_dir() else ():
            name = path.name.partition(".")[0]
            number, separator, partition = name.partition("_")
            if separator and number.isdecimal() and partition.isdecimal() and int(number) in self._plans:
                found.setdefault(name, []).append(path)
        return found

    def _open(self, name: str, directory: Path) -> StateOfTask | None:
        if not is_believed(directory, boot_id()):
            return None  # of before the machine went down: its owner wipes it
        number, _, partition = name.partition("_")
        try:
            plan = self._plans[int(number)]
            return StateOfTask(plan, int(partition), self._settings, directory, stale=self._stale)
        except (lmdb.Error, OSError):
            return None  # it is being made, or removed


def _on_disk(plan: SubTopology, default: StoreType) -> SubTopology:
    """Without stores in memory: these are where the task is."""
    stores = [store for store in plan.stores if store.spec.lies_in(default) is not StoreType.IN_MEMORY]
    return replace(plan, stores=stores)


def _inode(directory: Path) -> int:
    try:
        return (directory / "lmdb" / "data.mdb").stat().st_ino
    except OSError:
        return -1


def _root(state_dir: Path, application: str, cluster: str | None) -> Path:
    above = state_dir / application
    if cluster is not None:
        return above / cluster
    clusters = sorted(path for path in above.iterdir() if path.is_dir()) if above.is_dir() else []
    if len(clusters) != 1:
        raise UserError(
            f"There is no state of {application} in {state_dir}"
            if not clusters
            else f"The application {application} has state of several clusters in {state_dir}",
            ", ".join(path.name for path in clusters) or "it has not run on this machine, or keeps its state elsewhere",
            "Name the cluster: --cluster-id" if clusters else "Name the directory: --state-dir",
        )
    return clusters[0]
