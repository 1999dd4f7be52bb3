"""Random topologies by `headwater.streams` and by Kafka Streams itself: the same records in the same order, the same
stores, the same text.

A case that differs is printed with its seed; `make_case(seed)` makes it again. What Kafka Streams does differently on
purpose is listed in `NAMED`, with the reason; nothing is left out silently.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.support.java import Java
from compat.support.streams.cases import OPERATORS, make_cached_case, make_case
from compat.support.streams.compare import differences, run_here
from headwater.streams.engine.partition_group import PartitionGroup, PartitionQueue
from headwater.streams.model.record import InputRecord, Record
from unit.streams.dsl_table import METHODS

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
CASES_OF_EACH = 400 if SOAK else 7
MERGES = 5_000 if SOAK else 200
NAMED = {
    "NullPointerException: key cannot be null": "a left join with a versioned table and a grace fails on records without a key in Kafka "
    "Streams; ours joins them with nothing",
}
NAMED_WITH_CACHE = NAMED | {
    'NullPointerException: Cannot invoke "org.apache.kafka.streams.state.ValueAndTimestamp.value()" because "next.value" is null': "an "
    "aggregate of a sliding window that was deleted and waits in the cache fails Kafka Streams at the next record; ours has no such window",
}
WITH_STORES = [
    "to_table", "process", "aggregate", "tumbling", "hopping", "sliding", "session", "unlimited", "suppress_windows", "cogroup",
    "table_filter", "table_map_values", "transform_values", "table_aggregate", "stream_table_join", "table_join", "foreign_key_join",
]  # fmt: skip
CACHED_OF_EACH = 200 if SOAK else 1


@pytest.fixture(scope="module")
def oracle() -> Iterator[Java]:
    harness = Java("StreamsOracle")
    yield harness
    harness.close()


@pytest.mark.soak
@pytest.mark.parametrize("operator", OPERATORS)
def test_the_same_as_kafka_streams(operator: str, oracle: Java, tmp_path: Path) -> None:
    first = list(OPERATORS).index(operator)
    for turn in range(CASES_OF_EACH):
        case = make_case(first + turn * len(OPERATORS))
        theirs = oracle.call("run", **case | {"config": case["config"] | {"state.dir": str(tmp_path)}})
        if theirs.get("failed") in NAMED:
            run_here(case)
            continue
        assert "failed" not in theirs, f"Kafka Streams refuses seed {case['seed']}: {theirs['trace']}"
        told = differences(case, theirs, run_here(case))
        assert not told, f"seed {case['seed']}, {case['operators']}:\n" + "\n".join([*map(str, case["steps"]), *told])


@pytest.mark.soak
@pytest.mark.parametrize("operator", [name for name in OPERATORS if SOAK or name in WITH_STORES])
def test_the_same_as_kafka_streams_with_a_record_cache(operator: str, oracle: Java, tmp_path: Path) -> None:
    """Commits are where the case has them, so that there is something to hold back; caches are large, or tiny."""
    first = list(OPERATORS).index(operator)
    for turn in range(CACHED_OF_EACH):
        case = make_cached_case(first + turn * len(OPERATORS))
        theirs = oracle.call("run", **case | {"config": case["config"] | {"state.dir": str(tmp_path)}})
        if theirs.get("failed") in NAMED_WITH_CACHE:
            run_here(case)
            continue
        assert "failed" not in theirs, f"Kafka Streams refuses seed {case['seed']}: {theirs['trace']}"
        told = differences(case, theirs, run_here(case))
        assert not told, f"seed {case['seed']}, {case['operators']}:\n" + "\n".join([*map(str, case["steps"]), *told])


def test_a_cache_holds_back_what_none_would_send(oracle: Java, tmp_path: Path) -> None:
    """So that the comparison above has something to compare: a scene whose outputs can be counted."""
    steps = [
        {"op": "stream", "in": [], "out": "v1", "topic": "words"},
        {"op": "group_by_key", "in": ["v1"], "out": "v2"},
        {"op": "count", "in": ["v2"], "out": "v3", "store": {"name": "counts"}},
        {"op": "to_stream", "in": ["v3"], "out": "v4"},
        {"op": "to", "in": ["v4"], "out": "v5", "topic": "out"},
    ]
    inputs: list[dict[str, Any]] = [
        {"topic": "words", "key": key, "value": "x", "timestamp": number, "headers": []}
        for number, key in enumerate("abacab")
    ]
    case = {"seed": 0, "steps": steps, "inputs": [*inputs, {"commit": True}], "commits": True}
    sent = {}
    for size in (0, 10 << 20):
        sized = case | {"config": {"statestore.cache.max.bytes": size, "state.dir": str(tmp_path / str(size))}}
        theirs = oracle.call("run", **sized)
        assert "failed" not in theirs, theirs
        assert not differences(sized, theirs, run_here(sized))
        sent[size] = [len(rows) for rows in theirs["outputs"]]
    assert sent == {0: [0, 2, 2, 2, 2, 2, 2, 0], 10 << 20: [0, 0, 0, 0, 0, 0, 0, 6]}


def test_the_list_of_the_dsl_is_that_of_javas_classes(oracle: Java) -> None:
    """`docs/STREAMS_DSL.md` is made of this list."""
    assert oracle.call("methods") == METHODS


@pytest.mark.soak
def test_inputs_are_merged_in_the_order_of_partition_group(oracle: Java) -> None:
    for seed in range(MERGES):
        dice = random.Random(seed)
        inputs = dice.randint(1, 6)
        events = _events(dice, inputs)
        theirs = oracle.call("merge", inputs=inputs, events=events)["order"]
        assert _merged(inputs, events) == theirs, f"seed {seed}: {events}"


def _events(dice: random.Random, inputs: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for _ in range(dice.randint(1, 12)):
        if dice.random() < 0.7:
            timestamps = [dice.randint(0, 6) for _ in range(dice.randint(1, 6))]
            events.append({"add": dice.randrange(inputs), "timestamps": timestamps})
        else:
            events.append({"take": dice.randint(1, 8)})
    return [*events, {"take": 1000}]


def _merged(inputs: int, events: list[dict[str, Any]]) -> list[list[int]]:
    group = PartitionGroup()
    offsets = [0] * inputs
    for number in range(inputs):
        group.register(PartitionQueue((f"input-{number}", 0), lambda raw, time: Record(None, None, raw.timestamp)))
    order: list[list[int]] = []
    for event in events:
        if "add" in event:
            number = event["add"]
            records = []
            for timestamp in event["timestamps"]:
                records.append(InputRecord(f"input-{number}", 0, offsets[number], timestamp, b"", b""))
                offsets[number] += 1
            group.add((f"input-{number}", 0), records)
            continue
        for _ in range(event["take"]):
            found = group.poll()
            if found is not None:
                raw = found[1]
                order.append([int(raw.topic[6:]), raw.offset, raw.timestamp])
    return order
