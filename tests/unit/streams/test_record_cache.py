"""The record cache: of a key's changes between two commits the last goes on. What Kafka Streams does is compared in
`tests/compat/test_streams_oracle.py`; here are the decisions one by one.
"""

from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.streams import App, Materialized, Processor, Record, key_value_store, session, tumbling
from headwater.streams.engine.partition_group import PartitionQueue
from headwater.streams.engine.record import InputRecord, RecordMetadata
from headwater.streams.engine.task import Task
from headwater.streams.slot.settings import RunSettings
from headwater.streams.stores.cache import CacheBytes, CachedChange, ChangeContext, StoreCache
from headwater.streams.stores.memory import MemoryState
from headwater.streams.testing.driver import Driver

LARGE = 10 << 20


def app_of(**config: Any) -> App:
    return App("app", key="text", value="text", config=config)


def held(app: App, size: int = LARGE) -> Driver:
    return app.test(cache_max_bytes=size, commit_each_record=False)


def pipe(driver: Driver, *records: tuple[str, str | None], topic: str = "in", first: int = 0) -> None:
    for number, (key, value) in enumerate(records, first):
        driver.pipe(topic, key, value, timestamp=number)


def read(driver: Driver, topic: str = "out") -> list[tuple[Any, ...]]:
    return [tuple(record) for record in driver.read(topic)]


def logged(driver: Driver, topic: str) -> list[tuple[bytes | None, bytes | None, int]]:
    return [(record.key, record.value, record.timestamp) for record in driver.changelog.pop(topic, [])]


def joining(app: App, **store: Any) -> None:
    joined = app.stream("in").group_by_key().reduce(lambda a, b: a + b, store=Materialized("kept", **store))
    joined.to_stream().to("out")


# What goes on, and when


def test_the_last_change_of_each_key_goes_on_in_the_order_of_these_changes() -> None:
    joining(app := app_of())
    driver = held(app)
    pipe(driver, ("a", "1"), ("b", "2"), ("a", "3"), ("c", "4"), ("b", "5"))
    assert read(driver) == []
    assert driver.changelog == {}
    driver.commit()
    assert read(driver) == [("a", "13", 2), ("c", "4", 3), ("b", "25", 4)]
    assert logged(driver, "app-kept-changelog") == [(b"a", b"13", 2), (b"c", b"4", 3), (b"b", b"25", 4)]
    driver.commit()
    assert read(driver) == []


def test_a_test_driver_commits_after_each_record_unless_it_is_told_not_to() -> None:
    app = app_of()
    joining(app)
    driver = app.test(cache_max_bytes=LARGE)
    pipe(driver, ("a", "1"), ("a", "2"))
    assert read(driver) == [("a", "1", 0), ("a", "12", 1)]
    several = app_of()
    several.stream("in").flat_map_values(list).group_by_key().reduce(lambda a, b: a + b).to_stream().to("out")
    driver = several.test(cache_max_bytes=LARGE)
    pipe(driver, ("a", "xyz"))
    assert read(driver) == [("a", "xyz", 0)]


def test_without_a_cache_nothing_waits() -> None:
    joining(app := app_of())
    for driver in (app.test(commit_each_record=False), held(app, 0)):
        pipe(driver, ("a", "1"), ("a", "2"))
        assert read(driver) == [("a", "1", 0), ("a", "12", 1)]


def test_a_store_may_be_left_out() -> None:
    joining(app := app_of(), caching=False)
    driver = held(app)
    pipe(driver, ("a", "1"), ("a", "2"))
    assert read(driver) == [("a", "1", 0), ("a", "12", 1)]


def test_a_store_without_a_changelog_is_cached_too() -> None:
    joining(app := app_of(), logging=False)
    driver = held(app)
    pipe(driver, ("a", "1"), ("a", "2"))
    driver.commit()
    assert read(driver) == [("a", "12", 1)]
    assert driver.changelog == {}


def test_versioned_stores_and_those_with_a_time_to_live_are_not_cached() -> None:
    for how in ({"history_ms": 1000}, {"ttl": 1000}):
        app = app_of()
        app.table("in", store=Materialized("kept", **how)).to_stream().to("out")
        driver = held(app)
        pipe(driver, ("a", "1"), ("a", "2"))
        assert read(driver) == [("a", "1", 0), ("a", "2", 1)], how


def test_the_old_value_is_the_one_that_was_told_last() -> None:
    """The sum of a table would be wrong if it subtracted a value that it never got."""
    app = app_of()
    table = app.table("in", store="rows")
    grouped = table.group_by(lambda key, value: ("all", value), key="text", value="text")
    grouped.aggregate(lambda: "", lambda key, value, total: f"{total}+{value}", lambda key, value, total: f"{total}-{value}",
                      store=Materialized("sum", value="text", caching=False)).to_stream().to("out")  # fmt: skip
    driver = held(app)
    pipe(driver, ("a", "1"), ("a", "2"))
    driver.commit()
    pipe(driver, ("a", "3"), ("a", "4"))
    driver.commit()
    assert [value for _, value, _ in read(driver)] == ["+2", "+2-2+4"]


