"""The state of a task on disk: one LMDB environment in a directory of its own.

    lock        held (flock) by the process that writes
    opened      "clean", or the boot id of the machine under which the state was opened and not closed
    data.mdb    LMDB: a database for each map, "/owner" and "/positions"

LMDB writes without fsync: what it has written survives the death of the process, not that of the machine. So a
directory that was not closed under this boot of the machine is wiped, and its task restores from the changelog topics.
All maps, positions and the check of the owner are one LMDB transaction. Readers in other processes see what was written
last. A commit may leave its rows in memory for `write_out`: they are written with their positions and notes later, so
that what a kill takes is replayed. Only the times of operators, which no replay brings back, are written with every
commit.

Keys. LMDB takes up to 511 bytes. A row's key is `k` and the key, up to 500 bytes of it; keys that are longer and share
these 500 bytes lie together in one row, `k`, the 500 bytes and a zero byte, as a sorted list of (rest of the key,
value). So order and identity stay. Not for network file systems. The file never shrinks; it is made anew when the state
is wiped.
"""

import errno
import fcntl
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from typing import Any, Final, Protocol

import lmdb

from headwater.base.errors import UserError
from headwater.streams.stores.formats import after_prefix
from headwater.streams.stores.ordered import PendingMap
from headwater.streams.stores.state import ChangelogPartition, Owner, Reloads, StateFenced

_MAP_SIZE_BYTES: Final = 1 << 36  # address space, not disk; doubled when it is full
_MOST_MAPS: Final = 512
_SHORT: Final = 500
_RECENT_BYTES: Final = 32 << 20  # of rows of each map that stay in memory
_MOST_UNWRITTEN: Final = 100_000  # rows of commits that wait in memory
_PAIR: Final = Struct(">II")
_OWNER: Final = Struct(">qq")
_POSITION: Final = Struct(">q")
_OWNERS: Final = b"/owner"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class StateInUse(UserError):
    def __init__(self, directory: Path) -> None:
        super().__init__(
            f"The state in {directory} is open in another process",
            "a process that runs, or was stopped (SIGSTOP), holds its lock",
            "End that process, or name another state directory",
        )


def _row_key(key: bytes) -> bytes:
    return b"k" + key if len(key) <= _SHORT else b"k" + key[:_SHORT] + b"\x00"


