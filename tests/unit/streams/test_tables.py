"""Tables, worked out by hand: tombstones, old values, order, stores that are there only if somebody needs them."""

import pytest

from headwater.base.errors import UserError
from headwater.streams import App, tumbling
from headwater.streams.dsl.materialized import Materialized
from headwater.streams.testing.driver import Driver


def rows(driver: Driver, topic: str = "out", **serdes: str) -> list[tuple[object, object, int]]:
    return [(record.key, record.value, record.timestamp) for record in driver.read(topic, **serdes)]


@pytest.fixture
def app() -> App:
    return App("app", value="text")


def test_a_table_passes_updates_on_as_they_come(app: App) -> None:
    table = app.table("in")
    table.to_stream().to("out")
    driver = app.test()
    driver.pipe("in", "k", "a", 5)
    driver.pipe("in", "k", "b", 3)  # out of order: applied all the same
    driver.pipe("in", "k", None, 7)
    driver.pipe("in", None, "x", 8)  # no key: left out
    assert rows(driver) == [("k", "a", 5), ("k", "b", 3), ("k", None, 7)]
    assert driver.store_names == set()  # nobody asked for its values
    assert driver.dropped == {"null key": 1}


def test_a_named_store_keeps_values_and_a_changelog(app: App) -> None:
    app.table("in", store="names")
    driver = app.test()
    driver.pipe("in", "k", "a", 5)
    driver.pipe("in", "l", "b", 6)
    driver.pipe("in", "k", None, 7)
    assert list(driver.store("names").all()) == [("l", ("b", 6))]
    changes = [(record.key, record.value, record.timestamp) for record in driver.changelog["app-names-changelog"]]
    assert changes == [(b"k", b"a", 5), (b"l", b"b", 6), (b"k", None, 7)]


@pytest.mark.parametrize("stored", [False, True])
def test_filter_sends_tombstones(stored: bool) -> None:
    app = App("app", value="long")
    table = app.table("in", store="t" if stored else None)
    table.filter(lambda v: v > 10).to_stream().to("out")
    driver = app.test()
    for at, value in enumerate([5, 15, 20, 3, None, 30, None]):
        driver.pipe("in", "k", value, at)
    # with a store above, old values are known, and tombstones for what was never there are left out
    needless = [] if stored else [("k", None, 0)]
    between = [] if stored else [("k", None, 4)]
    expected = [*needless, ("k", 15, 1), ("k", 20, 2), ("k", None, 3), *between, ("k", 30, 5), ("k", None, 6)]
    assert rows(driver) == expected


def test_map_values_leaves_tombstones_alone(app: App) -> None:
    app.table("in").map_values(lambda v: v * 2, store="doubled").to_stream().to("out")
    driver = app.test()
    driver.pipe("in", "k", "a", 1)
    driver.pipe("in", "k", None, 2)
    driver.pipe("in", "k", "b", 3)
    assert rows(driver) == [("k", "aa", 1), ("k", None, 2), ("k", "bb", 3)]
    assert driver.store("doubled").get("k") == ("bb", 3)


class Counting:
    def init(self, context) -> None:
        self.store = context.store("seen")

    def transform(self, key, value):
        count = (self.store.get(key) or 0) + 1
        self.store.put(key, count)
        return f"{value} {count}"

    def close(self) -> None:
        pass


def test_transform_values_sees_tombstones(app: App) -> None:
    from headwater.streams.serdes import LONG
    from headwater.streams.stores.spec import StoreSpec
    from headwater.streams.topology.stores import StorePlan

    app.add_store(StorePlan(StoreSpec("seen", timestamped=False), None, LONG))
    app.table("in").transform_values(Counting, stores=["seen"]).to_stream().to("out")
    driver = app.test()
    driver.pipe("in", "k", "a", 1)
    driver.pipe("in", "k", None, 2)
    assert rows(driver) == [("k", "a 1", 1), ("k", "None 2", 2)]


