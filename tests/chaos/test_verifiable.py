"""VerifiableProducer and VerifiableConsumer of Kafka's own system tests, while brokers die: what they saw, in their own words."""

import json
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.support.cluster import Cluster
from chaos.support.history import History
from chaos.support.processes import WAIT_S, end_group, start_group
from chaos.support.workload import check_replicas, read_all
from compat.support.java import classpath, java_command
from compat.support.members import until
from compat.support.quick import lasting

PARTITIONS = 3
SETTINGS = {
    "producer": {
        "enable.idempotence": "true",
        "retries": 1_000_000,
        "request.timeout.ms": 2000,
        "delivery.timeout.ms": 120_000,
        "retry.backoff.ms": 50,
        "linger.ms": 1,
    },
    "consumer": {"heartbeat.interval.ms": 300, "retry.backoff.ms": 50},
}


class Tool:
    """A process that tells what it does, one JSON object a line."""

    def __init__(self, main: str, output: Path, *arguments: str) -> None:
        self.output = output
        command = [*java_command("128m"), "-cp", classpath(), f"org.apache.kafka.tools.{main}", *arguments]
        with output.open("wb") as file:
            self.process = start_group(command, stdout=file, stderr=subprocess.STDOUT)

    def events(self, *names: str) -> list[dict[str, Any]]:
        lines = self.output.read_text(errors="replace").split("\n")[:-1]  # the last may be on its way
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [one for one in found if one["name"] in names]

    def count(self, name: str) -> int:
        text = self.output.read_text(errors="replace")
        assert self.process.poll() is None, text[-3000:]
        return text.count(f'"name":"{name}"')

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT_S)


@pytest.fixture
def tools(cluster: Cluster, topic: str, tmp_path: Path) -> Iterator[list[Tool]]:
    """A producer, and two consumers of one group."""
    cluster.make_topic(topic, PARTITIONS, min_insync_replicas="2")
    for name, settings in SETTINGS.items():
        (tmp_path / name).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    at = ["--bootstrap-server", cluster.bootstrap, "--topic", topic]
    producing = ["--throughput", "300", "--acks", "-1", "--command-config", str(tmp_path / "producer")]
    consuming = ["--group-id", topic, "--reset-policy", "earliest", "--verbose", "--session-timeout", "3000"]
    consuming += ["--command-config", str(tmp_path / "consumer")]
    started: list[Tool] = []
    try:
        for main, options in (("VerifiableProducer", producing), *[("VerifiableConsumer", consuming)] * 2):
            started.append(Tool(main, tmp_path / f"{len(started)}.json", *at, *options))
        yield started
    finally:
        for tool in started:
            end_group(tool.process)


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_what_java_was_told_stays_true_while_brokers_die(cluster: Cluster, topic: str, tools: list[Tool]) -> None:
    producer, *consumers = tools
    dice = random.Random(time.time_ns())

    def goes_on() -> None:
        sent = producer.count("producer_send_success") + 100
        consumed = _consumed(consumers) + 100
        until(
            lambda: producer.count("producer_send_success") >= sent and _consumed(consumers) >= consumed,
            lambda: [tool.output.read_text()[-2000:] for tool in tools] + [cluster.logs()],
            WAIT_S,
        )

    goes_on()
    for _ in range(lasting(2, 40)):
        victim = dice.choice([cluster.leader(topic), *cluster.members])
        cluster.kill(victim)
        goes_on()
        cluster.start(victim)
        cluster.await_in_sync(topic)
        goes_on()
    producer.stop()
    cluster.await_in_sync(topic)
    logs, ends = read_all(cluster.bootstrap, topic, PARTITIONS)
    written = {partition: end for partition, end in ends.items() if end}
    until(lambda: _committed(consumers) == written, lambda: (_committed(consumers), written), WAIT_S)
    for consumer in consumers:
        consumer.stop()
    history = _history(producer, consumers)
    history.ended(logs)
    check_replicas(cluster, history, topic, ends)
    history.check()
    assert not producer.events("producer_send_error")


def _consumed(consumers: list[Tool]) -> int:
    return sum(consumer.count("record_data") for consumer in consumers)


def _committed(consumers: list[Tool]) -> dict[int, int]:
    """The highest offset of each partition that a consumer was told is committed."""
    last: dict[int, int] = {}
    for consumer in consumers:
        for event in consumer.events("offsets_committed"):
            for one in event["offsets"] if event["success"] else []:
                last[one["partition"]] = max(one["offset"], last.get(one["partition"], 0))
    return last


def _history(producer: Tool, consumers: list[Tool]) -> History:
    history = History()
    # Values are numbers in the order of sending. A batch that is sent again may be acknowledged behind those that followed it.
    for event in sorted(producer.events("producer_send_success"), key=lambda event: int(event["value"])):
        value = event["value"].encode()
        history.sent("producer", value)
        offset = event["offset"] if event["offset"] >= 0 else None  # it was there already, and the leader knows no more
        history.acknowledged(event["partition"], offset, value)
    for number, consumer in enumerate(consumers):
        reader = f"consumer-{number}"
        for event in consumer.events("partitions_assigned", "record_data"):
            if event["name"] == "record_data":
                history.read(reader, event["partition"], event["offset"], event["value"].encode())
            else:
                for one in event["partitions"]:
                    history.assigned(reader, one["partition"])
    return history
