"""Several registries on one topic: one leads, the others forward; the leader dies, is stopped and goes on, or is cut
off.
"""

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chaos.support.network import HOST, Link, Network
from compat.support.broker import BrokerProcess, HeadwaterBroker
from compat.support.members import until
from compat.support.quick import QUICK, lasting
from compat.support.registry import Registry, ask, registries
from headwater.registry.config import RegistryConfig
from headwater.registry.decisions.documents import schema_request
from headwater.registry.decisions.registering import Registry as RegistryOfDecisions
from headwater.registry.decisions.registering import registration
from headwater.registry.decisions.schema_parser import SchemaParser
from headwater.registry.decisions.steps import Rules, run_in_place
from headwater.registry.records import Record
from headwater.registry.schema_log import NotLeading, SchemaLog

SESSION_MS = 3000


def settings(topic: str) -> dict[str, object]:
    return {
        "kafkastore_topic": f"_{topic}",
        "schema_registry_group_id": f"group-{topic}",
        "schema_registry_group_session_timeout_ms": SESSION_MS,
    }


def schema(number: int) -> str:
    return f'{{"type":"fixed","name":"F","size":{number}}}'


def test_a_write_to_any_registry_is_read_from_it_at_once(group_broker: BrokerProcess, topic: str) -> None:
    with registries(group_broker.bootstrap, 2, **settings(topic)) as (one, two):
        for number in range(20):
            asked = (one, two)[number % 2]
            made = asked.register(f"s{number}", schema(number))
            assert made["id"] == number + 1
            assert asked.call("GET", f"/schemas/ids/{made['id']}")[1]["schema"] == made["schema"]
        assert two.call("PUT", "/config/s1", {"compatibility": "NONE"})[0] == 200
        assert two.call("GET", "/config/s1")[1] == {"compatibilityLevel": "NONE"}
        assert two.call("DELETE", "/subjects/s1") == (200, [1])
        assert two.call("GET", "/subjects/s1/versions")[0] == 404
        assert one.call("POST", "/subjects/s2/versions", {"schema": '"int"'})[1]["error_code"] == 40901
        assert two.call("POST", "/subjects/s2/versions", {"schema": '"int"'})[1]["error_code"] == 40901
        assert one.stop() == 0  # hands over
        assert two.register("after", schema(100))["id"] == 21


def test_one_that_may_not_lead_never_does(group_broker: BrokerProcess, topic: str) -> None:
    chosen = settings(topic)
    impatient = {**chosen, "leader_eligibility": "false", "kafkastore_timeout_ms": 500}
    with Registry(group_broker.bootstrap, **impatient) as follower:
        status, answer = follower.call("POST", "/subjects/s/versions", {"schema": '"int"'})
        assert (status, answer["error_code"]) == (500, 50004)
        with Registry(group_broker.bootstrap, **chosen):
            made = until(lambda: _try(follower, "s", '"int"'), "nobody leads", 120)
            assert made == 1


def _try(registry: Registry, subject: str, text: str) -> int | None:
    status, answer = registry.call("POST", f"/subjects/{subject}/versions", {"schema": text})
    return answer["id"] if status == 200 else None


@dataclass
class Load:
    """Registers schemas through several registries until it is told to end; `made` is what was acknowledged."""

    registries: list[Registry]
    made: dict[int, int] = field(default_factory=dict)  # number of the schema -> id
    errors: list[str] = field(default_factory=list)
    unanswered: list[str] = field(default_factory=list)
    patience_s: float = 20
    _next: int = 1
    _ending: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _threads: list[threading.Thread] = field(default_factory=list)

    def begin(self, threads: int) -> None:
        self._threads = [threading.Thread(target=self._work, args=(each,)) for each in range(threads)]
        for each in self._threads:
            each.start()

    def end(self) -> None:
        self._ending = True
        for each in self._threads:
            each.join(120)
            assert not each.is_alive()

    def _work(self, turn: int) -> None:
        while not self._ending:
            with self._lock:
                number, self._next = self._next, self._next + 1
            while not self._ending and not self.register(self.registries[turn % len(self.registries)], number):
                turn += 1

    def register(self, registry: Registry, number: int) -> bool:
        connection = registry.connect()
        connection.timeout = self.patience_s
        try:
            status, answer = ask(connection, "POST", f"/subjects/s{number}/versions", {"schema": schema(number)})
        except OSError as problem:
            self.unanswered.append(f"{number}: {problem!r}")
            return False
        finally:
            connection.close()
        if status == 200:
            self.made[number] = answer["id"]
        elif status < 500:
            self.errors.append(f"{number}: {answer}")
        return status == 200


