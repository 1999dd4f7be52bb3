"""The state of a task in RocksDB: one database in the folder `rocksdb` of its directory.

A column family for each map and one for positions; the owner is in the default one. A commit is one write batch over
all column families, written to RocksDB's log without fsync: it is there as a whole or not at all, also after a kill.
Keys are as they are, of any length; their order is RocksDB's own, bytewise.

Traps of rocksdict. Its `Snapshot` answers `[]` as of its moment, and iterates over what is there now. So a snapshot is
an iterator of each column family, made between two writes: these are true ones. A database stays locked by this process
until the last of its objects is gone, also iterators that somebody has left in the middle: all are known here, and
closed with it.
"""

import threading
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final
from weakref import WeakSet

import rocksdict

from headwater.streams.stores.disk_state import DiskState, cannot_be_opened, owner_of, position_row
from headwater.streams.stores.ordered import CommittedMap, PendingMap
from headwater.streams.stores.snapshot import StateSnapshot
from headwater.streams.stores.state import ChangelogPartition, Owner, StateClosed

_POSITIONS: Final = "/positions"
_DEFAULT: Final = "default"
_OWNER_KEY: Final = b"owner"
_BLOCK_CACHE: Final = rocksdict.Cache(64 << 20)  # of all tasks of this process together
_BLOCK_BYTES: Final = 4096
_BLOOM_BITS: Final = 10
_WRITE_BUFFER_BYTES: Final = 16 << 20  # of one column family
_WRITE_BUFFERS_BYTES: Final = 64 << 20  # of all of a task, after which some are written to files
_COUNTED: Final = 10_000  # rows are counted up to here; beyond, RocksDB estimates


def _options() -> Any:
    """Sizes are Kafka Streams' own where it has them."""
    table = rocksdict.BlockBasedOptions()
    table.set_block_cache(_BLOCK_CACHE)
    table.set_block_size(_BLOCK_BYTES)
    table.set_bloom_filter(_BLOOM_BITS, False)
    options = rocksdict.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    options.set_db_write_buffer_size(_WRITE_BUFFERS_BYTES)
    options.set_max_total_wal_size(_WRITE_BUFFERS_BYTES)
    options.set_compression_type(rocksdict.DBCompressionType.lz4())
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    return options


def _names(path: Path) -> list[str]:
    """Of the column families, but the default one, which is always there."""
    if not (path / "CURRENT").exists():
        return []
    return [name for name in rocksdict.Rdict.list_cf(str(path), _options()) if name != _DEFAULT]


Rows = Generator[tuple[bytes, bytes], None, None]


