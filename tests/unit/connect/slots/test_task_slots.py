"""A worker's slots over real connections, the slots being threads of this process:
states, losses, questions, secrets.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.connect.config.worker import WorkerConfig
from headwater.connect.errors import ConnectError
from headwater.connect.metrics.worker_metrics import WorkerMetrics
from headwater.connect.runtime.offsets import MemoryOffsetStore
from headwater.connect.runtime.task import State, TaskId, WorkerTask, running_task
from headwater.connect.runtime.worker import Worker
from headwater.connect.slots import slot_host
from headwater.connect.slots import task_messages as messages
from headwater.connect.slots.slot_host import Ask, run_in_slot
from headwater.connect.slots.slot_task import SlotTask
from headwater.connect.slots.task_slots import Answerer, TaskSlots
from headwater.connect.slots.worker_slots import wants_slots
from headwater.connect.standalone_slot import RemoteOffsetStore, offset_answers
from headwater.spark.slots.frames import ChannelClosed

PATIENCE_S = 60.0
CONFIG = {"name": "n", "connector.class": "FileStreamSource", "topic": "t", "tasks.max": "1"}


def worker_props(folder: Path) -> dict[str, str]:
    return {
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        "offset.storage.file.filename": str(folder / "offsets"),
        "spark.hadoop.secret": "of Spark's",
        "task.shutdown.graceful.timeout.ms": "200",
        "config.providers": "file",
        "config.providers.file.class": "FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(folder),
    }


class Idle(WorkerTask):
    """Runs until it is stopped; `deaf` ones do not stop; asks first, if it is to."""

    def __init__(self, task_id: TaskId, begin: messages.Begin, ask: Ask) -> None:
        super().__init__(task_id, restart=False, secrets=frozenset(), paused=begin.paused)
        self._begin, self._ask = begin, ask
        self.released = threading.Event()

    def work(self) -> None:
        if "ask" in self._begin.config:
            self._ask(self._begin.run, self._begin.config["ask"])
        if "fails" in self._begin.config:
            raise ConnectError(self._begin.config["fails"])
        self.running()
        while not self.stopping.is_set():
            self.wait_while_paused()
            self._changed.clear()
            if not self.stopping.is_set() and not self.paused:
                self._changed.wait(0.05)
        if "deaf" in self._begin.config:
            self.released.wait(PATIENCE_S)


class FakeWorker:
    """Of one slot."""

    made: "list[Idle]"

    def __init__(self, serve: messages.Serve, ask: Ask) -> None:
        assert not any(name.startswith("spark.") for name in serve.props), "they are the session's alone"
        self.worker = Worker(WorkerConfig(serve.props), MemoryOffsetStore())
        self._ask = ask
        self.made = []

    def task(self, begin: messages.Begin, make: Callable[[], WorkerTask]) -> WorkerTask:
        del make
        made = Idle(TaskId(begin.connector, begin.number), begin, self._ask)
        self.made.append(made)
        return made

    def close(self) -> None:
        for each in self.made:
            each.released.set()


class Supply:
    """Makes slots as tests ask for them."""

    def __init__(self, keeper: TaskSlots) -> None:
        self.keeper = keeper
        self.lost = threading.Event()
        self._threads: list[threading.Thread] = []
        keeper.open_port("127.0.0.1", 2)

    def slot(self, number: int) -> threading.Thread:
        thread = threading.Thread(target=self._slot, args=(number, self.keeper.port, self.keeper.secret))
        self._threads.append(thread)
        thread.start()
        return thread

    def _slot(self, number: int, port: int, secret: bytes) -> None:
        with contextlib.suppress(ChannelClosed):
            run_in_slot(number, ("127.0.0.1", port), secret, FakeWorker)

    def wait(self, timeout_s: float) -> bool:
        return self.lost.wait(timeout_s)

    def stop(self) -> None:
        self.keeper.close()
        for thread in self._threads:
            thread.join()
        self.keeper.close_port()


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.supplies: list[Supply] = []
        self.supplied = threading.Event()
        self.refusals: list[Exception] = []
        self.asked: list[tuple[TaskId, list[Any]]] = []
        self.answer: Callable[[], list[Any]] = list
        self.store = MemoryOffsetStore()
        self.answers: dict[str, Answerer] = {"may": self._may, **offset_answers(self.store)}
        self.slots = TaskSlots(worker_props(folder), self.answers, self._make, lambda: "here")
        self.told = threading.Condition()
        self.history: list[tuple[str, str]] = []
        self.topics: list[str] = []

    def _make(self, keeper: TaskSlots) -> Supply:
        if self.refusals:
            raise self.refusals.pop()
        self.supplies.append(Supply(keeper))
        self.supplied.set()
        return self.supplies[-1]

    def _may(self, task: SlotTask, run: int, arguments: list[Any]) -> list[Any]:
        assert run > 0
        self.asked.append((task.id, arguments))
        return self.answer()

    def slot(self, number: int) -> threading.Thread:
        assert self.supplied.wait(PATIENCE_S)
        return self.supplies[-1].slot(number)

    def task(self, name: str, *, isolated: bool = False, paused: bool = False, **config: str) -> SlotTask:
        plugin = Worker(WorkerConfig(worker_props(self.folder)), self.store).catalog.connector("FileStreamSource")
        made = self.slots.task(
            TaskId(name, 0), plugin, {**CONFIG, **config}, 1, isolated=isolated, paused=paused, on_topic=self.topics.append
        )  # fmt: skip
        made.on_state = self._changed
        made.start()
        return made

    def _changed(self, task: SlotTask) -> None:
        with self.told:
            self.history.append((task.id.connector, str(task.state)))
            self.told.notify_all()

    def until(self, condition: Callable[[], object]) -> None:
        with self.told:
            assert self.told.wait_for(condition, PATIENCE_S), self.history

    def slots_of(self, tasks: list[SlotTask]) -> set[int]:
        """Of those that run."""
        placed = {each.key: self.slots._placement.slot_of(each.key) for each in tasks if each.state is State.RUNNING}
        return {found[0] for found in placed.values() if found is not None}

    def until_state(self, task: SlotTask, state: State, where: str = "") -> None:
        self.until(lambda: task.state is state and where in (task.runs_on or ""))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.slots.shut_down()


def test_a_task_runs_is_paused_resumed_and_stopped(bench: Bench) -> None:
    task = bench.task("a", paused=True)
    bench.slot(0)
    bench.until_state(task, State.PAUSED, "here slot 0 ")
    task.set_paused(False)
    bench.until_state(task, State.RUNNING)
    task.set_paused(True)
    bench.until_state(task, State.PAUSED)
    assert not task.join(0)
    task.begin_stop()
    assert task.join(PATIENCE_S)


def test_what_a_task_counts_in_a_slot_is_known_to_the_worker(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_host, "_MEASURED_S", 0.0)
    task = bench.task("a")
    started = WorkerMetrics(time.monotonic).tasks
    task.startup = started.begun()
    assert task.measured() == {}
    bench.slot(0)
    bench.until_state(task, State.RUNNING)
    assert started.values("task")["task-startup-success-total"] == 1
    until = time.monotonic() + PATIENCE_S
    while not task.measured():
        assert time.monotonic() < until
        time.sleep(0.01)
    assert task.measured()["source-task-metrics"]["source-record-poll-total"] == 0
    assert running_task(task).values == task.measured()


def test_a_task_that_was_never_in_a_slot_is_stopped_at_once(bench: Bench) -> None:
    task = bench.task("a")
    bench.until_state(task, State.UNASSIGNED, "waits for a slot")
    task.begin_stop()
    assert task.join(PATIENCE_S)


def test_what_was_in_a_slot_that_is_gone_runs_in_another(bench: Bench) -> None:
    tasks = [bench.task(name) for name in "ab"]
    bench.slot(0)
    for each in tasks:
        bench.until_state(each, State.RUNNING, "slot 0")
    bench.slot(1)
    bench.until(lambda: sorted(each.runs_on or "" for each in tasks)[1].startswith("here slot 1 "))
    former = bench.slots._links[1]
    bench.slot(1)  # one in its place: the former is sent away
    bench.until(lambda: bench.slots._links.get(1) not in (None, former) and bench.slots_of(tasks) == {0, 1})
    server = bench.slots._server
    assert server is not None
    for link in server.links:
        link.channel.hang_up()
    bench.until(lambda: all(each.state is State.UNASSIGNED for each in tasks))
    bench.until(lambda: (bench.slots.losses, bench.slots.present) == (1, 0))
    bench.slot(0)
    for each in tasks:
        bench.until_state(each, State.RUNNING, "slot 0")
    bench.slots.begin_lease()
    assert bench.slots.losses == 0


def test_a_task_that_goes_on_elsewhere_at_once_was_unassigned_in_between(bench: Bench) -> None:
    """Who follows the status sees that it was interrupted, though a slot was free."""
    tasks = [bench.task(name) for name in "ab"]
    bench.slot(0)
    for each in tasks:
        bench.until_state(each, State.RUNNING, "slot 0")
    bench.slot(1)
    bench.until(lambda: bench.slots_of(tasks) == {0, 1} and all(each.state is State.RUNNING for each in tasks))
    (stayed,) = [each for each in tasks if "slot 0" in (each.runs_on or "")]
    bench.slots._links[0].channel.hang_up()
    bench.until_state(stayed, State.RUNNING, "slot 1")
    for each in tasks:  # one moved for the new slot's sake, the other for the loss of the old one
        states = [state for name, state in bench.history if name == each.id.connector]
        assert states[states.index("RUNNING") :] == ["RUNNING", "UNASSIGNED", "RUNNING"]


def test_the_end_of_a_lease_is_followed_by_the_next(bench: Bench) -> None:
    task = bench.task("a")
    thread = bench.slot(0)
    bench.until_state(task, State.RUNNING)
    bench.slots.end_lease(late_ones=True)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert bench.slots.losses == 0
    bench.slots.begin_lease()
    bench.slot(0)
    bench.until(lambda: bench.history[-2:] == [("a", "UNASSIGNED"), ("a", "RUNNING")])


def test_a_task_that_failed_for_good_stays_so(bench: Bench) -> None:
    task = bench.task("a", fails="for this reason")
    bench.slot(0)
    bench.until_state(task, State.FAILED)
    assert "for this reason" in (task.trace or "")
    while bench.slots._placement.slot_of(task.key) is not None:
        time.sleep(0.01)  # until the end of its thread is told, too
    bench.slot(0)
    other = bench.task("b")
    bench.until_state(other, State.RUNNING)
    assert task.state is State.FAILED
    task.begin_stop()
    assert task.join(PATIENCE_S)


def test_secrets_are_resolved_in_the_slot_and_taken_out_of_traces(bench: Bench) -> None:
    (bench.folder / "secrets").write_text("password=geheim\n")
    reference = f"${{file:{bench.folder}/secrets:password}}"
    task = bench.task("a", **{"tasks.max": reference})
    assert task.config["tasks.max"] == reference
    bench.slot(0)
    bench.until_state(task, State.FAILED)
    assert "tasks.max" in (task.trace or "")
    assert "geheim" not in (task.trace or "")


def test_a_question_is_answered_or_refused(bench: Bench) -> None:
    task = bench.task("a", ask="may")
    bench.slot(0)
    bench.until_state(task, State.RUNNING)
    assert bench.asked == [(TaskId("a", 0), [])]

    def refuse() -> list[Any]:
        raise ConnectError("it is another's")

    bench.answer = refuse
    other = bench.task("b", ask="may")
    bench.until_state(other, State.FAILED)
    assert "it is another's" in (other.trace or "")


def test_what_a_given_up_slot_asks_is_refused_though_it_was_granted(bench: Bench) -> None:
    """It may take its transactional id only while the task is its own."""
    asked, go_on = threading.Event(), threading.Event()

    def slowly() -> list[Any]:
        asked.set()
        assert go_on.wait(PATIENCE_S)
        return []

    bench.answer = slowly
    task = bench.task("a", ask="may")
    bench.slot(0)
    assert asked.wait(PATIENCE_S)
    said: queue.SimpleQueue[Any] = queue.SimpleQueue()
    (link,) = bench.slots._links.values()
    link.send = said.put  # type: ignore[method-assign]
    bench.answer = list
    bench.slot(0)  # in the place of the former
    bench.until_state(task, State.RUNNING)
    go_on.set()
    assert said.get(timeout=PATIENCE_S) == messages.Answer(1, "The worker has given this task to another slot")


def test_a_task_that_does_not_stop_is_given_up(bench: Bench) -> None:
    task = bench.task("a", deaf="yes")
    bench.slot(0)
    bench.until_state(task, State.RUNNING)
    task.begin_stop()
    assert not task.join(0.05)
    task.cancel()
    again = bench.task("a")
    bench.until_state(again, State.RUNNING)


def test_tasks_say_why_there_are_no_slots_until_there_are(bench: Bench) -> None:
    bench.refusals.append(UserError("No core is left"))
    task = bench.task("a")
    bench.until_state(task, State.FAILED)
    assert "No core is left" in (task.trace or "")
    bench.until_state(task, State.UNASSIGNED, "waits for a slot")  # they will come
    bench.slot(0)
    bench.until_state(task, State.RUNNING)
    assert task.trace is None


def test_slots_come_again_when_their_supply_is_lost(bench: Bench) -> None:
    task = bench.task("a")
    bench.slot(0)
    bench.until_state(task, State.RUNNING)
    bench.supplied.clear()
    bench.supplies[0].stop()
    bench.supplies[0].lost.set()
    bench.slot(0)
    bench.until(lambda: bench.history[-2:] == [("a", "UNASSIGNED"), ("a", "RUNNING")])


def test_an_isolated_task_where_there_is_one_slot_fails_with_words(bench: Bench) -> None:
    task = bench.task("a", isolated=True)
    assert bench.supplied.wait(PATIENCE_S)
    bench.slots.slots = 1
    bench.slot(0)
    bench.until_state(task, State.FAILED)
    assert "task.slots" in (task.trace or "")


def test_offsets_of_a_worker_alone_are_read_and_written_over_the_connection(bench: Bench) -> None:
    answers = offset_answers(bench.store)
    task = bench.task("a")

    def ask(run: int, name: str, *arguments: Any) -> list[Any]:
        assert run == 7
        return answers[name](task, run, list(arguments))

    task.now_run(7)
    store = RemoteOffsetStore(7, ask)
    store.set({b"k": b"v", b"gone": None})
    assert (store.get(b"k"), store.get(b"gone"), store.all()) == (b"v", None, {b"k": b"v"})
    task.cancel()
    store.set({b"k": b"w"})
    assert bench.store.get(b"k") == b"v", "a task that was given up commits nothing"


@pytest.mark.parametrize("successor", ["in another slot", "nobody"])
def test_offsets_of_a_run_that_was_lost_meanwhile_are_not_written_late(bench: Bench, successor: str) -> None:
    """They stood over its successor's, or over those that a user had set for the stopped connector."""
    asked, go_on, answered = threading.Event(), threading.Event(), threading.Event()
    set_offsets = bench.answers["set_offsets"]

    def late(task: SlotTask, run: int, _arguments: list[Any]) -> list[Any]:
        if run == 1:
            asked.set()
            assert go_on.wait(PATIENCE_S)
            set_offsets(task, run, [[["aw==", "ZWFybGllcg=="]]])
            answered.set()
        return []

    bench.answers["may"] = late
    task = bench.task("a", ask="may")
    bench.slot(0)
    assert asked.wait(PATIENCE_S)
    if successor == "nobody":
        task.begin_stop()
        bench.slots._links[0].channel.hang_up()
        assert task.join(PATIENCE_S)
    else:
        bench.slot(0)  # in the place of the former
        bench.until_state(task, State.RUNNING)
    bench.store.set({b"k": b"later"})
    go_on.set()
    assert answered.wait(PATIENCE_S)
    assert bench.store.get(b"k") == b"later"


@pytest.mark.parametrize(
    ("props", "in_group", "expected"),
    [
        ({}, True, False),
        ({"spark.master": "local[2]"}, True, True),
        ({"spark.master": "local[2]", "task.slots": "0"}, True, False),
        ({"spark.master": "local[2]"}, False, False),
        ({"task.slots": "1"}, False, True),
    ],
)
def test_who_has_slots(tmp_path: Path, props: dict[str, str], in_group: bool, expected: bool) -> None:
    config = WorkerConfig({**worker_props(tmp_path), **props})
    assert wants_slots(config, in_group=in_group) is expected