def test_a_row_that_came_and_went_is_told_to_nobody_and_one_that_was_told_is_deleted() -> None:
    app = app_of()
    app.table("in", store="rows").to_stream().to("out")
    driver = held(app)
    pipe(driver, ("a", "1"), ("b", "1"), ("a", None))
    driver.commit()
    assert read(driver) == [("b", "1", 1)]
    assert logged(driver, "app-rows-changelog") == [(b"b", b"1", 1)]
    pipe(driver, ("b", "2"), ("b", None), first=7)
    driver.commit()
    assert read(driver) == [("b", None, 8)]
    assert logged(driver, "app-rows-changelog") == [(b"b", None, 8)]


def test_headers_and_origin_are_those_of_the_record_that_changed_the_row_last() -> None:
    seen: list[RecordMetadata | None] = []

    class Look(Processor):
        def process(self, record: Record) -> None:
            seen.append(self.context.record_metadata)
            self.forward(record)

    app = app_of()
    app.table("in", store="rows").to_stream().process(Look).to("out")
    driver = held(app)
    for number in range(3):
        driver.pipe("in", "a", str(number), timestamp=number, headers=[("number", str(number).encode())])
    driver.pipe("in", "b", "x", timestamp=9)
    driver.commit()
    assert [(record.value, record.headers) for record in driver.read("out")] == [("2", (("number", b"2"),)), ("x", ())]
    assert seen == [RecordMetadata("in", 0, 2), RecordMetadata("in", 0, 3)]


def test_windows_and_sessions() -> None:
    app = app_of()
    grouped = app.stream("in").group_by_key()
    grouped.windowed_by(tumbling(10, grace=100)).count(store="windows").to_stream(
        lambda key, _: f"{key.key}@{key.start}"
    ).to("out")
    grouped.windowed_by(session(5, grace=100)).count(store="sessions").to_stream(
        lambda key, _: f"{key.key}@{key.start}-{key.end}"
    ).to("sessions")
    driver = held(app)
    for timestamp in (1, 2, 11, 3, 14):
        driver.pipe("in", "a", "x", timestamp=timestamp)
    driver.commit()
    assert [(key, at) for key, _, at in read(driver)] == [("a@0", 3), ("a@10", 14)]
    assert [(key, value is None) for key, value, _ in read(driver, "sessions")] == [
        ("a@1-3", False),
        ("a@11-14", False),
    ]
    driver.pipe("in", "a", "x", timestamp=15)
    driver.commit()
    assert [(key, value is None) for key, value, _ in read(driver, "sessions")] == [
        ("a@11-14", True),
        ("a@11-15", False),
    ]


def test_a_processors_store_logs_the_last_change_and_forwards_at_once() -> None:
    class Keep(Processor):
        def process(self, record: Record) -> None:
            self.context.store("seen").put(record.key, record.value)
            self.forward(record)

    for caching, changes in ((True, [(b"a", b"2", 1)]), (False, [(b"a", b"1", 0), (b"a", b"2", 1)])):
        app = app_of()
        app.add_store(key_value_store("seen", caching=caching))
        app.stream("in").process(Keep, stores=["seen"]).to("out")
        driver = held(app)
        pipe(driver, ("a", "1"), ("a", "2"))
        assert len(read(driver)) == 2
        driver.commit()
        assert logged(driver, "app-seen-changelog") == changes


# What is read meanwhile


def test_joins_and_ranges_see_what_waits() -> None:
    app = app_of()
    table = app.table("table", store="rows")
    app.stream("in").join(table, lambda mine, other: mine + other).to("out")
    driver = held(app)
    pipe(driver, ("a", "1"), ("b", "2"), ("a", "3"), topic="table")
    pipe(driver, ("a", "x"), ("b", "y"), first=9)
    assert [(key, value) for key, value, _ in read(driver)] == [("a", "x3"), ("b", "y2")]
    assert [(key, value) for key, (value, _) in driver.store("rows").all()] == [("a", "3"), ("b", "2")]
    assert driver.changelog == {}


# Stores behind each other


def test_what_one_cache_tells_waits_in_no_later_one() -> None:
    """Stores are flushed in the order of the topology: one commit brings a change through all of them."""
    app = app_of()
    first = app.table("in", store="first")
    first.map_values(lambda value: value + "!", store="second").filter(lambda _, v: True, store="third").to_stream().to(
        "out"
    )
    driver = held(app)
    pipe(driver, ("a", "1"), ("a", "2"))
    task = driver.tasks[0]
    task.flush_cache()
    assert [record.value for record in task.collect().records] == [b"2!"]


# Bytes


class Told(list[tuple[bytes, bytes | None, bytes | None]]):
    def __call__(self, key: bytes, change: CachedChange) -> None:
        self.append((key, change.value, change.old))


