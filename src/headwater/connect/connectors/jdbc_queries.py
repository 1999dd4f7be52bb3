"""The queries of JdbcSource: by which columns one goes on, its SQL, its records and their offsets.

Offsets and partitions have the names of the connector that this follows: {"protocol": "1", "table": "schema.table"} or
{"query": "query"}; {"incrementing": n, "timestamp": ms, "timestamp_nanos": n}. Where there is none, one of the table's
bare name counts, as older versions of both had it. A part of a table (table.partitions) has a partition of its own,
with "part": "0", and its offset says of how many ("parts") it is one, and by which column ("column"): with other ones,
rows are in other parts, so such offsets are refused.
"""

import time
from collections.abc import Generator, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from headwater.connect.api import OffsetReader
from headwater.connect.connectors.jdbc_dialects import Column, Dialect, moment_of
from headwater.connect.connectors.jdbc_fields import Field, fields_of
from headwater.connect.data.logical import millis_to_timestamp, scale_of, timestamp_to_millis
from headwater.connect.data.record import SourceRecord
from headwater.connect.data.schema import DECIMAL, Schema, Type, struct
from headwater.connect.data.struct import Struct
from headwater.connect.errors import ConnectError, DataError, RetriableError
from headwater.connect.java_regex import compile_java

_EPOCH: Final = millis_to_timestamp(0)


