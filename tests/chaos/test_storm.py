"""Everything at once, for long: kills, stops, cuts and full disks, while librdkafka, the Java clients and our own write
and read.

A round has topics of its own and ends with all of it checked; `make soak` has twelve of ten minutes. What happened is
printed.
"""

import time
from pathlib import Path

import pytest

from chaos.support.cluster import Cluster
from chaos.support.dice import chosen_seed
from chaos.support.own_clients import OwnWorkload
from chaos.support.storm import Storm
from chaos.support.verifiable import JavaWorkload
from chaos.support.workload import Workload
from compat.support.quick import lasting

SERVERS = 3
ROUNDS, SECONDS, PAUSE_S = lasting(1, 12), lasting(5, 600), lasting(0.5, 5)


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 5 * 3600))
def test_nothing_that_any_client_was_told_is_undone(
    cluster: Cluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = chosen_seed()
    totals: dict[str, int] = {}
    acknowledged = 0
    for number in range(ROUNDS):
        names = [f"{topic}.{number}.{client}" for client in ("librdkafka", "own", "java")]
        storm = Storm(cluster, names, seed + number)
        with (
            Workload(cluster, names[0], group=True) as first,
            OwnWorkload(cluster, names[1], group=True) as second,
            JavaWorkload(cluster, names[2], tmp_path / f"java-{number}", throughput=50) as third,
        ):
            if number == 0:
                storm.prepare_disks(tmp_path, monkeypatch)
            until_s = time.monotonic() + SECONDS
            while time.monotonic() < until_s:
                kind = storm.blow()
                for workload in (first, second, third):
                    workload.await_progress(4)
                totals[kind] = totals.get(kind, 0) + 1
                time.sleep(storm.dice.uniform(0, PAUSE_S))
            storm.calm()
            for workload in (first, second, third):
                workload.finish()
            acknowledged += sum(writer.acknowledged for each in (first, second) for writer in each.writers)
        print(f"round {number + 1} of {ROUNDS}: {totals}, {acknowledged} records, no violation", flush=True)
