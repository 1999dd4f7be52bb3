"""The delivery semantics of examples/: each script runs, is killed again and again, and keeps its promise."""

import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest

from compat.support.broker import BrokerProcess
from compat.support.members import until
from compat.support.offsets import when_loaded
from compat.support.quick import lasting, quick
from compat.support.topics import make_topic

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE_S = 60
PARTITIONS = 3
ACCOUNTS = 5
BATCH_RECORDS = 100  # in totals.py
ROUNDS = lasting(4, 20)
COUNT = lasting(800, 8000)


pytestmark = [pytest.mark.soak, pytest.mark.timeout(lasting(300, 1800))]


class Script:
    """One example, running. `kill` and `start` may follow each other."""

    def __init__(self, name: str, *arguments: str) -> None:
        self._command = [sys.executable, str(EXAMPLES / name), *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(PATIENCE_S)


@pytest.fixture
def broker(broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str) -> BrokerProcess:
    made = broker_factory(tmp_path / "broker", **quick())
    make_topic(made.bootstrap, topic, PARTITIONS)
    return made


@pytest.fixture
def run(broker: BrokerProcess, tmp_path: Path, topic: str) -> Iterator[Callable[[str], Script]]:
    scripts: list[Script] = []

    def make(name: str) -> Script:
        scripts.append(Script(name, topic, str(tmp_path / "totals.db"), broker.bootstrap))
        return scripts[-1]

    yield make
    for script in scripts:
        script.kill()


def _pay(broker: BrokerProcess, topic: str, count: int) -> Counter[str]:
    """Payments of 1 each, to accounts in turn."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap})
    paid: Counter[str] = Counter()
    for number in range(count):
        account = f"account {number % ACCOUNTS}"
        producer.produce(topic, "1", key=account, partition=number % PARTITIONS)
        paid[account] += 1
    assert producer.flush(PATIENCE_S) == 0
    return paid


def _totals(tmp_path: Path) -> Counter[str]:
    path = tmp_path / "totals.db"
    if not path.exists():
        return Counter()
    with sqlite3.connect(path, timeout=PATIENCE_S) as database:
        try:
            rows = database.execute("SELECT account, total FROM totals").fetchall()
        except sqlite3.OperationalError:  # the table is not there yet
            rows = []
    database.close()
    return Counter(dict(rows))


def _die_often(script: Script, broker: BrokerProcess, topic: str, tmp_path: Path) -> Counter[str]:
    """Killed a moment after its totals have begun to grow: while it is at work on a batch, more often than not."""
    dice = random.Random(time.time_ns())
    paid: Counter[str] = Counter()
    for _ in range(ROUNDS):
        paid += _pay(broker, topic, COUNT // ROUNDS)
        before = sum(_totals(tmp_path).values())
        script.start()
        until(lambda before=before: sum(_totals(tmp_path).values()) > before, "the script does nothing")
        time.sleep(dice.uniform(0, 0.05))
        script.kill()
    return paid


def _committed(broker: BrokerProcess, topic: str, group: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0})
    try:
        wanted = [confluent_kafka.TopicPartition(topic, partition) for partition in range(PARTITIONS)]
        return sum(max(found.offset, 0) for found in when_loaded(lambda: consumer.committed(wanted, PATIENCE_S)))
    finally:
        consumer.close()


def _finish(script: Script, broker: BrokerProcess, topic: str, group: str, count: int) -> Counter[str]:
    script.start()
    until(lambda: _committed(broker, topic, group) == count, lambda: _committed(broker, topic, group))
    paid = _pay(broker, topic, PARTITIONS)  # it may have been past the rest before: this shows that it runs
    until(lambda: _committed(broker, topic, group) == count + PARTITIONS, lambda: _committed(broker, topic, group))
    assert script.stop() == 0
    return paid


def test_at_most_once(broker: BrokerProcess, run: Callable[[str], Script], tmp_path: Path, topic: str) -> None:
    script = run("at_most_once.py")
    paid = _die_often(script, broker, topic, tmp_path)
    paid += _finish(script, broker, topic, "at-most-once", COUNT)
    totals = _totals(tmp_path)
    assert all(totals[account] <= paid[account] for account in paid), (totals, paid)
    assert sum(totals.values()) > paid.total() - (ROUNDS + 1) * BATCH_RECORDS  # what is lost was under way


def test_at_least_once(broker: BrokerProcess, run: Callable[[str], Script], tmp_path: Path, topic: str) -> None:
    script = run("at_least_once.py")
    paid = _die_often(script, broker, topic, tmp_path)
    paid += _finish(script, broker, topic, "at-least-once", COUNT)
    totals = _totals(tmp_path)
    assert all(totals[account] >= paid[account] for account in paid), (totals, paid)
    assert sum(totals.values()) <= paid.total() + ROUNDS * BATCH_RECORDS  # what is doubled was under way


def test_exactly_once(broker: BrokerProcess, run: Callable[[str], Script], tmp_path: Path, topic: str) -> None:
    script = run("exactly_once.py")
    paid = _die_often(script, broker, topic, tmp_path)
    broker.kill()
    script.start()
    broker.start()
    until(lambda: sum(_totals(tmp_path).values()) >= COUNT, lambda: _totals(tmp_path))
    paid += _pay(broker, topic, 30)
    until(lambda: sum(_totals(tmp_path).values()) >= COUNT + 30, lambda: _totals(tmp_path))
    assert script.stop() == 0
    assert _totals(tmp_path) == paid
    assert _committed(broker, topic, "exactly-once") == 0  # the broker's word was never asked for
