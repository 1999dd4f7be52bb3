"""A cluster under load: what replication costs, how late acknowledgements and records come, what the whole weighs.

One cluster of Headwater (and a ZooKeeper) or of Apache Kafka (with a quorum in its brokers), everything one after the
other. The first load of each kind is not counted. Also what every row about clusters needs. Registered by
`cluster.cluster_scenarios`.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench import limits
from bench.brokers import ROOT, headwater
from bench.clusters import BROKERS, Cluster, apache_cluster, headwater_cluster
from bench.report import Figure
from bench.requests import Broken
from bench.rows import Bench, Figures

PARTITIONS = 6
RECORDS, VALUE_BYTES = 300_000, 1000
ROUNDS = 3
RATE, LATENCY_S, LATENCY_ROUNDS = 500, 8, 2
READY_S = 120
DELETE_AT_ONCE = {"file.delete.delay.ms": "1"}  # so that its pages are never written to disk


@contextmanager
def cluster_of(bench: Bench, session_ms: int | None = None) -> Iterator[Cluster]:
    start = headwater_cluster if bench.start is headwater else apache_cluster
    with start(bench.directory(), session_ms) as cluster:
        try:
            yield cluster
        except KafkaException as problem:
            raise Broken(f"a client was refused: {problem}") from problem


def create(admin: AdminClient, topic: str, partitions: int) -> None:
    """Comes back when every partition has a leader and all its replicas in sync."""
    admin.create_topics([NewTopic(topic, partitions, BROKERS, config=DELETE_AT_ONCE)])[topic].result(READY_S)
    wait_until(lambda: in_sync(admin, topic, partitions), f"the replicas of {topic} in sync")


def in_sync(admin: AdminClient, topic: str, partitions: int) -> bool:
    found = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return len(found) == partitions and all(
        partition.leader >= 0 and len(partition.isrs) == BROKERS for partition in found.values()
    )


def leaders_of(admin: AdminClient, topic: str) -> dict[int, int]:
    found = admin.list_topics(topic, timeout=10).topics[topic].partitions
    return {number: int(partition.leader) for number, partition in found.items()}


def wait_until(is_so: Callable[[], bool], what: str, seconds: float = READY_S) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise Broken(f"not after {seconds:.0f} s: {what}")
        time.sleep(0.02)


def client(module: str, *arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", f"bench.{module}", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise Broken(f"the client failed: {done.stderr[-500:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def replicated(bench: Bench) -> Figures:
    found: Figures = {}
    is_short = bench.scale < 1
    with cluster_of(bench) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for acks in ("all", "1"):
            rounds = [load(bench, cluster, admin, acks) for _ in range(1 if is_short else 1 + ROUNDS)]
            counted = rounds[1:] or rounds
            alone = max(limits.loopback_send_mb_s() for _ in range(1 if is_short else 2))
            best = max(counted, key=lambda figure: figure.value)
            found[f"cluster-acks-{acks}"] = Figure(best.value, alone, best.also)
        create(admin, "steady", PARTITIONS)
        for acks in ("all", "1"):
            found[f"cluster-p99-acks-{acks}"] = latency(bench, cluster, acks)
        found |= end_to_end(bench, cluster.bootstrap, "steady", PARTITIONS, "cluster-end-to-end")
        found["cluster-memory"] = Figure(cluster.memory_mb(), None)
    return found


def load(bench: Bench, cluster: Cluster, admin: AdminClient, acks: str) -> Figure:
    """On a topic of its own."""
    topic = f"load-{acks}-{time.monotonic_ns()}"
    create(admin, topic, PARTITIONS)
    count = bench.count(RECORDS)
    before = cluster.cpu_seconds()
    done = client("cluster_client", "throughput", cluster.bootstrap, topic, PARTITIONS, count, VALUE_BYTES, acks)
    cpu_us = (cluster.cpu_seconds() - before) / count * 1e6
    admin.delete_topics([topic])[topic].result(READY_S)
    return Figure(done["mb_s"], None, f"{done['records_s']:,.0f} records/s, each {cpu_us:.1f} us of CPU of all brokers")


def latency(bench: Bench, cluster: Cluster, acks: str) -> Figure:
    """Of acknowledgements, at a steady rate."""
    seconds = max(2, int(LATENCY_S * bench.scale))
    rounds = [
        client("cluster_client", "latency", cluster.bootstrap, "steady", PARTITIONS, RATE, seconds, acks)
        for _ in range(1 if bench.scale < 1 else LATENCY_ROUNDS)
    ]
    best = min(rounds, key=lambda found: found["p99_ms"])
    return Figure(best["p99_ms"], None, f"p50 {best['p50_ms']:.2f} ms")


def end_to_end(bench: Bench, bootstrap: str, topic: str, partitions: int, row: str) -> Figures:
    """From `produce` to the consumer's hands, of librdkafka at a steady rate."""
    seconds = max(2, int(LATENCY_S * bench.scale))
    rounds = [
        client("latency_client", "consume", bootstrap, topic, partitions, RATE, seconds)
        for _ in range(1 if bench.scale < 1 else LATENCY_ROUNDS)
    ]
    return {f"{row}-{part}": Figure(min(found[f"{part}_ms"] for found in rounds)) for part in ("p50", "p99")}
