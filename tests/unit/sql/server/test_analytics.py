"""What DuckDB is to read: when, how much of it, and whose."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from headwater.sql.language.errors import SqlError
from headwater.sql.language.parser import pieces_of
from headwater.sql.plan.session import Session
from headwater.sql.server import duckdb_queries, push
from headwater.sql.server.analytics import Analytics
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.duckdb_pool import AT_ONCE, DuckDbPool
from headwater.web.callers import EVERYBODY

_ROWS = [[7, 1700, 0, 5, "a"], [8, 1800, 0, 6, "b"]]  # the value, ROWTIME, ROWPARTITION, ROWOFFSET, the key
_JOIN = "SELECT SUM(t.v + u.v) AS s FROM t JOIN u ON t.k = u.k;"


class Views:
    """Of tables with two rows each, which are read when they may be."""

    def __init__(self) -> None:
        self.reading = 0
        self.may_read = asyncio.Event()

    async def rows(self, _source: Any) -> list[list[Any]]:
        self.reading += 1
        await self.may_read.wait()
        return [list(each) for each in _ROWS]


def _analytics(views: Views, **settings: int) -> tuple[Analytics, Session]:
    session = Session()
    for name in ("t", "u"):
        session.run(f"CREATE TABLE {name} (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='{name}', format='JSON');")
    for name, topic in (("s", "own"), ("q", "other")):
        session.run(f"CREATE STREAM {name} (v STRING) WITH (kafka_topic='{topic}', value_format='JSON');")
    config = {"bootstrap.servers": "127.0.0.1:1"} | {
        f"ksql.query.pull.{name}.max": str(most) for name, most in settings.items()
    }
    return Analytics(SqlServerConfig.of(config)[0], lambda: session, cast("Any", views)), session


async def _asked(analytics: Analytics, text: str) -> list[list[Any]]:
    answer = await analytics.answer(pieces_of(text)[0], {}, EVERYBODY)
    return [row async for row in answer.rows]


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def test_sources_are_read_when_it_is_the_querys_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty that asked at a time all held their sources, while eighteen of them waited; and the server heard nobody
    while the rows of a table were copied for one.
    """
    threads = set()

    def relation_of(*given: Any) -> Any:
        threads.add(threading.current_thread())
        return copied(*given)

    copied = duckdb_queries.relation_of
    monkeypatch.setattr(duckdb_queries, "relation_of", relation_of)

    async def scene() -> None:
        views = Views()
        analytics, _ = _analytics(views)
        asked = [asyncio.create_task(_asked(analytics, _JOIN)) for _ in range(AT_ONCE + 2)]
        await _until(lambda: views.reading >= AT_ONCE)
        for _ in range(20):
            await asyncio.sleep(0)
        assert views.reading == AT_ONCE
        views.may_read.set()
        assert await asyncio.gather(*asked) == [[[30]]] * len(asked)
        await analytics.close()
        assert threads
        assert threading.current_thread() not in threads

    asyncio.run(scene())


def test_a_query_whose_sources_are_not_read_in_time_is_stopped_and_gives_up_its_turn() -> None:
    """Only DuckDB's time was bounded."""

    async def scene() -> None:
        pool = DuckDbPool(duckdb_queries.Bounds(), seconds_max=0.05)

        async def read() -> Any:
            await asyncio.Event().wait()

        async def nothing() -> Any:
            return {}

        for _ in range(AT_ONCE + 1):
            with pytest.raises(SqlError, match=r"no answer within 0\.05 seconds"):
                await pool.answer("SELECT 1;", read)
        pool._seconds_max = 60.0
        assert list((await pool.answer("SELECT 1;", nothing))[1]) == [[1]]
        await pool.close()

    asyncio.run(scene())


def test_what_a_brokers_silence_ends_is_told_as_such() -> None:
    async def scene() -> None:
        pool = DuckDbPool(duckdb_queries.Bounds())

        async def read() -> Any:
            raise TimeoutError("no broker answers")

        with pytest.raises(TimeoutError, match="no broker"):
            await pool.answer("SELECT 1;", read)
        await pool.close()

    asyncio.run(scene())


class Pushed:
    """A stream with three rows of a hundred bytes."""

    streams: tuple[str, ...] = ()

    def __init__(self, planned: Any, *_: Any, **__: Any) -> None:
        Pushed.streams = tuple(planned.streams)
        self.columns = planned.columns

    async def rows(self) -> AsyncIterator[list[Any]]:
        for _ in range(3):
            yield ["x" * 100]


@pytest.mark.parametrize(
    ("text", "bounds", "told"),
    [
        ("SELECT 1 FROM t JOIN u ON t.k = u.k;", {"rows": 3}, "What the query reads has more than 3 rows"),
        ("SELECT 1 FROM t JOIN s ON t.k = s.v;", {"rows": 4}, "What the query reads has more than 4 rows"),
        ("SELECT 1 FROM s JOIN q ON s.v = q.v;", {"bytes": 500}, "What the query reads has more than 500 bytes"),
        ("SELECT 1 FROM s JOIN t ON s.v = t.k;", {"bytes": 200}, "S has more than 200 bytes"),
    ],
)
def test_what_a_query_reads_is_bounded_over_all_its_sources(
    monkeypatch: pytest.MonkeyPatch, text: str, bounds: dict[str, int], told: str
) -> None:
    """Each had the bound for itself: a query that named thirty streams held thirty times as much, and was refused
    then.
    """
    monkeypatch.setattr(push, "PushQuery", Pushed)

    async def scene() -> None:
        views = Views()
        views.may_read.set()
        analytics, _ = _analytics(views, **bounds)
        with pytest.raises(SqlError, match=told):
            await _asked(analytics, text)
        await analytics.close()

    asyncio.run(scene())


def test_a_query_that_waited_for_its_turn_reads_the_source_that_its_sender_was_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(push, "PushQuery", Pushed)

    async def scene() -> None:
        views = Views()
        analytics, session = _analytics(views)
        asked = asyncio.create_task(_asked(analytics, "SELECT COUNT(*) AS n FROM t JOIN s ON t.k = s.v;"))
        await _until(lambda: views.reading == 1)
        session.run("DROP STREAM s; CREATE STREAM s (v STRING) WITH (kafka_topic='secret', value_format='JSON');")
        views.may_read.set()
        assert await asked == [[0]]
        await analytics.close()

    asyncio.run(scene())
    assert Pushed.streams == ("own",)
