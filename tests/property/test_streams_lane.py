"""A task with a lane and the same task without one: the same results, changes, drops, stores and failures, whatever
comes in.
"""

import os
import random
from array import array
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headwater.streams import App, JoinWindows, Materialized, Processor, hopping, tumbling, vectorized
from headwater.streams.dsl.expressions import Column
from headwater.streams.engine.columns import Chunk, PackedRows
from headwater.streams.engine.failures import StreamsError
from headwater.streams.engine.lane import lane as lanes
from headwater.streams.engine.lane import topic_results
from headwater.streams.engine.lane.counting import compiled_counting
from headwater.streams.engine.lane.lane import compile_lane
from headwater.streams.engine.task import Task
from headwater.streams.engine.task_output import TaskOutput
from headwater.streams.model.record import OutputRecord
from headwater.streams.stores import rows_by_key
from headwater.streams.stores.memory import MemoryState

ROUNDS = 40
TOPICS = ("in", "other")


def _touchy(value: str) -> str:
    if value == "bad":
        raise ValueError("a bad value")
    if value == "stop":
        raise StopIteration  # as `next` of an empty iterator does
    return value + "!"


def _count(app: App) -> None:
    app.stream("in").group_by_key().count(store="kept").to_stream().to("out")


def _reduce_to_nothing(app: App) -> None:
    shorter: Callable[[str, str], Any] = lambda total, value: None if value == "none" else total + value  # noqa: E731
    app.stream("in").group_by_key().reduce(shorter, store="kept").to_stream().to("out")


def _aggregate_json(app: App) -> None:
    stream = app.stream("in").map_values(_touchy).filter(lambda key, value: key != "k1")
    stream.group_by_key().aggregate(dict, lambda total, value: {**total, value: 1}, store="kept", value="json").to_stream().to("out")  # fmt: skip


def _aggregate_in_place(app: App) -> None:
    """The function changes what it is given; a filter that knows old values tells only what it had told."""

    def add(total: dict[str, int], value: str) -> dict[str, int]:
        total[_touchy(value)] = total.get(value, 0) + 1
        return total

    grouped = app.stream("in").group_by_key()
    for name, table in (
        ("out", grouped.aggregate(dict, add, store="kept", value="json")),
        ("more", grouped.windowed_by(tumbling(50, grace=20)).aggregate(dict, add, store="windows", value="json")),
    ):
        some = table.filter(lambda totals: len(totals) == 2)
        some.supplier.enable_sending_old_values(True)
        some.to_stream().to(name)


def _windowed(app: App) -> None:
    app.stream("in").group_by_key().windowed_by(tumbling(50, grace=20)).count(store="kept").to_stream().to("out")


def _windowed_and_shown(app: App) -> None:
    """Not what is counted in C: a function sees the counts."""
    counts = app.stream("in").group_by_key().windowed_by(tumbling(50, grace=20)).count(store="kept").to_stream()
    counts.filter(lambda key, value: value != 2).to("out")


def _count_twice(app: App) -> None:
    counts = app.stream("in").group_by_key().count(store="kept")
    counts.to_stream().to("out")
    counts.to_stream().to("more")


def _count_twice_to_one_topic(app: App) -> None:
    counts = app.stream("in").group_by_key().count(store="kept")
    counts.to_stream().to("out")
    counts.to_stream().to("out")


def _windowed_as_text(app: App) -> None:
    """No record of it can be written."""
    counts = app.stream("in").group_by_key().windowed_by(tumbling(50, grace=20)).count(store="kept")
    counts.to_stream().to("out", key="text")


def _windowed_by_minutes(app: App) -> None:
    """Windows that expire with their segments."""
    app.stream("in").group_by_key().windowed_by(tumbling("1m")).count(store="kept").to_stream().to("out")


def _hopping(app: App) -> None:
    windows = hopping(90_000, 30_000, grace=10_000)
    app.stream("in").group_by_key().windowed_by(windows).reduce(lambda a, b: (a or "") + (b or "")).to_stream().to(
        "out"
    )


def _table_join(app: App) -> None:
    app.stream("in").join(app.table("other", store="rows"), lambda left, right: f"{left}/{right}").to("out")


def _touchy_table_join(app: App) -> None:
    app.stream("in").join(app.table("other", store="rows"), lambda left, right: _touchy(left) + right).to("out")


