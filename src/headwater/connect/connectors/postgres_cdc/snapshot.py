"""The snapshot: all rows of the wanted tables as they were at one moment, before the changes that follow it.

The slot that a first start makes exports the view of its own beginning, so that no change is missed and none comes
twice. Where the slot is there already (a snapshot that did not end, or a slot that somebody made before), rows are
those of now, and the stream goes on from where the slot is: what changed in between comes as a change too, after the
row, and the last state is right.

So a snapshot that did not end goes on with the tables that are not through: which ones are, stands in the offset, and
counts as long as the slot is where it was. The rows of a table that was not through come again.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from headwater.connect.connectors.postgres_cdc.envelope import Envelopes, Source
from headwater.connect.connectors.postgres_cdc.table_model import TableModel
from headwater.connect.data.record import SourceRecord
from headwater.connect.data.struct import Struct
from headwater.connect.errors import DataError

if TYPE_CHECKING:  # a worker without psycopg has all other connectors
    from headwater.connect.connectors.postgres_cdc.catalog import Moment, Snapshot

_TABLES_READ: Final = "headwater_tables_read"  # a text: Java's offsets hold no lists
_Read = tuple[Struct | None, Struct]  # key and row


def snapshot_records(
    snapshot: "Snapshot",
    models: list[TableModel],
    overrides: Mapping[str, str],
    envelopes: Envelopes,
    stream_lsn: int,
    now_ns: Callable[[], int],
    on_failure: Callable[[DataError], None] | None,
    read_before: Collection[str] = (),
) -> Iterator[SourceRecord]:
    """`stream_lsn` is where the stream begins afterwards. The last record of all says so in its offset. `read_before`:
    the tables that a snapshot before this one has given, whose models are not among these.
    """
    read = list(read_before)
    read_text = _as_text(read)  # made once for each table, not for each row
    moment = snapshot.moment()
    previous: tuple[TableModel, _Read, bool, bool] | None = None  # one record late: the last one is marked
    anything = False
    for model in models:
        first_of_table = True
        for row in snapshot.rows(model.table, overrides.get(model.table.full_name)):
            try:
                values = model.key(row), model.row(row)
            except DataError as error:
                if on_failure is None:
                    raise DataError(f"A row of {model.table.full_name} cannot be read: {error}") from error
                on_failure(error)
                continue
            if previous is not None:
                is_last = previous[0] is not model
                if is_last:
                    read.append(previous[0].table.full_name)
                    read_text = _as_text(read)
                yield _record(*previous, is_last, False, moment, envelopes, stream_lsn, now_ns(), read_text)
            previous = (model, values, not anything, first_of_table)
            anything, first_of_table = True, False
    if previous is not None:
        yield _record(*previous, True, True, moment, envelopes, stream_lsn, now_ns(), None)


def _record(
    model: TableModel,
    read: _Read,
    first: bool,
    first_of_table: bool,
    last_of_table: bool,
    last: bool,
    moment: "Moment",
    envelopes: Envelopes,
    stream_lsn: int,
    now_ns: int,
    tables_read: str | None,
) -> SourceRecord:
    mark = marker(first, first_of_table, last_of_table, last)
    source = Source(moment.lsn, moment.now_us, moment.xid, snapshot=mark)
    made = envelopes.change(model, "r", read[0], None, read[1], source, None, now_ns)
    return made.replaced(source_offset=snapshot_offset(moment, stream_lsn, tables_read, finished=last))


def marker(first: bool, first_of_table: bool, last_of_table: bool, last: bool) -> str:
    if last:
        return "last"
    if first:
        return "first"
    if last_of_table:
        return "last_in_data_collection"
    return "first_in_data_collection" if first_of_table else "true"


def snapshot_offset(
    moment: "Moment", stream_lsn: int, tables_read: str | None = None, *, finished: bool
) -> dict[str, Any]:
    """Finished: the stream's position, which every transaction that the slot still gives is behind: one whose commit
    record stands at `stream_lsn` itself too, with changes that stand before it.
    """
    offset: dict[str, Any] = {"lsn": stream_lsn, "txId": moment.xid, "ts_usec": moment.now_us}
    if not finished:
        read = {_TABLES_READ: tables_read} if tables_read is not None else {}
        return {**offset, "snapshot": "INITIAL", "snapshot_completed": False, **read}
    return {**offset, "lsn_unit": stream_lsn - 1, "lsn_nth": 0}


def _as_text(tables: Collection[str]) -> str | None:
    return json.dumps(list(tables)) if tables else None


def tables_read(stored: Mapping[str, Any] | None, slot_lsn: int | None) -> list[str]:
    """Those of an unfinished snapshot that are through, if the slot still gives every change since it began."""
    if stored is None or not is_unfinished(stored) or stored.get("lsn") != slot_lsn:
        return []
    read: list[str] = json.loads(stored.get(_TABLES_READ, "[]"))
    return read


def begun_anew(finished: Mapping[str, Any]) -> dict[str, Any]:
    """In place of the offset of a stream that cannot be gone on with: whoever finds it takes a snapshot."""
    kept = {name: finished.get(name) for name in ("lsn", "txId", "ts_usec")}
    return {**kept, "snapshot": "INITIAL", "snapshot_completed": False}


def is_unfinished(offset: Mapping[str, Any]) -> bool:
    """Of ours, or of Debezium's."""
    running = offset.get("snapshot") not in (None, False, "false")
    return running and not offset.get("snapshot_completed") and not offset.get("last_snapshot_record")
