"""VerifiableProducer and VerifiableConsumer of Kafka's own system tests: what they saw, in their own words."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from compat.support.broker import BrokerProcess
from compat.support.java import classpath, java_command
from compat.support.members import until
from compat.support.topics import make_topic

PARTITIONS = 4


class Tool:
    """A process that tells what it does, one JSON object a line."""

    def __init__(self, main: str, output: Path, *arguments: str) -> None:
        self._output = output
        with output.open("wb") as file:
            command = [*java_command("128m"), "-cp", classpath(), f"org.apache.kafka.tools.{main}", *arguments]
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    def events(self, name: str) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in self._lines() if line.startswith("{") and line.endswith("}")]
        return [one for one in found if one["name"] == name]

    def _lines(self) -> list[str]:
        """Those that are whole: it may be writing one."""
        return self._output.read_text().rpartition("\n")[0].splitlines()

    def assignment(self) -> set[int]:
        """By all that was given and taken."""
        held: set[int] = set()
        for line in self._lines():
            if '"partitions_assigned"' in line:
                held |= {one["partition"] for one in json.loads(line)["partitions"]}
            elif '"partitions_revoked"' in line:
                held -= {one["partition"] for one in json.loads(line)["partitions"]}
        return held

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_everything_sent_is_consumed_once_and_committed(
    group_broker: BrokerProcess, topic: str, tmp_path: Path, protocol: str
) -> None:
    make_topic(group_broker.bootstrap, topic, PARTITIONS)
    at = ["--bootstrap-server", group_broker.bootstrap, "--topic", topic]
    group = ["--group-id", topic, "--group-protocol", protocol, "--reset-policy", "earliest", "--verbose"]
    count = 2000
    tools: list[Tool] = []

    def start(main: str, *arguments: str) -> Tool:
        tools.append(Tool(main, tmp_path / f"{len(tools)}.json", *at, *arguments))
        return tools[-1]

    try:
        consumers = [start("VerifiableConsumer", *group) for _ in range(2)]
        until(
            lambda: [len(one.assignment()) for one in consumers] == [2, 2],
            lambda: [one._output.read_text()[-2000:] for one in consumers],
        )
        producer = start("VerifiableProducer", "--max-messages", str(count), "--throughput", "2000")
        producer.process.wait(90)
        sent = {(one["partition"], one["offset"]) for one in producer.events("producer_send_success")}
        assert len(sent) == count
        until(
            lambda: len(_consumed(consumers)) >= count,
            lambda: [one.events("records_consumed")[-1:] for one in consumers],
        )
        assert sorted(_consumed(consumers)) == sorted(sent)
        until(lambda: _committed(consumers) == count, lambda: _committed(consumers))
    finally:
        for tool in tools:
            tool.stop()
    for consumer in consumers:
        assert consumer.events("shutdown_complete")
        assert all(one["success"] for one in consumer.events("offsets_committed"))


def _consumed(consumers: list[Tool]) -> list[tuple[int, int]]:
    return [(one["partition"], one["offset"]) for tool in consumers for one in tool.events("record_data")]


def _committed(consumers: list[Tool]) -> int:
    last: dict[int, int] = {}
    for tool in consumers:
        for event in tool.events("offsets_committed"):
            last |= {one["partition"]: one["offset"] for one in event["offsets"]}
    return sum(last.values())
