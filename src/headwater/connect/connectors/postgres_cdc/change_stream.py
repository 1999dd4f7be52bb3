"""From messages of the log to records, in the order of commits. Pure: the server and the clock come in.

Where a stream has got to is a `Position`: the unit of the log (a transaction, by where its commit record stands; or a
message outside of one, by where it stands) and within it the change's LSN and its number among changes with that LSN.
Units come in the order of their LSNs, and changes of a unit in the order of theirs; a server that sends a transaction
again sends all of it. So whatever is not after the position was given before, and is left out.

A change can be several records (a deletion and its tombstone). Only the last has the new position in its offset: a
crash between them brings all of them again.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from headwater.connect.connectors.postgres_cdc.envelope import Envelopes, Offset, Source, key_header, transaction_block
from headwater.connect.connectors.postgres_cdc.pgoutput import (
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Relation,
    Row,
    Truncate,
    Update,
)
from headwater.connect.connectors.postgres_cdc.table_model import TableModel
from headwater.connect.data.record import SourceRecord
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError

_UNIT, _LSN, _NTH = "lsn_unit", "lsn", "lsn_nth"
_END: Final = 1 << 30  # a transaction's end comes after all that has its LSN
_KINDS: Final = {Insert: "INSERT", Update: "UPDATE", Delete: "DELETE", Truncate: "TRUNCATE", LogicalMessage: "MESSAGE"}
_OPERATIONS: Final = {Insert: "c", Update: "u", Delete: "d", Truncate: "t"}


class Position(NamedTuple):
    unit: int = 0
    lsn: int = 0
    nth: int = 0
    xid: int | None = None  # of an offset that Debezium wrote, which has no unit


def position_of(offset: Mapping[str, Any]) -> Position:
    if _UNIT in offset:
        return Position(int(offset[_UNIT]), int(offset[_LSN]), int(offset[_NTH]))
    # Debezium's: all transactions that ended by lsn_commit, and of the one with txId all changes up to lsn
    lsn = int(offset.get("lsn_proc") or offset.get("lsn") or 0)
    xid = offset.get("txId")
    return Position(int(offset.get("lsn_commit") or lsn), lsn, 1 << 62, None if xid is None else int(xid))


class Settings(NamedTuple):
    tombstones: bool = True
    transactions: bool = False
    skipped: frozenset[str] = frozenset({"t"})
    skips_unchanged: bool = False  # updates of no wanted column, as far as the log has the row before
    message_wanted: Callable[[str], bool] = lambda _prefix: True
    content: Callable[[bytes], Any] = bytes
    on_failure: Callable[[DataError], None] | None = None  # None: a row that cannot be read is raised


class _Transaction:
    def __init__(self, begin: Begin) -> None:
        self.begin = begin
        self.events = 0
        self.by_table: dict[str, int] = {}
        self.origin: str | None = None

    def block(self, table: str, lsn: int) -> Struct:
        self.events += 1
        self.by_table[table] = self.by_table.get(table, 0) + 1
        return transaction_block(self.begin.xid, lsn, self.events, self.by_table[table])


class ChangeStream:
    """Owned by one task. `describe` gives a table's model for its relation; None: the table is not wanted."""

    def __init__(
        self,
        envelopes: Envelopes,
        describe: Callable[[Relation], TableModel | None],
        settings: Settings,
        done: Position,
        offset: Offset | None = None,
    ) -> None:
        self._envelopes, self._describe, self._settings = envelopes, describe, settings
        self._done = done
        self.offset: Offset | None = offset  # of all that was given
        self.finished_lsn = done.lsn  # up to here nothing is outstanding, once `offset` is committed
        self._connected()

    def _connected(self) -> None:
        self._models: dict[int, TableModel | None] = {}
        self._transaction: _Transaction | None = None
        self._lsn = self._nth = 0
        self._last_commit: int | None = None

    def reconnected(self) -> None:
        """The server begins again, from what was confirmed; what was given here stays given."""
        self._connected()

    @property
    def in_transaction(self) -> bool:
        return self._transaction is not None

    def idle_at(self, lsn: int) -> None:
        """The server has nothing for us up to there."""
        if self._transaction is None:
            self.finished_lsn = max(self.finished_lsn, lsn)

    def heartbeat_offset(self) -> Offset:
        """All that was given, and the end of what needs no giving."""
        if self._transaction is None and self.finished_lsn > self._done.unit:
            lsn = self.finished_lsn
            self._done = Position(lsn - 1, lsn, 0)
            self.offset = {**(self.offset or {}), "lsn_proc": lsn, _LSN: lsn, _UNIT: lsn - 1, _NTH: 0}
        return self.offset or {_LSN: self._done.lsn, _UNIT: self._done.unit, _NTH: self._done.nth}

    def on(self, message: Message, lsn: int, now_ns: int) -> list[SourceRecord]:
        match message:
            case Begin():
                return self._begin(message, lsn)
            case Commit():
                return self._commit(message)
            case Relation():
                self._models[message.oid] = self._describe(message)
            case Origin():
                if self._transaction is not None:
                    self._transaction.origin = message.name
            case Insert() | Update() | Delete() | Truncate():
                assert self._transaction is not None, "changes come in transactions"
                return self._change(message, lsn, now_ns)
            case LogicalMessage():
                return self._logical(message, now_ns)
        return []

    def _begin(self, message: Begin, lsn: int) -> list[SourceRecord]:
        self._transaction = _Transaction(message)
        self._lsn = self._nth = 0
        begun = self._done.unit >= message.final_lsn or message.xid == self._done.xid
        if not self._settings.transactions or begun:
            return []
        made = self._envelopes.transaction("BEGIN", f"{message.xid}:{lsn}", message.commit_us, None)
        return [made.replaced(source_offset=self.offset)]

    def _commit(self, message: Commit) -> list[SourceRecord]:
        transaction, self._transaction = self._transaction, None
        assert transaction is not None, "a commit ends a transaction"
        self.finished_lsn = max(self.finished_lsn, message.end_lsn)
        self._last_commit = message.end_lsn
        begin = transaction.begin
        if not self._settings.transactions or self._was_given(begin.final_lsn, message.commit_lsn, _END, begin.xid):
            return []
        name = f"{begin.xid}:{message.end_lsn}"
        made = [self._envelopes.transaction("END", name, message.commit_us, transaction.by_table)]
        return self._given(made, Position(begin.final_lsn, message.commit_lsn, _END), begin.xid, message.commit_us, "COMMIT")  # fmt: skip

    def _was_given(self, unit: int, lsn: int, nth: int, xid: int | None) -> bool:
        if self._done.xid is not None and xid == self._done.xid:
            return lsn <= self._done.lsn
        return (unit, lsn, nth) <= self._done[:3]

    def _next(self, lsn: int) -> int:
        self._nth = self._nth + 1 if lsn == self._lsn else 1
        self._lsn = lsn
        return self._nth

    def _change(self, message: Insert | Update | Delete | Truncate, lsn: int, now_ns: int) -> list[SourceRecord]:
        transaction = self._transaction
        assert transaction is not None
        begin, nth = transaction.begin, self._next(lsn)
        given = self._was_given(begin.final_lsn, lsn, nth, begin.xid)
        if given and not self._settings.transactions:
            return []  # else they are made once more, so that what follows gets the right numbers
        skipped = _OPERATIONS[type(message)] in self._settings.skipped
        source = Source(lsn, begin.commit_us, begin.xid, self._last_commit, origin=transaction.origin)
        made: list[SourceRecord] = []
        relations = message.relations if isinstance(message, Truncate) else (message.relation,)
        for oid in relations:
            if oid not in self._models:
                raise DataError(f"The log has a row of the table {oid} without a description of it")
            model = self._models[oid]
            if model is None or skipped:
                continue
            maker = _Maker(self._envelopes, self._settings, model, source, transaction, now_ns)
            try:
                made += maker.records(message)
            except DataError as error:
                if self._settings.on_failure is None:
                    raise DataError(f"A row of {model.table.full_name} cannot be read: {error}") from error
                self._settings.on_failure(error)
        if given:
            return []
        return self._given(made, Position(begin.final_lsn, lsn, nth), begin.xid, begin.commit_us, _KINDS[type(message)])

    def _logical(self, message: LogicalMessage, now_ns: int) -> list[SourceRecord]:
        transaction = self._transaction if message.transactional else None
        if transaction is not None:
            nth, unit, xid = self._next(message.lsn), transaction.begin.final_lsn, transaction.begin.xid
            source = Source(message.lsn, transaction.begin.commit_us, xid, self._last_commit)
        else:
            nth, unit, xid = 1, message.lsn, None
            source = Source(message.lsn, now_ns // 1000, None, self._last_commit)
        given = self._was_given(unit, message.lsn, nth, xid)
        if given or "m" in self._settings.skipped or not self._settings.message_wanted(message.prefix):
            return []
        block = None
        if transaction is not None and self._settings.transactions:
            block = transaction.block(f"message.{message.prefix}", message.lsn)
        content = self._settings.content(message.content)
        made = [self._envelopes.message(message.prefix, content, source, block, now_ns)]
        return self._given(made, Position(unit, message.lsn, nth), xid, source.commit_us, "MESSAGE")

    def _given(
        self, made: list[SourceRecord], position: Position, xid: int | None, commit_us: int, kind: str
    ) -> list[SourceRecord]:
        """The new position stands in the last record's offset."""
        if not made:
            return []
        before = self.offset
        self._done = position
        self.offset = {
            "lsn_proc": position.lsn,
            "messageType": kind,
            "lsn_commit": self._last_commit if self._last_commit is not None else position.lsn,
            _LSN: position.lsn,
            "txId": xid,
            "ts_usec": commit_us,
            _UNIT: position.unit,
            _NTH: position.nth,
        }
        return [each.replaced(source_offset=before) for each in made[:-1]] + [
            made[-1].replaced(source_offset=self.offset)
        ]


class _Maker:
    """The records of one change of one table."""

    def __init__(
        self,
        envelopes: Envelopes,
        settings: Settings,
        model: TableModel,
        source: Source,
        transaction: _Transaction,
        now_ns: int,
    ) -> None:
        self._envelopes, self._settings, self._model = envelopes, settings, model
        self._source, self._transaction, self._now_ns = source, transaction, now_ns

    def records(self, message: Insert | Update | Delete | Truncate) -> list[SourceRecord]:
        model = self._model
        match message:
            case Truncate():
                return [self._envelopes.truncate(model, self._source, self._block(), self._now_ns)]
            case Insert(new=new):
                return [self._one("c", model.key(new), None, model.row(new))]
            case Delete(old=old):
                return self._deleted(old, model.row(old), ())
            case Update():
                return self._updated(message)

    def _updated(self, message: Update) -> list[SourceRecord]:
        model, old = self._model, message.old
        key = model.key(message.new)
        after = model.row(message.new, old if message.whole else None)
        before = model.row(old) if old is not None else None
        if self._settings.skips_unchanged and after is not None and after == before:
            return []
        old_key = model.key(old) if old is not None else None
        if key is None or old_key is None or old_key == key:
            return [self._one("u", key, before, after)]
        assert old is not None
        gone = self._deleted(old, before, (key_header("__debezium.newkey", key),))
        return [*gone, self._one("c", key, None, after, (key_header("__debezium.oldkey", old_key),))]

    def _deleted(self, old: Row, before: Struct | None, headers: Any) -> list[SourceRecord]:
        key = self._model.key(old)
        made = [self._one("d", key, before, None, headers)]
        if self._settings.tombstones:
            made.append(self._envelopes.tombstone(self._model, key, headers))
        return made

    def _one(
        self, op: str, key: Struct | None, before: Struct | None, after: Struct | None, headers: Any = ()
    ) -> SourceRecord:
        block = self._block()
        return self._envelopes.change(self._model, op, key, before, after, self._source, block, self._now_ns, headers)

    def _block(self) -> Struct | None:
        if not self._settings.transactions:
            return None
        return self._transaction.block(self._model.table.full_name, self._source.lsn)
