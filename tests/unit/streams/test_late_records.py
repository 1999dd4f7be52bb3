"""`App(late_records_to=...)`: what windows leave out as late is kept as it was read, with where it came from and by how
much it was late.
"""

from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.streams import App, JoinWindows, hopping, session, sliding, tumbling
from headwater.streams.engine.columns import Chunk
from headwater.streams.engine.lane.lane import compile_lane
from headwater.streams.engine.task import Task
from headwater.streams.stores.memory import MemoryState


def counting(windows: Any, late_records_to: str | None = "late") -> App:
    app = App("app", value="text", late_records_to=late_records_to)
    app.stream("in").group_by_key().windowed_by(windows).count(name="counted", store="counts").to_stream().to("out")
    return app


def headers_of(record: Any) -> dict[str, bytes]:
    return {name.removeprefix("__streams.late."): value for name, value in record.headers}


def test_a_late_record_is_kept_as_it_was_read() -> None:
    with counting(tumbling(10, grace=5)).test() as driver:
        driver.pipe("in", "a", "1", timestamp=3)
        driver.pipe("in", "a", "2", timestamp=15)
        driver.pipe("in", "b", b"\xc3\xa4", timestamp=9, headers=[("own", b"x"), ("none", None)])
        (late,) = driver.read_raw("late")
        assert (late.key, late.value, late.timestamp) == (b"b", b"\xc3\xa4", 9)
        assert late.headers == (
            ("own", b"x"),
            ("none", None),
            ("__streams.late.topic", b"in"),
            ("__streams.late.partition", b"0"),
            ("__streams.late.offset", b"2"),
            ("__streams.late.node", b"counted"),
            ("__streams.late.by_ms", b"1"),
        )
        assert driver.dropped == {"late": 1}
        driver.pipe("in", "c", "4", timestamp=12)
        assert driver.read_raw("late") == []


@pytest.mark.parametrize(
    ("make", "times", "late"),
    [
        (lambda grace: tumbling(10, grace=grace), (40, 7), 31),
        (lambda grace: hopping(10, 5, grace=grace), (40, 7), 31),  # windows from 0 and 5: missed by 31 and 26
        (lambda grace: hopping(10, 5, grace=grace), (12, 7), 3),  # only the window from 0
        (lambda grace: sliding(10, grace=grace), (40, 15), 25),
        (lambda grace: sliding(10, grace=grace), (40, 3), 30),
        (lambda grace: session(10, grace=grace), (40, 15), 15),
    ],
)
def test_with_so_much_more_grace_it_would_have_been_in_time(make: Any, times: tuple[int, int], late: int) -> None:
    def run(grace: int) -> list[int]:
        with counting(make(grace)).test() as driver:
            for at in times:
                driver.pipe("in", "a", "x", timestamp=at)
            return [int(headers_of(record)["by_ms"]) for record in driver.read_raw("late")]

    assert run(0) == [late]
    assert run(late - 1) == [1]
    assert run(late) == []


def test_each_node_that_leaves_it_out_says_so() -> None:
    app = App("app", value="text", late_records_to="late")
    grouped = app.stream("in").group_by_key()
    for name, size in (("short", 5), ("middle", 10), ("long", 100)):
        grouped.windowed_by(tumbling(size)).count(name=name, store=name)
    with app.test() as driver:
        driver.pipe("in", "a", "1", timestamp=20)
        driver.pipe("in", "a", "2", timestamp=7)
        found = [(headers_of(each)["node"], headers_of(each)["by_ms"]) for each in driver.read_raw("late")]
        assert found == [(b"short", b"11"), (b"middle", b"11")]


def test_behind_a_repartition_it_is_the_record_of_that_topic() -> None:
    app = App("app", value="text", late_records_to="late")
    app.stream("in").group_by(lambda value: value[0], name="first").windowed_by(tumbling(10)).count(store="counts")
    with app.test() as driver:
        driver.pipe("in", "k", "xyz", timestamp=30)
        driver.pipe("in", "k", "xy", timestamp=3)
        (late,) = driver.read_raw("late")
        assert (late.key, late.value) == (b"x", b"xy")
        assert headers_of(late)["topic"] == b"app-first-repartition"
        assert headers_of(late)["offset"] == b"1"


def test_a_record_of_the_topic_itself_goes_round_only_once() -> None:
    app = App("app", value="text", late_records_to="late")
    both = app.stream("in").merge(app.stream("late"))
    both.group_by_key().windowed_by(tumbling(10)).count(store="counts")
    with app.test() as driver:
        driver.pipe("in", "a", "1", timestamp=30)
        driver.pipe("in", "a", "2", timestamp=3)
        assert len(driver.read_raw("late")) == 1
        assert driver.dropped == {"late": 2}


def test_without_a_topic_they_are_counted_only() -> None:
    with counting(tumbling(10), late_records_to=None).test() as driver:
        driver.pipe("in", "a", "1", timestamp=30)
        driver.pipe("in", "a", "2", timestamp=3)
        assert driver.output_topics == {"out"}
        assert driver.dropped == {"late": 1}
    with pytest.raises(UserError, match="names no topic"):
        App("app", late_records_to="")


