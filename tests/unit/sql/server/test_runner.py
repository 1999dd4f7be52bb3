"""Queries that are to end while they start: what is being restored is given up, what waits for a thread never begins,
and stops wait for neither.
"""

import asyncio
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.sql.server import runner as runner_module
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.query_host import InProcessHost, StoreProgress
from headwater.sql.server.runner import _STARTS_MAX, QueryRunner


class RestoringRun:
    """A run whose start waits for its state until it is told to stop."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping

    def on_end(self, callback: Any) -> None:
        if self._stopping.is_set():
            callback()

    def stop(self) -> None:
        self._stopping.set()


class RestoringApp:
    current_run = None

    def __init__(self, name: str, *, restores: bool = True) -> None:
        self.name = name
        self.begun = threading.Event()
        self._restores = restores

    def run_here(self, *, stopping: threading.Event, **_: Any) -> RestoringRun:
        self.begun.set()
        if self._restores:
            stopping.wait(90)
        return RestoringRun(stopping)


class Query:
    def __init__(self, number: int, *, restores: bool = True) -> None:
        self.id = f"q{number}"
        self.withheld = ""
        self.app = RestoringApp(self.id, restores=restores)


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> QueryRunner:
    async def clean(_self: QueryRunner, _name: str) -> None:
        pass

    monkeypatch.setattr(QueryRunner, "_clean", clean)
    config, _ = SqlServerConfig.load(None, [f"ksql.streams.state.dir={tmp_path}", "bootstrap.servers=localhost:1"])
    runner = QueryRunner(config)
    runner.leads = True
    return runner


async def _begun(query: Query) -> None:
    await asyncio.to_thread(query.app.begun.wait)


def test_a_query_that_restores_its_state_can_be_terminated(runner: QueryRunner) -> None:
    async def scenario() -> None:
        query: Any = Query(0)
        await runner.follow({query.id: query}, set())
        await _begun(query)
        assert runner.state_of(query.id, paused=False) == ("STARTING", "")
        await runner.follow({}, set())
        assert not runner._running
        await runner.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


class SlowHost:
    """Starts when it may, and hears nothing meanwhile."""

    def __init__(self) -> None:
        self.begun, self.may_start, self.stopped = threading.Event(), threading.Event(), threading.Event()

    def start(self, _query: Any, _stopping: threading.Event) -> Any:
        self.begun.set()
        assert self.may_start.wait(60)
        return SimpleNamespace(on_end=lambda _callback: None, stop=self.stopped.set)

    def restoring(self, _query: Any) -> list[StoreProgress]:
        return []

    def close(self) -> None:
        pass


@pytest.mark.parametrize("steps", [1, 5])
def test_a_server_that_closes_waits_for_queries_that_a_statement_was_about_to_end(tmp_path: Path, steps: int) -> None:
    """Whoever followed the log was cancelled; nobody had the query any more, and it ran on."""
    config, _ = SqlServerConfig.load(None, [f"ksql.streams.state.dir={tmp_path}", "bootstrap.servers=localhost:1"])

    async def scenario() -> None:
        host, query = SlowHost(), Query(0)
        runner = QueryRunner(config, host)
        runner.leads = True
        await runner.follow(cast("Any", {query.id: query}), set())
        await asyncio.to_thread(host.begun.wait)
        runner.leads = False
        ending = asyncio.create_task(runner.follow({}, set()))
        for _ in range(steps):
            await asyncio.sleep(0)
        ending.cancel()
        await asyncio.wait([ending])
        closing = asyncio.create_task(runner.close())
        for _ in range(20):
            await asyncio.sleep(0)
        assert not closing.done()
        host.may_start.set()
        await closing
        assert host.stopped.is_set()

    asyncio.run(asyncio.wait_for(scenario(), 60))


class RestoringHost(InProcessHost):
    """A host that knows how far it is."""

    def restoring(self, query: Any) -> list[StoreProgress]:
        return [StoreProgress(f"store-of-{query.id}", 0, 7, 10)]


def test_a_query_whose_stores_are_read_is_restoring_and_every_change_is_told(tmp_path: Path) -> None:
    config, _ = SqlServerConfig.load(None, [f"ksql.streams.state.dir={tmp_path}", "bootstrap.servers=localhost:1"])
    seen: list[str] = []

    async def scenario() -> None:
        query: Any = Query(0, restores=False)
        slow: Any = Query(1)
        runner: Any = QueryRunner(config, RestoringHost(config), lambda: seen.append(runner.state_of("q0", False)[0]))
        runner.leads = True
        await runner.follow({query.id: query, slow.id: slow}, set())
        assert runner.state_of("q1", paused=False) == ("RESTORING", "")
        assert runner.restoring("q1") == [("store-of-q1", 0, 7, 10)]
        while runner.state_of("q0", paused=False)[0] != "RUNNING":
            await asyncio.sleep(0)
        assert runner.restoring("q0") == []
        assert seen == ["RESTORING", "RUNNING"]
        await runner.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_restores_that_take_all_threads_keep_no_other_query_from_ending(runner: QueryRunner) -> None:
    async def scenario() -> None:
        runs: Any = Query(999, restores=False)
        await runner.follow({runs.id: runs}, set())
        while runner.state_of(runs.id, paused=False)[0] != "RUNNING":
            await asyncio.sleep(0)
        many: list[Any] = [Query(number) for number in range(_STARTS_MAX + 1)]
        wanted: dict[str, Any] = {each.id: each for each in many}
        await runner.follow({runs.id: runs} | wanted, set())
        for each in many[:-1]:
            await _begun(each)
        await runner.follow(wanted, set())  # without the one that runs
        del wanted[many[-1].id]
        await runner.follow(wanted, set())  # and without the one that waits for a thread
        assert not many[-1].app.begun.is_set()
        assert sorted(runner._running) == sorted(wanted)
        await runner.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


class DyingApp:
    """A run that dies is told to stop, as every run is at its end; the next one must not hear of that."""

    current_run = None

    def __init__(self) -> None:
        self.name = "dying"
        self.were_stopping: list[bool] = []
        self.ran_again = threading.Event()

    def run_here(self, *, stopping: threading.Event, **_: Any) -> Any:
        self.were_stopping.append(stopping.is_set())
        if len(self.were_stopping) > 1:
            self.ran_again.set()
            return RestoringRun(stopping)
        run = RestoringRun(stopping)
        stopping.set()  # it has died
        return run


def test_a_query_that_died_is_started_again_and_runs(runner: QueryRunner) -> None:
    async def scenario() -> None:
        query: Any = Query(0)
        query.app = DyingApp()
        await runner.follow({query.id: query}, set())
        await asyncio.to_thread(query.app.ran_again.wait)
        while runner.state_of(query.id, paused=False)[0] != "RUNNING":
            await asyncio.sleep(0)
        assert query.app.were_stopping == [False, False]
        assert runner._running[query.id].restarts == 1
        await runner.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


class HopelessApp:
    current_run = None

    def __init__(self) -> None:
        self.name = "hopeless"
        self.starts = 0

    def run_here(self, **_: Any) -> Any:
        self.starts += 1
        raise ValueError(f"start {self.starts}")


def test_a_query_is_started_again_as_often_as_the_config_says(tmp_path: Path) -> None:
    config, _ = SqlServerConfig.load(
        None,
        [
            f"ksql.streams.state.dir={tmp_path}",
            "bootstrap.servers=localhost:1",
            "ksql.query.retry.max=2",
            "ksql.query.retry.backoff.initial.ms=1",
        ],
    )

    async def scenario() -> None:
        runner = QueryRunner(config)
        runner.leads = True
        query: Any = Query(0)
        query.app = HopelessApp()
        for last in (3, 6):  # whoever pauses and resumes it starts it anew
            await runner.follow({query.id: query}, set())
            while runner.state_of(query.id, paused=False) != ("ERROR", f"ValueError: start {last}"):
                await asyncio.sleep(0)
            for _ in range(100):  # it stays so
                await asyncio.sleep(0)
            assert query.app.starts == last
            await runner.follow({query.id: query}, {query.id})
        await runner.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


class Leftovers:
    """An admin client; the group of a query cannot be deleted as long as it is `held`."""

    held = True

    def __init__(self, _client: Any) -> None:
        pass

    async def __aenter__(self) -> "Leftovers":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def list_topics(self) -> list[Any]:
        return []

    async def remove_members(self, _group: str) -> None:
        pass

    async def delete_groups(self, groups: list[str]) -> dict[str, KafkaError | None]:
        return {each: KafkaError(ErrorCode.NON_EMPTY_GROUP) if self.held else None for each in groups}


def test_a_query_does_not_go_on_where_a_terminated_one_of_its_id_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the group's coordinator answered was not looked at: the next query of that QUERY_ID read from the offsets
    that were left, and passed over all records before them.
    """
    monkeypatch.setattr(runner_module, "AsyncAdmin", Leftovers)
    monkeypatch.setattr(Leftovers, "held", True)
    settings = [f"ksql.streams.state.dir={tmp_path}", "bootstrap.servers=localhost:1"]
    config, _ = SqlServerConfig.load(None, [*settings, "ksql.query.retry.backoff.initial.ms=1"])

    async def scenario() -> None:
        runner = QueryRunner(config)
        runner.leads = True
        first: Any = Query(0, restores=False)
        await runner.follow({first.id: first}, set())
        await _begun(first)
        await runner.follow({}, set())
        second: Any = Query(0, restores=False)
        await runner.follow({second.id: second}, set())
        while runner.state_of("q0", paused=False)[0] != "ERROR":
            await asyncio.sleep(0)
        assert "a terminated query of the same id" in runner.state_of("q0", paused=False)[1]
        assert not second.app.begun.is_set()
        Leftovers.held = False
        await _begun(second)
        await runner.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_query_that_is_to_end_while_what_was_left_is_cleaned_does_not_begin(
    runner: QueryRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It restored all its state first, and TERMINATE waited for that."""

    async def scenario() -> None:
        cleaning, cleaned = asyncio.Event(), asyncio.Event()

        async def clean(self: QueryRunner, name: str) -> None:
            cleaning.set()
            await cleaned.wait()
            self._not_cleaned.discard(name)

        monkeypatch.setattr(QueryRunner, "_clean", clean)
        runner._not_cleaned.add("q0")
        query: Any = Query(0, restores=False)
        await runner.follow({query.id: query}, set())
        await cleaning.wait()
        ending = asyncio.create_task(runner.follow({}, set()))
        await asyncio.sleep(0)
        cleaned.set()
        await ending
        assert not query.app.begun.is_set()
        await runner.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))


class OldBrokers:
    """An admin client of brokers with what was left of queries, as names."""

    groups: ClassVar[set[str]]
    topics: ClassVar[set[str]]

    def __init__(self, _client: Any) -> None:
        pass

    async def __aenter__(self) -> "OldBrokers":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def list_groups(self) -> list[Any]:
        return [SimpleNamespace(group_id=each) for each in self.groups]

    async def list_topics(self) -> list[Any]:
        return [SimpleNamespace(name=each) for each in self.topics]

    async def remove_members(self, _group: str) -> None:
        pass

    async def delete_topics(self, topics: list[str]) -> dict[str, None]:
        self.topics.difference_update(topics)
        return dict.fromkeys(topics)

    async def delete_groups(self, groups: list[str]) -> dict[str, None]:
        self.groups.difference_update(groups)
        return dict.fromkeys(groups)


def test_what_a_leader_that_died_did_not_clean_up_the_next_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody did: groups, topics and state of dropped queries stayed for ever. Those of other queries stay."""
    monkeypatch.setattr(runner_module, "AsyncAdmin", OldBrokers)
    groups = {"a", "ab", "q0"}
    monkeypatch.setattr(OldBrokers, "groups", groups, raising=False)
    topics = {"b-x-changelog", "ab-x-changelog", "q0-x-changelog", "in"}
    monkeypatch.setattr(OldBrokers, "topics", topics, raising=False)
    (tmp_path / "c" / "0_0").mkdir(parents=True)
    (tmp_path / "q0").mkdir()
    config, _ = SqlServerConfig.load(None, [f"ksql.streams.state.dir={tmp_path}", "bootstrap.servers=localhost:1"])

    async def scenario() -> None:
        runner = QueryRunner(config)
        query: Any = Query(0, restores=False)
        await runner.follow({query.id: query}, set(), {"a", "b", "c", "q0"})
        assert runner._sweeping is None, "only the one that leads"
        runner.leads = True
        await runner.follow({query.id: query}, set(), {"a", "b", "c", "q0"})
        assert runner._sweeping is not None
        await runner._sweeping
        await runner.close()

    asyncio.run(asyncio.wait_for(scenario(), 60))
    assert groups == {"ab", "q0"}
    assert topics == {"ab-x-changelog", "q0-x-changelog", "in"}
    assert [each.name for each in tmp_path.iterdir()] == ["q0"]