class Query:
    """One table or query, where it has got to, and the cursor that is open."""

    def __init__(
        self,
        dialect: Dialect,
        config: Mapping[str, Any],
        table: str | None,
        offset: Mapping[str, Any] | None,
        part: int | None = None,
    ) -> None:
        """`part`: the one of table.partitions that is read."""
        self._dialect, self._config, self.table, self._part = dialect, config, table, part
        names = dialect.parts(table) if table is not None else []
        self._bare = names[-1] if names else None  # what topic and schema are called after
        self.partition = partition_of(".".join(names) or None, part if config["mode"] != "bulk" else None)
        mode = config["mode"]
        self._counts = "incrementing" in mode
        self._incrementing, self._timestamps = mode_columns(config, ".".join(names))
        number = _whole_in(offset or {}, "incrementing")
        self._last_number = -1 if number is None else number
        self._last_moment = _moment_in(offset, config)
        self.due = 0.0

    def rows(self, connection: Any, batch: int) -> Generator[list[SourceRecord], None, None]:
        """Batches of one run of the query. A timestamp counts as read when all its rows are given."""
        dialect = self._dialect
        columns = dialect.columns(connection, self.table) if self.table is not None else None
        if columns:
            self._look_at(columns)
        sql, parameters = self._sql(connection)
        cursor = dialect.cursor(connection)
        try:
            cursor.execute(sql, parameters)
            rows = cursor.fetchmany(batch)
            if columns is not None and cursor.description is not None:
                by_name = {each.name: each for each in columns}
                if any(column[0] not in by_name for column in cursor.description):
                    raise RetriableError(f"The table {self.table} has other columns by now")
                columns = [by_name[column[0]] for column in cursor.description]
            fields: list[Field] | None = None
            while rows:
                following = cursor.fetchmany(batch)
                if fields is None:
                    found = columns if columns is not None else dialect.result_columns(cursor.description, rows)
                    fields = fields_of(found, self._config, maps_numerics=dialect.maps_numerics)
                    schema = struct([(each.name, each.schema) for each in fields], name=self._bare)
                yield self._records(fields, schema, rows, following)
                rows = following
        finally:
            cursor.close()

    def _look_at(self, columns: Sequence[Column]) -> None:
        """Raises ConnectError if the mode cannot read a table with these columns."""
        if self._counts and not self._incrementing:
            self._incrementing = next((each.name for each in columns if each.counts_up), None)
            if self._incrementing is None:
                raise ConnectError(
                    f"{self.table} has no column that the database counts up (AUTOINCREMENT, SERIAL, ...): name one in "
                    "incrementing.column.name"
                )
        if self._part is not None:
            self._check_parts(columns)
        if self._config["validate.non.null"]:
            self._check_nulls(columns)

    def _check_nulls(self, columns: Sequence[Column]) -> None:
        optional = {each.name.lower(): each.schema.optional for each in columns}
        named = [self._incrementing] if self._incrementing else []
        for names in (named, self._timestamps):
            if names and all(optional.get(each.lower(), False) for each in names):
                raise ConnectError(
                    f"Rows of {self.table} with a null in {', '.join(names)} would never be read, and the database allows nulls "
                    "there: declare NOT NULL, or set validate.non.null=false"
                )

    def _sql(self, connection: Any) -> tuple[str, list[Any]]:
        sql, parameters = self._select(connection)
        suffix = self._dialect.escaped(self._config["query.suffix"].strip())
        return f"{sql} {suffix}" if suffix else sql, parameters

    def _select(self, connection: Any) -> tuple[str, list[Any]]:
        dialect, mark = self._dialect, self._dialect.placeholder
        if self.table is not None:
            base = f"SELECT * FROM {dialect.quote(self.table)}"
        else:
            base = dialect.escaped(query_of(self._config) or "")
            if self._incrementing or self._timestamps:
                base = f"SELECT * FROM ({base}) AS given"
        number = dialect.quote_column(self._incrementing) if self._incrementing else ""
        part = self._of_part()
        if not self._timestamps:
            if not number:
                return base + (f" WHERE {part}" if part else ""), []
            of_part = f" AND {part}" if part else ""
            return f"{base} WHERE {number} > {mark}{of_part} ORDER BY {number} ASC", [self._last_number]
        dialect.learn_columns(connection, base)
        when = dialect.timestamp_expression(self._timestamps)
        until = dialect.now(connection) - timedelta(milliseconds=self._config["timestamp.delay.interval.ms"])
        begin = dialect.compared_moment(self._timestamps, self._last_moment)
        end = dialect.compared_moment(self._timestamps, until)
        wanted, parameters, order = f"{when} > {mark} AND {when} < {mark}", [begin, end], when
        if number:
            wanted = f"{when} < {mark} AND (({when} = {mark} AND {number} > {mark}) OR {when} > {mark})"
            parameters, order = [end, begin, self._last_number, begin], f"{when}, {number}"
        unreadable = dialect.unreadable_timestamp(self._timestamps)
        if unreadable:  # the first such row fails the task
            wanted = f"(({wanted}) OR {unreadable})"
        of_part = f"{part} AND " if part else ""
        return f"{base} WHERE {of_part}{wanted} ORDER BY {order} ASC", parameters

    def _of_part(self) -> str:
        """Rows without a number are the first part's."""
        if self._part is None:
            return ""
        column = self._dialect.quote_column(parted_by(self._config)[1])
        rest = self._dialect.escaped(f"% {self._config['table.partitions']}")
        return f"COALESCE(ABS({column} {rest}), 0) = {self._part}"

    def _check_parts(self, columns: Sequence[Column]) -> None:
        """Raises ConnectError if rows could be in no part: the rest of 2.5 is none of their numbers."""
        name = parted_by(self._config)[1]
        for each in columns:
            if each.name.lower() == name.lower() and not is_whole(each.schema):
                raise ConnectError(
                    f"The column {name} of {self.table} has a type with more than whole numbers: rows that have others would be in no "
                    "part. Name a column of whole numbers in table.partition.column"
                )

    def _records(
        self, fields: Sequence[Field], schema: Schema, rows: Sequence[Any], following: Sequence[Any]
    ) -> list[SourceRecord]:
        names = [each.name for each in fields]
        topic = self._config["topic.prefix"].strip() + (self._bare or "")
        now_ms = time.time_ns() // 1_000_000
        made = []
        nexts = [*rows[1:], *following[:1], None]
        for row, after in zip(rows, nexts, strict=False):
            value = Struct(schema)
            for field, each in zip(fields, row, strict=True):
                if each is not None:
                    value.put(field.name, self._value(field, each))
            self._advance(names, row, after)
            made.append(SourceRecord(topic=topic, value_schema=schema, value=value, timestamp_ms=now_ms, source_partition=self.partition, source_offset=self._offset()))  # fmt: skip
        return made

    def _value(self, field: Field, found: Any) -> Any:
        try:
            return field.read(found)
        except ConnectError as error:
            raise ConnectError(f"The column {field.name!r} of {self.table or 'the query'}: {error}") from None

    def _advance(self, names: Sequence[str], row: Sequence[Any], after: Sequence[Any] | None) -> None:
        if self._incrementing:
            self._last_number = self._number(row[place_of(self._incrementing, names)])
        if self._timestamps:
            here = self._when(names, row)
            if self._incrementing or after is None or self._when(names, after) != here:
                self._last_moment = here

    def _when(self, names: Sequence[str], row: Sequence[Any]) -> datetime:
        found = ((each, row[place_of(each, names)]) for each in self._timestamps)
        column, value = next((column, value) for column, value in found if value is not None)
        try:
            return moment_of(value)
        except (ValueError, OverflowError, DataError):
            raise ConnectError(
                f"The column {column!r} of {self.table or 'the query'} has the value {value!r}, which is no timestamp: its row would never "
                "be read. Mend it, or leave it out by a `query`"
            ) from None

    def _number(self, found: Any) -> int:
        try:  # PostgreSQL's NUMERIC comes as text
            exact = Decimal(found.strip()) if isinstance(found, str) else found
            number = int(exact)
        except (ValueError, TypeError, ArithmeticError):
            exact = number = None
        if number is None or (isinstance(exact, float | Decimal) and number != exact):
            raise ConnectError(
                f"The column {self._incrementing!r} of {self.table or 'the query'} has the value {found!r}: "
                "incrementing.column.name is a column of whole numbers"
            )
        return number

    def _offset(self) -> dict[str, Any] | None:
        offset: dict[str, Any] = {}
        if self._incrementing:
            offset["incrementing"] = self._last_number
        if self._timestamps:
            offset["timestamp"] = timestamp_to_millis(self._last_moment)
            offset["timestamp_nanos"] = self._last_moment.microsecond * 1000
        if offset and self._part is not None:
            offset["parts"], offset["column"] = parted_by(self._config)
        return offset or None


