"""Consume, transform, produce with our own consumer and producer: each record once, though processes and the broker
die.

The copiers are in one group, so partitions move between them whenever one dies. A member that the group has lost is
fenced, whatever it believes. Two rounds in `make test`, many in `make soak`.
"""

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.support.broker import BrokerProcess
from compat.support.members import until
from compat.support.quick import lasting, quick
from compat.support.topics import fill, make_topic
from compat.support.transactional import committed_offset, read, until_decided
from headwater.client import Consumer, Producer, TopicPartition, TransactionFailed

PARTITIONS = 2
COPIER = Path(__file__).parent / "support" / "copier_ours.py"

pytestmark = [pytest.mark.soak, pytest.mark.timeout(lasting(300, 3600))]


class Copiers:
    """Two processes with the same command but for the transactional id; `tend` starts those that ended again."""

    def __init__(self, command: Callable[[str], list[str]], log: Path) -> None:
        self._command = command
        self._log = log
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = 0

    def tend(self) -> None:
        for name in ("one", "two"):
            if name not in self._running or self._running[name].poll() is not None:
                with self._log.open("ab") as log:
                    self._running[name] = subprocess.Popen(self._command(name), stdout=log, stderr=log)
                self._starts += 1
                assert self._starts < lasting(40, 1000), self.log()

    def kill(self, name: str) -> None:
        if name in self._running:
            self._running[name].kill()
            self._running[name].wait()

    def log(self) -> str:
        return self._log.read_text()[-3000:] if self._log.exists() else ""


@pytest.fixture
def copiers(tmp_path: Path) -> Iterator[Callable[[Callable[[str], list[str]]], Copiers]]:
    made: list[Copiers] = []

    def make(command: Callable[[str], list[str]]) -> Copiers:
        made.append(Copiers(command, tmp_path / "copiers.log"))
        return made[-1]

    yield make
    for each in made:
        each.kill("one")
        each.kill("two")


@pytest.mark.parametrize(("face", "protocol"), [("blocking", "classic"), ("asyncio", "consumer")])
def test_copies_are_exact_while_copiers_and_the_broker_die(
    broker_factory: Callable[..., BrokerProcess],
    copiers: Callable[..., Copiers],
    tmp_path: Path,
    topic: str,
    face: str,
    protocol: str,
) -> None:
    broker = broker_factory(tmp_path / "broker", **quick())
    target = f"{topic}.target"
    for name in (topic, target):
        make_topic(broker.bootstrap, name, PARTITIONS)

    def command(name: str) -> list[str]:
        arguments = [face, broker.bootstrap, topic, f"{topic}.{name}", topic, target, protocol]
        return [sys.executable, str(COPIER), *arguments]

    running = copiers(command)
    dice = random.Random(time.time_ns())
    sent: list[bytes] = []
    for number in range(lasting(3, 50)):
        running.tend()
        sent += fill(broker.bootstrap, topic, PARTITIONS, 200, start=number * 200)
        time.sleep(dice.uniform(0.5, 1.5))
        what = ["one", "broker", "two"][number % 3]
        if what == "broker":
            broker.kill()
            broker.start()
        else:
            running.kill(what)

    def done() -> bool:
        running.tend()
        offsets = [committed_offset(broker.bootstrap, topic, (topic, partition)) for partition in range(PARTITIONS)]
        return sum(offset or 0 for offset in offsets) == len(sent)

    until(done, running.log, 120)
    until_decided(broker.bootstrap, target, PARTITIONS)  # of one that was killed, too
    for partition in range(PARTITIONS):
        expected = [f"copy of {value.decode()}" for value in sent if value.startswith(b"%d/" % partition)]
        assert read(broker.bootstrap, target, partition) == expected


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_offsets_of_a_member_that_was_too_slow_are_refused(
    group_broker: BrokerProcess, topic: str, protocol: str
) -> None:
    """It has left the group meanwhile, and another has done its work: as nobody, it would take the group back."""
    bootstrap = group_broker.bootstrap
    for name in (topic, f"{topic}.target"):
        make_topic(bootstrap, name)
    fill(bootstrap, topic, 1, 10)
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": topic,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    place = TopicPartition(topic, 0)

    def copy(consumer: Consumer, name: str, upto: int) -> None:
        with Producer(bootstrap_servers=bootstrap, transactional_id=f"{topic}.{name}") as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send(f"{topic}.target", name)
                producer.send_offsets_to_transaction({place: upto}, consumer.group_metadata())

    with Consumer(settings, max_poll_interval_ms=1000) as slow, Consumer(settings) as other:
        slow.subscribe([topic])
        until(lambda: slow.poll(0.2), "the first member gets nothing")
        other.subscribe([topic])
        until(lambda: other.poll(0.2), "the first member never leaves")
        copy(other, "other", 10)
        with pytest.raises(TransactionFailed):
            copy(slow, "slow", 1)
        assert other.committed(place)[place].offset == 10  # type: ignore[union-attr]
    assert read(bootstrap, f"{topic}.target") == ["other"]
