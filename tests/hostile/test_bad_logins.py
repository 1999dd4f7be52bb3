"""People who try passwords by the hundred, and handshakes that never end by the thousand, against a real broker: others
log in and are served meanwhile, and neither the log nor the memory grows with them.
"""

import re
import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from compat.support.broker import BrokerProcess, HeadwaterBroker
from compat.support.certificates import Authority
from compat.support.quick import lasting
from compat.support.raw import Raw, message
from headwater.client import Admin, Producer
from hostile.support.process import (
    WAIT_S,
    assert_no_complaint,
    connect_from,
    many_descriptors,
    memory_bytes,
    sockets,
    wait_for,
)

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
PASSWORD = "right"
LOGINS = lasting(500, 5000)
TRIERS = 10
HANDSHAKES = lasting(2300, 4000)  # of which 2000 at most wait
HANDSHAKE_BYTES_MAX = 100_000
CLAIMING = 1000
FLOOD_FROM = "127.0.0.2"
LINES_PER_SECOND = 20  # a second of the clock may have the end of one such second and the start of the next
PENDING_MAX = 2000

pytestmark = pytest.mark.timeout(lasting(300, 1800))


def start(directory: Path, protocol: str, **settings: str) -> HeadwaterBroker:
    broker = HeadwaterBroker(
        directory,
        {
            "listeners": f"PLAINTEXT://127.0.0.1:0,{protocol}://127.0.0.1:0",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.plain.allow.plaintext": "true",
            "sasl.jaas.config": f'{PLAIN} user_alice="{PASSWORD}";',
            **settings,
        },
    )
    broker.start()
    return broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    started = start(tmp_path, "SASL_PLAINTEXT")
    try:
        yield started
        assert_no_complaint(started)
    finally:
        started.kill()


def login(broker: BrokerProcess, protocol: str, **more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": protocol,
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": PASSWORD,
        **more,
    }


def try_to_log_in(broker: BrokerProcess, number: int) -> int:
    """The error code."""
    with Raw(broker.bootstrap) as connection:
        assert connection.call(message("sasl_handshake", 1, "SaslHandshakeRequest")(mechanism="PLAIN")).error_code == 0
        token = f"\0alice\0wrong-{number}".encode()
        answer = connection.call(message("sasl_authenticate", 1, "SaslAuthenticateRequest")(auth_bytes=token))
        assert connection.closed_by_peer()
        return int(answer.error_code)


def test_five_hundred_bad_logins_beside_a_healthy_client(broker: BrokerProcess) -> None:
    """They come as fast as ten can, some 500 a second where the machine is free: each waits for its late answer."""
    codes: list[int] = []

    def attack(which: int) -> None:
        codes.extend(try_to_log_in(broker, number) for number in range(which, LOGINS, TRIERS))

    before = sockets(broker)
    attackers = [threading.Thread(target=attack, args=(which,)) for which in range(TRIERS)]
    served = 0
    with Producer(login(broker, "SASL_PLAINTEXT")) as healthy:
        healthy.send("served", b"before").result(WAIT_S)
        for thread in attackers:
            thread.start()
        while any(thread.is_alive() for thread in attackers):
            healthy.send("served", b"meanwhile").result(WAIT_S)
            served += 1
            if served == 1:
                with Admin(login(broker, "SASL_PLAINTEXT")) as newcomer:
                    assert newcomer.list_topics(), "who knows the password logs in, too"
        for thread in attackers:
            thread.join()
    assert served > 0
    assert codes == [58] * LOGINS
    lines = [line for line in broker.log.splitlines() if "event=login-failed" in line]
    unsaid = sum(int(found[1]) for line in lines if (found := re.search(r"unsaid=(\d+)", line)))
    by_second = Counter(line[:19] for line in lines)
    assert max(by_second.values()) <= 2 * LINES_PER_SECOND, "a flood of logins is a flood of lines"
    assert len(lines) + unsaid <= LOGINS
    assert PASSWORD not in "\n".join(lines)
    assert not re.search(r"wrong-\d", broker.log)
    wait_for(lambda: sockets(broker) <= before, "their connections are closed")


@pytest.mark.parametrize("what", ["a length of 2 GiB", "an array of 2^31"])
def test_what_claims_much_before_a_login_costs_nothing(broker: BrokerProcess, what: str) -> None:
    """A thousand connections that have not logged in, and say how large their request is, or what is in it."""
    handshake = struct.pack(">hhihh", 17, 1, 1, -1, 5) + b"PLAIN"
    array = struct.pack(">hhih", 3, 1, 1, -1) + struct.pack(">i", 2**31 - 1)  # Metadata of so many topics
    data = {
        "a length of 2 GiB": struct.pack(">i", 2**31 - 1) + handshake,
        "an array of 2^31": struct.pack(">i", len(array)) + array,
    }[what]
    with ExitStack() as stack, Producer(login(broker, "SASL_PLAINTEXT")) as healthy:
        healthy.send("served", b"before").result(WAIT_S)
        assert stack.enter_context(many_descriptors(CLAIMING)) == CLAIMING, "ulimit -Hn is too low for this test"
        before = memory_bytes(broker)
        for _ in range(CLAIMING):
            sock = stack.enter_context(connect_from(FLOOD_FROM, broker))
            with suppress(ConnectionError):
                sock.sendall(data)
        healthy.send("served", b"meanwhile").result(WAIT_S)
        assert memory_bytes(broker) - before < 50 << 20


def test_handshakes_that_never_end_by_the_thousand(tmp_path: Path) -> None:
    """Half of a ClientHello each: a client with TLS and a login is served beside them, one that began before them and
    is slow may go on, and they cost little.
    """
    authority = Authority(tmp_path)
    broker = start(
        tmp_path / "broker",
        "SASL_SSL",
        **{"ssl.keystore.location": authority.pem("broker"), "ssl.truststore.location": authority.path},
    )
    hello = client_hello()
    with ExitStack() as stack:
        stack.callback(broker.kill)
        stack.enter_context(Admin(login(broker, "SASL_SSL", **{"ssl.ca.location": authority.path}))).list_topics()
        memory_before = memory_bytes(broker)
        slow = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=WAIT_S))
        slow.sendall(hello[: len(hello) // 2])
        assert stack.enter_context(many_descriptors(HANDSHAKES)) == HANDSHAKES, "ulimit -Hn is too low for this test"
        for _ in range(HANDSHAKES):
            sock = stack.enter_context(connect_from(FLOOD_FROM, broker))
            with suppress(ConnectionError):
                sock.sendall(hello[: len(hello) // 2])
        with Admin(login(broker, "SASL_SSL", **{"ssl.ca.location": authority.path})) as healthy:
            assert healthy.describe_cluster().brokers
        assert memory_bytes(broker) - memory_before < min(HANDSHAKES, PENDING_MAX) * HANDSHAKE_BYTES_MAX
        wait_for(lambda: sockets(broker) <= PENDING_MAX + 20, "the oldest are closed beyond the limit")
        slow.sendall(hello[len(hello) // 2 :])
        assert slow.recv(1) == b"\x16", "the TLS handshake of who was slow goes on"
        lines = [line for line in broker.log.splitlines() if "event=connection-closed" in line]
        assert 0 < max(Counter(line[:19] for line in lines if FLOOD_FROM in line).values()) <= 2 * LINES_PER_SECOND
        assert_no_complaint(broker)


def client_hello() -> bytes:
    """The first bytes that a client with TLS sends."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()
