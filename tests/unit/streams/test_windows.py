"""Windowed aggregations, worked out by hand: edges, late records, grace, order, emit on close."""

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from headwater.base.errors import UserError
from headwater.streams import (
    App,
    Materialized,
    daily,
    hopping,
    monthly,
    session,
    sliding,
    tumbling,
    unlimited,
    weekly,
    windowed_serde,
)
from headwater.streams.dsl.windows import milliseconds
from headwater.streams.model.windows import AnyWindows, CalendarWindows
from headwater.streams.testing.driver import Driver


def rows(driver: Driver, topic: str = "out") -> list[tuple[object, ...]]:
    """(key, start, end, value, timestamp)."""
    return [(*record.key, record.value, record.timestamp) for record in driver.read(topic)]


def counted(windows, emit: str = "update", **store) -> Driver:
    app = App("app", value="text")
    stream = app.stream("in").group_by_key().windowed_by(windows).emit(emit)  # type: ignore[arg-type]
    stream.count(store=Materialized("counts", **store)).to_stream().to("out")
    return app.test()


def pipe(driver: Driver, *records: tuple[str, int]) -> None:
    for key, timestamp in records:
        driver.pipe("in", key, "x", timestamp)


def test_tumbling_windows_and_their_edges() -> None:
    driver = counted(tumbling(10))
    pipe(driver, ("a", 0), ("a", 9), ("a", 10), ("b", 12), ("a", 11))
    assert rows(driver) == [
        ("a", 0, 10, 1, 0),
        ("a", 0, 10, 2, 9),
        ("a", 10, 20, 1, 10),
        ("b", 10, 20, 1, 12),
        ("a", 10, 20, 2, 11),
    ]


def test_another_keys_record_closes_a_window() -> None:
    driver = counted(tumbling(10, grace=5))
    pipe(driver, ("a", 1), ("b", 14), ("a", 2), ("b", 15), ("a", 3))
    assert rows(driver) == [("a", 0, 10, 1, 1), ("b", 10, 20, 1, 14), ("a", 0, 10, 2, 2), ("b", 10, 20, 2, 15)]
    assert driver.dropped == {"late": 1}


def test_the_timestamp_of_a_row_is_the_largest_of_its_records() -> None:
    driver = counted(tumbling(10))
    pipe(driver, ("a", 7), ("a", 3))
    assert rows(driver) == [("a", 0, 10, 1, 7), ("a", 0, 10, 2, 7)]


def test_hopping_windows_overlap() -> None:
    driver = counted(hopping(10, 4))
    pipe(driver, ("a", 3), ("a", 9))
    assert rows(driver) == [
        ("a", 0, 10, 1, 3),
        ("a", 0, 10, 2, 9),
        ("a", 4, 14, 1, 9),
        ("a", 8, 18, 1, 9),
    ]


def test_late_for_one_window_and_not_for_another() -> None:
    driver = counted(hopping(10, 5, grace=0))
    pipe(driver, ("b", 12), ("a", 7))
    assert rows(driver) == [("b", 5, 15, 1, 12), ("b", 10, 20, 1, 12), ("a", 5, 15, 1, 7)]
    assert driver.dropped == {"late": 1}


def test_unlimited_windows() -> None:
    driver = counted(unlimited(5))
    pipe(driver, ("a", 4), ("a", 5), ("a", 1_000_000))
    assert [(key, start, value) for key, start, _, value, _ in rows(driver)] == [("a", 5, 1), ("a", 5, 2)]
    with pytest.raises(UserError, match="never close"):
        counted(unlimited(), "close")


def test_records_without_a_value_count_and_an_aggregate_of_none_begins_anew() -> None:
    app = App("app", value="text")
    windowed = app.stream("in").group_by_key().windowed_by(tumbling(10))
    windowed.count().to_stream().to("count")
    windowed.aggregate(lambda: "", lambda total, value: value and total + value).to_stream().to("out")
    driver = app.test()
    for at, value in enumerate(["a", "b", None, "c"]):
        driver.pipe("in", "k", value, at)
    driver.pipe("in", None, "x", 5)
    assert [row[3] for row in rows(driver, "count")] == [1, 2, 3, 4]
    assert [row[3] for row in rows(driver)] == ["a", "ab", None, "c"]
    assert driver.dropped == {"null key": 2}


