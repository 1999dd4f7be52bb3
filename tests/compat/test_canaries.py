"""No secret comes out: every secret setting has a value of its own, everything is run at DEBUG, right and wrong, and
all that is said, answered, logged and measured is searched for them (compat/support/canaries.py).
"""

import io
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from compat.support.canaries import Canaries, Server, private, talkative
from compat.support.certificates import PEM, Authority, Issuer
from compat.support.local_cluster import until
from compat.support.secured import Caller, bearer
from headwater.base.errors import KafkaError, UserError
from headwater.cli.kafka import configs
from headwater.cli.root import run
from headwater.client import Admin, Producer
from headwater.client.admin.scram import ScramMechanism, ScramUpsertion
from headwater.client.types import ConfigResource, NewTopic, ResourceType
from headwater.web.presented import basic_header

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
BROKER = ConfigResource(ResourceType.BROKER, "0")
ALL_BROKERS = ConfigResource(ResourceType.BROKER, "")


class World(NamedTuple):
    canaries: Canaries
    directory: Path
    authority: str
    certificate: str
    broker: Server
    issuer: Issuer
    token: str

    @property
    def bootstrap(self) -> str:
        return self.broker.said("listeners").split(",")[0].removeprefix("SASL_SSL://")

    def client(self, user: str = "admin", prefix: str = "") -> dict[str, str]:
        jaas = f'{SCRAM} username="{user}" password="{self.canaries.planted[f"password of {user}"]}";'
        given = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": self.authority,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": jaas,
        }
        return {prefix + name: value for name, value in given.items()}

    def admin(self, user: str = "admin") -> Admin:
        return Admin({"bootstrap.servers": self.bootstrap, **self.client(user)})

    def basic(self, user: str = "admin") -> dict[str, str]:
        return {"Authorization": basic_header(f"{user}:{self.canaries.planted[f'password of {user}']}")}

    def nothing_in(self, where: str, text: str | bytes) -> None:
        assert len(text) > 0, f"{where} says nothing at all: nothing was looked at"
        assert self.canaries.seen(text) == [], f"in {where}: {text!r}"


def broker_settings(directory: Path, canaries: Canaries, authority: Authority, issuer: Issuer) -> dict[str, str]:
    """Every secret that a broker's properties can have."""
    key, certificate = authority.issue("broker")
    password = canaries.plant("ssl.key.password")
    encrypted = key.private_bytes(
        PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(password.encode())
    )
    opened = key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    canaries.plant_key("the opened ssl.keystore.key", opened.decode())
    store_password = canaries.plant("ssl.keystore.password")
    store = pkcs12.serialize_key_and_certificates(
        b"second", *authority.issue("second"), None, serialization.BestAvailableEncryption(store_password.encode())
    )
    (directory / "second.p12").write_bytes(store)
    (directory / "jwks.json").write_bytes(issuer.jwks())
    return {
        "log.dirs": str(directory / "data"),
        "listeners": "SASL_SSL://127.0.0.1:0,SECOND://127.0.0.1:0",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,SECOND:SSL",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "ssl.keystore.key": canaries.plant_key("ssl.keystore.key", encrypted.decode()),
        "ssl.keystore.certificate.chain": certificate.public_bytes(PEM).decode(),
        "ssl.key.password": password,
        "ssl.truststore.location": authority.path,
        "listener.name.second.ssl.keystore.key": "",
        "listener.name.second.ssl.keystore.certificate.chain": "",
        "listener.name.second.ssl.key.password": "",
        "listener.name.second.ssl.keystore.location": str(directory / "second.p12"),
        "listener.name.second.ssl.keystore.password": store_password,
        "listener.name.second.ssl.truststore.password": canaries.plant("ssl.truststore.password"),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.jaas.config": f'{SCRAM} username="admin" password="{canaries.plant("password of admin")}";',
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN} user_plain="{canaries.plant("password of plain")}";',
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{directory / 'jwks.json'}",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "headwater.schema.registry.url": f"http://broker:{canaries.plant('headwater.schema.registry.url')}@127.0.0.1:1",
        "confluent.schema.registry.url": f"http://broker:{canaries.plant('confluent.schema.registry.url')}@127.0.0.1:1",
        "confluent.basic.auth.user.info": f"broker:{canaries.plant('confluent.basic.auth.user.info')}",
        "password.encoder.secret": canaries.plant("password.encoder.secret"),
        "sasl.login.refresh.secret": canaries.plant("a property that nobody knows"),
        "headwater.audit.topic": "audit",  # its records are among the files
        "headwater.schema.registry.timeout.ms": "200",
        "metrics.port": "0",
        "connection.failed.authentication.delay.ms": "0",
    }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory, canaries = tmp_path_factory.mktemp("canaries"), Canaries()
    authority, issuer = Authority(directory), Issuer()
    settings = broker_settings(directory, canaries, authority, issuer)
    path = private(directory / "server.properties", settings)
    token = canaries.plant("a token", issuer.token(sub="alice", exp=time.time() + 3600))
    canaries.plant("password of alice")
    with talkative(directory, "broker", "broker", "start", "--config", str(path)) as broker:
        made = World(canaries, directory, authority.path, authority.pem("door"), broker, issuer, token)
        yield made
    made.nothing_in("the broker's log", broker.log.read_bytes())


