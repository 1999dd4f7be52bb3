"""The state of a task in LMDB: one environment in the folder `lmdb` of its directory.

A database for each map, "/owner" and "/positions". LMDB writes without fsync; a commit is one LMDB transaction. Readers
in other processes see what was written last. Each transaction that reads has a place in LMDB's table of readers, and no
page that it may still look at is used again. A process that is killed leaves its place taken, and the table is made
anew only when nobody has the environment open; so each write looks for readers that have died.

Keys. LMDB takes up to 511 bytes. A row's key is `k` and the key, up to 500 bytes of it; keys that are longer and share
these 500 bytes lie together in one row, `k`, the 500 bytes and a zero byte, as a sorted list of (rest of the key,
value). So order and identity stay. Not for network file systems. The file never shrinks; it is made anew when the state
is wiped.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Any, Final, Protocol, TypeVar

import lmdb

from headwater.streams.stores.disk_state import MOST_UNWRITTEN, DiskState, cannot_be_opened, owner_of, position_row
from headwater.streams.stores.formats import after_prefix
from headwater.streams.stores.ordered import PendingMap
from headwater.streams.stores.snapshot import StateSnapshot
from headwater.streams.stores.state import ChangelogPartition, Owner, StateClosed

_MOST_PAGES: Final = 25_000  # 100 MB that a write changes: LMDB has copies of them in memory, and keeps that
_MAP_SIZE_BYTES: Final = 1 << 36  # address space, not disk; doubled when it is full
_MOST_MAPS: Final = 512
_SHORT: Final = 500
_PAIR: Final = Struct(">II")
_OWNERS: Final = b"/owner"

T = TypeVar("T")


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
            rows = zip(map(b"k".__add__, keys), map(changes.__getitem__, keys), strict=True)
            transaction.cursor(db=self.database).putmulti(rows)
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


class LmdbState(DiskState[LmdbMap]):
    folder = "lmdb"
    _is_closed = False

    def _open_rows(self, path: Path) -> None:
        try:
            self._environment = lmdb.open(
                str(path),
                map_size=_MAP_SIZE_BYTES,
                max_dbs=_MOST_MAPS,
                sync=False,
                metasync=False,
                lock=True,
                readahead=False,
            )
            self._meta = self._environment.open_db(_OWNERS)
            self._positions_database = self._environment.open_db(b"/positions")
        except lmdb.Error as error:
            raise cannot_be_opened("LMDB", path, error) from error
        self._environment.reader_check()
        self.reading = self._environment.begin()

    def _make_map(self, name: str) -> LmdbMap:
        database = self._written(
            lambda transaction: self._environment.open_db(name.encode(), transaction), nullcontext()
        )
        return LmdbMap(self, database)

    def _written_positions(self) -> Iterable[tuple[bytes, bytes]]:
        rows: Iterable[tuple[bytes, bytes]] = self.reading.cursor(db=self._positions_database)
        return rows

    def _written_owner(self) -> Owner:
        return owner_of(self.reading.get(b"owner", db=self._meta))

    def _write_owner(self, row: bytes) -> None:
        self._written(lambda transaction: transaction.put(b"owner", row, db=self._meta))

    def _written(self, change: Callable[[Any], T], no_snapshots: AbstractContextManager[object] | None = None) -> T:
        """One transaction that writes; if the map is full, again in one that is larger. `no_snapshots`: what
        holds off readers of other threads, under whom no map grows; the state's own lock if nothing is said.
        """
        self.reading.abort()  # an older snapshot would keep pages from being used again
        self._environment.reader_check()  # and so would that of a reader that has died
        try:
            while True:
                try:
                    with self._environment.begin(write=True) as transaction:
                        return change(transaction)
                except lmdb.MapFullError:
                    with no_snapshots or self._snapshots:
                        self._environment.set_mapsize(self._environment.info()["map_size"] * 2)
        finally:
            self.reading = self._environment.begin()

    def _write_rows(self, maps: list[tuple[LmdbMap, PendingMap]], positions: Mapping[ChangelogPartition, int]) -> None:
        self._written(lambda transaction: self._write(transaction, maps, positions))

    def _write(
        self,
        transaction: Any,
        maps: list[tuple[LmdbMap, PendingMap]],
        positions: Mapping[ChangelogPartition, int],
    ) -> None:
        self._check_owner(owner_of(transaction.get(b"owner", db=self._meta)))
        for committed, pending in maps:
            committed.apply(transaction, pending.unwritten, pending.unwritten_floor)
        for partition, offset in positions.items():
            transaction.put(*position_row(partition, offset), db=self._positions_database)

    @contextmanager
    def snapshot(self) -> Iterator[StateSnapshot]:
        with self._snapshots:
            if self._is_closed:
                raise StateClosed(str(self._directory))
            with self._environment.begin() as reading:
                yield lmdb_snapshot(reading, {name: committed.database for name, (committed, _) in self._maps.items()})

    def _wipe_rows(self) -> None:
        names = [bytes(name) for name, _ in self.reading.cursor()]

        def drop(transaction: Any) -> None:
            for name in names:
                if name != _OWNERS:
                    transaction.drop(self._environment.open_db(name, transaction), delete=False)

        self._written(drop)

    def _map_names(self) -> list[str]:
        return [bytes(name).decode() for name, _ in self.reading.cursor()]

    def _forget_rows(self, maps: list[LmdbMap], notes: list[bytes], positions: list[ChangelogPartition]) -> None:
        def forget(transaction: Any) -> None:
            for each in maps:
                transaction.drop(each.database, delete=False)
            self._maps["/notes"][0].apply(transaction, dict.fromkeys(notes))
            for partition in positions:
                transaction.delete(position_row(partition, 0)[0], db=self._positions_database)

        self._written(forget)

    def _most_unwritten(self) -> int:
        """A write copies each page that it changes. While the rows lie on few pages many may wait, as they share them;
        where there are millions, each is on a page of its own.
        """
        pages = sum(self.reading.stat(committed.database)["leaf_pages"] for committed, _ in self._maps.values())
        return MOST_UNWRITTEN if pages <= _MOST_PAGES else _MOST_PAGES

    def _sync(self) -> None:
        self._environment.sync(True)

    def _close_rows(self) -> None:
        self.reading.abort()
        with self._snapshots:
            self._is_closed = True
            self._environment.close()


@dataclass(frozen=True, slots=True)
class _Transaction:
    reading: Any


def lmdb_snapshot(reading: Any, databases: Mapping[str, Any]) -> StateSnapshot:
    """Of a transaction that reads."""
    within = _Transaction(reading)
    return StateSnapshot(lambda name: LmdbMap(within, databases[name]) if name in databases else None)


def owner_in(environment: Any, reading: Any) -> Owner:
    """Who has claimed the state, for a process that only reads it."""
    return owner_of(reading.get(b"owner", db=environment.open_db(_OWNERS, txn=reading, create=False)))
