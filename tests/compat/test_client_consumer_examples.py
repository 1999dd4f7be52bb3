"""The consumers of examples/ run: they read, commit as they say, and leave at SIGTERM."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from compat.support.broker import BrokerProcess
from compat.support.topics import make_topic
from headwater.client import Consumer, TopicPartition

EXAMPLES = Path(__file__).parents[2] / "examples"
TIMEOUT_S = 60


@pytest.fixture
def run(group_broker: BrokerProcess, topic: str, tmp_path: Path) -> Iterator[Callable[[str], "Running"]]:
    make_topic(group_broker.bootstrap, topic, 2)
    made: list[Running] = []

    def start(name: str) -> Running:
        made.append(Running(name, group_broker.bootstrap, topic, tmp_path / f"{name}.{len(made)}"))
        return made[-1]

    yield start
    for each in made:
        each.end(signal.SIGKILL)


class Running:
    def __init__(self, name: str, bootstrap: str, topic: str, path: Path) -> None:
        self._path = path
        with path.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(EXAMPLES / name), bootstrap, topic], stdout=output, stderr=subprocess.STDOUT
            )

    @property
    def output(self) -> str:
        return self._path.read_text()

    def wait_for(self, what: str, count: int = 1) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while self.output.count(what) < count:
            assert self._process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(0.05)

    def end(self, number: int = signal.SIGTERM) -> int:
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(TIMEOUT_S)


def send(bootstrap: str, topic: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for at in range(count):
        producer.produce(topic, "France" if at % 3 else "Kenya", key=f"customer {at}", partition=at % 2)
    assert producer.flush(TIMEOUT_S) == 0


def committed(bootstrap: str, group: str, topic: str) -> int:
    with Consumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False) as consumer:
        found = consumer.committed(TopicPartition(topic, 0), TopicPartition(topic, 1))
    return sum(each.offset for each in found.values() if each is not None)


def wait_until_committed(bootstrap: str, group: str, topic: str, at_least: int, script: Running) -> int:
    """An example says what it is about to commit; when it has, the coordinator knows."""
    deadline = time.monotonic() + TIMEOUT_S
    while (found := committed(bootstrap, group, topic)) < at_least:
        assert time.monotonic() < deadline, f"{found} of {at_least} are committed:\n{script.output}"
        time.sleep(0.05)
    return found


def test_countries_are_counted(group_broker: BrokerProcess, topic: str, run: Callable[[str], Running]) -> None:
    send(group_broker.bootstrap, topic, 9)
    script = run("country_counter.py")
    script.wait_for("customer = customer 8")
    script.wait_for('"Kenya": 3')
    script.wait_for('"France": 6')
    assert script.end() == 0, script.output
    assert committed(group_broker.bootstrap, "CountryCounter", topic) == 9


def test_offsets_are_committed_as_the_work_goes_on(
    group_broker: BrokerProcess, topic: str, run: Callable[[str], Running]
) -> None:
    send(group_broker.bootstrap, topic, 1010)
    first = run("commit_as_you_go.py")
    first.wait_for("customer 1009 ")
    first.wait_for("customer 1008 ")
    assert wait_until_committed(group_broker.bootstrap, "commit-as-you-go", topic, 1000, first) <= 1010
    second = run("commit_as_you_go.py")
    first.wait_for("committing")  # a partition goes to the second, and what was done is committed before
    assert wait_until_committed(group_broker.bootstrap, "commit-as-you-go", topic, 1010, first) == 1010
    assert first.end() == 0, first.output
    assert second.end() == 0, second.output
    assert "customer 1" not in second.output
