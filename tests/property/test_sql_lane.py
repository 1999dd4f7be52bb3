"""Stateless queries a run of records at a time, and record by record: the same records, whatever comes in."""

import json
import random
from typing import Any

import pytest

from headwater.sql.plan.session import PersistentQuery, Session
from headwater.streams.engine.columns import Chunk, OutputColumns
from headwater.streams.engine.record import InputRecord, OutputRecord
from headwater.streams.engine.task import Task
from headwater.streams.stores.memory import MemoryState
from property.sql_queries_support import COLUMNS, Expressions, random_rows

Raw = tuple[int, bytes | None, bytes | None]  # time, key, value


def _query(select: str, where: str) -> PersistentQuery:
    columns = ", ".join(f"{each} {sort}" for each, sort in COLUMNS.items())
    session = Session()
    session.run(
        f"CREATE STREAM s (ID INT KEY, {columns}) WITH (kafka_topic='s', value_format='JSON');"
        f"CREATE STREAM t AS SELECT {select} FROM s WHERE {where};"
    )
    (query,) = session.queries.values()
    return query


def _by_nodes(query: PersistentQuery, records: list[Raw]) -> list[Any]:
    driver = query.app.test()
    driver.feed(InputRecord("s", 0, at, time, key, value, ()) for at, (time, key, value) in enumerate(records))
    return [(each.key, each.value, each.timestamp) for each in driver.read_raw("T")]


def _task(query: PersistentQuery) -> Task:
    (plan,) = query.app.topology().sub_topologies()
    return Task(plan, 0, query.app.settings(partition_count=lambda _: 1), MemoryState())


def _by_runs(task: Task, records: list[Raw], *, only_lane: bool = False) -> list[Any]:
    """`only_lane`: none of the records may have gone through the nodes."""
    times, keys, values = ([each[place] for each in records] for place in range(3))
    task.add_columns(Chunk("s", 0, list(range(len(records))), times, keys, values))  # type: ignore[arg-type]
    while task.process_next(100):
        pass
    output = task.collect()
    if only_lane:
        assert not output.records, "records went through the nodes"
        assert all(isinstance(each, OutputColumns) for each in output.columns), "records went through the nodes"
    pieces = [
        each
        for piece in (*output.records, *output.columns)
        for each in ([piece] if isinstance(piece, OutputRecord) else piece.records())
    ]
    return [(each.key, each.value, each.timestamp) for each in pieces]


def _records(chance: random.Random, poison: bool) -> list[Raw]:
    found: list[Raw] = []
    for row in random_rows(chance, 40, 5):
        key = None if chance.random() < 0.1 else row.id.to_bytes(4, "big")
        value: bytes | None = json.dumps(row.values).encode()
        if chance.random() < 0.1:
            value = chance.choice((None, b"{}", b"null", *((b"{no row", b"[1]") if poison else ())))
        found.append((row.timestamp, key, value))
    return sorted(found, key=lambda each: each[0])


@pytest.mark.parametrize("poison", [False, True])
def test_runs_give_what_records_one_by_one_give(poison: bool) -> None:
    count = 0
    for seed in range(15):
        chance = random.Random(f"{seed} {poison}")
        make = Expressions(chance)
        items = ", ".join(f"{make.any()[0]} AS C{number}" for number in range(3))
        query = _query(f"ID, 10 / J AS Q, {items}", make.condition(2)[0])
        records = _records(chance, poison)
        task = _task(query)
        found = _by_runs(task, records, only_lane=not poison)
        assert found == _by_nodes(query, records), f"seed {seed}: {items}"
        assert task._lane is not None, "the query has no lane"
        count += len(found)
    assert count > 0


def test_a_query_that_asks_for_a_pseudo_column_has_its_value() -> None:
    query = _query("ID, ROWTIME AS AT, ROWOFFSET AS PLACE", "J > 0")
    (found,) = _by_runs(_task(query), [(7, b"\0\0\0\1", b'{"J": 1}')])
    assert json.loads(found[1]) == {"AT": 7, "PLACE": 0}