def _unpacked(row: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(row):
        key_size, value_size = _PAIR.unpack_from(row, at)
        at += _PAIR.size
        yield row[at : at + key_size], row[at + key_size : at + key_size + value_size]
        at += key_size + value_size


def _packed(entries: Mapping[bytes, bytes]) -> bytes:
    pieces = (_PAIR.pack(len(rest), len(entries[rest])) + rest + entries[rest] for rest in sorted(entries))
    return b"".join(pieces)


class Reading(Protocol):
    """Who has a transaction to read in."""

    @property
    def reading(self) -> Any: ...


class LmdbMap:
    """An `ordered.CommittedMap`: one database of the environment, read in the transaction of its state."""

    __slots__ = ("_state", "database")

    def __init__(self, state: Reading, database: Any) -> None:
        self._state = state
        self.database = database

    def get(self, key: bytes) -> bytes | None:
        row: bytes | None = self._state.reading.get(_row_key(key), db=self.database)
        if row is None or len(key) <= _SHORT:
            return row
        rest = key[_SHORT:]
        return next((value for found, value in _unpacked(row) if found == rest), None)

    def count(self) -> int:
        return int(self._state.reading.stat(self.database)["entries"])

    def end(self) -> bytes | None:
        cursor = self._state.reading.cursor(db=self.database)
        if not cursor.last():
            return b""
        row_key = cursor.key()
        return row_key[1:] + b"\x00" if len(row_key) <= 1 + _SHORT else after_prefix(row_key[1:-1])

    def scan(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        cursor = self._state.reading.cursor(db=self.database)
        if reverse:
            return _backward(cursor, lower, upper)
        return _forward(cursor, lower, upper)

    def apply(self, transaction: Any, changes: Mapping[bytes, bytes | None], floor: bytes = b"") -> None:
        """`floor`, of at most 500 bytes: all rows below it go first."""
        if floor:
            _delete_below(transaction.cursor(db=self.database), b"k" + floor)
        if not changes:
            return
        keys = sorted(changes)
        if None not in changes.values() and max(map(len, keys)) <= _SHORT:
            transaction.cursor(db=self.database).putmulti([(b"k" + key, changes[key]) for key in keys])
            return
        puts: list[tuple[bytes, bytes]] = []
        long: dict[bytes, dict[bytes, bytes | None]] = {}
        for key in keys:
            value = changes[key]
            if len(key) > _SHORT:
                long.setdefault(_row_key(key), {})[key[_SHORT:]] = value
            elif value is None:
                transaction.delete(b"k" + key, db=self.database)
            else:
                puts.append((b"k" + key, value))
        if puts:
            transaction.cursor(db=self.database).putmulti(puts)
        for row_key, entries in long.items():
            row = transaction.get(row_key, db=self.database)
            merged = {**dict(_unpacked(row or b"")), **entries}
            left = {rest: value for rest, value in merged.items() if value is not None}
            if left:
                transaction.put(row_key, _packed(left), db=self.database)
            else:
                transaction.delete(row_key, db=self.database)


def _delete_below(cursor: Any, floor: bytes) -> None:
    found = cursor.first()
    while found and cursor.key() < floor:
        found = cursor.delete()  # it stands at the next one then


class NoRows:
    """An `ordered.CommittedMap` without rows: one that nobody has made yet."""

    def get(self, key: bytes) -> bytes | None:  # noqa: ARG002
        return None

    def scan(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:  # noqa: ARG002
        return iter(())

    def count(self) -> int:
        return 0

    def end(self) -> bytes | None:
        return b""


def _entries(row_key: bytes, row: bytes, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
    """The keys and values of a row: one, or those of all long keys that share their beginning."""
    if len(row_key) <= 1 + _SHORT:
        yield row_key[1:], row
    else:
        found = list(_unpacked(row))
        for rest, value in reversed(found) if reverse else found:
            yield row_key[1:-1] + rest, value


def _forward(cursor: Any, lower: bytes | None, upper: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    if not (cursor.set_range(_row_key(lower)) if lower is not None else cursor.first()):
        return
    for row_key, row in cursor:
        for key, value in _entries(row_key, row, False):
            if upper is not None and key >= upper:
                return
            if lower is None or key >= lower:
                yield key, value


def _backward(cursor: Any, lower: bytes | None, upper: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    found = upper is not None and cursor.set_range(_row_key(upper))
    if not found and not cursor.last():
        return
    for row_key, row in cursor.iterprev():
        for key, value in _entries(row_key, row, True):
            if lower is not None and key < lower:
                return
            if upper is None or key < upper:
                yield key, value


class LmdbState:
    """A `state.TaskState`. Owns the directory as long as it is open; used by one thread, but for `snapshot`."""

    def __init__(self, directory: Path, boot: str | None = None) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(directory)
        self._maps: dict[str, tuple[LmdbMap, PendingMap]] = {}
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
        mark = self._directory / "opened"
        opened = mark.read_text() if mark.exists() else ""
        if opened not in ("clean", boot):
            shutil.rmtree(self._directory / "lmdb", ignore_errors=True)
        _write_through(mark, boot)
        self._environment = lmdb.open(
            str(self._directory / "lmdb"),
            map_size=_MAP_SIZE_BYTES,
            max_dbs=_MOST_MAPS,
            sync=False,
            metasync=False,
            lock=True,
            readahead=False,
        )
        self._meta = self._environment.open_db(_OWNERS)
        self._positions_database = self._environment.open_db(b"/positions")
        self.reading = self._environment.begin()

    def map(self, name: str) -> PendingMap:
        if name not in self._maps:
            with self._snapshots:  # else one would have a map in it that its transaction does not know
                self.reading.abort()
                committed = LmdbMap(self, self._environment.open_db(name.encode()))
                self.reading = self._environment.begin()
                self._maps[name] = committed, PendingMap(committed, _RECENT_BYTES)
        return self._maps[name][1]

    @property
    def positions(self) -> Mapping[ChangelogPartition, int]:
        found = {}
        for key, value in self.reading.cursor(db=self._positions_database):
            topic, partition = key.decode().rsplit("\x00", 1)
            found[ChangelogPartition(topic, int(partition))] = _POSITION.unpack(value)[0]
        return found | self._unwritten_positions

    def claim(self, owner: Owner) -> None:
        found = self._owner(self.reading)
        if found > owner:  # it has let go of the lock, so it does not write any more
            self.wipe()
        elif found != self._claimed:  # another one has written since
            self._forget_unwritten()
        with self._environment.begin(write=True) as transaction:
            transaction.put(b"owner", _OWNER.pack(*owner), db=self._meta)
        self._claimed = owner

    def _forget_unwritten(self) -> None:
        for _, pending in self._maps.values():
            pending.forget()
        self._unwritten_positions = {}

    def _owner(self, transaction: Any) -> Owner:
        return _unpacked_owner(transaction.get(b"owner", db=self._meta))

    def commit(self, positions: Mapping[ChangelogPartition, int], *, later: bool = False) -> None:
        for _, pending in self._maps.values():
            pending.commit()
        self._unwritten_positions.update(positions)
        if later and sum(len(pending.unwritten) for _, pending in self._maps.values()) < _MOST_UNWRITTEN:
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
        self.reading.abort()  # an older snapshot would keep pages from being used again
        try:
            while not self._written(maps, positions):
                with self._snapshots:
                    self._environment.set_mapsize(self._environment.info()["map_size"] * 2)
        except StateFenced:
            self._forget_unwritten()
            raise
        finally:
            self.reading = self._environment.begin()
        for _, pending in maps:
            pending.written()

    def _written(self, maps: list[tuple[LmdbMap, PendingMap]], positions: Mapping[ChangelogPartition, int]) -> bool:
        """False if the map is full."""
        try:
            self._write(maps, positions)
        except lmdb.MapFullError:
            return False
        return True

    def _write(self, maps: list[tuple[LmdbMap, PendingMap]], positions: Mapping[ChangelogPartition, int]) -> None:
        with self._environment.begin(write=True) as transaction:
            found = self._owner(transaction)
            if found != self._claimed:
                raise StateFenced(str(self._directory), self._claimed, found)
            for committed, pending in maps:
                committed.apply(transaction, pending.unwritten, pending.unwritten_floor)
            for partition, offset in positions.items():
                key = f"{partition.topic}\x00{partition.partition}".encode()
                transaction.put(key, _POSITION.pack(offset), db=self._positions_database)

    def discard(self) -> None:
        for _, pending in self._maps.values():
            pending.discard()
        self._reloads.run()

    def on_discard(self, reload: Callable[[], None]) -> None:
        self._reloads.add(reload)

    @contextmanager
    def snapshot(self) -> "Iterator[LmdbSnapshot]":
        """The last commit that is written, for readers of other threads: one at a time."""
        with self._snapshots, self._environment.begin() as reading:
            yield LmdbSnapshot(reading, {name: committed.database for name, (committed, _) in self._maps.items()})

    def wipe(self) -> None:
        names = [
            bytes(name) for name, _ in self.reading.cursor()
        ]  # of all maps, also those that nobody has asked for yet
        self.reading.abort()
        databases = [self._environment.open_db(name) for name in names if name != _OWNERS]
        with self._environment.begin(write=True) as transaction:
            for database in databases:
                transaction.drop(database, delete=False)
        self.reading = self._environment.begin()
        self._forget_unwritten()
        self.discard()

    def close(self) -> None:
        """What is pending is lost; what is committed is on the device, but where another owner has come in between."""
        try:
            try:
                with suppress(StateFenced):
                    self.write_out()
                self._environment.sync(True)
            finally:  # whatever the disk says: the next one must be able to open it
                self.reading.abort()
                with self._snapshots:
                    self._environment.close()
            _write_through(self._directory / "opened", "clean")
        finally:
            os.close(self._lock)


class LmdbSnapshot:
    """A `state.TaskState` to read from; what is written to it is nowhere."""

    def __init__(self, reading: Any, databases: Mapping[str, Any]) -> None:
        self.reading = reading
        self._databases = databases
        self._maps: dict[str, PendingMap] = {}
        self.positions: Mapping[ChangelogPartition, int] = {}

    def map(self, name: str) -> PendingMap:
        if name not in self._maps:
            database = self._databases.get(name)  # None: the task has not asked for it yet
            self._maps[name] = PendingMap(NoRows() if database is None else LmdbMap(self, database))
        return self._maps[name]

    @property
    def notes(self) -> PendingMap:
        return self.map("/notes")

    @property
    def times(self) -> PendingMap:
        return self.map("/times")

    def on_discard(self, reload: Callable[[], None]) -> None:
        """Nothing is discarded here."""

    def claim(self, owner: Owner) -> None:
        raise AssertionError(f"a snapshot cannot be claimed by {owner}")

    def commit(self, positions: Mapping[ChangelogPartition, int], *, later: bool = False) -> None:  # noqa: ARG002
        raise AssertionError(f"a snapshot is not written: {positions}")

    def discard(self) -> None:
        """Nothing is pending."""

    wipe = close = write_out = discard


def owner_in(environment: Any, reading: Any) -> Owner:
    """Who has claimed the state, for a process that only reads it."""
    return _unpacked_owner(reading.get(b"owner", db=environment.open_db(_OWNERS, txn=reading, create=False)))


def _unpacked_owner(row: bytes | None) -> Owner:
    return Owner(*_OWNER.unpack(row)) if row is not None else Owner(-1, -1)


def boot_id() -> str:
    """Of this machine, since it was started."""
    return _BOOT_ID.read_text().strip()


def _write_through(path: Path, text: str) -> None:
    """The file and its name are on the device when this returns: a mark that a power cut forgets would vouch for torn
    state.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _locked(directory: Path) -> int:
    descriptor = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN):
            raise StateInUse(directory) from None
        raise
    return descriptor


def remove_unused(directory: Path) -> None:
    """Deletes a state that no process has open."""
    try:
        lock = _locked(directory)
    except StateInUse:
        return
    shutil.rmtree(directory, ignore_errors=True)
    os.close(lock)
