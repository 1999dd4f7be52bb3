"""The rows about clusters of three, and the way back of a broker that was killed. Registered by `rows.scenarios`.

Each scenario has a cluster of its own. The loads are in `replicated.py`, the ends of leaders in `failover.py`.
"""

import signal
import time

from confluent_kafka.admin import AdminClient

from bench.failover import failover
from bench.replicated import RATE, cluster_of, create, in_sync, replicated, wait_until
from bench.report import LESS, MORE, Figure, Kind
from bench.rows import Bench, Figures, Scenario

MANY_PARTITIONS = 1000
SETTLE_S = 1.0


def recovery(bench: Bench) -> Figures:
    """A broker with many partitions is killed, missed by all, and started again: until it is in sync everywhere."""
    partitions = max(50, int(MANY_PARTITIONS * bench.scale))
    with cluster_of(bench) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        create(admin, "many", partitions)
        controller = cluster.controller()
        member = next(member for member in cluster.members if member.number != controller)
        member.end(signal.SIGKILL)
        wait_until(lambda: missed(admin, partitions, member.number), "the others without it")
        time.sleep(SETTLE_S)
        began = time.perf_counter()
        ready_ms = member.start()
        wait_until(lambda: in_sync(admin, "many", partitions), "all in sync again")
        taken_ms = (time.perf_counter() - began) * 1e3
    return {"cluster-recovery-1000": Figure(taken_ms, None, f"serves after {ready_ms:,.0f} ms")}


def missed(admin: AdminClient, partitions: int, gone: int) -> bool:
    """Whether it leads nothing and is in sync nowhere."""
    found = admin.list_topics("many", timeout=10).topics["many"].partitions
    return len(found) == partitions and not any(
        partition.leader == gone or gone in partition.isrs for partition in found.values()
    )


def cluster_scenarios() -> list[Scenario]:
    network = "loopback send and receive, one connection"
    return [
        Scenario(
            (
                Kind("cluster-acks-all", "three brokers, 3 replicas, acks=all, 1 kB records", "MB/s", MORE, network),
                Kind("cluster-acks-1", "three brokers, 3 replicas, acks=1, 1 kB records", "MB/s", MORE, network),
                Kind("cluster-p99-acks-all", f"three brokers, p99 at {RATE} records/s, acks=all", "ms", LESS, ""),
                Kind("cluster-p99-acks-1", f"three brokers, p99 at {RATE} records/s, acks=1", "ms", LESS, ""),
                Kind("cluster-end-to-end-p50", "three brokers, librdkafka end to end, p50", "ms", LESS, ""),
                Kind("cluster-end-to-end-p99", "three brokers, librdkafka end to end, p99", "ms", LESS, ""),
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
