"""What kazoo sees of a TLS connection: data, and nothing else that comes over the wire."""

import socket
import ssl
from typing import Any

import pytest
from kazoo.handlers.threading import SequentialThreadingHandler

from headwater.server.zookeeper.kazoo_tls import TlsHandler, TlsStream


class Records:
    """An SSL socket in front of a real one: a byte on the wire is a record, and what it holds is said here."""

    def __init__(self, wire: socket.socket, *records: bytes | Exception) -> None:
        self._wire = wire
        self._records = list(records)

    def recv(self, _size: int) -> bytes:
        try:
            self._wire.recv(1)
        except BlockingIOError:
            raise ssl.SSLWantReadError from None
        record = self._records.pop(0)
        if isinstance(record, Exception):
            raise record
        return record if record else self.recv(_size)

    def fileno(self) -> int:
        return self._wire.fileno()


@pytest.fixture
def wires() -> Any:
    near, far = socket.socketpair()
    near.setblocking(False)
    with near, far:
        yield near, far


def stream(*given: Any) -> Any:
    return TlsStream(Records(*given))  # type: ignore[arg-type]


def test_what_is_buffered_is_told_of_without_the_wire(wires: "tuple[socket.socket, socket.socket]") -> None:
    near, far = wires
    one = stream(near, b"first", b"second")
    far.send(b"12")
    handler = TlsHandler()
    assert handler.select([one], [], [], 60)[0] == [one]
    assert one.recv(5) == b"first"
    assert handler.select([one], [], [], 60)[0] == [one]
    assert one.recv(99) == b"second"
    assert handler.select([one], [], [], 0)[0] == []
    with pytest.raises(ssl.SSLWantReadError):
        one.recv(1)


def test_a_record_without_data_is_no_answer(wires: "tuple[socket.socket, socket.socket]") -> None:
    """Such as a ticket: kazoo would wait for the rest of an answer that nobody sends."""
    near, far = wires
    one = stream(near, b"", b"data")
    far.send(b"1")
    assert TlsHandler().select([one], [], [], 0)[0] == []
    far.send(b"2")
    assert TlsHandler().select([one], [], [], 60)[0] == [one]


def test_a_problem_comes_behind_the_data_before_it(wires: "tuple[socket.socket, socket.socket]") -> None:
    near, far = wires
    one = stream(near, b"data", ConnectionResetError("gone"))
    far.send(b"12")
    assert TlsHandler().select([one], [], [], 60)[0] == [one]
    assert one.recv(99) == b"data"
    with pytest.raises(ConnectionResetError):
        one.recv(99)


def test_others_are_told_of_beside_it(wires: "tuple[socket.socket, socket.socket]") -> None:
    near, far = wires
    one = stream(near, b"data")
    other, sender = socket.socketpair()
    with other, sender:
        sender.send(b"x")
        far.send(b"1")
        found = TlsHandler().select([one, other], [], [], 60)[0]
        assert found[0] in (one, other)
        while one not in found:
            found = TlsHandler().select([one, other], [], [], 60)[0]
        assert other in TlsHandler().select([one, other], [], [], 60)[0]


@pytest.mark.parametrize(("connect_s", "handshake_s"), [(0.5, 0.5), (60.0, 10.0), (None, 10.0)])
def test_the_handshake_takes_no_longer_than_the_connection_may(
    connect_s: float | None, handshake_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that accepts and then says nothing would cost the session before the next one is tried."""
    timeouts: list[float] = []

    class Silent:
        def settimeout(self, timeout_s: float) -> None:
            timeouts.append(timeout_s)

        def close(self) -> None:
            pass

    class Context:
        def current(self) -> "Context":
            return self

        def wrap_socket(self, _plain: Any, server_hostname: str) -> Any:
            raise TimeoutError("timed out")

    monkeypatch.setattr(SequentialThreadingHandler, "create_connection", lambda _self, **_options: Silent())
    handler = TlsHandler(Context())  # type: ignore[arg-type]
    with pytest.raises(TimeoutError):
        handler.create_connection(address=("h", 1), hostname="h", timeout=connect_s)
    assert timeouts == [handshake_s]
    assert handler.problem == "no TLS with h: timed out"
