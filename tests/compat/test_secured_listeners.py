"""One broker with every kind of listener, and clients that others wrote, unmodified, over each mechanism."""

import asyncio
import io
import json
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AiokafkaTokens
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokens

from compat.support.certificates import Authority, Issuer
from compat.support.java import ADMIN_TIMEOUTS, Java, JavaError
from compat.support.server_process import server_process
from headwater.base.errors import ErrorCode, KafkaError
from headwater.cli.root import run
from headwater.client import Admin, Consumer, Producer
from headwater.client.admin.scram import ScramMechanism, ScramUpsertion

PASSWORD = "canary-7319"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


class Secured(NamedTuple):
    addresses: dict[str, str]
    authority: str
    certificate: str
    token: str
    log: Path

    def settings(self, listener: str, mechanism: str = "", **more: str) -> dict[str, Any]:
        """For librdkafka, and for our client, which knows its names."""
        given = {"bootstrap.servers": self.addresses[listener], "security.protocol": listener}
        if listener.endswith("SSL"):
            given["ssl.ca.location"] = self.authority
        if mechanism:
            given["sasl.mechanism"] = mechanism
        if mechanism and mechanism != "OAUTHBEARER":
            given |= {"sasl.username": "alice", "sasl.password": PASSWORD}
        return {**given, **more}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority, issuer = Authority(directory), Issuer()
    (directory / "jwks.json").write_bytes(issuer.jwks())
    token = issuer.token(sub="alice", iss="us", aud="headwater", exp=time.time() + 3600)
    properties = {
        "log.dirs": str(directory / "data"),
        "listeners": ",".join(f"{n}://127.0.0.1:0" for n in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")),
        "ssl.keystore.location": authority.pem("broker"),
        "ssl.truststore.location": authority.path,
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=([a-z]+),.*$/$1/L,DEFAULT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "sasl.plain.allow.plaintext": "true",
        "sasl.jaas.config": f'{PLAIN} user_alice="{PASSWORD}";',
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{directory / 'jwks.json'}",
        "sasl.oauthbearer.expected.issuer": "us",
        "sasl.oauthbearer.expected.audience": "headwater",
    }
    log = directory / "broker.log"
    with server_process(properties, log) as addresses:
        with Admin(bootstrap_servers=addresses["PLAINTEXT"]) as admin:
            upsertions = [ScramUpsertion("alice", PASSWORD.encode(), each) for each in ScramMechanism]
            assert admin.alter_user_scram_credentials(upsertions) == {"alice": None}
        yield Secured(addresses, authority.path, authority.pem("alice"), token, log)


WAYS = [
    ("SSL", ""),
    ("SASL_PLAINTEXT", "PLAIN"),
    ("SASL_PLAINTEXT", "SCRAM-SHA-256"),
    ("SASL_SSL", "PLAIN"),
    ("SASL_SSL", "SCRAM-SHA-512"),
]
each_way = pytest.mark.parametrize(("listener", "mechanism"), WAYS)


@each_way
def test_librdkafka(secured: Secured, listener: str, mechanism: str) -> None:
    delivered: list[object] = []
    producer = ConfluentProducer(secured.settings(listener, mechanism))
    producer.produce("librdkafka", b"x" * 100_000, on_delivery=lambda error, _: delivered.append(error))
    producer.flush(60)
    assert delivered == [None]


def test_a_user_of_the_command_logs_in_until_it_is_deleted(
    secured: Secured, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--bootstrap-server", secured.addresses["PLAINTEXT"], "-o", "json"]
    monkeypatch.setattr("sys.stdin", io.StringIO("carols-own\n"))
    assert run(["user", "add", "carol", "-m", "SCRAM-SHA-256", "--password-stdin", *where]) == 0
    who = {"sasl.username": "carol", "sasl.password": "carols-own"}
    settings = secured.settings("SASL_SSL", "SCRAM-SHA-256") | who
    assert AdminClient(settings).list_topics(timeout=60).brokers
    capsys.readouterr()
    assert run(["user", "list", "carol", *where]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed == [{"name": "carol", "mechanisms": [{"mechanism": "SCRAM-SHA-256", "iterations": 4096}]}]
    assert run(["user", "delete", "carol", *where]) == 0
    with pytest.raises(KafkaError) as refused, Admin(settings) as admin:
        admin.list_topics()
    assert refused.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert run(["user", "delete", "carol", *where]) == 1


def test_librdkafka_by_token(secured: Secured) -> None:
    def token(_: str) -> tuple[str, float]:
        return secured.token, time.time() + 3600

    settings: dict[str, Any] = {**secured.settings("SASL_SSL", "OAUTHBEARER"), "oauth_cb": token}
    delivered: list[object] = []
    producer = ConfluentProducer(settings)
    producer.poll(1)
    producer.produce("librdkafka", b"x", on_delivery=lambda error, _: delivered.append(error))
    producer.flush(60)
    assert delivered == [None]


def test_a_certificate_is_a_login(secured: Secured) -> None:
    """The name that `ssl.principal.mapping.rules` makes of it stands in the log beside what it changes."""
    settings = secured.settings("SSL") | {
        "ssl.certificate.location": secured.certificate,
        "ssl.key.location": secured.certificate,
    }
    admin = AdminClient(settings)
    for made in admin.create_topics([NewTopic("by-certificate", 1)]).values():
        made.result(60)
    client = KafkaAdminClient(
        bootstrap_servers=secured.addresses["SSL"],
        security_protocol="SSL",
        ssl_cafile=secured.authority,
        ssl_certfile=secured.certificate,
        ssl_keyfile=secured.certificate,
    )
    client.create_topics({"by-certificate-2": {"num_partitions": 1, "replication_factor": 1}})
    client.close()
    for name in ("by-certificate", "by-certificate-2"):
        told = [line for line in secured.log.read_text().splitlines() if repr(name) in line and "principal=" in line]
        assert [("principal='User:alice'" in line) for line in told] == [True], told


def test_kafka_python_and_aiokafka_by_token(secured: Secured) -> None:
    class KafkaPythonToken(KafkaPythonTokens):
        def token(self) -> str:
            return secured.token

    class AiokafkaToken(AiokafkaTokens):
        async def token(self) -> str:
            return secured.token

    settings: dict[str, Any] = {
        "bootstrap_servers": secured.addresses["SASL_SSL"],
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "OAUTHBEARER",
    }
    producer = KafkaProducer(**settings, ssl_cafile=secured.authority, sasl_oauth_token_provider=KafkaPythonToken())
    producer.send("by-token", b"value").get(60)
    producer.close()

    async def send() -> None:
        context = ssl.create_default_context(cafile=secured.authority)
        async with AIOKafkaProducer(**settings, ssl_context=context, sasl_oauth_token_provider=AiokafkaToken()) as its:
            await its.send_and_wait("by-token", b"value")

    asyncio.run(send())


@each_way
def test_kafka_python(secured: Secured, listener: str, mechanism: str) -> None:
    settings: dict[str, Any] = {
        "bootstrap_servers": secured.addresses[listener],
        "security_protocol": listener,
        "ssl_cafile": secured.authority,
        "sasl_mechanism": mechanism or None,
        "sasl_plain_username": "alice",
        "sasl_plain_password": PASSWORD,
    }
    topic = f"kafka-python-{listener}-{mechanism}"
    producer = KafkaProducer(**settings)
    producer.send(topic, b"value" * 20_000).get(60)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", group_id=None, **settings)
    assert next(consumer).value == b"value" * 20_000
    consumer.close()


@each_way
def test_aiokafka(secured: Secured, listener: str, mechanism: str) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=secured.addresses[listener],
            security_protocol=listener,
            ssl_context=ssl.create_default_context(cafile=secured.authority) if listener.endswith("SSL") else None,
            sasl_mechanism=mechanism or "PLAIN",
            sasl_plain_username="alice",
            sasl_plain_password=PASSWORD,
        )
        await producer.start()
        try:
            await producer.send_and_wait("aiokafka", b"value")
        finally:
            await producer.stop()

    asyncio.run(send())


@pytest.mark.parametrize(("listener", "mechanism"), [*WAYS, ("SASL_SSL", "OAUTHBEARER")])
def test_our_client(secured: Secured, listener: str, mechanism: str, tmp_path: Path) -> None:
    """A megabyte: many records of TLS in both directions."""
    settings = secured.settings(listener, mechanism)
    if mechanism == "OAUTHBEARER":
        (tmp_path / "token").write_text(secured.token)
        settings["sasl.oauthbearer.token.endpoint.url"] = f"file://{tmp_path / 'token'}"
    topic = f"ours-{listener}-{mechanism}"
    with Producer(settings) as producer:
        for number in range(20):
            producer.send(topic, bytes([number]) * 50_000)
        producer.flush()
    with Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"}) as consumer:
        consumer.subscribe([topic])
        values: list[bytes] = []
        while len(values) < 20:
            values += [record.value for record in consumer.poll(5.0)]
    assert sorted(values) == [bytes([number]) * 50_000 for number in range(20)]


@each_way
def test_javas_admin(secured: Secured, java: Java, listener: str, mechanism: str) -> None:
    config = {
        "bootstrap.servers": secured.addresses[listener],
        "security.protocol": listener,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": secured.authority,
        "sasl.mechanism": mechanism or "PLAIN",
        "sasl.jaas.config": f'{SCRAM if "SCRAM" in mechanism else PLAIN} username="alice" password="{PASSWORD}";',
        **ADMIN_TIMEOUTS,
    }
    topic = f"java-{listener}-{mechanism}"
    java.call("admin", call="createTopic", config=config, topic=topic, partitions=1, replication=1)
    assert topic in java.call("admin", call="listTopics", config=config)
    if mechanism:
        wrong = {**config, "sasl.jaas.config": config["sasl.jaas.config"].replace(PASSWORD, "wrong")}
        with pytest.raises(JavaError, match="SaslAuthenticationException"):
            java.call("admin", call="listTopics", config=wrong)


def test_users_by_apaches_kafka_configs_and_by_ours(secured: Secured, java: Java, tmp_path: Path) -> None:
    """Each reads what the other wrote; our script logs in by a `--command-config`."""
    from headwater.cli.kafka.configs import script

    address = ["--bootstrap-server", secured.addresses["PLAINTEXT"], "--entity-type", "users", "--entity-name", "carol"]
    added = java.tool(
        "kafka.admin.ConfigCommand",
        *(*address, "--alter", "--add-config", "SCRAM-SHA-512=[iterations=8192,password=wonder]"),
    )
    assert "Completed updating" in added.stdout, added
    as_carol = tmp_path / "carol.properties"
    as_carol.write_text(
        f"security.protocol=SASL_SSL\nssl.truststore.location={secured.authority}\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM} username="carol" password="wonder";\n'
    )
    own = ["--bootstrap-server", secured.addresses["SASL_SSL"], "--command-config", str(as_carol), *address[2:]]
    assert script([*own, "--alter", "--delete-config", "SCRAM-SHA-512"]) == 0
    assert script([*own, "--describe"]) == 1  # who asks cannot log in any more


@pytest.mark.parametrize(
    ("listener", "said"),
    [("SASL_SSL", "DelegationTokenDisabledException"), ("PLAINTEXT", "UnsupportedByAuthenticationException")],
)
def test_apaches_kafka_delegation_tokens_is_told_that_there_are_none(
    secured: Secured, java: Java, tmp_path: Path, listener: str, said: str
) -> None:
    """Or, where nobody shows who he is, that this is no place to ask for them."""
    login = tmp_path / "alice.properties"
    login.write_text(
        f"security.protocol={listener}\nssl.truststore.type=PEM\nssl.truststore.location={secured.authority}\n"
        f'sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config={SCRAM} username="alice" password="{PASSWORD}";\n'
    )
    calls = {
        "--create": ["--max-life-time-period", "-1"],
        "--renew": ["--hmac", "c2VjcmV0", "--renew-time-period", "-1"],
        "--expire": ["--hmac", "c2VjcmV0", "--expiry-time-period", "-1"],
        "--describe": [],
    }
    found = {}
    for call, arguments in calls.items():
        address = ["--bootstrap-server", secured.addresses[listener], "--command-config", str(login)]
        ran = java.tool("org.apache.kafka.tools.DelegationTokenCommand", *address, call, *arguments)
        found[call] = said in ran.stdout + ran.stderr
    assert found == dict.fromkeys(calls, True)


def listing(settings: dict[str, Any]) -> Callable[[], object]:
    def ask() -> object:
        with Admin(settings) as admin:
            return admin.list_topics()

    return ask


def test_a_wrong_password_is_final_and_in_no_message(secured: Secured) -> None:
    wrong = secured.settings("SASL_SSL", "SCRAM-SHA-256") | {"sasl.password": "wrong-" + PASSWORD}
    with pytest.raises(KafkaError) as told:
        listing(wrong)()
    assert told.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert PASSWORD not in str(told.value)
    errors: list[str] = []
    client = AdminClient({**wrong, "error_cb": lambda error: errors.append(error.str())})
    while not any("uthentication" in error for error in errors):
        client.poll(1)


def test_a_certificate_of_nobody_is_not_trusted(secured: Secured) -> None:
    settings = secured.settings("SSL")
    del settings["ssl.ca.location"]
    with pytest.raises(KafkaError, match="not trusted"):
        listing(settings)()


def test_plain_text_at_a_port_with_tls_and_the_reverse_are_said(secured: Secured) -> None:
    for asked, spoken in (("SSL", "PLAINTEXT"), ("PLAINTEXT", "SSL")):
        settings = secured.settings(spoken) | {"bootstrap.servers": secured.addresses[asked]}
        with pytest.raises(KafkaError):
            listing(settings)()
    assert "this is not TLS; the listener wants it" in secured.log.read_text()
    assert "this is TLS; the listener is plain text" in secured.log.read_text()


def test_no_password_is_told_by_anybody(secured: Secured) -> None:
    with Admin(bootstrap_servers=secured.addresses["PLAINTEXT"]) as admin:
        from headwater.client.types import ConfigResource, ResourceType

        described = admin.describe_configs([ConfigResource(ResourceType(4), "0")], synonyms=True)
    assert PASSWORD not in repr(described)
    assert PASSWORD not in secured.log.read_text()
