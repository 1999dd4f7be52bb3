"""VerifiableProducer and VerifiableConsumer of Kafka's own system tests: the Java clients, and what they saw, in their
own words.
"""

import json
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from chaos.support.cluster import Cluster
from chaos.support.history import History
from chaos.support.processes import WAIT_S, end_group, start_group
from chaos.support.workload import check_replicas, read_all
from compat.support.java import classpath, java_command
from compat.support.members import until

PARTITIONS = 3
_NAME = re.compile(rb'"name":"(\w+)"')
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
        self._counted_to, self._counts = 0, Counter[str]()
        command = [*java_command("128m"), "-cp", classpath(), f"org.apache.kafka.tools.{main}", *arguments]
        with output.open("wb") as file:
            self.process = start_group(command, stdout=file, stderr=subprocess.STDOUT)

    def events(self, *names: str) -> list[dict[str, Any]]:
        lines = self.output.read_text(errors="replace").split("\n")[:-1]  # the last may be on its way
        found = [json.loads(line) for line in lines if line.startswith("{")]
        return [one for one in found if one["name"] in names]

    def count(self, name: str) -> int:
        """Of whole lines. Only those are read that came since the last time: a storm asks often, for ten minutes."""
        assert self.process.poll() is None, self.output.read_text(errors="replace")[-3000:]
        with self.output.open("rb") as file:
            file.seek(self._counted_to)
            fresh = file.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._counted_to += len(whole)
        self._counts.update(each.decode() for each in _NAME.findall(whole))
        return self._counts[name]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(WAIT_S)


class JavaWorkload:
    """A topic of its own with a producer, and two consumers of one group."""

    def __init__(self, cluster: Cluster, topic: str, directory: Path, throughput: int = 300) -> None:
        self.cluster, self.topic = cluster, topic
        self._directory, self._throughput = directory, throughput
        self._tools: list[Tool] = []

    def __enter__(self) -> Self:
        self.cluster.make_topic(self.topic, PARTITIONS, min_insync_replicas="2")
        self._directory.mkdir(parents=True, exist_ok=True)
        for name, settings in SETTINGS.items():
            (self._directory / name).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        at = ["--bootstrap-server", self.cluster.bootstrap, "--topic", self.topic]
        producing = ["--throughput", str(self._throughput), "--acks", "-1"]
        producing += ["--command-config", str(self._directory / "producer")]
        consuming = ["--group-id", self.topic, "--reset-policy", "earliest", "--verbose", "--session-timeout", "3000"]
        consuming += ["--command-config", str(self._directory / "consumer")]
        try:
            for main, options in (("VerifiableProducer", producing), *[("VerifiableConsumer", consuming)] * 2):
                output = self._directory / f"{len(self._tools)}.json"
                self._tools.append(Tool(main, output, *at, *options))
            self.await_progress()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        for tool in self._tools:
            end_group(tool.process)

    @property
    def _producer(self) -> Tool:
        return self._tools[0]

    @property
    def _consumers(self) -> list[Tool]:
        return self._tools[1:]

    def await_progress(self, count: int = 100) -> None:
        sent = self._producer.count("producer_send_success") + count
        consumed = self._consumed() + count
        until(
            lambda: self._producer.count("producer_send_success") >= sent and self._consumed() >= consumed,
            lambda: [tool.output.read_text()[-2000:] for tool in self._tools] + [self.cluster.logs()],
            WAIT_S,
        )

    def finish(self) -> None:
        """All brokers run and all links are whole: everything is settled, and then checked."""
        self._producer.stop()
        self.cluster.await_in_sync(self.topic)
        logs, ends = read_all(self.cluster.bootstrap, self.topic, PARTITIONS)
        written = {partition: end for partition, end in ends.items() if end}
        until(lambda: self._committed() == written, lambda: (self._committed(), written), WAIT_S)
        for consumer in self._consumers:
            consumer.stop()
        history = self._history()
        history.ended(logs)
        check_replicas(self.cluster, history, self.topic, ends)
        history.check()
        assert not self._producer.events("producer_send_error")

    def _consumed(self) -> int:
        return sum(consumer.count("record_data") for consumer in self._consumers)

    def _committed(self) -> dict[int, int]:
        """The highest offset of each partition that a consumer was told is committed."""
        last: dict[int, int] = {}
        for consumer in self._consumers:
            for event in consumer.events("offsets_committed"):
                for one in event["offsets"] if event["success"] else []:
                    last[one["partition"]] = max(one["offset"], last.get(one["partition"], 0))
        return last

    def _history(self) -> History:
        history = History()
        # Values are numbers in the order of sending.
        # A batch that is sent again may be acknowledged behind those that followed it.
        sent = sorted(self._producer.events("producer_send_success"), key=lambda event: int(event["value"]))
        for event in sent:
            value = event["value"].encode()
            history.sent("producer", value)
            offset = (
                event["offset"] if event["offset"] >= 0 else None
            )  # it was there already, and the leader knows no more
            history.acknowledged(event["partition"], offset, value)
        for number, consumer in enumerate(self._consumers):
            reader = f"consumer-{number}"
            for event in consumer.events("partitions_assigned", "record_data"):
                if event["name"] == "record_data":
                    history.read(reader, event["partition"], event["offset"], event["value"].encode())
                else:
                    for one in event["partitions"]:
                        history.assigned(reader, one["partition"])
        return history
