"""Joins, worked out by hand: which records come out, when, and with which timestamp. None means a tombstone or no
partner.
"""

from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.streams import App, JoinWindows, Materialized
from headwater.streams.engine.murmur3 import hash128
from headwater.streams.engine.task import Task
from headwater.streams.engine.task_output import TaskOutput
from headwater.streams.model.record import InputRecord
from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.spec import StoreType

Rows = list[tuple[Any, Any, int]]


def pair(left: Any, right: Any) -> str:
    return f"{left}|{right}"


def run(app: App, inputs: list[tuple[str, Any, Any, int]]) -> list[Rows]:
    """What came out of "out" after each input."""
    seen: list[Rows] = []
    with app.test() as driver:
        for topic, key, value, timestamp in inputs:
            driver.pipe(topic, key, value, timestamp)
            seen.append([(record.key, record.value, record.timestamp) for record in driver.read("out")])
    return seen


def two_streams(kind: str, window: JoinWindows) -> App:
    app = App("app", value="text")
    getattr(app.stream("l"), kind)(app.stream("r"), pair, window=window).to("out", value="text")
    return app


def test_an_inner_join_meets_both_ways_and_has_the_later_time() -> None:
    app = two_streams("join", JoinWindows.of(10))
    inputs = [
        ("l", "a", "1", 100),
        ("r", "a", "2", 110),
        ("r", "b", "3", 100),
        ("l", "a", "4", 105),
        ("r", "a", "5", 89),
    ]
    assert run(app, inputs) == [[], [("a", "1|2", 110)], [], [("a", "4|2", 110)], []]


def test_windows_may_be_one_sided() -> None:
    """The other may be up to 5 older, and not younger."""
    app = two_streams("join", JoinWindows(5, 0))
    inputs = [
        ("l", "a", "1", 100),
        ("r", "a", "2", 101),
        ("r", "a", "3", 95),
        ("r", "a", "4", 94),
        ("r", "a", "5", 100),
    ]
    assert run(app, inputs) == [[], [], [("a", "1|3", 100)], [], [("a", "1|5", 100)]]


def test_a_left_join_says_that_there_was_nobody_when_the_window_closes() -> None:
    app = two_streams("left_join", JoinWindows.of(10, grace_ms=5))
    inputs = [
        ("l", "a", "1", 100),
        ("l", "b", "2", 115),
        ("r", "b", "x", 116),
        ("l", "a", "3", 90),
        ("l", "c", "4", 200),
    ]
    expected: list[Rows] = [[], [], [("a", "1|None", 100), ("b", "2|x", 116)], [("a", "3|None", 90)], []]
    assert run(app, inputs) == expected


def test_an_outer_join_emits_by_time_then_right_before_left_then_key() -> None:
    app = two_streams("outer_join", JoinWindows.of(5))
    inputs = [
        ("l", "b", "1", 100),
        ("l", "a", "2", 100),
        ("r", "c", "3", 100),
        ("r", "d", "4", 99),
        ("l", "z", "9", 200),
    ]
    expected = [("d", "None|4", 99), ("c", "None|3", 100), ("a", "2|None", 100), ("b", "1|None", 100)]
    assert run(app, inputs) == [[], [], [], [], expected]


def test_records_without_a_key_or_value_meet_nobody() -> None:
    inputs = [("l", None, "1", 100), ("l", "a", None, 101), ("r", None, "2", 102)]
    assert run(two_streams("join", JoinWindows.of(5)), inputs) == [[], [], []]
    assert run(two_streams("outer_join", JoinWindows.of(5)), inputs) == [
        [(None, "1|None", 100)],
        [],
        [(None, "None|2", 102)],
    ]


