"""Stores with a time to live: rows go by stream time, with a tombstone, and come back neither by a restart nor by a
restore.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.streams import (
    App,
    Context,
    Materialized,
    Processor,
    Record,
    key_value_store,
    session_store,
    tumbling,
    versioned_store,
    window_store,
)
from headwater.streams.engine.columns import Chunk
from headwater.streams.engine.lane.lane import compile_lane
from headwater.streams.engine.task import Task
from headwater.streams.model.record import InputRecord
from headwater.streams.stores.expiring import note_times, times_fit
from headwater.streams.stores.lmdb import LmdbState
from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.spec import StoreSpec
from headwater.streams.stores.state import Owner, TaskState


class Keep(Processor):
    """Says what it found before it puts the value, which `?` asks for only."""

    def init(self, context: Context) -> None:
        self.plain, self.stamped = context.store("plain"), context.store("stamped")

    def process(self, record: Record) -> None:
        key, value = record.key, record.value
        self.forward(record.with_value(f"{self.plain.get(key)} {self.stamped.get(key)}"))
        if value != "?":
            self.plain.put(key, value)
            self.stamped.put(key, value, record.timestamp)


def build(ttl: int | None = 10) -> App:
    app = App("app", value="text")
    app.add_store(key_value_store("plain", ttl=ttl))
    app.add_store(key_value_store("stamped", ttl=ttl, timestamped=True))
    app.stream("in").process(Keep, stores=["plain", "stamped"]).to("out")
    return app


def task_of(app: App, state: TaskState) -> Task:
    (plan,) = app.topology().sub_topologies()
    return Task(plan, 0, app.settings(), state)


def give(task: Task, key: str, value: str, at: int) -> list[str]:
    """What the processor said."""
    task.add("in", [InputRecord("in", 0, at, at, key.encode(), value.encode(), ())])
    before = len(task.outputs.records)
    assert task.process_next() == 1
    return [(record.value or b"").decode() for record in task.outputs.records[before:]]


def rows(task: Task) -> tuple[list[Any], list[Any]]:
    return list(task.stores["plain"].all()), list(task.stores["stamped"].all())


def test_a_row_is_there_until_stream_time_is_beyond_its_time_to_live() -> None:
    with build().test() as driver:
        driver.pipe("in", "a", "1", timestamp=5)
        driver.pipe("in", "b", "2", timestamp=15)
        assert driver.store("plain").get("a") == "1"  # 5 + 10 is not beyond
        driver.pipe("in", "a", "?", timestamp=16)
        assert [value for _, value, _ in driver.read("out")] == ["None None", "None None", "None None"]
        assert list(driver.store("plain").all()) == [("b", "2")]
        assert list(driver.store("stamped").range("a", "z", reverse=True)) == [("b", ("2", 15))]
        assert list(driver.store("plain").prefix("a")) == []
        assert driver.store("plain").approximate_count() == 1
        for store in ("plain", "stamped"):
            log = [(each.key, each.value, each.timestamp) for each in driver.changelog[f"app-{store}-changelog"]]
            assert log == [(b"a", b"1", 5), (b"b", b"2", 15), (b"a", None, 16)]


def test_a_row_that_is_put_again_lives_from_then_on() -> None:
    with build().test() as driver:
        driver.pipe("in", "a", "1", timestamp=0)
        driver.pipe("in", "a", "2", timestamp=9)
        driver.pipe("in", "a", "?", timestamp=19)
        assert driver.store("plain").get("a") == "2"
        assert driver.store("stamped").get("a") == ("2", 9)
        driver.pipe("in", "a", "?", timestamp=20)
        assert driver.store("plain").get("a") is None
        assert [value for _, value, _ in driver.read("out")][1:] == ["1 ('1', 0)", "2 ('2', 9)", "None None"]


def test_a_late_put_that_has_expired_already_is_counted_and_leaves_the_row() -> None:
    with build().test() as driver:
        driver.pipe("in", "a", "new", timestamp=100)
        driver.pipe("in", "a", "old", timestamp=89)
        assert driver.store("plain").get("a") == "new"
        assert driver.store("stamped").get("a") == ("new", 100)
        assert driver.dropped == {"expired": 2}  # of each store
        driver.pipe("in", "a", "late", timestamp=90)
        assert driver.store("stamped").get("a") == ("late", 90)


def test_delete_and_put_if_absent_know_the_plain_value() -> None:
    task = task_of(build(), MemoryState())
    give(task, "a", "1", 5)
    plain = task.stores["plain"]
    assert plain.put_if_absent("a", "2") == "1"
    assert plain.delete("a") == "1"
    assert plain.put_if_absent("a", "3") is None
    assert plain.get("a") == "3"
    give(task, "b", "?", 16)
    assert rows(task) == ([], [])


def replayed(task: Task) -> Task:
    """A task on an empty disk, restored from what the other one has logged."""
    again = task_of(build(), MemoryState())
    for record in task.outputs.changelog:
        store = next(name for name in again.byte_stores if record.topic == f"app-{name}-changelog")
        again.byte_stores[store].restore(record.key or b"", record.value, record.timestamp)
    again.stream_time_ms = task.stream_time_ms  # as committed with the offsets
    return again


def test_a_restore_gives_the_same_rows_and_they_expire_at_the_same_time() -> None:
    first = task_of(build(), MemoryState())
    for key, at in (("a", 1), ("b", 5), ("a", 7), ("c", 12), ("d", 16)):
        give(first, key, f"{key}{at}", at)
    second = replayed(first)
    assert rows(first) == rows(second)
    assert [key for key, _ in rows(first)[0]] == ["a", "c", "d"]
    for task in (first, second):
        assert give(task, "late", "x", 5) == ["None None"]
        assert give(task, "a", "?", 18) == ["None None"]
    assert rows(first) == rows(second)
    assert rows(first)[1] == [("c", ("c12", 12)), ("d", ("d16", 16))]


def test_rows_and_their_times_survive_a_restart_on_disk(tmp_path: Path) -> None:
    state = LmdbState(tmp_path / "0_0")
    state.claim(Owner(1, 1))
    task = task_of(build(), state)
    give(task, "a", "1", 5)
    give(task, "k" * 900, "2", 9)
    state.commit({})
    task.close()
    state.close()

    state = LmdbState(tmp_path / "0_0")
    state.claim(Owner(2, 1))
    task = task_of(build(), state)
    assert rows(task)[1] == [("a", ("1", 5)), ("k" * 900, ("2", 9))]
    assert give(task, "a", "?", 16) == ["None None"]
    state.commit({})
    assert rows(task)[0] == [("k" * 900, "2")]
    assert give(task, "k" * 900, "?", 20) == ["None None"]
    task.close()
    state.close()


def test_a_deletion_that_was_discarded_is_made_again() -> None:
    state = MemoryState()
    task = task_of(build(), state)
    give(task, "a", "1", 5)
    state.commit({})
    give(task, "b", "?", 30)
    state.discard()
    assert rows(task)[0] == [("a", "1")]
    give(task, "b", "?", 30)
    assert rows(task)[0] == []


def test_state_of_a_store_that_gets_or_loses_its_time_to_live_does_not_fit() -> None:
    state, without, with_ttl = MemoryState(), [StoreSpec("s")], [StoreSpec("s", ttl_ms=5)]
    assert times_fit(without, state)
    assert not times_fit(with_ttl, state)
    note_times(with_ttl, state)
    assert times_fit([StoreSpec("s", ttl_ms=9)], state)
    assert not times_fit(without, state)


def counts() -> App:
    app = App("app", value="text")
    table = app.stream("in").group_by_key().count(store=Materialized("counts", ttl="10ms"))
    table.to_stream().to("out", value="long")
    table.group_by(lambda key, count: ("all", count), value="long").sum(lambda count: count, store="total")
    return app


def test_a_tables_row_that_expires_is_a_change_of_the_table() -> None:
    with counts().test() as driver:
        driver.pipe("in", "a", "x", timestamp=1)
        driver.pipe("in", "a", "x", timestamp=2)
        driver.pipe("in", "b", "x", timestamp=3)
        assert driver.store("total").get("all")[0] == 3
        driver.pipe("in", "a", "x", timestamp=13)
        found = [(row.key, row.value, row.timestamp) for row in driver.read("out")]
        assert found == [("a", 1, 1), ("a", 2, 2), ("b", 1, 3), ("a", None, 13), ("a", 1, 13)]
        assert driver.store("total").get("all")[0] == 2  # one of a, one of b


def test_a_table_of_a_topic_expires_too() -> None:
    app = App("app", value="text")
    app.table("in", store=Materialized("t", ttl=10)).map_values(str.upper).to_stream().to("out")
    with app.test() as driver:
        driver.pipe("in", "a", "x", timestamp=1)
        driver.pipe("in", "b", "y", timestamp=12)
        driver.pipe("in", "c", "late", timestamp=1)
        assert [tuple(row) for row in driver.read("out")] == [("a", "X", 1), ("a", None, 12), ("b", "Y", 12)]
        assert driver.dropped == {"expired": 1}


def test_a_function_that_raises_for_an_expired_row_is_decided_by_the_policy() -> None:
    app = App("app", value="text", on_error="skip")
    app.table("in", store=Materialized("t", ttl=10)).to_stream().map_values(lambda value: value + "!").to("out")
    with app.test() as driver:
        driver.pipe("in", "a", "x", timestamp=1)
        driver.pipe("in", "b", "y", timestamp=12)
        assert [tuple(row) for row in driver.read("out")] == [("a", "x!", 1), ("b", "y!", 12)]
        assert driver.dropped == {"processing error": 1}
        assert driver.store("t").get("a") is None


def test_records_by_column_go_through_the_nodes() -> None:
    app = App("app", value="text")
    app.stream("in").group_by_key().count(store=Materialized("counts", ttl=10)).to_stream().to("out", value="long")
    task = task_of(app, MemoryState())
    assert compile_lane(task) is None
    task.add_columns(Chunk("in", 0, [0, 1, 2], [1, 2, 13], [b"a", b"b", b"b"], [b"x", b"x", b"x"]))
    task.process()
    output = task.collect()
    found = [(each.key, None if each.value is None else each.value[-1]) for each in output.records]
    assert found == [(b"a", 1), (b"b", 1), (b"a", None), (b"b", None), (b"b", 1)]


def windowed(store: Materialized) -> Any:
    return App("app").stream("in").group_by_key().windowed_by(tumbling("5m")).count(store=store)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: window_store("s", "1h", "1m", ttl="1h"), "s is a window store and has no ttl"),
        (lambda: session_store("s", "1h", ttl="1h"), "s is a session store and has no ttl"),
        (lambda: versioned_store("s", "1h", ttl="1h"), "s is a versioned store and has no ttl"),
        (lambda: key_value_store("s", ttl=0), "time to live of a store is 0 ms"),
        (lambda: key_value_store("s", ttl="soon"), "is no time to live"),
        (lambda: windowed(Materialized("s", ttl=5)), "s is one of windows"),
        (lambda: App("a").table("in", store=Materialized("s", ttl=5, history_ms=5)), "s is a versioned store"),
        (lambda: App("a").table("in", store=Materialized(ttl=5)), "needs a name"),
        (lambda: App("a").global_table("in", store=Materialized("s", ttl=5)), "cannot expire rows"),
        (lambda: App("a").table("in").map_values(str, store=Materialized("s", ttl=5)), "cannot expire rows"),
        (lambda: App("a").table("in").filter(bool, store=Materialized(ttl=5)), "cannot expire rows"),
    ],
)
def test_a_time_to_live_is_refused_where_it_means_nothing(make: Callable[[], object], says: str) -> None:
    with pytest.raises(UserError, match=says):
        make()
