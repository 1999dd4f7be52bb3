"""A source task's thread: how it is stopped, given up, and what a plugin that raises anything at all comes to.

The producer is in memory, and threads wait for events alone.
"""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from headwater.connect.api import SourceTask
from headwater.connect.connector_config.common import connector_def
from headwater.connect.data.record import SourceRecord
from headwater.connect.data.schema import STRING
from headwater.connect.errors import ConnectError, RetriableError
from headwater.connect.plugins import Catalog, Kind
from headwater.connect.runtime import source
from headwater.connect.runtime.offsets import ConnectorOffsets, MemoryOffsetStore
from headwater.connect.runtime.pipeline import Pipeline
from headwater.connect.runtime.source import SourceWorkerTask
from headwater.connect.runtime.task import State, TaskId, WorkerTask

PATIENCE_S = 60.0
PROPS = {"name": "c", "connector.class": "C", "errors.restart": "false"}
WORKER = {"key.converter": "StringConverter", "value.converter": "StringConverter"}


class MemoryProducer:
    """Delivers at once."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.closed_with: list[float | None] = []

    def __call__(self, _settings: object) -> "MemoryProducer":
        return self

    def send(self, _topic: str, value: bytes, *, on_delivery: Callable[..., None], **_rest: object) -> None:
        self.values.append(value)
        on_delivery(None, None)

    def flush(self, _timeout: float) -> None: ...

    def close(self, timeout: float | None = None) -> None:
        self.closed_with.append(timeout)


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> MemoryProducer:
    made = MemoryProducer()
    monkeypatch.setattr(source, "Producer", made)
    return made


def worker_task(task: SourceTask, offsets: ConnectorOffsets) -> SourceWorkerTask:
    catalog = Catalog()
    config = connector_def(catalog, Kind.SOURCE).parse(PROPS)
    return SourceWorkerTask(
        TaskId("c", 0), lambda: task, lambda: Pipeline(catalog, PROPS, config, WORKER), PROPS, config, offsets, {}, {},
        flush_interval_s=0.0, flush_timeout_s=1.0, topic_creation=False, on_topic=lambda _topic: None,
    )  # fmt: skip


def numbered(number: int) -> SourceRecord:
    return SourceRecord(
        topic="t", value_schema=STRING, value=f"v{number}", source_partition={"p": 1}, source_offset={"n": number}
    )


class Hanging(SourceTask):
    """Its second poll hangs, in a database, say, and no stop ends it."""

    def __init__(self) -> None:
        self.polls = 0
        self.hangs, self.released = threading.Event(), threading.Event()

    def start(self, props: Mapping[str, str]) -> None: ...

    def poll(self) -> list[SourceRecord] | None:
        self.polls += 1
        if self.polls == 2:
            self.hangs.set()
            assert self.released.wait(PATIENCE_S)
        return [numbered(self.polls)]

    def stop(self) -> None: ...


def test_a_task_that_was_given_up_neither_sends_nor_commits(producer: MemoryProducer) -> None:
    task, offsets = Hanging(), ConnectorOffsets(MemoryOffsetStore(), "c")
    worker = worker_task(task, offsets)
    worker.start()
    assert task.hangs.wait(PATIENCE_S)
    worker.begin_stop()
    worker.cancel()
    assert producer.closed_with == [0]
    offsets.write([({"p": 1}, {"n": 0})])  # somebody resets them
    task.released.set()
    assert worker.join(PATIENCE_S)
    assert producer.values == [b"v1"]
    assert offsets.all() == [({"p": 1}, {"n": 0})]


def test_a_task_is_stopped_though_a_transform_does_not_close(producer: MemoryProducer) -> None:
    """Its connections, and a replication slot, stayed open."""
    task, closed = Unstartable(), list[str]()
    worker = worker_task(task, ConnectorOffsets(MemoryOffsetStore(), "c"))
    make = worker._make_pipeline

    def unclosable() -> Pipeline:
        made = make()
        made.key.close = lambda: closed.append("key")  # type: ignore[method-assign]
        made.value.close = lambda: 1 / 0  # type: ignore[method-assign, assignment, return-value]
        made.header.close = lambda: closed.append("header")  # type: ignore[method-assign]
        return made

    worker._make_pipeline = unclosable
    worker.start()  # it has no poll of its own, and so fails
    assert worker.join(PATIENCE_S)
    assert (worker.state, producer.closed_with) == (State.FAILED, [0])
    assert "ZeroDivisionError" not in (worker.trace or "")
    assert task.stopped.is_set()
    assert set(closed) == {"key", "header"}, "a converter was left open behind another"


class Away(MemoryOffsetStore):
    """Its brokers are away when offsets are written for the first time."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.errors = [error]

    def set(self, changes: Mapping[bytes, bytes | None]) -> None:
        if self.errors:
            raise self.errors.pop()
        super().set(changes)


