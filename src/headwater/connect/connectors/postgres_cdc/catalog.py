"""What the connector asks of a PostgreSQL server besides its log: types, tables, slots, publications, and rows for a
snapshot.

Owned by one thread. Identifiers are quoted, values bound. Any error of the connection is `RetriableError`, and the
connection is opened anew by the next call.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import sql

from headwater.connect.connectors.postgres_cdc.column_types import TypeInfo
from headwater.connect.connectors.postgres_cdc.pgoutput import Relation, lsn_of
from headwater.connect.connectors.postgres_cdc.replica_identity import Identity
from headwater.connect.connectors.postgres_cdc.replication import SESSION_OPTIONS
from headwater.connect.connectors.postgres_cdc.table_model import Column, Table
from headwater.connect.errors import ConnectError, RetriableError

T = TypeVar("T")

_TYPES = """SELECT t.oid, t.typname, t.typtype, CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE 0 END, t.typbasetype, t.typtypmod,
    COALESCE((SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder) FROM pg_enum e WHERE e.enumtypid = t.oid), '{}'), t.typdelim
    FROM pg_type t"""
_COLUMNS = """SELECT a.attname, a.atttypid, a.atttypmod, a.attnotnull, pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' ORDER BY a.attnum"""
# The primary key; else the index that is the replica identity; else the first unique index of plain columns.
_KEY = """SELECT ARRAY(SELECT a.attname::text FROM unnest(i.indkey) WITH ORDINALITY AS k(number, place)
        JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number WHERE k.place <= i.indnkeyatts ORDER BY k.place)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indrelid = %s AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indisvalid
    ORDER BY i.indisprimary DESC, i.indisreplident DESC, c.relname LIMIT 1"""
_TABLES = """SELECT c.oid, n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relpersistence = 'p' AND ({kinds}) ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C" """
_LEAVES = "c.relkind = 'r'"
_ROOTS = "c.relkind IN ('r', 'p') AND NOT c.relispartition"


class Slot(NamedTuple):
    plugin: str
    active: bool
    confirmed_lsn: int
    lost: bool


class Moment(NamedTuple):
    """The log's position, the transaction and the time of a snapshot."""

    lsn: int
    xid: int | None
    now_us: int


