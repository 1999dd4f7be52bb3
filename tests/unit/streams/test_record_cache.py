"""The record cache: of a key's changes between two commits the last goes on. What Kafka Streams does is compared in
`tests/compat/test_streams_oracle.py`; here are the decisions one by one.
"""

import dataclasses
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.streams import App, Materialized, Processor, Record, key_value_store, session, tumbling
from headwater.streams.dead_letters import read_letter
from headwater.streams.engine.failures import ClusterFailure, ErrorPolicy, Failure, StreamsError, Verdict
from headwater.streams.engine.partition_group import PartitionQueue
from headwater.streams.engine.task import Task
from headwater.streams.model.record import InputRecord, RecordMetadata
from headwater.streams.slot.settings import RunSettings
from headwater.streams.stores.cache import CacheBytes, CachedChange, ChangeContext, StoreCache
from headwater.streams.stores.key_value import KeyValues
from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.session import Sessions
from headwater.streams.stores.spec import StoreKind, StoreSpec
from headwater.streams.stores.window import Windows
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


class Put(Processor):
    """Puts what it gets into the store `seen`."""

    def process(self, record: Record) -> None:
        self.context.store("seen").put(record.key, str(record.value))
        self.forward(record)


def seen_behind_counts() -> App:
    """The store of the processor is added first, and comes last in the topology."""
    app = app_of()
    app.add_store(key_value_store("seen", caching=True))
    counts = app.stream("in").group_by_key().count(store="counts")
    counts.to_stream().process(Put, stores=["seen"]).to("out", value="long")
    return app


def test_a_store_that_was_added_first_is_flushed_where_the_topology_has_it() -> None:
    task = task_of(seen_behind_counts())
    assert [store.name for store in task.plan.stores] == ["seen", "counts"]
    assert [cache.name for cache in task.caches] == ["counts", "seen"]


def test_nothing_waits_behind_a_commit_though_an_earlier_store_is_put_into() -> None:
    """The rows and the offsets of their records are committed, so their changelog records have to be, too."""
    for name, app in (("the store of a processor", seen_behind_counts()), ("the table itself", fed_back(1))):
        state = MemoryState()
        task = task_of(app, state)
        give(task, "k", "v", 0)
        task.flush_cache()
        changes = {(record.topic, record.key) for record in task.collect().changelog}
        state.commit({})
        task.close()
        rows = {
            (f"app-{store}-changelog", key) for store, each in task.byte_stores.items() for key, _ in each.rows.scan()
        }
        assert len(rows) == 2, name
        assert changes == rows, name


def fed_back(times: int | None) -> App:
    """A processor behind a table puts into it as often, or whenever it is told of a change."""

    class Feed(Processor):
        def process(self, record: Record) -> None:
            number = int(record.value) if record.value.isdigit() else 0
            if times is None or number < times:
                self.context.store("rows").put(f"fed{number}", str(number + 1), record.timestamp)

    app = app_of()
    app.table("in", store="rows").to_stream().process(Feed, name="feed", stores=["rows"])
    return app


@pytest.mark.parametrize("room", [LARGE, 1])
def test_a_processor_may_feed_the_table_before_it_for_a_while(room: int) -> None:
    """Further than Python's stack would go if each flush were within the one before."""
    task = task_of(fed_back(900), room=room)
    give(task, "k", "v", 0)
    task.flush_cache()
    changes = [(record.key, record.value) for record in task.collect().changelog]
    assert changes == [(b"k", b"v"), *((b"fed%d" % number, b"%d" % (number + 1)) for number in range(900))]
    assert not any(cache.has_changes for cache in task.caches)
    assert task.settings.cache is not None
    assert task.settings.cache.used_bytes <= room


@pytest.mark.parametrize("room", [LARGE, 1])
def test_a_processor_that_feeds_the_table_before_it_without_end_is_an_error(room: int) -> None:
    task = task_of(fed_back(None), room=room)
    with pytest.raises(UserError, match="rows never come to an end"):
        give_all(task, "v")


