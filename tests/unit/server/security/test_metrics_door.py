"""`metrics.listener`: metrics for other machines, behind TLS, a login and the rights of the cluster."""

import base64
import contextlib
import logging
import socket
import ssl
import struct
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from compat.support.certificates import Authority, Issuer
from headwater.base.acls import Operation, Permission, ResourceType
from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import UserError
from headwater.base.security import oauthbearer, scram
from headwater.base.security.scram import ScramMechanism
from headwater.base.security.tls_socket import TlsSocket
from headwater.metadata.image import AclsSet, BrokerConfigured, UserConfigured
from headwater.server.node import Node
from headwater.server.security.metrics_guard import metrics_address

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def credential(password: str) -> str:
    salted = scram.salted_password(ScramMechanism.SHA_512, password, b"salt", 4096)
    return scram.credential_of(ScramMechanism.SHA_512, salted, b"salt", 4096).to_text()


class Door:
    def __init__(self, directory: Path, authority: Authority, **more: str) -> None:
        self.authority = authority
        settings = {
            "log.dirs": str(directory / "data"),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "metrics.listener": "https://127.0.0.1:0",
            "metrics.authentication.method": "BASIC",
            "listener.name.metrics.ssl.keystore.location": authority.pem("metrics"),
            "sasl.jaas.config": f'{PLAIN} user_paul="plain";',
            "connection.failed.authentication.delay.ms": "1",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:paul",
        }
        self.node = Node(BrokerConfig({**settings, **{name.replace("_", "."): text for name, text in more.items()}}))
        self.node.start()

    def close(self) -> None:
        self.node.close()

    @property
    def port(self) -> int:
        assert self.node.metrics_door is not None
        return self.node.metrics_door.port

    def ask(self, login: str | None = None, path: str = "/metrics", scheme: str = "Basic") -> tuple[int, str]:
        """By a client of its own thread, while the broker's loop turns here. 0: no answer."""
        answer: list[tuple[int, str]] = []
        request = Request(f"https://localhost:{self.port}{path}")
        if login is not None:
            shown = login if scheme == "Bearer" else base64.b64encode(login.encode()).decode()
            request.add_header("Authorization", f"{scheme} {shown}")

        def run() -> None:
            try:
                with urlopen(
                    request, timeout=60, context=ssl.create_default_context(cafile=self.authority.path)
                ) as got:
                    answer.append((got.status, got.read().decode()))
            except HTTPError as refused:
                answer.append((refused.code, str(refused.headers)))
            except OSError as problem:
                answer.append((0, str(problem)))

        client = threading.Thread(target=run)
        client.start()
        while client.is_alive():
            self.node.loop.turn(0.005)
        return answer[0]


