"""What a slot decides by itself, without a broker: when it leaves off, and what it does not forget."""

import threading
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.consumer_settings import consumer_settings
from headwater.client.settings.admin import read_admin_settings
from headwater.client.settings.producer import read_producer_settings
from headwater.streams import App, Context, Processor, Record
from headwater.streams.engine.columns import Chunk
from headwater.streams.engine.failures import ClusterFailure, ErrorPolicy, StreamsError
from headwater.streams.engine.runs import Runs
from headwater.streams.engine.task import Task
from headwater.streams.engine.task_output import TaskOutput
from headwater.streams.lead import local_run
from headwater.streams.model.record import InputRecord, OutputRecord
from headwater.streams.query.readable import opened as opened_store
from headwater.streams.query.readable import store_plan
from headwater.streams.slot import commit_writer, open_task
from headwater.streams.slot import slot as slot_module
from headwater.streams.slot.commit_writer import CommitWriter
from headwater.streams.slot.global_tables import GlobalTables
from headwater.streams.slot.held_inputs import HeldInputs
from headwater.streams.slot.offset_metadata import OffsetMetadata, encode_metadata
from headwater.streams.slot.open_task import Clients, OpenTask, Stopped
from headwater.streams.slot.settings import RunSettings
from headwater.streams.slot.slot import Slot
from headwater.streams.slot.slot_report import SlotReport
from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.state import ChangelogPartition, Owner


def _bare_slot(**attributes: Any) -> Slot:
    slot = object.__new__(Slot)
    for name, value in attributes.items():
        setattr(slot, name, value)
    return slot


def _writer(stopping: threading.Event) -> CommitWriter:
    return CommitWriter(RunSettings("localhost:1", Path("state")), ErrorPolicy(), "app", [], stopping)


def test_a_slow_function_does_not_keep_a_task_from_leaving() -> None:
    app = App("app", key="text", value="text")
    app.stream("in").to("out")
    task = Task(app.topology().sub_topologies()[0], 0, app.settings())
    task.add("in", [InputRecord("in", 0, offset, offset, b"k", b"v") for offset in range(9)])
    assert task.process(2_000, lambda: True) == 1
    assert task.process(2_000, lambda: False) == 8


def test_a_run_that_is_to_end_does_not_wait_for_brokers_that_are_away() -> None:
    class Away:
        application_id = "app"
        asked = 0

        def member(self) -> None:
            self.asked += 1
            stopping.set()
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "nobody answers")

        def tick(self) -> None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nobody answers")

    stopping, lead = threading.Event(), Away()
    clients = Clients(None, None, stopping)  # type: ignore[arg-type]
    attributes = {"_lead": lead, "_clients": clients, "_stopping": stopping, "_writer": _writer(stopping)}
    slot = _bare_slot(**attributes, _identity=None, tasks=[], report=SlotReport())
    with pytest.raises(Stopped):
        slot._recover()
    assert lead.asked == 1
    assert next(each["error"] for each in slot.report.errors) == (
        "the slot does not recover yet: NETWORK_EXCEPTION: nobody answers"
    )


class _Brokers:
    """A producer for whom the topic "out" is not there: `answers` have what `flush` or `partitions_for` find out."""

    def __init__(self, *answers: bool, missing: bool) -> None:
        self._answers = list(answers)
        self._missing = missing
        self.asked = 0

    def partitions_for(self, _topic: str, timeout: float) -> None:
        assert timeout
        self.asked += 1
        if not self._answers or not self._answers.pop(0):
            raise TimeoutError

    def flush(self, timeout: float) -> None:
        self.partitions_for("out", timeout)

    def is_missing(self, topic: str) -> bool:
        return self._missing and topic == "out"


def test_a_topic_that_stays_away_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_writer, "_MISSING_S", 0)
    writer = _writer(threading.Event())
    with pytest.raises(UserError, match="The topic out, to which the application writes, is not there"):
        writer._find(_Brokers(missing=True), "out")  # type: ignore[arg-type]
    writer._find(_Brokers(missing=False), "out")  # type: ignore[arg-type]  # nobody answers: the producer waits itself