@pytest.mark.parametrize("optimization", ["none", "single.store.self.join"])
def test_a_stream_meets_itself(optimization: str) -> None:
    app = App("app", value="text", config={"topology.optimization": optimization})
    stream = app.stream("l")
    stream.join(stream, pair, window=JoinWindows.of(10)).to("out", value="text")
    seen = run(app, [("l", "a", "1", 100), ("l", "a", "2", 105), ("l", "a", "3", 120)])
    assert seen == [[("a", "1|1", 100)], [("a", "2|1", 105), ("a", "1|2", 105), ("a", "2|2", 105)], [("a", "3|3", 120)]]
    assert len(app.topology().stores) == (1 if optimization != "none" else 2)


@pytest.mark.parametrize(
    ("other", "stores", "seen"),
    [
        (lambda app: app.stream("l"), 1, ["1|1"]),
        (lambda app: app.stream("l").filter(lambda value: value), 2, ["1|1"]),
        (lambda app: app.stream("r"), 2, []),
    ],
)
def test_two_streams_of_one_topic_are_the_same_stream(other: Any, stores: int, seen: list[str]) -> None:
    """Each had a store of its own, since they are one node only when the topology is built."""
    app = App("app", value="text", config={"topology.optimization": "all"})
    app.stream("l").join(other(app), pair, window=JoinWindows.of(10)).to("out", value="text")
    assert len(app.topology().stores) == stores
    with app.test() as driver:
        driver.pipe("l", "a", "1", 100)
        assert [record.value for record in driver.read("out")] == seen


@pytest.mark.parametrize("name", [None, "both"])
def test_the_stores_of_a_join_are_kept_as_it_says(name: str | None) -> None:
    def joined(**kept: Any) -> App:
        app = App("app", value="text")
        window, store = JoinWindows.of(10, grace_ms=5), Materialized(name, **kept)
        app.stream("l").left_join(app.stream("r"), pair, window=window, store=store).to("out", value="text")
        return app

    app = joined(store_type="in_memory", topic_config={"min.insync.replicas": "2", "cleanup.policy": "compact"})
    stores = app.topology().stores.values()
    assert [store.spec.store_type for store in stores] == [StoreType.IN_MEMORY] * 3
    assert [store.changelog_config()["cleanup.policy"] for store in stores] == ["delete", "delete", "compact"]
    assert {store.changelog_config()["min.insync.replicas"] for store in stores} == {"2"}
    assert {store.name.startswith("both-") for store in stores} == {name is not None}
    inputs = [("l", "a", "1", 100), ("r", "a", "2", 105), ("l", "b", "3", 106), ("r", "c", "4", 140)]
    expected: list[Rows] = [[], [("a", "1|2", 105)], [], [("b", "3|None", 106)]]
    for kept in ({"logging": False}, {"logging": True}):
        assert run(joined(**kept), inputs) == expected
        with joined(**kept).test() as driver:
            driver.pipe("l", "a", "1", 100)
            assert bool(driver.changelog) == kept["logging"]


@pytest.mark.parametrize("more", [{"value": "long"}, {"retention_ms": 5}, {"history_ms": 5}, {"caching": False}])
def test_what_follows_from_a_join_is_not_said_of_its_stores(more: dict[str, Any]) -> None:
    app = App("app")
    with pytest.raises(UserError, match="stores of a join"):
        app.stream("l").join(app.stream("r"), pair, window=JoinWindows.of(5), store=Materialized("both", **more))


def test_a_stream_meets_the_table_as_it_is_now() -> None:
    app = App("app", value="text")
    table = app.table("t")
    app.stream("s").join(table, pair).to("out", value="text")
    inputs = [("s", "a", "1", 10), ("t", "a", "x", 50), ("s", "a", "2", 20), ("t", "a", None, 60), ("s", "a", "3", 70)]
    assert run(app, inputs) == [[], [], [("a", "2|x", 20)], [], []]


