"""A connection of a SASL listener, by hand: nothing but a login before the login, nothing behind its end, and small
frames until then.
"""

import logging
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import BadStatusLine
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compat.support.certificates import Issuer
from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import ErrorCode, UserError
from headwater.base.security import scram
from headwater.base.security.oauthbearer import first_message
from headwater.base.security.scram import ScramClient, ScramMechanism, credential_of, salted_password
from headwater.broker.context import ConnectionContext
from headwater.broker.registry import APIS
from headwater.metadata.image import UserConfigured
from headwater.server.loop import Loop
from headwater.server.node import Node
from headwater.server.security import jwks, listener_security, secure_connection
from headwater.server.security.sasl_servers import Mechanisms, PlainServer
from headwater.wire.headers import decode_response_header
from headwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from headwater.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from headwater.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from unit.server.support.by_hand import TOPIC, Client, frame, produce

CANARY = "hunter2-canary"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{CANARY}" user_bob="builder";'
HANDSHAKE, API_VERSIONS, AUTHENTICATE = 17, 18, 36
ALICE = b"\0alice\0" + CANARY.encode()


class Visitor(Client):
    def ask(self, request: Any, response: Any, version: int) -> Any:
        self.send(frame(request.KEY, version, 7, request.encode(version)))
        answer = self.receive()
        _, at = decode_response_header(memoryview(answer), request.KEY, version)
        return response.decode(memoryview(answer), at, version)

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
        answer = self.ask(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse, version)
        assert isinstance(answer, SaslHandshakeResponse)
        return answer

    def authenticate(self, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
        answer = self.ask(SaslAuthenticateRequest(auth_bytes=token), SaslAuthenticateResponse, version)
        assert isinstance(answer, SaslAuthenticateResponse)
        return answer

    def topics(self) -> list[str | None]:
        answer = self.ask(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), MetadataResponse, 9)
        return [topic.name for topic in answer.topics]

    def principals(self) -> list[str]:
        return [each.context.principal for each in self.node.server._connections.values()]


MakeVisitor = Callable[..., Visitor]


@pytest.fixture
def visit(make_node: Callable[..., Node]) -> Iterator[MakeVisitor]:
    visitors: list[Visitor] = []
    nodes: list[Node] = []

    def make(**settings: object) -> Visitor:
        if not nodes:
            nodes.append(
                make_node(
                    **{
                        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
                        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
                        "sasl.plain.allow.plaintext": "true",
                        "sasl.jaas.config": JAAS,
                        "connection.failed.authentication.delay.ms": "0",
                        **settings,
                    }
                )
            )
        visitors.append(Visitor(nodes[0]))
        return visitors[-1]

    yield make
    for visitor in visitors:
        visitor.socket.close()


def test_a_login_by_plain_opens_the_gate(visit: MakeVisitor) -> None:
    visitor = visit()
    offered = visitor.ask(
        ApiVersionsRequest(client_software_name="test", client_software_version="1"), ApiVersionsResponse, 3
    )
    assert {HANDSHAKE, AUTHENTICATE} <= {key.api_key for key in offered.api_keys}
    assert visitor.handshake().mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert visitor.authenticate(ALICE).error_code == 0
    assert visitor.principals() == ["User:alice"]
    assert visitor.topics() == [TOPIC]


def test_every_other_api_before_the_login_ends_the_connection(visit: MakeVisitor) -> None:
    """The quick handlers, compiled or not, are behind the same gate."""
    for key, api in APIS.items():
        if key not in (HANDSHAKE, API_VERSIONS, AUTHENTICATE):
            visitor = visit()
            body = produce(1) if key == 0 else frame(key, api.serves[1], 1, [b"\0" * 64])
            visitor.send(body)
            assert visitor.is_closed(), api.name
    broker = visit().node.broker
    assert broker.image.topics == {}
    assert broker.metrics.apis[0].count == 0


def test_the_gate_is_closed_between_the_steps_of_a_login(visit: MakeVisitor) -> None:
    visitor = visit()
    visitor.handshake()
    visitor.send(produce(1))
    assert visitor.is_closed()


@pytest.mark.parametrize("size", [2**31 - 1, -1, 600_000, 16_385, 3])
def test_frames_before_the_login_are_small(visit: MakeVisitor, size: int) -> None:
    visitor = visit()
    before = visitor.node.server.buffers
    visitor.send(struct.pack(">i", size) + b"\0\x11\0\1\0\0\0\1")
    assert visitor.is_closed()
    assert not before.has_waiters


