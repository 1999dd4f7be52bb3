"""The simulated ZooKeeper keeps the port's promises, and its faults are what a real one may do."""

import random
from collections import Counter
from collections.abc import Callable

import pytest

from compat.support.zookeeper import CHECKS, CONNECTED, LOST, SUSPENDED, Caller, Stage
from headwater.base.coordination import ConnectionLost, CoordinationError, Create, SetData
from headwater.sim.clock import SimClock
from headwater.sim.scheduler import ProcessScheduler, SimScheduler
from headwater.sim.zookeeper import SimZooKeeper
from headwater.sim.zookeeper_client import SimCoordination

TIMEOUT_MS = 1500


class SimStage:
    def __init__(self, seed: int) -> None:
        self.clock = SimClock()
        self.scheduler = SimScheduler(self.clock)
        self.zookeeper = SimZooKeeper(self.scheduler, random.Random(seed))
        self.processes: dict[Caller, ProcessScheduler] = {}

    def client(self) -> Caller:
        process = ProcessScheduler(self.clock, self.scheduler)
        client = Caller(self.zookeeper.client(process, TIMEOUT_MS), self.until)
        self.processes[client] = process
        return client.connected()

    def until(self, condition: Callable[[], bool]) -> None:
        deadline_ms = self.clock.monotonic_ms() + 60_000
        while not condition():
            assert self.clock.monotonic_ms() < deadline_ms, "it does not happen"
            self._step()

    def run(self, time_ms: int) -> None:
        end_ms = self.clock.monotonic_ms() + time_ms
        while (due_ms := self.scheduler.due_in_ms()) is not None and self.clock.monotonic_ms() + due_ms <= end_ms:
            self._step()
        self.clock.advance(end_ms - self.clock.monotonic_ms())

    def disconnect(self, client: Caller) -> None:
        self.zookeeper.disconnect(sim(client))

    def expire(self, client: Caller) -> None:
        self.zookeeper.expire(client.coordination.session_id)

    def _step(self) -> None:
        due_ms = self.scheduler.due_in_ms()
        assert due_ms is not None
        self.clock.advance(due_ms)
        self.scheduler.run_one()


def sim(client: Caller) -> SimCoordination:
    assert isinstance(client.coordination, SimCoordination)
    return client.coordination


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_contract(check: Callable[[Stage], None]) -> None:
    for seed in range(10):
        check(SimStage(seed))


