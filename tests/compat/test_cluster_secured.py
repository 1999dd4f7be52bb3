"""Three brokers that speak TLS and log in at each other, each by another mechanism and with sessions that end: replicas
are in sync, users are known to all, and what one of them may change counts once, whichever broker is asked.
"""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.protocol.admin import CreateTopicsRequest

from compat.support.certificates import Authority, Issuer
from compat.support.local_cluster import until
from compat.support.server_process import end_servers, started_server
from headwater.base.errors import ErrorCode
from headwater.client import Admin, Producer
from headwater.client.admin import quota_entity
from headwater.client.admin.scram import ScramMechanism, ScramUpsertion
from headwater.client.outcomes import all_or_raise
from headwater.client.types import NewTopic
from headwater.server.zookeeper.process import free_ports, start

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(400)]

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
MECHANISMS = ("SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")  # one of each broker
PASSWORD = "canary-7319"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[tuple[list[str], Authority, list[Path]]]":
    directory = tmp_path_factory.mktemp("cluster")
    authority, issuer = Authority(directory), Issuer()
    (directory / "jwks.json").write_bytes(issuer.jwks())
    (directory / "token").write_text(issuer.token(sub="broker", aud="headwater", exp=time.time() + 3600))
    zookeeper = start(directory / "zookeeper", free_ports(1)[0])
    processes: list[subprocess.Popen[str]] = []
    logs = [directory / f"broker-{number}.log" for number in (1, 2, 3)]
    addresses: list[str] = []
    try:
        for number, log in enumerate(logs, 1):
            properties = {
                "node.id": str(number),
                "log.dirs": str(directory / f"data-{number}"),
                "zookeeper.connect": zookeeper.address,
                "zookeeper.session.timeout.ms": "60000",  # another controller would have a bucket that is full
                "listeners": "SASL_SSL://127.0.0.1:0",
                "security.inter.broker.protocol": "SASL_SSL",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "sasl.mechanism.inter.broker.protocol": MECHANISMS[number - 1],
                "sasl.jaas.config": f'{SCRAM} username="broker" password="{PASSWORD}";',
                "listener.name.sasl_ssl.plain.sasl.jaas.config": (
                    f'{PLAIN} username="broker" password="{PASSWORD}" user_broker="{PASSWORD}";'
                ),
                "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": f"{OAUTH};",
                "sasl.oauthbearer.jwks.endpoint.url": f"file://{directory / 'jwks.json'}",
                "sasl.oauthbearer.expected.audience": "headwater",
                "sasl.oauthbearer.token.endpoint.url": f"file://{directory / 'token'}",
                "connections.max.reauth.ms": "20000",
                "controller.quota.window.num": "1000",  # five partitions at once, then one in 200 seconds
                "ssl.keystore.location": authority.pem(f"broker{number}"),
                "ssl.truststore.location": authority.path,
            }
            process, listeners = started_server(properties, log)
            processes.append(process)
            addresses.append(listeners["SASL_SSL"])
        yield addresses, authority, logs
    finally:
        end_servers(processes)
        zookeeper.stop()


def _as_broker(authority: Authority) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.location": authority.path,
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "broker",
        "sasl.password": PASSWORD,
    }


def _until_known(addresses: list[str], settings: dict[str, str], users: set[str]) -> None:
    """The controller answers when it knows of them; the others hear of it from ZooKeeper."""
    for address in addresses:
        with Admin({**settings, "bootstrap.servers": address}) as admin:
            until(lambda: users <= set(admin.describe_user_scram_credentials()), "the broker has heard of it")


def test_replicas_are_in_sync_and_users_are_known_everywhere(
    brokers: "tuple[list[str], Authority, list[Path]]",
) -> None:
    addresses, authority, logs = brokers
    settings = _as_broker(authority)
    with Admin({**settings, "bootstrap.servers": addresses[0]}) as admin:
        until(lambda: len(admin.describe_cluster().brokers) == 3, "the first broker knows of all")
        all_or_raise(admin.create_topics([NewTopic("orders", 3, 3, configs={"min.insync.replicas": "3"})]))
        wanted = [ScramUpsertion("alice", b"wonder", ScramMechanism.SHA_256)]
        assert admin.alter_user_scram_credentials(wanted) == {"alice": None}
    with Producer({**settings, "bootstrap.servers": addresses[0], "acks": "all"}) as producer:
        for number in range(30):
            producer.send("orders", b"x" * 10_000).result(60)
            if number % 10 == 9:
                producer.flush()
    _until_known(addresses, settings, {"alice"})
    for address in addresses:
        login = {**settings, "sasl.username": "alice", "sasl.password": "wonder", "bootstrap.servers": address}
        with Admin(login) as admin:
            assert "orders" in {topic.name for topic in admin.list_topics()}
    for log in logs:
        text = log.read_text()
        assert PASSWORD not in text
        assert "peer-login-failed" not in text
    kept = b"".join(path.read_bytes() for path in (logs[0].parent / "zookeeper").rglob("*") if path.is_file())
    assert b"SCRAM-SHA-256" in kept, "ZooKeeper was not looked at"
    assert b"wonder" not in kept
    assert PASSWORD.encode() not in kept


def test_changes_count_once_whichever_broker_is_asked(
    brokers: "tuple[list[str], Authority, list[Path]]",
) -> None:
    addresses, authority, _logs = brokers
    settings = _as_broker(authority)
    with Admin({**settings, "bootstrap.servers": addresses[0]}) as admin:
        wanted = [ScramUpsertion(name, b"wonder", ScramMechanism.SHA_256) for name in ("bob", "carol")]
        assert admin.alter_user_scram_credentials(wanted) == {"bob": None, "carol": None}
        all_or_raise(admin.alter_client_quotas({quota_entity(user="bob"): {"controller_mutation_rate": 0.005}}))

    _until_known(addresses, settings, {"bob", "carol"})

    def admin_of(user: str) -> KafkaAdminClient:
        return KafkaAdminClient(
            bootstrap_servers=addresses,
            security_protocol="SASL_SSL",
            ssl_cafile=authority.path,
            sasl_mechanism="SCRAM-SHA-256",
            sasl_plain_username=user,
            sasl_plain_password="wonder",
        )

    def create(client: KafkaAdminClient, broker_id: int, name: str) -> tuple[int, bool]:
        """The error, and whether the client is told to wait."""
        topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=3, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000, validate_only=False)
        answer = client._manager.run(client._manager.send, request, broker_id)  # not only to the controller
        return answer.topics[0].error_code, answer.throttle_time_ms > 100_000

    greedy, modest = admin_of("bob"), admin_of("carol")
    try:
        exceeded = int(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        assert [create(greedy, broker_id, f"bob-{broker_id}") for broker_id in (1, 2, 3)] == [
            (0, False),
            (0, False),  # the sixth partition: the bucket held five
            (exceeded, True),
        ]
        assert [create(modest, broker_id, f"carol-{broker_id}") for broker_id in (1, 2, 3)] == [(0, False)] * 3
    finally:
        greedy.close()
        modest.close()
