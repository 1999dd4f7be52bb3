"""Windows past their retention: pull queries have those that the query's own store has, and the view keeps no
others."""

import asyncio
import json
import random
from typing import Any, NamedTuple

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.partitioner import partition_for_key
from headwater.sql.formats.registry.port import MemorySchemas
from headwater.sql.plan import reading
from headwater.sql.plan.session import PersistentQuery, Session
from headwater.sql.server.views import TableView
from headwater.sql.server.window_tasks import WindowTasks, tasks_of
from headwater.streams.engine.task import Task
from headwater.streams.model.record import InputRecord, OutputRecord
from headwater.streams.model.windows import Windowed
from headwater.streams.stores.memory import MemoryState

_HOUR = 3_600_000
_SOURCE = "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='in', value_format='JSON');"


class Record(NamedTuple):
    partition: int
    offset: int = 0
    timestamp_ms: int = 0


def _view(window: str, rows_max: int = 1_000) -> TableView:
    session = Session()
    session.run(f"{_SOURCE} CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s WINDOW {window} GROUP BY k;")
    return TableView(session.catalog.find("T"), {}, rows_max)


def _put(view: TableView, start: int, end: int, value: Any = (1,), *, key: str = "a", partition: int = 0) -> None:
    view._take(Record(partition), (Windowed([key], start, end), None if value is None else list(value)))


def _starts(view: TableView) -> list[int]:
    return sorted(name[-2] for name in view._rows)


@pytest.mark.parametrize(
    ("window", "kept_ms"),
    [
        ("TUMBLING (SIZE 1 HOUR, RETENTION 30 HOURS)", 30 * _HOUR),
        ("TUMBLING (SIZE 1 HOUR, GRACE PERIOD 10 MINUTES)", _HOUR + 600_000),
        ("TUMBLING (SIZE 1 HOUR)", 24 * _HOUR),  # the grace period that ksqlDB has by default
        ("HOPPING (SIZE 1 HOUR, ADVANCE BY 10 MINUTES, GRACE PERIOD 0 SECONDS)", _HOUR),
        ("SESSION (30 MINUTES, GRACE PERIOD 1 HOUR)", _HOUR + 1_800_000),
        ("SESSION (30 MINUTES, RETENTION 50 HOURS)", 50 * _HOUR),
    ],
)
def test_a_window_is_there_until_its_retention_ends(window: str, kept_ms: int) -> None:
    view = _view(window)
    _put(view, 0, _HOUR)
    is_session = "SESSION" in window
    newest = kept_ms + (_HOUR if is_session else 0)  # the end of a session counts, and the start of other windows
    _put(view, newest - 1, newest - 1 if is_session else newest + _HOUR, key="b")
    assert _starts(view) == [0, newest - 1]
    _put(view, newest, newest if is_session else newest + _HOUR, key="b")
    assert _starts(view) == [newest - 1, newest]
    _put(view, 0, _HOUR, (7,))  # it comes too late
    assert _starts(view) == [newest - 1, newest]


def test_each_partition_has_its_own_time() -> None:
    view = _view("TUMBLING (SIZE 1 HOUR, GRACE PERIOD 0 SECONDS)")
    _put(view, 0, _HOUR, partition=0)
    _put(view, 9 * _HOUR, 10 * _HOUR, partition=1, key="b")
    assert _starts(view) == [0, 9 * _HOUR]


def test_a_session_that_grows_for_long_leaves_nothing_behind() -> None:
    """Each row of it takes the session away that was there and brings a longer one."""
    view = _view("SESSION (30 MINUTES)")
    for end in range(5_000):
        _put(view, 0, end)
        _put(view, 0, end, None)
    _put(view, 0, 5_000)
    assert len(view._rows) == 1
    assert view._expiry is not None
    assert len(view._expiry._oldest_first[0]) < 600
    _put(view, 25 * _HOUR, 25 * _HOUR)
    assert _starts(view) == [25 * _HOUR]


def test_windows_of_a_topic_that_no_query_of_ours_writes_stay() -> None:
    session = Session()
    session.run(
        "CREATE TABLE t (k STRING PRIMARY KEY, v INT) WITH (kafka_topic='w', value_format='JSON', "
        "window_type='TUMBLING', window_size='1 HOUR');"
    )
    view = TableView(session.catalog.find("T"), {}, 10)
    _put(view, 0, _HOUR)
    _put(view, 10_000 * _HOUR, 10_001 * _HOUR)
    assert _starts(view) == [0, 10_000 * _HOUR]


