"""`app.add_global_store`: a store that a processor makes of a topic, the same in every task."""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.client.consumer.record import ConsumerRecord
from headwater.client.types import EARLIEST, LATEST
from headwater.streams import App, Context, Processor, Record, key_value_store, window_store
from headwater.streams.engine.read_only_store import ReadOnlyStore
from headwater.streams.model.record import InputRecord
from headwater.streams.slot.global_tables import GlobalTables


class Highest(Processor):
    """The highest price of a product, of whatever currency: not what a table of the topic would have."""

    def process(self, record: Record) -> None:
        prices = self.context.store("highest")
        product = record.key.partition("/")[0]
        prices.put(product, max(record.value, prices.get(product) or 0))


class Lookup(Processor):
    def process(self, record: Record) -> None:
        self.forward(record.with_value(self.context.store("highest").get(record.value)))


@pytest.fixture
def app() -> App:
    app = App("shop", value="text")
    app.add_global_store(key_value_store("highest", value="json"), "prices", Highest, value="json")
    app.stream("orders").process(Lookup).to("priced", value="json")
    return app


def test_every_task_reads_what_the_processor_made_of_the_topic(app: App) -> None:
    driver = app.test(partitions=3)
    for key in "abc":  # the keys lie in different partitions
        driver.pipe("orders", key, "tea", 1)
    driver.pipe("prices", "tea/EUR", 5, 2)
    driver.pipe("prices", "tea/USD", 7, 3)
    driver.pipe("prices", "tea/EUR", 6, 4)
    driver.pipe("prices", "milk/EUR", 2, 5)
    for key in "abc":
        driver.pipe("orders", key, "tea", 6)
    driver.pipe("orders", "a", "milk", 7)
    found = [(record.key, record.value, record.timestamp) for record in driver.read("priced")]
    nothing_yet = [(key, None, 1) for key in "abc"]
    assert found == [*nothing_yet, *((key, 7, 6) for key in "abc"), ("a", 2, 7)]
    assert list(driver.store("highest").all()) == [("milk", 2), ("tea", 7)]


def test_it_has_no_changelog_and_its_text_is_kafka_streams(app: App) -> None:
    topology = app.topology()
    (store,) = [store for store in topology.stores.values() if store.name == "highest"]
    assert not store.spec.logged
    assert store.changelog_topic("shop") == "prices"  # what restores it
    assert (
        "  Sub-topology: 0 for global store (will not generate tasks)\n"
        "    Source: KSTREAM-SOURCE-0000000000 (topics: [prices])\n"
        "      --> KTABLE-SOURCE-0000000001\n"
        "    Processor: KTABLE-SOURCE-0000000001 (stores: [highest])\n"
        "      --> none\n"
        "      <-- KSTREAM-SOURCE-0000000000\n"
    ) in app.describe()


def test_a_processor_that_reads_a_global_store_cannot_change_it() -> None:
    """All tasks share it: what one put was there for some, and gone at the next start."""

    class Meddles(Processor):
        def process(self, record: Record) -> None:
            self.context.store("highest").put("tea", 1)

    app = App("shop", value="json")
    app.add_global_store(key_value_store("highest"), "prices", Highest)
    app.stream("orders").process(Meddles)
    with pytest.raises(UserError, match="highest is a global store and cannot be changed here"):
        app.test().pipe("orders", "a", 1, 1)


def test_what_a_reader_of_a_global_store_looks_up_is_of_now() -> None:
    class Windows:
        stream_time = 1

        def fetch(self) -> int:
            return self.stream_time

    windows = Windows()
    store = ReadOnlyStore("counts", windows)
    assert (store.stream_time, store.fetch()) == (1, 1)
    windows.stream_time = 2
    assert (store.stream_time, store.fetch()) == (2, 2)


def test_global_tables_are_read_only_as_well() -> None:
    class Meddles(Processor):
        def process(self, record: Record) -> None:
            self.context.store("names").delete("1")

    app = App("shop", value="text")
    app.global_table("names", store="names")
    app.stream("in").process(Meddles)
    with pytest.raises(UserError, match="delete was called by a processor that reads it"):
        app.test().pipe("in", "k", "v", 1)


def test_its_processor_has_no_punctuators() -> None:
    class Punctual(Highest):
        def init(self, context: Context) -> None:
            context.schedule(50, "stream", lambda _: None)

    app = App("shop")
    app.add_global_store(key_value_store("highest"), "prices", Punctual)
    with pytest.raises(UserError, match="the processor of a global store has none"):
        app.test()