def test_a_topic_that_comes_late_is_waited_for_and_asked_for_once() -> None:
    writer, brokers = _writer(threading.Event()), _Brokers(False, True, missing=True)
    for _ in range(3):
        writer._find(brokers, "out")  # type: ignore[arg-type]
    assert brokers.asked == 2


def test_a_commit_does_not_wait_for_a_topic_that_is_gone_nor_fails_while_brokers_are_slow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(commit_writer, "_MISSING_S", 0)
    writer = _writer(threading.Event())
    with pytest.raises(KafkaError, match="there is no topic 'out' any more"):
        writer._flush(_Brokers(missing=True), ["changes", "out"])  # type: ignore[arg-type]
    writer._flush(_Brokers(False, False, True, missing=False), ["out"])  # type: ignore[arg-type]


def test_a_run_that_is_to_end_does_not_wait_for_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commit_writer, "_MISSING_S", 0)
    stopping = threading.Event()
    stopping.set()
    with pytest.raises(Stopped):
        _writer(stopping)._find(_Brokers(missing=True), "out")  # type: ignore[arg-type]


def test_a_replay_that_is_given_up_notes_no_position_that_it_has_not_reached(tmp_path: Path) -> None:
    stopping = threading.Event()

    class Brokers:
        def list_offsets(self, wanted: dict[Any, int], isolation_level: int = 0) -> dict[Any, Any]:
            return {partition: type("At", (), {"offset": 0}) for partition in wanted}

        def describe_topic(self, name: str) -> Any:
            return type("Topic", (), {"topic_id": b"1" * 16})

        def columns(self, *_: Any, given_up: Any, **__: Any) -> Any:
            stopping.set()
            assert given_up()
            yield from ()

    app = App("app", key="text", value="text")
    app.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    brokers: Any = Brokers()
    clients = Clients(brokers, brokers, stopping)
    task = OpenTask(app.topology().sub_topologies()[0], 0, app.settings(), tmp_path, clients, {})
    task.claim(Owner(1, 1))
    with pytest.raises(Stopped):
        task.replay({ChangelogPartition("app-counts-changelog", 0): 100})
    task.save()
    assert task.state.positions == {}
    task.close()