def _left_table_join(app: App) -> None:
    app.stream("in").left_join(app.table("other"), lambda key, left, right: f"{key}{left}/{right}").to("out")


def _mapped(app: App) -> None:
    app.stream("in").map_values(lambda value: None if value == "z" else _touchy(value or "")).to("out")


def _mapped_with_its_key(app: App) -> None:
    app.stream("in").map_values(lambda key, value: f"{key}{value and _touchy(value)}").to("out")


def _mapped_to_what_changes(app: App) -> None:
    """Each record has what the object was when it was returned."""

    def seen(key: str | None, value: str | None) -> list[Any]:
        row[0] = [key, value]
        return row

    row: list[Any] = [None]
    app.stream("in").map_values(seen).to("out", value="json")


def _filtered(app: App) -> None:
    app.stream("in").filter_not(lambda value: value is not None and _touchy(value) == "a!").to("out")


def _bytes_table_join(app: App) -> None:
    """Rows that are no text."""
    rows = app.table("other", store="rows", value="bytes")
    app.stream("in").join(rows, lambda left, right: f"{_touchy(left)}{len(right)}").to("out")


def _stream_join(app: App) -> None:
    app.stream("in").join(app.stream("other"), lambda left, right: left + right, window=JoinWindows(30, 50, 10)).to(
        "out"
    )


def _failing_join(app: App) -> None:
    def joined(left: str, right: str) -> str:
        if left == "bad":
            raise ValueError("a bad value")
        return left + right

    app.stream("in").join(app.stream("other"), joined, window=JoinWindows(100, 100, 0)).to("out")


def _branches(app: App) -> None:
    seen = app.stream("in").map_values(_touchy).peek(lambda key, value: None)
    branches = seen.split(name="b-").branch(lambda key, value: len(value) > 3, name="long").default_branch(name="rest")
    branches["b-long"].flat_map_values(lambda value: [value, value[:1]]).to("out")
    branches["b-rest"].select_key(lambda key, value: value[:1]).merge(app.stream("other")).to("more")
    seen.map(lambda key, value: (value, key or "-")).flat_map(lambda key, value: [(key, value), (value, key)]).to("out")


def _table_alone(app: App) -> None:
    app.table("in", store=Materialized("rows", logging=False)).to_stream().to("out")


@vectorized(str)
def _shout(values: pa.Array) -> pa.Array:
    _batches.append(len(values))
    if pc.any(pc.equal(values, "bad")).as_py():
        raise ValueError("a bad value")
    return pc.utf8_upper(values)


@vectorized(str, str)
def _ordinary(keys: pa.Array, values: pa.Array) -> pa.Array:
    return pc.and_kleene(pc.not_equal(keys, "k1"), pc.less(pc.utf8_length(values), 4))


@vectorized("int64")
def _twice(lengths: pa.Array) -> pa.Array:
    return pc.multiply(lengths, 2)


_batches: list[int] = []
_LENGTH = Column(lambda key, value: None if value is None else len(value), "length")


def _vectorized(app: App) -> None:
    stream = app.stream("in").filter(lambda value: value != "z").map_values(_shout).filter_not(_ordinary)
    stream.group_by_key().reduce(lambda one, two: one + two, store="kept").to_stream().to("out")


def _vectorized_columns(app: App) -> None:
    stream = app.stream("in").filter(_twice(_LENGTH) + 1 > 2).select(twice=-_twice(_LENGTH), same=_LENGTH)
    stream.to("out", value="json")
    stream.map_values(lambda row: str(row["twice"])).to("more", value="text")


def _vectorized_join(app: App) -> None:
    left = app.stream("in").map_values(_shout, value="text").filter(_ordinary)
    right = app.stream("other").filter(_ordinary)
    left.join(right, lambda one, two: one + two, window=JoinWindows(30, 50, 10)).to("out")


def _vectorized_behind(app: App) -> None:
    """Not where columns are: record by record."""
    seen = app.stream("in").peek(lambda value: None)
    seen.map_values(_shout).to("out", value="text")
    seen.select_key(lambda key, value: value).filter(_ordinary).to("more")


