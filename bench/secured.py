"""Security: what TLS and a login cost a client beside a plain listener of the same broker, logins per second, what a
flood of TLS handshakes does to others, and what a check of rights costs among 10,000 access rules.

Each scenario starts a broker with a second listener, SASL_SSL with SCRAM-SHA-512, and one user. Certificates are those
that `headwater up --secure` makes; Apache Kafka gets the same files.
"""

import base64
import hashlib
import hmac
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from bench.brokers import ALSO_LISTENER, ROOT, Broker, free_ports
from bench.counting_process import counting
from bench.replay import replay
from bench.report import LESS, MORE, Figure, Kind
from bench.requests import Broken, frame, string
from bench.rows import CLIENT_PARTITIONS, PARTITIONS, Bench, Figures, Scenario, check, small_frames

USER, PASSWORD, ITERATIONS = "bench", "bench-password", 4096
VALUE_BYTES, RECORDS = 1000, 300_000
LOGIN_THREADS, FLOOD_THREADS = 4, 4
RULES = 10_000
CHECKS = 200_000
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"


class Secured(NamedTuple):
    broker: Broker
    plain_port: int
    port: int  # of SASL_SSL
    authority: Path

    @property
    def client(self) -> dict[str, str]:
        """Settings of librdkafka."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }

    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority))


@contextmanager
def secured(bench: Bench) -> Iterator[Secured]:
    from headwater.cli.secure import prepare

    directory = bench.directory()
    files = prepare(directory.with_suffix(".secure"), datetime.now(UTC)).directory
    (port,) = free_ports(1)
    settings = [
        f"{ALSO_LISTENER}SASL_SSL://127.0.0.1:{port}",
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={files / 'server.pem'}",
        "sasl.enabled.mechanisms=SCRAM-SHA-512",
        f'listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config={_SCRAM} username="{USER}" password="{PASSWORD}";',
    ]
    with bench.start(directory, settings) as broker:
        _add_user(broker.port)
        bench.broker, outer = broker, bench.broker
        try:
            yield Secured(broker, broker.port, port, files / "ca.pem")
        finally:
            bench.broker = outer


def _add_user(port: int) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    how = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, ITERATIONS)
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
    wanted = UserScramCredentialUpsertion(USER, how, PASSWORD.encode())
    for future in admin.alter_user_scram_credentials([wanted]).values():
        future.result(60)


# TLS and a login, beside a plain listener


def clients(bench: Bench) -> Figures:
    """The limit is the same client on the plain listener of the same broker."""
    count = bench.count(RECORDS)
    with secured(bench) as broker:
        found: dict[str, list[float]] = {"produce": [], "consume": []}
        for port, settings in ((broker.plain_port, {}), (broker.port, broker.client)):
            with bench.topic(CLIENT_PARTITIONS) as topic:
                found["produce"].append(_run(settings, "produce", port, topic, count, VALUE_BYTES, "none"))
                check("records in the log", bench.produced(topic, CLIENT_PARTITIONS), count)
                found["consume"].append(_run(settings, "consume", port, topic, count, CLIENT_PARTITIONS))
    return {f"secured-{what}": Figure(rates[1], rates[0]) for what, rates in found.items()}


def _run(settings: dict[str, str], *arguments: object) -> float:
    command = [sys.executable, "-m", "bench.client", *map(str, arguments)]
    environment = {**os.environ, "BENCH_CLIENT": json.dumps(settings)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, env=environment)
    if done.returncode:
        raise Broken(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    told = json.loads(done.stdout)
    return float(told["records"] / told["seconds"])


# Logins


class Login:
    """SCRAM-SHA-512 from the client's side. What PBKDF2 makes of the password is kept: it is the client's work."""

    def __init__(self) -> None:
        self._salted: dict[tuple[bytes, int], bytes] = {}

    def run(self, sock: socket.socket) -> None:
        self._call(sock, frame(SASL_HANDSHAKE, 1, string("SCRAM-SHA-512")))
        nonce = base64.b64encode(os.urandom(18)).decode()
        bare = f"n={USER},r={nonce}"
        first = self._authenticate(sock, f"n,,{bare}".encode())
        fields = dict(part.split("=", 1) for part in first.decode().split(","))
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        known = self._salted.get((salt, iterations))
        if known is None:
            known = hashlib.pbkdf2_hmac("sha512", PASSWORD.encode(), salt, iterations)
            self._salted[salt, iterations] = known
        client_key = hmac.digest(known, b"Client Key", "sha512")
        without_proof = f"c=biws,r={fields['r']}"
        signed = ",".join((bare, first.decode(), without_proof)).encode()
        signature = hmac.digest(hashlib.sha512(client_key).digest(), signed, "sha512")
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        last = self._authenticate(sock, f"{without_proof},p={base64.b64encode(proof).decode()}".encode())
        if not last.startswith(b"v="):
            raise Broken(f"the login was refused: {last!r}")

    def _authenticate(self, sock: socket.socket, token: bytes) -> bytes:
        body = self._call(sock, frame(SASL_AUTHENTICATE, 0, struct.pack(">i", len(token)) + token))
        (error,) = struct.unpack_from(">h", body)
        if error:
            raise Broken(f"SaslAuthenticate: error {error}")
        at = 4 + max(0, struct.unpack_from(">h", body, 2)[0])
        (size,) = struct.unpack_from(">i", body, at)
        return body[at + 4 : at + 4 + size]

    def _call(self, sock: socket.socket, request: bytes) -> bytes:
        sock.sendall(request)
        (length,) = struct.unpack(">i", _exactly(sock, 4))
        return _exactly(sock, length)[4:]


def _exactly(sock: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = sock.recv(length - len(data))
        if not piece:
            raise Broken("the broker closed the connection")
        data += piece
    return data


def logins(bench: Bench) -> Figures:
    """Connection, TLS handshake and SCRAM, from the start to the end of each; the limit is without SCRAM."""
    with secured(bench) as broker:
        context, login = broker.context(), Login()

        def connect(*, logs_in: bool) -> None:
            with (
                socket.create_connection(("127.0.0.1", broker.port), 60) as plain,
                context.wrap_socket(plain, server_hostname="localhost") as sock,
            ):
                if logs_in:
                    login.run(sock)

        connect(logs_in=True)
        handshakes = _per_second(bench, lambda: connect(logs_in=False), LOGIN_THREADS)
        both = _per_second(bench, lambda: connect(logs_in=True), LOGIN_THREADS)
    return {"secured-logins": Figure(both, handshakes)}


def _per_second(bench: Bench, do: Callable[[], None], threads: int) -> float:
    counts = [0] * threads
    problems: list[Exception] = []
    ends = time.perf_counter() + bench.seconds(3)

    def run(which: int) -> None:
        try:
            while time.perf_counter() < ends:
                do()
                counts[which] += 1
        except (OSError, Broken) as problem:
            problems.append(problem)

    began = time.perf_counter()
    running = [threading.Thread(target=run, args=(which,)) for which in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if problems:
        raise Broken(str(problems[0]))
    return sum(counts) / (time.perf_counter() - began)


# A neighbour


def neighbour(bench: Bench) -> Figures:
    """p99 of small produce requests on the plain listener while others make TLS handshakes as fast as they can."""
    with secured(bench) as broker, bench.topic() as topic:
        small = small_frames(bench, topic)
        alone = replay(broker.plain_port, small, connections=1, depth=1, seconds=bench.seconds(1.5))
        with _flood(broker) as count:
            beside = replay(broker.plain_port, small, connections=1, depth=1, seconds=bench.seconds(1.5))
            shaken = count()
        check("records in the log", bench.produced(topic, PARTITIONS), alone.requests + beside.requests)
        if not shaken:
            raise Broken("no handshake came to its end")
    also = f"beside {shaken:,} handshakes; p50 {beside.p50_us / 1e3:.2f} ms"
    return {"flood-neighbour-p99": Figure(beside.p99_us / 1e3, alone.p99_us / 1e3, also)}


_FLOOD = """
import socket, ssl, sys, threading
port, trusted, threads = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
context = ssl.create_default_context(cafile=trusted)
counts = [0] * threads
def run(which):
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 60) as plain, context.wrap_socket(plain, server_hostname="localhost"):
                counts[which] += 1
        except OSError:
            pass