@pytest.mark.parametrize(
    ("mechanisms", "limit", "size"),
    [
        ("PLAIN,SCRAM-SHA-256", "524288", 16 * 1024),
        ("PLAIN,OAUTHBEARER", "524288", 68 * 1024),
        ("PLAIN,OAUTHBEARER", "5000", 5000),
    ],
)
def test_frames_are_larger_only_where_they_may_hold_a_token(
    visit: MakeVisitor, mechanisms: str, limit: str, size: int
) -> None:
    visitor = visit(**{"sasl.server.max.receive.size": limit})
    security = visitor.node.server.securities["SASL_PLAINTEXT"]
    visitor.node.broker.config.set_dynamic({}, {"listener.name.sasl_plaintext.sasl.enabled.mechanisms": mechanisms})
    assert security.login_bytes_max == size


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-1"])
def test_a_store_that_others_write_does_not_switch_on_what_the_start_refuses(
    visit: MakeVisitor, mechanism: str
) -> None:
    visitor = visit(**{"sasl.enabled.mechanisms": "SCRAM-SHA-256", "sasl.plain.allow.plaintext": "false"})
    name = "listener.name.sasl_plaintext.sasl.enabled.mechanisms"
    visitor.node.broker.config.set_dynamic({}, {name: f"{mechanism},SCRAM-SHA-512"})
    answer = visitor.handshake(mechanism)
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["SCRAM-SHA-512"]


@pytest.mark.parametrize("version", [0, 1])
def test_an_error_of_the_broker_in_a_login_is_a_failed_login(
    visit: MakeVisitor, version: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> bytes:
        raise TypeError(CANARY)

    visitor = visit(**{"connection.failed.authentication.delay.ms": "600000"})
    visitor.handshake(version=version)
    monkeypatch.setattr(PlainServer, "receive", broken)
    if version:
        visitor.send(frame(AUTHENTICATE, 2, 1, SaslAuthenticateRequest(auth_bytes=ALICE).encode(2)) + produce(2))
    else:
        visitor.send(struct.pack(">i", len(ALICE)) + ALICE)
    assert not visitor.has_answer()
    (connection,) = visitor.node.server._connections.values()  # still there: the end comes late
    assert connection._is_refused  # type: ignore[attr-defined]
    assert "event=login-failed" in caplog.text
    assert CANARY not in caplog.text


def test_the_brokers_own_credential_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="broker" password="{}";'
    name = "listener.name.plaintext.scram-sha-256.sasl.jaas.config"
    config = BrokerConfig({name: jaas.format("one")})
    computed: list[str] = []

    def count(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
        computed.append(password)
        return salted_password(mechanism, password, salt, iterations)

    monkeypatch.setattr(scram, "salted_password", count)
    mechanisms = Mechanisms(config.listener("PLAINTEXT"), dict, list, lambda: 0, b"secret", list)

    def begin(user: str) -> None:
        mechanisms.begin("SCRAM-SHA-256").receive(ScramClient(ScramMechanism.SHA_256, user, "x", "nonce").first())

    for user in ("broker", "nobody", "broker", "somebody"):
        begin(user)
    assert computed == ["one"]
    config.static[name] = jaas.format("two")
    begin("broker")
    assert computed == ["one", "two"]


def test_tls_settings_that_cannot_work_cost_one_client_and_not_the_loop(make_node: Callable[..., Node]) -> None:
    class Broken:
        def current(self) -> None:
            raise UserError("Bad value for ssl.client.auth", "it is none")

    node = make_node()
    node.server.securities["PLAINTEXT"] = SimpleNamespace(tls=Broken())  # type: ignore[assignment]
    visitor = Visitor(node)
    assert visitor.is_closed()
    assert node.broker.metrics.connections_refused == 1
    visitor.socket.close()


def test_a_fetch_of_keys_that_breaks_is_told_and_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Opener:
        def open(self, *_: object, **__: object) -> object:
            raise BadStatusLine("no HTTP at all")

    monkeypatch.setattr(jwks.urllib.request, "build_opener", lambda *_: Opener())
    got: list[tuple[bytes | None, str]] = []
    jwks._fetch("http://x", lambda document, why: got.append((document, why)), lambda call: call())
    assert got == [(None, "no HTTP at all")]


@pytest.mark.parametrize(("path", "said"), [("/keys", "event=keys-not-fetched"), ("/moved", "302")])
def test_keys_come_from_an_allowed_url_and_not_from_where_it_leads(
    caplog: pytest.LogCaptureFixture, path: str, said: str
) -> None:
    asked, document = list[str](), Issuer().jwks()

    class Keys(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200 if self.path == "/keys" else 302)
            self.send_header("Location", "/keys")
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Keys) as server, closing(Loop()) as loop:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}{path}"
        settings = {"sasl.oauthbearer.jwks.endpoint.url": url, "sasl.oauthbearer.allowed.urls": url}
        keys = jwks.KeySet(BrokerConfig(settings).listener("SASL_SSL"), loop)
        while not keys.current() and said not in caplog.text:
            loop.turn(0.01)
        server.shutdown()
    assert asked == [path]
    assert len(keys.current()) == (path == "/keys")


