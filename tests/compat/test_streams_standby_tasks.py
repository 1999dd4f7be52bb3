"""A slot's copies of other slots' tasks, by themselves:
what they have when they are promoted, and what trouble costs.
"""

import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

from compat.support.streams_counter import make_app
from compat.support.streams_results import PARTITIONS, Results, send_words
from headwater.client import Admin, NewTopic
from headwater.client.consumer.ranges import RangeReader
from headwater.streams.slot import standby_tasks
from headwater.streams.slot.open_task import Clients, OpenTask
from headwater.streams.slot.program import Program, prepare
from headwater.streams.slot.settings import RunSettings
from headwater.streams.slot.standby_tasks import StandbyTasks
from headwater.streams.stores.build import build_store
from headwater.streams.stores.state import Owner
from headwater.testing import Broker

WORDS = [f"word-{i}" for i in range(7)]
TASKS = ("1_0", "1_1")
LIMIT_S = 240


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"log.cleaner.enable": False, "group.initial.rebalance.delay.ms": 0}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("words", PARTITIONS, 1), NewTopic("counts", PARTITIONS, 1)])
        yield broker


class Counted:
    """The application, which runs elsewhere, with state of its own."""

    def __init__(self, broker: Broker, state: Path) -> None:
        self._broker, self._state = broker, state
        self._results = Results(broker)
        self.words: list[str] = []

    def count(self, words: list[str]) -> None:
        self.words += words
        with make_app(self._broker.bootstrap_servers).run_here(state_dir=self._state, commit_interval_ms=20):
            send_words(self._broker, words)
            self._results.until(len(self.words))

    def close(self) -> None:
        self._results.close()


@pytest.fixture(scope="module")
def counted(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counted]:
    counted = Counted(broker, tmp_path_factory.mktemp("owner"))
    counted.count(WORDS * 20)
    yield counted
    counted.close()


@pytest.fixture
def program(broker: Broker, counted: Counted, tmp_path: Path, request: pytest.FixtureRequest) -> Program:
    app = make_app(broker.bootstrap_servers, getattr(request, "param", "lmdb"))
    return prepare(app, RunSettings(broker.bootstrap_servers, tmp_path / "state"))


@pytest.fixture
def admin(broker: Broker) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


def _turn_until(standbys: StandbyTasks, is_so: Callable[[dict[str, Any]], bool]) -> None:
    give_up_at = time.monotonic() + LIMIT_S
    while not is_so({row["task"]: row for row in standbys.rows()}):
        assert time.monotonic() < give_up_at, (standbys.rows(), standbys.errors)
        standbys.turn()
        time.sleep(0.01)


def _whole(rows: dict[str, Any]) -> bool:
    return [row["lag"] for row in rows.values()] == [0, 0]


@pytest.mark.parametrize("program", ["lmdb", "rocksDB"], indirect=True)
def test_a_standby_that_lags_is_promoted_and_replays_the_rest_alone(
    broker: Broker, admin: Admin, program: Program, counted: Counted, tmp_path: Path
) -> None:
    directory = tmp_path / "copies"
    standbys = StandbyTasks(program, admin, directory, 1)
    standbys.add(TASKS, 1)
    try:
        _turn_until(standbys, _whole)
        assert sum(row["restored_records"] for row in standbys.rows()) == len(counted.words)
        counted.count(WORDS * 3)  # it is behind by these
        standbys.keep(())
    finally:
        standbys.close()
    plan = next(each for each in program.sub_topologies if each.number == 1)
    found: dict[str, int] = {}
    replayed = 0
    with RangeReader(bootstrap_servers=broker.bootstrap_servers) as reader:
        for partition in range(PARTITIONS):
            clients = Clients(admin, reader, threading.Event())
            task = OpenTask(plan, partition, program.task_settings, directory, clients, {})
            try:
                task.claim(Owner(1, 2))
                task.replay(task.ends("read_committed"))
                task.save()
                replayed += task.restore.records
                store: Any = build_store(next(iter(task.changelogs.values())), task.state)
                found |= {key.decode(): int.from_bytes(row[-8:]) for key, row in store.all()}  # behind its timestamp
            finally:
                task.close()
    assert replayed == len(WORDS * 3)
    assert found == dict(Counter(counted.words))


@pytest.mark.parametrize("program", ["in_memory"], indirect=True)
def test_stores_in_memory_are_not_copied_and_keep_no_task_from_moving(
    admin: Admin, program: Program, tmp_path: Path
) -> None:
    standbys = StandbyTasks(program, admin, tmp_path / "copies", 1)
    standbys.add(TASKS, 1)
    try:
        _turn_until(standbys, _whole)
        assert [row["restored_records"] for row in standbys.rows()] == [0, 0]
        assert standbys.errors == []
    finally:
        standbys.close()


class _SlowAdmin:
    """Brokers that do not answer until they are let."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self.asked, self.may_answer = threading.Event(), threading.Event()

    def list_offsets(self, *given: Any, **more: Any) -> Any:
        assert threading.current_thread() is not threading.main_thread(), "who processes waits for a broker"
        self.asked.set()
        assert self.may_answer.wait(LIMIT_S)
        return self._admin.list_offsets(*given, **more)

    def describe_topic(self, name: str) -> Any:
        return self._admin.describe_topic(name)


def test_brokers_that_do_not_answer_hold_up_nobody(admin: Admin, program: Program, tmp_path: Path) -> None:
    slow = _SlowAdmin(admin)
    standbys = StandbyTasks(program, slow, tmp_path / "copies", 1)  # type: ignore[arg-type]
    standbys.add(TASKS, 1)
    try:
        standbys.turn()
        assert slow.asked.wait(LIMIT_S)
        standbys.turn()  # comes back though nobody has answered
        assert standbys.rows() == []
        slow.may_answer.set()
        _turn_until(standbys, _whole)
    finally:
        slow.may_answer.set()
        standbys.close()


@pytest.mark.parametrize("error", [lmdb.DiskError("disk"), OSError("no space"), struct.error("no such row")])
def test_whatever_goes_wrong_in_a_copy_costs_that_copy_alone(
    admin: Admin, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(standby_tasks, "_PAUSE_S", 0.01)
    standbys = StandbyTasks(program, admin, tmp_path / "copies", 1)
    standbys.add(TASKS, 1)
    try:
        _turn_until(standbys, lambda rows: "1_0" in rows and "1_1" in rows)
        copy = standbys._copies["1_0"]

        def fail(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr(copy.state, "commit", fail)
        copy.changed.update(copy.positions)
        standbys.turn()
        assert [row["task"] for row in standbys.rows()] == ["1_1"]
        assert "1_0" in standbys.errors[0]["error"]
        assert str(error) in standbys.errors[0]["error"]
        _turn_until(standbys, _whole)  # and it is tried again
    finally:
        standbys.close()


def test_a_copy_that_cannot_be_opened_is_tried_after_pauses_that_grow(
    admin: Admin, program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    def full(directory: Path, *_: object) -> None:
        tries.append(directory.name)
        raise OSError("no space")

    monkeypatch.setattr(standby_tasks, "open_state", full)
    monkeypatch.setattr(standby_tasks, "_PAUSE_S", 0.01)
    standbys = StandbyTasks(program, admin, tmp_path / "copies", 1)
    standbys.add(("1_0",), 1)
    try:
        _turn_until(standbys, lambda _: len(tries) == 5)
        assert standbys._pauses["1_0"].length_s == pytest.approx(0.16)
        assert len(standbys.errors) == 5
    finally:
        standbys.close()
