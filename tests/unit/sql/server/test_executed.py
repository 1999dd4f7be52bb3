"""A statement that ends a query is answered when that query has ended: what is written behind the answer is not its."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.sql.server.api import make_door
from headwater.sql.server.command_log import Command
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.node import SqlNode
from headwater.sql.server.peers import HostStatus, ServerName, Watch
from headwater.sql.server.query_states import Ended, Record, ReportKey, Reports
from headwater.sql.server.runner import QueryRunner
from headwater.web.messages import Request

_S = "CREATE STREAM s (id INT KEY, v INT) WITH (kafka_topic='in', value_format='JSON');"
_BIG = "CREATE STREAM big AS SELECT * FROM s WHERE v > 5;"
_REPLACED = "CREATE OR REPLACE STREAM big AS SELECT * FROM s WHERE v > 9;"
_LONG_MS, _SHORT_MS = 60_000, 1


class Log:
    """What is appended is followed, as a server does."""

    def __init__(self) -> None:
        self._statements: list[bytes] = []
        self._more = asyncio.Event()

    async def end(self) -> int:
        return len(self._statements)

    async def append(self, command: Command) -> int:
        self._statements.append(command.encode())
        self._more.set()
        return len(self._statements) - 1

    async def statements(self) -> AsyncIterator[tuple[int, bytes]]:
        at = 0
        while True:
            await self._more.wait()
            while at < len(self._statements):
                yield at, self._statements[at]
                at += 1
            self._more.clear()


class Admin:
    async def list_topics(self, *, internal: bool = False) -> list[Any]:
        return [SimpleNamespace(name="in", partitions=[SimpleNamespace(replicas=[1])])] if internal else []

    async def describe_configs(self, resources: list[Any], **_: Any) -> dict[Any, Any]:
        return dict.fromkeys(resources, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no"))

    async def create_topics(self, wanted: list[Any]) -> dict[str, None]:
        return {each.name: None for each in wanted}


class Run:
    """Takes records until it has stopped, for which it needs leave."""

    def __init__(self, host: "Host") -> None:
        self._host = host
        self.has_stopped = False

    def on_end(self, callback: Any) -> None:
        pass

    def stop(self) -> None:
        self._host.is_asked.set()
        assert self._host.may_stop.wait(60)
        self.has_stopped = True


class Host:
    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.is_asked, self.may_stop, self.may_start = threading.Event(), threading.Event(), threading.Event()
        self.may_start.set()

    def start(self, _query: Any, stopping: threading.Event) -> Run | None:
        """As slow as Spark may be, which hears nothing meanwhile."""
        assert self.may_start.wait(60)
        if stopping.is_set():
            return None
        self.runs.append(Run(self))
        return self.runs[-1]

    def restoring(self, _query: Any) -> list[Any]:
        return []

    def close(self) -> None:
        pass


Scene = Callable[[SqlNode, Host], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Scene, int], None]:
    async def clean(_self: QueryRunner, _name: str) -> None:
        pass

    monkeypatch.setattr(QueryRunner, "_clean", clean)

    async def played(scene: Scene, within_ms: int) -> None:
        settings = {
            "bootstrap.servers": "127.0.0.1:1",
            "ksql.streams.state.dir": str(tmp_path),
            "ksql.server.command.response.timeout.ms": str(within_ms),
        }
        host = Host()
        node = SqlNode(SqlServerConfig.of(settings)[0])
        node._log, node._admin = cast("Any", Log()), cast("Any", Admin())
        node.runner = QueryRunner(node.config, host)
        node.runner.leads = True
        node._following = asyncio.create_task(node._follow())
        try:
            await scene(node, host)
        finally:
            host.may_start.set()
            host.may_stop.set()
            node._following.cancel()
            await asyncio.wait([node._following])
            await node.runner.close()

    return lambda scene, within_ms: asyncio.run(asyncio.wait_for(played(scene, within_ms), 90))


async def _status(node: SqlNode, sql: str) -> str:
    (answer,) = await node.execute(sql, {}, {})
    return str(answer["commandStatus"]["status"])


async def _runs(node: SqlNode, query: str) -> None:
    while node.runner.state_of(query, paused=False)[0] != "RUNNING":
        await asyncio.sleep(0)


async def _told(node: SqlNode, *path: str) -> Any:
    answer = await make_door(node).handle(Request("GET", "/" + "/".join(path), path))
    assert isinstance(answer.body, bytes)
    return json.loads(answer.body)


_ENDING = [_REPLACED, "PAUSE CSAS_BIG_1;", "TERMINATE CSAS_BIG_1;", "DROP STREAM big;"]


@pytest.mark.parametrize("statement", _ENDING)
def test_the_answer_comes_when_the_old_query_takes_no_more_records(
    play: Callable[[Scene, int], None], statement: str
) -> None:
    """A row that was inserted right behind the answer was counted by the old filter."""

    async def scene(node: SqlNode, host: Host) -> None:
        await node.execute(_S + _BIG, {}, {})
        await _runs(node, "CSAS_BIG_1")
        answering = asyncio.create_task(_status(node, statement))
        await asyncio.to_thread(host.is_asked.wait)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not answering.done()
        host.may_stop.set()
        assert await answering == "SUCCESS"
        assert host.runs[0].has_stopped

    play(scene, _LONG_MS)


def test_a_stop_that_takes_long_is_told_and_what_runs_on_is_no_success_until_it_has_ended(
    play: Callable[[Scene, int], None],
) -> None:
    async def scene(node: SqlNode, host: Host) -> None:
        await node.execute(_S + _BIG, {}, {})
        await _runs(node, "CSAS_BIG_1")
        assert await _status(node, "PAUSE CSAS_BIG_1;") == "EXECUTING"
        path = ("status", "pause", "CSAS_BIG_1", "execute")
        assert (await _told(node, *path))["status"] == "EXECUTING"
        assert (await _told(node, "status"))["commandStatuses"]["pause/CSAS_BIG_1/execute"] == "EXECUTING"
        host.may_stop.set()
        while not await node.has_executed(2):
            pass
        assert (await _told(node, *path))["status"] == "SUCCESS"
        assert host.runs[0].has_stopped

    play(scene, _SHORT_MS)


def test_a_query_that_starts_slowly_holds_up_no_answer(play: Callable[[Scene, int], None]) -> None:
    """Neither that of the statement that makes it, nor for ever that of the one that ends it."""

    async def scene(node: SqlNode, host: Host) -> None:
        host.may_start.clear()
        await node.execute(_S, {}, {})
        assert await _status(node, _BIG) == "SUCCESS"
        node.config.values["ksql.server.command.response.timeout.ms"] = _SHORT_MS
        assert await _status(node, _REPLACED) in ("EXECUTING", "SUCCESS")  # whether a thread had begun with the start
        host.may_start.set()
        while not await node.has_executed(2):
            pass
        await _runs(node, "CSAS_BIG_1")

    play(scene, _LONG_MS)


def test_a_server_that_has_not_joined_the_others_waits_for_none_of_them(play: Callable[[Scene, int], None]) -> None:
    async def scene(node: SqlNode, host: Host) -> None:
        node.runner.leads = False
        await node.execute(_S + _BIG, {}, {})
        assert await _status(node, "PAUSE CSAS_BIG_1;") == "SUCCESS"
        assert host.runs == []

    play(scene, _LONG_MS)


_OWN, _LEADER = ServerName("10.0.0.1", 8088, "one", "aa"), ServerName("10.0.0.2", 8088, "two", "bb")


class Told(Reports):
    """What the server that leads has written so far."""

    def __init__(self, node: SqlNode, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(node.config)
        self.reads = 0
        watch = Watch(_OWN, 3, 10_000, 500)
        watch.hosts[_LEADER] = HostStatus(alive=True, updated_ms=0, leads=True)
        monkeypatch.setattr(node._leading, "watch", watch)
        monkeypatch.setattr(node, "_reports", self)
        node.runner.leads = False

    def write(self, by: ServerName, offset: int) -> None:
        self._take(ReportKey("", str(by)).encode(), Ended(str(by), offset).encode())

    async def read(self) -> None:
        self.reads += 1

    async def is_asked_by(self, answering: asyncio.Task[str]) -> None:
        before = self.reads
        while self.reads < before + 2:
            assert not answering.done()
            await asyncio.sleep(0)


@pytest.mark.parametrize("statement", _ENDING)
def test_the_answer_of_another_server_comes_when_the_old_query_has_ended_on_the_one_that_leads(
    play: Callable[[Scene, int], None], monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """Who replaced a query by way of a server that does not lead saw rows of the old one behind the answer."""
    monkeypatch.setattr("headwater.sql.server.node._ASK_AGAIN_S", 0)

    async def scene(node: SqlNode, _host: Host) -> None:
        told = Told(node, monkeypatch)
        await node.execute(_S + _BIG, {}, {})
        assert told.reads == 0  # what ends no query waits for nobody
        told.write(_LEADER, 2)
        answering = asyncio.create_task(_status(node, statement))
        await told.is_asked_by(answering)
        told.write(_LEADER._replace(life="aa"), 3)  # who led before says nothing of the queries of its successor
        await told.is_asked_by(answering)
        told.write(_LEADER, 3)
        assert await answering == "SUCCESS"

    play(scene, _LONG_MS)


def test_what_the_server_that_leads_has_not_ended_yet_is_no_success_on_another(
    play: Callable[[Scene, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(node: SqlNode, _host: Host) -> None:
        told = Told(node, monkeypatch)
        await node.execute(_S + _BIG, {}, {})
        assert await _status(node, "PAUSE CSAS_BIG_1;") == "EXECUTING"
        assert await _status(node, "DROP STREAM big;") == "EXECUTING"  # paused is not ended
        path = ("status", "stream", "BIG", "drop")
        assert (await _told(node, *path))["status"] == "EXECUTING"
        told.write(_LEADER, 4)
        assert (await _told(node, *path))["status"] == "SUCCESS"
        statuses = (await _told(node, "status"))["commandStatuses"]
        assert set(statuses.values()) == {"SUCCESS"}

    play(scene, _SHORT_MS)


def test_the_server_that_leads_tells_the_others_of_the_end_of_a_query_when_it_has_ended(
    play: Callable[[Scene, int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(node: SqlNode, host: Host) -> None:
        monkeypatch.setattr(node._leading, "watch", Watch(_OWN, 3, 10_000, 500))

        def ended() -> list[Record]:
            return [each for query, each in node._reports_now() if not query]

        await node.execute(_S + _BIG, {}, {})
        await _runs(node, "CSAS_BIG_1")
        assert ended() == []
        answering = asyncio.create_task(_status(node, _REPLACED))
        await asyncio.to_thread(host.is_asked.wait)
        assert ended() == []
        node._reporter._changed.clear()
        host.may_stop.set()
        assert await answering == "SUCCESS"
        assert ended() == [Ended(str(_OWN), 3)]
        assert node._reporter._changed.is_set()  # they hear of it before the new one starts

    play(scene, _LONG_MS)
