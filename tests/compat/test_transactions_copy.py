"""Exactly once: copies of a topic by transactions, while copiers and the broker are killed at random moments.

No loss, no duplicate, no aborted record read, committed offsets never back. A few rounds in `make test`, 50 in `make
soak`.
"""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pytest

from compat.support.broker import BrokerProcess
from compat.support.java import classpath, java_command
from compat.support.members import until
from compat.support.quick import lasting, quick
from compat.support.topics import fill, make_topic
from compat.support.transactional import committed_offset, read, until_decided

PARTITIONS = 2
COPIER = Path(__file__).parent / "support" / "copier.py"


class Copiers:
    """Processes of the same command, one for each transactional id; `tend` starts those that ended again."""

    def __init__(self, command: Callable[[str], list[str]], ids: list[str], log: Path) -> None:
        self._command = command
        self._log = log
        self._running: dict[str, subprocess.Popen[bytes] | None] = dict.fromkeys(ids)
        self.starts = 0

    def tend(self) -> None:
        for transactional_id, process in self._running.items():
            if process is None or process.poll() is not None:
                with self._log.open("ab") as log:
                    command = self._command(transactional_id)
                    self._running[transactional_id] = subprocess.Popen(command, stdout=log, stderr=log)
                self.starts += 1
                assert self.starts < lasting(60, 1000), self._log.read_text()[-3000:]

    def kill(self, transactional_id: str) -> None:
        process = self._running[transactional_id]
        if process is not None:
            process.kill()
            process.wait()

    def kill_all(self) -> None:
        for transactional_id in self._running:
            self.kill(transactional_id)


class OffsetWatch(threading.Thread):
    """Asks for the committed offsets all the time: they must never go back."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
        self._places = [confluent_kafka.TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        self.stopped = threading.Event()
        self.seen: list[tuple[int, ...]] = []
        self.back: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def run(self) -> None:
        while not self.stopped.wait(0.05):
            try:
                found = tuple(place.offset for place in self._consumer.committed(self._places, 5))
            except confluent_kafka.KafkaException:
                continue  # the broker is down, or a transaction is in doubt
            if self.seen and any(now < before for now, before in zip(found, self.seen[-1], strict=True)):
                self.back.append((self.seen[-1], found))
            self.seen.append(found)
        self._consumer.close()


@pytest.mark.soak
@pytest.mark.timeout(lasting(300, 3600))
def test_copies_are_exact_while_copiers_and_the_broker_die(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str
) -> None:
    broker = broker_factory(tmp_path / "broker", **quick())
    target = f"{topic}.target"
    for name in (topic, target):
        make_topic(broker.bootstrap, name, PARTITIONS)
    ids = [f"{topic}.one", f"{topic}.two"]

    def command(transactional_id: str) -> list[str]:
        return [sys.executable, str(COPIER), broker.bootstrap, topic, transactional_id, topic, target]

    copiers = Copiers(command, ids, tmp_path / "copiers.log")
    watch = OffsetWatch(broker.bootstrap, topic, topic)
    watch.start()
    dice = random.Random(time.time_ns())
    sent: list[bytes] = []
    try:
        for number in range(lasting(4, 50)):
            enough = min(number, 2)  # the watch has looked, and seen them move
            until(
                lambda enough=enough: copiers.tend() or len(set(watch.seen)) > enough,
                lambda: (watch.seen[-3:], copiers._log.read_text()[-3000:]),
                90,
            )
            sent += fill(broker.bootstrap, topic, PARTITIONS, 100, start=number * 100)
            time.sleep(dice.uniform(0.2, 1.5))
            what = dice.choice(["broker", "one", "two", "everything"]) if number else "broker"
            if what in ("one", "two"):
                copiers.kill(f"{topic}.{what}")
            else:
                broker.kill()
                if what == "everything":
                    copiers.kill_all()
                broker.start()
        _wait_for_all(broker, topic, copiers, len(sent))
    finally:
        watch.stopped.set()
        copiers.kill_all()
        watch.join()
    _check(broker, target, sent)
    assert not watch.back
    assert len(set(watch.seen)) > 2


def _wait_for_all(broker: BrokerProcess, topic: str, copiers: Copiers, count: int) -> None:
    def done() -> bool:
        copiers.tend()
        offsets = [committed_offset(broker.bootstrap, topic, (topic, partition)) for partition in range(PARTITIONS)]
        return sum(offset or 0 for offset in offsets) == count

    until(done, lambda: copiers._log.read_text()[-3000:], 120)


def _check(broker: BrokerProcess, target: str, sent: list[bytes]) -> None:
    """Each partition of the target holds the copies of that of the source, once each and in order."""
    until_decided(broker.bootstrap, target, PARTITIONS)  # what a copier had begun that was killed
    for partition in range(PARTITIONS):
        prefix = f"{partition}/"
        expected = [f"copy of {value.decode()}" for value in sent if value.decode().startswith(prefix)]
        assert read(broker.bootstrap, target, partition) == expected
        everything = read(broker.bootstrap, target, partition, committed=False)
        assert set(everything) == set(expected)


@pytest.mark.soak
@pytest.mark.timeout(lasting(300, 3600))
def test_the_message_copier_of_kafka(broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str) -> None:
    """TransactionalMessageCopier, which Kafka's own system tests use, with aborts at random and a broker that is
    killed.
    """
    broker = broker_factory(tmp_path / "broker", **quick())
    target = f"{topic}.target"
    for name in (topic, target):
        make_topic(broker.bootstrap, name, PARTITIONS)
    sent = fill(broker.bootstrap, topic, PARTITIONS, lasting(400, 5000))

    def command(transactional_id: str) -> list[str]:
        partition = transactional_id.rsplit(".", 1)[1]
        options = ["--broker-list", broker.bootstrap, "--input-topic", topic, "--output-topic", target]
        options += ["--input-partition", partition, "--consumer-group", topic, "--enable-random-aborts"]
        options += ["--transactional-id", transactional_id, "--transaction-size", "40"]
        options += ["--transaction-timeout", "5000"]  # it asks for offsets before it ends what its forerunner began
        main = "org.apache.kafka.tools.TransactionalMessageCopier"
        return [*java_command("128m"), "-cp", classpath(), main, *options]

    copiers = Copiers(command, [f"{topic}.{partition}" for partition in range(PARTITIONS)], tmp_path / "copiers.log")
    dice = random.Random(time.time_ns())
    try:
        for _ in range(lasting(2, 20)):
            copiers.tend()
            time.sleep(dice.uniform(1.0, 3.0))
            broker.kill()
            copiers.kill(f"{topic}.{dice.randrange(PARTITIONS)}")
            broker.start()
        _wait_for_all(broker, topic, copiers, len(sent))
    finally:
        copiers.kill_all()
    until_decided(broker.bootstrap, target, PARTITIONS)
    for partition in range(PARTITIONS):
        expected = [value.decode() for value in sent if value.decode().startswith(f"{partition}/")]
        assert read(broker.bootstrap, target, partition) == expected