def test_emit_on_close_in_the_order_of_starts_and_keys() -> None:
    driver = counted(tumbling(10, grace=5), "close", retention_ms=1000)
    pipe(driver, ("b", 1), ("a", 2), ("a", 11), ("b", 14))
    assert rows(driver) == []
    pipe(driver, ("c", 15))
    assert rows(driver) == [("a", 0, 10, 1, 2), ("b", 0, 10, 1, 1)]
    pipe(driver, ("c", 16))
    assert rows(driver) == []
    pipe(driver, ("c", 40))
    assert rows(driver) == [("a", 10, 20, 1, 11), ("b", 10, 20, 1, 14), ("c", 10, 20, 2, 16)]


def test_emit_on_close_says_nothing_of_what_the_store_has_expired() -> None:
    """Kafka Streams' default retention is size and grace: a jump of stream time past both leaves nothing to emit."""
    driver = counted(tumbling(60_000), "close")
    pipe(driver, ("a", 1), ("a", 10_000_000))
    assert rows(driver) == []


def test_sessions_grow_and_merge() -> None:
    driver = counted(session(5, grace=100))
    pipe(driver, ("a", 10), ("a", 20), ("a", 25), ("a", 15), ("a", 15))
    assert rows(driver) == [
        ("a", 10, 10, 1, 10),
        ("a", 20, 20, 1, 20),
        ("a", 20, 20, None, 20),
        ("a", 20, 25, 2, 25),
        ("a", 10, 10, None, 10),
        ("a", 20, 25, None, 25),
        ("a", 10, 25, 4, 25),
        ("a", 10, 25, None, 25),
        ("a", 10, 25, 5, 25),
    ]


def test_a_late_record_may_join_a_session_that_is_open() -> None:
    driver = counted(session(5, grace=0))
    pipe(driver, ("a", 10), ("b", 14), ("a", 8), ("b", 30), ("a", 12))
    assert rows(driver) == [
        ("a", 10, 10, 1, 10),
        ("b", 14, 14, 1, 14),
        ("a", 10, 10, None, 10),
        ("a", 8, 10, 2, 10),
        ("b", 30, 30, 1, 30),
    ]
    assert driver.dropped == {"late": 1}


def test_sessions_emitted_on_close_by_their_end() -> None:
    driver = counted(session(5), "close", retention_ms=1000)
    pipe(driver, ("b", 1), ("a", 3), ("b", 4), ("a", 9), ("c", 10))
    assert rows(driver) == [("a", 3, 3, 1, 3), ("b", 1, 4, 2, 4)]


def test_session_aggregate_needs_a_merge() -> None:
    app = App("app", value="text")
    windowed = app.stream("in").group_by_key().windowed_by(session(5, grace=100))
    with pytest.raises(UserError, match="need a function"):
        windowed.aggregate(str, lambda total, value: total + value)
    windowed.aggregate(str, lambda total, value: total + value, lambda one, two: f"({one}{two})").to_stream().to("out")
    driver = app.test()
    for value, at in (("a", 0), ("b", 6), ("c", 3)):
        driver.pipe("in", "k", value, at)
    assert rows(driver)[-1] == ("k", 0, 6, "((a)b)c", 6)


def test_sliding_windows() -> None:
    driver = counted(sliding(10, grace=50))
    pipe(driver, ("a", 20), ("a", 25), ("a", 22))
    assert rows(driver) == [
        ("a", 10, 20, 1, 20),
        ("a", 21, 31, 1, 25),
        ("a", 15, 25, 2, 25),
        ("a", 21, 31, 2, 25),
        ("a", 15, 25, 3, 25),
        ("a", 12, 22, 2, 22),
        ("a", 23, 33, 1, 25),
    ]


