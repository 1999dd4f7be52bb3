"""What a PostgreSQL server sends over a replication connection with the plugin `pgoutput`, protocol version 1. Pure.

A frame of the copy stream is `XLogData` (a piece of the log with one message in it) or `Keepalive`; the client's own
frame is the status update. Numbers are big-endian, texts end with a zero byte, LSNs are plain numbers, times
microseconds since 2000 on the wire and since 1970 here. A column's value is text as the type's output function writes
it, None, or `UNCHANGED`: a large value that the update did not touch and that the log therefore does not have.
"""

import struct
from enum import StrEnum
from typing import Final, NamedTuple

from headwater.connect.errors import DataError

EPOCH_2000_US: Final = 946_684_800_000_000


class _Unchanged:
    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = _Unchanged()
Cell = str | None | _Unchanged
Row = tuple[Cell, ...]


class XLogData(NamedTuple):
    start_lsn: int
    end_lsn: int
    payload: bytes


class Keepalive(NamedTuple):
    end_lsn: int
    reply_wanted: bool


class Begin(NamedTuple):
    """`final_lsn` is where the transaction's commit record stands: it names the transaction."""

    final_lsn: int
    commit_us: int
    xid: int


class Commit(NamedTuple):
    commit_lsn: int
    end_lsn: int
    commit_us: int


class RelationColumn(NamedTuple):
    name: str
    type_oid: int
    type_modifier: int
    in_key: bool  # of the replica identity


class Relation(NamedTuple):
    """A table as it is for the rows that follow; comes before them, and again when it has changed."""

    oid: int
    schema: str
    table: str
    replica_identity: str  # d: primary key, n: nothing, f: full, i: an index
    columns: tuple[RelationColumn, ...]


class Insert(NamedTuple):
    relation: int
    new: Row


class Update(NamedTuple):
    """`old` is the whole old row (`whole`), or its key columns if they changed, or missing."""

    relation: int
    old: Row | None
    whole: bool
    new: Row


class Delete(NamedTuple):
    relation: int
    old: Row
    whole: bool


class Truncate(NamedTuple):
    relations: tuple[int, ...]


class LogicalMessage(NamedTuple):
    """From `pg_logical_emit_message`."""

    transactional: bool
    lsn: int
    prefix: str
    content: bytes


class Origin(NamedTuple):
    lsn: int
    name: str


class Other(NamedTuple):
    """A message that says nothing which is needed: types, and what newer protocol versions add."""

    kind: str


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate | LogicalMessage | Origin | Other


class Identity(StrEnum):
    DEFAULT = "d"
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"


class _Reader:
    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if size < 0 or self._at > len(self._data):
            raise DataError("A message of the replication stream ends too early")
        return self._data[start : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def signed(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def text(self) -> str:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise DataError("A text of the replication stream has no end")
        start, self._at = self._at, end + 1
        return self._data[start:end].decode("utf-8", "replace")

    def rest(self) -> bytes:
        return self._data[self._at :]


def decode_frame(frame: bytes) -> XLogData | Keepalive:
    reader = _Reader(frame)
    match reader.take(1):
        case b"w":
            start, end, _ = reader.number(8), reader.number(8), reader.number(8)
            return XLogData(start, end, reader.rest())
        case b"k":
            end, _ = reader.number(8), reader.number(8)
            return Keepalive(end, reader.number(1) == 1)
        case other:
            raise DataError(f"The replication stream has a frame {other!r} that is not known")


def encode_status(written: int, flushed: int, now_us: int, *, reply_wanted: bool = False) -> bytes:
    """`flushed` is what the server may forget; it says the same of what was applied."""
    return b"r" + struct.pack(">QQQqB", written, flushed, flushed, now_us - EPOCH_2000_US, reply_wanted)


def decode(payload: bytes) -> Message:
    reader = _Reader(payload)
    kind = reader.take(1).decode("latin-1")
    match kind:
        case "B":
            return Begin(reader.number(8), reader.signed(8) + EPOCH_2000_US, reader.number(4))
        case "C":
            reader.number(1)
            return Commit(reader.number(8), reader.number(8), reader.signed(8) + EPOCH_2000_US)
        case "R":
            return _relation(reader)
        case "I":
            relation = reader.number(4)
            _expect(reader, b"N")
            return Insert(relation, _row(reader))
        case "U":
            return _update(reader)
        case "D":
            relation = reader.number(4)
            whole = _expect(reader, b"K", b"O") == b"O"
            return Delete(relation, _row(reader), whole)
        case "T":
            count = reader.number(4)
            reader.number(1)
            return Truncate(tuple(reader.number(4) for _ in range(count)))
        case "M":
            flags, lsn, prefix = reader.number(1), reader.number(8), reader.text()
            return LogicalMessage(bool(flags & 1), lsn, prefix, reader.take(reader.number(4)))
        case "O":
            return Origin(reader.number(8), reader.text())
        case _:
            return Other(kind)


def _relation(reader: _Reader) -> Relation:
    oid, schema, table = reader.number(4), reader.text(), reader.text()
    identity = reader.take(1).decode("latin-1")
    columns = []
    for _ in range(reader.number(2)):
        flags, name = reader.number(1), reader.text()
        columns.append(RelationColumn(name, reader.number(4), reader.signed(4), bool(flags & 1)))
    return Relation(oid, schema or "pg_catalog", table, identity, tuple(columns))


def _update(reader: _Reader) -> Update:
    relation = reader.number(4)
    kind = _expect(reader, b"K", b"O", b"N")
    old = None
    if kind != b"N":
        old = _row(reader)
        _expect(reader, b"N")
    return Update(relation, old, kind == b"O", _row(reader))


def _expect(reader: _Reader, *kinds: bytes) -> bytes:
    found = reader.take(1)
    if found not in kinds:
        raise DataError(f"The replication stream has {found!r} where a row begins")
    return found


def _row(reader: _Reader) -> Row:
    cells: list[Cell] = []
    for _ in range(reader.number(2)):
        match reader.take(1):
            case b"t":
                cells.append(reader.take(reader.number(4)).decode("utf-8", "replace"))
            case b"n":
                cells.append(None)
            case b"u":
                cells.append(UNCHANGED)
            case other:
                raise DataError(f"The replication stream has a value of kind {other!r}, which was not asked for")
    return tuple(cells)


def lsn_of(text: str) -> int:
    """`16/B374D848` as a number."""
    high, slash, low = text.partition("/")
    try:
        if not slash:
            raise ValueError
        return (int(high, 16) << 32) | int(low, 16)
    except ValueError:
        raise DataError(f"Not an LSN: {text!r}") from None


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"