def check(load: Load, registry: Registry) -> None:
    """Nothing that was acknowledged is lost, and no id stands for two schemas."""
    assert load.errors == []
    assert len(set(load.made.values())) == len(load.made), "an id was given twice"
    for number, made in load.made.items():
        answer = registry.call("GET", f"/subjects/s{number}/versions/1")[1]
        assert (answer["id"], answer["schema"]) == (made, schema(number))
    every = registry.call("GET", "/schemas?limit=1000")[1]
    ids: dict[int, str] = {}
    for each in every:
        assert ids.setdefault(each["id"], each["schema"]) == each["schema"], "an id stands for two schemas"
    assert "duplicate-id" not in registry.log, "an id was written for two schemas"  # the second is never shown


def progress(load: Load, more: int) -> Callable[[], bool]:
    target = len(load.made) + more
    return lambda: len(load.made) >= target


@pytest.mark.soak
@pytest.mark.timeout(lasting(300, 1800))
def test_the_leader_is_killed_under_load(group_broker: BrokerProcess, topic: str) -> None:
    with registries(group_broker.bootstrap, 2, **settings(topic)) as both:
        load = Load(both)
        load.begin(3)
        try:
            for _ in range(lasting(1, 12)):
                until(progress(load, 20), "nothing is registered", 120)
                leading = max(both, key=_leads)
                leading.kill()
                until(progress(load, 10), "nothing is registered after a kill", 120)
                leading.start()
                until(progress(load, 10), "nothing is registered after a restart", 120)
        finally:
            load.end()
        for registry in both:
            check(load, registry)


def _leads(registry: Registry) -> bool:
    """The last word of its log on who leads."""
    told = [line for line in registry.log.splitlines() if "event=leading" in line or "mine=" in line]
    return bool(told) and ("event=leading" in told[-1] or "mine=True" in told[-1])


@pytest.mark.soak
@pytest.mark.timeout(lasting(300, 1800))
def test_a_leader_that_was_stopped_and_goes_on_writes_nothing_over_its_successor(
    group_broker: BrokerProcess, topic: str
) -> None:
    with registries(group_broker.bootstrap, 2, **settings(topic)) as (first, second):
        for round_ in range(lasting(1, 8)):
            before = first.register(f"before-{round_}", schema(1000 + round_))["id"]
            leading, other = sorted((first, second), key=_leads, reverse=True)
            load = Load([leading], patience_s=120)
            numbers = range(3000 + 10 * round_, 3004 + 10 * round_)
            begun = [threading.Thread(target=load.register, args=(leading, each)) for each in numbers]
            leading.signal(signal.SIGSTOP)
            try:
                made = until(lambda: _try_quickly(other, f"other-{round_}", schema(2000 + round_)), "nobody leads", 120)  # noqa: B023
                # What the first answer to its fetch brings, it has read before it decides anything: not these.
                more = [other.register(f"more-{round_}-{each}", schema(5000 + 10 * round_ + each)) for each in range(5)]
                for each in begun:  # asked for while it sleeps: the first that it does when it goes on is to decide
                    each.start()
            finally:
                leading.signal(signal.SIGCONT)
            for each in begun:
                each.join(120)
            assert sorted(load.made) == list(numbers), (load.errors, load.unanswered)
            after = max(load.made.values())
            assert before < made < more[0]["id"] < more[-1]["id"] < min(load.made.values())
            assert len(set(load.made.values())) == len(numbers), "an id was given twice"
            for registry in (first, second):
                until(lambda: registry.call("GET", f"/schemas/ids/{after}")[0] == 200, "it has not come", 120)  # noqa: B023
                assert registry.call("GET", f"/schemas/ids/{made}")[1]["schema"] == schema(2000 + round_)
                assert "duplicate-id" not in registry.log


