"""Which time a record has, and times that live on when a task is made anew."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.streams import (
    App,
    Context,
    JoinWindows,
    Materialized,
    Processor,
    Record,
    log_and_skip_on_invalid_timestamp,
    processing_time,
    session,
    sliding,
    tumbling,
    use_partition_time_on_invalid_timestamp,
)
from headwater.streams.engine.task import Task
from headwater.streams.model.record import InputRecord
from headwater.streams.stores.memory import MemoryState


def times(app: App, *timestamps: int, value: object = None, now_ms: int = 0) -> list[int]:
    app.stream("in").to("out")
    driver = app.test(now_ms=now_ms)
    for timestamp in timestamps:
        driver.pipe("in", "k", value if value is not None else "x", timestamp)
    return [record.timestamp for record in driver.read("out")]


def test_a_negative_timestamp_fails_by_default() -> None:
    assert times(App("app"), 5, 3) == [5, 3]
    with pytest.raises(UserError, match="no valid timestamp"):
        times(App("app"), -1)


def test_the_stock_extractors_for_invalid_timestamps() -> None:
    assert times(App("app", timestamp=log_and_skip_on_invalid_timestamp), 5, -1, 6) == [5, 6]
    assert times(App("app", timestamp=use_partition_time_on_invalid_timestamp), 5, 2, -1, 7, -1) == [5, 2, 5, 7, 7]
    with pytest.raises(UserError, match="nothing before it"):
        times(App("app", timestamp=use_partition_time_on_invalid_timestamp), -1)


def test_processing_time_is_the_clock_of_the_task() -> None:
    assert times(App("app", timestamp=processing_time), 5, -7, now_ms=1000) == [1000, 1000]


@pytest.mark.parametrize(
    "extract",
    [
        lambda value: value["at"],
        lambda value: datetime.fromtimestamp(value["at"] / 1000, UTC),
        lambda record, partition_time: record.value["at"] if partition_time < 0 else -1,
        lambda record, raw, partition_time: record.value["at"] + raw.offset,
    ],
)
def test_extractors_of_ones_own(extract) -> None:
    assert times(App("app", timestamp=extract), 1, value={"at": 9000}) == [9000]


def test_a_datetime_of_an_extractor_is_exact_to_the_millisecond() -> None:
    """As a float, one in 160 was a millisecond less."""
    app = App("app", value="json", timestamp=lambda value: datetime.fromisoformat(value))
    moments = ["1987-05-08T20:00:33.458+00:00", "2026-07-01T00:00:00+02:00", "1970-01-01T00:00:00.001999+00:00"]
    app.stream("in").to("out")
    with app.test() as driver:
        for moment in moments:
            driver.pipe("in", "k", moment, 0)
        assert [record.timestamp for record in driver.read("out")] == [547_502_433_458, 1_782_856_800_000, 1]


@pytest.mark.parametrize("extract", [lambda value: "noon", lambda value: datetime(2026, 1, 1)])  # noqa: DTZ001
def test_what_an_extractor_may_not_give(extract) -> None:
    with pytest.raises(UserError):
        times(App("app", timestamp=extract), 1)


def test_topics_that_match_a_pattern() -> None:
    app = App("app", value="text")
    app.stream(pattern="orders-.*").to("out")
    assert "Source: KSTREAM-SOURCE-0000000000 (topics: orders-.*)" in app.describe()
    driver = app.test(partitions=2)
    driver.pipe("orders-de", "k", "a", 1)
    driver.pipe("orders-fr", "k", "b", 2)
    assert [record.value for record in driver.read("out")] == ["a", "b"]
    with pytest.raises(UserError, match="Nothing reads"):
        driver.pipe("payments", "k", "c", 3)
    with pytest.raises(UserError, match="is known when the application starts"):
        app.topology().sub_topologies()[0].source_topics  # noqa: B018


@pytest.mark.parametrize(
    "windows", [tumbling(10, grace=5), session(10, grace=5), sliding(10, grace=5)], ids=["time", "session", "sliding"]
)
@pytest.mark.parametrize("emit", ["update", "close"])
def test_a_task_made_anew_on_its_state_goes_on_as_if_nothing_had_happened(windows, emit) -> None:
    """Late records stay late, and nothing is emitted twice: outputs are those of one task that lives on."""
    records = [("a", 12), ("b", 14), ("a", 40), ("a", 13), ("c", 41), ("a", 38), ("b", 90), ("b", 60), ("a", 91)]

    def run(lives: int) -> list[object]:
        app = App("app", value="text")
        stream = app.stream("in").group_by_key().windowed_by(windows).emit(emit)
        stream.count(store=Materialized("s", retention_ms=1000)).to_stream().to("out")
        plan, state, found = app.topology().sub_topologies()[0], MemoryState(), []
        task = Task(plan, 0, app.settings(emit_interval_ms=0), state)
        for offset, (key, timestamp) in enumerate(records):
            if offset % max(1, len(records) // lives) == 0:
                task = Task(plan, 0, app.settings(emit_interval_ms=0), state)
            task.add("in", [InputRecord("in", 0, offset, timestamp, key.encode(), b"x")])
            while task.process_next():
                pass
            found += task.collect().records
            state.commit({})
        return found

    assert run(len(records)) == run(1)
    assert run(1)


class Ticking(Processor):
    def init(self, context: Context) -> None:
        self.schedules = [
            context.schedule(10, "stream", lambda now: context.forward(Record("stream", str(now), now))),
            context.schedule(25, "wall", lambda now: context.forward(Record("wall", str(now), now))),
            context.schedule(7, "stream", self.once),
        ]

    def once(self, now: int) -> None:
        self.context.forward(Record("once", str(now), now))
        self.schedules[2].cancel()

    def process(self, record: Record) -> None:
        self.forward(record)


def test_punctuators_are_due_when_they_were() -> None:
    def run(anew: bool) -> list[object]:
        app = App("app", value="text")
        app.stream("in").process(Ticking).to("out")
        plan, state, found = app.topology().sub_topologies()[0], MemoryState(), []
        task = Task(plan, 0, app.settings(), state)
        for offset, timestamp in enumerate([1, 8, 12, 13, 29, 30, 31]):
            if anew:
                task = Task(plan, 0, app.settings(), state, now_ms=offset * 10)
            task.add("in", [InputRecord("in", 0, offset, timestamp, b"k", b"v")])
            task.process()
            task.punctuate(offset * 10)
            found += [record for record in task.collect().records if record.key != b"k"]
            state.commit({})
        return found

    assert run(anew=True) == run(anew=False)
    fired = [(record.key, record.timestamp) for record in run(anew=True)]
    assert fired == [
        (b"stream", 1),
        (b"once", 1),
        (b"stream", 12),
        (b"wall", 30),
        (b"stream", 29),
        (b"stream", 30),
        (b"wall", 50),
    ]


def _left_join(app: App) -> None:
    window = JoinWindows(5, 5, 10)
    app.stream("a").left_join(app.stream("b"), lambda one, two: f"{one}+{two}", window=window).to("out")


def _outer_join(app: App) -> None:
    window = JoinWindows(5, 5, 10)
    app.stream("a").outer_join(app.stream("b"), lambda one, two: f"{one}+{two}", window=window).to("out")


def _versioned_join(app: App) -> None:
    table = app.table("b", store=Materialized("v", history_ms=1000))
    app.stream("a").left_join(table, lambda one, two: f"{one}+{two}", grace_ms=20).to("out")


def _suppressed(app: App) -> None:
    counts = app.stream("a", "b").group_by_key().windowed_by(tumbling(10, grace=5)).count()
    counts.suppress(until_window_closes=True).to_stream().to("out")


def _held_back(app: App) -> None:
    app.stream("a", "b").to_table().suppress(until_time_limit=10).to_stream().to("out")


@pytest.mark.parametrize("build", [_left_join, _outer_join, _versioned_join, _suppressed, _held_back])
def test_what_waits_goes_on_waiting(build) -> None:
    def run(anew: bool) -> list[object]:
        app = App("app", value="text")
        build(app)
        plan, state, found = app.topology().sub_topologies()[0], MemoryState(), []
        settings = app.settings(emit_interval_ms=0)
        task = Task(plan, 0, settings, state)
        records = [("a", "k", 10), ("b", "l", 12), ("a", "m", 13), ("b", "k", 14), ("a", "k", 3), ("b", "m", 40)]
        records += [
            ("a", "l", 41),
            ("b", "l", 21),
            ("a", "n", 80),
            ("b", "n", 81),
            ("a", "k", 120),
            ("b", "k", 121),
            ("a", "n", 111),
        ]
        records += [
            ("b", "m", 112),
            ("a", "m", 104),
            ("a", "l", 190),
            ("b", "k", 150),
            ("a", "k", 151),
            ("a", "k", 230),
        ]
        for offset, (topic, key, timestamp) in enumerate(records):
            if anew:
                task = Task(plan, 0, settings, state)
            task.add(topic, [InputRecord(topic, 0, offset, timestamp, key.encode(), str(timestamp).encode())])
            while task.process_next():
                pass
            found.append(task.collect().records)
            state.commit({})
        return found

    assert run(anew=True) == run(anew=False)
    assert sum(map(len, run(anew=False))) > 3


@pytest.mark.parametrize(
    ("extract", "why"),
    [
        (lambda value: value["at"], "KeyError: 'at'"),
        (lambda value: None, "gave None"),
        (lambda value: datetime(2026, 1, 1), "2026-01-01 00:00:00 has no time zone"),  # noqa: DTZ001 - that is what is refused
    ],
)
def test_an_extractor_that_fails_is_told_with_the_record(extract: Callable[[Any], Any], why: str) -> None:
    """It was a bare KeyError: nobody could tell which record, and of which topic."""
    app = App("app", key="text", value="json", timestamp=extract)
    with pytest.raises(
        UserError, match=rf"extractor of KSTREAM-SOURCE-\d+ failed, with the record at in-0 offset 0.*{why}"
    ):
        times(app, 1, value={"a": 1})