def told(call: Callable[[], object]) -> str:
    """What an error says, with all that stands behind it."""
    try:
        return repr(call())
    except (KafkaError, UserError) as problem:
        causes, each = [], problem
        while each is not None:
            causes += [repr(each), str(each)]
            each = each.__cause__ or each.__context__  # type: ignore[assignment]
        return "\n".join(causes)


def test_logins_right_and_wrong(world: World) -> None:
    with world.admin() as admin:
        upsertions = [
            ScramUpsertion("alice", world.canaries.planted["password of alice"].encode(), each)
            for each in ScramMechanism
        ]
        world.nothing_in("the repr of a new password", repr(upsertions))
        assert admin.alter_user_scram_credentials(upsertions) == {"alice": None}
        world.nothing_in("the users", repr(admin.describe_user_scram_credentials()))
    with world.admin("alice") as admin:
        assert admin.describe_cluster().brokers
    wrong = world.canaries.plant("a wrong password")
    shared = {"bootstrap.servers": world.bootstrap, "security.protocol": "SASL_SSL", "ssl.ca.location": world.authority}
    for mechanism, user, password in (
        ("PLAIN", "plain", world.canaries.planted["password of plain"]),
        ("PLAIN", "plain", wrong),
        ("PLAIN", wrong, wrong + "x"),
        ("SCRAM-SHA-256", "alice", wrong),
        ("SCRAM-SHA-512", "nobody", wrong),
    ):
        settings = {**shared, "sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
        heard: list[str] = []
        client = AdminClient({**settings, "error_cb": lambda error, heard=heard: heard.append(error.str())})
        if password == wrong or user == wrong:
            until(lambda client=client, heard=heard: client.poll(1) or any("uthentication" in e for e in heard), "told")
            if user != wrong:
                world.nothing_in("an answer to a login", "\n".join(heard))
        else:
            assert client.list_topics(timeout=60).brokers
        if user != wrong:
            said = told(lambda settings=settings: _listed(settings))
            world.nothing_in("an error of our client", said)
    token_file = world.directory / "token"
    token_url = f"file://{token_file}"
    by_token = {**shared, "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": token_url}
    for token in (world.token, world.token[:-8] + "AAAAAAAA"):
        token_file.write_text(token)
        world.nothing_in("an answer to a token", told(lambda: _listed(by_token)))


def _listed(settings: dict[str, Any]) -> str:
    with Admin(settings) as admin:
        return repr(admin.list_topics()) + " "


def test_configs_described_and_changed(world: World) -> None:
    with world.admin() as admin:
        unknown = world.canaries.plant("a dynamic config that nobody knows")
        assert set(admin.alter_configs({BROKER: {"my.own.secret": unknown}}).values()) == {None}
        secret = world.canaries.plant("a password in AlterConfigs")
        for resource, name, is_taken in (
            (BROKER, "listener.name.second.ssl.keystore.password", False),  # it is not the password of that file
            (BROKER, "listener.name.sasl_ssl.plain.sasl.jaas.config", False),
            (BROKER, "listener.name.sasl_ssl.gssapi.sasl.jaas.config", True),  # and kept, encrypted
            (BROKER, "ssl.keystore.key", False),
            (BROKER, "headwater.schema.registry.url", False),
            (ALL_BROKERS, "sasl.jaas.config", False),
        ):
            outcome = admin.alter_configs({resource: {name: secret}})
            assert [error is None for error in outcome.values()] == [is_taken], name
            world.nothing_in(f"the answer about {name}", repr(outcome))
        described = admin.describe_configs([BROKER, ALL_BROKERS], synonyms=True, documentation=True)
        assert "my.own.secret" in repr(described)
        world.nothing_in("DescribeConfigs", repr(described))
        hidden = ["confluent.schema.registry.url", "confluent.basic.auth.user.info"]
        named = admin.describe_configs([BROKER], keys=hidden, synonyms=True)
        assert len(named[BROKER]) == 2  # type: ignore[arg-type]
        world.nothing_in("DescribeConfigs of hidden names", repr(named))


def test_commands(world: World, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    login = private(tmp_path / "login.properties", world.client())
    at = ["--bootstrap-server", world.bootstrap, "--command-config", str(login)]
    assert configs.script([*at, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "0"]) == 0
    assert run(["config", "get", "broker", "0", "--all", *at, "-o", "json"]) == 0
    typed = world.canaries.plant("a password at the wrong place")
    door = world.canaries.plant("a door's address with a login")
    monkeypatch.setattr("sys.stdin", io.StringIO(world.canaries.planted["password of admin"] + "\n"))
    create = ["profile", "create", "one", "--bootstrap-server", world.bootstrap]
    assert run([*create, "--username", "admin", "--password-stdin", "--ca-file", world.authority, "--use"]) == 0
    assert run([*create, "--force", "--sql-url", f"http://alice:{door}@localhost:8088"]) == 1
    profiles = tmp_path / "headwater" / "profiles.toml"
    whole = profiles.read_text()
    profiles.write_text(whole + f'sql_url = "http://alice:{door}@localhost:8088"\n')
    assert run(["profile", "list", "-o", "json"]) == 0
    assert run(["profile", "show", "-o", "json"]) == 0
    profiles.write_text(whole + f'password = "{typed}"\n')
    assert run(["profile", "list"]) == 1
    assert run(["doctor", "--config", str(world.directory / "server.properties"), "-o", "json"]) in (0, 1)
    for wrong in (
        ["broker", "start", "--set", typed],
        ["broker", "start", "--set", "sasl.jaas.config", typed],
        ["broker", "start", "--set", "broker.id=0", "--set", typed],
        ["registry", "start", "--set", typed],
        ["sql", "server", "--set", typed],
        ["connect", "worker", "--set", typed],
        ["up", "--set", typed],
        ["user", "add", "alice", typed, *at],
    ):
        assert run(wrong) in (1, 2), wrong
    output = capfd.readouterr()
    world.nothing_in("the commands' output", output.out + output.err)


STARTS: dict[str, Callable[[str], dict[str, str]]] = {
    "a jaas config that is cut off": lambda secret: {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} user_a="{secret}',
    },
    "PLAIN without TLS": lambda secret: {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} user_a="{secret}";',
    },
    "a key that is none": lambda secret: {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.key": f"-----BEGIN PRIVATE KEY-----\n{secret}\n-----END PRIVATE KEY-----",
        "ssl.keystore.certificate.chain": secret,
    },
    "a registry that is no address": lambda secret: {"headwater.schema.registry.url": f"http://a:{secret},x@host:1"},
    "keys behind a login": lambda secret: {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"https://a:{secret}@host/keys",
        "sasl.oauthbearer.allowed.urls": f"https://a:{secret}@host/keys",
    },
    "a password with a backslash": lambda secret: {"ssl.key.password": f"\\u{secret}"},
}