class RocksMap:
    """An `ordered.CommittedMap`: one column family."""

    __slots__ = ("_scans", "family", "handle")

    def __init__(self, family: Any, handle: Any, scans: "WeakSet[Rows]") -> None:
        self.family = family
        self.handle = handle
        self._scans = scans

    def get(self, key: bytes) -> bytes | None:
        found: bytes | None = self.family.get(key)
        return found

    def count(self) -> int:
        estimate = int(self.family.property_int_value("rocksdb.estimate-num-keys") or 0)
        return sum(1 for _ in self.family.keys()) if estimate <= _COUNTED else estimate  # noqa: SIM118

    def end(self) -> bytes | None:
        return _end(self.family.iter())

    def scan(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        if reverse:
            rows = _down(self.family.items(backwards=True, from_key=upper), lower, upper)
        else:
            rows = _up(self.family.items(from_key=lower), upper)
        self._scans.add(rows)
        return rows

    def add_to(self, batch: Any, changes: Mapping[bytes, bytes | None], floor: bytes) -> None:
        """All rows below `floor` go first."""
        if floor:
            batch.delete_range(b"", floor, self.handle)
        for key, value in changes.items():
            if value is None:
                batch.delete(key, self.handle)
            else:
                batch.put(key, value, self.handle)

    def add_wiping_to(self, batch: Any) -> None:
        end = self.end()
        if end:
            batch.delete_range(b"", end, self.handle)


def _end(iterator: Any) -> bytes:
    iterator.seek_to_last()
    return bytes(iterator.key()) + b"\x00" if iterator.valid() else b""


def _up(items: Iterator[tuple[bytes, bytes]], upper: bytes | None) -> Rows:
    for key, value in items:
        if upper is not None and key >= upper:
            return
        yield key, value


def _down(items: Iterator[tuple[bytes, bytes]], lower: bytes | None, upper: bytes | None) -> Rows:
    for key, value in items:
        if lower is not None and key < lower:
            return
        if upper is None or key < upper:
            yield key, value


class PinnedMap:
    """An `ordered.CommittedMap` as it was when its iterator was made: one for all who read it, of one thread."""

    def __init__(self, family: Any) -> None:
        self._iterator: Any = family.iter()
        self._last_scan = 0  # who has moved the iterator last: one that goes on finds its place again
        self._numbers = count(1)

    def release(self) -> None:
        self._iterator = None

    def get(self, key: bytes) -> bytes | None:
        iterator, self._last_scan = self._iterator, 0
        iterator.seek(key)
        return bytes(iterator.value()) if iterator.valid() and iterator.key() == key else None

    def end(self) -> bytes | None:
        self._last_scan = 0
        return _end(self._iterator)

    def count(self) -> int:
        return sum(1 for _ in self.scan(None, None, False))

    def scan(self, lower: bytes | None, upper: bytes | None, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        number, key = next(self._numbers), None
        while True:
            if self._last_scan == number:
                self._step(reverse)
            else:
                self._last_scan = number
                self._seek(key, lower, upper, reverse)
            if not self._iterator.valid():
                return
            key = bytes(self._iterator.key())
            if (lower is not None and key < lower) if reverse else (upper is not None and key >= upper):
                return
            yield key, bytes(self._iterator.value())

    def _step(self, reverse: bool) -> None:
        if reverse:
            self._iterator.prev()
        else:
            self._iterator.next()

    def _seek(self, after: bytes | None, lower: bytes | None, upper: bytes | None, reverse: bool) -> None:
        """To the row behind `after`, or the first of the scan."""
        start = after if after is not None else upper if reverse else lower
        if start is None:
            if reverse:
                self._iterator.seek_to_last()
            else:
                self._iterator.seek_to_first()
            return
        if reverse:
            self._iterator.seek_for_prev(start)
        else:
            self._iterator.seek(start)
        if self._iterator.valid() and self._iterator.key() == start and (reverse or after is not None):
            self._step(reverse)


class RocksState(DiskState[RocksMap]):
    folder = "rocksdb"

    def _open_rows(self, path: Path) -> None:
        self._scans: WeakSet[Rows] = WeakSet()
        self._writing = threading.Lock()  # no snapshot is taken in the middle of a write
        try:
            families = {name: _options() for name in _names(path)}
            self._database: Any = rocksdict.Rdict(str(path), _options(), column_families=families or None)
            self._families = {name: self._family(name) for name in families}
            self._positions = self._families.get(_POSITIONS) or self._new_family(_POSITIONS)
        except Exception as error:
            self._database, self._families = None, {}
            raise cannot_be_opened("RocksDB", path, error) from error

    def _family(self, name: str) -> RocksMap:
        handle = self._database.get_column_family_handle(name)
        return RocksMap(self._database.get_column_family(name), handle, self._scans)

    def _new_family(self, name: str) -> RocksMap:
        self._database.create_column_family(name, _options())
        self._families[name] = made = self._family(name)
        return made

    def _make_map(self, name: str) -> RocksMap:
        return self._families.get(name) or self._new_family(name)

    def _written_positions(self) -> Iterable[tuple[bytes, bytes]]:
        return self._positions.scan(None, None, False)

    def _written_owner(self) -> Owner:
        return owner_of(self._database.get(_OWNER_KEY))

    def _write_owner(self, row: bytes) -> None:
        self._database.put(_OWNER_KEY, row)

    def _write_rows(self, maps: list[tuple[RocksMap, PendingMap]], positions: Mapping[ChangelogPartition, int]) -> None:
        """The owner is looked for before: nobody else writes while this process has the lock."""
        self._check_owner(self._written_owner())
        self._write(maps, positions)

    def _write(self, maps: list[tuple[RocksMap, PendingMap]], positions: Mapping[ChangelogPartition, int]) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for committed, pending in maps:
            committed.add_to(batch, pending.unwritten, pending.unwritten_floor)
        for partition, offset in positions.items():
            batch.put(*position_row(partition, offset), self._positions.handle)
        if not batch.is_empty():
            self._apply(batch)

    def _apply(self, batch: Any) -> None:
        with self._writing:
            self._database.write(batch)

    @contextmanager
    def snapshot(self) -> Iterator[StateSnapshot]:
        with self._snapshots:
            if self._database is None:
                raise StateClosed(str(self._directory))
            with self._writing:
                pinned: dict[str, PinnedMap] = {
                    name: PinnedMap(committed.family) for name, (committed, _) in self._maps.items()
                }
            try:
                yield StateSnapshot(pinned.get)
            finally:
                for each in pinned.values():
                    each.release()

    def _wipe_rows(self) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for family in self._families.values():
            family.add_wiping_to(batch)
        self._apply(batch)

    def _map_names(self) -> list[str]:
        return list(self._families)

    def _forget_rows(self, maps: list[RocksMap], notes: list[bytes], positions: list[ChangelogPartition]) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for each in maps:
            each.add_wiping_to(batch)
        self._maps["/notes"][0].add_to(batch, dict.fromkeys(notes), b"")
        for partition in positions:
            batch.delete(position_row(partition, 0)[0], self._positions.handle)
        self._apply(batch)

    def _sync(self) -> None:
        self._database.flush_wal(True)

    def _close_rows(self) -> None:
        with self._snapshots:
            let_go(self._database, self._families.values(), self._scans)
            self._maps, self._families, self._database = {}, {}, None
            del self._positions, self.notes, self.times


def let_go(database: Any, maps: Iterable[RocksMap], scans: "WeakSet[Rows]") -> None:
    """Closes it, whoever still holds one of its objects."""
    for rows in list(scans):
        rows.close()
    for each in maps:
        each.family.close()
        each.handle = None  # it would keep the database open, and stores have their maps as long as they live
    database.close()


class RocksReader:
    """The database that another process has open, to read: as of the last `catch_up`. Used by one thread at a time."""

    def __init__(self, directory: Path, own: Path) -> None:
        """`directory`: of the state. `own`: of this reader, for RocksDB's log of it."""
        self._path = directory / RocksState.folder
        self._own = own
        self._scans: WeakSet[Rows] = WeakSet()
        self._maps: dict[str, RocksMap] = {}
        self._database: Any = None
        self._inode = self._path.stat().st_ino
        self._open()

    @property
    def is_gone(self) -> bool:
        """Its files were deleted; perhaps there are others."""
        try:
            return self._path.stat().st_ino != self._inode
        except OSError:
            return True

    def _open(self) -> None:
        families = {name: _options() for name in (_DEFAULT, *_names(self._path))}
        mode = rocksdict.AccessType.secondary(str(self._own))
        options = _options()
        options.set_max_open_files(-1)  # else files that the writer has deleted since could not be read
        self._database = rocksdict.Rdict(str(self._path), options, column_families=families, access_type=mode)
        self._maps = {name: RocksMap(self._database.get_column_family(name), None, self._scans) for name in families}

    def catch_up(self) -> None:
        """To the last commit that is written. A reader follows no maps that were made since: it is opened again."""
        if set(_names(self._path)) | {_DEFAULT} != self._maps.keys():
            self.close()
            self._open()
        self._database.try_catch_up_with_primary()

    def find(self, name: str) -> CommittedMap | None:
        return self._maps.get(name)

    def close(self) -> None:
        """Again, too: it is closed already where it could not be opened again."""
        database, self._database = self._database, None
        if database is not None:
            let_go(database, self._maps.values(), self._scans)
        self._maps = {}