def test_tasks_that_are_behind_write_outside_of_commits_and_not_all_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All rows of all tasks were written within one commit every five seconds: no punctuator was called meanwhile."""
    app = App("app", key="text", value="text")
    app.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    clients: Any = Clients(None, None, threading.Event())  # type: ignore[arg-type]
    plan, now = app.topology().sub_topologies()[0], 1000.0
    monkeypatch.setattr(open_task.time, "monotonic", lambda: now)
    tasks = [OpenTask(plan, partition, app.settings(), tmp_path, clients, {}) for partition in range(4)]
    for task in tasks:
        task.claim(Owner(1, 1))
        task.start({}, 0)
    written: dict[str, list[float]] = {task.name: [] for task in tasks}
    for tenth in range(120):
        now = 1000 + tenth / 10
        for task in tasks:
            task.task.add("in", [InputRecord("in", task.partition, tenth, tenth, b"k", b"v")])
            task.task.process()
            task.collect()
            before = _rows(task)
            task.save(behind=True)
            assert (_rows(task) != before) == (tenth == 0)  # the first commit shows that there is a store
            if task.write_what_waits():
                assert _rows(task) == [tenth + 1]
                written[task.name].append(now)
    moments = [each for of_task in written.values() for each in of_task]
    assert len(set(moments)) == len(moments)
    assert all(len(of) >= 2 for of in written.values())
    assert all(later - sooner == pytest.approx(5) for of in written.values() for sooner, later in pairwise(of))
    for task in tasks:
        task.save(behind=False)
        assert _rows(task) == [120]
        assert not task.write_what_waits()
        task.close()


def test_of_many_tasks_that_are_behind_each_is_written_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """With turns of 0.4 s, the first thirteen of 32 were due again before the others had ever been written."""
    now = 1000.0

    class Behind:
        def __init__(self) -> None:
            self.written_at, self.times = now, 0

        def write_what_waits(self) -> bool:
            if now < self.written_at + 5:
                return False
            self.written_at, self.times = now, self.times + 1
            return True

    tasks: list[Any] = [Behind() for _ in range(32)]
    for turn in range(320):
        now = 1000 + turn * 0.4
        open_task.write_one(tasks)
    assert {task.times for task in tasks} <= {9, 10}


def _rows(task: OpenTask) -> list[int]:
    """What others see."""
    plan = store_plan(task, "counts")
    assert plan is not None
    with opened_store(task, plan) as store:
        return [count for _, (count, _) in store.all()]


class _Told(Processor):
    """Tells the times at which it is called by stream time."""

    def init(self, context: Context) -> None:
        context.schedule(50, "stream", lambda now_ms: context.forward(Record("told", str(now_ms), now_ms, ())))

    def process(self, record: Record) -> None: ...


def _told(task: OpenTask, timestamp: int) -> list[bytes | None]:
    task.task.add("in", [InputRecord("in", 0, timestamp, timestamp, b"k", b"v")])
    task.task.process()
    return [record.value for record in task.collect().records]


def test_punctuators_of_a_commit_that_was_not_saved_are_not_called_again(tmp_path: Path) -> None:
    """Due times are in no changelog: a task that was killed behind its commit called them once more."""
    app = App("app", key="text", value="text")
    app.stream("in").process(_Told).to("out")
    clients: Any = Clients(None, None, threading.Event())  # type: ignore[arg-type]

    def opened(epoch: int, committed_time: int) -> OpenTask:
        task = OpenTask(app.topology().sub_topologies()[0], 0, app.settings(), tmp_path, clients, {})
        task.claim(Owner(1, epoch))
        metadata = {TopicPartition("in", 0): encode_metadata(OffsetMetadata(committed_time))}
        task.start(metadata if committed_time >= 0 else {}, 0)
        return task

    lost = opened(0, -1)
    assert _told(lost, 5) == [b"5"]
    lost.close()
    first = opened(1, 5)
    assert _told(first, 49) == []
    assert _told(first, 50) == [b"50"]
    first.save()
    assert _told(first, 101) == [b"101"]  # committed, and killed before it was saved
    first.close()
    second = opened(2, 101)
    assert _told(second, 149) == []
    assert _told(second, 150) == [b"150"]
    second.close()


class _DoesNotClose(Processor):
    """As one whose connection is gone: neither a record nor its end goes well."""

    def process(self, record: Record) -> None:
        raise ConnectionError("the database is gone")

    def close(self) -> None:
        raise ConnectionError("the database is still gone")


def _opened_with(processor: type[Processor], directory: Path) -> OpenTask:
    app = App("app", key="text", value="text")
    app.stream("in").process(processor).to("out")
    clients: Any = Clients(None, None, threading.Event())  # type: ignore[arg-type]
    task = OpenTask(app.topology().sub_topologies()[0], 0, app.settings(), directory, clients, {})
    task.claim(Owner(1, 1))
    task.start({}, 0)
    return task


def test_a_processor_that_does_not_close_does_not_keep_its_task_from_being_opened_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A commit that failed for a moment ended the run, with what `close` had raised."""
    task = _opened_with(_DoesNotClose, tmp_path)
    task.drop()
    assert "the database is still gone" in caplog.text
    task.claim(Owner(1, 2))
    task.start({}, 0)
    with pytest.raises(ConnectionError):  # at an end in which nothing else has failed it is told
        task.close()


