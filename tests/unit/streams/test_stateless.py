"""Operators without state, through the test driver:
what comes out, in which order, with which timestamps and headers.
"""

import pytest

from headwater.base.errors import UserError
from headwater.streams import App, Context, Processor, Record
from headwater.streams.testing.driver import Driver


def rows(driver: Driver, topic: str = "out") -> list[tuple[object, object, int]]:
    return [(record.key, record.value, record.timestamp) for record in driver.read(topic)]


@pytest.fixture
def app() -> App:
    return App("app", value="text")


def test_filters_take_a_value_or_a_key_and_a_value(app: App) -> None:
    stream = app.stream("in")
    stream.filter(lambda value: value == "a").to("only a")
    stream.filter_not(lambda value: value == "a").to("all but a")
    stream.filter(lambda key, value: key is None).to("no key")
    driver = app.test()
    driver.pipe("in", "k", "a", 1)
    driver.pipe("in", None, "b", 2)
    assert rows(driver, "only a") == [("k", "a", 1)]
    assert rows(driver, "all but a") == [(None, "b", 2)]
    assert rows(driver, "no key") == [(None, "b", 2)]


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda s: s.map(lambda k, v: (v, k)), [("b", "k", 7)]),
        (lambda s: s.map_values(lambda v: v + "!"), [("k", "b!", 7)]),
        (lambda s: s.map_values(lambda k, v: k + v), [("k", "kb", 7)]),
        (lambda s: s.flat_map(lambda k, v: [(k, v), (v, k)]), [("k", "b", 7), ("b", "k", 7)]),
        (lambda s: s.flat_map(lambda k, v: []), []),
        (lambda s: s.flat_map_values(lambda v: [v, None, v + v]), [("k", "b", 7), ("k", None, 7), ("k", "bb", 7)]),
        (lambda s: s.select_key(lambda v: v), [("b", "b", 7)]),
        (lambda s: s.select_key(lambda v: None), [(None, "b", 7)]),
        (lambda s: s.map_values(str.upper), [("k", "B", 7)]),
        (lambda s: s.map_values(lambda v: None), [("k", None, 7)]),
        (lambda s: s.select_key(lambda v: v).repartition(), [("b", "b", 7)]),
        (lambda s: s.select_key(lambda v: None).repartition(), []),
        (lambda s: s.through("between"), [("k", "b", 7)]),
    ],
)
def test_one_record(app: App, build, expected) -> None:
    build(app.stream("in")).to("out")
    driver = app.test()
    driver.pipe("in", "k", "b", 7)
    assert rows(driver) == expected


def test_headers_go_along(app: App) -> None:
    app.stream("in").map_values(lambda v: v).select_key(lambda v: v).repartition().to("out")
    driver = app.test()
    driver.pipe("in", "k", "v", 1, headers=[("h", b"1"), ("h", None)])
    assert driver.read("out")[0].headers == (("h", b"1"), ("h", None))


def test_peek_and_foreach_see_each_record(app: App) -> None:
    seen: list[object] = []
    stream = app.stream("in").peek(lambda k, v: seen.append((k, v)))
    stream.foreach(seen.append)
    stream.to("out")
    driver = app.test()
    driver.pipe("in", "k", "v", 1)
    assert seen == [("k", "v"), "v"]
    assert rows(driver) == [("k", "v", 1)]


def test_split_takes_the_first_branch_that_holds(app: App) -> None:
    branches = (
        app.stream("in")
        .split(name="by-")
        .branch(lambda v: v < "c", name="low")
        .branch(lambda v: v < "e")
        .default_branch(name="rest")
    )
    assert list(branches) == ["by-low", "by-2", "by-rest"]
    for name, stream in branches.items():
        stream.to(name)
    driver = app.test()
    for value in "adz":
        driver.pipe("in", "k", value, 1)
    assert [rows(driver, name) for name in branches] == [[("k", value, 1)] for value in "adz"]


def test_split_without_a_default_leaves_the_rest_out(app: App) -> None:
    branches = app.stream("in").split(name="by-").branch(lambda v: v == "a").no_default_branch()
    branches["by-1"].to("out")
    driver = app.test()
    driver.pipe("in", "k", "a", 1)
    driver.pipe("in", "k", "b", 1)
    assert rows(driver) == [("k", "a", 1)]


def test_a_branch_goes_on_at_once_with_then(app: App) -> None:
    branches = (
        app.stream("in")
        .split(name="by-")
        .branch(lambda v: v == "a", then=lambda s: s.map_values(lambda v: v * 2))
        .default_branch(then=lambda s: s.to("rest"))
    )
    assert list(branches) == ["by-1"]
    branches["by-1"].to("out")
    driver = app.test()
    driver.pipe("in", "k", "a", 1)
    driver.pipe("in", "k", "b", 1)
    assert rows(driver) == [("k", "aa", 1)]
    assert rows(driver, "rest") == [("k", "b", 1)]


