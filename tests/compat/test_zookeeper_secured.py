"""The broker and a ZooKeeper that asks who it is: logins by DIGEST-MD5, TLS, nodes that belong to their maker; and what
is said when the one does not take the other.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from compat.support.certificates import Authority
from compat.support.local_cluster import until
from compat.support.secured_zookeeper import (
    CANARY,
    KAFKA,
    OTHER,
    SecuredZooKeeper,
    jaas_module,
    start_secured,
)
from compat.support.server_process import end_servers, started_server
from compat.support.zookeeper import CHECKS, CONNECTED, Caller, Stage
from compat.test_zookeeper_contract import SESSION_MS, RealStage
from headwater.base.config.broker import BrokerConfig
from headwater.base.coordination import Create, NotAuthenticated, NotAuthorized, SetData
from headwater.base.errors import UserError
from headwater.cli.zookeeper.security_migration import script as migration
from headwater.cli.zookeeper.shell import script as shell
from headwater.client import Admin
from headwater.client.admin.scram import ScramMechanism, ScramUpsertion
from headwater.client.outcomes import all_or_raise
from headwater.client.types import ConfigResource, NewTopic, ResourceType
from headwater.server.node import Node
from headwater.server.zookeeper.browser import Browser
from headwater.server.zookeeper.client import KazooCoordination
from headwater.server.zookeeper.process import free_ports, start
from headwater.server.zookeeper.security import OPEN, SaslLogin, ZooKeeperSecurity, security_of

pytestmark = pytest.mark.timeout(400)

LOGIN = "headwater.zookeeper.sasl.jaas.config"
ABOUT_CONNECTIONS = ("watch", "session", "connection", "close")


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredZooKeeper]:
    server = start_secured(tmp_path_factory.mktemp("secured"))
    yield server
    server.process.stop()


class SecuredStage(RealStage):
    """With TLS and a login, and nodes that belong to it."""

    def __init__(self, zookeeper: SecuredZooKeeper, security: ZooKeeperSecurity | None = None) -> None:
        super().__init__(zookeeper.secure_address)
        self.connect = self.connect.replace("/stages/", "/stage-")  # a common parent would belong to one of them
        self._plain = zookeeper.address
        settings = {**zookeeper.tls(), LOGIN: jaas_module(KAFKA), "zookeeper.set.acl": "true"}
        self.security = security or security_of(BrokerConfig(settings), {})

    def client(self) -> Caller:
        coordination = KazooCoordination(self.connect, SESSION_MS, self.loop.post, self.security)
        self.clients.append(Caller(coordination, self.until))
        return self.clients[-1].connected()

    def expire(self, client: Caller) -> None:
        """By its plain port."""
        secured, self.connect = self.connect, f"{self._plain}/{self.connect.partition('/')[2]}"
        super().expire(client)
        self.connect = secured


@pytest.fixture
def stage(zookeeper: SecuredZooKeeper) -> Iterator[SecuredStage]:
    stage = SecuredStage(zookeeper)
    yield stage
    stage.close()


@pytest.mark.parametrize(
    "check",
    [check for check in CHECKS if any(word in check.__name__ for word in ABOUT_CONNECTIONS)],
    ids=lambda check: check.__name__.removeprefix("check_"),
)
def test_sessions_and_watches_behind_tls_and_a_login(check: Callable[[Stage], None], stage: SecuredStage) -> None:
    check(stage)


def test_many_and_large_answers_over_tls(stage: SecuredStage) -> None:
    """OpenSSL has read several answers off the socket when kazoo takes the first of them."""
    client = stage.client()
    client.write(Create("/a"))
    answers: list[object] = []
    for number in range(200):
        client.coordination.write([Create(f"/a/{number}", bytes(20_000))], lambda *answer: answers.append(answer))
        client.coordination.get(f"/a/{number}", lambda *answer: answers.append(answer))
    stage.until(lambda: len(answers) == 400)
    assert len(client.children("/a") or ()) == 200


def test_after_its_session_has_ended_a_client_is_who_it_was(stage: SecuredStage) -> None:
    client = stage.client()
    client.write(Create("/config"), Create("/config/users", b"secret"))
    stage.expire(client)
    stage.until(lambda: client.states[-1] is CONNECTED and len(client.states) > 1)
    node = client.get("/config/users")
    assert node is not None
    assert node.data == b"secret"


def test_nodes_belong_to_their_maker(zookeeper: SecuredZooKeeper, stage: SecuredStage) -> None:
    client = stage.client()
    client.write(Create("/config"), Create("/config/topics"), Create("/config/users"))
    strangers: list[Caller] = []
    try:
        for login in (None, OTHER):
            coordination = KazooCoordination(
                stage.connect.replace(zookeeper.secure_address, zookeeper.address),
                SESSION_MS,
                stage.loop.post,
                ZooKeeperSecurity(login),
            )
            stranger = Caller(coordination, stage.until).connected()
            strangers.append(stranger)
            assert stranger.get("/config/topics") is not None
            with pytest.raises(NotAuthorized, match="/config/users"):
                stranger.get("/config/users")
            for write in (SetData("/config/topics", b"x"), Create("/config/mine")):
                refusal = stranger.refused(write)
                assert (type(refusal), refusal.path) == (NotAuthorized, write.path)
    finally:
        for stranger in strangers:
            stranger.coordination.close()


def test_a_certificate_is_a_login(zookeeper: SecuredZooKeeper) -> None:
    security = security_of(BrokerConfig({**zookeeper.tls("broker"), "zookeeper.set.acl": "true"}), {})
    stage = SecuredStage(zookeeper, security)
    try:
        stage.client().write(Create("/a"))
        with KazooOf(zookeeper.address) as kazoo:
            acls = kazoo.get_acls(f"/{stage.connect.partition('/')[2]}/a")[0]
        assert [(acl.perms, *acl.id) for acl in acls] == [
            (31, "x509", "CN=broker,O=Example"),
            (1, "world", "anyone"),
        ]
    finally:
        stage.close()


def test_without_a_login_no_node_can_be_ones_own(zookeeper: SecuredZooKeeper) -> None:
    stage = SecuredStage(zookeeper, OPEN._replace(set_acl=True))
    stage.connect = zookeeper.address
    try:
        refusal = stage.client().refused(Create("/nobodys"))
        assert type(refusal) is NotAuthenticated
    finally:
        stage.close()


class KazooOf:
    def __init__(self, address: str) -> None:
        self._kazoo = KazooClient(address)

    def __enter__(self) -> Any:
        self._kazoo.start(timeout=60)
        return self._kazoo

    def __exit__(self, *_exception: object) -> None:
        self._kazoo.stop()
        self._kazoo.close()


# What is said when it cannot be


def refusal_at_start(tmp_path: Path, **settings: str) -> UserError:
    properties = {name.replace("_", "."): value for name, value in settings.items()}
    node = Node(
        BrokerConfig({"log.dirs": str(tmp_path / "data"), "listeners": "PLAINTEXT://127.0.0.1:0", **properties})
    )
    with pytest.raises(UserError) as refusal:
        node.start()
    assert CANARY not in str(refusal.value)
    return refusal.value


def test_a_wrong_password_ends_the_start(zookeeper: SecuredZooKeeper, tmp_path: Path) -> None:
    wrong = jaas_module(SaslLogin("kafka", f"{CANARY}-wrong"))
    refusal = refusal_at_start(tmp_path, zookeeper_connect=zookeeper.address, **{LOGIN: wrong})
    assert refusal.what == f"ZooKeeper at {zookeeper.address} does not take the broker's login"
    assert refusal.why == "the server refuses the user 'kafka' or its password"


def test_a_server_without_sasl_ends_the_start(tmp_path: Path) -> None:
    server = start(tmp_path / "zookeeper", free_ports(1)[0])
    try:
        refusal = refusal_at_start(tmp_path, zookeeper_connect=server.address, **{LOGIN: jaas_module(KAFKA)})
        assert "the server does not know SASL" in refusal.why
    finally:
        server.stop()


def test_nodes_of_somebody_else_end_the_start(zookeeper: SecuredZooKeeper, tmp_path: Path) -> None:
    from headwater.server.zookeeper.kazoo_client import acls_of

    with Browser(zookeeper.address, ZooKeeperSecurity(OTHER)) as browser:
        browser.create("/others", b"", acls=acls_of("/others", is_secured=True))
    connect = f"{zookeeper.address}/others"
    refusal = refusal_at_start(tmp_path, zookeeper_connect=connect, **{LOGIN: jaas_module(KAFKA)})
    assert refusal.what == "The ACLs in ZooKeeper do not let this broker use /cluster"
    refusal = refusal_at_start(tmp_path, zookeeper_connect=connect)
    assert refusal.why == "the broker has no login there"


def test_an_unknown_authority_is_named_when_the_start_gives_up(zookeeper: SecuredZooKeeper, tmp_path: Path) -> None:
    (tmp_path / "ca").mkdir()
    settings = {**zookeeper.tls(), "zookeeper.ssl.truststore.location": Authority(tmp_path / "ca").path}
    settings |= {"zookeeper.connect": zookeeper.secure_address, "zookeeper.connection.timeout.ms": "10000"}
    refusal = refusal_at_start(tmp_path, **settings)
    assert "ZooKeeper does not answer" in refusal.what
    assert "no TLS with 127.0.0.1: " in refusal.why
    assert "certificate" in refusal.why


# The commands


def typed(main: Callable[..., int], *words: str) -> int:
    return main(list(words))


def test_a_cluster_that_is_there_is_secured_and_opened_again(
    zookeeper: SecuredZooKeeper, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = ("/migrated", "/migrated/brokers", "/migrated/brokers/ids", "/migrated/config", "/migrated/config/users")
    with Browser(zookeeper.address, ZooKeeperSecurity(KAFKA)) as browser:
        for path in paths:
            browser.create(path, b"x")
        connect = f"--zookeeper.connect={zookeeper.address}/migrated"
        monkeypatch.setenv("KAFKA_OPTS", zookeeper.options(KAFKA))
        assert typed(migration, "--zookeeper.acl=secure", connect, "--enable.path.check") == 1
        assert "do not exist in ZooKeeper: /admin,/cluster," in capsys.readouterr().out
        assert [acl.id.scheme for acl in browser.acls("/migrated/brokers")] == ["world"]
        assert typed(migration, "--zookeeper.acl", "secure", connect) == 0
        assert "nodes belong to this login now" in capsys.readouterr().err
        owner, world = (31, "sasl", "kafka"), (1, "world", "anyone")
        for path in paths:
            wanted = [owner] if path.endswith("users") else [owner, world]
            assert [(acl.perms, *acl.id) for acl in browser.acls(path)] == wanted, path
        assert [acl.id.id for acl in browser.acls("/migrated/kafka-acl-changes")] == ["kafka", "anyone"]
        assert not browser.exists("/migrated/controller_epoch")

        monkeypatch.setenv("KAFKA_OPTS", zookeeper.options(OTHER))
        assert typed(migration, "--zookeeper.acl", "unsecure", connect) == 1
        assert "Insufficient permission : /" in capsys.readouterr().err
        monkeypatch.setenv("KAFKA_OPTS", zookeeper.options(KAFKA))
        assert typed(migration, "--zookeeper.acl", "unsecure", connect) == 0
        for path in paths:
            assert [(acl.perms, *acl.id) for acl in browser.acls(path)] == [(31, "world", "anyone")], path


def test_commands_over_tls(
    zookeeper: SecuredZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("KAFKA_OPTS", raising=False)
    file = tmp_path / "tls.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in zookeeper.tls("admin").items()))
    with KazooOf(zookeeper.address) as kazoo:
        kazoo.create("/by-tls", b"")
    connect = f"{zookeeper.secure_address}/by-tls"
    words = ("--zookeeper.acl=secure", f"--zookeeper.connect={connect}", "--zk-tls-config-file", str(file))
    assert typed(migration, *words) == 0
    capsys.readouterr()
    assert typed(shell, connect, "-zk-tls-config-file", str(file), "getAcl", "/config/users") == 1  # nobody made it
    assert "Node does not exist: /config/users" in capsys.readouterr().err
    assert typed(shell, connect, "-zk-tls-config-file", str(file), "getAcl", "/config") == 0
    assert capsys.readouterr().out == "'x509,'CN=admin,O=Example\n: cdrwa\n'world,'anyone\n: r\n"
    assert typed(shell, connect, "-zk-tls-config-file", str(file), "setAcl", "/config", "world:anyone:cdrwa") == 0
    assert typed(shell, connect, "-zk-tls-config-file", str(file), "setAcl", "/config", "nobody") == 1
    assert "nobody is no ACL" in capsys.readouterr().err
    assert typed(shell, f"{zookeeper.address}/by-tls", "getAcl", "/config") == 0
    assert capsys.readouterr().out == "'world,'anyone\n: cdrwa\n"


def test_a_command_with_a_wrong_password_says_so(
    zookeeper: SecuredZooKeeper, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", zookeeper.options(SaslLogin("kafka", f"{CANARY}-wrong")))
    assert typed(shell, zookeeper.address, "ls", "/") == 1
    said = capsys.readouterr().err
    assert "does not take the login" in said
    assert CANARY not in said


# A cluster


def change_as_kafkas_tools_do(tool: Browser) -> None:
    """First the nodes, then announcements of them. The last one is about a user, who loses his credentials."""
    tool.set("/config/topics/orders", b'{"version":1,"config":{"retention.ms":"1234567"}}', -1)
    tool.set("/config/users/alice", b'{"version":1,"config":{}}', -1)
    for entity in ("topics/orders", "users/alice"):
        data = f'{{"version":2,"entity_path":"{entity}"}}'.encode()
        tool.create("/config/changes/config_change_", data, sequential=True)


def test_a_cluster_whose_nodes_are_its_own(zookeeper: SecuredZooKeeper, tmp_path: Path) -> None:
    """By Kafka's habits: the login in a JAAS file of KAFKA_OPTS, TLS in the broker's file."""
    connect = f"{zookeeper.secure_address}/own"
    settings = {
        "log.dirs": str(tmp_path / "data"),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "zookeeper.connect": connect,
        "zookeeper.set.acl": "true",
        **zookeeper.tls(),
    }
    log = tmp_path / "broker.log"
    broker, listeners = started_server(settings, log, {"KAFKA_OPTS": zookeeper.options(KAFKA)})
    address = listeners["PLAINTEXT"]
    try:
        with Admin({"bootstrap.servers": address}) as admin:
            admin.create_topics([NewTopic("orders", 1, 1)])
            admin.alter_user_scram_credentials([ScramUpsertion("alice", b"wonder", ScramMechanism.SHA_256)])
        with Browser(f"{zookeeper.address}/own", ZooKeeperSecurity(KAFKA)) as tool:
            change_as_kafkas_tools_do(tool)
        with Admin({"bootstrap.servers": address}) as admin:
            until(lambda: "alice" not in admin.describe_user_scram_credentials(), "the broker has heard of it")
            resource = ConfigResource(ResourceType.TOPIC, "orders")
            (entry,) = all_or_raise(admin.describe_configs([resource], keys=["retention.ms"]))[resource]
            assert entry.value == "1234567"
        with KazooOf(f"{zookeeper.address}/own") as kazoo:
            owner, world = (31, "sasl", "kafka"), (1, "world", "anyone")
            for path in (
                "/brokers/ids/0",
                "/brokers/topics/orders/partitions/0/state",
                "/kafka-acl",
                "/controller",
            ):
                assert [(acl.perms, *acl.id) for acl in kazoo.get_acls(path)[0]] == [owner, world], path
        with Browser(f"{zookeeper.address}/own", ZooKeeperSecurity(OTHER)) as stranger:
            for path in ("/config/users", "/config/brokers", "/headwater/changes"):
                with pytest.raises(UserError, match="Insufficient permission"):
                    stranger.children(path)
    finally:
        end_servers([broker])
    assert broker.returncode == 0
    assert CANARY not in log.read_text()