def test_a_change_made_while_another_is_told_is_told_once_and_last() -> None:
    """The processor that is told of `a` puts a larger `b`, which is more than there is room for; `b` waits as well."""

    class Back(Processor):
        def process(self, record: Record) -> None:
            if record.key == "a":
                self.context.store("rows").put("b", "new" * 100, record.timestamp)

    app = app_of()
    app.table("in", store="rows").to_stream().process(Back, stores=["rows"])
    task = task_of(app, room=300)
    give(task, "a", "1", 0)
    give(task, "b", "old", 1)
    task.flush_cache()
    changes = [(record.key, record.value) for record in task.collect().changelog]
    assert changes == [(b"a", b"1"), (b"b", b"new" * 100)]
    assert task.stores["rows"].get("b") == ("new" * 100, 0)


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


def test_records_that_are_kept_for_dead_letters_take_room_until_their_change_is_told() -> None:
    record = InputRecord("topic", 0, 0, 0, b"key", bytes(1000))
    told, room = Told(), CacheBytes(3 * (EACH + 2) + 1003)
    cache = StoreCache(room, lambda: CONTEXT._replace(record=record), told)
    cache.put(b"a", b"1", None)
    assert (told, room.used_bytes) == ([], EACH + 2 + 1003)
    cache.put(b"a", b"2", b"1")  # of another record: the former one is gone
    assert (told, room.used_bytes) == ([], EACH + 2 + 1003)
    cache.put(b"b", b"1", None)  # two of them are too many: all is told
    assert told == [(b"a", b"2", None), (b"b", b"1", None)]
    assert room.used_bytes == EACH + 2
    cache.put(b"a", b"3", b"2")
    cache.flush()
    assert room.used_bytes == 2 * (EACH + 2)  # rows that were used lately, without records
    cache.clear()
    assert room.used_bytes == 0


def test_a_row_that_is_read_while_it_is_told_takes_its_whole_room() -> None:
    """The record of its change was taken off what it counted, though that was not in it: a cache had room for ever."""
    record = InputRecord("topic", 0, 0, 0, b"key", bytes(1000))
    room = CacheBytes(EACH)

    def tell(key: bytes, change: CachedChange) -> None:
        cache.read(key, change.value)

    cache = StoreCache(room, lambda: CONTEXT._replace(record=record), tell)
    cache.put(b"a", b"1", None)  # it does not fit, and is told when it has gone
    assert room.used_bytes == 25 + 20 + 2  # as of any row that was read


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


def test_a_put_within_a_flush_is_told_by_that_flush_or_waits() -> None:
    told, room = Told(), CacheBytes(3 * (EACH + 2))

    def tell(key: bytes, change: CachedChange) -> None:
        told(key, change)
        if key == b"a" and change.value == b"1":
            cache.put(b"c", b"3", b"?")
            cache.put(b"a", b"2", b"1")
            cache.put(b"d", b"1", None)

    cache = StoreCache(room, lambda: CONTEXT, tell)
    for key in (b"a", b"b", b"c"):
        cache.put(key, b"1", None)
    cache.flush()
    assert told == [(b"a", b"1", None), (b"b", b"1", None), (b"c", b"3", None)]
    cache.flush()
    assert told[3:] == [(b"a", b"2", b"1"), (b"d", b"1", None)]
    cache.make_room()
    assert room.used_bytes == room.max_bytes


def test_a_row_that_is_put_again_while_its_deletion_is_told_keeps_its_place() -> None:
    room = CacheBytes(1000)

    def tell(key: bytes, change: CachedChange) -> None:
        if change.value is None:
            cache.put(key, b"again", None)

    cache = StoreCache(room, lambda: CONTEXT, tell)
    cache.put(b"a", None, b"1")
    cache.flush()
    assert cache.has_change(b"a")
    assert room.used_bytes == EACH + len(b"aagain")