def test_merge_and_a_topic_read_twice(app: App) -> None:
    left, right, again = app.stream("a"), app.stream("b"), app.stream("a")
    left.merge(right, again.map_values(str.upper)).to("out")
    driver = app.test()
    driver.pipe("a", "k", "x", 1)
    driver.pipe("b", "k", "y", 2)
    assert rows(driver) == [("k", "X", 1), ("k", "x", 1), ("k", "y", 2)]  # map_values was written before merge


def test_a_repartition_topic_is_read_when_its_record_is_through(app: App) -> None:
    stream = app.stream("in")
    stream.flat_map(lambda k, v: [("1", v), ("2", v)]).repartition().map_values(lambda k, v: f"later {k}").to("out")
    stream.map_values(lambda v: "first").to("out")
    driver = app.test()
    driver.pipe("in", "k", "v", 1)
    assert [record.value for record in driver.read("out")] == ["first", "later 1", "later 2"]


def test_the_topic_may_be_named_for_each_record(app: App) -> None:
    app.stream("in").to(lambda record, context: f"to-{record.value}")
    driver = app.test()
    driver.pipe("in", "k", "x", 1)
    assert rows(driver, "to-x") == [("k", "x", 1)]


class Doubler(Processor):
    def process(self, record: Record) -> None:
        meta = self.context.record_metadata
        assert meta is not None
        self.forward(record.with_value(f"{record.value} of {meta.topic} {meta.partition} {meta.offset}"))
        self.context.forward(record.with_key("other"))


def test_a_processor_forwards_what_it_wants(app: App) -> None:
    app.stream("in").process(Doubler).to("out")
    driver = app.test()
    driver.pipe("in", "k", "v", 3)
    assert rows(driver) == [("k", "v of in 0 0", 3), ("other", "v", 3)]


def test_process_values_leaves_keys_alone(app: App) -> None:
    app.stream("in").process_values(Doubler).to("out")
    driver = app.test()
    with pytest.raises(UserError, match="must not change keys"):
        driver.pipe("in", "k", "v", 3)


class Reporter(Processor):
    """Forwards what it has seen under a key of its own, by the clock."""

    def init(self, context: Context) -> None:
        self.seen = 0
        context.schedule(100, "wall", lambda now: context.forward(Record("seen", str(self.seen), now)))

    def process(self, record: Record) -> None:
        self.seen += 1
        if record.value == "bad":
            raise ValueError("no good")


def test_process_values_forwards_by_the_clock_also_behind_a_record_that_was_left_out() -> None:
    app = App("app", value="text", on_error="skip")
    app.stream("in").process_values(Reporter).to("out", value="text")
    driver = app.test()
    driver.pipe("in", "k", "bad", 3)
    driver.advance(100)
    assert rows(driver) == [("seen", "1", 100)]
    assert driver.dropped == {"processing error": 1}


class Ticker(Processor):
    def init(self, context: Context) -> None:
        self.schedules = [
            context.schedule(10, "stream", lambda now: context.forward(Record("stream", str(now), now))),
            context.schedule(100, "wall", self.wall),
        ]

    def wall(self, now: int) -> None:
        self.context.forward(Record("wall", str(now), now))
        if now >= 1250:
            self.schedules[1].cancel()

    def process(self, record: Record) -> None:
        self.forward(record)


def test_punctuators_in_both_times(app: App) -> None:
    app.stream("in").process(Ticker).to("out")
    driver = app.test(now_ms=1000)
    driver.pipe("in", "k", "v", 3)  # stream time: due at 0, so at the first record
    driver.pipe("in", "k", "v", 9)
    driver.pipe("in", "k", "v", 35)  # due at 10; the next at 40
    driver.pipe("in", "k", "v", 39)
    driver.pipe("in", "k", "v", 40)
    assert [row for row in rows(driver) if row[0] != "k"] == [
        ("stream", "3", 3),
        ("stream", "35", 35),
        ("stream", "40", 40),
    ]
    driver.advance(99)
    assert rows(driver) == []
    driver.advance(1)
    driver.advance(150)
    driver.advance(1000)
    assert rows(driver) == [("wall", "1100", 1100), ("wall", "1250", 1250)]


def test_partitions_meet_by_key(app: App) -> None:
    app.stream("in").select_key(lambda v: v).repartition().process(Doubler).to("out")
    driver = app.test(partitions=4)
    for key in "abcdef":
        driver.pipe("in", key, "same", 1)
    found = {record.value.split(" ", 2)[2].rsplit(" ", 1)[0] for record in driver.read("out") if record.key != "other"}
    assert len(found) == 1


def test_words_for_mistakes(app: App) -> None:
    app.stream("in", name="x").filter(bool, name="x")
    with pytest.raises(UserError, match="two nodes named x"):
        app.topology()
    with pytest.raises(UserError, match="cannot make a processor"):
        App("b").stream("in").process(Doubler())  # type: ignore[arg-type]
    with pytest.raises(UserError, match="3 parameters"):
        App("b").stream("in").filter(lambda a, b, c: True)
    driver = App("b").test()
    with pytest.raises(UserError, match="Nothing reads the topic"):
        driver.pipe("nowhere", "k", "v")
