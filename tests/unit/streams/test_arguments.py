"""What operators refuse when they are given it, as Kafka Streams does, instead of failing later, or never."""

from collections.abc import Callable
from datetime import timedelta
from enum import Enum
from typing import Any, ClassVar

import pytest

from headwater.base.errors import UserError
from headwater.streams import (
    App,
    Context,
    ErrorPolicy,
    JoinWindows,
    Materialized,
    Processor,
    Record,
    StreamsError,
    hopping,
    key_value_store,
    session,
    session_store,
    sliding,
    tumbling,
    unlimited,
    versioned_store,
    window_store,
)

BAD_NAMES = ["", ".", "..", "two words", "a/b", "größe", "x" * 250, 5]


def second(one: Any, two: Any) -> Any:
    return two


def nothing() -> int:
    return 0


NAMED: dict[str, Callable[[Any, Any], object]] = {
    "an operator": lambda app, name: app.stream("in").filter(lambda value: value, name=name),
    "a processor": lambda app, name: app.stream("in").process(Processor, name=name),
    "a source": lambda app, name: app.table("in", name=name),
    "suppress": lambda app, name: app.table("in").suppress(until_time_limit=5, name=name),
    "a repartition topic": lambda app, name: app.stream("in").repartition(name=name),
    "of a group": lambda app, name: app.stream("in").group_by_key(name=name),
    "of an aggregation's store": lambda app, name: app.stream("in").group_by_key().count(store=name),
    "of a table's store": lambda app, name: app.table("in", store=name),
    "a store": lambda app, name: (
        app.add_store(key_value_store(name)),
        app.stream("in").process(Processor, stores=[name]),
        app.topology(),
    ),
    "of a join's stores": lambda app, name: app.stream("in").join(
        app.stream("other"), second, window=JoinWindows.of(5), store=name
    ),
}


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: repr(name)[:12])
@pytest.mark.parametrize("what", NAMED)
def test_names_that_no_topic_could_have_are_refused(what: str, name: Any) -> None:
    with pytest.raises(UserError):
        NAMED[what](App("app"), name)


@pytest.mark.parametrize("what", NAMED)
def test_names_that_a_topic_could_have_are_taken(what: str) -> None:
    app = App("app")
    NAMED[what](app, "Good.name_4-x")
    app.topology()


def test_a_store_without_a_changelog_has_any_name() -> None:
    app = App("app")
    app.add_store(key_value_store("names & co", logging=False))
    app.stream("in").process(Processor, stores=["names & co"])
    assert "names & co" in app.topology().stores


