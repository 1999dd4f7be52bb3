"""`headwater up --brokers 3 --secure`: librdkafka produces over SASL_SSL to all three, and who has no login is refused
by each. The cluster and its first user are made by the ten commands of docs/SECURITY.md.
"""

import contextlib
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from compat.support.local_cluster import PATIENCE_S, LocalCluster, until
from headwater.base.config.properties import parse_properties
from headwater.server.zookeeper.browser import Browser
from headwater.server.zookeeper.security import SaslLogin, ZooKeeperSecurity

pytestmark = pytest.mark.timeout(400)
METADATA_ANSWERED = b"7777"  # the correlation id, with which an answer begins
METADATA_REQUEST = struct.pack(">ihh4shi", 14, 3, 0, METADATA_ANSWERED, -1, 0)


def _ten_commands() -> list[str]:
    page = (Path(__file__).parents[2] / "docs" / "SECURITY.md").read_text()
    shown = page.partition("## A secured cluster in ten commands")[2].partition("\n## ")[0].splitlines()
    return [line.removeprefix("$ ") for line in shown if line.startswith("$ ")]


def _typed(cluster: LocalCluster, command: str) -> str:
    """A command of the page, by a shell, on free ports and in a directory of the test's own; what it says."""
    here = command.replace("localhost:9092", f"localhost:{cluster.port}")
    here = here.replace("~/.local/share/headwater", str(cluster.data_dir))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        ["bash", "-ec", here],
        env=cluster.environment | {"PATH": path},
        cwd=cluster.data_dir.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ran.returncode == 0, (command, ran.stdout, ran.stderr)
    return ran.stdout


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("cluster"))
    said = _typed(cluster, f"{_ten_commands()[0]} --port {cluster.port}")
    try:
        assert "Headwater is up: 3 brokers" in said
        assert str(cluster.data_dir / "secure" / "librdkafka.properties") in said
        yield cluster
    finally:
        cluster.headwater("down", "--force", "--timeout", str(PATIENCE_S - 10))


def _settings(cluster: LocalCluster, **more: str) -> dict[str, str]:
    made = parse_properties((cluster.data_dir / "secure" / "librdkafka.properties").read_text())
    return {**made, "bootstrap.servers": cluster.bootstrap, **{name.replace("_", "."): v for name, v in more.items()}}


def _refusal(settings: dict[str, str]) -> list[str]:
    """What librdkafka says when it cannot talk to a broker."""
    problems: list[str] = []
    admin = AdminClient({**settings, "error_cb": lambda error: problems.append(error.name()), "log_level": 0})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=0.5)
    until(lambda: (admin.poll(0.1), problems)[1], "librdkafka tells why")
    return problems


def _told_until_closed(connection: socket.socket) -> bytes:
    """What a broker says to a request for metadata before it closes the connection."""
    told = b""
    with contextlib.suppress(ConnectionError):  # it may close before all is sent or read
        connection.sendall(METADATA_REQUEST)
        while chunk := connection.recv(65536):
            told += chunk
    return told


def test_from_nothing_to_a_secured_cluster_in_ten_commands(cluster: LocalCluster) -> None:
    _, *others = commands = _ten_commands()
    assert len(commands) == 10
    *_, consumed, _ = [_typed(cluster, command) for command in others]
    assert consumed == "hello\n"
    password = (cluster.data_dir.parent / "alice.password").read_text().strip()
    alice = {"sasl_username": "alice", "sasl_password": password}
    assert set(AdminClient(_settings(cluster, **alice)).list_topics(timeout=PATIENCE_S).topics) == {"payments"}
    denied = cluster.headwater("topic", "create", "another", "--profile", "alice", code=None)
    assert denied.returncode == 1
    assert "AUTHORIZATION_FAILED" in denied.stdout + denied.stderr
    assert "_AUTHENTICATION" in _refusal(_settings(cluster, sasl_username="alice", sasl_password="wrong"))
    cluster.headwater("topic", "create", "another")  # commands without her name are the administrator's still