def test_a_client_that_is_cut_off_is_suspended_and_its_session_expires() -> None:
    for seed in range(30):
        stage = SimStage(seed)
        one, two = stage.client(), stage.client()
        one.write(Create("/mine", ephemeral=True))
        stage.zookeeper.cut_off(sim(one))
        stage.run(TIMEOUT_MS * 9 // 10)
        assert one.states == [CONNECTED, SUSPENDED], "it knows before its session is over"
        assert stage.zookeeper.tree.get("/mine") is not None
        stage.run(TIMEOUT_MS)
        assert stage.zookeeper.tree.get("/mine") is None
        assert one.states == [CONNECTED, SUSPENDED], "it cannot know"
        stage.zookeeper.let_through(sim(one))
        stage.until(lambda one=one: one.states == [CONNECTED, SUSPENDED, LOST, CONNECTED])  # type: ignore[misc]
        assert two.states == [CONNECTED]


def test_a_client_that_is_cut_off_for_a_moment_keeps_its_session() -> None:
    for seed in range(30):
        stage = SimStage(seed)
        one = stage.client()
        one.write(Create("/mine", ephemeral=True))
        stage.zookeeper.cut_off(sim(one))
        stage.until(lambda one=one: one.states == [CONNECTED, SUSPENDED])  # type: ignore[misc]
        stage.zookeeper.let_through(sim(one))
        one.connected()
        assert one.states == [CONNECTED, SUSPENDED, CONNECTED]
        assert one.get("/mine") is not None


def test_a_write_whose_connection_was_lost_has_happened_or_not() -> None:
    outcomes: Counter[tuple[bool, bool]] = Counter()
    for seed in range(200):
        stage = SimStage(seed)
        one = stage.client()
        answers: list[CoordinationError | None] = []
        one.coordination.write([Create("/a")], lambda _written, problem, to=answers: to.append(problem))  # type: ignore[misc]
        stage.run(seed % 10)
        stage.zookeeper.cut_off(sim(one))
        stage.until(lambda answers=answers: bool(answers))  # type: ignore[misc]
        stage.run(100)
        assert answers[0] is None or type(answers[0]) is ConnectionLost
        outcomes[answers[0] is None, stage.zookeeper.tree.get("/a") is not None] += 1
    assert set(outcomes) == {(True, True), (False, True), (False, False)}


def test_a_request_under_way_may_arrive_after_its_connection_was_lost() -> None:
    arrived = set()
    for seed in range(50):
        stage = SimStage(seed)
        one = stage.client()
        one.coordination.write([Create("/a")], lambda _written, _problem: None)
        stage.zookeeper.cut_off(sim(one))
        assert stage.zookeeper.tree.get("/a") is None
        stage.run(100)
        arrived.add(stage.zookeeper.tree.get("/a") is not None)
    assert arrived == {True, False}


def test_the_session_of_a_dead_process_expires_and_it_hears_nothing() -> None:
    stage = SimStage(1)
    one, two = stage.client(), stage.client()
    one.write(Create("/mine", ephemeral=True), Create("/a"))
    told: list[str] = []
    one.get("/a", lambda: told.append("watch"))
    stage.processes[one].die()
    two.write(SetData("/a", b"x"))
    stage.run(TIMEOUT_MS // 2)
    assert stage.zookeeper.tree.get("/mine") is not None
    stage.run(TIMEOUT_MS)
    assert stage.zookeeper.tree.get("/mine") is None
    assert not told
    assert one.states == [CONNECTED]


def test_no_session_expires_while_the_service_is_down() -> None:
    for seed in range(20):
        stage = SimStage(seed)
        one, two = stage.client(), stage.client()
        session_id = one.coordination.session_id
        one.write(Create("/mine", ephemeral=True))
        stage.processes[two].die()
        stage.zookeeper.stop()
        stage.run(20 * TIMEOUT_MS)
        assert one.states == [CONNECTED, SUSPENDED]
        stage.zookeeper.resume()
        stage.run(TIMEOUT_MS // 2)
        assert one.states == [CONNECTED, SUSPENDED, CONNECTED]
        assert one.coordination.session_id == session_id
        assert one.get("/mine") is not None
        assert len(stage.zookeeper.session_ids()) == 2, "the dead have their time again, too"
        stage.run(TIMEOUT_MS)
        assert stage.zookeeper.session_ids() == [session_id]


def test_a_read_may_be_stale_but_never_goes_back() -> None:
    stale = 0
    for seed in range(50):
        stage = SimStage(seed)
        one, two = stage.client(), stage.client()
        two.write(Create("/a"))
        seen = -1
        for version in range(1, 20):
            two.write(SetData("/a", b""))
            node = one.get("/a")
            now = -1 if node is None else node.version
            assert seen <= now <= version
            seen = now
            stale += now < version
            own = two.get("/a")
            assert own is not None
            assert own.version == version, "its own writes it always sees"
    assert stale > 50


def test_the_same_seed_gives_the_same_story() -> None:
    def story(seed: int) -> list[object]:
        stage = SimStage(seed)
        one, two = stage.client(), stage.client()
        told: list[object] = []
        one.coordination.children("/", lambda names, _problem: told.append(names), lambda: told.append("changed"))
        two.write(Create("/a"))
        stage.zookeeper.cut_off(sim(one))
        stage.until(lambda: SUSPENDED in one.states)
        stage.zookeeper.let_through(sim(one))
        one.connected()
        return [*told, stage.clock.monotonic_ms()]

    assert [story(seed) for seed in range(20)] == [story(seed) for seed in range(20)]
    assert len({str(story(seed)) for seed in range(20)}) > 10


def test_what_every_session_has_seen_is_not_kept() -> None:
    stage = SimStage(3)
    one, two = stage.client(), stage.client()
    one.write(Create("/a"))
    for _ in range(600):
        one.write(SetData("/a", b""))
    assert len(stage.zookeeper._transactions) < 300
    stage.run(100)
    node = two.get("/a")
    assert node is not None
    assert node.version == 600