def test_a_versioned_table_gives_what_held_then_and_a_grace_waits_for_it() -> None:
    def app_with(grace_ms: int | None) -> App:
        app = App("app", value="text")
        table = app.table("t", store=Materialized("prices", history_ms=1000))
        app.stream("s").left_join(table, pair, grace_ms=grace_ms).to("out", value="text")
        return app

    inputs = [
        ("t", "a", "old", 10),
        ("t", "a", "new", 30),
        ("s", "a", "1", 20),
        ("t", "a", "mid", 15),
        ("s", "a", "2", 31),
    ]
    assert run(app_with(None), inputs) == [[], [], [("a", "1|old", 20)], [], [("a", "2|new", 31)]]
    assert run(app_with(10), inputs) == [[], [], [], [], [("a", "1|mid", 20)]]


def test_a_grace_needs_a_versioned_table() -> None:
    app = App("app", value="text")
    app.stream("s").join(app.table("t"), pair, grace_ms=10).to("out")
    with pytest.raises(UserError, match="versioned"):
        app.test()


def test_options_that_do_not_fit_are_refused() -> None:
    app = App("app")
    stream, table = app.stream("s"), app.table("t")
    with pytest.raises(UserError, match="window"):
        stream.join(app.stream("r"), pair)
    with pytest.raises(UserError, match="window"):
        stream.join(table, pair, window=JoinWindows.of(5))
    with pytest.raises(UserError, match="on="):
        stream.join(app.global_table("g"), pair)
    with pytest.raises(UserError):
        JoinWindows(-5, 2)


def test_a_global_table_is_met_by_any_key() -> None:
    app = App("app", value="text")
    users = app.global_table("users")
    app.stream("s").left_join(users, pair, on=lambda value: value[0]).to("out", value="text")
    inputs = [("s", "k", "a1", 10), ("users", "a", "ann", 50), ("s", "k", "a2", 20), ("s", None, "a3", 20)]
    expected: list[Rows] = [[("k", "a1|None", 10)], [], [("k", "a2|ann", 20)], [(None, "a3|ann", 20)]]
    assert run(app, inputs) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("join", [[], [("a", "1|x", 20)], [("a", "2|x", 20)], [("a", None, 30)], []]),
        (
            "left_join",
            [[("a", "1|None", 10)], [("a", "1|x", 20)], [("a", "2|x", 20)], [("a", "2|None", 30)], [("a", None, 40)]],
        ),
        (
            "outer_join",
            [[("a", "1|None", 10)], [("a", "1|x", 20)], [("a", "2|x", 20)], [("a", "2|None", 30)], [("a", None, 40)]],
        ),
    ],
)
def test_tables_meet_by_key(kind: str, expected: list[Rows]) -> None:
    app = App("app", value="text")
    getattr(app.table("l"), kind)(app.table("r"), pair).to_stream().to("out", value="text")
    inputs = [("l", "a", "1", 10), ("r", "a", "x", 20), ("l", "a", "2", 15), ("r", "a", None, 30), ("l", "a", None, 40)]
    assert run(app, inputs) == expected


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_foreign_key_follows_its_row(partitions: int) -> None:
    app = App("app", value="text")
    orders, products = app.table("l"), app.table("r")
    orders.left_join(products, pair, on=lambda value: value[0]).to_stream().to("out", value="text")
    inputs = [
        ("l", "k", "p1", 10),
        ("r", "p", "pen", 20),
        ("l", "k", "q1", 30),
        ("r", "p", "pencil", 40),
        ("l", "k", None, 50),
    ]
    seen = []
    with app.test(partitions=partitions) as driver:
        for topic, key, value, timestamp in inputs:
            driver.pipe(topic, key, value, timestamp)
            seen.append([(record.key, record.value, record.timestamp) for record in driver.read("out")])
    assert seen == [[("k", "p1|None", 10)], [("k", "p1|pen", 20)], [("k", "q1|None", 30)], [], [("k", None, 50)]]