def test_librdkafka_produces_to_all_three_and_replicas_are_in_sync(cluster: LocalCluster) -> None:
    admin = AdminClient(_settings(cluster))
    new = NewTopic("orders", 3, replication_factor=3, config={"min.insync.replicas": "3"})
    for future in admin.create_topics([new]).values():
        future.result(PATIENCE_S)
    until(
        lambda: (
            {each.leader for each in admin.list_topics("orders", PATIENCE_S).topics["orders"].partitions.values()}
            == {1, 2, 3}
        ),
        "each broker leads a partition",
    )
    delivered: list[tuple[object, int]] = []
    producer = Producer(_settings(cluster, acks="all"))
    for partition in range(3):
        producer.produce(
            "orders",
            b"of %d" % partition,
            partition=partition,
            on_delivery=lambda error, message: delivered.append((error, message.partition())),
        )
    assert producer.flush(PATIENCE_S) == 0
    assert sorted(delivered, key=lambda each: each[1]) == [(None, 0), (None, 1), (None, 2)]  # by three replicas each
    consumed = cluster.headwater("consume", "orders", "-e").stdout  # by the login that it finds by itself
    assert sorted(consumed.splitlines()) == ["of 0", "of 1", "of 2"]


def test_who_has_no_login_is_refused_by_each(cluster: LocalCluster) -> None:
    trusting = ssl.create_default_context(cafile=str(cluster.data_dir / "secure" / "ca.pem"))
    for at in range(cluster.count):
        address = ("localhost", cluster.port + at)
        with socket.create_connection(address, PATIENCE_S) as plain:
            assert METADATA_ANSWERED not in _told_until_closed(plain)
        with (
            socket.create_connection(address, PATIENCE_S) as plain,
            trusting.wrap_socket(plain, server_hostname="localhost") as without_a_login,
        ):
            assert METADATA_ANSWERED not in _told_until_closed(without_a_login)
        wrong = _settings(cluster, bootstrap_servers=f"localhost:{address[1]}", sasl_password="wrong")
        assert "_AUTHENTICATION" in _refusal(wrong)


def test_each_broker_has_a_certificate_of_its_own_by_one_authority(cluster: LocalCluster) -> None:
    trusting = ssl.create_default_context(cafile=str(cluster.data_dir / "secure" / "ca.pem"))
    serials = set()
    for at in range(cluster.count):
        with (
            socket.create_connection(("localhost", cluster.port + at), PATIENCE_S) as plain,
            trusting.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            shown = secured.getpeercert()
            assert shown is not None
            serials.add(shown["serialNumber"])
    assert len(serials) == cluster.count


def test_no_password_is_in_logs_or_arguments_and_doctor_finds_nothing_open(cluster: LocalCluster) -> None:
    password = (cluster.data_dir / "secure" / "admin.password").read_text().strip()
    told = [file.read_text() for file in (cluster.data_dir / "logs").glob("*.log")]
    assert len(told) >= 4
    at_zookeeper = (cluster.data_dir / "secure" / "zookeeper.password").read_text().strip()
    told += [Path(f"/proc/{pid}/cmdline").read_text() for pid in cluster.pids()]
    assert not any(password in text or at_zookeeper in text for text in told)
    assert "peer-login-failed" not in "".join(told)
    findings = json.loads(cluster.headwater("doctor", "-o", "json").stdout)
    levels = {row["check"]: row["level"] for row in findings if row["check"].startswith(("broker", "secrets"))}
    assert levels == {"broker 1": "ok", "broker 2": "ok", "broker 3": "ok", "secrets": "ok"}


def test_zookeeper_serves_the_brokers_and_who_has_their_login(cluster: LocalCluster) -> None:
    (config,) = (cluster.data_dir / "zookeeper").glob("zoo.cfg")
    port = int(parse_properties(config.read_text())["clientPort"])
    stranger = KazooClient(f"127.0.0.1:{port}")
    stranger.start(PATIENCE_S)
    try:
        with pytest.raises(KazooException):
            stranger.get_children("/brokers/ids")
    finally:
        stranger.stop()
        stranger.close()
    password = (cluster.data_dir / "secure" / "zookeeper.password").read_text().strip()
    login = ZooKeeperSecurity(login=SaslLogin("broker", password))
    with Browser(f"127.0.0.1:{port}", login) as known:
        assert known.children("/brokers/ids") == ["1", "2", "3"]
