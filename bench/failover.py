"""The rows about the end of a leader: how long nobody's write is acknowledged, and how long until another leader is
known.

The leader that ends is not the controller, at neither broker: who loses both at once waits for two elections. Several
ends of each kind, of which the median counts; `also` names the longest. Registered by `cluster.cluster_scenarios`.
"""

import selectors
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from confluent_kafka.admin import AdminClient

from bench.brokers import ROOT, die_with_parent
from bench.clusters import BROKERS, Cluster, Member
from bench.replicated import READY_S, cluster_of, create, in_sync, leaders_of, wait_until
from bench.report import Figure
from bench.requests import Broken
from bench.rows import Bench, Figures
from headwater.client import Admin

SESSION_MS = 1500
SETTLE_S = 2.0
TOPIC = "watched"
ENDS = 3


class End(NamedTuple):
    gap_ms: float
    elected_ms: float


def failover(bench: Bench) -> Figures:
    """From the end of a leader to the next acknowledged write, as a client that asks often sees it."""
    found: Figures = {}
    with cluster_of(bench, SESSION_MS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        create(admin, TOPIC, BROKERS)  # each leads one
        for row, number in (("failover-kill", signal.SIGKILL), ("failover-stop", signal.SIGTERM)):
            ends = [end_of_leader(admin, cluster, number) for _ in range(ENDS if bench.scale == 1 else 1)]
            gap_ms = statistics.median(end.gap_ms for end in ends)
            elected_ms = statistics.median(end.elected_ms for end in ends)
            longest_ms = max(end.gap_ms for end in ends)
            also = f"the longest {longest_ms:,.0f} ms; another leader in the metadata after {elected_ms:,.0f} ms"
            found[row] = Figure(gap_ms, None, also)
    return found


def end_of_leader(admin: AdminClient, cluster: Cluster, number: signal.Signals) -> End:
    wait_until(lambda: in_sync(admin, TOPIC, BROKERS), "the replicas in sync")
    leader, partition = a_leader(admin, cluster)
    survivors = ",".join(f"127.0.0.1:{each.port}" for each in cluster.members if each is not leader)
    with Watch(cluster.bootstrap, TOPIC, partition) as watch, Admin(bootstrap_servers=survivors) as watcher:
        watcher.describe_topics([TOPIC])  # is connected
        watch.wait_for_some()
        ended_at = time.time()
        leader.signal(number)
        elected_ms = elected_after_ms(watcher, partition, leader.number, ended_at)
        gap_ms = watch.longest_gap_ms(ended_at)
    leader.end(number)
    leader.start()
    return End(gap_ms, elected_ms)


def a_leader(admin: AdminClient, cluster: Cluster) -> tuple[Member, int]:
    """A broker that is not the controller, and a partition that it leads."""
    controller = cluster.controller()
    for partition, leader in leaders_of(admin, TOPIC).items():
        if leader != controller:
            return cluster.member(leader), partition
    raise Broken("the controller leads everything")


def elected_after_ms(admin: Admin, partition: int, old: int, since: float) -> float:
    deadline = time.time() + READY_S
    while time.time() < deadline:
        if admin.describe_topics([TOPIC])[TOPIC].partitions[partition].leader not in (-1, old):
            return (time.time() - since) * 1e3
        time.sleep(0.005)
    raise Broken("no other leader")


class Watch:
    """A process that writes one record after the other, and tells each acknowledgement."""

    def __init__(self, bootstrap: str, topic: str, partition: int) -> None:
        command = [sys.executable, "-m", "bench.cluster_client", "watch", bootstrap, topic, str(partition)]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, preexec_fn=die_with_parent)
        self._times: list[float] = []
        self._rest = b""

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def wait_for_some(self) -> None:
        self._read_until(lambda: len(self._times) >= 50)

    def longest_gap_ms(self, ended_at: float) -> float:
        """Between two acknowledgements around the end and some time after: a clean stop takes effect a little later."""
        self._read_until(lambda: bool(self._times) and self._times[-1] > ended_at + SETTLE_S)
        times = [each for each in self._times if each > ended_at - 0.5]
        return max((later - earlier) * 1e3 for earlier, later in pairwise(times))

    def _read_until(self, is_enough: Callable[[], bool]) -> None:
        assert self._process.stdout is not None
        deadline = time.monotonic() + READY_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not is_enough():
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise Broken("the writer hears nothing")
                if selector.select(0.2):
                    *lines, self._rest = (self._rest + self._process.stdout.read1(65536)).split(b"\n")
                    self._times += [float(line.split()[0]) for line in lines]
