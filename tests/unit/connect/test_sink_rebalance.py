"""A put that is tried again while the group rebalances: nothing that was not put is ever committed over.

The sink's loop runs against a consumer in memory; what a poll does to the group is a script, and time passes by polls
alone.
"""

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client import ConsumerRecord
from headwater.connect.api import SinkTask
from headwater.connect.connector_config.common import connector_def
from headwater.connect.data.record import SinkRecord
from headwater.connect.errors import ConnectError, RetriableError
from headwater.connect.plugins import Catalog, Kind
from headwater.connect.runtime import sink
from headwater.connect.runtime.pipeline import Pipeline
from headwater.connect.runtime.sink import SinkWorkerTask
from headwater.connect.runtime.task import TaskId
from headwater.connect.runtime.tolerance import Failure

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
PROPS = {"name": "c", "connector.class": "C", "topics": "t"}
WORKER = {"key.converter": "StringConverter", "value.converter": "StringConverter"}


class Group:
    """One member's view: what is assigned, where it reads, what is committed. `script` has one step per poll."""

    def __init__(self, script: list[Callable[["Group"], None]], records: int) -> None:
        self.script, self.end = script, records
        self.position: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        self.leaks = False  # the next poll gives records in spite of a pause
        self.now = 0.0
        self.over: Callable[[], None] = lambda: None
        self.cancel: Callable[[], None] = lambda: None
        self.on_revoked: Callable[[list[TopicPartition]], None] = lambda _partitions: None

    # What the task uses of a Consumer

    def __call__(self, settings: dict[str, str]) -> "Group":
        self.settings = settings
        return self

    def list_topics(self) -> list[str]:
        return ["t"]

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_error: object) -> None:
        self.revoke(*self.position)

    def subscribe(self, _topics: list[str], *, on_assigned: Any, on_revoked: Any, on_lost: Any) -> None:
        self.on_assigned, self.on_revoked, self.on_lost = on_assigned, on_revoked, on_lost

    def assignment(self) -> list[TopicPartition]:
        return list(self.position)

    def pause(self, *partitions: TopicPartition) -> None:
        assert all(each in self.position for each in partitions)
        self.paused.update(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        assert all(each in self.position for each in partitions)
        self.paused.difference_update(partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        assert partition in self.position
        self.position[partition] = offset

    def commit(self, offsets: dict[TopicPartition, int]) -> None:
        assert all(each in self.position for each in offsets)
        self.committed.update(offsets)

    def wakeup(self) -> None: ...

    def poll(self, timeout: float) -> list[ConsumerRecord]:
        self.now += timeout
        if not self.script:
            self.over()
            return []
        self.script.pop(0)(self)
        readable = [each for each in self.position if self.leaks or each not in self.paused]
        self.leaks = False
        made = [record(each, at) for each in readable for at in range(self.position[each], self.end)]
        self.position.update(dict.fromkeys(readable, self.end))
        return made

    # What others do

    def assign(self, *partitions: TopicPartition) -> None:
        self.position.update({each: self.committed.get(each, 0) for each in partitions})
        self.on_assigned(list(partitions))

    def revoke(self, *partitions: TopicPartition) -> None:
        self.on_revoked(list(partitions))
        self._forget(partitions)

    def lose(self, *partitions: TopicPartition) -> None:
        self._forget(partitions)
        self.on_lost(list(partitions))

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for each in partitions:
            self.position.pop(each)
            self.paused.discard(each)


def record(partition: TopicPartition, offset: int) -> ConsumerRecord:
    return ConsumerRecord(*partition, offset, 0, 0, None, b"v", (), 0)


class Refusing(SinkTask):
    """Asks for another try of the first records that it is given."""

    def __init__(self, refusals: int = 1, wanted: dict[TopicPartition, int] | None = None) -> None:
        self.put_offsets: list[tuple[int, int]] = []
        self.refusals, self.wanted = refusals, wanted or {}

    def start(self, props: object) -> None: ...

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        self.context.offset({each: self.wanted[each] for each in partitions if each in self.wanted})

    def put(self, records: Sequence[SinkRecord]) -> None:
        if records and self.refusals:
            self.refusals -= 1
            self.context.timeout(2000)
            raise RetriableError("not now")
        self.put_offsets += [(each.original_partition, each.offset) for each in records]
        self.context.request_commit()

    def stop(self) -> None: ...


def run(
    monkeypatch: pytest.MonkeyPatch,
    *script: Callable[[Group], None],
    records: int = 2,
    task: Refusing | None = None,
    **more: str,
) -> tuple[Group, Refusing]:
    group, task, catalog = Group(list(script), records), task or Refusing(), Catalog()
    props = PROPS | more
    config = connector_def(catalog, Kind.SINK).parse(props)
    clock = SimpleNamespace(monotonic=lambda: group.now, monotonic_ns=lambda: int(group.now * 1e9))
    monkeypatch.setattr(sink, "Consumer", group)
    monkeypatch.setattr(sink, "time", clock)
    worker = SinkWorkerTask(
        TaskId("c", 0), lambda: task, lambda: Pipeline(catalog, props, config, WORKER), props, config, {}, {}, {},
        flush_interval_s=60.0, on_topic=lambda _topic: None,
    )  # fmt: skip
    group.over, group.cancel = worker.stopping.set, worker.cancel
    worker.work()
    return group, task


def nothing(_group: Group) -> None: ...


def moved_on(group: Group) -> None:
    """The wait of the put is over."""
    group.now += 10


def test_a_topic_that_a_pattern_has_found_is_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker made a deleted topic anew, for the consumer asked for it by its name."""
    asks = "allow.auto.create.topics"
    by_pattern, _ = run(monkeypatch, nothing, topics="", **{"topics.regex": "t.*"})
    assert by_pattern.settings[asks] == "false"
    by_name, _ = run(monkeypatch, nothing)
    assert asks not in by_name.settings


@pytest.mark.parametrize("away", [(1,), (2,), (1, 2)])
def test_a_pattern_is_matched_again_when_the_brokers_are_back(
    monkeypatch: pytest.MonkeyPatch, away: tuple[int, ...]
) -> None:
    """The task failed at once; one whose topics are named waits."""
    asked = 0

    def list_topics(_group: Group) -> list[str]:
        nonlocal asked
        asked += 1
        if asked in away:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no bootstrap server could be reached")
        return ["t"] if asked < 4 else ["t", "tt"]

    subscribed: list[list[str]] = []
    real = Group.subscribe

    def subscribe(group: Group, topics: list[str], **listeners: Any) -> None:
        subscribed.append(topics)
        real(group, topics, **listeners)

    monkeypatch.setattr(Group, "list_topics", list_topics)
    monkeypatch.setattr(Group, "subscribe", subscribe)
    monkeypatch.setattr(SinkWorkerTask, "sleep", lambda self, seconds: moved_on(self.consumer))
    run(monkeypatch, *[moved_on] * 5, topics="", **{"topics.regex": "t+"})
    assert subscribed == [["t"], ["t", "tt"]]


def test_a_pattern_that_may_not_be_matched_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_group: Group) -> list[str]:
        raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, "no")

    monkeypatch.setattr(Group, "list_topics", refuse)
    with pytest.raises(KafkaError, match="SASL"):
        run(monkeypatch, nothing, topics="", **{"topics.regex": "t+"})


def all_were_put(task: Refusing, group: Group) -> None:
    """Each offset below a commit was put; and all that there is was committed."""
    for partition in (ZERO, ONE):
        put = {offset for number, offset in task.put_offsets if number == partition.partition}
        assert put == set(range(group.committed[partition])), partition
        assert group.committed[partition] == group.end


def test_partitions_that_come_back_while_a_put_waits_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def away_and_back(group: Group) -> None:
        group.end = 4
        group.revoke(ZERO, ONE)
        group.assign(ZERO, ONE)

    group, task = run(monkeypatch, lambda g: g.assign(ZERO, ONE), away_and_back, moved_on, nothing)
    all_were_put(task, group)


def test_a_partition_that_comes_while_a_put_waits_is_not_read_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    group, task = run(monkeypatch, lambda g: g.assign(ZERO), lambda g: g.assign(ONE), moved_on, nothing)
    all_were_put(task, group)


def test_records_that_a_waiting_poll_gives_all_the_same_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def leak(group: Group) -> None:
        group.assign(ONE)
        group.leaks = True

    group, task = run(monkeypatch, lambda g: g.assign(ZERO), leak, moved_on, nothing)
    all_were_put(task, group)


@pytest.mark.parametrize("take", [Group.revoke, Group.lose])
def test_what_is_anothers_by_then_is_neither_put_nor_committed(
    monkeypatch: pytest.MonkeyPatch, take: Callable[..., None]
) -> None:
    group, task = run(monkeypatch, lambda g: g.assign(ZERO, ONE), lambda g: take(g, ONE), moved_on, nothing)
    assert task.put_offsets == [(0, 0), (0, 1)]
    assert group.committed == {ZERO: 2}


def test_everything_is_read_again_after_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def more(group: Group) -> None:
        group.end = 4

    group, task = run(monkeypatch, lambda g: g.assign(ZERO, ONE), moved_on, more)
    all_were_put(task, group)
    assert len(task.put_offsets) == 8


def test_a_task_that_was_given_up_commits_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    group, task = run(monkeypatch, lambda g: g.assign(ZERO, ONE), lambda g: g.cancel(), moved_on, nothing)
    assert task.put_offsets
    assert group.committed == {}


def test_a_task_reads_from_where_it_asks_to_when_it_is_given_a_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll that gives it the partition may have its records too."""

    def assigned(group: Group) -> None:
        group.committed[ZERO] = 3
        group.assign(ZERO)

    group, task = run(monkeypatch, assigned, nothing, records=5, task=Refusing(0, {ZERO: 1}))
    assert task.put_offsets == [(0, each) for each in range(1, 5)]
    assert group.committed == {ZERO: 5}


class Holding(Refusing):
    """Wants no more of a partition when it has had the first records of it."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        super().put(records)
        if any(each.original_partition == 1 for each in records) and not self.refusals:
            self.context.pause(ONE)


def test_what_a_task_has_paused_stays_paused_where_a_rebalance_leaves_it_the_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with Kafka Connect: the task was given records that it had no room for."""

    def away_and_back(group: Group) -> None:
        group.revoke(ZERO, ONE)
        group.assign(ZERO, ONE)
        group.end = 4

    group, task = run(monkeypatch, lambda g: g.assign(ZERO, ONE), away_and_back, nothing, task=Holding(0))
    assert group.committed == {ZERO: 4, ONE: 2}
    assert (1, 2) not in task.put_offsets


def test_what_a_task_had_paused_is_read_when_it_comes_back_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next retry of a put, or pause of the connector, paused it again, and nothing resumed it."""
    task = Refusing(0)

    def hold(_group: Group) -> None:
        task.context.pause(ONE)

    def away(group: Group) -> None:
        group.lose(ONE)
        group.assign()

    def back(group: Group) -> None:
        group.assign(ONE)
        group.end, task.refusals = 3, 1

    def more(group: Group) -> None:
        group.end = 5

    group, _ = run(monkeypatch, lambda g: g.assign(ZERO, ONE), hold, away, back, moved_on, more, task=task)
    all_were_put(task, group)


class Unsafe(Refusing):
    """Its buffer gets lost before it is written, once."""

    def __init__(self, error: type[Exception]) -> None:
        super().__init__(refusals=0)
        self.errors, self.closed = [error], list[TopicPartition]()

    def flush(self, offsets: Any) -> None:
        if self.errors:
            raise self.errors.pop()("not written")

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        self.closed += partitions


def test_what_a_flush_could_not_write_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Kafka Connect; the task failed, and with errors.restart=false for good."""
    task = Unsafe(RetriableError)
    group, _ = run(monkeypatch, lambda g: g.assign(ZERO, ONE), nothing, nothing, task=task)
    assert sorted(task.put_offsets) == [(0, 0), (0, 0), (0, 1), (0, 1), (1, 0), (1, 0), (1, 1), (1, 1)]
    all_were_put(task, group)


def test_a_flush_that_fails_for_good_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="not written"):
        run(monkeypatch, lambda g: g.assign(ZERO), nothing, task=Unsafe(ValueError))


@pytest.mark.parametrize("error", [RetriableError, ValueError])
def test_a_partition_is_given_up_though_its_flush_fails(
    monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """The next owner reads from the commit before; `close` was not called, and the task failed."""
    task = Unsafe(error)
    task.context = None  # type: ignore[assignment]

    def given_up(group: Group) -> None:
        group.revoke(ZERO)
        assert task.closed == [ZERO]
        assert group.committed == {}

    monkeypatch.setattr(Unsafe, "put", lambda self, records: None)
    group, _ = run(monkeypatch, lambda g: g.assign(ZERO, ONE), given_up, task=task)
    assert task.closed == [ZERO, ONE]
    assert group.committed == {ONE: 2}


class Letters:
    """A dead letter topic. `lost`: what is sent to it does not arrive, which the next flush tells."""

    def __init__(self, lost: bool) -> None:
        self.lost, self.sent, self.safe = lost, 0, 0
        self.records: list[Any] = []

    def __call__(self, *_settings: object) -> "Letters":
        return self

    def report(self, failure: Failure) -> None:
        self.sent += 1
        self.records.append(failure.record)

    def flush(self) -> None:
        if self.lost and self.sent:
            self.lost = False
            raise ConnectError("the dead letter topic is away")
        self.safe = self.sent

    def close(self) -> None: ...


class Keeping(Refusing):
    """Keeps offsets in its target: what it is given is done when `put` returns."""

    def __init__(self, letters: Letters) -> None:
        super().__init__(refusals=0)
        self._letters, self.safe_at_put = letters, list[int]()

    def put(self, records: Sequence[SinkRecord]) -> None:
        if records:
            self.safe_at_put.append(self._letters.safe)
        super().put(records)


@pytest.mark.parametrize("lost", [False, True])
def test_dead_letters_are_safe_before_a_task_gets_what_is_behind_them(
    monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    """A worker that was killed in between went on behind the record, in the target's own offsets."""
    letters = Letters(lost)
    task = Keeping(letters)
    monkeypatch.setattr(sink, "DeadLetters", letters)
    bad, good = record(ZERO, 0), record(ZERO, 1)._replace(value=b'"v"')
    monkeypatch.setattr(Group, "poll", lambda group, timeout: given(group, timeout, [bad, good]))
    more = {
        "value.converter": "JsonConverter", "value.converter.schemas.enable": "false", "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
    }  # fmt: skip
    if lost:
        with pytest.raises(ConnectError, match="away"):
            run(monkeypatch, lambda g: g.assign(ZERO), task=task, **more)
        assert task.put_offsets == []
    else:
        group, _ = run(monkeypatch, lambda g: g.assign(ZERO), task=task, **more)
        assert (task.safe_at_put, task.put_offsets, group.committed) == ([1], [(0, 1)], {ZERO: 2})


class Late(Refusing):
    """Reports the records of a put in the next one, as a task does that writes several puts at once."""

    def __init__(self) -> None:
        super().__init__(refusals=0)
        self._before: list[SinkRecord] = []

    def put(self, records: Sequence[SinkRecord]) -> None:
        super().put(records)
        for each in self._before:
            self.context.report(each, ValueError("no row"))
        self._before = list(records)


def test_a_record_of_an_earlier_put_is_a_dead_letter_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """What converters and transforms had made of it was sent, and failed the task."""
    letters, puts = Letters(lost=False), [[record(ZERO, at)._replace(value=b'{"a":1}') for at in range(20)]]
    first = list(puts[0])
    monkeypatch.setattr(sink, "DeadLetters", letters)
    monkeypatch.setattr(Group, "poll", lambda group, timeout: given(group, timeout, puts.pop() if puts else []))
    more = {
        "value.converter": "JsonConverter", "value.converter.schemas.enable": "false", "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead", "transforms": "r", "transforms.r.type": "RegexRouter",
        "transforms.r.regex": ".*", "transforms.r.replacement": "other",
    }  # fmt: skip
    run(monkeypatch, lambda g: g.assign(ZERO), nothing, task=Late(), **more)
    assert letters.records == first


def test_a_record_that_a_task_made_itself_is_a_dead_letter_by_the_converters(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(Refusing):
        def put(self, records: Sequence[SinkRecord]) -> None:
            super().put(records)
            for each in records:
                made = SinkRecord(topic=each.topic, partition=0, key="k", value={"b": 2}, offset=each.offset)
                self.context.report(made, ValueError("no row"))

    letters = Letters(lost=False)
    monkeypatch.setattr(sink, "DeadLetters", letters)
    more = {
        "value.converter": "JsonConverter", "value.converter.schemas.enable": "false", "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": "dead",
    }  # fmt: skip
    good = record(ZERO, 3)._replace(value=b"{}")
    monkeypatch.setattr(Group, "poll", lambda group, timeout: given(group, timeout, [good]))
    run(monkeypatch, lambda g: g.assign(ZERO), task=Own(refusals=0), **more)
    assert letters.records == [ConsumerRecord("t", 0, 3, -1, 0, b"k", b'{"b":2}', (), -1)]


class Reporting(Refusing):
    """Reports the first record of each put."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        super().put(records)
        for each in records[:1]:
            self.context.report(each, ValueError("no row"))


DEAD_LETTERS = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}


def test_nothing_is_committed_behind_a_dead_letter_that_was_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The task failed over it, and its last commit, when it left the group, covered the record all the same."""
    groups: list[Group] = []

    def first(group: Group) -> None:
        groups.append(group)
        group.assign(ZERO)

    monkeypatch.setattr(sink, "DeadLetters", Letters(lost=True))
    with pytest.raises(ConnectError, match="away"):
        run(monkeypatch, first, nothing, nothing, task=Reporting(0), **DEAD_LETTERS)
    assert groups[0].committed == {}


def test_a_dead_letter_that_is_found_lost_when_a_partition_goes_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its partition's last commit found it, and nobody else heard: the next commit of the others covered their records
    too.
    """
    groups: list[Group] = []

    def first(group: Group) -> None:
        groups.append(group)
        group.assign(ZERO, ONE)

    def away(group: Group) -> None:
        group.revoke(ONE)

    monkeypatch.setattr(sink, "DeadLetters", Letters(lost=True))
    monkeypatch.setattr(Refusing, "context", None, raising=False)
    task = Reporting(0)
    with pytest.raises(ConnectError, match="away"):
        run(monkeypatch, first, away, nothing, task=task, **DEAD_LETTERS)
    assert groups[0].committed == {}


def test_what_a_task_resumes_gives_nothing_while_the_connector_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with Kafka Connect: a paused connector went on moving records when its task had room again."""
    task = Refusing(0)

    def full(group: Group) -> None:
        group.assign(ZERO)
        task.context.pause(ZERO)
        task.context._worker.set_paused(True)

    def drained(group: Group) -> None:
        assert ZERO in group.paused
        task.context.resume(ZERO)

    def still_paused(group: Group) -> None:
        assert ZERO in group.paused
        task.context._worker.set_paused(False)

    group, _ = run(monkeypatch, full, drained, still_paused, nothing, nothing, task=task)
    assert task.put_offsets == [(0, 0), (0, 1)]
    assert group.committed == {ZERO: 2}


def given(group: Group, timeout: float, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
    group.now += timeout
    if not group.script:
        group.over()
        return []
    group.script.pop(0)(group)
    return records