def test_windows_and_names_of_ones_own() -> None:
    class PerMinute(Processor):
        def process(self, record: Record) -> None:
            self.context.store("minutes").put(record.key, record.value, record.timestamp // 60_000 * 60_000)

    app = App("shop")
    app.add_global_store(window_store("minutes", "1h", "1m"), "prices", PerMinute, name="latest")
    driver = app.test()
    driver.pipe("prices", "tea", 5, 10)
    driver.pipe("prices", "tea", 6, 70_000)
    assert list(driver.store("minutes").fetch("tea", 0, 60_000)) == [(0, 5), (60_000, 6)]
    assert "Source: latest-source (topics: [prices])" in app.describe()
    assert "Processor: latest (stores: [minutes])" in app.describe()


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(UserError, match="The store s is a global store and has no ttl"):
        App("shop").add_global_store(key_value_store("s", ttl="1h"), "prices", Highest)
    app = App("shop")
    app.add_global_store(key_value_store("highest"), "prices", Highest)
    app.stream("in").process(Lookup, stores=["highest"])
    with pytest.raises(UserError, match="highest is a global store"):
        app.topology()


class Total(Processor):
    """Of the highest prices: what another processor has made. Asked for at the start, as processors do."""

    def init(self, context: Context) -> None:
        self._highest, self._totals = context.store("highest"), context.store("totals")

    def process(self, record: Record) -> None:
        self._totals.put(record.key, sum(self._highest.get(product) or 0 for product in record.value))


def test_processors_of_global_stores_read_each_other() -> None:
    app = App("shop", value="json")
    app.add_global_store(key_value_store("totals"), "baskets", Total)  # it comes before what it reads
    app.add_global_store(key_value_store("highest"), "prices", Highest)
    app.global_table("names", store="names")
    driver = app.test(partitions=2)
    driver.pipe("baskets", "ann", ["tea", "milk"], 1)
    assert driver.store("totals").get("ann") == 0
    driver.pipe("prices", "tea/EUR", 5, 2)
    driver.pipe("prices", "milk/EUR", 2, 3)
    driver.pipe("baskets", "ann", ["tea", "milk"], 4)
    assert driver.store("totals").get("ann") == 7


def test_processors_of_global_stores_may_change_them_as_in_kafka_streams() -> None:
    class Clears(Processor):
        def process(self, record: Record) -> None:
            self.context.store("highest").delete(record.value)
            self.context.store("cleared").put(record.value, record.timestamp)

    app = App("shop", value="json")
    app.add_global_store(key_value_store("highest"), "prices", Highest)
    app.add_global_store(key_value_store("cleared"), "clearings", Clears)
    driver = app.test()
    driver.pipe("prices", "tea/EUR", 5, 2)
    driver.pipe("clearings", "x", "tea", 3)
    assert driver.store("highest").get("tea") is None
    assert driver.store("cleared").get("tea") == 3


def test_other_stores_are_refused_to_the_processor_of_a_global_one() -> None:
    class Asks(Processor):
        def process(self, record: Record) -> None:
            self.context.store("mine")

    app = App("shop", value="json")
    app.add_global_store(key_value_store("highest"), "prices", Asks)
    app.add_store(key_value_store("mine"))
    app.stream("in").process(Lookup, stores=["mine"])
    with pytest.raises(
        UserError, match=r"has no store mine\. the processor of a global store has global ones only: highest"
    ):
        app.test().pipe("prices", "k", 1, 1)


def test_the_processor_of_a_global_store_has_no_stream_time_and_the_task_id_of_kafka_streams() -> None:
    seen: list[str] = []

    class Asks(Processor):
        def process(self, record: Record) -> None:
            seen.append(self.context.task_id)
            assert self.context.stream_time_ms

    app = App("shop", value="json")
    app.stream("in").to("out")
    app.add_global_store(key_value_store("highest"), "prices", Asks)
    with pytest.raises(UserError, match="the processor of a global store has none"):
        app.test().pipe("prices", "k", 1, 1)
    assert seen == ["-1_-1"]


def test_the_test_driver_counts_what_global_tables_leave_out() -> None:
    app = App("shop", key="text", value="json", on_error="dead_letter")
    app.global_table("names", store="names")
    driver = app.test()
    driver.pipe("names", b"k", b"{no json", 1)
    driver.pipe("names", None, 1, 1)
    assert driver.dropped == {"deserialization error": 1, "null key": 1}
    assert [letter.value for letter in driver.read_raw("shop-dead-letters")] == [b"{no json"]


def test_rows_that_are_deleted_leave_nothing_behind_in_a_global_store() -> None:
    """The driver's tasks, and those of a slot: at the start, and of what comes then."""
    app = App("app", value="text")
    app.global_table("rows", store="rows")
    app.stream("in").to("out")
    with app.test() as driver:
        for number in range(5):
            driver.pipe("rows", f"key {number}", "x", 1)
            driver.pipe("rows", f"key {number}", None if number else "y", 2)
        assert driver.store("rows").approximate_count() == 1

    offsets = {EARLIEST: 0, LATEST: 4}
    rows = ((b"a", b"x"), (b"b", b"y"), (b"a", None), (b"b", b"z"))
    there = [ConsumerRecord("rows", 0, at, 1, 0, *row, (), -1) for at, row in enumerate(rows)]
    admin = SimpleNamespace(
        list_offsets=lambda asked, **_: {each: SimpleNamespace(offset=offsets[which]) for each, which in asked.items()}
    )
    clients: Any = SimpleNamespace(admin=admin, reader=SimpleNamespace(records=lambda *_, **__: iter(there)))
    plans = app.topology().sub_topologies()
    tables = GlobalTables([plan for plan in plans if plan.is_global], app.settings(), {"rows": 1})
    tables.restore(clients)
    store = tables.stores["rows"]
    assert (store.approximate_count(), store.get("b")) == (1, ("z", 1))
    for offset, key in enumerate((b"b", b"c", b"c"), 4):
        tables.update(InputRecord("rows", 0, offset, 5, key, None))
    assert (store.approximate_count(), list(store.all())) == (0, [])
    tables.close()
