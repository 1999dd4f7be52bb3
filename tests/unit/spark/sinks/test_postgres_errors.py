"""What the sink makes of PostgreSQL's errors: which of them pass, which are a row's, and what is said."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from headwater.spark.sinks.options import STORE, Column, SinkOptions
from headwater.spark.sinks.postgres import PostgresStore, explained, is_passing

OPTIONS = SinkOptions("postgresql://h/d", "t", (Column("n", "string"),), bad_rows=STORE)


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (psycopg.errors.DiskFull("full"), True),
        (psycopg.errors.AdminShutdown("stopped"), True),
        (psycopg.OperationalError("connection refused"), True),
        (psycopg.OperationalError("password authentication failed"), False),
        (psycopg.errors.UniqueViolation("twice"), False),
        (psycopg.errors.ProgramLimitExceeded("index row size 2720 exceeds btree version 4 maximum 2704"), False),
    ],
)
def test_only_what_may_go_away_is_waited_for(error: Exception, passes: bool) -> None:
    assert is_passing(error) is passes


def test_a_value_that_is_too_large_is_not_told_as_a_server_that_was_away() -> None:
    """A key that no index takes was tried for a minute, and then PostgreSQL was not there."""
    told = str(explained(psycopg.errors.ProgramLimitExceeded("index row size 2720 exceeds the maximum"), OPTIONS))
    assert "did not take a batch into t. index row size 2720" in told
    assert "larger than PostgreSQL or an index takes" in told


def test_a_row_that_is_too_large_is_a_bad_row_and_the_others_go_through() -> None:
    taken: list[bytes] = []

    def write(data: bytes) -> None:
        if b"huge" in data:
            raise psycopg.errors.ProgramLimitExceeded("row is too big: size 8192, maximum size 8160")
        taken.append(data)

    @contextlib.contextmanager
    def copy(_: bytes) -> Iterator[Any]:
        yield SimpleNamespace(write=write)

    cursor: Any = SimpleNamespace(connection=SimpleNamespace(transaction=contextlib.nullcontext), copy=copy)
    piece = pa.record_batch({"n": ["a", "huge", "b"]})
    bad = PostgresStore(OPTIONS)._copy(cursor, "a1", piece)
    assert bad == [{"row": '{"n": "huge"}', "error": "row is too big: size 8192, maximum size 8160"}]
    assert b"".join(taken).split() == [b'"a1","a"', b'"a1","b"']