def test_a_failure_loses_no_other_change() -> None:
    told = Told()

    def tell(key: bytes, change: CachedChange) -> None:
        if key == b"a":
            raise ValueError(key)
        told(key, change)

    cache = StoreCache(CacheBytes(1000), lambda: CONTEXT, tell)
    cache.put(b"a", b"1", None)
    cache.put(b"b", b"1", None)
    with pytest.raises(ValueError, match="a"):
        cache.flush()
    cache.flush()
    assert told == [(b"b", b"1", None)]


class Runs:
    """Tells what waits by column, if the cluster answers."""

    context = CONTEXT

    def __init__(self) -> None:
        self.told: list[bytes] = []
        self.answers = True

    def tell_all(self, keys: list[bytes], values: list[bytes]) -> None:
        if not self.answers:
            raise ClusterFailure(TimeoutError("nobody answers"))
        self.told += keys


def test_a_failure_by_column_loses_no_change() -> None:
    cache, _, _ = cache_of(100)
    cache.run_teller = runs = Runs()
    cache.put_run([b"a", b"b"], [b"1", b"1"])
    runs.answers = False
    with pytest.raises(ClusterFailure):
        cache.flush_all()
    runs.answers = True
    cache.flush_all(b"b")
    assert runs.told == [b"b", b"a"]
    assert not cache.has_changes


def test_a_row_of_a_run_that_is_deleted_was_there() -> None:
    """A run does not know what was told before it. Without an old value its deletion would be told to nobody."""
    cache, told, _ = cache_of(100)
    cache.run_teller = Runs()
    cache.put_run([b"a"], [b"1"])
    cache.put(b"a", None, None)
    cache.flush_all()
    assert [(key, value, old is None) for key, value, old in told] == [(b"a", None, False)]


def test_stores_without_a_cache_make_no_call_more() -> None:
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and Path(frame.f_code.co_filename).name in ("key_value.py", "window.py", "session.py"):
            calls.append(frame.f_code.co_name)

    state, logs = MemoryState(), lambda *_: None
    rows = KeyValues(StoreSpec("rows", timestamped=True), state, logs)
    spec = StoreSpec("windows", StoreKind.WINDOW, retention_ms=1000, segment_interval_ms=1000)
    windows = Windows(spec, state, logs)
    sessions = Sessions(dataclasses.replace(spec, name="sessions", kind=StoreKind.SESSION), state, logs)
    sys.setprofile(note)
    try:
        rows.put(b"k", bytes(9))
        windows.put(b"k", bytes(9), 1)
        sessions.put(b"k", 1, 2, b"v")
        sessions.remove(b"k", 1, 2)
    finally:
        sys.setprofile(None)
    assert calls == ["put", "put", "_put_raw", "put", "_put_raw", "remove", "_remove_raw"]


# Failures and settings


def task_of(app: App, state: MemoryState | None = None, room: int = LARGE) -> Task:
    (plan,) = app.topology().sub_topologies()
    return Task(plan, 0, app.settings(cache_max_bytes=room).with_cache(), state or MemoryState())


def give_all(task: Task, *values: str) -> None:
    """Each with a key of its own; then a commit."""
    for offset, value in enumerate(values):
        give(task, f"k{offset}", value, offset)
    task.flush_cache()


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
    task = task_of(app, state)
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
    assert task.settings.cache is not None
    task.close()
    assert task.settings.cache.used_bytes == 0


def test_a_failure_behind_the_cache_names_its_node() -> None:
    def fail(value: str) -> str:
        raise ValueError(value)

    app = app_of()
    app.table("in", store="rows").map_values(fail, name="failing").to_stream().to("out")
    driver = held(app)
    pipe(driver, ("a", "1"))
    with pytest.raises(UserError, match="failing"):
        driver.commit()


def fail_if_bad(value: str) -> str:
    if value == "bad":
        raise ValueError(value)
    return value