def test_a_table_whose_windows_come_and_go_never_has_too_many_rows() -> None:
    """Without an end of windows, the view had more rows than a pull query may hold after a while."""
    view = _view("TUMBLING (SIZE 1 HOUR, GRACE PERIOD 1 HOUR)", rows_max=30)
    dice = random.Random(3)
    newest = 0
    for step in range(2_000):
        start = max(0, step // 10 - dice.randrange(4)) * _HOUR
        newest = max(newest, start)
        _put(view, start, start + _HOUR, None if dice.random() < 0.2 else (step,), key=f"k{dice.randrange(8)}")
        assert all(name[-2] > newest - 2 * _HOUR for name in view._rows)
    assert {name for names in view._windows.values() for name in names} == set(view._rows)
    assert view._expiry is not None
    assert sum(map(len, view._expiry._oldest_first.values())) < 100


class Tasks:
    """A query of one sub-topology after the other, each with three tasks, as it runs on brokers."""

    def __init__(self, query: PersistentQuery) -> None:
        settings = query.app.settings(partition_count=lambda _: 3)
        plans = query.app.topology().sub_topologies()
        self._tasks = [[Task(plan, at, settings, MemoryState()) for at in range(3)] for plan in plans]
        self._offset = 0

    def put(self, topic: str, time: int, key: bytes, value: bytes | None) -> list[OutputRecord]:
        """What comes to the topic of the result."""
        place, found = partition_for_key(key, 3), []
        self._offset += 1
        for tasks in self._tasks:
            if (topic, place) not in tasks[place].group.queues:
                continue
            tasks[place].add(topic, [InputRecord(topic, place, self._offset, time, key, value, ())])
            while tasks[place].process_next(100):
                pass
            output = tasks[place].collect()
            for piece in (*output.records, *output.columns):
                for each in [piece] if isinstance(piece, OutputRecord) else piece.records():
                    if each.topic == "T":
                        found.append(each)
                    elif each.topic.endswith("-repartition"):
                        assert each.key is not None
                        found += self.put(each.topic, each.timestamp, each.key, each.value)
        return found

    def windows(self) -> set[tuple[Any, ...]]:
        """The keys and starts that the stores have."""
        stores = [store for task in self._tasks[-1] for store in task.stores.values()]
        return {(*key, *at[:-1]) for store in stores for key, *at in store.all()}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("made", "grouped"),
    [
        ("WITH (partitions=1)", "k"),
        ("WITH (partitions=2)", "v"),
        ("WITH (partitions=3, key_format='JSON')", "k"),
        ("WITH (partitions=3, key_format='JSON')", "v, k"),
        ("WITH (partitions=1, key_format='DELIMITED')", "v + 1, k"),
    ],
)
@pytest.mark.parametrize("window", ["TUMBLING (SIZE 1 SECOND, GRACE PERIOD 2 SECONDS)", "SESSION (1 SECOND, GRACE PERIOD 1 SECOND)"])  # fmt: skip
def test_a_view_has_the_windows_that_the_stores_of_all_tasks_have(made: str, grouped: str, window: str) -> None:
    """One task is far ahead of the others: their windows went with its own."""
    _compare(Session(), _SOURCE, made, grouped, window)


@pytest.mark.parametrize("window", ["TUMBLING (SIZE 1 SECOND, GRACE PERIOD 2 SECONDS)", "SESSION (1 SECOND, GRACE PERIOD 1 SECOND)"])  # fmt: skip
@pytest.mark.parametrize(
    ("keys", "made", "grouped"),
    [
        ("AVRO", "", "k"),
        ("JSON_SR", "", "k"),
        ("PROTOBUF", "", "v"),
        ("AVRO", "WITH (key_format='KAFKA')", "k"),
        ("KAFKA", "WITH (key_format='AVRO')", "v"),
        ("KAFKA", "WITH (key_format='JSON_SR')", "k"),
    ],
)
def test_so_it_has_where_keys_have_schemas_in_a_registry(keys: str, made: str, grouped: str, window: str) -> None:
    """They went by the partition of the result, where the keys of all tasks come together: the ids of schemas in front
    of them are others there.
    """
    session = Session(schemas=MemorySchemas())
    _compare(session, _SOURCE.replace("WITH (", f"WITH (key_format='{keys}', "), made, grouped, window)


