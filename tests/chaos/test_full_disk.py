"""A broker's disk is full while clients write and read: others lead and go on, and it catches up when there is room
(F12).
"""

import errno
from pathlib import Path

import pytest

from chaos.support.cluster import Cluster
from chaos.support.processes import WAIT_S
from chaos.support.workload import Workload
from compat.support.faults import Faults
from compat.support.members import until
from compat.support.quick import lasting


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 1800))
@pytest.mark.parametrize("role", ["leader", "follower"])
def test_a_broker_without_room_holds_nobody_up(
    cluster: Cluster, topic: str, role: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = 2
    faults = Faults(tmp_path)
    faults.only(cluster.members[number].log_dir)
    cluster.stop(number)
    with monkeypatch.context() as patch:
        for name, value in faults.environment().items():
            patch.setenv(name, value)
        cluster.start(number)
    with Workload(cluster, topic, 3) as workload:
        for _ in range(lasting(1, 10)):
            led = [partition for partition, state in cluster.describe(topic).items() if state[0] == number]
            if role == "follower":
                cluster.pause(number)  # until others lead
                for partition in led:
                    cluster.await_leader_other_than(number, topic, partition)
                led = []
            faults.set(write_error=errno.ENOSPC)
            cluster.heal()
            workload.await_progress()
            for partition in led:
                cluster.await_leader_other_than(number, topic, partition)
            until(lambda: faults.count("failed_writes") > 0, "it has written nothing", WAIT_S)
            workload.await_progress()
            faults.set(write_error=0)
            workload.await_progress()
            cluster.await_in_sync(topic)
        workload.finish()
    assert cluster.members[number].is_alive
    assert "event=log-directory-offline" not in cluster.members[number].log
    cluster.stop(number)
    cluster.start(number)