WRONG: dict[str, Callable[[Any], object]] = {
    "no reducer": lambda app: app.stream("in").group_by_key().reduce(None),
    "no initializer": lambda app: app.stream("in").group_by_key().aggregate(None, second),
    "no reducer of windows": lambda app: app.stream("in").group_by_key().windowed_by(tumbling(5)).reduce(None),
    "no initializer of windows": lambda app: (
        app.stream("in").group_by_key().windowed_by(tumbling(5)).aggregate(None, second)
    ),
    "no windows": lambda app: app.stream("in").group_by_key().windowed_by("5m"),
    "no subtractor": lambda app: app.table("in").group_by(lambda k, v: (k, v)).reduce(second, None),
    "no initializer of a group of rows": lambda app: (
        app.table("in").group_by(lambda k, v: (k, v)).aggregate(None, second, second)
    ),
    "no initializer of a cogroup": lambda app: app.stream("in").group_by_key().cogroup(second).aggregate(None),
    "no group": lambda app: app.stream("in").group_by_key().cogroup(second).cogroup(None, second),
    "no windows of a cogroup": lambda app: app.stream("in").group_by_key().cogroup(second).windowed_by(None),
    "a group of another application": lambda app: (
        app.stream("in").group_by_key().cogroup(second).cogroup(App("b").stream("in").group_by_key(), second)
    ),
    "no transformer": lambda app: app.table("in").transform_values(None),
    "a kind of emission that is not there": lambda app: (
        app.stream("in").group_by_key().windowed_by(tumbling(5)).emit("closed")
    ),
    "nothing to merge with": lambda app: app.stream("in").merge(None),
    "a stream of another application": lambda app: app.stream("in").merge(App("b").stream("in")),
    "nothing to join with": lambda app: app.stream("in").join(None, second, window=JoinWindows.of(5)),
    "a table of another application": lambda app: app.stream("in").join(App("b").table("t"), second),
    "windows that are no join windows": lambda app: app.stream("in").join(
        app.stream("other"), second, window=tumbling(5)
    ),
    "an outer join with a table": lambda app: app.stream("in").outer_join(
        app.table("other"), second, window=JoinWindows.of(5)
    ),
    "a table joined with a stream": lambda app: app.table("in").join(app.stream("other"), second),
    "a store that is a number": lambda app: app.stream("in").group_by_key().count(store=5),
    "a negative history": lambda app: app.table("in", store=Materialized("rows", history_ms=-1)),
    "a negative retention": lambda app: app.table("in", store=Materialized("rows", retention_ms=-1)),
    "versions of windows": lambda app: (
        app.stream("in").group_by_key().windowed_by(tumbling(5)).count(store=Materialized("rows", history_ms=9))
    ),
    "a topic that is None": lambda app: app.stream("in").to(None),
    "a list of topics": lambda app: app.stream(["a", "b"]),
    "a reset that is not there": lambda app: app.stream("in", reset="Latest"),
    "a reset of a table that is not there": lambda app: app.table("in", reset="newest"),
    "a pattern that is none": lambda app: app.stream(pattern="in-("),
    "a partitioner that is a number": lambda app: app.stream("in").to("out", partitioner=0),
    "a partitioner of the key alone": lambda app: app.stream("in").to("out", partitioner=lambda key: 0),
    "a partitioner of a repartition that is none": lambda app: app.stream("in").repartition(partitioner="key"),
    "a topic of the record alone": lambda app: app.stream("in").to(lambda record: "out"),
    "a branch that goes on with a name": lambda app: app.stream("in").split().branch(bool, then="out"),
    "no partitions": lambda app: app.stream("in").repartition(partitions=0),
    "a store's name alone": lambda app: app.stream("in").process(Processor, stores="seen"),
    "no stores": lambda app: app.stream("in").process(Processor, stores=None),
    "a function of a record for a processor": lambda app: app.stream("in").process(lambda record: None),
    "a function that makes no processor": lambda app: app.stream("in").process(lambda: None),
    "something to add that is no store": lambda app: app.add_store(None),
    "a window that is None": lambda app: tumbling(None),  # type: ignore[arg-type]
    "a window of a fraction of a millisecond": lambda app: sliding(1.5),  # type: ignore[arg-type]
    "an advance of 0": lambda app: hopping(5, 0),
    "a grace that is None": lambda app: session(5, grace=None),  # type: ignore[arg-type]
    "an unlimited window before 1970": lambda app: unlimited(-1),
    "a window store that keeps nothing": lambda app: window_store("rows", -1, 5),
    "windows of negative size": lambda app: window_store("rows", 5, -1),
    "windows that are gone before they end": lambda app: window_store("rows", 5, 10),
    "a session store that keeps nothing": lambda app: session_store("rows", -1),
    "a time to wait before 0": lambda app: app.table("in").suppress(until_time_limit=-5),
    "a buffer of less than nothing": lambda app: app.table("in").suppress(until_time_limit=5, records_max=-1),
    "a buffer of words": lambda app: app.table("in").suppress(until_time_limit=5, records_max="10"),
    "a buffer of negative bytes": lambda app: app.table("in").suppress(until_time_limit=5, bytes_max=-1),
    "a join window of no duration": lambda app: JoinWindows.of(5, grace_ms="soon"),
    "a join window of a fraction": lambda app: JoinWindows(1.5, 5),  # type: ignore[arg-type]
    "a grace of a join that is no duration": lambda app: app.stream("in").join(
        app.table("rows", store=Materialized("rows", history_ms=9)), second, grace_ms="soon"
    ),
    "a history that is no duration": lambda app: Materialized("rows", history_ms="long"),
    "a negative history of versions": lambda app: versioned_store("rows", -1),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_cannot_be_meant_is_refused_where_it_is_said(what: str) -> None:
    with pytest.raises(UserError):
        WRONG[what](App("app"))


def test_a_function_that_gives_the_same_processor_again_is_refused() -> None:
    shared = Processor()
    with pytest.raises(UserError, match="the same processor again"):
        App("app").stream("in").process(lambda: shared)


def test_a_join_with_a_grace_needs_the_versions_of_that_time() -> None:
    def joined(store: str | Materialized) -> App:
        app = App("app")
        app.stream("in").join(app.table("rows", store=store), second, grace_ms=10).to("out")
        return app

    with pytest.raises(UserError, match="not versioned"):
        joined("rows").topology()
    with pytest.raises(UserError, match="keeps versions for 9 ms"):
        joined(Materialized("rows", history_ms=9)).topology()
    joined(Materialized("rows", history_ms=10)).topology()


@pytest.mark.parametrize("pattern_first", [True, False])
def test_a_topic_that_a_pattern_matches_has_two_sources(pattern_first: bool) -> None:
    app = App("app")
    sources: list[Callable[[], object]] = [lambda: app.stream(pattern="in-.*"), lambda: app.stream("in-1")]
    for source in sources if pattern_first else reversed(sources):
        source()
    with pytest.raises(UserError, match=r"in-1 of .* matches the pattern"):
        app.topology()


def test_internal_topics_are_none_of_those_that_a_pattern_means() -> None:
    app = App("app")
    app.stream(pattern=".*").repartition().to("out")
    assert len(app.topology().internal_topics) == 1


def test_a_topic_that_is_named_twice_is_read_once() -> None:
    app = App("app", value="text")
    app.stream("in", "in").to("out")
    with app.test() as driver:
        driver.pipe("in", "a", "1")
        assert len(driver.read("out")) == 1


@pytest.mark.parametrize(
    ("one", "two", "told"),
    [
        ({"value": "text"}, {"value": "json"}, "serde of values"),
        ({}, {"key": "long"}, "serde of keys"),
        ({}, {"timestamp": len}, "timestamps"),
        ({"value": "json"}, {}, None),
        ({"timestamp": len}, {"timestamp": len}, None),
        ({"value": "text", "key": "text"}, {"value": str, "key": "text"}, None),
    ],
)
def test_two_streams_of_a_topic_that_are_told_apart_are_not(
    one: dict[str, Any], two: dict[str, Any], told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The second would read what the first decodes, and nobody said so."""
    app = App("app")
    app.stream("in", **one).to("out")
    app.stream("in", **two).to("out")
    app.topology()
    assert [str(told) in record.getMessage() for record in caplog.records] == [True] * (told is not None)


def test_a_partitioner_and_a_function_of_topics_may_take_more_than_they_are_given() -> None:
    app = App("app", value="text")

    def named(record: Record, context: Any, topic: str = "out") -> str:
        return topic

    app.stream("in").to(named, partitioner=lambda *given: 0)
    with app.test() as driver:
        driver.pipe("in", "a", "x")
        assert len(driver.read("out")) == 1


def test_join_windows_take_durations_as_other_windows_do() -> None:
    assert JoinWindows.of("5s") == JoinWindows.of(5_000)
    assert JoinWindows.of("5s", grace_ms="1m") == JoinWindows.of(5_000, grace_ms=60_000)
    assert JoinWindows("5s", timedelta(seconds=1)).before("2s") == JoinWindows(2_000, 1_000)
    assert Materialized("rows", history_ms="1h") == Materialized("rows", history_ms=3_600_000)


class Scheduling(Processor):
    """Schedules what it was told to."""

    given: tuple[Any, ...] = ()

    def init(self, context: Context) -> None:
        context.schedule(*self.given)


@pytest.mark.parametrize(
    "given", [(5, "stream-time", print), ("5s", "wall", print), (0.5, "wall", print), (5, "wall", 1)]
)
def test_a_punctuator_that_cannot_be_meant_is_refused(given: tuple[Any, ...]) -> None:
    app = App("app")
    app.stream("in").process(type("Refused", (Scheduling,), {"given": given}))
    with pytest.raises(UserError, match="schedules"):
        app.test()


def test_records_have_no_time_before_1970_and_headers_are_pairs() -> None:
    record = Record("a", 1, 5)
    with pytest.raises(UserError):
        record.with_timestamp(-1)
    for headers in ([("name", 5)], [("name",)], ["ab"], ["name"]):
        with pytest.raises(UserError, match="no header"):
            record.with_headers(headers)  # type: ignore[arg-type]
    assert record.with_headers((("name", b"value"), ("none", None))).headers == (("name", b"value"), ("none", None))


class Forwards(Processor):
    """Forwards what a function makes of a record."""

    given: ClassVar[Callable[[Record], Any]]
    child: ClassVar[str | None] = None

    def process(self, record: Record) -> None:
        self.context.forward(type(self).given(record), self.child)


anything: Any = Record  # of any types

FORWARDED: dict[str, tuple[Callable[[Record], Any], str]] = {
    "a fraction of a millisecond": (lambda r: anything(r.key, r.value, r.timestamp + 0.5), "timestamp 5.5"),
    "no timestamp": (lambda r: anything(r.key, r.value, None), "timestamp None"),
    "a time before 1970": (lambda r: anything(r.key, r.value, -1), "timestamp -1"),
    "a time that no broker knows": (lambda r: anything(r.key, r.value, 1 << 63), "timestamp 9223372036854775808"),
    "a header that is a number": (lambda r: anything(r.key, r.value, 5, (("name", 5),)), "no header"),
    "a header whose name is bytes": (lambda r: anything(r.key, r.value, 5, ((b"name", b"value"),)), "no header"),
    "a tuple": (lambda r: (r.key, r.value), "forwards"),
    "nothing": (lambda r: None, "forwards None"),
}


@pytest.mark.parametrize("method", ["process", "process_values"])
@pytest.mark.parametrize("child", [None, "sink"])
@pytest.mark.parametrize("what", FORWARDED)
def test_what_no_broker_takes_is_the_failure_of_the_processor_that_forwards_it(
    what: str, child: str | None, method: str
) -> None:
    """It came as far as the commit, which failed with Python's words; a driver took it."""
    given, told = FORWARDED[what]
    app = App("app", value="text", on_error="skip")
    supplier = type("Forwards", (Forwards,), {"given": staticmethod(given), "child": child})
    getattr(app.stream("in"), method)(supplier).to("out", name="sink")
    with app.test() as driver:
        driver.pipe("in", "a", "x", 5)
        assert (driver.read("out"), driver.dropped) == ([], {"processing error": 1})
    failing = App("app", value="text")
    getattr(failing.stream("in"), method)(supplier).to("out", name="sink")
    with failing.test() as driver, pytest.raises(StreamsError, match=told):
        driver.pipe("in", "a", "x", 5)


class Named(str, Enum):  # noqa: UP042 - whose str() is another
    N = "n"


HEADERS_OF_PRODUCERS: dict[str, Any] = {
    "a list": [("n", b"v")],
    "lists": (["n", b"v"],),
    "text": (("n", "v"),),
    "a dict": {"n": b"v"},
    "other bytes": (("n", bytearray(b"v")),),
    "a name of a kind of its own": ((Named.N, memoryview(b"v")),),
}


@pytest.mark.parametrize("headers", HEADERS_OF_PRODUCERS.values(), ids=HEADERS_OF_PRODUCERS)
def test_headers_that_a_producer_takes_are_taken(headers: Any) -> None:
    """They were, as long as only the producer looked at them; those of records are what is in the topic."""
    found: list[Any] = []
    app = App("app", value="text")
    supplier = type("Forwards", (Forwards,), {"given": staticmethod(lambda r: anything("a", "x", 5, headers))})
    noting = type("Noting", (Processor,), {"process": lambda self, r: (found.append(r.headers), self.forward(r))})
    app.stream("in").process(supplier).process(noting).to("out")
    with app.test() as driver:
        driver.pipe("in", "a", "x", 5, headers)
        assert driver.read("out")[0].headers == (("n", b"v"),)
    (passed,) = found
    assert passed == (("n", b"v"),)
    assert type(passed[0][0]) is str
    assert Record("a", "x", 5).with_headers(headers).headers == (("n", b"v"),)


class Whole:
    """As numpy's integers."""

    def __index__(self) -> int:
        return 7


def test_whole_numbers_of_other_types_are_times() -> None:
    assert type(Record("a", 1, 5).with_timestamp(anything_whole()).timestamp) is int
    app = App("app", value="text")
    supplier = type("Forwards", (Forwards,), {"given": staticmethod(lambda r: anything("a", "x", anything_whole()))})
    app.stream("in").process(supplier).to("out")
    with app.test() as driver:
        driver.pipe("in", "a", "x", anything_whole())
        assert driver.read("out")[0].timestamp == 7


def anything_whole() -> Any:
    return Whole()


def test_whole_numbers_of_other_types_are_durations() -> None:
    """60 * 1e3 is a minute, as it was."""
    given: Any = 60 * 1e3
    assert (tumbling(given), JoinWindows.of(difference_ms=given)) == (tumbling(60_000), JoinWindows.of(60_000))
    assert tumbling(anything_whole()) == tumbling(7)
    called: list[int] = []
    app = App("app")
    app.stream("in").process(type("By", (Scheduling,), {"given": (given, "wall", called.append)}))
    with app.test() as driver:
        driver.advance(60_000)
        assert called == [driver.now_ms]


def test_a_driver_reads_no_topic_that_nothing_writes() -> None:
    app = App("app", value="text", late_records_to="late", on_error=ErrorPolicy(processing=lambda failure: "skip"))
    app.stream("in").select_key(lambda value: value).group_by_key(name="by-value").count().to_stream().to("out")
    with app.test() as driver:
        for read in (driver.read, driver.read_raw):
            with pytest.raises(UserError, match="Nothing writes to the topic ouput"):
                read("ouput")
        for topic in ("out", "late", "app-dead-letters", "app-by-value-repartition"):
            assert driver.read_raw(topic) == []
    app.stream("in").to(lambda record, context: str(record.value))
    with app.test() as driver:
        assert driver.read_raw("any") == []


@pytest.mark.parametrize("given", [{"headers": ["n"]}, {"headers": [("n", 5)]}, {"timestamp": 1.5}])
def test_a_driver_is_given_records_as_they_are_in_topics(given: dict[str, Any]) -> None:
    app = App("app", value="text")
    app.stream("in").to("out")
    with app.test() as driver:
        with pytest.raises(UserError):
            driver.pipe("in", "a", "x", **given)
        driver.pipe("in", "a", "x", 1, [("n", b"v")])
        assert [(record.timestamp, record.headers) for record in driver.read("out")] == [(1, (("n", b"v"),))]


def test_the_clock_of_a_driver_does_not_go_back_and_topics_have_a_partition() -> None:
    app = App("app")
    app.stream("in").to("out")
    with app.test() as driver, pytest.raises(UserError):
        driver.advance(-1)
    with pytest.raises(UserError):
        app.test(partitions=0)


class PutsAll(Processor):
    def process(self, record: Record) -> None:
        store = self.context.store("rows")
        store.put_all([("a", (1, 10)), ("b", (2, 20))])
        store.put_all([("b", None), ("c", (3, 30))])


def test_a_timestamped_store_takes_several_rows() -> None:
    app = App("app")
    app.add_store(key_value_store("rows", value="long", timestamped=True))
    app.stream("in").process(PutsAll, stores=["rows"])
    with app.test() as driver:
        driver.pipe("in", "x", 1, timestamp=5)
        assert list(driver.store("rows").all()) == [("a", (1, 10)), ("c", (3, 30))]