def test_to_table_of_a_rekeyed_stream_goes_through_a_topic(app: App) -> None:
    app.stream("in").select_key(lambda v: v).to_table(store="t").to_stream().to("out")
    driver = app.test()
    driver.pipe("in", "k", "a", 1)
    driver.pipe("in", "k", "a", 2)
    assert rows(driver) == [("a", "a", 1), ("a", "a", 2)]
    assert "app-KSTREAM-TOTABLE-0000000002-repartition" in driver.output_topics


def test_count_per_key(app: App) -> None:
    app.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    driver = app.test()
    driver.pipe("in", "a", "x", 10)
    driver.pipe("in", "b", "x", 20)
    driver.pipe("in", "a", "x", 5)  # late: the row keeps the largest timestamp
    driver.pipe("in", "a", None, 30)  # no value: left out
    driver.pipe("in", None, "x", 30)
    assert rows(driver) == [("a", 1, 10), ("b", 1, 20), ("a", 2, 10)]
    assert driver.store("counts").get("a") == (2, 10)
    assert driver.dropped == {"null key or value": 2}


def test_reduce_and_aggregate(app: App) -> None:
    grouped = app.stream("in").group_by(lambda v: v[0])
    grouped.reduce(lambda old, new: old + new).to_stream().to("reduced")
    grouped.aggregate(lambda: "", lambda key, value, total: f"{total}{key}{value}").to_stream().to("aggregated")
    grouped.aggregate(list, lambda total, value: [*total, value], value="json").to_stream().to("listed")
    driver = app.test()
    driver.pipe("in", None, "ab", 1)
    driver.pipe("in", None, "ac", 2)
    driver.pipe("in", None, "xy", 3)
    assert rows(driver, "reduced") == [("a", "ab", 1), ("a", "abac", 2), ("x", "xy", 3)]
    assert rows(driver, "aggregated") == [("a", "aab", 1), ("a", "aabaac", 2), ("x", "xxy", 3)]
    assert rows(driver, "listed") == [("a", ["ab"], 1), ("a", ["ab", "ac"], 2), ("x", ["xy"], 3)]


def test_an_aggregator_that_gives_none_deletes(app: App) -> None:
    app.stream("in").group_by_key().aggregate(
        lambda: "0", lambda total, value: None if value == "x" else total + value
    ).to_stream().to("out")
    driver = app.test()
    for at, value in enumerate(["a", "x", "b"]):
        driver.pipe("in", "k", value, at)
    assert rows(driver) == [("k", "0a", 0), ("k", None, 1), ("k", "0b", 2)]


def test_sum_min_max() -> None:
    app = App("app")
    grouped = app.stream("in").group_by_key()
    grouped.sum(lambda v: v["n"]).to_stream().to("sum")
    grouped.min(lambda v: v["n"]).to_stream().to("min")
    grouped.max(lambda v: v["n"]).to_stream().to("max")
    driver = app.test()
    for number in (3, 1, 2):
        driver.pipe("in", "k", {"n": number}, 0)
    found = {topic: [record.value for record in driver.read(topic)] for topic in ("sum", "min", "max")}
    assert found == {"sum": [3, 4, 6], "min": [3, 1, 1], "max": [3, 3, 3]}


def test_what_is_missing_is_left_out_of_sum_min_and_max() -> None:
    app = App("app")
    orders = app.stream("orders")
    for name, grouped in (("all", orders.group_by_key()), ("day", orders.group_by_key().windowed_by(tumbling("1d")))):
        grouped.sum(orders.n).to_stream(lambda key, value: "k").to(f"{name}-sum")
        grouped.min(orders.n).to_stream(lambda key, value: "k").to(f"{name}-min")
        grouped.max(orders.n).to_stream(lambda key, value: "k").to(f"{name}-max")
    app.table("rows").group_by(lambda row: ("g", row)).sum(orders.n).to_stream().to("rows-sum")
    with app.test() as driver:
        for value in ({"n": 3}, {}, {"n": None}, None, {"n": 4}):
            driver.pipe("orders", "k", value, 0)
        for value in ({"n": 3}, {}, {"n": 4}, None):
            driver.pipe("rows", "k", value, 0)
        for name in ("all", "day"):
            last = {what: driver.read(f"{name}-{what}")[-1].value for what in ("sum", "min", "max")}
            assert last == {"sum": 7, "min": 3, "max": 4}
        assert [record.value for record in driver.read("rows-sum")] == [3, 0, 4, 0]
    with pytest.raises(UserError, match="needs a function"):
        orders.group_by_key().sum("n")