def test_early_records_of_sliding_windows_share_the_window_from_zero() -> None:
    driver = counted(sliding(10, grace=50))
    pipe(driver, ("a", 3), ("a", 5))
    assert rows(driver) == [("a", 0, 10, 1, 3), ("a", 4, 14, 1, 5), ("a", 0, 10, 2, 5)]


def test_suppress_until_the_window_closes() -> None:
    app = App("app", value="text")
    counts = app.stream("in").group_by_key().windowed_by(tumbling(10, grace=5)).count()
    counts.suppress(until_window_closes=True).to_stream().to("out")
    driver = app.test()
    pipe(driver, ("a", 1), ("a", 2), ("b", 3), ("b", 12))
    assert rows(driver) == []
    pipe(driver, ("b", 15))
    assert rows(driver) == [("a", 0, 10, 2, 2), ("b", 0, 10, 1, 3)]


def test_suppress_until_a_time_limit_and_a_full_buffer() -> None:
    app = App("app", value="text")
    table = app.table("in")
    table.suppress(until_time_limit=10, records_max=2).to_stream().to("out")
    driver = app.test()
    for key, value, at in (("a", "1", 0), ("a", "2", 5), ("b", "1", 6), ("c", "1", 7), ("d", None, 16)):
        driver.pipe("in", key, value, at)
    found = [(record.key, record.value, record.timestamp) for record in driver.read("out")]
    assert found == [("a", "2", 5), ("b", "1", 6)]  # a when c overflows; b when its time is over
    with pytest.raises(UserError, match="Only windows close"):
        table.suppress(until_window_closes=True)


def test_cogroup() -> None:
    app = App("app", value="text")
    left, right = app.stream("a").group_by_key(), app.stream("b").group_by_key()
    both = left.cogroup(lambda total, value: f"{total}a{value}").cogroup(right, lambda total, value: f"{total}b{value}")
    both.aggregate(lambda: "").to_stream().to("all")
    both.windowed_by(tumbling(10)).aggregate(lambda: "").to_stream().to("out")
    driver = app.test()
    driver.pipe("a", "k", "1", 1)
    driver.pipe("b", "k", "2", 2)
    driver.pipe("a", "k", "3", 11)
    assert [(record.key, record.value) for record in driver.read("all")] == [
        ("k", "a1"),
        ("k", "a1b2"),
        ("k", "a1b2a3"),
    ]
    assert rows(driver) == [("k", 0, 10, "a1", 1), ("k", 0, 10, "a1b2", 2), ("k", 10, 20, "a3", 11)]


def at(zone: str, *when: int) -> int:
    return int(datetime(*when, tzinfo=ZoneInfo(zone)).timestamp()) * 1000  # type: ignore[arg-type]


BERLIN = "Europe/Berlin"


@pytest.mark.parametrize(
    ("windows", "moment", "start", "end"),
    [
        (daily(BERLIN), (2026, 3, 29, 12), (2026, 3, 29), (2026, 3, 30)),  # 23 hours
        (daily(BERLIN), (2026, 10, 25, 2, 30), (2026, 10, 25), (2026, 10, 26)),  # 25 hours
        (daily(BERLIN), (2026, 1, 1), (2026, 1, 1), (2026, 1, 2)),
        (weekly(BERLIN), (2026, 3, 29, 23, 59), (2026, 3, 23), (2026, 3, 30)),
        (monthly(BERLIN), (2026, 2, 28, 23, 59), (2026, 2, 1), (2026, 3, 1)),
        (monthly(BERLIN), (2026, 12, 31), (2026, 12, 1), (2027, 1, 1)),
        (monthly(BERLIN), (2026, 3, 1), (2026, 3, 1), (2026, 4, 1)),
    ],
)
def test_calendar_windows(windows, moment, start, end) -> None:
    first, last = at(BERLIN, *start), at(BERLIN, *end)
    assert windows.windows_for(at(BERLIN, *moment)) == [(first, last)]
    assert windows.end_of(first) == last
    assert windows.windows_for(last - 1) == [(first, last)]


