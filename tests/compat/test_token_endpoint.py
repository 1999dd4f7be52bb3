"""Our client fetches its tokens from an HTTP endpoint, as Java's and librdkafka do; these beside it, at the same
endpoint and broker, show that both are right.
"""

import subprocess
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as ConfluentProducer

from compat.support.certificates import Authority, Issuer
from compat.support.java import classpath, java_command
from compat.support.server_process import server_process
from compat.support.token_server import CLIENT_ID, SECRET, TokenServer, answer, token_server
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.base.security.login_errors import LoginFailed
from headwater.client import LATEST, Admin, Consumer, Producer
from headwater.client.reactor.token_source import Limits, fetch_over_http
from headwater.client.token_requests import TokenNotFetched, TokenRequest

MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
JAAS = f'{MODULE} clientId="{CLIENT_ID}" clientSecret="{SECRET}" scope="kafka";'
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
LIMITS = Limits(5.0, 1.0)


class World:
    def __init__(self, directory: Path) -> None:
        self.authority, self.issuer = Authority(directory), Issuer()
        self.address = ""
        self.log = directory / "broker.log"

    def settings(self, endpoint: TokenServer, **more: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": self.address,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": self.authority.path,
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": endpoint.url,
            **more,
        }


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("tokens")
    made = World(directory)
    (directory / "jwks.json").write_bytes(made.issuer.jwks())
    properties = {
        "log.dirs": str(directory / "data"),
        "listeners": "SASL_SSL://127.0.0.1:0",
        "ssl.keystore.location": made.authority.pem("broker"),
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": f"file://{directory / 'jwks.json'}",
        "sasl.oauthbearer.expected.issuer": "us",
        "sasl.oauthbearer.expected.audience": "headwater",
    }
    with server_process(properties, made.log) as addresses:
        made.address = addresses["SASL_SSL"]
        yield made
    assert SECRET not in made.log.read_text()


def test_javas_config_pasted(world: World) -> None:
    with token_server(world.issuer) as endpoint:
        given = world.settings(endpoint, **{"sasl.jaas.config": JAAS, "sasl.login.callback.handler.class": HANDLER})
        with Producer(given) as producer:
            producer.send("pasted", b"1")
            producer.flush()
        assert endpoint.asked == [{"grant_type": ["client_credentials"], "scope": ["kafka"]}]
        with Consumer({**given, "group.id": "g", "auto.offset.reset": "earliest"}) as consumer:
            consumer.subscribe(["pasted"])
            values: list[bytes] = []
            while not values:
                values += [record.value for record in consumer.poll(5.0)]
        assert values == [b"1"]
        assert len(endpoint.asked) == 2  # each client once, however many connections it has


def test_librdkafkas_settings_are_ours(world: World) -> None:
    """The same dictionary for both, over https."""
    with token_server(world.issuer, certificate=world.authority.pem("login")) as endpoint:
        given = world.settings(
            endpoint,
            **{
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": CLIENT_ID,
                "sasl.oauthbearer.client.secret": SECRET,
                "https.ca.location": world.authority.path,
            },
        )
        theirs = ConfluentProducer(given)
        theirs.produce("oidc", b"theirs")
        assert theirs.flush(60) == 0
        with Producer(given) as producer:
            producer.send("oidc", b"ours")
            producer.flush()
        assert len(endpoint.asked) == 2


def test_apaches_kafka_topics_at_the_same_endpoint(world: World, tmp_path: Path) -> None:
    """Java wants the address in a list of the JVM, too."""
    with token_server(world.issuer) as endpoint:
        given = world.settings(
            endpoint,
            **{
                "sasl.jaas.config": JAAS,
                "sasl.login.callback.handler.class": HANDLER,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": world.authority.path,
            },
        )
        path = tmp_path / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={endpoint.url}"
        address = ["--bootstrap-server", world.address, "--command-config", str(path)]
        tool = [*java_command("128m"), allowed, "-cp", classpath(), "org.apache.kafka.tools.TopicCommand", *address]
        ran = subprocess.run([*tool, "--create", "--topic", "java"], capture_output=True, text=True, timeout=120)
        assert ran.returncode == 0, ran.stderr
        assert endpoint.asked == [{"grant_type": ["client_credentials"], "scope": ["kafka"]}]
        with Admin({name: given[name] for name in given if name != "ssl.ca.location"}) as admin:  # the same file
            assert "java" in {topic.name for topic in admin.list_topics()}