class Server:
    def __init__(
        self, parameters: Mapping[str, Any], initial_statements: str | None, query_timeout_ms: int, *, roots: bool
    ) -> None:
        self._parameters, self._initial = parameters, initial_statements
        self._timeout_ms, self._roots = query_timeout_ms, roots
        self._connection: psycopg.Connection[Any] | None = None

    def _open(self) -> "psycopg.Connection[Any]":
        options = f"{SESSION_OPTIONS} -c statement_timeout={self._timeout_ms}"
        connection = psycopg.connect("", autocommit=True, connect_timeout=20, options=options, **self._parameters)
        if self._initial:
            connection.execute(self._initial)
        return connection

    def _do(self, function: Callable[["psycopg.Connection[Any]"], T]) -> T:
        try:
            if self._connection is None or self._connection.closed:
                self._connection = self._open()
            return function(self._connection)
        except psycopg.OperationalError as error:
            self.close()
            raise RetriableError(f"The database said: {error}") from None
        except psycopg.Error as error:
            raise ConnectError(f"The database said: {error}") from None

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _ask(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._do(lambda connection: connection.execute(query, values).fetchall())

    def run(self, statement: str) -> None:
        """A statement of the connector's config."""
        self._do(lambda connection: connection.execute(statement))

    def version(self) -> int:
        return self._do(lambda connection: connection.info.server_version)

    def types(self) -> dict[int, TypeInfo]:
        found = {}
        for oid, name, kind, element, base, modifier, labels, delimiter in self._ask(_TYPES):
            found[oid] = TypeInfo(oid, name, kind, element, base, modifier, tuple(labels), delimiter)
        return found

    def tables(self) -> list[tuple[int, str, str]]:
        """Oid, schema and name of all tables whose changes can come: partitions, or their roots."""
        return [tuple(row) for row in self._ask(_TABLES.format(kinds=_ROOTS if self._roots else _LEAVES))]

    def table(self, oid: int, schema: str, name: str) -> Table:
        columns = tuple(Column(*row) for row in self._ask(_COLUMNS, (oid,)))
        key = self._ask(_KEY, (oid,))
        return Table(schema, name, columns, tuple(key[0][0]) if key else ())

    def described(self, relation: Relation) -> Table:
        """The columns of the stream; what it does not say of them, and the key, are the table's as they are now."""
        now = self.table(relation.oid, relation.schema, relation.table)
        known = {each.name: each for each in now.columns}
        columns = []
        for each in relation.columns:
            today = known.get(each.name)
            required, default = (today.required, today.default) if today is not None else (False, None)
            columns.append(Column(each.name, each.type_oid, each.type_modifier, required, default))
        names = {each.name for each in columns}
        key = now.key if now.key and names.issuperset(now.key) else ()
        if not key and relation.replica_identity != "f":
            key = tuple(each.name for each in relation.columns if each.in_key)
        return Table(relation.schema, relation.table, tuple(columns), key)

    def slot(self, name: str) -> Slot | None:
        query = "SELECT plugin, active, confirmed_flush_lsn::text, COALESCE(wal_status = 'lost', false) FROM pg_replication_slots WHERE slot_name = %s"
        found = self._ask(query, (name,))
        if not found:
            return None
        plugin, active, confirmed, lost = found[0]
        return Slot(plugin, active, lsn_of(confirmed or "0/0"), lost)

    def publication_tables(self, name: str) -> set[tuple[str, str]] | None:
        """None: there is no such publication."""
        if not self._ask("SELECT 1 FROM pg_publication WHERE pubname = %s", (name,)):
            return None
        found = self._ask("SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s", (name,))
        return {(schema, table) for schema, table in found}

    def create_publication(self, name: str, tables: Iterable[tuple[str, str]] | None, *, via_root: bool) -> None:
        """`tables` None: for all tables, those that come later too."""
        what: sql.Composable = sql.SQL("FOR ALL TABLES")
        if tables is not None:
            listed = [sql.Identifier(*each) for each in tables]
            what = sql.SQL("FOR TABLE ") + sql.SQL(", ").join(listed) if listed else sql.SQL("")
        root = sql.SQL(" WITH (publish_via_partition_root = true)") if via_root else sql.SQL("")
        command = sql.SQL("CREATE PUBLICATION {} ").format(sql.Identifier(name)) + what + root
        self._do(lambda connection: connection.execute(command))

    def set_publication_tables(self, name: str, tables: Iterable[tuple[str, str]]) -> None:
        listed = sql.SQL(", ").join(sql.Identifier(*each) for each in tables)
        command = sql.SQL("ALTER PUBLICATION {} SET TABLE ").format(sql.Identifier(name)) + listed
        self._do(lambda connection: connection.execute(command))

    def replica_identity(self, oid: int) -> Identity:
        query = """SELECT c.relreplident::text, (SELECT n.relname FROM pg_index i JOIN pg_class n ON n.oid = i.indexrelid
            WHERE i.indrelid = c.oid AND i.indisreplident) FROM pg_class c WHERE c.oid = %s"""
        kind, index = self._ask(query, (oid,))[0]
        return Identity(kind, index if kind == "i" else None)

    def set_replica_identity(self, schema: str, table: str, wanted: Identity) -> None:
        how = sql.SQL("USING INDEX ") + sql.Identifier(wanted.by) if wanted.by else sql.SQL(str(wanted))
        command = sql.SQL("ALTER TABLE {} REPLICA IDENTITY ").format(sql.Identifier(schema, table)) + how
        self._do(lambda connection: connection.execute(command))

    def drop_slot(self, name: str) -> None:
        self._ask("SELECT pg_drop_replication_slot(%s)", (name,))

    @contextmanager
    def snapshot(self, name: str | None) -> Iterator["Snapshot"]:
        """One view of the database: the one that a slot has exported, or the one of now."""
        try:
            with self._open() as connection:
                connection.execute("SET statement_timeout = 0")  # a table's rows take as long as they take
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                if name is not None:
                    connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(name)))
                yield Snapshot(connection)
                connection.execute("ROLLBACK")
        except psycopg.OperationalError as error:
            raise RetriableError(f"The database said: {error}") from None
        except psycopg.Error as error:
            raise ConnectError(f"The database said: {error}") from None


class Snapshot:
    def __init__(self, connection: "psycopg.Connection[Any]") -> None:
        self._connection = connection

    def moment(self) -> Moment:
        query = "SELECT pg_current_wal_insert_lsn()::text, txid_snapshot_xmax(txid_current_snapshot()), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        row = self._connection.execute(query).fetchone()
        assert row is not None
        return Moment(lsn_of(row[0]), row[1], row[2])

    def rows(self, table: Table, override: str | None) -> Iterator[tuple[str | None, ...]]:
        """Texts of the columns, in the table's order. An override must give all of them."""
        names = sql.SQL(", ").join(sql.Identifier(each.name) for each in table.columns)
        if not table.columns:
            return
        if override is None:
            source: sql.Composable = sql.Identifier(table.schema, table.name)
        else:
            source = sql.SQL("({}) AS given").format(sql.SQL(override))
        command = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(names, source)
        with self._connection.cursor().copy(command) as copy:
            for row in copy.rows():
                yield tuple(None if each is None else str(each) for each in row)
