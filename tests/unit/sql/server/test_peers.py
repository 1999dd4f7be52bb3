"""What a server knows of the others, and whom it sends away."""

import asyncio
import contextlib
import itertools
import socket
from typing import Any, cast

import pytest

from headwater.base.ids import TopicPartition
from headwater.client.admin.groups import GroupMember
from headwater.sql.server import leading, peers
from headwater.sql.server.leading import Leading
from headwater.sql.server.peers import (
    REMEMBERED_MAX,
    Ends,
    Member,
    ProbeResult,
    ServerName,
    Watch,
    members_of,
    name_of_this,
    probe,
    probe_own,
)
from headwater.web.messages import HttpError, Request, Response
from headwater.web.server import HttpServer

_OWN = ServerName("10.0.0.1", 8088, "one", "aa")
_OTHER = ServerName("10.0.0.2", 8088, "two", "bb")
_BOTH = [Member(_OWN, False), Member(_OTHER, True)]
_NO_PORTS = ("h:0@m.a", "h:65536@m.a", "h:99999999@m.a", f"h:{'9' * 5_000}@m.a")


@pytest.mark.parametrize("name", [_OWN, ServerName("::1", 1, "a.b.example", "0f"), name_of_this("0.0.0.0", 8088)])
def test_a_name_says_where_and_on_which_machine(name: ServerName) -> None:
    assert ServerName.parse(str(name)) == name


@pytest.mark.parametrize(
    "text", [None, "", "somebody", "host:80", "host:eighty@m.a", "@m.a", "host:80@m", "h:80@.a", *_NO_PORTS]
)
def test_other_members_are_no_servers(text: str | None) -> None:
    assert ServerName.parse(text) is None


def test_a_server_is_sent_away_after_so_many_refusals_in_a_row() -> None:
    watch = Watch(_OWN, 3)
    rounds = [(True, []), (False, []), (False, []), (True, []), (False, []), (False, []), (False, [_OTHER])]
    for now_ms, (answered, gone) in enumerate(rounds):
        found = ProbeResult.ANSWERED if answered else ProbeResult.REFUSED
        assert watch.on_look(_BOTH, {_OTHER: found}, now_ms) == gone
    assert watch.statuses()["10.0.0.2:8088"].alive is False
    assert watch.statuses()["10.0.0.2:8088"].updated_ms == 3  # when it answered for the last time
    assert watch.on_look([Member(_OWN, True)], {}, 9) == []
    assert [(name, each.alive, each.leads) for name, each in watch.statuses().items()] == [
        ("10.0.0.2:8088", False, False),
        ("10.0.0.1:8088", True, True),
    ]


def _sent_away(watch: Watch, probes: list[ProbeResult], since_ms: int = 0) -> list[int]:
    """When, of a look each 500 ms, the other was sent away."""
    times = [since_ms + 500 * number for number in range(len(probes))]
    return [now for now, probe in zip(times, probes, strict=True) if watch.on_look(_BOTH, {_OTHER: probe}, now)]


def test_a_server_that_cannot_be_reached_from_here_keeps_its_place() -> None:
    watch = Watch(_OWN, 3)
    assert _sent_away(watch, [ProbeResult.ANSWERED] + [ProbeResult.UNREACHED] * 100) == []
    assert watch.hosts[_OTHER].alive
    assert _sent_away(Watch(_OWN, 3), [ProbeResult.REFUSED] * 100) == []  # it has never answered here


def test_a_server_that_listens_and_does_nothing_is_sent_away_after_a_while() -> None:
    """Its process was stopped: the kernel goes on taking connections for it."""
    watch = Watch(_OWN, 3, silent_max_ms=10_000)
    assert _sent_away(watch, [ProbeResult.ANSWERED] + [ProbeResult.SILENT] * 21) == [10_500]
    watch = Watch(_OWN, 3, silent_max_ms=10_000)
    assert _sent_away(watch, [ProbeResult.ANSWERED] + [ProbeResult.SILENT] * 3) == []
    assert watch.hosts[_OTHER].alive is False  # its queries are shown as UNRESPONSIVE meanwhile
    assert (
        _sent_away(watch, [ProbeResult.ANSWERED] + [ProbeResult.SILENT] * 20, 2_000) == []
    )  # one answer, and it counts anew
    assert _sent_away(Watch(_OWN, 3), [ProbeResult.SILENT] * 100) == []  # it has never answered here


def test_a_probe_that_says_nothing_breaks_the_row() -> None:
    """A server that lives was sent away after probes that were lost on their way."""
    watch = Watch(_OWN, 3, silent_max_ms=10_000)
    lost = [ProbeResult.UNREACHED] * 20
    assert (
        _sent_away(watch, [ProbeResult.ANSWERED, ProbeResult.SILENT, ProbeResult.SILENT, *lost, ProbeResult.SILENT])
        == []
    )
    watch = Watch(_OWN, 3)
    refused = [
        ProbeResult.REFUSED,
        ProbeResult.UNREACHED,
        ProbeResult.UNREACHED,
        ProbeResult.REFUSED,
        ProbeResult.UNREACHED,
        ProbeResult.REFUSED,
    ]
    assert _sent_away(watch, [ProbeResult.ANSWERED, *refused]) == []
    assert watch.hosts[_OTHER].alive
    assert _sent_away(watch, [ProbeResult.REFUSED] * 2, 4_000) == [4_500]  # together with the last one, three in a row


