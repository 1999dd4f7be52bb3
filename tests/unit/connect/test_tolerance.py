"""Errors of records and tasks: retried, skipped, reported, restarted."""

import asyncio
from typing import Any

import pytest

from headwater.client.consumer.record import ConsumerRecord
from headwater.client.types import NewTopic
from headwater.connect.errors import ConnectError, DataError, Interrupted, RetriableError
from headwater.connect.runtime.task import State, TaskId, WorkerTask, restart_delay_s
from headwater.connect.runtime.tolerance import Failure, Skipped, Stage, Tolerance, context_headers, retry_delay_ms
from headwater.connect.runtime.topic_creation import TopicCreation


class World:
    """A clock that moves when somebody sleeps."""

    def __init__(self, **config: Any) -> None:
        self.now_ms = 0
        self.reported: list[Failure] = []
        settings = {"errors.retry.timeout": 0, "errors.retry.delay.max.ms": 60_000, "errors.tolerance": "none"}
        self.tolerance = Tolerance({**settings, **config}, [self], lambda: self.now_ms, self.sleep)

    def sleep(self, seconds: float) -> bool:
        self.now_ms += int(seconds * 1000)
        return False

    def report(self, failure: Failure) -> None:
        self.reported.append(failure)

    def run(self, *outcomes: Any) -> Any:
        left = list(outcomes)

        def operation() -> Any:
            outcome = left.pop(0)
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        return self.tolerance.run(Stage.TRANSFORMATION, "a.B", "record", operation)


def test_an_error_ends_the_task_unless_it_is_tolerated() -> None:
    world = World()
    with pytest.raises(ConnectError, match="Tolerance exceeded"):
        world.run(DataError("no"))
    assert world.reported[0].stage is Stage.TRANSFORMATION
    with pytest.raises(Skipped):
        World(**{"errors.tolerance": "all"}).run(DataError("no"))


def test_what_can_be_retried_is_for_as_long_as_it_is_allowed() -> None:
    world = World(**{"errors.retry.timeout": 1000})
    assert world.run(RetriableError(), RetriableError(), "done") == "done"
    assert world.now_ms == 300 + 600
    with pytest.raises(ConnectError):
        world.run(*[RetriableError()] * 10)
    assert world.now_ms == 900 + 1000
    with pytest.raises(ConnectError):
        World().run(RetriableError(), "never asked")


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_record_whose_next_try_a_stop_prevents_is_not_passed_over(tolerance: str) -> None:
    """The registry was away, and the worker was stopped: with errors.tolerance=all the record was lost."""
    world = World(**{"errors.retry.timeout": -1, "errors.tolerance": tolerance})
    world.tolerance._sleep = lambda _seconds: True
    with pytest.raises(Interrupted):
        world.run(RetriableError("away"), "never asked")
    assert world.reported == []


def test_pauses_double_up_to_their_limit() -> None:
    assert [retry_delay_ms(n, 0, 0, -1, 2000) for n in (1, 2, 3, 4, 99)] == [300, 600, 1200, 2000, 2000]
    assert retry_delay_ms(1, 0, 500, 500, 2000) is None
    assert retry_delay_ms(5, 0, 400, 500, 2000) == 100


def test_the_headers_of_dead_letters_are_kafka_connects() -> None:
    record = ConsumerRecord("t", 3, 44, 0, 0, b"k", b"v", (), -1)
    failure = Failure(Stage.VALUE_CONVERTER, "a.JsonConverter", DataError("bad hunter2"), record, 1)
    found = dict(context_headers(failure, "c", 5, lambda text: text.replace("hunter2", "***")))
    assert [name.removeprefix("__connect.errors.") for name in found] == [
        *("topic", "partition", "offset", "connector.name", "task.id", "stage", "class.name"),
        *("exception.class.name", "exception.message", "exception.stacktrace"),
    ]
    assert found["__connect.errors.exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    assert found["__connect.errors.offset"] == b"44"
    assert found["__connect.errors.exception.message"] == b"bad ***"
    assert b"hunter2" not in found["__connect.errors.exception.stacktrace"]


class Task(WorkerTask):
    def __init__(self, *outcomes: Exception | None, restart: bool) -> None:
        super().__init__(TaskId("c", 0), restart=restart, secrets=frozenset({"hunter2"}))
        self.outcomes = list(outcomes)
        self.seen: list[State] = []

    def work(self) -> None:
        self.seen.append(self.state)
        self.running()
        outcome = self.outcomes.pop(0)
        if outcome is not None:
            raise outcome


def ended(task: Task) -> Task:
    task.start()
    assert task.join(60)
    return task


def test_a_failed_task_says_why_and_hides_secrets() -> None:
    task = ended(Task(DataError("no hunter2"), restart=False))
    assert task.state is State.FAILED
    assert task.trace is not None
    assert "no [hidden]" in task.trace


def test_a_failed_task_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.connect.runtime.task.RESTART_FIRST_S", 0.001)
    task = ended(Task(DataError("once"), DataError("twice"), None, restart=True))
    assert task.seen == [State.UNASSIGNED, State.FAILED, State.FAILED]
    assert task.restarts == 2
    assert task.state is State.UNASSIGNED


def test_pauses_between_restarts_double_up_to_five_minutes() -> None:
    assert [restart_delay_s(n) for n in (1, 2, 3, 50)] == [1, 2, 4, 300]


def test_methods_of_plugins_may_be_coroutines() -> None:
    class Async(Task):
        def work(self) -> None:
            self.answer = self.call(asyncio.sleep, 0, "awaited")

    task = Async(restart=False)
    ended(task)
    assert task.answer == "awaited"


def test_topics_are_made_as_their_group_says() -> None:
    props = {
        "topic.creation.default.partitions": "2",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.small.include": "s.*",
        "topic.creation.small.exclude": "sx",
        "topic.creation.small.partitions": "1",
        "topic.creation.small.cleanup.policy": "compact",
    }
    creation = TopicCreation(props, ["small"])
    small = creation.new_topic("sa")
    assert small is not None
    assert (small.partitions, dict(small.configs)) == (1, {"cleanup.policy": "compact"})
    for name in ("other", "sx"):
        made = creation.new_topic(name)
        assert made is not None
        assert made.partitions == 2
    assert not TopicCreation({}, []).wanted


def test_a_group_of_topics_has_the_counts_of_the_default_where_it_says_nothing() -> None:
    """It had the broker's, and without a default all groups were passed over."""
    props = {"topic.creation.g.include": "s.*", "topic.creation.g.retention.ms": "5"}
    counts = {"topic.creation.default.partitions": "2", "topic.creation.default.replication.factor": "3"}
    made = TopicCreation(props | counts, ["g"]).new_topic("s")
    assert made == NewTopic("s", 2, 3, {"retention.ms": "5"})
    alone = TopicCreation(props, ["g"])
    assert alone.wanted
    assert alone.new_topic("s") == NewTopic("s", -1, -1, {"retention.ms": "5"})
    assert alone.new_topic("t") is None
