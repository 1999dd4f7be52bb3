"""The rows about clusters of three: what replication costs, how long a leader's end is felt, what the whole weighs.

Each round has a cluster of its own, of Headwater (and a ZooKeeper) or of Apache Kafka (with a quorum in its brokers). Registered by
`rows.scenarios`.
"""

import json
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

from confluent_kafka.admin import AdminClient, NewTopic

from bench import limits
from bench.brokers import ROOT, headwater
from bench.clusters import BROKERS, SESSION_MS, Cluster, apache_cluster, headwater_cluster
from bench.report import LESS, MORE, Figure, Kind
from bench.requests import Broken
from bench.rows import Bench, Figures, Scenario
from headwater.client import Admin

PARTITIONS = 6
RECORDS, VALUE_BYTES = 600_000, 1000
RATE, LATENCY_S = 500, 8
MANY_PARTITIONS = 1000
READY_S = 120
SETTLE_S = 2.0


@contextmanager
def cluster_of(bench: Bench) -> Iterator[Cluster]:
    start = headwater_cluster if bench.start is headwater else apache_cluster
    with start(bench.directory()) as cluster:
        yield cluster


def create(admin: AdminClient, topic: str, partitions: int) -> None:
    """Comes back when every partition has a leader and all its replicas in sync."""
    admin.create_topics([NewTopic(topic, partitions, BROKERS)])[topic].result(READY_S)
    wait_until(lambda: in_sync(admin, topic, partitions), f"the replicas of {topic} in sync")


def in_sync(admin: AdminClient, topic: str, partitions: int) -> bool:
    found = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return len(found) == partitions and all(
        partition.leader >= 0 and len(partition.isrs) == BROKERS for partition in found.values()
    )


def leader_of(admin: AdminClient, topic: str) -> int:
    return int(admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader)


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = READY_S) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise Broken(f"not after {seconds:.0f} s: {what}")
        time.sleep(0.02)


def client(*arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.cluster_client", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise Broken(f"the client failed: {done.stderr[-500:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def replicated(bench: Bench) -> Figures:
    """Throughput with acks=all and acks=1, latency at a steady rate, and memory: of one cluster, one after the other."""
    found: Figures = {}
    with cluster_of(bench) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for acks in ("all", "1"):
            topic = f"load-{acks}"
            create(admin, topic, PARTITIONS)
            count = bench.count(RECORDS)
            load = client("throughput", cluster.bootstrap, topic, PARTITIONS, count, VALUE_BYTES, acks)
            alone = limits.loopback_send_mb_s()
            found[f"cluster-acks-{acks}"] = Figure(load["mb_s"], alone, f"{load['records_s']:,.0f} records/s")
        create(admin, "steady", PARTITIONS)
        for acks in ("all", "1"):
            seconds = max(2, int(LATENCY_S * bench.scale))
            late = client("latency", cluster.bootstrap, "steady", PARTITIONS, RATE, seconds, acks)
            found[f"cluster-p99-acks-{acks}"] = Figure(late["p99_ms"], None, f"p50 {late['p50_ms']:.2f} ms")
        found["cluster-memory"] = Figure(cluster.memory_mb(), None)
    return found


def failover(bench: Bench) -> Figures:
    """From the end of a leader to the next acknowledged write, as a client that asks often sees it."""
    found: Figures = {}
    with cluster_of(bench) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        create(admin, "watched", 1)
        for row, number in (("failover-kill", signal.SIGKILL), ("failover-stop", signal.SIGTERM)):
            wait_until(lambda: in_sync(admin, "watched", 1), "the replicas in sync")
            leader = cluster.member(leader_of(admin, "watched"))
            survivors = ",".join(f"127.0.0.1:{m.port}" for m in cluster.members if m is not leader)
            with Watch(cluster.bootstrap, "watched") as watch, Admin(bootstrap_servers=survivors) as watcher:
                watch.wait_for_some()
                ended_at = time.time()
                leader.signal(number)
                elected_ms = elected_after_ms(watcher, leader.number, ended_at)
                gap_ms = watch.longest_gap_ms(ended_at)
            leader.end(number)
            found[row] = Figure(gap_ms, None, f"another leader in the metadata after {elected_ms:,.0f} ms")
            leader.start()
    return found


def elected_after_ms(admin: Admin, old: int, since: float) -> float:
    deadline = time.time() + READY_S
    while time.time() < deadline:
        if admin.describe_topics(["watched"])["watched"].partitions[0].leader not in (-1, old):
            return (time.time() - since) * 1e3
        time.sleep(0.005)
    raise Broken("no other leader")


class Watch:
    """A process that writes one record after the other, and tells each acknowledgement."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        command = [sys.executable, "-m", "bench.cluster_client", "watch", bootstrap, topic]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
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


def recovery(bench: Bench) -> Figures:
    """A broker with many partitions is killed and started again: until it is in sync everywhere."""
    partitions = max(50, int(MANY_PARTITIONS * bench.scale))
    with cluster_of(bench) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        create(admin, "many", partitions)
        member = cluster.member(1)
        member.end(signal.SIGKILL)
        wait_until(lambda: not in_sync(admin, "many", partitions), "the others without it")
        time.sleep(SESSION_MS / 1e3 + 1)
        began = time.perf_counter()
        ready_ms = member.start()
        wait_until(lambda: in_sync(admin, "many", partitions), "all in sync again")
        taken_ms = (time.perf_counter() - began) * 1e3
    return {"cluster-recovery-1000": Figure(taken_ms, None, f"serves after {ready_ms:,.0f} ms")}


def cluster_scenarios() -> list[Scenario]:
    network = "loopback send and receive, one connection"
    return [
        Scenario(
            (
                Kind("cluster-acks-all", "three brokers, 3 replicas, acks=all, 1 kB records", "MB/s", MORE, network),
                Kind("cluster-acks-1", "three brokers, 3 replicas, acks=1, 1 kB records", "MB/s", MORE, network),
                Kind("cluster-p99-acks-all", f"p99 at {RATE} records/s, acks=all", "ms", LESS, ""),
                Kind("cluster-p99-acks-1", f"p99 at {RATE} records/s, acks=1", "ms", LESS, ""),
                Kind("cluster-memory", "memory of three brokers (ours: and ZooKeeper) after that", "MB", LESS, ""),
            ),
            replicated,
            1,
            needs_broker=False,
        ),
        Scenario(
            (
                Kind("failover-kill", "SIGKILL of a leader to the next write, session 1.5 s", "ms", LESS, "", 2000),
                Kind("failover-stop", "clean stop of a leader, longest pause of writes", "ms", LESS, "", 200),
            ),
            failover,
            1,
            needs_broker=False,
        ),
        Scenario(
            (Kind("cluster-recovery-1000", "killed broker of 1,000 partitions in sync again", "ms", LESS, ""),),
            recovery,
            1,
            needs_broker=False,
        ),
    ]
