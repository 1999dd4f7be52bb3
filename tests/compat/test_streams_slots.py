"""Slots that are processes, and a lead that deals out tasks: killed, stopped, renewed, added; exactly once. Spark
supplies them elsewhere.
"""

import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.support.dice import chosen_seed
from compat.support.quick import lasting
from compat.support.streams_counter import make_app
from compat.support.streams_results import PARTITIONS, Results, send_words
from headwater.base.errors import UserError
from headwater.client import READ_COMMITTED, Admin, NewTopic, RangeReader, TopicPartition
from headwater.client.types import LATEST
from headwater.streams import App
from headwater.streams.lead.application import ApplicationLead
from headwater.streams.lead.runtime import SlotRuntime
from headwater.streams.on_spark import pickled_program
from headwater.streams.query import connect
from headwater.streams.query.client import RemoteStore
from headwater.streams.slot.program import prepare
from headwater.streams.slot.settings import RunSettings
from headwater.testing import Broker

SLOT = Path(__file__).parent / "support" / "streams_slot.py"
WORDS = [f"word-{i}" for i in range(7)]

pytestmark = [pytest.mark.timeout(lasting(600, 7200))]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker({"log.cleaner.enable": False, "group.initial.rebalance.delay.ms": 0}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("words", PARTITIONS, 1), NewTopic("counts", PARTITIONS, 1)])
        yield broker


