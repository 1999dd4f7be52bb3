"""Transactions while their coordinators and the leaders of their partitions die: F18, F19, F20."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import compat.support
from chaos.support.by_hand import ByHand, coordinator
from chaos.support.cluster import Cluster
from chaos.support.history import History
from chaos.support.processes import WAIT_S, end_group, start_group
from chaos.support.workload import OffsetWatch, check_replicas, read_all
from compat.support.members import until
from compat.support.quick import lasting
from compat.support.topics import fill
from headwater.base.errors import ErrorCode

PARTITIONS = 2
COPIER = Path(next(iter(compat.support.__path__))) / "copier.py"
FENCED = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}


def test_a_zombie_is_fenced_by_whoever_coordinates(cluster: Cluster, topic: str) -> None:
    """Another producer has taken its transactional id over, and then the coordinator died."""
    cluster.make_topic(topic, 1)
    zombie, heir = (ByHand(cluster, f"{topic}.id", topic) for _ in range(2))
    zombie.init()
    assert zombie.send(b"of the zombie") == 0
    heir.init()  # aborts what the zombie began
    assert heir.send(b"of the heir") == 0
    old = coordinator(cluster, f"{topic}.id")
    cluster.kill(old)
    assert ErrorCode(zombie.send(b"of the zombie again")) in FENCED
    heir.end(committed=True)
    assert heir.send(b"of the heir again") == 0
    heir.end(committed=True)
    cluster.start(old)
    logs, ends = read_all(cluster.bootstrap, topic, 1)
    assert [value for _, value in logs[0]] == [b"of the heir", b"of the heir again"]
    _check_files(cluster, topic, ends)


def test_an_end_that_was_held_back_does_not_end_the_next_transaction(cluster: Cluster, topic: str) -> None:
    """Sent again to the coordinator, and after its death to the next one."""
    cluster.make_topic(topic, 1)
    producer = ByHand(cluster, f"{topic}.id", topic)
    producer.init()
    assert producer.send(b"committed") == 0
    held_back = producer.end(committed=True)
    assert producer.send(b"aborted") == 0
    assert ErrorCode(producer.replay(held_back)) in FENCED
    old = coordinator(cluster, f"{topic}.id")
    cluster.kill(old)
    assert ErrorCode(producer.replay(held_back)) in FENCED
    assert producer.send(b"aborted too") == 0
    producer.end(committed=False)
    cluster.start(old)
    logs, ends = read_all(cluster.bootstrap, topic, 1)
    assert [value for _, value in logs[0]] == [b"committed"]
    _check_files(cluster, topic, ends)


class Copiers:
    """Processes that copy one topic to another by transactions, one for each transactional id; `tend` starts those that ended."""

    def __init__(self, bootstrap: str, source: str, target: str, log: Path) -> None:
        self._command = [sys.executable, str(COPIER), bootstrap, source]
        self._topics = [source, target]
        self._log = log
        self.ids = [f"{source}.{number}" for number in (1, 2)]
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def tend(self) -> None:
        for transactional_id in self.ids:
            process = self._running.get(transactional_id)
            if process is None or process.poll() is not None:
                with self._log.open("ab") as log:
                    command = [*self._command, transactional_id, *self._topics]
                    self._running[transactional_id] = start_group(command, stdout=log, stderr=log)

    def kill(self, transactional_id: str) -> None:
        process = self._running.pop(transactional_id, None)
        if process is not None:
            end_group(process)

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


@pytest.fixture
def copiers(cluster: Cluster, topic: str, tmp_path: Path) -> Iterator[Copiers]:
    for name in (topic, f"{topic}.target"):
        cluster.make_topic(name, PARTITIONS, min_insync_replicas="2")
    copiers = Copiers(cluster.bootstrap, topic, f"{topic}.target", tmp_path / "copiers.log")
    yield copiers
    for transactional_id in copiers.ids:
        copiers.kill(transactional_id)


@pytest.mark.soak
@pytest.mark.timeout(lasting(240, 3600))
def test_copies_are_exact_while_coordinators_die(cluster: Cluster, topic: str, copiers: Copiers) -> None:
    """At any moment: also between the decision to commit and the markers that tell of it."""
    dice = random.Random(time.time_ns())
    target = f"{topic}.target"
    history = History()
    watch = OffsetWatch(cluster.bootstrap, topic, topic, PARTITIONS, history)
    watch.start()
    sent: list[bytes] = []
    try:
        for number in range(lasting(3, 40)):
            copiers.tend()
            sent += fill(cluster.bootstrap, topic, PARTITIONS, 100, start=number * 100)
            time.sleep(dice.uniform(0.2, 1.5))
            victim = coordinator(cluster, dice.choice(copiers.ids)) if dice.random() < 0.7 else cluster.leader(target)
            cluster.kill(victim)
            if dice.random() < 0.3:
                copiers.kill(dice.choice(copiers.ids))
            time.sleep(dice.uniform(0, 2))
            cluster.start(victim)
        _await_copies(cluster, topic, copiers, len(sent), history)
    finally:
        watch.give_up()
    for transactional_id in copiers.ids:
        copiers.kill(transactional_id)
    cluster.await_in_sync(target)
    for value in sent:
        history.sent(f"source-{value.split(b'/')[0]!r}", b"copy of " + value)
    logs, ends = read_all(cluster.bootstrap, target, PARTITIONS)
    history.ended(logs)
    copied = {value for records in logs.values() for _, value in records}
    assert copied == set(history.sent_by), f"{len(set(history.sent_by) - copied)} are not copied"
    check_replicas(cluster, history, target, ends)
    history.check()
    assert watch.answers


def _await_copies(cluster: Cluster, topic: str, copiers: Copiers, count: int, history: History) -> None:
    def are_made() -> bool:
        copiers.tend()
        return sum(history.last_committed(topic, partition) for partition in range(PARTITIONS)) == count

    until(are_made, lambda: f"{copiers.said()}\n{cluster.logs()}", WAIT_S * 2)


def _check_files(cluster: Cluster, topic: str, ends: dict[int, int]) -> None:
    cluster.await_in_sync(topic)
    history = History()
    check_replicas(cluster, history, topic, ends)
    history.check()
