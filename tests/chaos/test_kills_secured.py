"""Brokers that speak TLS and log in at each other are killed while clients write and read: as in `test_kills.py`."""

from pathlib import Path

import pytest

from chaos.support.cluster import running
from chaos.support.workload import Workload
from compat.support.certificates import Authority
from compat.support.quick import lasting

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PASSWORD = "canary-2203"


@pytest.mark.soak
@pytest.mark.timeout(lasting(600, 3600))
def test_leaders_die_where_brokers_have_tls_and_logins(tmp_path: Path, topic: str) -> None:
    authority = Authority(tmp_path)
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BETWEEN:SASL_SSL",
        "ssl.keystore.location": authority.pem("broker"),
        "ssl.truststore.location": authority.path,
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} username="broker" password="{PASSWORD}";',
        "connections.max.reauth.ms": "2000",
    }
    with running(tmp_path / "cluster", **settings) as cluster, Workload(cluster, topic) as workload:
        workload.await_progress()
        for _ in range(lasting(1, 20)):
            leader = cluster.leader(topic)
            cluster.kill(leader)
            cluster.await_leader_other_than(leader, topic)
            workload.await_progress()
            cluster.start(leader)
            cluster.await_in_sync(topic)
        workload.finish()
        for member in cluster.members.values():
            assert PASSWORD not in member.log
            assert "event=peer-login-failed" not in member.log