def task_of(late_records_to: str | None) -> Task:
    app = counting(tumbling(10), late_records_to)
    (plan,) = app.topology().sub_topologies()
    return Task(plan, 0, app.settings(), MemoryState())


def test_records_by_column_are_kept_too_in_the_output_of_their_commit() -> None:
    assert compile_lane(task_of(None)) is not None
    task = task_of("late")
    assert compile_lane(task) is None
    task.add_columns(Chunk("in", 0, [5, 6, 7], [30, 3, 31], [b"a", b"b", b"a"], [b"x", b"y", b"z"]))
    task.process()
    output = task.collect()
    assert [(each.topic, each.timestamp) for each in output.records] == [("out", 30), ("late", 3), ("out", 31)]
    assert output.positions == {("in", 0): 8}
    assert headers_of(output.records[1])["offset"] == b"6"
    assert output.dropped == {"late": 1}
    assert task.collect().records == []


def joining(kind: str = "join", grace: int = 5, late_records_to: str | None = "late") -> App:
    app = App("app", value="text", late_records_to=late_records_to)
    left, right = app.stream("left"), app.stream("right")
    window = JoinWindows(20, 10, grace)
    getattr(left, kind)(right, lambda one, two: f"{one}{two}", window=window, name="met").to("out")
    return app


@pytest.mark.parametrize("kind", ["join", "left_join", "outer_join"])
def test_a_record_is_late_for_a_join_when_its_window_and_grace_are_over(kind: str) -> None:
    with joining(kind).test() as driver:
        driver.pipe("right", "a", "r", timestamp=100)
        driver.pipe("left", "a", "l", timestamp=85)  # what is younger by 10 at most, and 5 more
        assert driver.dropped == {}
        driver.pipe("left", "a", "l", timestamp=84)
        driver.pipe("right", "a", "r", timestamp=75)  # the right one may be older by 20
        assert driver.dropped == {"late for a join": 1}
        driver.pipe("right", "b", "r", timestamp=71)
        assert driver.dropped == {"late for a join": 2}
        late = driver.read_raw("late")
        assert [(each.key, each.timestamp, headers_of(each)["topic"]) for each in late] == [
            (b"a", 84, b"left"),
            (b"b", 71, b"right"),
        ]
        assert [headers_of(each)["by_ms"] for each in late] == [b"1", b"4"]
        assert {headers_of(each)["node"] for each in late} <= {b"met-this-join", b"met-other-join", b"met-outer-this-join", b"met-outer-other-join"}  # fmt: skip


def test_with_so_much_more_grace_it_is_in_time_for_the_join() -> None:
    def run(grace: int) -> list[int]:
        with joining(grace=grace).test() as driver:
            driver.pipe("right", "x", "r", timestamp=100)
            driver.pipe("left", "a", "l", timestamp=40)
            return [int(headers_of(record)["by_ms"]) for record in driver.read_raw("late")]

    assert run(0) == [50]
    assert run(49) == [1]
    assert run(50) == []


def test_a_record_that_is_late_for_a_join_still_meets_who_is_there() -> None:
    with joining().test() as driver:
        driver.pipe("right", "a", "r", timestamp=80)
        driver.pipe("right", "a", "R", timestamp=100)
        driver.pipe("left", "a", "l", timestamp=80)
        assert [(row.value, row.timestamp) for row in driver.read("out")] == [("lr", 80)]
        assert driver.dropped == {"late for a join": 1}


def test_late_for_a_join_with_itself() -> None:
    app = App("app", value="text", late_records_to="late", config={"topology.optimization": "single.store.self.join"})
    stream = app.stream("in")
    stream.join(stream, lambda one, two: one + two, window=JoinWindows(20, 10, 5)).to("out")
    assert "KSTREAM-WINDOWED" in app.describe()
    with app.test() as driver:
        driver.pipe("in", "a", "1", timestamp=100)
        driver.pipe("in", "a", "2", timestamp=75)
        assert driver.dropped == {}
        driver.pipe("in", "a", "3", timestamp=74)
        assert driver.dropped == {"late for a join": 1}
        assert [headers_of(each)["by_ms"] for each in driver.read_raw("late")] == [b"1"]


def test_joins_by_column_count_them_and_those_that_keep_them_go_by_nodes() -> None:
    def task(late_records_to: str | None) -> Task:
        app = joining(late_records_to=late_records_to)
        (plan,) = app.topology().sub_topologies()
        return Task(plan, 0, app.settings(), MemoryState())

    assert compile_lane(task("late")) is None
    quick = task(None)
    quick.add_columns(Chunk("right", 0, [0], [100], [b"a"], [b"r"]))
    quick.add_columns(Chunk("left", 0, [0, 1], [120, 84], [b"a", b"a"], [b"l", b"l"]))
    while quick.process_next(100):
        pass
    assert quick._lane is not None
    assert quick.collect().dropped == {"late for a join": 1}