@pytest.mark.parametrize("probe", [ProbeResult.SILENT, ProbeResult.REFUSED])
def test_who_is_not_alive_is_so_again_by_an_answer_alone(probe: ProbeResult) -> None:
    watch = Watch(_OWN, 3)
    shown = []
    for now_ms, each in enumerate([probe] * 3 + [ProbeResult.UNREACHED, probe, ProbeResult.ANSWERED]):
        watch.on_look(_BOTH, {_OTHER: each}, now_ms)
        shown.append(watch.hosts[_OTHER].alive)
    assert shown == [True, True, False, False, False, True]


def test_who_joins_again_is_alive_as_the_group_says_until_probes_say_otherwise() -> None:
    watch = Watch(_OWN, 3)
    watch.on_look(_BOTH, {_OTHER: ProbeResult.ANSWERED}, 0)
    watch.on_look(_BOTH[:1], {}, 1)
    assert not watch.hosts[_OTHER].alive
    watch.on_look(_BOTH, {_OTHER: ProbeResult.UNREACHED}, 2)
    assert watch.hosts[_OTHER].alive


def test_an_observer_who_stood_still_himself_does_not_blame_others() -> None:
    watch = Watch(_OWN, 3, silent_max_ms=10_000)
    assert _sent_away(watch, [ProbeResult.ANSWERED] + [ProbeResult.SILENT] * 5) == []
    assert _sent_away(watch, [ProbeResult.SILENT] * 20, 60_000) == []  # nothing was seen for a minute
    assert _sent_away(watch, [ProbeResult.SILENT], 70_000) == [70_000]


def test_who_looks_rarely_because_his_machine_is_slow_sends_nobody_away() -> None:
    watch = Watch(_OWN, 3, silent_max_ms=10_000)
    watch.on_look(_BOTH, {_OTHER: ProbeResult.ANSWERED}, 0)
    assert not any(watch.on_look(_BOTH, {_OTHER: ProbeResult.SILENT}, 8_000 * number) for number in range(1, 50))


def test_who_has_the_queries_is_known_with_its_state() -> None:
    watch = Watch(_OWN, 3)
    assert watch.leader() is None
    watch.on_look(_BOTH, {_OTHER: ProbeResult.ANSWERED}, 0)
    found = watch.leader()
    assert found is not None
    assert (found[0], found[1].alive) == (_OTHER, True)


def test_who_is_sent_away_and_comes_back_must_answer_before_it_is_sent_away_again() -> None:
    watch = Watch(_OWN, 3)
    assert _sent_away(watch, [ProbeResult.ANSWERED] + [ProbeResult.REFUSED] * 3) == [1_500]
    watch.on_look([Member(_OWN, True)], {}, 2_000)
    assert _sent_away(watch, [ProbeResult.REFUSED] * 1_000, 10_000) == []
    assert _sent_away(watch, [ProbeResult.ANSWERED] + [ProbeResult.REFUSED] * 3, 1_000_000) == [1_001_500]


def test_a_member_that_stays_although_it_was_sent_away_is_sent_away_less_and_less_often() -> None:
    """The request may have failed; or it joined again between two looks, and lives."""
    when = _sent_away(Watch(_OWN, 3), [ProbeResult.ANSWERED] + [ProbeResult.REFUSED] * 1_000)
    pauses = [after - before for before, after in itertools.pairwise(when)]
    assert pauses == [1_500, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000]


def test_whom_this_one_succeeds_at_its_address_is_sent_away_at_once() -> None:
    before = _OWN._replace(life="00")
    elsewhere = before._replace(machine="two")
    watch = Watch(_OWN, 3)
    members = [Member(before, True), Member(elsewhere, False)]
    assert watch.on_look(members, {before: ProbeResult.REFUSED}, 0) == [before]


def test_two_servers_of_one_machine_name_and_port_do_not_send_each_other_away_for_ever() -> None:
    twin = _OWN._replace(life="00")
    members = [Member(_OWN, False), Member(twin, True)]
    watch = Watch(_OWN, 3)
    assert watch.on_look(members, {twin: ProbeResult.ANSWERED}, 0) == []  # somebody else answers at the own address
    watch = Watch(_OWN, 3)
    assert watch.on_look(members, {twin: ProbeResult.REFUSED}, 0) == [twin]
    watch.on_look(members[:1], {}, 1)
    assert [watch.on_look(members, {twin: ProbeResult.REFUSED}, now) for now in range(10_000, 90_000, 10_000)] == [
        []
    ] * 8


def test_an_address_of_the_loopback_is_known_on_its_machine_only() -> None:
    loopback = ServerName("127.0.0.1", 8088, "one", "cc")
    assert _OWN.may_reach(loopback)
    assert not _OTHER.may_reach(loopback)
    assert not _OTHER.may_reach(loopback._replace(host="localhost"))
    assert _OTHER.may_reach(_OWN)