def test_what_ended_a_run_is_told_and_not_what_its_processors_raise_at_their_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FailingSlot(Slot):
        def open(self) -> None:
            """Its task is."""

        def turn(self) -> None:
            (task,) = self.tasks
            task.task.add("in", [InputRecord("in", 0, 7, 0, b"k", b"v")])
            task.task.process()

        def close(self) -> None:
            for task in self.tasks:
                task.close()

    def failing_slot(*_: Any) -> Slot:
        slot = object.__new__(FailingSlot)
        slot.tasks = [_opened_with(_DoesNotClose, tmp_path)]
        return slot

    group = SimpleNamespace(drive=lambda _: None, close=lambda: None)
    monkeypatch.setattr(local_run, "prepare", lambda *_: SimpleNamespace(tasks=()))
    monkeypatch.setattr(local_run, "lead_of", lambda _: group)
    monkeypatch.setattr(local_run, "new_slot", failing_slot)
    with pytest.raises(StreamsError, match=r"in-0 offset 7.*the database is gone"):
        App("app", brokers="localhost:1").run_here(state_dir=tmp_path).wait()


def _slot_with_a_change_in_its_cache(cause: Exception, events: list[str]) -> Slot:
    """The sink has to know how many partitions there are, which the cluster does not say."""

    def partition_count(_topic: str) -> int:
        raise ClusterFailure(cause)

    app = App("app", key="text", value="text")
    app.table("in", store="rows").to_stream().to("out", partitioner=lambda *_: 0)
    (plan,) = app.topology().sub_topologies()
    settings = app.settings(partition_count=partition_count, cache_max_bytes=1 << 20).with_cache()
    task = Task(plan, 0, settings, MemoryState())
    task.add("in", [InputRecord("in", 0, 0, 0, b"k", b"v")])
    task.process()
    opened = SimpleNamespace(is_started=True, task=task, collect=task.collect)
    lead = SimpleNamespace(application_id="app")
    attributes = {"_lead": lead, "_writer": _writer(threading.Event()), "report": SlotReport()}
    return _bare_slot(**attributes, tasks=[opened], dropped={}, _recover=lambda: events.append("recovered"))


def test_a_cluster_that_does_not_answer_while_a_commit_flushes_is_no_end() -> None:
    events: list[str] = []
    slot = _slot_with_a_change_in_its_cache(TimeoutError("nobody answers"), events)
    slot.commit()
    assert events == ["recovered"]
    assert [each["error"] for each in slot.report.errors] == ["records are processed again: nobody answers"]


def test_a_topic_that_is_not_there_while_a_commit_flushes_is_said_as_it_is() -> None:
    events: list[str] = []
    slot = _slot_with_a_change_in_its_cache(UserError("There is no topic out"), events)
    with pytest.raises(UserError, match="There is no topic out"):
        slot.commit()
    assert events == []


def test_pending_output_is_limited_by_bytes_too() -> None:
    writer = _writer(threading.Event())
    slot = _bare_slot(_writer=writer, _globals=GlobalTables([], App("app").settings(), {}), dropped={})

    class Made:
        def collect(self) -> Any:
            from headwater.streams.engine.task_output import TaskOutput

            return TaskOutput([OutputRecord("out", None, b"k", bytes(40_000_000), 0, ())], [], {})

    slot._collect(Made())  # type: ignore[arg-type]
    assert not writer.is_full()
    slot._collect(Made())  # type: ignore[arg-type]
    assert writer.is_full()
    writer.forget()
    assert not writer.is_full()


def test_dead_letters_of_global_tables_wait_for_a_commit() -> None:
    app = App("app", key="text", value="text", on_error="dead_letter")
    table = app.global_table("names")
    app.stream("in").join(table, lambda a, b: a, on=lambda key, value: key).to("out")
    plans = [sub for sub in app.topology().sub_topologies() if sub.is_global]
    tables = GlobalTables(plans, app.settings(), {"names": 1})
    tables.update(InputRecord("names", 3, 7, 1, b"k", b"\xff"))
    assert [(letter.topic, letter.value) for letter in tables.pending] == [("app-dead-letters", b"\xff")]
    assert dict(tables.pending[0].headers)["__streams.errors.partition"] == b"3"
    assert tables.take_dropped() == {"deserialization error": 1}
    assert tables.take_dropped() == {}
    tables.close()


