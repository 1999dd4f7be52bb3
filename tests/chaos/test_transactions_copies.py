"""Exactly once over three brokers: a topic is copied to another by transactions, with the group's offsets in them,
while brokers die, stand still past their sessions, and are restarted, and copiers die too (F20). In the end each record
is copied once and in order, the group stands at the end, and no transaction is open.
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos.support.by_hand import coordinator
from chaos.support.cluster import SESSION_MS, Cluster
from chaos.support.copiers import Copiers
from chaos.support.dice import dice as throw_dice
from chaos.support.history import History
from chaos.support.open_ends import AT_REST, OpenEnds
from chaos.support.processes import WAIT_S
from chaos.support.workload import OffsetWatch, check_replicas, read_all
from compat.support.members import until
from compat.support.quick import lasting
from compat.support.topics import fill
from headwater.client import Admin

PARTITIONS = 2
EACH = 100  # records for each partition in a round
OFFSETS_TOPIC, STATE_TOPIC = "__consumer_offsets", "__transaction_state"


def kill(cluster: Cluster, victim: int, dice: random.Random) -> None:
    cluster.kill(victim)
    time.sleep(dice.uniform(0, 2))
    cluster.start(victim)


def pause(cluster: Cluster, victim: int, dice: random.Random) -> None:
    """For longer than its session: when it goes on, others have its work, and it does not know yet."""
    cluster.pause(victim)
    time.sleep(dice.uniform(1.5, 2.5) * SESSION_MS / 1000)
    cluster.resume(victim)


def restart(cluster: Cluster, victim: int, dice: random.Random) -> None:
    cluster.stop(victim)
    cluster.start(victim)


FAULTS: list[Callable[[Cluster, int, random.Random], None]] = [kill, pause, restart]


@pytest.fixture(params=["confluent", "blocking-classic", "asyncio-consumer"])
def copiers(request: pytest.FixtureRequest, cluster: Cluster, topic: str, tmp_path: Path) -> Iterator[Copiers]:
    for name in (topic, f"{topic}.target"):
        cluster.make_topic(name, PARTITIONS, min_insync_replicas="2")
    copiers = Copiers(request.param, cluster.bootstrap, topic, f"{topic}.target", tmp_path / "copiers.log")
    yield copiers
    copiers.kill(*copiers.ids)


@pytest.fixture
def history() -> History:
    return History()


@pytest.fixture
def watch(cluster: Cluster, topic: str, history: History) -> Iterator[OffsetWatch]:
    watch = OffsetWatch(cluster.bootstrap, topic, topic, PARTITIONS, history)
    watch.start()
    yield watch
    watch.give_up()


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_copies_are_exact_while_brokers_suffer(
    cluster: Cluster, topic: str, copiers: Copiers, watch: OffsetWatch, history: History
) -> None:
    dice = throw_dice()
    target = f"{topic}.target"
    sent: list[bytes] = []
    faults = dice.sample(FAULTS, 2)
    for number in range(lasting(2, 40)):
        copiers.tend()
        sent += fill(cluster.bootstrap, topic, PARTITIONS, EACH, start=number * EACH)
        time.sleep(dice.uniform(0.2, 1.5))
        if dice.random() < 0.3:
            copiers.kill(dice.choice(copiers.ids))
        victim = coordinator(cluster, dice.choice(copiers.ids)) if dice.random() < 0.7 else cluster.leader(target)
        fault = faults[number] if number < len(faults) else dice.choice(FAULTS)
        fault(cluster, victim, dice)
        for name in (topic, target, STATE_TOPIC, OFFSETS_TOPIC):  # one broker at a time
            cluster.await_in_sync(name)
    _await_copies(cluster, topic, copiers, history, len(sent))
    copiers.kill(*copiers.ids)
    watch.stop()
    _check_transactions(cluster, topic, copiers.ids)
    _check_copies(cluster, target, sent, history)


def _await_copies(cluster: Cluster, topic: str, copiers: Copiers, history: History, count: int) -> None:
    """The group stands at the end of the source. Its offsets count with the copies, so these are there too."""

    def are_made() -> bool:
        copiers.tend()
        return sum(history.last_committed(topic, partition) for partition in range(PARTITIONS)) == count

    until(are_made, lambda: f"{copiers.said()}\n{cluster.logs()}", WAIT_S * 2)


def _check_transactions(cluster: Cluster, topic: str, ids: list[str]) -> None:
    """None is open, wherever readers could be held up by it;
    a copier that was killed may have left one for its time.
    """
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        ends = OpenEnds(cluster, admin)
        ends.await_none(f"{topic}.target", PARTITIONS)
        ends.await_none(OFFSETS_TOPIC, len(cluster.describe(OFFSETS_TOPIC)))
        until(
            lambda: all(ends.state(each) in AT_REST for each in ids),
            lambda: [ends.state(each) for each in ids],
            WAIT_S,
        )


def _check_copies(cluster: Cluster, target: str, sent: list[bytes], history: History) -> None:
    for value in sent:
        history.sent(f"source-{value.split(b'/')[0]!r}", b"copy of " + value)
    logs, ends = read_all(cluster.bootstrap, target, PARTITIONS)
    history.ended(logs)
    copied = {value for records in logs.values() for _, value in records}
    assert copied == set(history.sent_by), f"{len(set(history.sent_by) - copied)} are not copied"
    check_replicas(cluster, history, target, ends)
    history.check()
