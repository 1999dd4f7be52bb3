"""Source tasks whose records and offsets are one transaction: where transactions end, and who may write. The producer
is in memory.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.connect.api import SourceTask
from headwater.connect.connector_config.common import connector_def
from headwater.connect.data.record import SourceRecord
from headwater.connect.data.schema import STRING
from headwater.connect.errors import ConnectError
from headwater.connect.plugins import Catalog, Kind
from headwater.connect.runtime import sending, source
from headwater.connect.runtime.offsets import ConnectorOffsets, MemoryOffsetStore
from headwater.connect.runtime.pipeline import Pipeline
from headwater.connect.runtime.task import State, TaskId
from headwater.connect.runtime.transactional_source import ExactlyOnceSourceTask

PATIENCE_S = 60.0
WORKER = {"key.converter": "StringConverter", "value.converter": "StringConverter"}
OFFSETS = "offsets"


class MemoryProducer:
    """Notes what happens, in order."""

    def __init__(self, fails_at: str = "") -> None:
        self.events: list[str] = []
        self.settings: Mapping[str, object] = {}
        self._fails_at = fails_at

    def __call__(self, settings: Mapping[str, object]) -> "MemoryProducer":
        self.settings = settings
        return self

    def _note(self, event: str) -> None:
        self.events.append(event)
        if event == self._fails_at:
            raise KafkaError(ErrorCode.PRODUCER_FENCED, "fenced")

    def init_transactions(self) -> None:
        self._note("init")

    def begin_transaction(self) -> None:
        self._note("begin")

    def commit_transaction(self) -> None:
        self._note("commit")

    def abort_transaction(self) -> None:
        self._note("abort")

    def send(
        self, topic: str, value: bytes, *, on_delivery: Callable[..., None] | None = None, **_rest: object
    ) -> None:
        self._note(f"{topic}:{value.decode()}")
        if on_delivery is not None:
            on_delivery(None, None)

    def flush(self, _timeout: float | None = None) -> None: ...

    def close(self, _timeout: float | None = None) -> None: ...


class Topic:
    """The store of offsets, of which a task needs to know the topic, and which is told of commits."""

    topic = OFFSETS

    def __init__(self, producer: MemoryProducer) -> None:
        self._producer = producer
        self.told: list[tuple[str, str]] = []

    def refresh(self) -> None: ...

    def before_commit(self, changes: Mapping[bytes, bytes | None]) -> None:
        assert changes
        self.told.append(("before", self._producer.events[-1]))

    def after_commit(self, changes: Mapping[bytes, bytes | None]) -> None:
        del changes
        self.told.append(("after", self._producer.events[-1]))


class Allowing:
    """Notes when it was asked."""

    def __init__(self, producer: MemoryProducer, refuses: str = "") -> None:
        self._producer, self._refuses = producer, refuses

    def _answer(self, when: str) -> None:
        self._producer.events.append(when)
        if when == self._refuses:
            raise ConnectError("this task is another worker's")

    def before_producer(self, task: ExactlyOnceSourceTask) -> None:
        self._answer("asked before")

    def after_producer(self, task: ExactlyOnceSourceTask) -> None:
        self._answer("asked after")


def numbered(number: int) -> SourceRecord:
    return SourceRecord(
        topic="t", value_schema=STRING, value=f"v{number}", source_partition={"p": 1}, source_offset={"n": number}
    )


class Batches(SourceTask):
    """Gives its batches, then says that it is done and waits for the end."""

    def __init__(self, *batches: list[int]) -> None:
        self._batches = list(batches)
        self.done = threading.Event()
        self._end = threading.Event()
        self.commits = 0

    def start(self, props: Mapping[str, str]) -> None: ...

    def poll(self) -> list[SourceRecord] | None:
        if not self._batches:
            self.done.set()
            assert self._end.wait(PATIENCE_S)
            return None
        records = [numbered(each) for each in self._batches.pop(0)]
        self.asks(records)
        return records

    def asks(self, records: list[SourceRecord]) -> None: ...

    def commit(self) -> None:
        self.commits += 1

    def stop(self) -> None:
        self._end.set()


def run(
    task: Batches, producer: MemoryProducer, permission: Allowing | None = None, **props: str
) -> ExactlyOnceSourceTask:
    catalog = Catalog(installed=False)
    config = {"name": "c", "connector.class": "C", "errors.restart": "false", **props}
    parsed = connector_def(catalog, Kind.SOURCE).parse(config)
    offsets = ConnectorOffsets(MemoryOffsetStore(), "c")
    made = ExactlyOnceSourceTask(
        TaskId("c", 0), lambda: task, lambda: Pipeline(catalog, config, parsed, WORKER), config, parsed, offsets, {}, {},
        transactional_id="g-c-0", store=Topic(producer), permission=permission or Allowing(producer), generation=1,
        flush_interval_s=3600.0, flush_timeout_s=1.0, topic_creation=False, on_topic=lambda _topic: None,
    )  # fmt: skip
    made.start()
    return made


def ended(made: ExactlyOnceSourceTask, task: Batches) -> None:
    assert task.done.wait(PATIENCE_S)
    made.begin_stop()
    assert made.join(PATIENCE_S)


@pytest.fixture
def producer(monkeypatch: pytest.MonkeyPatch) -> MemoryProducer:
    made = MemoryProducer()
    monkeypatch.setattr(source, "Producer", made)
    return made


BEGIN = ["asked before", "init", "asked after"]


def test_each_poll_is_a_transaction_with_its_offsets(producer: MemoryProducer) -> None:
    task = Batches([1, 2], [], [3])
    ended(run(task, producer), task)
    assert producer.events == [
        *BEGIN,
        *("begin", "t:v1", "t:v2", 'offsets:{"n":2}', "commit"),
        *("begin", "t:v3", 'offsets:{"n":3}', "commit"),
    ]
    assert producer.settings["transactional.id"] == "g-c-0"
    assert task.commits == 2


def test_an_interval_is_a_transaction_and_the_end_commits_what_is_open(producer: MemoryProducer) -> None:
    task = Batches([1], [2])
    ended(run(task, producer, **{"transaction.boundary": "interval"}), task)
    assert producer.events == [*BEGIN, "begin", "t:v1", "t:v2", 'offsets:{"n":2}', "commit"]


class Deciding(Batches):
    """Commits after 2, aborts after 4, and leaves the rest open."""

    def asks(self, records: list[SourceRecord]) -> None:
        transactions: Any = self.context.transaction_context
        for record in records:
            if record.value == "v2":
                transactions.commit_transaction(record)
            if record.value == "v4":
                transactions.abort_transaction()


def test_a_connector_says_where_transactions_end_and_aborted_records_do_not_come_again(
    producer: MemoryProducer,
) -> None:
    task = Deciding([1, 2, 3], [4], [5])
    ended(run(task, producer, **{"transaction.boundary": "connector"}), task)
    assert producer.events == [
        *BEGIN,
        *("begin", "t:v1", "t:v2", 'offsets:{"n":2}', "commit"),
        *("begin", "t:v3", "t:v4", "abort", "begin", 'offsets:{"n":4}', "commit"),
        *("begin", "t:v5", "abort"),
    ]


def test_records_that_a_transform_drops_move_the_offset_on(producer: MemoryProducer) -> None:
    task = Batches([1])
    drops = {"transforms": "f", "transforms.f.type": "org.apache.kafka.connect.transforms.Filter"}
    ended(run(task, producer, **drops), task)
    assert producer.events == [*BEGIN, "begin", 'offsets:{"n":1}', "commit"]


@pytest.mark.parametrize("refuses", ["asked before", "asked after"])
def test_a_task_that_may_not_write_sends_nothing(producer: MemoryProducer, refuses: str) -> None:
    task = Batches([1])
    made = run(task, producer, Allowing(producer, refuses))
    assert made.join(PATIENCE_S)
    assert made.state is State.FAILED
    assert producer.events == BEGIN[: BEGIN.index(refuses) + 1]


def test_a_task_that_is_fenced_fails_and_tells_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = MemoryProducer(fails_at="commit")
    monkeypatch.setattr(source, "Producer", producer)
    task = Batches([1])
    made = run(task, producer)
    assert made.join(PATIENCE_S)
    assert (made.state, task.commits) == (State.FAILED, 0)
    assert producer.events[-2:] == ["commit", "abort"]


def test_a_connectors_own_store_is_told_before_and_after_the_commit() -> None:
    producer, task = MemoryProducer(), Batches([["1"]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "Producer", producer)
        made = run(task, producer)
        ended(made, task)
    assert isinstance(made.store, Topic)
    assert made.store.told[-1] == ("after", "commit")
    assert [when for when, _ in made.store.told] == ["before", "after"]


class Told(Batches):
    """Wants to know what has arrived: it deletes it where it came from."""

    def __init__(self, *batches: list[int]) -> None:
        super().__init__(*batches)
        self.told: list[object] = []

    def commit_record(self, record: SourceRecord, metadata: object) -> None:
        del metadata
        self.told.append(record.value)


def test_a_plugin_is_told_of_records_when_their_transaction_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of a long poll it was told of what a transaction that was then aborted had taken with it."""
    monkeypatch.setattr(sending, "_UNTOLD_MAX", 2)
    fails = MemoryProducer("t:v9")
    monkeypatch.setattr(source, "Producer", fails)
    task = Told([1], [5, 6, 7, 8, 9])
    made = run(task, fails)
    assert made.join(PATIENCE_S)
    assert made.state is State.FAILED
    assert fails.events[-1] == "abort"
    assert task.told == ["v1"]
