"""The processor API: stores of every kind, named children, record metadata, restore from a changelog."""

from functools import partial

import pytest

from headwater.base.errors import UserError
from headwater.streams import (
    App,
    Context,
    Processor,
    Record,
    key_value_store,
    session_store,
    versioned_store,
    window_store,
)
from headwater.streams.engine.task import Task
from headwater.streams.model.record import InputRecord
from headwater.streams.stores.memory import MemoryState
from headwater.streams.topology.stores import StorePlan


class Everything(Processor):
    def init(self, context: Context) -> None:
        self.plain, self.stamped = context.store("plain"), context.store("stamped")
        self.windows, self.sessions, self.versions = (context.store(n) for n in ("windows", "sessions", "versions"))

    def process(self, record: Record) -> None:
        key, value, at = record.key, record.value, record.timestamp
        self.plain.put(key, value)
        self.stamped.put(key, value, at)
        self.windows.put(key, value, at)
        self.sessions.put(key, at, at + 5, value)
        self.versions.put(key, value, at)
        self.forward(record)


def build() -> App:
    app = App("app", value="text")
    app.add_store(key_value_store("plain"))
    app.add_store(key_value_store("stamped", timestamped=True))
    app.add_store(window_store("windows", "1h", 10))
    app.add_store(session_store("sessions", "1h"))
    app.add_store(versioned_store("versions", "1h"))
    names = ["plain", "stamped", "windows", "sessions", "versions"]
    app.stream("in").process(Everything, stores=names).to("out")
    return app


def look(stores) -> list[object]:
    plain, stamped, windows, sessions, versions = (
        stores(name) for name in ("plain", "stamped", "windows", "sessions", "versions")
    )
    return [
        list(plain.all()),
        list(plain.range("b", None)),
        plain.get("a"),
        stamped.get("a"),
        list(stamped.prefix("b")),
        list(windows.fetch("a", 0, 100)),
        list(windows.fetch_all(2, 100)),
        windows.get("b", 2),
        list(sessions.find_sessions("a", 0, 100)),
        sessions.get("b", 2, 7),
        versions.get("a"),
        versions.get_as_of("a", 2),
        list(versions.history("a", 0, 100)),
    ]


EXPECTED = [
    [("a", "3"), ("b", "2")],
    [("b", "2")],
    "3",
    ("3", 3),
    [("b", ("2", 2))],
    [(1, "1"), (3, "3")],
    [("a", 3, "3"), ("b", 2, "2")],
    "2",
    [("a", 1, 6, "1"), ("a", 3, 8, "3")],
    "2",
    ("3", 3),
    ("1", 1),
    [("3", 3, None), ("1", 1, 3)],
]


def test_stores_of_every_kind() -> None:
    driver = build().test()
    for key, value, at in (("a", "1", 1), ("b", "2", 2), ("a", "3", 3)):
        driver.pipe("in", key, value, at)
    found = look(driver.store)
    found[6] = sorted(found[6])  # type: ignore[type-var]  # by key and time, in an order of segments
    found[12] = sorted(found[12], reverse=True)  # type: ignore[type-var]
    assert found == EXPECTED


def test_stores_are_what_their_changelogs_say() -> None:
    app = build()
    driver = app.test()
    for key, value, at in (("a", "1", 1), ("b", "2", 2), ("a", "3", 3)):
        driver.pipe("in", key, value, at)
    task = Task(app.topology().sub_topologies()[0], 0, app.settings(), MemoryState())
    for name, store in task.byte_stores.items():
        for record in driver.changelog[f"app-{name}-changelog"]:
            assert record.key is not None
            store.restore(record.key, record.value, record.timestamp)
    assert look(task.stores.__getitem__) == look(driver.store)
    task.add("in", [InputRecord("in", 0, 9, 50, b"c", b"4")])
    assert task.process() == 1
    output = task.collect()
    assert [record.value for record in output.records] == [b"4"]
    assert len(output.changelog) == 5
    assert output.positions == {("in", 0): 10}


class Router(Processor):
    def process(self, record: Record) -> None:
        self.context.forward(record, child=record.value)


def test_forward_to_a_named_child() -> None:
    app = App("app", value="text")
    routed = app.stream("in").process(Router, name="router")
    routed.to("one", name="first")
    routed.to("two", name="second")
    driver = app.test()
    driver.pipe("in", "k", "second", 1)
    assert (len(driver.read("one")), len(driver.read("two"))) == (0, 1)
    with pytest.raises(UserError, match="router has no child third"):
        driver.pipe("in", "k", "third", 1)


def test_a_store_must_be_named() -> None:
    class Greedy(Processor):
        def init(self, context: Context) -> None:
            context.store("seen")

    app = App("app")
    app.add_store(key_value_store("seen"))
    app.stream("in").process(Greedy)
    with pytest.raises(UserError, match="has no store seen"):
        app.test()
    other = App("app")
    other.stream("in").process(Greedy, stores=["seen"])
    with pytest.raises(UserError, match="which nobody has added"):
        other.test()