def test_a_client_outlives_its_tokens(world: World) -> None:
    """Tokens of two seconds: their logins end with them, and writing goes on over four of them."""
    with token_server(world.issuer, lifetime_s=2) as endpoint:
        with Producer(world.settings(endpoint, **{"sasl.jaas.config": JAAS})) as producer:
            ends = time.monotonic() + 60
            sent = 0
            while len(endpoint.asked) < 4:
                assert time.monotonic() < ends, "tokens are not renewed"
                producer.send("long", b"%d" % sent)
                producer.flush()
                sent += 1
                time.sleep(0.02)
        with Admin(world.settings(endpoint, **{"sasl.jaas.config": JAAS})) as admin:
            (end,) = admin.list_offsets({TopicPartition("long", 0): LATEST}).values()
        assert not isinstance(end, Exception)
        assert end.offset == sent
    assert "event=session-expired" not in world.log.read_text()


def test_a_wrong_secret_is_final_and_in_no_message(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with token_server(world.issuer) as endpoint:
        wrong = JAAS.replace(SECRET, "wrong-canary")
        with (
            pytest.raises(KafkaError, match=r"401 \(invalid_client\)") as told,
            Admin(world.settings(endpoint, **{"sasl.jaas.config": wrong})) as admin,
        ):
            admin.list_topics()
    assert told.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "canary" not in str(told.value) + caplog.text


def test_an_endpoint_that_comes_back_is_asked_again(world: World) -> None:
    with token_server(world.issuer) as endpoint:

        def once(handler: BaseHTTPRequestHandler) -> None:
            endpoint.misbehaves = None
            answer(handler, 503, {})

        endpoint.misbehaves = once
        with Admin(world.settings(endpoint, **{"sasl.jaas.config": JAAS})) as admin:
            admin.list_topics()
        assert len(endpoint.asked) == 2


def _drips(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    try:
        for _ in range(1000):
            handler.wfile.write(b"x")
            time.sleep(0.05)
    except OSError:
        return


def _says_nothing(_handler: BaseHTTPRequestHandler) -> None:
    time.sleep(3)


def _hangs_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.close()


def _leads_elsewhere(handler: BaseHTTPRequestHandler) -> None:
    answer(handler, 302, {}, Location="http://127.0.0.1:1/")


def _never_ends(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    try:
        while True:
            handler.wfile.write(b" " * 65_536)
    except OSError:
        return


def _speaks_something_else(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"\0\1\2 SSH-2.0\r\n\r\n")


@pytest.mark.parametrize(
    ("misbehaves", "kind", "said"),
    [
        (_drips, TokenNotFetched, "no whole answer within 1 s"),
        (_says_nothing, TokenNotFetched, "within 1 s|timed out"),
        (_hangs_up, TokenNotFetched, "RemoteDisconnected|Connection reset"),
        (_leads_elsewhere, TokenNotFetched, "302"),
        (_never_ends, LoginFailed, "megabyte"),
        (_speaks_something_else, TokenNotFetched, "BadStatusLine"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_no_endpoint_can_hold_a_client_or_fill_its_memory(
    world: World, misbehaves: Callable[[BaseHTTPRequestHandler], None], kind: type[Exception], said: str
) -> None:
    with token_server(world.issuer) as endpoint:
        endpoint.misbehaves = misbehaves
        began = time.monotonic()
        with pytest.raises(kind, match=said) as told:
            fetch_over_http(TokenRequest(endpoint.url, CLIENT_ID, SECRET), LIMITS, None)
        assert time.monotonic() - began < 2.5
        assert SECRET not in str(told.value)


def test_an_endpoint_whose_certificate_is_not_trusted_gets_no_secret(world: World) -> None:
    with token_server(world.issuer, certificate=world.authority.pem("login")) as endpoint:
        with pytest.raises(TokenNotFetched, match="not trusted"):
            fetch_over_http(TokenRequest(endpoint.url, CLIENT_ID, SECRET), Limits(30.0, 30.0), None)
        assert endpoint.asked == []