def _try_quickly(registry: Registry, subject: str, text: str) -> int | None:
    connection = registry.connect()
    connection.timeout = 5
    try:
        status, answer = ask(connection, "POST", f"/subjects/{subject}/versions", {"schema": text})
    except OSError:
        return None
    finally:
        connection.close()
    return answer["id"] if status == 200 else None


@contextlib.contextmanager
def broker_with_a_far_listener(directory: Path) -> Iterator[tuple[BrokerProcess, Link]]:
    """The broker, and the link by which whoever begins there reaches it, and nobody else does."""
    network = Network()
    with socket.socket() as near, socket.socket() as far:  # bound, so that nobody else is given the ports meanwhile
        for each in (near, far):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            each.bind((HOST, 0))
        near_port, far_port = near.getsockname()[1], far.getsockname()[1]
        link = network.link((HOST, far_port))
        listeners = {
            "listeners": f"PLAINTEXT://{HOST}:{near_port},FAR://{HOST}:{far_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{near_port},FAR://{link.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,FAR:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }
        broker = HeadwaterBroker(directory, {**QUICK, **listeners})
        broker.port = near_port
        try:
            broker.start()
            broker.port = near_port
            yield broker, link
        finally:
            broker.kill()
            network.close()


@pytest.mark.soak
@pytest.mark.timeout(lasting(300, 1800))
def test_a_leader_that_is_cut_off_serves_what_it_knows_and_writes_nothing_over_its_successor(tmp_path: Path) -> None:
    with broker_with_a_far_listener(tmp_path) as (broker, link):
        for round_ in range(lasting(1, 8)):
            cut_and_heal(broker, link, f"cut-{round_}")


def cut_and_heal(broker: BrokerProcess, link: Link, topic: str) -> None:
    """What the leader has begun to write when it is cut off reaches the broker after its successor has written."""
    with Registry(link.address, **settings(topic)) as far:
        known = far.register("known", schema(100_000))["id"]
        with Registry(broker.bootstrap, **settings(topic)) as near:
            load = Load([near, far])
            load.begin(3)
            patient = Load([far], patience_s=120)
            begun = threading.Thread(target=patient.register, args=(far, 200_000))
            try:
                until(progress(load, 10), "nothing is registered", 120)
                link.cut()
                begun.start()
                until(lambda: _leads(near), "nobody leads on this side of the cut", 120)
                # The id of what waits in the cut, or a later one. A rebalance before that may make the other one lead
                # once more, for a session's time, and what is forwarded to it meanwhile has no answer.
                taken = until(lambda: _try_quickly(near, "taken", schema(250_000)), "nobody takes it", 120)
                until(progress(load, 10), "nothing is registered while one is cut off", 120)
                assert far.call("GET", f"/schemas/ids/{known}")[1]["schema"] == schema(100_000)
                link.heal()
                until(lambda: _try_quickly(far, "healed", schema(300_000)), "the one that was cut off is lost", 120)
                until(progress(load, 10), "nothing is registered after the cut", 120)
            finally:
                link.heal()
                if begun.ident is not None:
                    begun.join(120)
                load.end()
            assert far.register("last", schema(400_000))["id"] > max(load.made.values())  # far has read all before it
            load.made |= patient.made
            for registry in (near, far):
                assert registry.call("GET", f"/schemas/ids/{taken}")[1]["schema"] == schema(250_000)
                check(load, registry)


@pytest.mark.soak(only=True)
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("is_cut", "code"), [(True, 50001), (False, 50003)], ids=["cut", "stopped"])
def test_a_write_that_a_silent_leader_has_is_answered_when_another_leads(
    tmp_path: Path, is_cut: bool, code: int
) -> None:
    """Asked for at a leader that is cut off from its brokers, or forwarded to one that is stopped. Whoever asks again
    is given one id, whatever became of the first attempt.
    """
    with broker_with_a_far_listener(tmp_path) as (broker, link):
        shared = settings("silent")
        with Registry(link.address, **shared) as far, Registry(broker.bootstrap, **shared) as near:
            assert near.register("known", schema(1))["id"] == 1  # forwarded
            if is_cut:
                link.cut()
            else:
                far.signal(signal.SIGSTOP)
            try:
                # Long before kafkastore.timeout.ms and leader.read.timeout.ms: the session, the election, a moment.
                with contextlib.closing((far if is_cut else near).connect()) as connection:
                    connection.timeout = 45
                    status, answer = ask(connection, "POST", "/subjects/s/versions", {"schema": schema(2)})
                assert (status, answer["error_code"]) == (500, code)
                until(lambda: _leads(near), "nobody leads", 120)
                assert near.register("s", schema(2))["id"] == 2
            finally:
                link.heal()
                far.signal(signal.SIGCONT)
            until(lambda: far.call("GET", "/schemas/ids/2")[0] == 200, "it has not come", 120)
            assert far.register("s", schema(2))["id"] == 2
            assert far.register("t", schema(3))["id"] == 3
            assert far.call("GET", "/subjects/s/versions") == (200, [1])


