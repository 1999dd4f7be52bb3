"""The options of the database sinks: what is missing or wrong is said in a sentence."""

import pytest
from pyspark.sql.types import ArrayType, DecimalType, LongType, StringType, StructField, StructType, TimestampType

from headwater.base.errors import UserError
from headwater.spark.sinks import postgres_sql
from headwater.spark.sinks.options import Column, parse_postgres_options, parse_sqlite_options, quoted, quoted_table
from headwater.spark.sinks.sqlite import insert_statement

SCHEMA = StructType(
    [
        StructField("n", LongType()),
        StructField("at", TimestampType()),
        StructField("price", DecimalType(12, 2)),
        StructField("tags", ArrayType(StringType())),
    ]
)


def test_all_options() -> None:
    given = {"URL": "postgresql://h/d", "table": "s.t", "keys": "n, at", "badRows": "store", "patienceSeconds": "2.5"}
    options = parse_postgres_options({**given, "checkpointLocation": "/c"}, SCHEMA)
    assert (options.place, options.table, options.keys) == ("postgresql://h/d", "s.t", ("n", "at"))
    assert (options.bad_rows, options.patience_s, options.sink) == ("store", 2.5, "s.t")
    assert options.columns[2:] == (Column("price", "decimal", (12, 2)), Column("tags", "nested"))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"path": ""}, "path is missing"),
        ({"table": " "}, "table is missing"),
        ({"keys": "n,m"}, "'m' is no column"),
        ({"badRows": "drop"}, "badRows cannot be 'drop'"),
        ({"tabel": "x"}, "'tabel' is not known"),
        ({"path": "hdfs://h/x.db"}, "not a local path"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        parse_sqlite_options({"path": "/x.db", "table": "t", **change}, SCHEMA)


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "inf"])
def test_patience_is_a_number_of_seconds(text: str) -> None:
    with pytest.raises(UserError, match="patienceSeconds"):
        parse_postgres_options({"url": "u", "table": "t", "patienceSeconds": text}, SCHEMA)


def test_names_that_differ_by_case_only_are_refused() -> None:
    twice = StructType([StructField("N", LongType()), StructField("n", LongType())])
    with pytest.raises(UserError, match="Two columns"):
        parse_sqlite_options({"path": "/x.db", "table": "t"}, twice)


def test_names_cannot_leave_their_quotes() -> None:
    assert quoted('a"b') == '"a""b"'
    assert quoted_table('public.t"; DROP') == '"public"."t""; DROP"'


def test_statements() -> None:
    options = parse_sqlite_options({"path": "/x.db", "table": "t", "keys": "n"}, StructType(SCHEMA.fields[:2]))
    assert insert_statement(options) == (
        'INSERT INTO "t"("n", "at") VALUES (?, ?) ON CONFLICT ("n") DO UPDATE SET "at" = excluded."at"'
    )
    assert postgres_sql.create_table(options) == (
        'CREATE TABLE IF NOT EXISTS "t"("n" bigint, "at" timestamptz, PRIMARY KEY ("n"))'
    )
    only_keys = parse_sqlite_options({"path": "/x.db", "table": "t", "keys": "n"}, StructType(SCHEMA.fields[:1]))
    assert insert_statement(only_keys).endswith('ON CONFLICT ("n") DO NOTHING')
    assert postgres_sql.publish(only_keys).endswith('ON CONFLICT ("n") DO NOTHING')
    assert postgres_sql.staged_table(only_keys) != postgres_sql.staged_table(options)