def test_each_client_is_given_the_settings_that_it_knows() -> None:
    client = {"linger.ms": 7, "fetch.min.bytes": 2, "client.id": "me"}
    settings = RunSettings("localhost:1", Path("state"), client=client)
    assert consumer_settings(settings.for_consumers, {}).raw.number("fetch.min.bytes") == 2
    assert "linger.ms" in settings.for_producers
    assert "fetch.min.bytes" not in settings.for_producers
    read_producer_settings(settings.for_producers, {})
    assert settings.for_admins == {"bootstrap.servers": "localhost:1", "client.id": "me"}
    read_admin_settings(settings.for_admins, {})
    with pytest.raises(UserError, match="There is no setting 'lingerms'"):
        RunSettings("localhost:1", Path("state"), client={"lingerms": 7})


def test_a_run_that_is_stopped_while_it_restores_ends_and_leaves_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`run_here` waits for state that is being restored; an event of its caller ends that."""
    stopping, events = threading.Event(), []

    class RestoringSlot:
        def open(self) -> None:
            stopping.set()
            raise Stopped

        def close(self) -> None:
            events.append("slot closed")

    class Program:
        tasks = ()

    def restoring_slot(*given: Any) -> RestoringSlot:
        assert given[-1] is stopping
        return RestoringSlot()

    class Group:
        def drive(self, _steps: Any) -> None: ...

        def leave(self) -> None:
            events.append("group left")

    monkeypatch.setattr(local_run, "prepare", lambda *_: Program())
    monkeypatch.setattr(local_run, "lead_of", lambda _: Group())
    monkeypatch.setattr(local_run, "new_slot", restoring_slot)
    run = App("app", brokers="localhost:1").run_here(state_dir=tmp_path, stopping=stopping)
    assert run.wait()
    assert events == ["slot closed", "group left"]


class _Ticks(Processor):
    """Takes a millisecond for each record, and notes how late it is called by the clock."""

    clock_ms = 0
    late_ms: list[int] = []  # noqa: RUF012

    def init(self, context: Context) -> None:
        self._due_ms = _Ticks.clock_ms + 20
        context.schedule(20, "wall", self._tick)

    def process(self, record: Record) -> None:
        _Ticks.clock_ms += 1

    def _tick(self, now_ms: int) -> None:
        assert now_ms == _Ticks.clock_ms
        _Ticks.late_ms.append(now_ms - self._due_ms)
        self._due_ms += 20


def test_what_is_due_by_the_clock_waits_for_no_records_of_any_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task used to have its slice of 50 ms and more before any punctuator was called."""
    _Ticks.clock_ms, _Ticks.late_ms = 1000, []
    monkeypatch.setattr(slot_module, "_now_ms", lambda: _Ticks.clock_ms)
    monkeypatch.setattr(slot_module.time, "monotonic", lambda: _Ticks.clock_ms / 1000)
    app = App("app", key="text", value="text")
    app.stream("in").process(_Ticks).to("out")
    (plan,) = app.topology().sub_topologies()
    tasks = []
    waiting, at_once = {0, 1, 2}, []

    def written(partition: int) -> bool:
        """Takes 15 ms."""
        if partition not in waiting:
            return False
        waiting.remove(partition)
        _Ticks.clock_ms += 15
        at_once[-1] += 1
        return True

    for partition in range(3):
        task = Task(plan, partition, app.settings(), now_ms=_Ticks.clock_ms)
        task.add("in", [InputRecord("in", partition, offset, offset, b"k", b"v") for offset in range(300)])
        tasks.append(
            SimpleNamespace(
                task=task,
                runs=Runs(),
                collect=task.collect,
                written_at=0.0,
                write_what_waits=partial(written, partition),
            )
        )
    writer = _writer(threading.Event())
    slot = _bare_slot(
        _inputs=SimpleNamespace(poll=lambda *_: ()),
        _globals=GlobalTables([], app.settings(), {}), _stopping=threading.Event(), _commit_at=1.1, _owner_of={},
        _settings=RunSettings("localhost:1", Path("state")), _writer=writer, tasks=tasks, dropped={},
        _held=HeldInputs(None, 1000),
    )  # fmt: skip
    while any(task.task.group.buffered for task in tasks):
        at_once.append(0)
        slot._read_and_process()
    assert at_once[:4] == [1, 1, 1, 0]
    assert len(_Ticks.late_ms) == 3 * (945 // 20)
    assert max(_Ticks.late_ms) <= 16


def test_many_tasks_are_each_asked_a_few_times_a_turn_for_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind each task all of them were asked: with a thousand, a turn without a record took half a second."""
    monkeypatch.setattr(slot_module, "_now_ms", lambda: 1000)
    due, called, asked = [5000] * 100, [0] * 100, []

    def idle(number: int) -> Any:
        def next_due() -> int:
            asked.append(number)
            return due[number]

        def punctuate(_now_ms: int) -> None:
            called[number] += 1
            due[number] = 5000

        def collect() -> TaskOutput:
            if number == 7:  # it has scheduled something
                due[number] = 1000
            return TaskOutput([], [], {})

        task: Any = SimpleNamespace(
            group=SimpleNamespace(buffered=0),
            commit_requested=False,
            punctuate=punctuate,
            next_punctuation_ms=next_due,
        )
        return SimpleNamespace(task=task, collect=collect, written_at=0.0, write_what_waits=lambda: False)

    slot = _bare_slot(
        _inputs=SimpleNamespace(poll=lambda *_: ()), _globals=GlobalTables([], App("app").settings(), {}), _commit_at=0.0,
        _owner_of={}, _writer=_writer(threading.Event()), tasks=[idle(n) for n in range(100)], dropped={},
        _held=HeldInputs(None, 1000),
    )  # fmt: skip
    slot._read_and_process()
    assert called == [2] * 100  # at the beginning, and when the eighth has scheduled something that is due
    assert len(asked) <= 400


def test_what_fell_due_during_a_commit_is_called_right_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It used to wait for the purge of repartition topics, and for records of the next poll, too."""
    _Ticks.clock_ms, _Ticks.late_ms = 1000, []
    monkeypatch.setattr(slot_module, "_now_ms", lambda: _Ticks.clock_ms)
    monkeypatch.setattr(slot_module.time, "monotonic", lambda: _Ticks.clock_ms / 1000)
    app = App("app", key="text", value="text")
    app.stream("in").process(_Ticks).to("out")
    (plan,) = app.topology().sub_topologies()
    task = Task(plan, 0, app.settings(), now_ms=_Ticks.clock_ms)
    steps: list[str] = []

    def takes(ms: int, what: str) -> Any:
        def call(*_: object, **__: object) -> Any:
            steps.append(f"{what} {len(_Ticks.late_ms)}")
            _Ticks.clock_ms += ms
            return ()

        return call

    slot = _bare_slot(
        _inputs=SimpleNamespace(poll=takes(5, "poll")), _consumer=None, _lead=SimpleNamespace(admin=None, tick=lambda: None),
        _counts=SimpleNamespace(refresh=lambda _: None), _purge=SimpleNamespace(run=takes(50, "purge")),
        _globals=GlobalTables([], app.settings(), {}), _stopping=threading.Event(), _commit_at=1.0, _owner_of={},
        _settings=RunSettings("localhost:1", Path("state")), _writer=_writer(threading.Event()), dropped={},
        _topics=SimpleNamespace(sources={}), report=SimpleNamespace(note_inputs=lambda *_: None), commit=takes(30, "commit"),
        tasks=[SimpleNamespace(task=task, runs=Runs(), collect=task.collect, written_at=0.0, write_what_waits=lambda: False)],
        _held=HeldInputs(None, 1000),
    )  # fmt: skip
    slot.turn()
    assert steps == ["poll 0", "commit 0", "purge 1"]
    assert _Ticks.late_ms == [15]


def test_a_slot_that_is_paused_calls_nothing_of_the_user_and_goes_on_where_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It reads on until enough waits, does not spin over what is due, and commits what was processed before."""
    _Ticks.clock_ms, _Ticks.late_ms = 1000, []
    monkeypatch.setattr(slot_module, "_now_ms", lambda: _Ticks.clock_ms)
    monkeypatch.setattr(slot_module.time, "monotonic", lambda: _Ticks.clock_ms / 1000)
    app = App("app", key="text", value="text")
    app.stream("in").process(_Ticks).to("out")
    (plan,) = app.topology().sub_topologies()
    task = Task(plan, 0, app.settings(), now_ms=_Ticks.clock_ms)
    opened: Any = SimpleNamespace(
        task=task, runs=Runs(), collect=task.collect, written_at=0.0, write_what_waits=lambda: False
    )
    waits: list[float] = []
    chunks = [Chunk("in", 0, [n], [n], [b"k"], [b"v"], None) for n in range(4)]

    def poll(patience: float, *_: int) -> list[Chunk]:
        waits.append(patience)
        _Ticks.clock_ms += 50
        return [chunks.pop(0)] if chunks else []

    fetching: list[str] = []
    consumer: Any = SimpleNamespace(
        pause=lambda each: fetching.append(f"pause {each.topic}"),
        resume=lambda each: fetching.append(f"resume {each.topic}"),
    )
    commits: list[int] = []
    slot = _bare_slot(
        _inputs=SimpleNamespace(poll=poll), _consumer=consumer, _lead=SimpleNamespace(admin=None, tick=lambda: None),
        _counts=SimpleNamespace(refresh=lambda _: None), _purge=SimpleNamespace(run=lambda *_: None),
        _globals=GlobalTables([], app.settings(), {}), _stopping=threading.Event(), _commit_at=0.0,
        _owner_of={("in", 0): opened}, _held=HeldInputs(consumer, 2), _settings=RunSettings("localhost:1", Path("state")),
        _writer=_writer(threading.Event()), dropped={}, _topics=SimpleNamespace(sources={}), tasks=[opened],
        report=SimpleNamespace(note_inputs=lambda *_: None), commit=lambda: commits.append(_Ticks.clock_ms),
    )  # fmt: skip
    paused = threading.Event()
    slot.is_paused = paused.is_set
    paused.set()
    for _ in range(4):
        slot.turn()
    assert (task.group.buffered, task.stream_time_ms, _Ticks.late_ms) == (4, -1, [])
    assert waits == [0.1] * 4
    assert fetching == ["pause in"]
    assert len(commits) == 4
    paused.clear()
    slot.turn()
    assert waits[-1] == 0.0
    assert (task.group.buffered, task.stream_time_ms) == (0, 3)
    assert _Ticks.late_ms == [230]  # once, for all that was missed
    assert fetching == ["pause in", "resume in"]


def test_the_interval_lies_between_the_beginnings_of_two_commits() -> None:
    """Counted from the end, each record waited for half of a commit more; Kafka Streams' do."""
    assert slot_module.next_commit_s(10.0, 10.006, 100) == 10.1
    assert slot_module.next_commit_s(10.0, 10.025, 100) == 10.1


def test_commits_that_take_long_leave_time_to_process() -> None:
    assert slot_module.next_commit_s(10.0, 10.5, 100) == pytest.approx(10.575)
    assert slot_module.next_commit_s(10.0, 10.01, 20) == pytest.approx(10.025)
