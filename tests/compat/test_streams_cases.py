"""Random cases of the oracle on a broker: an application that runs in this process gives what the test driver with four
partitions gives. The same sequences for each key, and the same stores at the end.

Cases with one input and without repartition topics: what several inputs bring is merged as it comes. `make_case(seed)`
makes a case again.
"""

import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from compat.support.quick import lasting
from compat.support.streams.build import ANY, build
from compat.support.streams.cases import make_case
from headwater.client import READ_COMMITTED, Admin, NewTopic, Producer, RangeReader, TopicPartition
from headwater.client.types import LATEST
from headwater.streams import App
from headwater.streams.testing.driver import Driver
from headwater.testing import Broker

pytestmark = [pytest.mark.soak, pytest.mark.timeout(lasting(300, 3600))]
CASES = lasting(4, 150)
PARTITIONS = 4
PATIENCE_S = 120
OTHER_KEYS = ("map", "flat_map", "select_key")
FOREVER = {"retention.ms": "-1"}  # their times are those of a case, near 0

Case = dict[str, Any]
ByKey = dict[tuple[str, bytes | None], list[tuple[bytes | None, int]]]


def renamed(case: Case) -> Case:
    """With topics of its own, so that cases may share a broker."""
    name = f"case-{case['seed']}"
    steps = [step | ({"topic": f"{name}-{step['topic']}"} if "topic" in step else {}) for step in case["steps"]]
    inputs = [step | {"topic": f"{name}-{step['topic']}"} for step in case["inputs"] if "topic" in step]
    return case | {"steps": steps, "inputs": inputs, "name": name}


def made(case: Case, servers: str = "nowhere:1") -> App:
    return build(case, case["name"], servers)


def is_alike_everywhere(case: Case) -> bool:
    """What does not hang on the clock, on chance, or on which of two inputs comes first."""
    steps = case["steps"]
    sources = [step for step in steps if step["op"] in ("stream", "table", "global_table", "global_store")]
    if len(sources) != 1 or "topics" in sources[0] or not any(step["op"] == "to" for step in steps):
        return False
    if any(step.get("fn") == "wall_time" or step.get("dynamic") for step in steps):
        return False
    if any(step["op"] in OTHER_KEYS or (step["op"] == "to_stream" and "fn" in step) for step in steps):
        return False  # then tasks write results of one key, each when it likes
    sub, *others = made(renamed(case)).topology().sub_topologies()
    return not others and not sub.internal_names


def cases() -> Iterator[Case]:
    return islice((renamed(case) for case in map(make_case, count()) if is_alike_everywhere(case)), CASES)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker({"group.initial.rebalance.delay.ms": 0, "log.cleaner.enable": False}) as broker:
        yield broker.bootstrap_servers


def outputs_of(case: Case) -> list[str]:
    return sorted({step["topic"] for step in case["steps"] if step["op"] == "to"})


def by_key(rows: Iterator[tuple[str, bytes | None, bytes | None, int]]) -> ByKey:
    """Records without a key go to any partition, so their order is nobody's."""
    found: ByKey = {}
    for topic, key, value, timestamp in rows:
        found.setdefault((topic, key), []).append((value, timestamp))
    return {place: sorted(told, key=repr) if place[1] is None else told for place, told in found.items()}


def stores_of(ask: Any, names: list[str]) -> dict[str, list[str]]:
    return {name: sorted(repr(row) for row in ask(name)) for name in names}


def by_the_driver(case: Case) -> tuple[ByKey, dict[str, list[str]]]:
    with made(case).test(partitions=PARTITIONS) as driver:
        for step in case["inputs"]:
            headers = tuple((name, value.encode()) for name, value in step["headers"])
            driver.pipe(step["topic"], step["key"], step["value"], step["timestamp"], headers)
        told = by_key(
            (topic, each.key, each.value, each.timestamp)
            for topic in outputs_of(case)
            for each in driver.read_raw(topic)
        )
        return told, stores_of(lambda name: _rows(driver, name), readable_stores(driver))


def readable_stores(driver: Driver) -> list[str]:
    """Those that can be asked for all rows, and are not what an operator keeps for itself."""
    return sorted(
        name for name in driver.store_names if name.startswith("store-") and hasattr(driver.store(name), "all")
    )


def _rows(driver: Driver, name: str) -> Iterator[Any]:
    for partition in range(PARTITIONS):
        yield from driver.store(name, partition).all()


def on_the_broker(
    case: Case, servers: str, state: Path, stores: dict[str, list[str]]
) -> tuple[ByKey, dict[str, list[str]]]:
    """State is saved a moment after offsets are committed: `stores` are waited for."""
    given = case["inputs"][0]["topic"]
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1, configs=FOREVER) for topic in (given, *outputs_of(case))])
        with Producer(bootstrap_servers=servers) as producer:
            for step in case["inputs"]:
                key = None if step["key"] is None else step["key"].encode()
                value = None if step["value"] is None else ANY.serialize(step["value"])
                headers = [(name, told.encode()) for name, told in step["headers"]]
                where = 0 if key is None else None  # as the driver does
                producer.send(given, value, key=key, timestamp_ms=step["timestamp"], headers=headers, partition=where)
        with made(case, servers).run_here(state_dir=state, commit_interval_ms=20, emit_interval_ms=0) as run:
            _until_processed(admin, case["name"], given)
            give_up_at = time.monotonic() + PATIENCE_S
            while (asked := stores_of(lambda name: run.store(name).all(), list(stores))) != stores:
                if time.monotonic() > give_up_at:
                    break
                time.sleep(0.02)
        return by_key(row for topic in outputs_of(case) for row in _committed(admin, servers, topic)), asked


def _until_processed(admin: Admin, group: str, topic: str) -> None:
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    ends: Any = admin.list_offsets(dict.fromkeys(places, LATEST))
    give_up_at = time.monotonic() + PATIENCE_S
    while True:
        committed = admin.list_group_offsets(group, places)
        done = {place: each.offset for place, each in committed.items() if each is not None}
        if all(done.get(place, 0) >= ends[place].offset for place in places):
            return
        assert time.monotonic() < give_up_at, f"{group}: {done}"
        time.sleep(0.02)


def _committed(admin: Admin, servers: str, topic: str) -> Iterator[tuple[str, bytes | None, bytes | None, int]]:
    places = [TopicPartition(topic, partition) for partition in range(PARTITIONS)]
    ends: Any = admin.list_offsets(dict.fromkeys(places, LATEST), isolation_level=READ_COMMITTED)
    with RangeReader(bootstrap_servers=servers) as reader:
        for place in places:
            for record in reader.records(place, 0, ends[place].offset):
                yield topic, record.key, record.value, record.timestamp_ms


def test_a_run_gives_what_the_test_driver_gives(servers: str, tmp_path: Path) -> None:
    for case in cases():
        told, stores = by_the_driver(case)
        found, found_stores = on_the_broker(case, servers, tmp_path / case["name"], stores)
        steps = "\n".join(map(str, case["steps"]))
        assert found == told, f"seed {case['seed']}:\n{steps}"
        assert found_stores == stores, f"seed {case['seed']}:\n{steps}"