class Slots:
    """A runtime and the processes of its slots. `apart`: each works in a directory of its own below it, as if it were
    on another machine.
    """

    def __init__(self, count: int, silence_s: float, apart: Path | None = None) -> None:
        self.runtime = SlotRuntime(count, silence_s=silence_s)
        self._apart = apart
        self.processes: dict[int, subprocess.Popen[str]] = {}
        self._all: list[subprocess.Popen[str]] = []
        for number in range(count):
            self.start(number)

    def start(self, number: int) -> None:
        process = subprocess.Popen(
            [sys.executable, str(SLOT), str(number), str(self.runtime.port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.directory(number),
        )
        assert process.stdin is not None
        process.stdin.write(self.runtime.secret.hex() + "\n")
        process.stdin.flush()
        self.processes[number] = process
        self._all.append(process)

    def directory(self, number: int) -> Path | None:
        if self._apart is None:
            return None
        directory = self._apart / f"machine-{number}"
        directory.mkdir(exist_ok=True)
        return directory

    def run(self, app: App, state: Path, **more: Any) -> ApplicationLead:
        settings = RunSettings(app.brokers, state, commit_interval_ms=20, repartition_purge_interval_ms=500, **more)
        program = prepare(app, settings)
        application = self.runtime.run(program, pickled_program(program))
        application.wait_started()
        return application

    def kill(self, number: int) -> None:
        self.processes[number].kill()

    def close(self) -> None:
        self.runtime.close()
        self.runtime.close_port()
        for process in self._all:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.communicate()


@pytest.fixture
def slots() -> Iterator[Slots]:
    slots = Slots(2, silence_s=3.0)
    yield slots
    slots.close()


def _committed_counts(broker: Broker, topic: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        places = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        ends = admin.list_offsets(dict.fromkeys(places, LATEST), isolation_level=READ_COMMITTED)
    with RangeReader(bootstrap_servers=broker.bootstrap_servers) as reader:
        for place in places:
            end = ends[place]
            assert not isinstance(end, Exception)
            for record in reader.records(place, 0, end.offset):
                found.setdefault(record.key.decode(), []).append(struct.unpack(">q", record.value)[0])
    return found


def _check(broker: Broker, application: ApplicationLead, results: Results, words: list[str]) -> None:
    assert results.counts == {word: list(range(1, n + 1)) for word, n in Counter(words).items()}
    application.ask_to_stop()
    application.wait()
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert {each.state for each in admin.list_transactions()} <= {"CompleteCommit", "CompleteAbort", "Empty"}
        assert admin.describe_group("counter").members == []
    assert _committed_counts(broker, "counter-counts-changelog") == results.counts


def test_counts_are_exact_though_slots_die_and_leases_end(broker: Broker, slots: Slots, tmp_path: Path) -> None:
    chance = random.Random(chosen_seed() if lasting(0, 1) else 3)
    words: list[str] = []
    results = Results(broker)
    try:
        application = slots.run(make_app(broker.bootstrap_servers), tmp_path)
        for number in range(lasting(2, 60)):
            more = chance.choices(WORDS, k=400)
            send_words(broker, more)
            results.until(len(words) + chance.randrange(1, 400))
            words += more
            slots.kill(number % 2)
            results.until(len(words))  # the other one has all tasks
            slots.start(number % 2)
            send_words(broker, WORDS)
            slots.runtime.end_lease()
            words += WORDS
            results.until(len(words))
        _check(broker, application, results, words)
    finally:
        results.close()


@pytest.fixture
def patient_slots() -> Iterator[Slots]:
    """None of them is given up because the machine is busy."""
    slots = Slots(2, silence_s=60.0)
    yield slots
    slots.close()


def test_slots_of_an_application_that_is_paused_process_nothing_and_keep_their_tasks(
    broker: Broker, patient_slots: Slots, tmp_path: Path
) -> None:
    """Nor does one that comes meanwhile."""
    slots, results = patient_slots, Results(broker)
    try:
        application = slots.run(make_app(broker.bootstrap_servers), tmp_path)
        send_words(broker, WORDS)
        results.until(len(WORDS))
        lives = {slot["life"] for slot in application.status["slots"]}
        application.pause(True)
        slots.kill(1)
        slots.start(1)

        def until(records: int) -> None:
            """Both slots have their share again, so the pause was told before; and have read so many."""

            def is_so(status: dict[str, Any]) -> bool:
                assert application.running
                anew = {slot["life"] for slot in status["slots"]} - lives
                tasks = [len(slot["tasks"]) for slot in status["slots"]]
                shared = status["state"] == "paused" and len(anew) == 1 and tasks == [PARTITIONS, PARTITIONS]
                return shared and status["records"] >= records

            _wait_for_status(application, is_so)

        until(0)
        before = application.status["records"]
        send_words(broker, WORDS)
        until(before + len(WORDS))
        assert _committed_counts(broker, "counts") == {word: [1] for word in WORDS}
        application.pause(False)
        results.until(2 * len(WORDS))
        _check(broker, application, results, WORDS * 2)
    finally:
        results.close()


def test_a_slot_that_was_stopped_and_given_up_writes_nothing_any_more(
    broker: Broker, slots: Slots, tmp_path: Path
) -> None:
    words = WORDS * 40
    results = Results(broker)
    try:
        application = slots.run(make_app(broker.bootstrap_servers), tmp_path)
        send_words(broker, words)
        results.until(30)
        stopped = slots.processes[1]
        stopped.send_signal(signal.SIGSTOP)
        send_words(broker, WORDS)  # it may have done all of its own by now: these are done by who takes its tasks
        words += WORDS
        results.until(len(words))  # nobody waits for it
        stopped.send_signal(signal.SIGCONT)
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == "lost\n"
        slots.start(2)  # one more than before
        send_words(broker, WORDS)
        words += WORDS
        results.until(len(words))
        _check(broker, application, results, words)
    finally:
        results.close()


def _ask_until(store: RemoteStore, expected: dict[str, int]) -> None:
    """State is saved a moment after readers of committed records see what is in it."""
    give_up_at = time.monotonic() + 120
    while (found := {row["key"]: row["value"] for row in store.all()}) != expected:
        assert time.monotonic() < give_up_at, found
        time.sleep(0.05)


def test_stores_in_slots_are_asked_by_key_and_as_a_whole(broker: Broker, slots: Slots, tmp_path: Path) -> None:
    results, token = Results(broker), "a-secret-of-this-test"
    words = WORDS * 3
    try:
        application = slots.run(make_app(broker.bootstrap_servers), tmp_path, queries=0, queries_token=token)
        send_words(broker, words)
        results.until(len(words))
        _wait_for(
            application, lambda tasks: _have_told(tasks) and all(s["queries"] for s in application.status["slots"])
        )
        server = slots.runtime.queries("counter")
        assert server is not None
        with connect(server.url, token) as client:
            assert {
                partition for host in client.metadata["hosts"] for partition in host["stores"].get("counts", [])
            } == {0, 1}
            store = client.store("counts")
            _ask_until(store, dict.fromkeys(WORDS, 3))
            for word in WORDS:
                found = store.get(word)
                assert found is not None
                assert found["value"] == 3
            assert store.get("no such word") is None
            assert [row["key"] for row in store.prefix("word-3")] == ["word-3"]
            assert store.count() == len(WORDS)
            with pytest.raises(UserError, match="no store"):
                client.store("others").get("a")
        url = application.status["slots"][0]["queries"]
        with connect(url, token) as client, pytest.raises(UserError, match="Nobody holds partitions"):
            client.store("counts").all()  # a slot alone gives no answer with a hole in it
        with connect(server.url, "a-secret-that-is-wrong") as client, pytest.raises(UserError, match="401"):
            client.store("counts").get("a")
        slots.kill(0)
        send_words(broker, WORDS)
        results.until(len(words) + len(WORDS))  # the other slot has all tasks now
        _wait_for(application, lambda tasks: _have_told(tasks) and {t["slot"] for t in tasks.values()} == {1})
        with connect(server.url, token) as client:
            _ask_until(client.store("counts"), dict.fromkeys(WORDS, 4))
        _check(broker, application, results, words + WORDS)
    finally:
        results.close()


def test_applications_share_slots_and_one_that_fails_leaves_the_others(
    broker: Broker, slots: Slots, tmp_path: Path
) -> None:
    results = Results(broker)
    try:
        counter = slots.run(make_app(broker.bootstrap_servers), tmp_path)
        bad = App("bad", brokers=broker.bootstrap_servers, key="text", value="text")
        bad.stream("words").map_values(lambda value: 1 // 0).to("nowhere")
        failing = slots.run(bad, tmp_path)
        with pytest.raises(UserError, match="runs in this runtime already"):
            slots.run(make_app(broker.bootstrap_servers), tmp_path)
        send_words(broker, WORDS)
        with pytest.raises(UserError, match=r"Processing failed in KSTREAM-MAPVALUES-0000000001 .* ZeroDivisionError"):
            failing.wait()
        results.until(len(WORDS))
        assert failing.status["state"] == "failed"
        assert counter.status["state"] == "running"
        assert sorted(task for slot in counter.status["slots"] for task in slot["tasks"]) == [
            "0_0",
            "0_1",
            "1_0",
            "1_1",
        ]
        _check(broker, counter, results, WORDS)
    finally:
        results.close()


Tasks = dict[str, dict[str, Any]]
COUNTING = ("1_0", "1_1")


def _wait_for_status(application: ApplicationLead, is_so: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    give_up_at = time.monotonic() + 240
    while not is_so(status := application.status):
        assert time.monotonic() < give_up_at, status
        time.sleep(0.05)
    return status


def _tasks(status: dict[str, Any]) -> Tasks:
    return {task["task"]: task for task in status["tasks"]}


def _wait_for(application: ApplicationLead, is_so: Callable[[Tasks], bool]) -> Tasks:
    return _tasks(_wait_for_status(application, lambda status: is_so(_tasks(status))))


def _have_told(tasks: Tasks) -> bool:
    """Whether the slots of all tasks have told of them since they opened them: so what was restored is known."""
    return all(task["state"] == "running" and task["inputs"] for task in tasks.values())


def _copied(tasks: Tasks) -> int:
    """How many records standbys have that are at the end of their changelogs; -1 if not all are."""
    copies = [copy for task in COUNTING for copy in tasks[task]["standbys"]]
    return sum(each["restored_records"] for each in copies) if [each["lag"] for each in copies] == [0, 0] else -1


def test_a_standby_goes_on_with_its_copy_and_tasks_move_back_when_a_copy_is_there(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two slots with state of their own, as on two machines: one is killed, and its disk is lost."""
    monkeypatch.chdir(tmp_path)
    slots, results = Slots(2, silence_s=3.0, apart=tmp_path), Results(broker)
    words = WORDS * 40
    try:
        app, state = make_app(broker.bootstrap_servers), Path("state")
        application = slots.run(app, state, num_standby_replicas=1, acceptable_recovery_lag=0)
        send_words(broker, words)
        results.until(len(words))
        tasks = _wait_for(application, lambda tasks: _copied(tasks) == len(words))
        owner = tasks["1_0"]["slot"]
        assert [copy["slot"] for copy in tasks["1_0"]["standbys"]] == [1 - owner]
        assert (slots.directory(1 - owner) / state / "counter").is_dir()  # type: ignore[operator]

        slots.kill(owner)
        slots.processes[owner].wait()  # so it has written nothing since the copy was whole
        send_words(broker, WORDS)
        words += WORDS
        results.until(len(words))
        tasks = _wait_for(application, lambda tasks: tasks["1_0"]["slot"] == 1 - owner and _have_told(tasks))
        assert tasks["1_0"]["restored_records"] == 0  # the copy had all of it

        shutil.rmtree(slots.directory(owner) / state)  # type: ignore[operator]
        slots.start(owner)
        tasks = _wait_for(
            application, lambda tasks: {tasks[name]["slot"] for name in COUNTING} == {0, 1} and _have_told(tasks)
        )
        moved = next(name for name in COUNTING if tasks[name]["slot"] == owner)
        assert tasks[moved]["restored_records"] == 0  # it moved when the copy had all of it
        send_words(broker, WORDS)
        words += WORDS
        results.until(len(words))
        _check(broker, application, results, words)

        for number in (0, 1):
            shutil.rmtree(slots.directory(number) / state)  # type: ignore[operator]
        cold = _wait_for(slots.run(app, state), _have_told)
        assert sum(cold[name]["restored_records"] for name in COUNTING) == len(words)
    finally:
        results.close()
        slots.close()
