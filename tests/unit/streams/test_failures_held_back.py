"""Failures behind nodes that hold records back: the one at fault is the record that was held back, not the one that has
moved stream time and so made it go on. What Kafka Streams 4.3 does with the same topologies was looked at: its buffers
keep topic, partition and offset of the last update, and the record itself while it is in memory.

Of the record cache, which does the same, `test_record_cache.py` has the cases.
"""

from typing import Any

import pytest

from headwater.streams import App, ErrorPolicy, Failure, Materialized, StreamsError, tumbling
from headwater.streams.engine.failures import Verdict
from headwater.streams.engine.task import Task
from headwater.streams.model.record import InputRecord, RecordMetadata
from headwater.streams.stores.memory import MemoryState
from headwater.streams.testing.driver import Driver

NAMES = ("topic", "partition", "offset", "message")


def boom(value: str) -> str:
    if "bad" in value:
        raise ValueError(value)
    return value


def concat(one: str, other: str) -> str:
    return one + other


def suppressing(**options: Any) -> App:
    app = App("app", key="text", value="text", **options)
    joined = app.stream("in").group_by_key().windowed_by(tumbling(10, grace=0)).reduce(concat, store="kept")
    held = joined.suppress(until_window_closes=True).to_stream(lambda key, _: key.key)
    held.map_values(boom, name="failing").to("out")
    return app


def pipe(driver: Driver, *records: tuple[str, str, int]) -> None:
    for key, value, timestamp in records:
        driver.pipe("in", key, value, timestamp)


HELD = (("a", "bad", 1), ("b", "x", 2), ("a", "!", 3), ("z", "now", 30))


def letters(driver: Driver) -> list[tuple[Any, ...]]:
    found = []
    for letter in driver.read_raw("app-dead-letters"):
        headers = dict(letter.headers)
        told = [(headers[f"__streams.errors.{name}"] or b"").decode() for name in NAMES]
        found.append((letter.key, letter.value, letter.timestamp, *told))
    return found


def values(driver: Driver) -> list[tuple[Any, Any]]:
    return [(record.key, record.value) for record in driver.read("out")]


def test_what_was_suppressed_fails_with_the_record_of_its_last_update() -> None:
    driver = suppressing(on_error="dead_letter").test()
    pipe(driver, *HELD)
    assert letters(driver) == [(b"a", b"!", 3, "in", "0", "2", "bad!")]  # as Kafka Streams' letter
    assert values(driver) == [("b", "x")]
    assert driver.dropped == {"processing error": 1}


def test_the_error_names_the_record_that_was_suppressed() -> None:
    driver = suppressing().test()
    pipe(driver, *HELD[:3])
    with pytest.raises(StreamsError, match="failing of task 0_0, with the record at in-0 offset 2, held"):
        pipe(driver, HELD[3])


def test_a_function_for_failures_is_told_of_the_record_that_was_suppressed() -> None:
    seen: list[Failure] = []

    def decide(failure: Failure) -> Verdict:
        seen.append(failure)
        return "skip"

    driver = suppressing(on_error=ErrorPolicy(processing=decide)).test()
    pipe(driver, *HELD, ("z", "bad", 31), ("y", "then", 50))
    told = [(each.record and each.record.offset, each.metadata, each.timestamp, each.held_back) for each in seen]
    assert told == [(2, RecordMetadata("in", 0, 2), 3, True), (4, RecordMetadata("in", 0, 4), 31, True)]


def test_a_result_that_cannot_be_written_is_that_of_the_suppressed_record() -> None:
    app = App("app", key="text", value="text", on_error=ErrorPolicy(production="dead_letter"))
    table = app.table("in").suppress(until_time_limit=10)
    table.to_stream().map_values(lambda value: 5 if value == "bad" else value).to("out", value="text")
    driver = app.test()
    pipe(driver, ("a", "bad", 1), ("b", "x", 2), ("z", "now", 30))
    assert [letter[:6] for letter in letters(driver)] == [(b"a", b"bad", 1, "in", "0", "0")]
    assert values(driver) == [("b", "x")]


def test_after_a_restart_only_where_the_suppressed_record_was_read_is_known() -> None:
    """The buffer has it from its changelog, as in Kafka Streams. The next failure has its own record again."""
    app, state = suppressing(on_error="dead_letter"), MemoryState()
    (plan,) = app.topology().sub_topologies()

    def task_with(*records: tuple[str, str, int], first: int) -> Task:
        task = Task(plan, 0, app.settings(), state)
        task.add(
            "in",
            [
                InputRecord("in", 0, offset, timestamp, key.encode(), value.encode())
                for offset, (key, value, timestamp) in enumerate(records, first)
            ],
        )
        task.process()
        return task

    assert task_with(*HELD[:3], first=0).collect().records == []
    state.commit({})
    task = task_with(HELD[3], ("z", "bad", 31), ("y", "then", 50), first=3)
    first, second = [record for record in task.collect().records if record.topic == "app-dead-letters"]
    assert (first.key, first.value, first.timestamp) == (None, None, 3)
    assert dict(first.headers)["__streams.errors.offset"] == b"2"
    assert (second.key, second.value, second.timestamp) == (b"z", b"bad", 31)


def test_windows_that_are_emitted_on_close_fail_with_the_record_that_closes_them() -> None:
    """As in Kafka Streams: a window is of many records, and its store keeps none of them."""
    app = App("app", key="text", value="text", on_error="dead_letter")
    windows = app.stream("in").group_by_key().windowed_by(tumbling(10, grace=0)).emit("close")
    windows.reduce(concat).to_stream(lambda key, _: key.key).map_values(boom).to("out")
    driver = app.test()
    pipe(driver, ("a", "bad", 1), ("b", "x", 2), ("z", "now", 12))
    assert letters(driver) == [(b"z", b"now", 12, "in", "0", "2", "bad")]
    assert values(driver) == [("b", "x")]


def joining(in_joiner: bool, **options: Any) -> Driver:
    app = App("app", key="text", value="text", **options)
    table = app.table("t", store=Materialized("t", history_ms=1000))

    def joiner(value: str, row: str) -> str:
        return (boom(value) if in_joiner else value) + row

    joined = app.stream("in").join(table, joiner, grace_ms=10)
    joined.map_values(boom).to("out")
    driver = app.test()
    driver.pipe("t", "a", "T", 0)
    return driver


JOINED = (("a", "bad", 1), ("a", "x", 2), ("a", "now", 30), ("a", "then", 50))


@pytest.mark.parametrize("in_joiner", [False, True])
def test_a_record_that_waited_for_a_join_fails_itself_and_once(in_joiner: bool) -> None:
    """The record itself was written to the buffer without the bytes that it was read as: its letter has none, as in
    Kafka Streams. There, one that the join's own function fails on stays in the buffer, and every later record fails
    with it.
    """
    driver = joining(in_joiner, on_error="dead_letter")
    pipe(driver, *JOINED)
    assert letters(driver) == [(None, None, 1, "in", "0", "0", "bad" if in_joiner else "badT")]
    assert values(driver) == [("a", "xT"), ("a", "nowT")]
    strict = joining(in_joiner)
    pipe(strict, *JOINED[:2])
    with pytest.raises(StreamsError, match="with the record at in-0 offset 0, held back until now"):
        pipe(strict, *JOINED[2:])
