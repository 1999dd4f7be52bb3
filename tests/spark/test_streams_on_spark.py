"""Streams applications in slots that Spark supplies: results are those of the test driver, whatever leases do, and
whoever is killed.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.cli.lead_status import status_of
from headwater.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from headwater.spark.sessions import master_with_retries
from headwater.testing import Broker
from spark.support.class_archive import QUICK_JAVA
from spark.support.streams_drivers import Driver
from spark.support.streams_process import make_app

PARTITIONS = 4
KEYS = [f"k{number}" for number in range(9)]

Rows = dict[int, list[tuple[str, str, int]]]


def _records(begin: int, count: int) -> list[tuple[str, str, int]]:
    """(key, value, timestamp): time goes on, with some that are late."""
    return [(KEYS[(n * 7 + n // 9) % 9], "x", n - (n % 7) * 3) for n in range(begin + 30, begin + 30 + count)]


class Bench:
    def __init__(self, broker: Broker) -> None:
        self.servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=self.servers) as admin:
            topics = ["in", *(f"{name}-out" for name in ("steady", "brief", "killed"))]
            admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in topics])
        self.sent: list[tuple[str, str, int]] = []

    def send(self, count: int) -> None:
        more = _records(len(self.sent), count)
        with Producer(bootstrap_servers=self.servers) as producer:
            for key, value, timestamp in more:
                producer.send("in", value.encode(), key=key.encode(), timestamp_ms=timestamp)
        self.sent += more

    def expected(self) -> Rows:
        """Per output partition, by the test driver."""
        found: Rows = {partition: [] for partition in range(PARTITIONS)}
        with make_app("expected").test(partitions=PARTITIONS) as driver:
            for key, value, timestamp in self.sent:
                driver.pipe("in", key, value, timestamp=timestamp)
            for row in driver.read("expected-out"):
                found[row.partition].append((row.key, row.value, row.timestamp))
        return found

    def read(self, name: str) -> Rows:
        """Until everything that is expected is there: by committed records."""
        expected = self.expected()
        count = sum(map(len, expected.values()))
        found: Rows = {partition: [] for partition in range(PARTITIONS)}
        with Consumer(
            bootstrap_servers=self.servers, isolation_level="read_committed", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([TopicPartition(f"{name}-out", partition) for partition in found])
            while sum(map(len, found.values())) < count:
                for record in consumer.poll(1.0):
                    row = (record.key.decode(), record.value.decode(), record.timestamp_ms)
                    found[record.partition].append(row)
        return found

    def check_stopped(self, name: str) -> None:
        with Admin(bootstrap_servers=self.servers) as admin:
            assert admin.describe_group(name).members == []
            assert {each.state for each in admin.list_transactions()} <= {"CompleteCommit", "CompleteAbort", "Empty"}


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        yield Bench(broker)


@pytest.fixture
def drivers(tmp_path: Path, archived_classes: str) -> Iterator[Any]:
    started: list[Driver] = []

    def start() -> Driver:
        settings = {"spark.driver.extraJavaOptions": f"{QUICK_JAVA} {archived_classes}".strip()}
        started.append(Driver(tmp_path / f"driver-{len(started)}.log", **settings))
        return started[-1]

    yield start
    for driver in started:
        driver.close()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("store", ["lmdb", pytest.param("rocksDB", marks=pytest.mark.soak(only=True))])
def test_leases_and_kills_are_not_seen_in_the_results(bench: Bench, drivers: Any, tmp_path: Path, store: str) -> None:
    state, driver = str(tmp_path / "state"), drivers()
    common = {"servers": bench.servers, "state": state, "store": store}
    bench.send(200)
    opened = driver.ask(run="steady", lease=3600.0, **common)["open"]
    assert [len(slot["tasks"]) for slot in opened["slots"]] == [2, 2]
    assert bench.read("steady") == bench.expected()
    told = status_of(Path(state), "steady")  # as `headwater stream status` asks it, from outside the driver
    assert isinstance(told, dict)
    assert (told["state"], [task["slot"] for task in told["tasks"]]) == ("running", [0, 1, 0, 1])
    driver.ask(stop="steady")
    bench.check_stopped("steady")
    assert bool(list(Path(state).rglob("rocksdb"))) == (store == "rocksDB")

    driver.ask(run="brief", lease=1.0, **common)
    for _ in range(2):
        lives = {slot["life"] for slot in driver.slots("brief").values()}
        bench.send(100)
        while lives & {slot["life"] for slot in driver.slots("brief").values()} or not driver.slots("brief"):
            pass
    assert bench.read("brief") == bench.expected()
    driver.ask(stop="brief")
    bench.check_stopped("brief")

    driver.ask(run="killed", lease=3600.0, **common)
    bench.send(100)
    driver.kill_slot("killed", 0)
    bench.send(100)
    assert bench.read("killed") == bench.expected()
    driver.kill()
    bench.send(100)
    successor = drivers()
    successor.ask(run="killed", lease=3600.0, **common)
    bench.send(100)
    assert bench.read("killed") == bench.expected()
    successor.ask(stop="killed")
    bench.check_stopped("killed")


def test_on_one_machine_a_task_that_dies_is_tried_again() -> None:
    assert master_with_retries("local[3]") == "local[3,1000]"
    assert master_with_retries("local[*]") == "local[*,1000]"
    assert master_with_retries("local[2,5]") == "local[2,5]"
    assert master_with_retries("spark://host:7077") == "spark://host:7077"