class Counting(SourceTask):
    """A record of its own partition with each poll."""

    def __init__(self, store: Away) -> None:
        self.store, self.polls, self.committed = store, 0, threading.Event()

    def start(self, props: Mapping[str, str]) -> None: ...

    def poll(self) -> list[SourceRecord] | None:
        self.polls += 1
        return [numbered(self.polls).replaced(source_partition={"p": self.polls})] if self.polls < 3 else None

    def commit(self) -> None:
        if len(self.store.all()) == 2:
            self.committed.set()

    def stop(self) -> None: ...


def test_offsets_that_could_not_be_written_are_written_the_next_time(
    producer: MemoryProducer, caplog: pytest.LogCaptureFixture
) -> None:
    """The task failed, though its records wait for brokers as long as these are away."""
    store = Away(RetriableError("the brokers are away"))
    offsets, task = ConnectorOffsets(store, "c"), Counting(store)
    worker = worker_task(task, offsets)
    worker.on_end = task.committed.set
    worker.start()
    assert task.committed.wait(PATIENCE_S)
    assert worker.state is State.RUNNING, worker.trace
    worker.begin_stop()
    assert worker.join(PATIENCE_S)
    assert producer.values == [b"v1", b"v2"]
    assert offsets.all() == [({"p": 1}, {"n": 1}), ({"p": 2}, {"n": 2})]
    assert "event=offsets-not-written" in caplog.text


def test_offsets_that_can_never_be_written_fail_the_task(producer: MemoryProducer) -> None:
    store = Away(ConnectError("the disk is full"))
    worker = worker_task(Counting(store), ConnectorOffsets(store, "c"))
    worker.start()
    assert worker.join(PATIENCE_S)
    assert "the disk is full" in (worker.trace or "")


class Unstartable(SourceTask):
    """As plugins are: what `stop` and `close` need, `start` makes."""

    def start(self, props: Mapping[str, str]) -> None:
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()

    def close(self) -> None:
        self.stopped.set()


def test_a_task_whose_producer_cannot_be_made_is_not_stopped_for_it_never_started(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_settings: object) -> MemoryProducer:
        raise ConnectError("no broker is there")

    monkeypatch.setattr(source, "Producer", refuse)
    worker = worker_task(Unstartable(), ConnectorOffsets(MemoryOffsetStore(), "c"))
    worker.start()
    assert worker.join(PATIENCE_S)
    assert "no broker is there" in (worker.trace or "")
    assert "stop-failed" not in caplog.text


class Waiting(SourceTask):
    """Polls until an async `stop` says otherwise."""

    def __init__(self) -> None:
        self.polls, self.stopped = threading.Event(), 0

    async def start(self, props: Mapping[str, str]) -> None:
        self._end = asyncio.Event()

    async def poll(self) -> list[SourceRecord] | None:
        self.polls.set()
        await self._end.wait()
        return None

    async def stop(self) -> None:
        self.stopped += 1
        self._end.set()


