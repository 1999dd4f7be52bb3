"""The blocking connection against a listener of the test's own: what it says when things go wrong."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from headwater.base.errors import ErrorCode
from headwater.client.addresses import Address
from headwater.client.connection import Connection
from headwater.client.errors import ConnectionFailed, RequestTimedOut
from headwater.wire.framing import Frames, frame
from headwater.wire.headers import decode_request_header, response_header_bytes
from headwater.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from headwater.wire.messages.metadata import MetadataRequest, MetadataResponse

Serve = Callable[[socket.socket], None]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def _serve(listener: socket.socket, serve: Serve) -> Address:
    def accept() -> None:
        connected, _ = listener.accept()
        with connected:
            serve(connected)

    threading.Thread(target=accept, daemon=True).start()
    return Address("127.0.0.1", listener.getsockname()[1])


def _requests(connected: socket.socket) -> Iterator[tuple[int, int, int]]:
    frames = Frames()
    while data := connected.recv(65536):
        for whole in frames.feed(data):
            header = decode_request_header(whole)
            yield header.api_key, header.api_version, header.correlation_id


def _broker(connected: socket.socket, *, api_versions_max: int = 5, answer_metadata: bool = True) -> None:
    """Just enough of one: it refuses versions of ApiVersions above its own, as brokers do."""
    keys = [
        ApiVersion(api_key=3, min_version=0, max_version=9),
        ApiVersion(api_key=18, min_version=0, max_version=api_versions_max),
    ]
    for key, version, correlation_id in _requests(connected):
        if key == 18:
            refused = version > api_versions_max
            response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION if refused else 0, api_keys=keys)
            body = response.encode(0 if refused else version)
        elif answer_metadata:
            body = MetadataResponse(controller_id=version).encode(version)
        else:
            continue
        connected.sendall(b"".join(frame([response_header_bytes(key, version, correlation_id), *body])))


@pytest.mark.parametrize("api_versions_max", [0, 2, 3, 5])
def test_versions_are_negotiated_with_old_and_new_brokers(listener: socket.socket, api_versions_max: int) -> None:
    address = _serve(listener, lambda connected: _broker(connected, api_versions_max=api_versions_max))
    connection = Connection.open(address, client_id="t")
    try:
        assert connection.versions[18].highest == api_versions_max
        response = connection.call(MetadataRequest(topics=[]), MetadataResponse)
        assert response.controller_id == 9  # ours go to 13, the broker's to 9
    finally:
        connection.close()


def test_refused_says_that_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(
        ConnectionFailed, match=f"127.0.0.1:{port}: connection refused: nothing listens there"
    ) as caught:
        Connection.open(Address("127.0.0.1", port), client_id="t")
    assert caught.value.refused


def test_a_name_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", refuse)
    with pytest.raises(ConnectionFailed, match="the name 'nowhere' cannot be resolved"):
        Connection.open(Address("nowhere", 9092), client_id="t")


def test_a_peer_that_hangs_up_is_reported(listener: socket.socket) -> None:
    address = _serve(listener, lambda connected: connected.recv(1000) and None)
    with pytest.raises(ConnectionFailed, match="closed the connection instead of answering ApiVersions"):
        Connection.open(address, client_id="t")


def test_a_peer_that_is_no_broker_is_reported(listener: socket.socket) -> None:
    address = _serve(listener, lambda connected: connected.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    with pytest.raises(ConnectionFailed, match="does not speak the Kafka protocol"):
        Connection.open(address, client_id="t")


def test_a_silent_broker_times_out_and_the_connection_is_closed(listener: socket.socket) -> None:
    address = _serve(listener, lambda connected: _broker(connected, answer_metadata=False))
    connection = Connection.open(address, client_id="t")
    with pytest.raises(RequestTimedOut, match="no answer to Metadata within 30 ms"):
        connection.call(MetadataRequest(topics=[]), MetadataResponse, timeout_ms=30)
    assert not connection.is_open
    with pytest.raises(ConnectionFailed, match="the connection is closed"):
        connection.call(MetadataRequest(topics=[]), MetadataResponse)