def query_of(config: Mapping[str, Any]) -> str | None:
    found: str = config["query"] or config["query.masked"] or ""
    return found or None


def mode_columns(config: Mapping[str, Any], table: str) -> tuple[str | None, list[str]]:
    """By which columns the mode reads this table: one that counts up, if it is named, and those of timestamps. Raises
    ConnectError if not exactly one entry of a mapping is for the table.
    """
    counted: str | None = (config["incrementing.column.name"] or None) if "incrementing" in config["mode"] else None
    timestamps: list[str] = config["timestamp.column.name"] if "timestamp" in config["mode"] else []
    if table and config["incrementing.column.mapping"] and "incrementing" in config["mode"]:
        counted = _mapped(config, "incrementing.column.mapping", table)
    if table and config["timestamp.columns.mapping"] and "timestamp" in config["mode"]:
        timestamps = [each.strip() for each in _mapped(config, "timestamp.columns.mapping", table)[1:-1].split("|")]
    return counted, timestamps


def _mapped(config: Mapping[str, Any], name: str, table: str) -> str:
    entries: list[list[str]] = [each.split(":", 1) for each in config[name]]
    found = [column.strip() for pattern, column in entries if compile_java(pattern.strip()).fullmatch(table)]
    if len(found) != 1:
        raise ConnectError(f"{name}: {len(found)} of the patterns match the table {table}; it needs exactly one")
    return found[0]


def partition_of(table: str | None, part: int | None = None) -> dict[str, Any]:
    """The source partition of a table or of one of its parts; of the query."""
    if table is None:
        return {"query": "query"}
    named = {"protocol": "1", "table": table}
    return named if part is None else {**named, "part": str(part)}


def parted_by(config: Mapping[str, Any]) -> tuple[int, str]:
    """What decides which part a row is in: their number, and the column."""
    return config["table.partitions"], config["table.partition.column"] or config["incrementing.column.name"]


def is_whole(schema: Schema) -> bool:
    if schema.name == DECIMAL:
        return scale_of(schema) == 0
    return schema.type in (Type.INT8, Type.INT16, Type.INT32, Type.INT64)