TOPOLOGIES = [_vectorized, _vectorized_columns, _vectorized_join, _vectorized_behind, _count, _count_twice, _count_twice_to_one_topic, _windowed_and_shown, _windowed_by_minutes, _reduce_to_nothing, _aggregate_json, _aggregate_in_place, _windowed, _hopping, _table_join, _touchy_table_join, _left_table_join, _bytes_table_join, _mapped, _mapped_with_its_key, _mapped_to_what_changes, _filtered, _stream_join, _branches, _table_alone]  # fmt: skip


class Twin:
    """A task, and what it has given."""

    def __init__(self, build: Callable[[App], None], policy: str, cache_max_bytes: int = 0) -> None:
        app = App("app", value="text", on_error=policy)
        build(app)
        (plan,) = app.topology().sub_topologies()
        self.state = MemoryState()
        settings = app.settings(partition_count=lambda topic: 3, cache_max_bytes=cache_max_bytes).with_cache()
        self.task = Task(plan, 0, settings, self.state)
        self.told: dict[str, list[OutputRecord]] = {}
        self.dropped: dict[str, int] = {}
        self.positions: dict[tuple[str, int], int] = {}
        self.failed = False
        self.failure = ""

    def process(self, add: Callable[[Task], None], drain: bool, commit: bool = True) -> None:
        try:
            add(self.task)
            while self.task.process(1_000):
                pass
            while drain and self.task.process_next(1_000):
                pass
            if commit:
                self.task.flush_cache()
        except StreamsError as error:
            self.failed = True
            self.failure = str(error)
            return
        output = self.task.collect()
        if commit:
            self.state.commit({})
        assert not (output.columns and output.records)
        self._take(output)

    def _take(self, output: TaskOutput) -> None:
        records = [*output.records, *output.changelog]
        for piece in (*output.columns, *output.changelog_columns):
            records += [piece] if isinstance(piece, OutputRecord) else piece.records()
        for record in records:
            self.told.setdefault(record.topic, []).append(record)
        for reason, count in output.dropped.items():
            self.dropped[reason] = self.dropped.get(reason, 0) + count
        self.positions |= output.positions

    def everything(self) -> dict[str, Any]:
        rows = {name: list(store.rows.scan()) for name, store in self.task.byte_stores.items()}
        times = {name: [getattr(node, each) for each in node.kept_times] for name, node in self.task.nodes.items()}
        letters = self.told.pop("app-dead-letters", [])
        told = self.told | {"letters": [(letter.key, letter.value, letter.timestamp) for letter in letters]}
        return {
            "told": told,
            "dropped": self.dropped,
            "positions": self.positions,
            "rows": rows,
            "times": times,
            "stream time": self.task.stream_time_ms,
            "partition times": {at: queue.partition_time for at, queue in self.task.group.queues.items()},
        }


def _chunk(dice: random.Random, topic: str, offset: int, now: int, poison: bool) -> Chunk:
    size = dice.randint(1, 30)
    keys: list[bytes | None] = [b"k%d" % dice.randint(0, 5) for _ in range(size)]
    values: list[bytes | None] = [dice.choice((b"a", b"bcd", b"none", b"z")) for _ in range(size)]
    times = [max(0, now + dice.randint(-100, 100)) for _ in range(size)]
    if dice.random() < 0.5:
        keys[dice.randrange(size)] = values[dice.randrange(size)] = None
    if poison and dice.random() < 0.5:
        values[dice.randrange(size)] = dice.choice((b"bad", b"stop", b"\xff"))
    headers = [(("h", b"1"),)] * size if dice.random() < 0.1 else None
    return Chunk(topic, 0, list(range(offset, offset + size)), times, keys, values, headers)