def bad_rows(**settings: Any) -> App:
    app = App("app", key="text", value="text", **settings)
    app.table("in", store="rows").map_values(fail_if_bad, name="failing").to_stream().to("out")
    return app


@pytest.mark.parametrize("room", [LARGE, 150])
def test_a_failure_behind_the_cache_is_that_of_the_record_that_made_the_change(room: int) -> None:
    """With little room it is a later record that makes the change go on. That one is not at fault."""
    task = task_of(bad_rows(on_error="dead_letter"), room=room)
    give_all(task, "bad", "good", "good")
    output = task.collect()
    letter, *others = output.records
    assert [(record.key, record.value) for record in others] == [(b"k1", b"good"), (b"k2", b"good")]
    assert output.dropped == {"processing error": 1}
    assert (letter.topic, letter.key, letter.value) == ("app-dead-letters", b"k0", b"bad")
    at = {name.removeprefix("__streams.errors."): value for name, value in letter.headers}
    assert (at["topic"], at["partition"], at["offset"], at["message"]) == (b"in", b"0", b"0", b"bad")
    read = read_letter(0, 0, letter.timestamp, letter.key, letter.value, letter.headers)
    assert read.can_be_replayed
    with pytest.raises(StreamsError, match=r"failing of task 0_0, with the record at in-0 offset 0, held back"):
        give_all(task_of(bad_rows(), room=room), "bad", "good", "good")


def test_a_function_for_failures_gets_the_record_that_is_at_fault() -> None:
    failures: list[Failure] = []

    def decide(failure: Failure) -> Verdict:
        failures.append(failure)
        return "skip"

    task = task_of(bad_rows(on_error=ErrorPolicy(processing=decide)), room=150)
    give_all(task, "bad", "good", "good")
    (failure,) = failures
    assert failure.record == InputRecord("in", 0, 0, 0, b"k0", b"bad")
    assert (failure.metadata, failure.held_back) == (RecordMetadata("in", 0, 0), True)


def test_records_are_kept_with_their_changes_only_where_a_failure_may_be_survived() -> None:
    for policy, kept in (("fail", [None]), ("skip", [InputRecord("in", 0, 7, 7, b"a", b"1")])):
        task = task_of(bad_rows(on_error=policy))
        give(task, "a", "1", 7)
        (cache,) = task.caches
        assert [change.context.record for change in cache._changes.values()] == kept  # type: ignore[union-attr]


def test_a_change_of_a_punctuator_comes_from_no_record_though_one_makes_it_go_on() -> None:
    seen: list[tuple[Any, RecordMetadata | None]] = []

    class Tick(Processor):
        def init(self, context: Any) -> None:
            context.schedule(1, "wall", lambda _: context.store("rows").put("tick", "x", 0))

        def process(self, record: Record) -> None: ...

    class Look(Processor):
        def process(self, record: Record) -> None:
            seen.append((record.key, self.context.record_metadata))

    app = app_of()
    table = app.table("in", store="rows").to_stream()
    table.process(Look)
    table.process(Tick, stores=["rows"])
    task = task_of(app, room=120)
    task.punctuate(1)
    give(task, "a", "1", 0)
    give(task, "b", "1", 1)
    assert seen[0] == ("tick", None)


def test_a_change_that_cannot_be_read_is_told_with_its_store() -> None:
    class Touchy:
        name = "touchy"

        def serialize(self, value: Any) -> bytes:
            return str(value).encode()

        def deserialize(self, data: bytes) -> str:
            if data == b"bad":
                raise ValueError("cannot be read")
            return data.decode()

    app = app_of()
    reduced = app.stream("in").group_by_key().reduce(lambda a, b: a + b, store=Materialized("rows", value=Touchy()))
    reduced.to_stream().to("out")
    task = task_of(app)
    give(task, "a", "bad", 3)
    with pytest.raises(StreamsError, match=r"rows of task 0_0, with the record at in-0 offset 3, held back"):
        task.flush_cache()


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