def offsets_by_table(reader: OffsetReader) -> dict[str, dict[str | None, dict[str, Any]]]:
    """All that is stored: of each table, the offsets of its parts; None is the whole table."""
    found: dict[str, dict[str | None, dict[str, Any]]] = {}
    for partition, offset in reader.all():
        table, part = partition.get("table"), partition.get("part")
        if not isinstance(table, str):
            continue
        if partition in ({"table": table}, partition_of(table), {**partition_of(table), "part": part}):
            found.setdefault(table, {})[None if part is None else str(part)] = offset
    return found


def stored_of(
    offsets: Mapping[str, dict[str | None, dict[str, Any]]], parts: Sequence[str]
) -> dict[str | None, dict[str, Any]]:
    """Those of one table, whose whole name has these parts. What stands under its bare name is older."""
    return {**offsets.get(parts[-1], {}), **offsets.get(".".join(parts), {})}


def begin_of(
    stored: Mapping[str | None, dict[str, Any]], config: Mapping[str, Any], table: str, part: int | None
) -> dict[str, Any] | None:
    """Where a table, or a part of it, goes on; `stored` are the table's offsets. A part that has no offset yet goes on
    where the whole table was before it was read in parts. Raises ConnectError if offsets are of another number of
    parts, or by another column.
    """
    whole_table = stored.get(None)
    if config["mode"] == "bulk":
        return whole_table
    parts, column = parted_by(config)
    for of_part, offset in stored.items():
        if of_part is not None and (part is None or (offset.get("parts"), offset.get("column")) != (parts, column)):
            raise ConnectError(
                f"The table {table} was read in another number of parts, or by another column, than table.partitions={parts} by the "
                f"column {column or '(none)'}: its offsets are of {offset.get('parts')} parts by {offset.get('column')}. Rows would be "
                "missed or read again. Put the number and the column back, or reset the connector's offsets, which reads all tables again"
            )
    return whole_table if part is None else stored.get(str(part), whole_table)


def place_of(column: str, names: Sequence[str]) -> int:
    """Also in other letters, as SQLite and MariaDB have it. Raises ConnectError: SQLite takes a quoted name that it
    does not know for a text, and says nothing.
    """
    if column in names:
        return names.index(column)
    found = next((at for at, name in enumerate(names) if name.lower() == column.lower()), None)
    if found is None:
        raise ConnectError(f"There is no column {column!r} in what is read; there are {', '.join(names)}")
    return found


def check_offset(partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
    """Raises ConnectError for one that no task reads, or could go on from."""
    named = partition.get("table", partition.get("query"))
    part = {"part": partition["part"]} if "part" in partition else {}
    if not isinstance(named, str) or dict(partition) not in (
        {"query": named},
        {"table": named, **part},
        {"protocol": "1", "table": named, **part},
    ):
        raise ConnectError(
            'A partition of JdbcSource is {"protocol": "1", "table": the whole name}, with "part" if table.partitions '
            f'is set, or {{"query": "query"}}; this one is {dict(partition)}'
        )
    _whole_in(offset, "incrementing")
    _stored_moment(offset)


def _whole_in(offset: Mapping[str, Any], name: str) -> int | None:
    """None: it is null, or not there."""
    found = offset.get(name)
    if found is None or (isinstance(found, int) and not isinstance(found, bool)):
        return found
    raise ConnectError(f"The {name!r} of an offset is a whole number, and not {found!r}")


def _stored_moment(offset: Mapping[str, Any]) -> datetime | None:
    millis, nanos = _whole_in(offset, "timestamp"), _whole_in(offset, "timestamp_nanos")
    if millis is None:
        return None
    if nanos is None:
        nanos = millis % 1000 * 1_000_000
    if not 0 <= nanos < 1_000_000_000:
        raise ConnectError(f"The 'timestamp_nanos' of an offset are those within a second, and not {nanos}")
    try:
        return millis_to_timestamp(millis // 1000 * 1000) + timedelta(microseconds=nanos // 1000)
    except DataError as error:
        raise ConnectError(f"The 'timestamp' of an offset: {error}") from None


def _moment_in(offset: Mapping[str, Any] | None, config: Mapping[str, Any]) -> datetime:
    found = _stored_moment(offset) if offset is not None else None
    if found is not None:
        return found
    initial = config["timestamp.initial"]
    return _EPOCH if initial is None else millis_to_timestamp(initial if initial >= 0 else time.time_ns() // 1_000_000)