def _compare(session: Session, create: str, made: str, grouped: str, window: str) -> None:
    items = ", ".join(f"{each} AS c{at}" for at, each in enumerate(grouped.split(", ")))
    (query,) = [
        each
        for each in session.run(
            f"{create} CREATE TABLE t {made} AS SELECT {items}, COUNT(*) AS n FROM s WINDOW {window} GROUP BY {grouped};"
        )
        if isinstance(each, PersistentQuery)
    ]
    source = session.catalog.find("T")
    known = tasks_of(source, session)
    assert known is not None
    write_key = reading.key_serde(session.catalog.find("S"))
    write_key.serialize(["k0"])  # its schema is there
    asyncio.run(known.learn(Partitions(3)))  # type: ignore[arg-type]
    view, tasks, dice = TableView(source, {}, 1_000, known), Tasks(query), random.Random(f"{made} {grouped} {window}")
    read_key, read_value = reading.key_serde(source), reading.value_serde(source)
    seen = set()
    for step in range(150):
        key = write_key.serialize([f"k{dice.randrange(12)}"])
        ahead = 40_000 if partition_for_key(key, 3) == 1 else 0
        time = ahead + step * 60 + dice.randrange(3_000)
        for each in tasks.put("in", time, key, json.dumps({"V": dice.randrange(4)}).encode()):
            assert each.key is not None
            row = read_key.deserialize(each.key), None if each.value is None else read_value.deserialize(each.value)
            view._take(Record(0), row)
        there = {tuple(value[1] for value in name[:-2]) + name[-2:] for name in view._rows}
        assert there == _whole(tasks.windows(), "SESSION" in window)
        seen |= there
    assert len(seen) > len(there) > 0, "no window has gone, or all have"


def _whole(windows: set[tuple[Any, ...]], sessions: bool) -> set[tuple[Any, ...]]:
    return windows if sessions else {(*each, each[-1] + 1_000) for each in windows}


class Partitions:
    """A consumer that knows how many partitions a topic has."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def partitions_for(self, _topic: str) -> list[int]:
        if not self.count:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return list(range(self.count))


def test_where_the_tasks_are_not_known_yet_no_window_goes_with_another_key() -> None:
    session = Session()
    session.run(_SOURCE)
    tasks, consumer = WindowTasks("t", reading.key_serde(session.catalog.find("S"))), Partitions(0)
    asyncio.run(tasks.learn(consumer))  # type: ignore[arg-type]
    assert tasks.of(["a"], ("a",), 0) != tasks.of(["b"], ("b",), 0)
    consumer.count = 1
    asyncio.run(tasks.learn(consumer))  # type: ignore[arg-type]
    assert tasks.of(["a"], ("a",), 0) == tasks.of(["b"], ("b",), 1)


def test_tasks_that_came_with_new_partitions_are_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their number was asked for once: keys that had moved to other tasks expired with those that they had left."""
    session = Session()
    session.run(_SOURCE)
    key = reading.key_serde(session.catalog.find("S"))
    tasks, consumer = WindowTasks("t", key), Partitions(2)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        now = [loop.time()]
        monkeypatch.setattr(loop, "time", lambda: now[0])
        await tasks.learn(consumer)  # type: ignore[arg-type]
        consumer.count = 7
        await tasks.learn(consumer)  # type: ignore[arg-type]
        assert tasks.count == 2, "not each run of records asks"
        now[0] += 1.0
        await tasks.learn(consumer)  # type: ignore[arg-type]
        assert tasks.of(["a"], ("a",), 0) == partition_for_key(key.serialize(["a"]), 7)
        consumer.count = 0
        now[0] += 1.0
        await tasks.learn(consumer)  # type: ignore[arg-type]
        assert tasks.count == 7, "an answer that fails takes away nothing"

    asyncio.run(scenario())


def test_a_key_whose_schema_nobody_registered_goes_by_the_partition_of_its_row_and_registers_none() -> None:
    session = Session(schemas=MemorySchemas())
    session.run(_SOURCE.replace("WITH (", "WITH (key_format='AVRO', "))
    tasks = WindowTasks("in", reading.key_serde(session.catalog.find("S")))
    asyncio.run(tasks.learn(Partitions(3)))  # type: ignore[arg-type]
    assert [tasks.of(["a"], ("a",), each) for each in (0, 1, 2)] == [0, 1, 2]
    assert session.schemas is not None
    assert session.schemas.latest("in-key") is None


def test_the_tasks_of_a_table_are_those_of_the_topic_that_its_query_reads() -> None:
    session = Session()
    session.run(
        f"{_SOURCE} CREATE TABLE a AS SELECT k, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k;"
        "CREATE TABLE b AS SELECT v, COUNT(*) AS n FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY v;"
        "CREATE TABLE c AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;"
    )
    found = [tasks_of(session.catalog.find(name), session) for name in "ABC"]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].topic == "in"
    assert found[1].topic.startswith("_confluent-ksql-")
    assert found[1].topic.endswith("-repartition")
    assert found[2] is None
    session.run("TERMINATE ALL;")
    assert tasks_of(session.catalog.find("A"), session) is None
