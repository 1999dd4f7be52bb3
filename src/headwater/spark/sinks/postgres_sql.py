"""The tables of the PostgreSQL sink and the statements over them. Text only.

    headwater_progress     (sink, query_id) -> batch_id: how far a query has come in a table
    headwater_bad_rows     rows that the table did not take, with the option badRows=store
    headwater_pieces       what tasks have put aside: (attempt, piece) -> batch, rows, bad rows, when; unlogged
    headwater_staged_<id>  the rows themselves, with the columns, types and checks of the table; unlogged

The staging table is noted with the shape that the table had when it was made. If that has changed, it is made anew: or
rows that the table takes by now would still be refused.

A piece and its rows are written in one transaction, so rows without a piece are litter. What is unlogged is empty after
a crash of the server: a batch that was put aside but not published is then missing its pieces, and fails.
"""

from hashlib import sha256
from typing import Final

from headwater.spark.sinks.options import Column, SinkOptions, on_conflict, quoted, quoted_table
from headwater.spark.sinks.staging import LITTER_KEPT_DAYS

TABLES: Final = """
CREATE TABLE IF NOT EXISTS headwater_progress(
    sink text, query_id text, batch_id bigint NOT NULL, committed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (sink, query_id));
CREATE TABLE IF NOT EXISTS headwater_bad_rows(
    sink text NOT NULL, query_id text, batch_id bigint, "row" text NOT NULL, error text NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT now());
CREATE UNLOGGED TABLE IF NOT EXISTS headwater_pieces(
    attempt text, piece int, staged text NOT NULL, sink text NOT NULL, query_id text, batch_id bigint,
    "rows" bigint NOT NULL, bad_rows jsonb NOT NULL, staged_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (attempt, piece));
"""
HAS_AGES: Final = """
SELECT 1 FROM pg_attribute
WHERE attrelid = 'headwater_pieces'::regclass AND attname = 'staged_at' AND NOT attisdropped
"""
ADD_AGES: Final = "ALTER TABLE headwater_pieces ADD COLUMN staged_at timestamptz NOT NULL DEFAULT now()"
SET_UP_LOCK: Final = "SELECT pg_advisory_xact_lock(7238931)"  # two drivers that make tables at once would clash
LAST_BATCH: Final = "SELECT batch_id FROM headwater_progress WHERE sink = %s AND query_id = %s"
BEGIN_PROGRESS: Final = "INSERT INTO headwater_progress VALUES (%s, %s, -1) ON CONFLICT DO NOTHING"
LOCK_PROGRESS: Final = f"{LAST_BATCH} FOR UPDATE"
SET_PROGRESS: Final = (
    "UPDATE headwater_progress SET batch_id = %s, committed_at = now() WHERE sink = %s AND query_id = %s"
)
FORGET_PROGRESS: Final = "DELETE FROM headwater_progress WHERE sink = %s AND query_id = %s"
HAS_PIECE: Final = "SELECT 1 FROM headwater_pieces WHERE attempt = %s AND piece = %s"
ADD_PIECE: Final = "INSERT INTO headwater_pieces VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
COUNT_PIECES: Final = "SELECT attempt, count(*) FROM headwater_pieces WHERE attempt = ANY(%s) GROUP BY attempt"
PUBLISH_BAD_ROWS: Final = """
INSERT INTO headwater_bad_rows(sink, query_id, batch_id, "row", error)
SELECT sink, query_id, batch_id, bad ->> 'row', bad ->> 'error'
FROM headwater_pieces, jsonb_array_elements(bad_rows) bad WHERE attempt = ANY(%s)
"""
FORGET_PIECES: Final = """
DELETE FROM headwater_pieces WHERE attempt = ANY(%s) OR (sink = %s AND query_id = %s AND batch_id <= %s)
"""
SHAPE: Final = """
SELECT concat_ws(E'\\n',
    (SELECT string_agg(concat_ws(' ', attnum, format_type(atttypid, atttypmod), attnotnull, attcollation), ',' ORDER BY attnum)
     FROM pg_attribute WHERE attrelid = %(table)s::regclass AND attname = ANY(%(names)s) AND NOT attisdropped),
    (SELECT string_agg(concat_ws(' ', conname, pg_get_constraintdef(oid)), ',' ORDER BY conname)
     FROM pg_constraint WHERE conrelid = %(table)s::regclass AND contype = 'c'))
"""
STAGED_SHAPE: Final = "SELECT obj_description(to_regclass(%s), 'pg_class') WHERE to_regclass(%s) IS NOT NULL"
FORGET_STAGED: Final = "DELETE FROM headwater_pieces WHERE staged = %s"
FORGET_OLD: Final = f"{FORGET_STAGED} AND staged_at < now() - interval '{LITTER_KEPT_DAYS} days'"

_TYPES: Final = {
    "boolean": "boolean",
    "byte": "smallint",
    "short": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "nested": "jsonb",
}


def type_of(column: Column) -> str:
    if column.kind == "decimal":
        return "numeric({}, {})".format(*column.arguments)
    return _TYPES.get(column.kind, "text")


def create_table(options: SinkOptions) -> str:
    columns = [f"{quoted(column.name)} {type_of(column)}" for column in options.columns]
    if options.keys:
        columns.append(f"PRIMARY KEY ({', '.join(map(quoted, options.keys))})")
    return f"CREATE TABLE IF NOT EXISTS {quoted_table(options.table)}({', '.join(columns)})"


def staged_table(options: SinkOptions) -> str:
    """Other columns, other staging table: a query that changed may start while rows of the old one lie aside."""
    text = "\0".join((options.table, *options.names))
    return f"headwater_staged_{sha256(text.encode()).hexdigest()[:12]}"


def shape_mark(shape: str) -> str:
    return sha256(shape.encode()).hexdigest()


def create_staged_table(options: SinkOptions, columns_there: list[str], mark: str) -> list[str]:
    """Like the table, with its checks, but only with the columns that the rows have: the others have defaults."""
    staged = staged_table(options)
    others = [name for name in columns_there if name not in options.names]
    return [
        f"CREATE UNLOGGED TABLE {staged} (LIKE {quoted_table(options.table)} INCLUDING CONSTRAINTS)",
        *(f"ALTER TABLE {staged} DROP COLUMN {quoted(name)} CASCADE" for name in others),
        f"ALTER TABLE {staged} ADD COLUMN headwater_attempt text NOT NULL",
        f"COMMENT ON TABLE {staged} IS '{mark}'",
    ]


def copy(options: SinkOptions) -> str:
    columns = ", ".join(["headwater_attempt", *map(quoted, options.names)])
    return f"COPY {staged_table(options)}({columns}) FROM STDIN (FORMAT csv)"


def publish(options: SinkOptions) -> str:
    """A name may have a percent sign, which is doubled where there are placeholders."""
    columns = ", ".join(map(quoted, options.names))
    insert = f"INSERT INTO {quoted_table(options.table)}({columns}) SELECT {columns} FROM {staged_table(options)}"
    conflict = on_conflict(options).replace("%", "%%")
    return f"{insert.replace('%', '%%')} WHERE headwater_attempt = ANY(%s){conflict}"


def forget_rows(options: SinkOptions) -> str:
    staged = staged_table(options)
    return f"DELETE FROM {staged} WHERE headwater_attempt NOT IN (SELECT attempt FROM headwater_pieces)"
