"""What a record is in a table: the statement and its values. No connection here.

A row is written with its record's own time, so that a record which comes again, or late, changes nothing. Cassandra
counts microseconds and Kafka milliseconds: the three digits between are those of the offset. Where these begin anew
within a millisecond, `WriteTimes` counts on, so that the later record of a partition counts. It knows what its task has
seen: one that starts in the midst of such a millisecond begins with the digits of the offset again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from headwater.connect.connectors.cassandra.mapping import NOW, TIMESTAMP, TTL, value_of
from headwater.connect.connectors.cassandra.options import NANOSECONDS, TableOptions
from headwater.connect.connectors.cassandra.values import is_known, to_cql
from headwater.connect.data.record import SinkRecord
from headwater.connect.errors import ConnectError, DataError

_SPECIAL: Final = (TTL, TIMESTAMP)


class _Unset:
    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()  # the column, the time or the life of a row is not given


class TableShape(NamedTuple):
    """As the database tells it: CQL types by column, and the names in the primary key."""

    columns: Mapping[str, str]
    primary_key: Sequence[str]


def located(options: TableOptions, keyspaces: Mapping[str, Any]) -> tuple[TableOptions, TableShape]:
    """The table with its names as the database has them, and its shape, which is empty if there is none. `keyspaces`
    are the driver's metadata.
    """
    keyspace = _found(options.keyspace, keyspaces)
    tables = keyspaces[keyspace].tables if keyspace is not None else {}
    name = _found(options.table, tables)
    if keyspace is None or name is None:
        return options, TableShape({}, ())
    columns = {column: each.cql_type for column, each in tables[name].columns.items()}
    shape = TableShape(columns, [each.name for each in tables[name].primary_key])
    return options._replace(keyspace=keyspace, table=name), shape


def _found(name: str, known: Mapping[str, Any]) -> str | None:
    """CQL's own rule: a name that was made without quotes is in lower case."""
    return next((each for each in (name, name.lower()) if each in known), None)


class _Run(NamedTuple):
    """Records of one millisecond in a partition: each has the time of the first and the distance of their offsets."""

    timestamp_ms: int
    offset: int
    time: int
    last_time: int


class WriteTimes:
    """Microseconds that grow with the offsets of a partition as long as its records' times do not go back. A record of
    the run that comes again has the time that it had.
    """

    def __init__(self) -> None:
        self._runs: dict[tuple[str, int], _Run] = {}

    def of(self, partition: tuple[str, int], offset: int, timestamp_ms: int) -> int:
        run = self._runs.get(partition)
        own = timestamp_ms * 1000 + offset % 1000
        if run is None or timestamp_ms < run.timestamp_ms or offset < run.offset:
            run = _Run(timestamp_ms, offset, own, own)
        elif timestamp_ms > run.timestamp_ms:
            time = max(own, run.last_time + 1)
            run = _Run(timestamp_ms, offset, time, time)
        time = run.time + offset - run.offset
        self._runs[partition] = run._replace(last_time=max(time, run.last_time))
        return time


class Write(NamedTuple):
    delete: bool
    values: list[Any]


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class RowPlan:
    """Of one topic and table. Raises ConnectError if the mapping does not go with the table."""

    def __init__(self, options: TableOptions, shape: TableShape) -> None:
        self.options, self._shape = options, shape
        place = f"{options.keyspace}.{options.table}"
        if not shape.columns:
            raise ConnectError(f"There is no table {place}")
        self._columns = {self._column(name): each for name, each in options.mapping.items() if name not in _SPECIAL}
        missing = [name for name in shape.primary_key if name not in self._columns]
        if missing:
            raise ConnectError(f"mapping: the column {missing[0]!r} of the primary key of {place} is not mapped")
        for name in self._columns:
            if not is_known(shape.columns[name]):
                raise ConnectError(f"mapping: {name!r} of {place} has the type {shape.columns[name]}, which is not supported")  # fmt: skip
        self._bound = [name for name, source in self._columns.items() if source.part != NOW]
        self._all = set(self._columns) == set(shape.columns)
        self._has_ttl = TTL in options.mapping or options.ttl >= 0
        self._times = WriteTimes()
        table = f"{quote(options.keyspace)}.{quote(options.table)}"
        marks = ", ".join(NOW if source.part == NOW else "?" for source in self._columns.values())
        names = ", ".join(quote(name) for name in self._columns)
        life = " AND TTL ?" if self._has_ttl else ""
        self.insert = f"INSERT INTO {table} ({names}) VALUES ({marks}) USING TIMESTAMP ?{life}"
        where = " AND ".join(f"{quote(name)} = ?" for name in shape.primary_key)
        self.delete = f"DELETE FROM {table} USING TIMESTAMP ? WHERE {where}"

    def _column(self, name: str) -> str:
        found = _found(name, self._shape.columns)
        if found is not None:
            return found
        raise ConnectError(f"mapping: {self.options.keyspace}.{self.options.table} has no column {name!r}")

    def write(self, record: SinkRecord) -> Write:
        """Raises DataError for a record that cannot be a row."""
        cells = {name: self._cell(name, record) for name in self._bound}
        for name in self._shape.primary_key:
            if name in cells and cells[name] is None:
                raise DataError(f"mapping: {name!r} is part of the primary key and null in the record")
        time = self._time(record)
        others = [name for name in cells if name not in self._shape.primary_key]
        empty = self._all and bool(others) and all(cells[name] is None for name in others)
        if self.options.deletes and (record.value is None or empty) and set(self._shape.primary_key) <= set(cells):
            return Write(True, [time, *(cells[name] for name in self._shape.primary_key)])
        null = UNSET if self.options.null_to_unset else None
        values = [null if each is None else each for each in cells.values()]
        return Write(False, [*values, time, *([self._life(record)] if self._has_ttl else [])])

    def _cell(self, name: str, record: SinkRecord) -> Any:
        try:
            return to_cql(self._shape.columns[name], value_of(record, self._columns[name]))
        except DataError as error:
            raise DataError(f"Column {name!r}: {error}") from None

    def _time(self, record: SinkRecord) -> Any:
        return write_time(self.options, record, self._times)

    def _life(self, record: SinkRecord) -> Any:
        return time_to_live(self.options, record)


def write_time(options: TableOptions, record: SinkRecord, times: WriteTimes) -> Any:
    """Microseconds."""
    source = options.mapping.get(TIMESTAMP)
    if source is None:
        partition, timestamp_ms = (record.original_topic, record.original_partition), record.timestamp_ms
        return UNSET if timestamp_ms is None else times.of(partition, record.offset, timestamp_ms)
    given = to_cql("bigint", value_of(record, source))
    return UNSET if given is None else given * NANOSECONDS[options.timestamp_unit] // 1000


def time_to_live(options: TableOptions, record: SinkRecord) -> Any:
    """Seconds; below zero counts as zero, which is for ever."""
    source = options.mapping.get(TTL)
    given = options.ttl if source is None else to_cql("double", value_of(record, source))
    if given is None:
        return UNSET
    return to_cql("int", max(0, int(given * NANOSECONDS[options.ttl_unit] // 10**9)))


def named_values(options: TableOptions, record: SinkRecord) -> dict[str, Any]:
    """For a query of one's own: what its variables stand for, as the record has it."""
    null = UNSET if options.null_to_unset else None
    found = {name: value_of(record, source) for name, source in options.mapping.items()}
    return {name: null if value is None else value for name, value in found.items()}