@pytest.mark.parametrize("case", sorted(STARTS))
def test_brokers_that_cannot_start(case: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    canaries = Canaries()
    settings = {"log.dirs": str(tmp_path / "data"), **STARTS[case](canaries.plant("the secret"))}
    path = tmp_path / "server.properties"
    text = "".join(f"{name}={value}\n" for name, value in settings.items())
    path.write_text(text.replace("-----\n", "-----\\n").replace("\n-----", "\\n-----"))
    assert run(["broker", "start", "--config", str(path)]) == 1
    output = capfd.readouterr()
    assert "error: " in output.err
    assert canaries.seen(output.out + output.err) == [], output.err


def test_records_that_a_registry_should_check(world: World) -> None:
    """The registry's address has a login, and nobody is there: the client and the log hear of it without the login."""
    with world.admin() as admin:
        admin.create_topics([NewTopic("checked", 1, 1, configs={"confluent.value.schema.validation": "true"})])
    limits = {"delivery.timeout.ms": "3000", "request.timeout.ms": "2000", "linger.ms": "0"}
    with Producer({"bootstrap.servers": world.bootstrap, **limits, **world.client()}) as producer:
        sent = producer.send("checked", b"\0\0\0\0\1value")
        with pytest.raises(KafkaError) as refused:
            sent.result(120)
    world.nothing_in("the answer to a record", str(refused.value) + repr(refused.value))


def test_metrics(world: World) -> None:
    with urllib.request.urlopen(world.broker.said("metrics"), timeout=60) as answer:
        world.nothing_in("/metrics", answer.read())


def test_files_that_the_broker_writes(world: World) -> None:
    """Credentials of SCRAM are kept salted; nothing is kept of passwords, not even in the metadata. Configs of
    connectors are records of Connect's own topic, as Apache's workers keep them; who may not read it there is the
    broker's to say.
    """
    dynamic = world.canaries.planted.get("a dynamic config that nobody knows")
    files = [path for path in sorted((world.directory / "data").rglob("*")) if path.is_file()]
    assert {"headwater.metadata"} < {path.name for path in files}
    for path in files:
        if not path.parent.name.startswith("workers-configs-"):
            found = world.canaries.seen(path.read_bytes())
            assert [each for each in found if world.canaries.planted[each] != dynamic] == [], path


# The doors


def ask_everything(
    world: World, name: str, url: str, calls: list[tuple[str, str, object]], *, user: str = "admin"
) -> str:
    """Each call with a login that is right, wrong, a token, and none; all that is answered."""
    wrong = {"Authorization": basic_header(f"{user}:{world.canaries.planted['wrong at doors']}")}
    heard: list[str] = []
    for headers in (world.basic(user), wrong, bearer(world.token[:-8] + "AAAAAAAA"), {}):
        caller = Caller(url, world.authority, headers)
        heard += [repr(caller.ask(*call)) for call in calls]
    world.nothing_in(f"answers of {name}", "\n".join(heard))
    return heard[0]


@pytest.fixture(scope="module")
def doors(world: World) -> dict[str, str]:
    """The settings of a door: its own key with a password, and where users log in."""
    world.canaries.plant("wrong at doors")
    door = Path(world.certificate).read_text()
    key, _, certificate = door.partition("-----BEGIN CERTIFICATE-----")
    return {
        "authentication.method": "BASIC,BEARER",
        "ssl.keystore.key": world.canaries.plant_key("a door's ssl.keystore.key", key),
        "ssl.keystore.certificate.chain": f"-----BEGIN CERTIFICATE-----{certificate}",
        "ssl.truststore.location": world.authority,
        "ssl.truststore.password": world.canaries.plant("a door's ssl.truststore.password"),
    }


def test_the_registry(world: World, doors: dict[str, str]) -> None:
    settings = {
        "listeners": "https://127.0.0.1:0",
        "kafkastore.bootstrap.servers": world.bootstrap,
        "kafkastore.topic.replication.factor": "1",
        **world.client("admin", "kafkastore."),
        **doors,
    }
    path = private(world.directory / "registry.properties", settings)
    with talkative(world.directory, "registry", "registry", "start", "--config", str(path)) as registry:
        calls: list[tuple[str, str, object]] = [
            ("GET", "/subjects", None),
            ("GET", "/config", None),
            ("POST", "/subjects/orders-value/versions", {"schema": '{"type": "nonsense"}'}),
        ]
        ask_everything(world, "the registry", registry.said("registry"), calls)
    world.nothing_in("the registry's log", registry.log.read_bytes())


def connectors(world: World) -> dict[str, dict[str, str]]:
    """One that cannot start for its database, one whose producer cannot log in, one whose converter asks a registry
    that is not there.
    """
    plant = world.canaries.plant
    return {
        "database": {
            "connector.class": "JdbcSource",
            "connection.url": f"jdbc:postgresql://127.0.0.1:1/db?user=me&password={plant('password in a JDBC URL')}",
            "connection.user": "me",
            "connection.password": plant("connection.password"),
            "topic.prefix": "db-",
            "mode": "bulk",
        },
        "files": {
            "connector.class": "FileStreamSource",
            "topic": "lines",
            "file": str(world.directory / "ca.pem"),
            "producer.override.sasl.jaas.config": f'{SCRAM} username="alice" password="{plant("jaas of a connector")}";',
            "my.api.key": plant("a property of a connector that nobody knows"),
        },
        "registered": {
            "connector.class": "FileStreamSource",
            "topic": "schemas",
            "file": str(world.directory / "ca.pem"),
            "value.converter": "AvroConverter",
            "value.converter.schema.registry.url": f"http://a:{plant('login in an address of a converter')}@127.0.0.1:1",
            "value.converter.basic.auth.user.info": f"a:{plant('basic.auth.user.info of a converter')}",
        },
    }


def test_connect(world: World, doors: dict[str, str]) -> None:
    settings = {
        "bootstrap.servers": world.bootstrap,
        "group.id": "workers",
        "listeners": "https://127.0.0.1:0",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "connector.client.config.override.policy": "All",
        **world.client(),
        **{f"listeners.https.{name}" if name.startswith("ssl.") else name: text for name, text in doors.items()},
        "ssl.truststore.location": world.authority,
    }
    path = private(world.directory / "connect.properties", settings)
    with talkative(world.directory, "connect", "connect", "worker", str(path)) as worker:
        url, made = worker.said("listeners"), connectors(world)
        admin = Caller(url, world.authority, world.basic())
        for name, config in made.items():
            until(lambda name=name, c=config: admin.status("PUT", f"/connectors/{name}/config", c) in (200, 201), name)
        until(lambda: "FAILED" in repr(admin.ask("GET", "/connectors/files/status")), "a task that has failed")
        until(lambda: "FAILED" in repr(admin.ask("GET", "/connectors/registered/status")), "a task that has failed")
        calls: list[tuple[str, str, object]] = [("GET", "/connectors?expand=info&expand=status", None)]
        for name, config in made.items():
            plugin = config["connector.class"]
            calls += [
                ("GET", f"/connectors/{name}{what}", None) for what in ("", "/config", "/status", "/tasks", "/topics")
            ]
            calls += [
                ("PUT", f"/connector-plugins/{plugin}/config/validate", {**config, "tasks.max": "many"}),
                ("POST", "/connectors", {"name": name, "config": config}),
            ]
        ask_everything(world, "Connect", url, calls)
    world.nothing_in("the worker's log", worker.log.read_bytes())


def test_sql(world: World, doors: dict[str, str]) -> None:
    settings = {
        "listeners": "https://127.0.0.1:0",
        "bootstrap.servers": world.bootstrap,
        "ksql.service.id": "canaries_",
        "ksql.streams.state.dir": str(world.directory / "state"),
        "ksql.schema.registry.url": f"http://sql:{world.canaries.plant('ksql.schema.registry.url')}@127.0.0.1:1",
        **world.client(),
        **doors,
    }
    path = private(world.directory / "sql.properties", settings)
    with talkative(world.directory, "sql", "sql", "server", "--config", str(path)) as server:
        texts = (
            "SHOW PROPERTIES;",
            "SHOW TOPICS;",
            "CREATE STREAM s WITH (KAFKA_TOPIC='checked', VALUE_FORMAT='AVRO');",
            "NONSENSE;",
        )
        calls: list[tuple[str, str, object]] = [("POST", "/ksql", {"ksql": text}) for text in texts]
        first = ask_everything(world, "SQL", server.said("sql"), calls)
        assert "ksql.service.id" in first
    world.nothing_in("the SQL server's log", server.log.read_bytes())
