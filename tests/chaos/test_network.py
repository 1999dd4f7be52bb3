"""The proxy itself: links carry, are silent when cut, carry what waited when healed, and tell brokers apart."""

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from chaos.support.network import EVERYONE, HOST, Link, Network, who_opens
from headwater.wire.headers import encode_request_header

SILENCE_S = 0.2
WAIT_S = 120


def opening(client_id: str) -> bytes:
    header = encode_request_header(3, 12, 1, client_id)
    return len(header).to_bytes(4) + header


@pytest.fixture
def network() -> Iterator[Network]:
    network = Network()
    yield network
    network.close()


@pytest.fixture
def echo() -> Iterator[tuple[str, int]]:
    """A server that sends back what it gets."""
    listener = socket.create_server((HOST, 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            while piece := connection.recv(65536):
                connection.sendall(piece)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=serve, args=(connection,)))
            threads[-1].start()

    threads: list[threading.Thread] = []
    acceptor = threading.Thread(target=accept)
    acceptor.start()
    yield listener.getsockname()
    listener.shutdown(socket.SHUT_RDWR)
    acceptor.join()
    listener.close()
    for thread in threads:
        thread.join()


def connect(link: Link) -> socket.socket:
    return socket.create_connection((HOST, link.port), WAIT_S)


def answer(connection: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        piece = connection.recv(count - len(got))
        assert piece, "it was closed"
        got += piece
    return got


def is_silent(connection: socket.socket) -> bool:
    connection.settimeout(SILENCE_S)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    finally:
        connection.settimeout(WAIT_S)
    return False


def test_a_link_carries_much_both_ways(network: Network, echo: tuple[str, int]) -> None:
    with connect(network.link(echo)) as connection:
        sent = bytes(range(256)) * 20_000
        sender = threading.Thread(target=connection.sendall, args=(sent,))
        sender.start()
        assert answer(connection, len(sent)) == sent
        sender.join()


def test_a_cut_link_is_silent_and_a_healed_one_carries_what_waited(network: Network, echo: tuple[str, int]) -> None:
    link = network.link(echo)
    with connect(link) as old:
        old.sendall(b"a")
        assert answer(old, 1) == b"a"
        link.cut()
        with connect(link) as new:
            old.sendall(b"b")
            new.sendall(b"c")
            assert is_silent(old)
            assert is_silent(new)
            link.heal()
            assert answer(old, 1) == b"b"
            assert answer(new, 1) == b"c"


def test_a_link_is_cut_for_one_broker_only(network: Network, echo: tuple[str, int]) -> None:
    link = network.link(echo, is_named=True)
    link.cut("broker-2")
    with connect(link) as one, connect(link) as two, connect(link) as forwarding:
        for connection, name in ((one, "broker-1"), (two, "broker-2"), (forwarding, "__forwarded-broker-2")):
            connection.sendall(opening(name))
        assert answer(one, len(opening("broker-1"))) == opening("broker-1")
        assert is_silent(two)
        assert is_silent(forwarding)
        link.heal("broker-2")
        assert answer(two, len(opening("broker-2"))) == opening("broker-2")


def test_the_end_of_one_side_is_told_to_the_other(network: Network, echo: tuple[str, int]) -> None:
    with connect(network.link(echo)) as connection:
        connection.sendall(b"last words")
        connection.shutdown(socket.SHUT_WR)
        assert answer(connection, 10) == b"last words"
        assert connection.recv(1) == b""


def test_nobody_at_the_other_end_closes_the_connection(network: Network) -> None:
    with socket.create_server((HOST, 0)) as nobody:
        target = nobody.getsockname()
    with connect(network.link(target)) as connection, contextlib.suppress(ConnectionResetError):
        assert connection.recv(1) == b""


@pytest.mark.parametrize(
    ("sent", "who"),
    [
        (b"", None),
        (opening("broker-2")[:20], None),
        (opening("broker-2"), "broker-2"),
        (opening("broker-12") + b"more", "broker-12"),
        (opening("__forwarded-broker-3"), "broker-3"),
        (opening("__forwarded-broker-3 User%3Aalice a-client-with-a-name-that-is-long"), "broker-3"),
        (opening("rdkafka"), EVERYONE),
        (opening("x" * 200), EVERYONE),
    ],
)
def test_who_opens_a_connection(sent: bytes, who: str | None) -> None:
    assert who_opens(sent[:64]) == who