def test_servers_that_have_gone_are_remembered_up_to_a_number() -> None:
    watch = Watch(_OWN, 1)
    for number in range(REMEMBERED_MAX + 50):
        watch.on_look([Member(_OWN, True), Member(_OTHER._replace(port=number + 1), False)], {}, number)
    watch.on_look([Member(_OWN, True)], {}, 1_000)
    assert len(watch.hosts) == REMEMBERED_MAX + 1
    assert watch.hosts[_OWN].alive


class _Admin:
    def __init__(self, *members: GroupMember) -> None:
        self.members = list(members)

    async def describe_group(self, _group: str) -> "_Admin":
        return self


def test_who_is_to_get_the_queries_leads_when_no_other_has_them_any_more() -> None:
    place = TopicPartition("log", 0)
    new = GroupMember("m1", str(_OWN), "", "", [], 3, [place])
    old = GroupMember("m2", str(_OTHER), "", "", [place], 2, [])
    stranger = GroupMember("m3", None, "", "", [], 3, [])

    def found(*members: GroupMember) -> list[Member]:
        return asyncio.run(members_of(_Admin(*members), "g", place))  # type: ignore[arg-type]

    assert found(new, old, stranger) == [Member(_OWN, False), Member(_OTHER, True)]
    assert found(new, old._replace(assignment=[])) == [Member(_OWN, True), Member(_OTHER, False)]


class _Answers:
    async def handle(self, _request: Request) -> Response:
        return Response(200, b"")

    def on_error(self, error: HttpError, _request: Request | None) -> Response:
        return Response(error.status, b"")


def test_somebody_listens_or_nobody_does() -> None:
    async def scene() -> None:
        server = HttpServer(_Answers())
        name = ServerName("127.0.0.1", await server.start("127.0.0.1", 0), "m", "l")
        assert await probe(name) is ProbeResult.ANSWERED
        assert await probe_own(name) is ProbeResult.REFUSED  # by nobody else
        await server.stop()
        assert await probe(name) is ProbeResult.REFUSED

    asyncio.run(scene())


def test_a_connection_that_only_the_kernel_took_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "_CLOSE_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as listening:  # and nobody accepts
        name = ServerName("127.0.0.1", listening.getsockname()[1], "m", "l")
        assert asyncio.run(probe(name)) is ProbeResult.SILENT


def test_what_can_be_no_name_or_has_no_address_is_not_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(probe(ServerName("a..b", 80, "m", "l"))) is ProbeResult.UNREACHED

    def unknown(*_: Any, **_named: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert asyncio.run(probe(ServerName("nobody", 80, "m", "l"))) is ProbeResult.UNREACHED


@pytest.mark.parametrize("problem", [OSError(113, "No route to host"), TimeoutError(), ConnectionResetError()])
def test_only_a_refusal_says_that_nobody_listens(monkeypatch: pytest.MonkeyPatch, problem: OSError) -> None:
    async def fails(*_: Any) -> None:
        raise problem

    monkeypatch.setattr(asyncio, "open_connection", fails)
    assert asyncio.run(probe(ServerName("127.0.0.1", 1, "m", "l"))) is ProbeResult.UNREACHED


def test_a_name_with_several_addresses_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio makes one error of several that differ, which is no ConnectionRefusedError."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        places = [each.getsockname() for each in (one, two)]
    resolved = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]
    real = socket.getaddrinfo

    def getaddrinfo(host: str, *more: Any, **named: Any) -> Any:
        return resolved if host == "both" else real(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert asyncio.run(probe(ServerName("both", 1, "m", "l"))) is ProbeResult.REFUSED


def test_a_connection_that_leaves_the_machine_finds_somebody_else() -> None:
    assert Ends("127.0.0.1", "127.0.1.1").are_one_machine
    assert Ends("10.0.0.1", "10.0.0.1").are_one_machine
    assert not Ends("10.0.0.1", "10.0.0.2").are_one_machine


class _Wrong:
    """An admin client whose first look meets what nobody thought of."""

    def __init__(self, *_: Any) -> None:
        self.looks = 0
        self.again = asyncio.Event()

    async def __aenter__(self) -> "_Wrong":
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def describe_group(self, _group: str) -> None:
        self.looks += 1
        if self.looks > 1:
            self.again.set()
        raise UnicodeError("label empty or too long")


def test_a_look_that_fails_is_not_the_last_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        admin = _Wrong()
        monkeypatch.setattr(leading, "AsyncAdmin", lambda _: admin)
        found = Leading({}, "g", "log", cast("Any", None))
        task = asyncio.create_task(found._look(Watch(_OWN, 3), 0.001))
        await asyncio.wait_for(admin.again.wait(), 60)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(scene())


def test_a_task_that_died_does_not_keep_the_server_from_closing() -> None:
    async def scene() -> None:
        found = Leading({}, "g", "log", cast("Any", None))

        async def dies() -> None:
            raise ValueError("met")

        found._tasks = [asyncio.create_task(dies())]
        await asyncio.wait(found._tasks)
        await found.stop()

    asyncio.run(scene())
