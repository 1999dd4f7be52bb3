"""Logins at a door under attack: who tries passwords locks nobody out; what is kept of callers is bounded, and never
wrong.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from headwater.base.acls import Operation
from headwater.client.addresses import Address
from headwater.client.errors import NotTrusted
from headwater.web import cluster_login
from headwater.web.callers import Need, group, topic
from headwater.web.cluster_login import ClusterCaller, ClusterLogin, LoginRefused
from headwater.web.messages import HttpError
from headwater.web.pending_logins import PendingLogins, _network
from headwater.web.presented import Presented, Scheme

SETTINGS = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT"}


class Session:
    def close(self) -> None: ...


class Brokers(ClusterLogin):
    """The password is `right`; whoever shows another waits until `released`."""

    def __init__(self) -> None:
        super().__init__(SETTINGS, ["SCRAM-SHA-512"])
        self.released = asyncio.Event()
        self.right = "right"
        self.logins = 0

    async def _session(self, shown: Presented) -> Any:
        self.logins += 1
        if shown.secret != self.right:
            await self.released.wait()
            raise LoginRefused("wrong")
        return Session()


def shown(user: str, password: str = "right") -> Presented:
    return Presented(Scheme.BASIC, user, password)


def run(scene: Callable[[Brokers], Awaitable[None]]) -> None:
    async def whole() -> None:
        login = Brokers()
        try:
            await asyncio.wait_for(scene(login), 60)
        finally:
            await login.close()

    asyncio.run(whole())


async def attack(login: Brokers, peer: str, count: int) -> list[asyncio.Task[Any]]:
    tasks = [asyncio.create_task(login.caller(shown("alice", f"guess-{i}"), f"{peer}:{i}")) for i in range(count)]
    await asyncio.sleep(0)
    return tasks


async def statuses(tasks: list[asyncio.Task[Any]]) -> set[Any]:
    found = await asyncio.gather(*tasks, return_exceptions=True)
    return {each.status if isinstance(each, HttpError) else type(each) for each in found}


def test_wrong_passwords_of_one_peer_leave_places_for_others() -> None:
    async def scene(login: Brokers) -> None:
        attackers = await attack(login, "10.0.0.66", 250)
        bob = asyncio.create_task(login.caller(shown("bob"), "10.0.0.7:1"))
        alice = asyncio.create_task(login.caller(shown("alice"), "10.0.0.8:1"))
        await asyncio.sleep(0)
        login.released.set()
        assert {(await bob).name, (await alice).name} == {"bob", "alice"}
        assert await statuses(attackers) == {503, LoginRefused}

    run(scene)


def test_who_has_logged_in_before_has_a_line_of_his_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_login, "_DEADLINE_S", 600.0)

    async def scene(login: Brokers) -> None:
        first = await login.caller(shown("alice"), "10.0.0.7:1")
        first.until_s = first.renew_s = 0.0
        attackers = [each for i in range(60) for each in await attack(login, f"10.0.1.{i}", 8)]
        again = await login.caller(shown("alice"), "10.0.1.1:1")
        assert again is not first, "though everybody else waits"
        login.released.set()
        await statuses(attackers)

    run(scene)


def test_a_login_serves_while_it_is_renewed() -> None:
    async def scene(login: Brokers) -> None:
        first = await login.caller(shown("alice"), "10.0.0.7:1")
        first.renew_s = 0.0
        login.right = "changed"  # the brokers take their time to say so
        for _ in range(3):
            assert await login.caller(shown("alice"), "10.0.0.7:1") is first
        await asyncio.sleep(0)
        assert login.logins == 2, "one renewal at a time"
        (renewal,) = login._under_way.values()
        login.released.set()
        await asyncio.wait([renewal])
        with pytest.raises(LoginRefused):
            await login.caller(shown("alice"), "10.0.0.7:1")

    run(scene)


def test_a_login_has_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_login, "_DEADLINE_S", 0.01)

    async def scene(login: Brokers) -> None:
        attackers = await attack(login, "10.0.0.66", 30)
        assert await statuses(attackers) == {503}
        assert not login._under_way
        assert (await login.caller(shown("bob"), "10.0.0.66:1")).name == "bob"

    run(scene)


def test_places_are_counted_by_peer_and_user() -> None:
    pending = PendingLogins()
    places = [pending.enter("10.0.0.1:5", "alice") for _ in range(8)]
    with pytest.raises(HttpError):
        pending.enter("10.0.0.1:6", "alice")
    places += [pending.enter("10.0.0.1:6", ""), pending.enter("10.0.0.2:6", "alice")]
    for each in places:
        pending.leave(each)
    assert (pending._peers, pending._users) == ({}, {})
    assert _network("10.0.0.1:5") == _network("[::ffff:10.0.0.1]:7") == "10.0.0.1"
    assert _network("2001:db8::1:5") == _network("2001:db8::2:6")


def test_a_certificate_that_is_not_trusted_is_nobodys_wrong_password() -> None:
    class Engine:
        async def run(self, coroutine: Any) -> None:
            coroutine.close()
            raise NotTrusted(Address("b", 1), "the certificate is not trusted")

    async def scene() -> None:
        caller = ClusterCaller("alice", cast("Any", Engine()), cast("Any", Sessions()), 0.0)
        with pytest.raises(HttpError) as told:
            await caller.allowed([group(Operation.READ, "g")])
        assert told.value.status == 503

    asyncio.run(scene())


class Sessions:
    async def call_coordinator(self, *_arguments: Any, **_more: Any) -> None: ...


class Asked(ClusterCaller):
    """May do everything with what it is asked about."""

    def __init__(self) -> None:
        super().__init__("alice", cast("Any", None), cast("Any", None), 0.0)
        self.questions: list[int] = []

    async def _ask(self, needs: list[Need]) -> set[Need]:
        self.questions.append(len(needs))
        return set(needs)


def test_answers_that_are_kept_are_bounded_in_bytes_and_none_is_lost() -> None:
    caller = Asked()

    def needs(first: int, count: int) -> frozenset[Need]:
        return frozenset(topic(Operation.READ, f"{number}-" + "x" * 200) for number in range(first, first + count))

    async def scene() -> None:
        assert await caller.allowed(needs(0, 300)) == needs(0, 300)
        assert await caller.allowed(needs(0, 300)) == needs(0, 300)
        assert caller.questions == [300]
        assert await caller.allowed(needs(0, 900)) == needs(0, 900), "those that were kept before it was cleared, too"
        assert caller.questions == [300, 600]
        assert sum(200 + 4 * len(need.name) for need in caller._known) <= 500_000
        assert len(await caller.allowed(needs(0, 3000))) == 3000

    asyncio.run(scene())


def test_groups_are_asked_about_in_a_version_that_tells_of_those_that_are_not_there() -> None:
    class Coordinator:
        at_most: int | None = None

        async def call_coordinator(self, *_arguments: Any, at_most: int | None = None) -> Any:
            self.at_most = at_most
            raise AssertionError

    class Engine:
        async def run(self, coroutine: Any) -> Any:
            return await coroutine

    coordinator = Coordinator()
    caller = ClusterCaller("alice", cast("Any", Engine()), cast("Any", coordinator), 0.0)
    with pytest.raises(AssertionError):
        asyncio.run(caller.allowed([group(Operation.READ, "g")]))
    assert coordinator.at_most == 5
