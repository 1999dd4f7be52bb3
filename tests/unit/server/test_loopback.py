"""Connections over a listener of this machine alone are not paced; other listeners stay as the system has them."""

import socket
from collections.abc import Callable

import pytest

from headwater.server import listener as listener_module
from headwater.server import loopback
from headwater.server.loopback import send_unpaced
from headwater.server.node import Node


def congestion_control(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def test_connections_inherit_it_from_a_listener_of_this_machine():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        send_unpaced(listener)
        with socket.create_connection(listener.getsockname(), timeout=30):
            sock, _ = listener.accept()
            with sock:
                assert congestion_control(sock) == b"reno"


class Listener:
    """Notes which options are set: on a machine where Reno is the system's own choice, nothing else tells."""

    def __init__(self, host: str) -> None:
        self._host = host
        self.options: list[tuple[int, bytes]] = []

    def getsockname(self) -> tuple[str, int]:
        return self._host, 9092

    def setsockopt(self, _level: int, option: int, value: bytes) -> None:
        self.options.append((option, value))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1"])
def test_who_listens_on_this_machine_only_is_not_paced(host):
    listener = Listener(host)
    send_unpaced(listener)
    assert listener.options == [(socket.TCP_CONGESTION, b"reno")]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "12.7.0.1", "2001:db8::1", "::ffff:192.0.2.1"])
def test_who_can_be_reached_from_elsewhere_stays_as_the_system_has_it(host):
    listener = Listener(host)
    send_unpaced(listener)
    assert listener.options == []


def test_a_choice_that_is_not_allowed_is_done_without(monkeypatch):
    monkeypatch.setattr(loopback, "_UNPACED", b"nobody-has-this")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        before = congestion_control(listener)
        send_unpaced(listener)
        assert congestion_control(listener) == before


def test_the_broker_asks_for_it_before_anybody_connects(
    make_node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(listener_module, "send_unpaced", lambda sock: asked.append(sock.getsockname()[1]))
    node = make_node()
    assert asked == [endpoint.port for endpoint in node.endpoints]