def everything_from(sock: socket.socket) -> bytes:
    """Until its end, however that comes."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := sock.recv(1000):
            found += piece
    return found


@pytest.fixture
def door(tmp_path: Path) -> Any:
    door = Door(tmp_path, Authority(tmp_path))
    yield door
    door.close()


def test_a_request_in_many_pieces_is_answered_and_others_have_their_turn_meanwhile(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece is a record of TLS, which OpenSSL gives one by one: all of them are there before the login."""
    taken, receive = 0, TlsSocket.recv_into

    def counted(self: TlsSocket, buffer: Any) -> int:
        nonlocal taken
        taken += 1
        return receive(self, buffer)

    monkeypatch.setattr(TlsSocket, "recv_into", counted)
    login = base64.b64encode(b"paul:plain")
    request = b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 7000 + b"\r\nAuthorization: Basic " + login + b"\r\n\r\n"
    answers: list[bytes] = []
    sent, go_on = threading.Event(), threading.Event()

    def run() -> None:
        context = ssl.create_default_context(cafile=door.authority.path)
        with (
            socket.create_connection(("localhost", door.port), 60) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            secured.do_handshake()
            go_on.wait(60)
            for at in range(len(request)):
                secured.send(request[at : at + 1])
            sent.set()
            answers.append(everything_from(secured))

    client = threading.Thread(target=run)
    client.start()
    for _ in range(40):  # the handshake
        door.node.loop.turn(0.005)
    go_on.set()
    sent.wait(60)  # nobody reads meanwhile: all pieces are there at once
    most = 0
    while client.is_alive():
        before = taken
        door.node.loop.turn(0.005)
        most = max(most, taken - before)
    assert answers[0].startswith(b"HTTP/1.1 200")
    assert taken >= 2
    assert most <= 2  # by an event, and by the turn that was asked for


def test_who_logs_in_and_may_describe_the_cluster_reads(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    image = door.node.broker.image
    image.apply(UserConfigured("alice", {"SCRAM-SHA-512": credential("alices-canary")}))
    assert door.ask()[0] == 401
    assert "Basic" in door.ask()[1]
    assert door.ask("alice:wrong-canary")[0] == 401
    assert door.ask("nobody:alices-canary")[0] == 401
    assert door.ask("alice:alices-canary", scheme="Bearer")[0] == 401
    assert door.ask("alice:alices-canary")[0] == 403
    rule = ("User:alice", "*", int(Operation.DESCRIBE), int(Permission.ALLOW))
    image.apply(AclsSet(int(ResourceType.CLUSTER), 3, "kafka-cluster", (rule,)))
    status, text = door.ask("alice:alices-canary")
    assert (status, "headwater_connections " in text) == (200, True)
    assert door.ask("paul:plain")[0] == 200
    assert door.ask("paul:plain", path="/else")[0] == 404
    assert caplog.text.count("event=login-failed") == 2
    assert "canary" not in caplog.text


def test_a_password_that_was_right_counts_until_it_changes(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    image, checks = door.node.broker.image, list[int]()
    compute = scram.salted_password

    def counted(*arguments: Any) -> bytes:
        checks.append(1)
        return compute(*arguments)

    image.apply(UserConfigured("paul", {"SCRAM-SHA-512": credential("first")}))
    monkeypatch.setattr(scram, "salted_password", counted)
    assert [door.ask("paul:first")[0] for _ in range(3)] == [200] * 3
    assert len(checks) == 1
    assert door.ask("paul:other")[0] == 401
    image.apply(UserConfigured("paul", {"SCRAM-SHA-512": credential("second")}))
    assert [door.ask("paul:first")[0], door.ask("paul:second")[0]] == [401, 200]
    image.apply(UserConfigured("paul", {}))
    assert [door.ask("paul:second")[0], door.ask("paul:plain")[0]] == [401, 200]


# Tokens


@pytest.fixture
def issuer(tmp_path: Path) -> Issuer:
    issuer = Issuer()
    (tmp_path / "keys.json").write_bytes(issuer.jwks())
    return issuer


def door_with_tokens(tmp_path: Path, method: str, **more: str) -> Door:
    return Door(
        tmp_path,
        Authority(tmp_path),
        metrics_authentication_method=method,
        **{
            "listener.name.metrics.sasl.oauthbearer.jwks.endpoint.url": f"file://{tmp_path / 'keys.json'}",
            "listener.name.metrics.sasl.oauthbearer.expected.audience": "metrics",
            **more,
        },
    )


def token_of(issuer: Issuer, user: str, expires_in_s: int = 3600, audience: str = "metrics", **more: Any) -> str:
    now = int(time.time())
    return issuer.token(sub=user, aud=audience, iat=now - 7200, exp=now + expires_in_s, **more)


def test_whose_token_counts_reads_as_far_as_he_may(
    tmp_path: Path, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    door = door_with_tokens(tmp_path, "basic, bearer")
    try:
        status, headers = door.ask()
        assert (status, 'Basic realm="headwater"' in headers, 'Bearer realm="headwater"' in headers) == (
            401,
            True,
            True,
        )
        right = token_of(issuer, "paul", note="x" * 20_000)
        assert door.ask(right, scheme="Bearer")[0] == 200
        assert door.ask(token_of(issuer, "alice"), scheme="Bearer")[0] == 403
        wrong = {
            "the token has expired": token_of(issuer, "paul", expires_in_s=-3600),
            "audience": token_of(issuer, "paul", audience="elsewhere"),
            "signature": token_of(Issuer(), "paul"),
            "algorithm": token_of(issuer, "paul", algorithm="none"),
            "not a signed JWT": "canary",
        }
        for token in wrong.values():
            assert door.ask(token, scheme="Bearer")[0] == 401
        assert door.ask("paul:plain")[0] == 200
        assert door.ask("x" * 100_000, scheme="Bearer")[0] == 0
    finally:
        door.close()
    failed = [record.getMessage() for record in caplog.records if "event=login-failed" in record.getMessage()]
    assert len(failed) == len(wrong)
    assert not any(token in line for token in wrong.values() for line in failed)
    assert "the token has expired" in failed[0]


def test_a_token_that_counted_does_so_until_other_keys_sign(
    tmp_path: Path, issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks, verify = list[int](), oauthbearer.verify

    def counted(*arguments: Any) -> Any:
        checks.append(1)
        return verify(*arguments)

    monkeypatch.setattr(oauthbearer, "verify", counted)
    door = door_with_tokens(tmp_path, "BEARER")
    try:
        token = token_of(issuer, "paul")
        assert [door.ask(token, scheme="Bearer")[0] for _ in range(3)] == [200] * 3
        assert len(checks) == 1
        (tmp_path / "keys.json").write_bytes(b" " + Issuer().jwks())
        assert door.ask(token, scheme="Bearer")[0] == 401
        assert door.ask("paul:plain")[0] == 401, "passwords are not asked for"
    finally:
        door.close()


def test_a_token_that_counted_ends_with_its_time(tmp_path: Path, issuer: Issuer) -> None:
    door = door_with_tokens(tmp_path, "BEARER")
    try:
        token = token_of(issuer, "paul")
        assert door.ask(token, scheme="Bearer")[0] == 200
        clock = door.node.broker.clock
        door.node.broker.clock = SimpleNamespace(  # type: ignore[assignment]
            now_ms=lambda: clock.now_ms() + 4_000_000, monotonic_ms=clock.monotonic_ms
        )
        assert door.ask(token, scheme="Bearer")[0] == 401
    finally:
        door.close()


def test_without_tls_nobody_is_served_and_nobody_takes_all_connections(door: Door) -> None:
    many = []
    for _ in range(20):
        many.append(socket.create_connection(("127.0.0.1", door.port)))
        door.node.loop.turn(0.001)
    assert door.node.metrics_door is not None
    assert len(door.node.metrics_door._open) == 8
    for sock in many[:8]:
        sock.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    while door.node.metrics_door._open:
        door.node.loop.turn(0.005)
    for sock in many[:8]:
        assert b"HTTP/1.1" not in everything_from(sock)
    for sock in many:
        sock.close()
    assert door.ask("paul:plain")[0] == 200


def test_addresses_of_one_network_share_its_places(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """One machine has all addresses of its /64 network."""
    endpoint = door.node.metrics_door
    assert endpoint is not None

    def come_from(host: str) -> int:
        peer, accepted = socket.socketpair()
        peers.enter_context(peer)
        with monkeypatch.context() as patched:
            patched.setattr(endpoint, "_listener", SimpleNamespace(accept=lambda: (accepted, (host, 1, 0, 0))))
            endpoint._accept(0)
        return len(endpoint._open)

    with contextlib.ExitStack() as peers:
        assert [come_from(f"2001:db8::{last}") for last in range(10)] == [1, 2, 3, 4, 5, 6, 7, 8, 8, 8]
        assert [come_from("2001:db8:0:1::1"), come_from("192.0.2.1")] == [9, 10]


def test_connections_that_end_while_their_step_is_taken(door: Door) -> None:
    for _ in range(20):
        sock = socket.create_connection(("127.0.0.1", door.port))
        door.node.loop.turn(0.001)
        sock.sendall(bytes.fromhex("160301"))
        door.node.loop.turn(0.001)
        assert door.node.metrics_door is not None
        for exchange in list(door.node.metrics_door._open):
            exchange.close()
        sock.close()
    assert door.ask("paul:plain")[0] == 200


def reset(sock: socket.socket) -> None:
    """Closes it by a reset."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def test_connections_that_are_reset_before_they_are_accepted(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        reset(socket.create_connection(("127.0.0.1", door.port)))
    assert door.ask("paul:plain")[0] == 200
    assert "handler-failed" not in caplog.text


def test_a_wrong_password_is_checked_once_although_its_client_hangs_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    door = Door(tmp_path, Authority(tmp_path), connection_failed_authentication_delay_ms="3600000")
    assert door.node.metrics_door is not None
    guard, checks = door.node.metrics_door._guard, list[int]()
    assert guard is not None
    check, is_refused = guard.check, threading.Event()

    def counted(shown: Any) -> Any:
        checks.append(1)
        return check(shown)

    def run() -> None:
        context = ssl.create_default_context(cafile=door.authority.path)
        plain = socket.create_connection(("127.0.0.1", door.port))
        with context.wrap_socket(plain, server_hostname="localhost") as secured:
            login = base64.b64encode(b"paul:wrong")
            secured.sendall(b"GET /metrics HTTP/1.1\r\nAuthorization: Basic " + login + b"\r\n\r\n")
            is_refused.wait()
            reset(secured)

    monkeypatch.setattr(guard, "check", counted)
    client = threading.Thread(target=run)
    client.start()
    try:
        while "event=login-failed" not in caplog.text:
            door.node.loop.turn(0.005)
        is_refused.set()
        client.join()
        while door.node.metrics_door._open:
            door.node.loop.turn(0.005)
    finally:
        is_refused.set()
        door.close()
    assert (len(checks), caplog.text.count("event=login-failed")) == (1, 1)


def test_dynamic_settings_that_cannot_work_do_not_keep_the_broker_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    door = Door(tmp_path, authority)
    stored: list[object] = []
    bad = {"listener.name.metrics.ssl.keystore.location": "/nowhere"}
    broker = door.node.broker
    broker.changes.submit(lambda: [BrokerConfigured(str(broker.broker_id), bad)], stored.append)
    while not stored:
        door.node.loop.turn(0.005)
    door.close()
    door = Door(tmp_path, authority)
    assert door.node.metrics_door is None
    door.close()
    assert caplog.text.count("event=metrics-not-served") == 1


def test_certificates_are_those_of_now(door: Door, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other")
    door.node.config.set_dynamic({}, {"listener.name.metrics.ssl.keystore.location": other.pem("metrics")})
    assert door.ask("paul:plain")[0] == 0
    door.authority = other
    assert door.ask("paul:plain")[0] == 200


def test_open_doors_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    door = Door(
        tmp_path, Authority(tmp_path), metrics_listener="https://0.0.0.0:0", metrics_authentication_method="NONE"
    )
    try:
        assert door.ask()[0] == 200
    finally:
        door.close()
    assert [record.levelno for record in caplog.records if "event=open-door" in record.getMessage()] == [
        logging.WARNING
    ]


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("metrics_listener", "http://0.0.0.0:0", "plain text"),
        ("metrics_authentication_method", "BEARER", r"jwks\.endpoint\.url"),
        ("metrics_authentication_method", "NONE,BASIC", "NONE, BASIC"),
        ("metrics_listener", "ftp://0.0.0.0:0", r"metrics\.listener"),
        ("metrics_listener", "https://0.0.0.0:99999", r"metrics\.listener"),
        ("metrics_authentication_method", "KERBEROS", "NONE, BASIC"),
        ("listener.name.metrics.ssl.keystore.location", "/nowhere", "Cannot read"),
    ],
)
def test_what_cannot_be_served_is_told_at_the_start(tmp_path: Path, setting: str, value: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        Door(tmp_path, Authority(tmp_path), **{setting: value})


def test_addresses() -> None:
    assert metrics_address("https://[::1]:9404")[1:] == ("::1", 9404, "SASL_SSL")
    assert metrics_address("http://localhost:9404/")[1:] == ("localhost", 9404, "SASL_PLAINTEXT")