def test_an_inner_foreign_key_join_leaves_out_rows_without_one() -> None:
    app = App("app", value="text")
    app.table("l").join(app.table("r"), pair, on=lambda value: value[0]).to_stream().to("out", value="text")
    inputs = [("l", "k", "p1", 10), ("r", "p", "pen", 20), ("l", "m", "p2", 25), ("r", "p", None, 30)]
    assert run(app, inputs) == [[], [("k", "p1|pen", 20)], [("m", "p2|pen", 25)], [("k", None, 30), ("m", None, 30)]]


def test_the_hash_is_kafka_streams_own() -> None:
    """Seen in a subscription that Kafka Streams 4.3 wrote for the value b"Sxy"."""
    assert hash128(b"Sxy").hex() == "7d11bc509c7f2d2a2da11597c134b974"


def in_two_lives(app: App, lives: list[list[tuple[str, str, str, int]]]) -> list[list[tuple[str, str, int]]]:
    """A task that is made anew over the state that the one before it has left."""
    state, offsets = MemoryState(), 0
    seen: list[list[tuple[str, str, int]]] = []
    (plan,) = app.topology().sub_topologies()
    for inputs in lives:
        task = Task(plan, 0, app.settings(), state)
        for topic, key, value, timestamp in inputs:
            task.add(topic, [InputRecord(topic, 0, offsets, timestamp, key.encode(), value.encode())])
            task.process_next()
            offsets += 1
        state.commit({})
        records = [record for record in task.collect().records if record.topic == "out"]
        seen.append(
            [((record.key or b"").decode(), (record.value or b"").decode(), record.timestamp) for record in records]
        )
        task.close()
    return seen


def test_a_record_that_waited_is_not_lost_between_two_lives_and_late_stays_late() -> None:
    app = two_streams("left_join", JoinWindows.of(5))
    lives = [[("l", "a", "1", 100), ("r", "b", "2", 103)], [("l", "c", "3", 90), ("l", "d", "4", 200)]]
    assert in_two_lives(app, lives) == [[], [("c", "3|None", 90), ("a", "1|None", 100)]]


def test_a_buffer_uses_no_number_twice() -> None:
    app = App("app", value="text")
    table = app.table("t", store=Materialized("prices", history_ms=1000))
    app.stream("s").left_join(table, pair, grace_ms=10).to("out", value="text")
    lives = [[("s", "a", "1", 100)], [("s", "a", "2", 100), ("s", "b", "3", 200)]]
    assert in_two_lives(app, lives) == [[], [("a", "1|None", 100), ("a", "2|None", 100)]]


def test_a_record_that_waits_is_not_overwritten_behind_a_kill() -> None:
    """A process that was killed behind its commit had the record in the changelog, and the number before it on disk:
    the next record of the same time and key took its place.
    """
    app = App("app", value="text")
    table = app.table("t", store=Materialized("prices", history_ms=1000))
    app.stream("s").left_join(table, pair, grace_ms=10).to("out", value="text")
    (plan,) = app.topology().sub_topologies()
    state = MemoryState()

    def life(*inputs: tuple[int, str, str, int]) -> TaskOutput:
        task = Task(plan, 0, app.settings(), state)
        for offset, key, value, timestamp in inputs:
            task.add("s", [InputRecord("s", 0, offset, timestamp, key.encode(), value.encode())])
            task.process_next()
        output = task.collect()
        task.close()
        return output

    life((0, "a", "1", 100))
    state.commit({})
    lost = life((1, "a", "2", 100))
    state.discard()
    restored = Task(plan, 0, app.settings(), state)
    stores = {store.changelog_topic("app"): restored.byte_stores[store.name] for store in plan.stores}
    for each in lost.changelog:
        stores[each.topic].restore(each.key or b"", each.value, each.timestamp)
    state.commit({})
    out = life((2, "a", "3", 100), (3, "b", "4", 200))
    assert [record.value for record in out.records] == [b"1|None", b"2|None", b"3|None"]