def test_tokens_count_from_when_oauthbearer_is_enabled(visit: MakeVisitor, tmp_path: Path) -> None:
    """The keys were read at the start only, so that no token counted until the next one."""
    issuer, keys = Issuer(), tmp_path / "keys.json"
    keys.write_bytes(issuer.jwks())
    visitor = visit(**{"sasl.oauthbearer.jwks.endpoint.url": f"file://{keys}"})
    assert "OAUTHBEARER" not in visitor.handshake("OAUTHBEARER").mechanisms
    visitor.node.config.set_dynamic({}, {"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "OAUTHBEARER"})
    visitor = visit()
    assert visitor.handshake("OAUTHBEARER").mechanisms == ["OAUTHBEARER"]
    now = int(time.time())
    token = first_message(issuer.token(sub="alice", iat=now, exp=now + 3600))
    assert visitor.authenticate(token).error_code == 0
    assert visitor.principals()[-1] == "User:alice"


@pytest.mark.parametrize("url", ["file:///nowhere", "gopher://x"])
def test_keys_that_cannot_be_had_are_told_once(visit: MakeVisitor, caplog: pytest.LogCaptureFixture, url: str) -> None:
    visitor = visit(**{"sasl.oauthbearer.jwks.endpoint.url": url})
    visitor.node.config.set_dynamic({}, {"sasl.enabled.mechanisms": "OAUTHBEARER"})
    for _ in range(3):
        visitor = visit()
        visitor.handshake("OAUTHBEARER")
        assert visitor.authenticate(first_message(Issuer().token(sub="alice", iat=1, exp=2))).error_code != 0
    assert caplog.text.count("event=keys-not-read") == 1


def test_a_login_by_bare_frames_as_the_oldest_clients_do_it(visit: MakeVisitor) -> None:
    visitor = visit(**{"sasl.jaas.config": JAAS.replace("user_bob", 'user_a="b" user_bob')})
    visitor.handshake(version=0)
    visitor.send(struct.pack(">i", 4) + b"\0a\0b")
    assert visitor.receive_exactly(4) == bytes(4)
    assert visitor.principals() == ["User:a"]
    assert visitor.topics() == [TOPIC]


def test_a_login_by_scram(visit: MakeVisitor) -> None:
    visitor = visit()
    salted = salted_password(ScramMechanism.SHA_256, "wonder", b"salt", 4096)
    kept = credential_of(ScramMechanism.SHA_256, salted, b"salt", 4096)
    visitor.node.broker.image.apply(UserConfigured("carol", {"SCRAM-SHA-256": kept.to_text()}))
    client = ScramClient(ScramMechanism.SHA_256, "carol", "wonder", "nonce")
    visitor.handshake("SCRAM-SHA-256")
    final = client.receive(bytes(visitor.authenticate(client.first()).auth_bytes))
    assert final is not None
    assert client.receive(bytes(visitor.authenticate(final).auth_bytes)) is None
    assert visitor.principals() == ["User:carol"]


@pytest.mark.parametrize(
    "token", [b"\0alice\0wrong", b"\0nobody\0x", b"bob\0alice\0" + CANARY.encode(), b"", b"\0\0", b"\xff\0\xff\0\xff"]
)
def test_a_bad_login_is_told_so_and_ends(visit: MakeVisitor, token: bytes, caplog: pytest.LogCaptureFixture) -> None:
    visitor = visit()
    visitor.handshake()
    with caplog.at_level(logging.DEBUG):
        answer = visitor.authenticate(token)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert visitor.is_closed()
    assert "event=login-failed" in caplog.text
    assert CANARY not in caplog.text + (answer.error_message or "")


def test_the_answer_to_a_bad_login_is_held_back_and_nothing_is_served_meanwhile(visit: MakeVisitor) -> None:
    visitor = visit(**{"connection.failed.authentication.delay.ms": "600000"})
    visitor.handshake()
    bad = SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong")
    visitor.send(frame(AUTHENTICATE, 2, 1, bad.encode(2)) + produce(2) + produce(3))
    assert not visitor.has_answer()
    assert visitor.node.broker.image.topics == {}


def test_an_unknown_mechanism_is_told_which_there_are(visit: MakeVisitor) -> None:
    visitor = visit()
    answer = visitor.handshake("GSSAPI")
    assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    assert visitor.is_closed()


def test_a_token_without_a_handshake_ends_the_connection(visit: MakeVisitor) -> None:
    visitor = visit()
    assert visitor.authenticate(ALICE).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert visitor.is_closed()


def test_a_session_that_is_over_serves_nothing_but_a_new_login(visit: MakeVisitor) -> None:
    visitor = visit(**{"connections.max.reauth.ms": "3600000"})
    visitor.handshake()
    assert visitor.authenticate(ALICE).session_lifetime_ms == 3_600_000
    assert visitor.topics() == [TOPIC]
    (connection,) = visitor.node.server._connections.values()
    connection._open_until_ns = 1  # type: ignore[attr-defined]  # long ago
    visitor.handshake()
    assert visitor.authenticate(ALICE).error_code == 0
    assert visitor.topics() == [TOPIC]
    connection._open_until_ns = 1  # type: ignore[attr-defined]
    visitor.send(produce(1))
    assert visitor.is_closed()


def test_who_logs_in_again_must_be_the_same(visit: MakeVisitor) -> None:
    visitor = visit()
    visitor.handshake()
    visitor.authenticate(ALICE)
    visitor.handshake()
    answer = visitor.authenticate(b"\0bob\0builder")
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert visitor.is_closed()


def test_a_listener_without_logins_says_so(make_node: Callable[..., Node]) -> None:
    visitor = Visitor(make_node())
    assert visitor.handshake().error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert visitor.authenticate(ALICE).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert visitor.principals() == ["User:ANONYMOUS"]
    visitor.socket.close()


def test_passwords_in_the_config_are_not_described() -> None:
    from headwater.base.config.describe import describe_broker

    config = BrokerConfig({"sasl.jaas.config": JAAS, "listener.name.plaintext.plain.sasl.jaas.config": JAAS})
    assert CANARY not in repr(describe_broker(config))


def test_nobody_has_quotas_before_the_login(visit: MakeVisitor) -> None:
    visitor = visit()
    node = visitor.node
    done: list[Any] = []
    quota = UserConfigured("ANONYMOUS", {"request_percentage": "0.000001"})
    node.broker.changes.submit(lambda: [quota], done.append)
    assert node.loop.run_until(lambda: bool(done), 60_000)
    for each in (visitor, visit()):
        answer = each.ask(
            ApiVersionsRequest(client_software_name="test", client_software_version="1"), ApiVersionsResponse, 3
        )
        assert (answer.error_code, answer.throttle_time_ms) == (0, 0)
        each.handshake()
        assert each.authenticate(ALICE).error_code == 0
    meters = [each.context.meter for each in node.server._connections.values()]
    assert [meter._user for meter in meters if meter is not None] == ["alice", "alice"]


def scram_user(visitor: Visitor) -> None:
    salted = salted_password(ScramMechanism.SHA_256, "wonder", b"salt", 4096)
    kept = credential_of(ScramMechanism.SHA_256, salted, b"salt", 4096)
    visitor.node.broker.image.apply(UserConfigured("carol", {"SCRAM-SHA-256": kept.to_text()}))


def test_a_login_by_scram_that_was_listened_to_is_of_no_use(visit: MakeVisitor) -> None:
    """Replayed word by word, and in another order."""
    visitor = visit()
    scram_user(visitor)
    client = ScramClient(ScramMechanism.SHA_256, "carol", "wonder", "nonce")
    visitor.handshake("SCRAM-SHA-256")
    final = client.receive(bytes(visitor.authenticate(client.first()).auth_bytes))
    assert final is not None
    assert visitor.authenticate(final).error_code == 0
    for messages in ([client.first(), final], [final], [final, client.first()], [client.first(), client.first()]):
        thief = visit()
        thief.handshake("SCRAM-SHA-256")
        answers = [thief.authenticate(messages[0])]
        if not answers[0].error_code:
            answers.append(thief.authenticate(messages[1]))
        assert answers[-1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED, messages
        assert thief.is_closed()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        struct.pack(">i", -1),
        struct.pack(">i", 2**31 - 1),
        struct.pack(">i", 100) + b"short",
        struct.pack(">i", 3) + b"abc" + b"more behind it",
        struct.pack(">i", -2),
    ],
)
def test_a_message_of_a_login_that_lies_about_its_length_ends_it(visit: MakeVisitor, body: bytes) -> None:
    visitor = visit()
    visitor.handshake()
    visitor.send(frame(AUTHENTICATE, 0, 7, [body]))
    answer = visitor.socket.recv(4096)
    while answer and visitor.socket.recv(4096):
        pass
    assert not visitor.principals()
    assert visit().handshake().error_code == 0, "others are served"


def test_a_downgrade_to_a_mechanism_that_is_not_offered_ends(visit: MakeVisitor) -> None:
    for mechanism in ("SCRAM-SHA-1", "ANONYMOUS", "EXTERNAL", "plain", "", "PLAIN\0", "x" * 1000):
        visitor = visit()
        assert visitor.handshake(mechanism).error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert visitor.is_closed()


def test_the_oldest_that_has_not_logged_in_goes_when_too_many_wait(
    visit: MakeVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_security, "PENDING_MAX", 3)
    known = visit()
    known.handshake()
    assert known.authenticate(ALICE).error_code == 0
    waiting = [visit() for _ in range(4)]
    for visitor in waiting[1:]:
        assert visitor.handshake().error_code == 0, "these three may wait"
    assert waiting[0].is_closed()
    assert known.topics() == [TOPIC], "who has logged in is not among them"
    assert waiting[1].authenticate(ALICE).error_code == 0
    newest = visit()
    for visitor in (*waiting[2:], newest):
        assert visitor.authenticate(ALICE).error_code in (0, ErrorCode.ILLEGAL_SASL_STATE)


class Waiting:
    """What a listener knows of a connection that has not logged in."""

    def __init__(self, host: str, port: int) -> None:
        self.context = ConnectionContext(host, port, "SASL_PLAINTEXT")


def connection_from(host: str, port: int) -> Any:
    return Waiting(host, port)


def test_a_slow_client_outlives_a_flood_from_another_address(
    visit: MakeVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_security, "PENDING_MAX", 5)
    (security,) = visit().node.server.securities.values()
    slow = [connection_from("10.0.0.1", 1), connection_from("10.0.0.2", 1), connection_from("10.0.0.2", 2)]
    assert [security.entered(each) for each in slow] == [None] * 3
    flood = [connection_from("10.9.9.9", number) for number in range(50)]
    gone = []
    for each in flood:
        evicted = security.entered(each)
        if evicted is not None:
            security.settled(evicted)
            gone.append(evicted)
    assert gone == flood[: len(gone)], "the oldest of who floods, and nobody else"
    assert len(flood) - len(gone) == 2
    for each in (*slow, *flood):
        security.settled(each)
        security.settled(each)
    assert not security._pending
    assert not security._pending_by_host


def test_among_addresses_with_as_many_the_oldest_of_all_goes(
    visit: MakeVisitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener_security, "PENDING_MAX", 3)
    (security,) = visit().node.server.securities.values()
    each_alone = [connection_from(f"10.0.0.{number}", 1) for number in range(4)]
    assert [security.entered(each) for each in each_alone] == [None, None, None, each_alone[0]]


def test_a_flood_of_connections_is_no_flood_of_lines_and_hides_no_failed_login(
    visit: MakeVisitor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener_security, "PENDING_MAX", 1)
    node = visit().node
    (security,) = node.server.securities.values()
    monkeypatch.setattr(security, "_loop", SimpleNamespace(turn_ns=10_000_000_000))
    caplog.set_level(logging.WARNING, "headwater")
    waiting = [visit() for _ in range(60)]
    assert all(visitor.is_closed() for visitor in waiting[:-1])
    evictions = [record.getMessage() for record in caplog.records if "connection-closed" in record.getMessage()]
    assert len(evictions) == 20
    assert node.broker.metrics.requests_refused >= 59
    security.login_failed(ConnectionContext("10.0.0.1", 1, "SASL_PLAINTEXT"), "PLAIN", "wrong password")
    assert "event=login-failed" in caplog.records[-1].getMessage()
    monkeypatch.setattr(security, "_loop", SimpleNamespace(turn_ns=12_000_000_000))
    security.evicted(ConnectionContext("10.0.0.1", 1, "SASL_PLAINTEXT"), "too many")
    unsaid = int(caplog.records[-1].getMessage().rpartition("unsaid=")[2])
    assert unsaid == node.broker.metrics.requests_refused - 20


def test_a_login_that_takes_too_long_ends(visit: MakeVisitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure_connection, "LOGIN_MS", 50)
    visitor = visit()
    assert visitor.is_closed()
    assert not visitor.principals()
