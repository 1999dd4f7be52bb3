"""Random SQL queries beside Kafka Streams: the same records, in the same order, after each record that comes in."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.support.java import Java
from compat.support.sql_plans import KINDS, Plan, long_bytes, make_plan, oracle_value
from headwater.sql.plan.session import PersistentQuery, Session
from headwater.sql.plan.windowed import decode_key
from headwater.streams.model.record import OutputRecord

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
PLANS_OF_EACH = 300 if SOAK else 12

Row = tuple[str | None, Any, int]  # key, value, time


@pytest.fixture(scope="module")
def oracle() -> Iterator[Java]:
    harness = Java("StreamsOracle")
    yield harness
    harness.close()


def _query(plan: Plan) -> PersistentQuery:
    session = Session()
    session.run(plan.sql)
    (query,) = session.queries.values()
    return query


def _row(record: OutputRecord, query: PersistentQuery) -> Row:
    key, sink = record.key, query.sink
    shown = None if key is None else key.decode("utf-8", "replace")
    if key is not None and sink.window is not None:
        plain, start, end = decode_key(key, sink.window)
        shown = f"{plain.decode()}@{start}-{end}"
    (column,) = sink.value_columns
    value: Any = record.value
    if value is not None:
        value = value.decode() if str(column.type) == "STRING" else int.from_bytes(value, "big", signed=True)
    return shown, value, record.timestamp


def _here(plan: Plan) -> list[list[Row]]:
    query = _query(plan)
    found: list[list[Row]] = [[]]
    with query.app.test() as driver:
        for each in plan.inputs:
            key = None if each["key"] is None else each["key"].encode()
            driver.pipe(each["topic"], key, long_bytes(each["value"]), each["timestamp"])
            found.append([_row(record, query) for record in driver.read_raw("out")])
    return found


def _there(answer: dict[str, Any]) -> list[list[Row]]:
    return [
        [
            (None if key is None else bytes.fromhex(key).decode(), oracle_value(value), timestamp)
            for topic, key, value, timestamp, _ in rows
            if topic == "out"
        ]
        for rows in answer["outputs"]
    ]


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_a_query_emits_what_kafka_streams_emits(kind: str, oracle: Java, tmp_path: Path) -> None:
    emitted = 0
    for seed in range(PLANS_OF_EACH):
        plan = make_plan(kind, seed)
        answer = oracle.call("run", **plan.case(str(tmp_path)))
        assert "failed" not in answer, f"Kafka Streams refuses {kind} {seed}: {answer['trace']}"
        theirs, ours = _there(answer), _here(plan)
        for number, (wanted, found) in enumerate(zip(theirs, ours, strict=True)):
            told = f"{kind} {seed}, after input {number} of {plan.inputs}:\n{plan.sql}"
            assert found == wanted, told
        emitted += sum(map(len, ours))
    assert emitted > PLANS_OF_EACH