def test_a_grouped_table_subtracts_what_leaves() -> None:
    app = App("app")
    people = app.table("people").group_by(lambda key, v: (v["city"], v["age"]), value="long")
    people.count().to_stream().to("count")
    people.sum().to_stream().to("sum")
    driver = app.test()
    driver.pipe("people", "ann", {"city": "x", "age": 30}, 1)
    driver.pipe("people", "bob", {"city": "x", "age": 20}, 2)
    driver.pipe("people", "ann", {"city": "x", "age": 31}, 3)  # the same group: one record
    driver.pipe("people", "ann", {"city": "y", "age": 31}, 4)  # another group: two
    driver.pipe("people", "bob", None, 5)
    assert rows(driver, "count") == [("x", 1, 1), ("x", 2, 2), ("x", 2, 3), ("x", 1, 4), ("y", 1, 4), ("x", 0, 5)]
    assert rows(driver, "sum") == [("x", 30, 1), ("x", 50, 2), ("x", 51, 3), ("x", 20, 4), ("y", 31, 4), ("x", 0, 5)]


def test_reduce_of_a_table() -> None:
    app = App("app", value="long")
    app.table("in").group_by(lambda k, v: (k[0], v)).reduce(lambda a, b: a + b, lambda a, b: a - b).to_stream().to(
        "out"
    )
    driver = app.test()
    driver.pipe("in", "a1", 5, 10)
    driver.pipe("in", "a2", 7, 4)
    driver.pipe("in", "a1", None, 6)
    assert rows(driver) == [("a", 5, 10), ("a", 12, 10), ("a", 7, 10)]


def test_a_global_table_is_read_by_processors(app: App) -> None:
    from headwater.streams import Processor, Record

    app.global_table("names", store="names")

    class Lookup(Processor):
        def process(self, record: Record) -> None:
            found = self.context.store("names").get(record.value)
            self.forward(record.with_value(found[0] if found else "?"))

    app.stream("in").process(Lookup).to("out")
    driver = app.test(partitions=3)
    driver.pipe("in", "k", "1", 1)
    driver.pipe("names", "1", "ann", 1)
    driver.pipe("in", "k", "1", 2)
    assert rows(driver) == [("k", "?", 1), ("k", "ann", 2)]
    assert driver.store("names").get("1") == ("ann", 1)


def test_a_versioned_table_knows_what_came_out_of_order(app: App) -> None:
    table = app.table("in", store=Materialized("v", history_ms=1000))
    table.filter(lambda v: v != "x").to_stream().to("out")
    table.group_by(lambda k, v: ("all", v)).reduce(lambda a, b: a + b, lambda a, b: a.replace(b, "", 1)).to_stream().to(
        "all"
    )
    driver = app.test()
    driver.pipe("in", "k", "b", 5050)
    driver.pipe("in", "k", "a", 5040)  # older than what is there
    driver.pipe("in", "k", "c", 5060)
    driver.pipe("in", "k", "z", 60)  # behind the history: not put, not sent
    assert rows(driver) == [("k", "b", 5050), ("k", "a", 5040), ("k", "c", 5060)]
    assert rows(driver, "all") == [("all", "b", 5050), ("all", "c", 5060)]
    assert driver.store("v").get_as_of("k", 5045) == ("a", 5040)