CONTEXT = ChangeContext(0, (("h", b"12"),), RecordMetadata("topic", 0, 0))
EACH = 25 + 20 + len("topic") + len("h") + 2  # beside key and value


def cache_of(*entries: int) -> tuple[StoreCache, Told, CacheBytes]:
    """With room for entries of these sizes of key and value."""
    told, room = Told(), CacheBytes(sum(EACH + size for size in entries))
    return StoreCache(room, lambda: CONTEXT, told), told, room


def test_a_change_that_does_not_fit_flushes_the_store_with_the_eldest_first() -> None:
    cache, told, room = cache_of(2, 2, 2)
    for key in (b"a", b"b", b"c"):
        cache.put(key, b"1", None)
    assert told == []
    assert room.used_bytes == room.max_bytes
    cache.read(b"a", b"1")
    cache.put(b"c", b"2", b"?")
    cache.put(b"d", b"1", None)
    assert told == [(b"b", b"1", None), (b"a", b"1", None), (b"c", b"2", None), (b"d", b"1", None)]
    assert room.used_bytes == room.max_bytes
    cache.put(b"e", b"1", None)  # what goes now was told already
    assert len(told) == 4


def test_what_was_only_read_takes_room_and_goes_untold() -> None:
    cache, told, _ = cache_of(2, 2)
    cache.read(b"a", b"1")
    cache.read(b"b", b"1")
    cache.put(b"c", b"1", None)
    assert told == []
    cache.flush()
    assert told == [(b"c", b"1", None)]


def test_a_change_larger_than_all_goes_on_at_once() -> None:
    cache, told, room = cache_of(2)
    cache.put(b"a", b"123456789", b"0")
    assert told == [(b"a", b"123456789", b"0")]
    assert room.used_bytes == 0


def test_stores_share_their_bytes_and_only_the_one_that_is_put_into_makes_room() -> None:
    first, told, room = cache_of(2, 2)
    second_told = Told()
    second = StoreCache(room, lambda: CONTEXT, second_told)
    first.put(b"a", b"1", None)
    second.put(b"b", b"1", None)
    second.put(b"c", b"1", None)
    assert told == []
    assert second_told == [(b"b", b"1", None), (b"c", b"1", None)]
    first.clear()
    second.clear()
    assert room.used_bytes == 0


def test_a_deletion_leaves_no_entry_behind() -> None:
    cache, told, room = cache_of(2)
    cache.put(b"a", None, b"1")
    cache.flush()
    assert told == [(b"a", None, b"1")]
    assert room.used_bytes == 0


# Failures and settings


def give(task: Task, key: str, value: str, offset: int) -> None:
    raw = InputRecord("in", 0, offset, offset, key.encode(), value.encode())
    queue: PartitionQueue = task.group.queues["in", 0]
    record = queue.decode(raw, -1)
    assert record is not None
    task.process_record(queue, raw, record)


def test_what_waits_is_forgotten_with_the_changes_of_the_state() -> None:
    """A commit that failed: its records come again, and must find neither rows nor changes of the first time."""
    joining(app := app_of())
    state = MemoryState()
    settings = app.settings(cache_max_bytes=LARGE).with_cache()
    (plan,) = app.topology().sub_topologies()
    task = Task(plan, 0, settings, state)
    give(task, "a", "1", 0)
    task.flush_cache()
    assert [record.value for record in task.collect().records] == [b"1"]
    state.commit({})
    give(task, "a", "2", 1)
    state.discard()
    task.flush_cache()
    assert task.collect().records == []
    give(task, "a", "2", 1)
    task.flush_cache()
    assert [record.value for record in task.collect().records] == [b"12"]
    assert settings.cache is not None
    task.close()
    assert settings.cache.used_bytes == 0


def test_a_failure_behind_the_cache_names_its_node() -> None:
    def fail(value: str) -> str:
        raise ValueError(value)

    app = app_of()
    app.table("in", store="rows").map_values(fail, name="failing").to_stream().to("out")
    driver = held(app)
    pipe(driver, ("a", "1"))
    with pytest.raises(UserError, match="failing"):
        driver.commit()


@pytest.mark.parametrize("name", ["statestore.cache.max.bytes", "cache.max.bytes.buffering"])
def test_the_settings_of_kafka_streams(name: str) -> None:
    assert app_of(**{name: "1000"}).cache_max_bytes == 1000
    assert app_of().cache_max_bytes == 0
    both = {"statestore.cache.max.bytes": 5, "cache.max.bytes.buffering": 6}
    assert app_of(**both).cache_max_bytes == 5
    for wrong in (-1, "much", None):
        with pytest.raises(UserError, match=name):
            app_of(**{name: wrong})


def test_a_negative_size_is_refused(tmp_path: Any) -> None:
    with pytest.raises(UserError, match="cache_max_bytes"):
        RunSettings("none:1", tmp_path, cache_max_bytes=-1)
    with pytest.raises(UserError, match="cache_max_bytes"):
        app_of().test(cache_max_bytes=-1)