def test_a_follower_that_is_cut_off_from_the_brokers_alone_says_that_it_has_not_read_the_write(tmp_path: Path) -> None:
    with broker_with_a_far_listener(tmp_path) as (broker, link):
        shared = {**settings("cut-follower"), "schema_registry_group_session_timeout_ms": 60_000}
        with (
            Registry(broker.bootstrap, **shared) as near,
            Registry(link.address, **{**shared, "leader_eligibility": "false", "leader_read_timeout_ms": 5000}) as far,
        ):
            known = far.register("known", schema(1))["id"]
            link.cut()
            status, answer = far.call("POST", "/subjects/later/versions", {"schema": schema(2)})
            assert (status, answer["error_code"]) == (500, 50002)
            assert near.call("GET", "/subjects/later/versions") == (200, [1])
            assert far.call("GET", f"/schemas/ids/{known}")[1]["schema"] == schema(1)
            assert far.call("GET", "/subjects/later/versions")[0] == 404
            link.heal()
            until(
                lambda: far.call("GET", "/subjects/later/versions") == (200, [1]), "it never reads what it missed", 120
            )


@pytest.mark.parametrize("is_begun", [False, True], ids=["decided", "sent"])
def test_what_a_leader_had_decided_before_another_leads_is_never_written(
    group_broker: BrokerProcess, topic: str, is_begun: bool
) -> None:
    """It stops between its decision and its write, or between its write and the commit, and goes on when another has
    given the same id. Two logs in this process, so that it is certain where the first one stands.
    """
    given = {"kafkastore.bootstrap.servers": group_broker.bootstrap, "kafkastore.topic.replication.factor": "1"}
    given |= {"kafkastore.topic": f"_{topic}", "schema.registry.group.id": topic}

    def decision(log: SchemaLog, subject: str, size: int) -> list[Record]:
        registry = RegistryOfDecisions(log.state, Rules(), SchemaParser())
        request = schema_request({"schema": schema(size)})
        return run_in_place(registration(registry, subject, request)).records

    async def script() -> None:
        first, second = (SchemaLog(RegistryConfig.of(given)[0]) for _ in range(2))
        await first.open()
        await second.open()
        try:
            await first.lead()
            decided = decision(first, "zombie", 1)
            asleep = asyncio.Event()
            if is_begun:
                begun = _paused_behind_its_send(first, asleep)
                writing = asyncio.create_task(first.write(decided))
                await begun.wait()
            await second.lead()
            await second.write(decision(second, "successor", 2))
            asleep.set()
            with pytest.raises(NotLeading):
                await (writing if is_begun else first.write(decided))
            await second.write(decision(second, "last", 3))
            for log in (first, second):
                await log.wait_for(second.applied_offset, 60)
                ids = {name: each.id for name, versions in log.state.subjects.items() for each in versions.values()}
                assert ids == {"successor": 1, "last": 2}
        finally:
            await first.close()
            await second.close()

    asyncio.run(script())


def _paused_behind_its_send(log: SchemaLog, until_set: asyncio.Event) -> asyncio.Event:
    """Set when the broker has the records of the next transaction, which is not committed before `until_set`."""
    producer, begun = log._producer, asyncio.Event()
    assert producer is not None
    send = producer.send

    async def paused(*arguments: Any, **more: Any) -> Any:
        delivery = await send(*arguments, **more)
        await producer.flush()
        begun.set()
        await until_set.wait()
        return delivery

    producer.send = paused  # type: ignore[method-assign]
    return begun