@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
@pytest.mark.parametrize("build", TOPOLOGIES, ids=lambda build: build.__name__)
def test_a_lane_does_what_the_nodes_do(build: Callable[[App], None], policy: str) -> None:
    _compare(build, policy, ROUNDS // 3 if "vectorized" in build.__name__ else ROUNDS)


@pytest.mark.parametrize("build", [_count, _windowed, _windowed_by_minutes, _table_join, _bytes_table_join, _mapped], ids=lambda build: build.__name__)  # fmt: skip
def test_results_are_the_same_without_the_compiled_modules(
    build: Callable[[App], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADWATER_PURE", "1")
    _compare(build, "skip", 20)


def test_records_that_go_one_way_with_one_function_go_by_column() -> None:
    for build in (_mapped, _mapped_with_its_key, _filtered, _table_join, _left_table_join, _bytes_table_join):
        lane = compile_lane(Twin(build, "fail").task)
        assert lane is not None
        assert lane.compiled.chains[0] is not None, build.__name__


def _two_functions(app: App) -> None:
    app.stream("in").map_values(lambda value: value).filter(lambda value: value is not None).to("out")


def test_two_functions_are_called_for_a_record_before_the_next() -> None:
    for build in (_two_functions, _branches, _stream_join, _vectorized, _mapped_to_what_changes):
        lane = compile_lane(Twin(build, "fail").task)
        assert lane is not None
        assert lane.compiled.chains[0] is None, build.__name__


def test_windowed_counts_that_cannot_be_written_fail_as_the_nodes_do() -> None:
    for policy in ("fail", "skip"):
        _compare(_windowed_as_text, policy, 10)


def test_counts_by_key_and_window_are_done_by_the_compiled_module() -> None:
    if os.environ.get("HEADWATER_PURE", "") not in ("", "0"):
        pytest.skip("HEADWATER_PURE asks for no compiled modules")
    assert compiled_counting() is not None, "headwater.streams._counting is not built: make venv"
    for build in (_count, _count_twice, _windowed, _windowed_by_minutes):
        lane = compile_lane(Twin(build, "fail").task)
        assert lane is not None
        assert not isinstance(lane.compiled.run, FunctionType), build.__name__
    for build in (_windowed_and_shown, _count_twice_to_one_topic):
        lane = compile_lane(Twin(build, "fail").task)
        assert lane is not None
        assert isinstance(lane.compiled.run, FunctionType), build.__name__


@pytest.mark.parametrize("cache_max_bytes", [0, 10 << 20])
def test_counts_whose_store_another_processor_has_are_not_done_by_the_compiled_module(cache_max_bytes: int) -> None:
    """Its punctuator may put and delete rows. It hangs on nothing, so only the store tells of it."""
    app = App("app", value="text")
    app.stream("in").group_by_key().count(store="counts").to_stream().to("out")
    topology = app.topology()
    topology.add_processor("other", Processor, [])
    topology.connect("other", "counts")
    (plan,) = topology.sub_topologies()
    task = Task(plan, 0, app.settings(cache_max_bytes=cache_max_bytes).with_cache(), MemoryState())
    lane = compile_lane(task)
    assert lane is None or isinstance(lane.compiled.run, FunctionType)


def test_a_join_whose_rows_do_not_fit_into_memory_has_the_same_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_by_key, "_MOST_ROWS", 12)
    _compare(_stream_join, "skip", ROUNDS)


def _rounds_of_a_failing_join(dice: random.Random) -> list[dict[str, list[tuple[int, bytes, bytes]]]]:
    """By topic (time, key, value): many rows of a key that expire; then some that come and go, before a record that
    fails.
    """
    keys = [b"k1", b"k2", b"k3"]
    old = [(time, dice.choice(keys[:2]), b"old") for time in range(dice.randint(9, 30))]
    run = [(10_050, key, b"new") for key in keys]
    run += [(dice.choice((500, 10_050)), dice.choice(keys), b"late") for _ in range(dice.randint(1, 4))]
    dice.shuffle(run)
    met = [(10_060, key, b"met") for key in keys if dice.random() < 0.7]
    return [
        {"other": old},
        {"other": [(10_000, b"k4", b"time goes on")]},
        {"other": [*run, (10_200, b"k4", b"q")], "in": [*met, (10_070, dice.choice(keys), b"bad")]},
        *({"other": [(time, b"k4", b"q")], "in": [(10_075, key, b"next")]} for time, key in enumerate(keys, 10_200)),
    ]


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_a_join_that_fails_behind_rows_that_came_and_went_has_the_same_results(policy: str) -> None:
    for seed in range(ROUNDS):
        quick, plain = Twin(_failing_join, policy), Twin(_failing_join, policy)
        offsets = dict.fromkeys(TOPICS, 0)
        for by_topic in _rounds_of_a_failing_join(random.Random(seed)):
            chunks = []
            for topic, rows in by_topic.items():
                times, keys, values = ([row[n] for row in rows] for n in range(3))
                numbers = range(offsets[topic], offsets[topic] + len(rows))
                chunks.append(Chunk(topic, 0, list(numbers), times, keys, values))  # type: ignore[arg-type]
                offsets[topic] += len(rows)
            for chunk in chunks[:-1]:
                plain.task.add(chunk.topic, list(chunk.records()))
                quick.task.add_columns(chunk)
            last, records = chunks[-1], list(chunks[-1].records())
            plain.process(lambda task, last=last, records=records: task.add(last.topic, records), True)  # type: ignore[misc]
            quick.process(lambda task, last=last: task.add_columns(last), True)  # type: ignore[misc]
        assert quick.task._lane is not None
        assert quick.everything() == plain.everything(), f"seed {seed}"


def _compare(build: Callable[[App], None], policy: str, rounds: int) -> None:
    for seed in range(rounds):
        with pytest.MonkeyPatch.context() as limits:
            limits.setattr(topic_results, "_FEW", (1, 8, 64)[seed % 3])
            limits.setattr(lanes, "_LONG_ENOUGH", (1, 8, 64)[seed // 3 % 3])
            _compare_once(build, policy, seed)


def _compare_once(build: Callable[[App], None], policy: str, seed: int) -> None:
    dice = random.Random(seed)
    quick, plain = Twin(build, policy), Twin(build, policy)
    topics = [topic for topic in TOPICS if (topic, 0) in plain.task.group.queues]
    offsets, now = dict.fromkeys(topics, 0), 0
    for _ in range(dice.randint(1, 12)):
        topic = dice.choice(topics)
        chunk = _chunk(dice, topic, offsets[topic], now, poison=seed % 2 == 1)
        offsets[topic] += len(chunk)
        now += dice.choice((0, 30, 30, 200, 40_000))
        drain = dice.random() < 0.4
        records = list(chunk.records())
        plain.process(lambda task, topic=topic, records=records: task.add(topic, records), drain)  # type: ignore[misc]
        quick.process(lambda task, chunk=chunk: task.add_columns(chunk), drain)  # type: ignore[misc]
        if plain.failed or quick.failed:
            break
    assert quick.task._lane is not None, "the topology has no lane"
    if not plain.failed and not quick.failed:
        assert quick.everything() == plain.everything(), f"seed {seed}"
    else:  # a bad head is found when it is buffered, or when it is processed
        for twin in (quick, plain):
            twin.process(lambda task: None, drain=True)
            assert twin.failed
        assert len(topics) > 1 or quick.failure == plain.failure, f"seed {seed}"


@pytest.mark.parametrize("cache_max_bytes", [10 << 20, 700])
@pytest.mark.parametrize(
    "build", [_count, _count_twice, _windowed, _windowed_by_minutes], ids=lambda build: build.__name__
)
def test_counts_in_a_cached_store_by_column_and_by_nodes(build: Callable[[App], None], cache_max_bytes: int) -> None:
    """The same, in the same order. A small cache makes room behind a run, not behind each record: there the last of
    each key is the same, and the changelog says what the results say.
    """
    by_column = 0
    for seed in range(ROUNDS // 2):
        dice = random.Random(seed)
        quick, plain = (Twin(build, "skip", cache_max_bytes) for _ in range(2))
        offset, now = 0, 0
        for number in range(count := dice.randint(1, 12)):
            chunk = _chunk(dice, "in", offset, now, poison=seed % 2 == 1)
            offset += len(chunk)
            now += dice.choice((0, 30, 30, 200, 40_000))
            commit, records = dice.random() < 0.4 or number == count - 1, list(chunk.records())
            plain.process(lambda task, records=records: task.add("in", records), True, commit)  # type: ignore[misc]
            quick.process(lambda task, chunk=chunk: task.add_columns(chunk), True, commit)  # type: ignore[misc]
        assert not quick.failed
        assert not plain.failed
        by_column += quick.task._lane is not None
        ours, theirs = quick.everything(), plain.everything()
        if cache_max_bytes < 1_000:
            assert _last(ours["told"]) == _last(theirs["told"]), f"seed {seed}"
            for told in (ours.pop("told"), theirs.pop("told")):
                logged = [record.value for record in told.get("app-kept-changelog", [])]
                assert [record.value for record in told.get("out", [])] == logged, f"seed {seed}"
        assert ours == theirs, f"seed {seed}"
        for twin in (quick, plain):
            assert twin.task.settings.cache is not None
            twin.task.close()
            assert twin.task.settings.cache.used_bytes == 0
    assert by_column == (ROUNDS // 2 if compiled_counting() is not None else 0)


def _last(told: dict[str, list[OutputRecord]]) -> dict[tuple[str, bytes | None], OutputRecord]:
    return {(topic, record.key): record for topic, records in told.items() if topic != "letters" for record in records}


def test_other_operators_with_a_cached_store_go_through_the_nodes() -> None:
    for build in (_reduce_to_nothing, _windowed_and_shown, _table_join, _count_twice_to_one_topic):
        assert compile_lane(Twin(build, "fail", 10 << 20).task) is None, build.__name__


def test_a_vectorized_function_gets_batches() -> None:
    _batches.clear()
    twin = Twin(_vectorized, "fail")
    chunk = Chunk("in", 0, list(range(9)), [5] * 9, [b"k"] * 9, [b"a", b"z", b"a"] * 3)
    twin.process(lambda task: task.add_columns(chunk), drain=True)
    assert _batches == [6], "what the filter before it left, at once"


def test_the_record_that_fails_in_a_batch_is_named() -> None:
    twin = Twin(_vectorized, "fail")
    chunk = Chunk("in", 0, list(range(20, 29)), [5] * 9, [b"k"] * 9, [b"a"] * 6 + [b"bad"] + [b"a"] * 2)
    twin.process(lambda task: task.add_columns(chunk), drain=True)
    assert "in-0 offset 26" in twin.failure
    assert "a bad value" in twin.failure
    assert 'raise ValueError("a bad value")' in twin.failure


@pytest.mark.parametrize("build", [_count, _count_twice, _windowed, _windowed_by_minutes], ids=lambda build: build.__name__)  # fmt: skip
def test_counts_of_the_compiled_module_are_those_of_the_nodes(build: Callable[[App], None]) -> None:
    """Also run under the sanitizers."""
    _compare(build, "skip", 10)


def test_runs_of_a_lane_leave_one_piece_for_each_topic() -> None:
    """Each piece is a table for the producer: many small ones would cost more than their records."""
    for build in (_count, _windowed, _table_alone):
        twin = Twin(build, "fail")
        twin.task.add_columns(Chunk("in", 0, list(range(40)), [5] * 40, [b"k"] * 40, [b"a"] * 40))
        while twin.task.process_next(10):
            pass
        output = twin.task.collect()
        assert [len(piece) for piece in output.columns] == [40], build.__name__


def test_values_of_another_type_than_the_topics_fail_as_the_nodes_do() -> None:
    """They become bytes by column, behind the last record of a run."""

    def joined(left: str, right: str) -> Any:
        return len(left) if right == "z" else left + right

    def build(app: App) -> None:
        app.stream("in").join(app.table("other", store="rows"), joined).to("out")

    for policy in ("fail", "skip", "dead_letter"):
        _compare(build, policy, 12)


def test_a_stop_iteration_of_a_function_is_its_failure_and_not_the_end_of_the_run() -> None:
    """Behind it all records went unfiltered, or none."""

    def build_filter(app: App) -> None:
        app.stream("in").filter(lambda value: next(iter([value] * (value != "z")))).to("out")

    for build in (_mapped, _mapped_with_its_key, _filtered, build_filter, _touchy_table_join):
        twin = Twin(build, "skip")
        if ("other", 0) in twin.task.group.queues:
            table = Chunk("other", 0, [0], [1], [b"k"], [b"row"])
            twin.process(lambda task, table=table: task.add_columns(table), drain=True)  # type: ignore[misc]
        bad = b"z" if build is build_filter else b"stop"
        chunk = Chunk("in", 0, [0, 1, 2], [5] * 3, [b"k"] * 3, [b"a" if build is not _filtered else b"b", bad, b"bcd"])
        twin.process(lambda task, chunk=chunk: task.add_columns(chunk), drain=True)  # type: ignore[misc]
        assert len(twin.told["out"]) == 2, build.__name__
        assert sum(twin.dropped.values()) == 1, build.__name__


def test_a_row_whose_value_reads_as_none_is_a_row() -> None:
    """A restore from the table's own topic brings JSON's null into the store."""

    def build(app: App) -> None:
        app.stream("in").join(app.table("other", store="rows", value="json"), lambda left, right: f"{left}/{right}").to("out")  # fmt: skip

    quick, plain = Twin(build, "fail"), Twin(build, "fail")
    chunk = Chunk("in", 0, [0, 1], [5, 6], [b"k", b"missing"], [b"a", b"b"])
    records = list(chunk.records())
    for twin in (quick, plain):
        rows: Any = twin.task.byte_stores["rows"]
        rows.put(b"k", bytes(8) + b"null")
    quick.process(lambda task: task.add_columns(chunk), drain=True)
    plain.process(lambda task: task.add("in", records), drain=True)
    assert quick.task._lane is not None
    assert quick.task._lane.compiled.chains[0] is not None
    assert [record.value for record in quick.told["out"]] == [b"a/None"]
    assert quick.everything() == plain.everything()


class _Bytes(bytes):
    """Of a serde that marks what it has written."""


class _OwnSerde:
    def __init__(self, kind: Callable[[bytes], Any], left_out: int = 0) -> None:
        self.name, self._kind, self._left_out = "own", kind, left_out

    def serialize(self, value: str) -> Any:
        return self._kind(value.encode())

    def deserialize(self, data: bytes) -> str:
        return data.decode()

    def serialize_all(self, values: list[Any]) -> list[Any]:
        return [None if value is None else self.serialize(value) for value in values[self._left_out :]]


@pytest.mark.parametrize("kind", [bytearray, _Bytes])
def test_a_function_is_called_once_though_a_serde_gives_another_kind_of_bytes(kind: Callable[[bytes], Any]) -> None:
    calls: list[str] = []

    def seen(value: str) -> str:
        calls.append(value)
        return value

    def build(app: App) -> None:
        app.stream("in").map_values(seen).to("out", value=_OwnSerde(kind))

    twin = Twin(build, "fail")
    chunk = Chunk("in", 0, list(range(99)), [5] * 99, [b"k"] * 99, [b"a"] * 99)
    twin.process(lambda task: task.add_columns(chunk), drain=True)
    assert [bytes(record.value or b"") for record in twin.told["out"]] == [b"a"] * 99
    assert len(calls) == 99


def test_a_serde_that_leaves_values_of_a_column_out_loses_no_record() -> None:
    def build(app: App) -> None:
        app.stream("in").map_values(lambda value: value).to("out", value=_OwnSerde(bytes, left_out=1))

    for size in (2, 99):
        twin = Twin(build, "fail")
        chunk = Chunk("in", 0, list(range(size)), [5] * size, [b"k"] * size, [b"a"] * size)
        twin.process(lambda task, chunk=chunk: task.add_columns(chunk), drain=True)  # type: ignore[misc]
        assert [record.value for record in twin.told["out"]] == [b"a"] * size, "the nodes write them one by one"


def test_a_topic_gets_values_as_bytes_and_as_objects() -> None:
    def merged(app: App) -> None:
        stream = app.stream("in")
        stream.map_values(lambda value: None if value == "z" else (value or "") + "!").merge(stream).to("out")

    def merged_the_other_way(app: App) -> None:
        stream = app.stream("in")
        stream.merge(stream.map_values(lambda value: (value or "") + "!")).to("out")

    def two_sinks(app: App) -> None:
        stream = app.stream("in").map_values(lambda value: len(value or ""))
        stream.map_values(str).to("out")
        stream.to("out", value="long")

    for build in (merged, merged_the_other_way, two_sinks):
        _compare(build, "skip", 12)


def test_columns_of_compiled_code_and_of_python_stay_in_their_order() -> None:
    task = Twin(_count, "fail").task

    def add_packed(key: bytes) -> None:
        offsets, stamp = array("q", [0, len(key)]).tobytes(), array("q", [7]).tobytes()
        task.outputs.packed_of("out", None).add(PackedRows(1, offsets, key, bytes(8), stamp))

    def add_plain(key: bytes) -> None:
        columns = task.outputs.columns_of("out", None, placed=False)
        columns.keys.append(key)
        columns.values.append(bytes(8))
        columns.timestamps.append(7)

    for add, key in ((add_packed, b"1"), (add_packed, b"2"), (add_plain, b"3"), (add_plain, b"4"), (add_packed, b"5")):
        add(key)
    pieces = [piece for piece in task.collect().columns if not isinstance(piece, OutputRecord)]
    assert [[record.key for record in piece.records()] for piece in pieces] == [[b"1", b"2"], [b"3", b"4"], [b"5"]]