def test_changelog_topics_have_kafka_streams_settings() -> None:
    plans = {store.name: store for store in build().topology().sub_topologies()[0].stores}
    assert plans["plain"].changelog_topic("app") == "app-plain-changelog"
    assert plans["plain"].changelog_config() == {"message.timestamp.type": "CreateTime", "cleanup.policy": "compact"}
    assert plans["windows"].changelog_config()["cleanup.policy"] == "compact,delete"
    assert plans["windows"].changelog_config()["retention.ms"] == str(25 * 3_600_000)
    assert plans["versions"].changelog_config()["min.compaction.lag.ms"] == str(25 * 3_600_000)


class KeepsSessions(Processor):
    """Puts what it is told: a key, and start and end of a session."""

    def process(self, record: Record) -> None:
        start, end = record.value
        self.context.store("sessions").put(record.key, start, end, f"{record.key}{start}")


def test_sessions_are_found_by_a_range_of_keys() -> None:
    app = App("app", value="json")
    app.add_store(session_store("sessions", 1000, value="text"))
    app.stream("in").process(KeepsSessions, stores=["sessions"])
    with app.test() as driver:
        for key, start, end in (("a", 0, 10), ("b", 20, 30), ("b", 50, 60), ("ba", 0, 40), ("c", 0, 90)):
            driver.pipe("in", key, [start, end])
        store = driver.store("sessions")

        def found(lower: str | None, upper: str | None, *times: int, reverse: bool = False) -> list[str]:
            return [value for _, _, _, value in store.find_sessions_range(lower, upper, *times, reverse=reverse)]

        assert found("a", "b", 0, 100) == ["a0", "b20", "b50"]
        assert found("b", None, 30, 20) == ["b20", "ba0", "c0"]
        assert found(None, "ba", 0, 100, reverse=True) == ["ba0", "b50", "b20", "a0"]
        assert found("c", "a", 0, 100) == []
        assert [row[:3] for row in store.fetch_range("b", "ba")] == [("b", 20, 30), ("b", 50, 60), ("ba", 0, 40)]


class Counts(Processor):
    """It brings its store along."""

    stores = (key_value_store("seen", value="long"),)

    def __init__(self, step: int = 1) -> None:
        self.step = step

    def init(self, context: Context) -> None:
        self.seen = context.store("seen")

    def process(self, record: Record) -> None:
        count = (self.seen.get(record.key) or 0) + self.step
        self.seen.put(record.key, count)
        self.forward(record.with_value(count))


@pytest.mark.parametrize(
    "supplier", [Counts, lambda: Counts(), partial(Counts, 1)], ids=["class", "function", "partial"]
)
def test_a_processor_brings_its_stores_along(supplier) -> None:
    app = App("app", value="text")
    app.stream("in").process(supplier).to("out", value="long")
    with app.test() as driver:
        driver.pipe("in", "a", "x")
        driver.pipe("in", "a", "y")
        assert [record.value for record in driver.read("out")] == [1, 2]
        assert [record.value for record in driver.changelog["app-seen-changelog"]] == [
            b"\0" * 7 + b"\1",
            b"\0" * 7 + b"\2",
        ]


def test_processors_share_a_store_that_both_bring_along() -> None:
    app = App("app", value="text")
    app.stream("in").process(Counts).to("out", value="long")
    app.stream("others").process_values(Counts).to("out", value="long")
    (task,) = (plan for plan in app.topology().sub_topologies())
    assert [store.name for store in task.stores] == ["seen"]
    with app.test() as driver:
        driver.pipe("in", "a", "x")
        driver.pipe("others", "a", "y")
        assert [record.value for record in driver.read("out")] == [1, 2]


def test_stores_that_are_brought_along_stand_beside_those_that_are_named() -> None:
    class Both(Counts):
        def init(self, context: Context) -> None:
            super().init(context)
            self.last = context.store("last")

        def process(self, record: Record) -> None:
            self.last.put(record.key, record.value)
            super().process(record)

    app = App("app", value="text")
    app.add_store(key_value_store("last"))
    app.stream("in").process(Both, stores=["last", "seen"]).to("out", value="long")
    with app.test() as driver:
        driver.pipe("in", "a", "x")
        assert driver.store("last").get("a") == "x"
        assert driver.store("seen").get("a") == 1


def test_a_supplier_says_itself_which_stores_it_brings_along() -> None:
    class Makes:
        def __init__(self, store: str) -> None:
            self.store = store

        def stores(self) -> list[StorePlan]:
            return [key_value_store(self.store)]

        def __call__(self) -> Processor:
            name = self.store

            class Keeps(Processor):
                def process(self, record: Record) -> None:
                    self.context.store(name).put(record.key, record.value)

            return Keeps()

    app = App("app", value="text")
    app.stream("in").process(Makes("one"))
    app.stream("in").process(Makes("two"))
    with app.test() as driver:
        driver.pipe("in", "a", "x")
        assert [driver.store(name).get("a") for name in ("one", "two")] == ["x", "x"]


class Names(Counts):
    stores = "seen"


class NamesMany(Counts):
    stores = ("seen",)


class NeedsItself(Counts):
    def stores(self) -> list[StorePlan]:
        return []


@pytest.mark.parametrize("supplier", [Names, NamesMany, NeedsItself])
def test_what_is_brought_along_must_be_stores(supplier) -> None:
    with pytest.raises(UserError, match="is no store"):
        App("app").stream("in").process(supplier)
