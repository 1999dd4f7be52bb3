"""Queries for rows in threads: they end with their askers, and leave room for statements."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.sql.functions import scope
from headwater.sql.language import tree
from headwater.sql.server import push
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.node import SqlNode
from headwater.streams.model.record import InputRecord

_ROWS = [[place, 0, 0, place, place] for place in range(100)]  # the value, three of the record, the key
_MANY = 40  # more than the threads that asyncio has for everybody


class _Gate:
    """Where rows wait."""

    def __init__(self) -> None:
        self.begun, self.opens = threading.Event(), threading.Event()
        self.rows: list[int] = []
        self.threads: set[threading.Thread] = set()

    def passed(self, x: int) -> int:
        self.threads.add(threading.current_thread())
        self.rows.append(x)
        self.begun.set()
        self.opens.wait(60)
        return x


_gate = _Gate()


def passed(x: int) -> int:
    return _gate.passed(x)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> _Gate:
    made = _Gate()
    monkeypatch.setattr("unit.sql.server.test_row_threads._gate", made)
    return made


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> SqlNode:
    made = SqlNode(SqlServerConfig.of({"bootstrap.servers": "127.0.0.1:1", "ksql.functions.python.modules": "unit"})[0])
    made.engine.session.run(
        "CREATE FUNCTION passed USING 'unit.sql.server.test_row_threads:passed';"
        "CREATE STREAM s (id INT KEY, n BIGINT) WITH (kafka_topic='s', value_format='JSON', partitions=1);"
        "CREATE TABLE t (id INT PRIMARY KEY, n BIGINT) WITH (kafka_topic='t', value_format='JSON', partitions=1);"
    )

    async def rows(*_: Any) -> list[list[Any]]:
        return [list(row) for row in _ROWS]

    async def stream(*_: Any) -> Any:
        return (), await rows()

    queries: Any = made.row_queries
    monkeypatch.setattr(queries._views, "rows", rows)
    monkeypatch.setattr(queries._analytics, "read_stream", stream)
    return made


async def _asked(node: SqlNode, text: str) -> list[list[Any]]:
    answer = await node.row_queries.query(text, {}, {})
    return [row async for row in answer.rows]


async def _left(asker: "asyncio.Task[Any]") -> None:
    asker.cancel()
    await asyncio.wait({asker})
    assert asker.cancelled()


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, passed(n) AS x FROM t;",
        "SELECT id FROM t WHERE passed(n) > 0;",
        "SELECT id FROM t ORDER BY passed(n);",
        "SELECT id, COUNT(passed(n)) AS x FROM t GROUP BY id;",
        "SELECT COUNT(passed(n)) AS x FROM s;",
        "SELECT id FROM s ORDER BY passed(n);",
    ],
)
def test_a_pull_query_ends_with_its_asker(node: SqlNode, gate: _Gate, text: str) -> None:
    """It went on through all rows of the table, in one of six threads that parse statements, too."""

    async def scene() -> None:
        asker = asyncio.create_task(_asked(node, text))
        await _until(gate.begun.is_set)
        await _left(asker)
        gate.opens.set()
        await node.row_queries.close()

    asyncio.run(scene())
    for each in gate.threads:
        each.join(60)
    assert len(gate.rows) == 1


def test_statements_are_parsed_while_many_pull_queries_run(node: SqlNode, gate: _Gate) -> None:
    """Nobody was answered any more."""

    async def scene() -> list[list[list[Any]]]:
        askers = [asyncio.create_task(_asked(node, "SELECT id, passed(n) AS x FROM t LIMIT 1;")) for _ in range(_MANY)]
        await _until(gate.begun.is_set)
        await asyncio.sleep(0.1)
        try:
            async with asyncio.timeout(20):
                await asyncio.to_thread(node.engine.session.parse, "SHOW STREAMS;")
        finally:
            gate.opens.set()
        return await asyncio.gather(*askers)

    assert asyncio.run(scene()) == [[[0, 0]]] * _MANY


def test_a_push_query_ends_with_its_asker_within_the_records_of_one_poll(
    node: SqlNode, gate: _Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It went on to the last of them, whatever its expressions took."""
    monkeypatch.setattr(push, "AsyncConsumer", _Full)
    text = "SELECT id, passed(REDUCE(ARRAY[n], CAST(0 AS BIGINT), (x, y) => x + y)) AS x FROM s EMIT CHANGES;"
    (statement,) = node.engine.session.parse(text)
    assert isinstance(statement, tree.Select)

    async def scene() -> None:
        with scope.using(node.engine.session.catalog.functions, {}):
            planned = push.plan(statement.query, node.engine.session.catalog.copy(), "nowhere:1", {})
        rows = push.PushQuery(planned, {}, {}, to_end=True).rows()
        asker = asyncio.create_task(_all(rows))
        await _until(gate.begun.is_set)
        await _left(asker)
        gate.opens.set()

    async def _all(rows: AsyncIterator[Any]) -> list[Any]:
        return [each async for each in rows]

    asyncio.run(scene())
    assert len(gate.rows) == 1


class _Full:
    """A topic with a hundred records."""

    def __init__(self, _settings: Any) -> None:
        self._has_given = False

    async def __aenter__(self) -> "_Full":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def partitions_for(self, topic: str) -> list[Any]:
        return [TopicPartition(topic, 0)]

    async def beginning_offsets(self, places: Any) -> dict[Any, int]:
        return dict.fromkeys(places, 0)

    async def end_offsets(self, places: Any) -> dict[Any, int]:
        return dict.fromkeys(places, 100)

    def assign(self, _places: Any) -> None:
        pass

    def seek(self, _place: Any, _offset: int) -> None:
        pass

    async def position(self, _place: Any) -> int:
        return 100 if self._has_given else 0

    async def poll(self, _timeout_s: float) -> list[Any]:
        self._has_given = True
        return [_Record("s", 0, each, 0, each.to_bytes(4, "big"), b'{"N": 1}', ()) for each in range(100)]


class _Record(InputRecord):
    @property
    def timestamp_ms(self) -> int:
        return self.timestamp