def test_days_in_a_zone_are_emitted_when_they_close() -> None:
    day, next_day = at(BERLIN, 2026, 3, 29), at(BERLIN, 2026, 3, 30)
    assert next_day - day == 23 * 3_600_000
    driver = counted(daily(BERLIN), "close", retention_ms=10 * 86_400_000)
    pipe(driver, ("a", day + 1), ("a", next_day - 1))
    assert rows(driver) == []
    pipe(driver, ("a", next_day))
    assert rows(driver) == [("a", day, next_day, 2, next_day - 1)]


@pytest.mark.parametrize("windows", [daily(BERLIN), weekly(BERLIN), monthly(BERLIN), daily("America/New_York")])
def test_the_first_window_of_a_calendar_begins_at_0_and_is_seen_like_others(windows: CalendarWindows) -> None:
    first_end = windows.end_of(0)
    assert windows.windows_for(0) == windows.windows_for(first_end - 1) == [(0, first_end)]
    driver = counted(windows, "close", retention_ms=70 * 86_400_000)
    pipe(driver, ("a", 1000), ("b", first_end - 1))
    assert [(key, start, count) for key, start, (count, _) in driver.store("counts").all()] == [
        ("a", 0, 1),
        ("b", 0, 1),
    ]
    pipe(driver, ("a", first_end))
    assert rows(driver) == [("a", 0, first_end, 1, 1000), ("b", 0, first_end, 1, first_end - 1)]


def test_words_for_mistakes() -> None:
    assert [milliseconds(text) for text in ("5ms", "5s", "5m", "5h", "5d", timedelta(seconds=1))] == [
        5,
        5000,
        300000,
        18000000,
        432000000,
        1000,
    ]  # type: ignore[arg-type]
    for wrong in (
        lambda: milliseconds("5 weeks"),
        lambda: tumbling(0),
        lambda: hopping(5, 10),
        lambda: daily("Mars/Olympus"),
    ):
        with pytest.raises(UserError):
            wrong()
    with pytest.raises(UserError, match="its windows need 15 ms"):
        counted(tumbling(10, grace=5), retention_ms=10)


@pytest.mark.parametrize("windows", [tumbling(10), hopping(10, 5), sliding(10), session(10), daily("UTC"), unlimited()])
def test_another_application_reads_the_keys_of_windows(windows: AnyWindows) -> None:
    app = App("app", value="text")
    app.stream("in").group_by_key().windowed_by(windows).count().to_stream().to("counts")
    reader = App("reader", value="long")
    reader.stream("counts", key=windowed_serde(windows)).to("out")
    with app.test() as first, app.test() as second, reader.test() as reading:
        for driver in (first, second):
            for timestamp in (3, 8, 19):
                driver.pipe("in", "a", "x", timestamp)
        for record in first.read_raw("counts"):
            reading.pipe("counts", record.key, record.value, record.timestamp)
        read, written = reading.read("out"), second.read("counts")
        assert [(record.key, record.value) for record in read] == [(record.key, record.value) for record in written]
        assert len(read) >= 3


def test_the_serde_of_windows_needs_windows() -> None:
    with pytest.raises(UserError, match="windows"):
        windowed_serde("5m")  # type: ignore[arg-type]


@pytest.mark.parametrize("logging", [True, False])
def test_what_is_held_back_is_logged_unless_it_is_not_to_be(logging: bool) -> None:
    app = App("app", value="text")
    table = app.table("in", store="rows")
    config = {"min.insync.replicas": "2"}
    table.suppress(until_time_limit=10, name="held", logging=logging, topic_config=config).to_stream().to("out")
    store = app.topology().stores["held-store"]
    assert (store.changelog_topic("app") is not None) == logging
    assert store.changelog_config()["min.insync.replicas"] == "2"
    with app.test() as driver:
        for key, timestamp in (("a", 0), ("a", 5), ("b", 6), ("c", 16)):
            driver.pipe("in", key, str(timestamp), timestamp)
        assert [(record.key, record.value) for record in driver.read("out")] == [("a", "5"), ("b", "6")]
        assert ("app-held-store-changelog" in driver.changelog) == logging
