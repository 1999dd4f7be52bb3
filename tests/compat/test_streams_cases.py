"""Random cases of the oracle on a broker: an application that runs in this process gives what the test driver with four
partitions gives. The same sequences for each key, and the same stores at the end.
"""

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from compat.support.quick import lasting
from compat.support.streams.on_broker import (
    PARTITIONS,
    PATIENCE_S,
    ByKey,
    Case,
    by_key,
    cases,
    committed,
    made,
    outputs_of,
    send_inputs,
    until_processed,
)
from headwater.client import Admin
from headwater.streams.testing.driver import Driver
from headwater.testing import Broker

pytestmark = [pytest.mark.soak, pytest.mark.timeout(lasting(300, 3600))]
CASES = lasting(4, 150)


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Broker({"group.initial.rebalance.delay.ms": 0, "log.cleaner.enable": False}) as broker:
        yield broker.bootstrap_servers


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
    with Admin(bootstrap_servers=servers) as admin:
        given = send_inputs(case, servers, admin)
        with made(case, servers).run_here(state_dir=state, commit_interval_ms=20, emit_interval_ms=0) as run:
            until_processed(admin, case["name"], given)
            give_up_at = time.monotonic() + PATIENCE_S
            while (asked := stores_of(lambda name: run.store(name).all(), list(stores))) != stores:
                if time.monotonic() > give_up_at:
                    break
                time.sleep(0.02)
        return by_key(row for topic in outputs_of(case) for row in committed(admin, servers, topic)), asked


def test_a_run_gives_what_the_test_driver_gives(servers: str, tmp_path: Path) -> None:
    for case in islice(cases(), CASES):
        told, stores = by_the_driver(case)
        found, found_stores = on_the_broker(case, servers, tmp_path / case["name"], stores)
        steps = "\n".join(map(str, case["steps"]))
        assert found == told, f"seed {case['seed']}:\n{steps}"
        assert found_stores == stores, f"seed {case['seed']}:\n{steps}"
