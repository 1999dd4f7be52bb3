"""Fifty small applications in the slots of one runtime on `local[2]`: each does its work, and one that fails leaves the
others running. Of `make soak` alone.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from compat.support.local_cluster import until
from headwater.base.errors import UserError
from headwater.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from headwater.streams import App
from headwater.streams.on_spark import Runtime
from headwater.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.soak(only=True), pytest.mark.timeout(3600)]
NUMBERS = range(50)
FAILING = 17
PATIENCE_S = 900


@pytest.fixture
def servers() -> Iterator[str]:
    with Broker({"group.initial.rebalance.delay.ms": 0}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            topics = ["out", *(f"in-{number}" for number in NUMBERS)]
            admin.create_topics([NewTopic(topic, 1, 1) for topic in topics])
        yield broker.bootstrap_servers


def small_app(number: int, servers: str) -> App:
    app = App(f"small-{number}", brokers=servers, key="text", value="text")
    words = app.stream(f"in-{number}").map_values(lambda value: str(1 // (value != "bad")) + value)
    words.group_by_key().count(store="counts").to_stream().map_values(str, value="text").to("out")
    return app


def send(servers: str, value: str, *numbers: int) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for number in numbers:
            producer.send(f"in-{number}", value.encode(), key=str(number).encode())


class Out:
    def __init__(self, servers: str) -> None:
        self._consumer = Consumer(
            bootstrap_servers=servers, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        self._consumer.assign([TopicPartition("out", 0)])
        self.counts: dict[int, list[int]] = {}

    def until(self, wanted: dict[int, list[int]]) -> None:
        def is_so() -> bool:
            for record in self._consumer.poll(0.5):
                self.counts.setdefault(int(record.key), []).append(int(record.value))
            return self.counts == wanted

        until(is_so, f"{self.counts}", PATIENCE_S)

    def close(self) -> None:
        self._consumer.close()


def test_fifty_applications_run_on_two_cores_and_one_that_fails_leaves_the_others(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    assert spark.sparkContext.master.startswith("local[2")
    runtime, out = Runtime(spark), Out(servers)
    try:
        assert runtime.slots == 1
        runs = [
            runtime.run(small_app(number, servers), state_dir=tmp_path, wait=False, commit_interval_ms=500)
            for number in NUMBERS
        ]
        for run in runs:
            assert run.wait_started(PATIENCE_S)
        send(servers, "x", *NUMBERS)
        out.until({number: [1] for number in NUMBERS})

        send(servers, "bad", FAILING)
        with pytest.raises(UserError, match="ZeroDivisionError"):
            runs[FAILING].wait(PATIENCE_S)
        send(servers, "x", *NUMBERS)
        out.until({number: [1] if number == FAILING else [1, 2] for number in NUMBERS})
        assert [number for number in NUMBERS if not runs[number].running] == [FAILING]
    finally:
        runtime.stop()
        out.close()
