"""SASL_SSL between everything: brokers, their ZooKeeper and clients log in at each other over TLS, brokers die while
clients write and read, and so does ZooKeeper in `make soak`. Otherwise as in `test_kills.py`.
"""

from pathlib import Path

import pytest

from chaos.support.cluster import started
from chaos.support.secured import CANARY, SecuredCluster
from chaos.support.workload import Workload
from compat.support.quick import SOAK, lasting
from compat.support.secured_zookeeper import CANARY as ZOOKEEPER_CANARY


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_leaders_die_where_everything_has_tls_and_logins(tmp_path: Path, topic: str) -> None:
    with started(SecuredCluster(tmp_path / "cluster")) as cluster:
        cluster.add_alice()
        with Workload(cluster, topic, group=SOAK) as workload:
            for _ in range(lasting(1, 20)):
                leader = cluster.leader(topic)
                cluster.kill(leader)
                cluster.await_leader_other_than(leader, topic)
                workload.await_progress()
                if SOAK:
                    cluster.kill_server(0)
                    workload.await_progress()  # leaders go on without ZooKeeper
                    cluster.start_servers()
                cluster.start(leader)
                cluster.await_in_sync(topic)
            workload.finish()
        for member in cluster.members.values():
            assert CANARY not in member.log
            assert ZOOKEEPER_CANARY not in member.log
            assert "event=peer-login-failed" not in member.log