for which in range(threads):
    threading.Thread(target=run, args=(which,), daemon=True).start()
for _ in sys.stdin:
    print(sum(counts), flush=True)
"""


@contextmanager
def _flood(broker: Secured) -> Iterator[Callable[[], int]]:
    with counting(_FLOOD, broker.port, broker.authority, FLOOD_THREADS) as count:
        count()
        yield count


# Rights


def rights(bench: Bench) -> Figures:
    """Of the authorizer alone: what a request asks of it, in time of the processor. The limit is a dictionary's look-up
    of the same key.
    """
    from headwater.base.acls import Operation, Pattern, PatternType, Permission, ResourceType, Rule
    from headwater.broker.rights.authorizer import Authorizer
    from headwater.metadata.image import AclsSet, ClusterImage

    image = ClusterImage("bench")
    allowed = Rule("User:bench", "*", int(Operation.READ), int(Permission.ALLOW))
    for number in range(RULES):
        pattern = Pattern(int(ResourceType.TOPIC), int(PatternType.LITERAL), f"topic-{number}")
        image.apply(AclsSet(*pattern, (allowed,)))
    authorizer = Authorizer(lambda: image, frozenset(), allows_without_rules=False)
    asked = [
        ("User:bench", "127.0.0.1", int(Operation.READ), int(ResourceType.TOPIC), f"topic-{n}") for n in range(100)
    ]
    began = time.process_time()
    if not all(authorizer.allows(*each) for each in asked):
        raise Broken("a rule is not found")
    first_us = (time.process_time() - began) / len(asked) * 1e6
    rounds = bench.count(CHECKS) // len(asked)
    allows, table = authorizer.allows, dict.fromkeys(asked, True)
    began = time.process_time()
    for _ in range(rounds):
        for principal, host, operation, kind, name in asked:
            allows(principal, host, operation, kind, name)
    took_us = (time.process_time() - began) / (rounds * len(asked)) * 1e6
    began = time.process_time()
    for _ in range(rounds):
        for principal, host, operation, kind, name in asked:
            table.get((principal, host, operation, kind, name))
    limit_us = (time.process_time() - began) / (rounds * len(asked)) * 1e6
    also = f"{first_us:,.1f} us each for the first, with the index of all rules"
    return {"rights-10000": Figure(took_us, limit_us, also)}


def secured_scenarios() -> list[Scenario]:
    plain = "the plain listener"
    return [
        Scenario(
            (
                Kind("secured-produce", "librdkafka produce, 1000 B, TLS and SCRAM", "records/s", MORE, plain),
                Kind("secured-consume", "librdkafka consume, 1000 B, TLS and SCRAM", "records/s", MORE, plain),
            ),
            clients,
            2,
            False,
        ),
        Scenario(
            (
                Kind(
                    "secured-logins", "SCRAM logins over new TLS connections", "logins/s", MORE, "TLS handshakes alone"
                ),
            ),
            logins,
            2,
            False,
        ),
        Scenario(
            (
                Kind(
                    "flood-neighbour-p99", "p99 of small requests beside a flood of TLS handshakes", "ms", LESS, "alone"
                ),
            ),
            neighbour,
            2,
            False,
        ),
        Scenario(
            (Kind("rights-10000", "a check of rights among 10,000 access rules", "us", LESS, "a dictionary", 1),),
            rights,
            3,
            False,
            False,
        ),
    ]