def test_an_async_stop_is_awaited_and_ends_a_poll_that_waits(producer: MemoryProducer) -> None:
    task = Waiting()
    worker = worker_task(task, ConnectorOffsets(MemoryOffsetStore(), "c"))
    worker.start()
    assert task.polls.wait(PATIENCE_S)
    worker.begin_stop()
    assert worker.join(PATIENCE_S)
    assert task.stopped == 1


class Plain(SourceTask):
    """A plain poll, and an async stop: nothing but the end of the task can await it."""

    def __init__(self) -> None:
        self.polls, self.stopped = threading.Event(), 0

    def start(self, props: Mapping[str, str]) -> None: ...

    def poll(self) -> list[SourceRecord] | None:
        self.polls.set()
        return None

    async def stop(self) -> None:
        self.stopped += 1


def test_an_async_stop_of_a_task_without_a_loop_is_awaited_once(producer: MemoryProducer) -> None:
    task = Plain()
    worker = worker_task(task, ConnectorOffsets(MemoryOffsetStore(), "c"))
    worker.start()
    assert task.polls.wait(PATIENCE_S)
    worker.begin_stop()
    assert worker.join(PATIENCE_S)
    assert task.stopped == 1
    assert worker.state is State.UNASSIGNED


@pytest.mark.parametrize("error", [asyncio.CancelledError, SystemExit, ValueError])
def test_a_task_that_raises_anything_has_failed(error: type[BaseException]) -> None:
    class Raising(WorkerTask):
        def work(self) -> None:
            self.running()

            async def plugin() -> Any:
                raise error("so it is")

            self.call(plugin)

    worker = Raising(TaskId("c", 0), restart=False, secrets=frozenset())
    worker.start()
    assert worker.join(PATIENCE_S)
    assert worker.state is State.FAILED
    assert error.__name__ in (worker.trace or "")


def test_a_task_tells_its_state_though_its_herder_stops_listening_just_then() -> None:
    """The herder takes `on_state` away while the task looks at it: a task that ended well was FAILED."""

    class Heard(WorkerTask):
        looks = 0

        @property
        def on_state(self) -> Callable[[WorkerTask], None] | None:
            self.looks += 1
            return (lambda _task: None) if self.looks == 1 else None

        @on_state.setter
        def on_state(self, _told: object) -> None: ...

        def work(self) -> None:
            self.running()

    task = Heard(TaskId("c", 0), restart=False, secrets=frozenset())
    task.start()
    assert task.join(PATIENCE_S)
    assert (task.state, task.trace) == (State.UNASSIGNED, None)


class Acknowledged(SourceTask):
    """Gives nothing more until it knows that what it gave has arrived, like a session of a message queue."""

    def __init__(self) -> None:
        self.polls, self.open = 0, list[object]()
        self.done, self._end = threading.Event(), threading.Event()

    def start(self, props: Mapping[str, str]) -> None: ...

    def poll(self) -> list[SourceRecord] | None:
        if self.open or self.polls == 3:
            self.done.set()
            assert self._end.wait(PATIENCE_S)
            return None
        self.polls += 1
        self.open.append(f"v{self.polls}")
        return [numbered(self.polls)]

    def commit_record(self, record: SourceRecord, metadata: object) -> None:
        del metadata
        self.open.remove(record.value)

    def stop(self) -> None:
        self._end.set()


def test_a_plugin_is_told_what_has_arrived_before_the_next_poll(producer: MemoryProducer) -> None:
    """It was with the next commit of offsets, a minute later: one batch a minute."""
    task = Acknowledged()
    worker = worker_task(task, ConnectorOffsets(MemoryOffsetStore(), "c"))
    worker._flush_interval_s = 3600.0
    worker.start()
    assert task.done.wait(PATIENCE_S)
    worker.begin_stop()
    assert worker.join(PATIENCE_S)
    assert producer.values == [b"v1", b"v2", b"v3"]
