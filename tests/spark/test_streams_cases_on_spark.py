"""Random cases of the oracle in the slots of one runtime on Spark, some of them at a time: each gives what the test
driver with four partitions gives. The same sequences for each key in the outputs, and the same tables in the
changelogs, from which stores are restored. Leases end on the way. Of `make soak` alone.

The functions of cases travel by value: Spark's Pythons do not have the modules of these tests.
"""

import importlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from compat.support.quick import lasting
from compat.support.streams.on_broker import (
    PARTITIONS,
    ByKey,
    Case,
    Row,
    by_key,
    cases,
    committed,
    made,
    outputs_of,
    send_inputs,
    until_processed,
)
from headwater.client import Admin
from headwater.streams.on_spark import Runtime
from headwater.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.soak(only=True), pytest.mark.timeout(3600)]
CASES = lasting(6, 60)
AT_ONCE = 6
PATIENCE_S = 900
BY_VALUE = ("build", "functions", "processors")


@pytest.fixture
def servers() -> Iterator[str]:
    """Nothing is deleted: the times of cases are near 0."""
    settings = {"group.initial.rebalance.delay.ms": 0, "log.cleaner.enable": False}
    with Broker(settings | {"log.retention.check.interval.ms": 86_400_000}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def by_value() -> Iterator[None]:
    modules = [importlib.import_module(f"compat.support.streams.{name}") for name in BY_VALUE]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    yield
    for module in modules:
        cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


Tables = dict[tuple[str, bytes | None], tuple[bytes, int]]


def tables(rows: Iterable[Row]) -> Tables:
    """The last value of each key. What is written before it hangs on when: a buffer of `suppress` is told once for all
    records of a turn.
    """
    found: Tables = {}
    for topic, key, value, timestamp in rows:
        if value is None:
            found.pop((topic, key), None)
        else:
            found[topic, key] = value, timestamp
    return found


def by_the_driver(case: Case) -> tuple[ByKey, Tables, list[str]]:
    """-> the outputs, what is in the changelogs, and their names."""
    with made(case).test(partitions=PARTITIONS) as driver:
        for step in case["inputs"]:
            headers = tuple((name, value.encode()) for name, value in step["headers"])
            driver.pipe(step["topic"], step["key"], step["value"], step["timestamp"], headers)
        outputs = [each for topic in outputs_of(case) for each in driver.read_raw(topic)]
        changes = [each for records in driver.changelog.values() for each in records]
        told = by_key((each.topic, each.key, each.value, each.timestamp) for each in outputs)
        kept = tables((each.topic, each.key, each.value, each.timestamp) for each in changes)
        return told, kept, sorted(driver.changelog)


def test_random_cases_give_on_spark_what_the_test_driver_gives(
    spark: SparkSession, servers: str, tmp_path: Path, by_value: None
) -> None:
    runtime = Runtime(spark)
    try:
        with Admin(bootstrap_servers=servers) as admin:
            chosen = list(islice(cases(), CASES))
            for some in (chosen[begin : begin + AT_ONCE] for begin in range(0, CASES, AT_ONCE)):
                inputs = [send_inputs(case, servers, admin) for case in some]
                settings = {"state_dir": tmp_path, "wait": False, "commit_interval_ms": 50, "emit_interval_ms": 0}
                runs = [runtime.run(made(case, servers), **settings) for case in some]
                for run in runs:
                    assert run.wait_started(PATIENCE_S)
                runtime.end_lease()
                for case, given in zip(some, inputs, strict=True):
                    until_processed(admin, case["name"], given, PATIENCE_S)
                for run in runs:
                    run.stop()
                for case in some:
                    told, kept, changelogs = by_the_driver(case)
                    steps = "\n".join(map(str, case["steps"]))
                    found = by_key(row for topic in outputs_of(case) for row in committed(admin, servers, topic))
                    assert found == told, f"seed {case['seed']}:\n{steps}"
                    changes = tables(row for topic in changelogs for row in committed(admin, servers, topic))
                    assert changes == kept, f"seed {case['seed']}:\n{steps}"
    finally:
        runtime.stop()
