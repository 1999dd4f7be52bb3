"""What a server that does not lead says of the queries of the one that does."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import pytest

from headwater.base.errors import UserError
from headwater.sql.server import query_states
from headwater.sql.server.peers import HostStatus, Member, ServerName
from headwater.sql.server.query_host import StoreProgress
from headwater.sql.server.query_states import (
    Ended,
    QueryState,
    Report,
    Reporter,
    ReportKey,
    Reports,
    changes,
    outdated,
    state_elsewhere,
)

_FIRST = ServerName("10.0.0.1", 8088, "one", "aa")
_LEADER = ServerName("10.0.0.2", 8088, "two", "bb")
_WELL, _GONE = HostStatus(alive=True, updated_ms=0, leads=True), HostStatus(alive=False, updated_ms=0, leads=True)
_DIED = Report(str(_LEADER), "ERROR", "KafkaError: no")
_FORMER = Report(str(_LEADER._replace(life="aa")), "RUNNING")


@pytest.mark.parametrize(
    ("report", "leader", "shown"),
    [
        (_DIED, (_LEADER, _WELL), QueryState("ERROR", "KafkaError: no", "10.0.0.2:8088")),
        (_DIED, (_LEADER, _GONE), QueryState("UNRESPONSIVE", "", "10.0.0.2:8088")),
        (_FORMER, (_LEADER, _WELL), QueryState("STARTING", "", "10.0.0.2:8088")),  # of another life: that is over
        (None, (_LEADER, _WELL), QueryState("STARTING", "", "10.0.0.2:8088")),
        (_DIED, None, QueryState("STARTING", "", "")),  # nobody leads
    ],
)
def test_the_state_of_a_query_that_another_runs(
    report: Report | None, leader: tuple[ServerName, HostStatus] | None, shown: QueryState
) -> None:
    assert state_elsewhere(report, leader) == shown


@pytest.mark.parametrize(
    ("state", "word"),
    [
        ("STARTING", "RUNNING"),
        ("RESTORING", "RUNNING"),
        ("RUNNING", "RUNNING"),
        ("ERROR", "ERROR"),
        ("PAUSED", "PAUSED"),
        ("UNRESPONSIVE", "UNRESPONSIVE"),
    ],
)
def test_clients_count_by_the_four_words_that_they_know(state: str, word: str) -> None:
    assert QueryState(state).word == word


def test_only_what_changed_is_written() -> None:
    one, two = Report("s", "RUNNING"), Report("s", "STARTING")
    a, b = ReportKey("a", "s"), ReportKey("b", "s")
    assert changes({}, {a: one}) == {a: one}
    assert changes({a: one, b: two}, {a: one, b: one}) == {b: one}
    assert changes({a: one}, {}) == {a: None}
    assert changes({a: one}, {a: one}) == {}
    assert changes({a: None, b: None}, {a: one}) == {a: one, b: None}  # what the topic has is not known


def test_a_report_is_read_as_it_was_written_and_its_error_is_bounded() -> None:
    report = Report("s", "RESTORING", "", (StoreProgress("store", 1, 2, 3),))
    assert Report.decode(report.encode()) == report
    long = Report.decode(Report("s", "ERROR", "x" * 100_000).encode())
    assert long is not None
    assert len(long.error) == 4_000


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"[]", b"null", b"{}", b'{"server":"s","state":"","error":"","restoring":[1]}']
)
def test_what_is_no_report_is_none(data: bytes) -> None:
    assert Report.decode(data) is None


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{}", b'{"server":"s","offset":"x"}'])
def test_how_far_queries_have_ended_is_read_as_it_was_written_and_of_its_server_alone(data: bytes) -> None:
    reports = Reports(cast(Any, _Config))
    key = ReportKey("", str(_LEADER)).encode()
    reports._take(key, Ended(str(_LEADER), 7).encode())
    assert (reports.ended(_LEADER), reports.ended(_FIRST), reports.of("", _LEADER)) == (7, 0, None)
    reports._take(key, data)  # nothing of ours
    assert reports.ended(_LEADER) == 0


def test_a_key_is_read_as_it_was_written() -> None:
    key = ReportKey('CTAS "ä" 1', str(_LEADER))
    assert ReportKey.decode(key.encode()) == key


@pytest.mark.parametrize("data", [None, b"", b"CTAS_A_1", b"\xff", b"1", b'"ab"', b"[1,2]", b'["a"]', b"{}"])
def test_what_is_no_key_is_none(data: bytes | None) -> None:
    assert ReportKey.decode(data) is None


def test_records_of_servers_that_have_left_are_outdated_for_who_leads() -> None:
    own, other = ReportKey("q", str(_LEADER)), ReportKey("q", str(_FIRST))
    gone = ReportKey("q", str(_LEADER._replace(life="aa")))
    members = [Member(_LEADER, True), Member(_FIRST, False)]
    assert outdated([own, other, gone], members, _LEADER) == [gone]
    assert outdated([own, other, gone], members, _FIRST) is None  # another leads
    assert outdated([own, other, gone], members[1:], _LEADER) is None  # it was sent away


class _Config:
    states_topic = "states"


class _Server:
    """Reports the query "q" into a topic that is a list, and is the producer of that too."""

    def __init__(self, name: ServerName, topic: list[tuple[bytes, bytes | None]]) -> None:
        self.name, self.topic, self.state = name, topic, ""
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()
        self.problem: Exception | None = None
        self.outdated: list[ReportKey] | None = None
        self.reporter = Reporter(cast(Any, _Config), self._now, self._outdated)
        self.reporter._open_producer = self._open_producer  # type: ignore[method-assign]
        self.reporter.start()

    def _now(self) -> list[tuple[str, Report]]:
        if self.problem is not None:
            raise self.problem
        return [("q", Report(str(self.name), self.state))] if self.state else []

    async def _outdated(self) -> list[ReportKey] | None:
        return self.outdated

    async def _open_producer(self, stack: object) -> Any:
        return self

    async def send(self, _topic: str, value: bytes | None, *, key: bytes, partition: int) -> Awaitable[object]:
        assert partition == 0
        self.topic.append((key, value))
        return self.may_go_on.wait()

    async def says(self, state: str) -> None:
        self.state = state
        self.reporter.notice()
        await _settle()

    async def learns_that_it_leads(self, state: str) -> None:
        self.reporter.begin_anew()
        await self.says(state)

    async def learns_that_it_follows(self) -> None:
        self.reporter.begin_anew()
        await self.says("")


async def _settle() -> None:
    """Until every task waits for something from outside."""
    for _ in range(20):
        await asyncio.sleep(0)


def _known(topic: list[tuple[bytes, bytes | None]]) -> Reports:
    reports = Reports(cast(Any, _Config))
    for record in topic:
        reports._take(*record)
    return reports


def _play(scene: Callable[[_Server, _Server], Coroutine[Any, Any, None]]) -> Reports:
    """What the topic has after a scene with a server that led and its successor."""

    async def play() -> Reports:
        topic: list[tuple[bytes, bytes | None]] = []
        servers = _Server(_FIRST, topic), _Server(_LEADER, topic)
        await scene(*servers)
        for each in servers:
            await each.reporter.stop()
        return _known(topic)

    return asyncio.run(play())


def test_a_server_that_stood_still_and_writes_late_does_not_hide_what_its_successor_says() -> None:
    async def scene(first: _Server, second: _Server) -> None:
        await first.learns_that_it_leads("STARTING")
        await second.learns_that_it_leads("RUNNING")  # the first stands still
        first.may_go_on.clear()
        await first.says("RESTORING")  # it goes on, and does not know yet
        assert _known(first.topic).of("q", _LEADER) == Report(str(_LEADER), "RUNNING")
        await first.learns_that_it_follows()  # while it writes
        first.may_go_on.set()
        await _settle()

    assert _play(scene).known == {ReportKey("q", str(_LEADER)): Report(str(_LEADER), "RUNNING")}


def test_what_was_being_written_when_a_server_learned_that_it_follows_is_deleted() -> None:
    async def scene(first: _Server, _: _Server) -> None:
        first.may_go_on.clear()
        await first.learns_that_it_leads("STARTING")
        await first.learns_that_it_follows()
        first.may_go_on.set()
        await _settle()

    assert _play(scene).known == {}


def test_what_was_being_written_when_a_server_began_to_lead_is_told_again() -> None:
    """Whoever led meanwhile may have deleted it."""

    async def scene(first: _Server, _: _Server) -> None:
        await first.learns_that_it_leads("STARTING")
        first.may_go_on.clear()
        await first.says("RUNNING")
        await first.learns_that_it_follows()
        first.topic.append((ReportKey("q", str(_FIRST)).encode(), None))
        await first.learns_that_it_leads("RUNNING")
        first.may_go_on.set()
        await _settle()

    assert _play(scene).of("q", _FIRST) == Report(str(_FIRST), "RUNNING")


def test_who_begins_to_lead_deletes_once_what_those_wrote_who_are_gone() -> None:
    async def scene(first: _Server, second: _Server) -> None:
        await first.learns_that_it_leads("RUNNING")
        await second.learns_that_it_leads("STARTING")  # and the group says that another leads
        assert _known(first.topic).of("q", _FIRST) is not None
        second.outdated = [ReportKey("q", str(_FIRST))]
        await second.says("RUNNING")
        assert _known(first.topic).of("q", _FIRST) is None
        await first.says("ERROR")
        await second.says("PAUSED")

    assert set(_play(scene).known) == {ReportKey("q", str(_FIRST)), ReportKey("q", str(_LEADER))}


@pytest.mark.parametrize("problem", [UserError("no"), ValueError("nobody thought of it")])
def test_a_state_that_cannot_be_told_is_not_the_last_one(problem: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_states, "_AGAIN_S", 0)

    async def scene(first: _Server, _: _Server) -> None:
        first.problem = problem
        await first.learns_that_it_leads("STARTING")
        first.problem = None
        await first.says("RUNNING")

    assert _play(scene).of("q", _FIRST) == Report(str(_FIRST), "RUNNING")
