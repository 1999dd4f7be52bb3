"""A blocking connection to one broker: a socket around `ClientProtocol`, opened with the versions negotiated.

Every wait has a limit. After a timeout, a broken stream or a response that makes no sense the connection is closed:
what would come next could be the answer to something else. Owned by one thread.
"""

import socket
import time
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from headwater._version import VERSION
from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.addresses import Address
from headwater.client.errors import ConnectionFailed, RequestTimedOut, raise_for
from headwater.client.negotiation import VersionRange, choose_version
from headwater.client.protocol import ClientProtocol, Exchange
from headwater.wire.api import API_NAMES, API_VERSIONS_KEY
from headwater.wire.errors import DecodeError
from headwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.wire.schema import Message

R = TypeVar("R", bound=Message)

_RECEIVE_BYTES: Final = 256 * 1024
_SOFTWARE_NAME: Final = "headwater"


class Connection:
    """Use `Connection.open`. `versions` is what this broker offers."""

    def __init__(self, address: Address, connected: socket.socket, client_id: str, request_timeout_ms: int) -> None:
        self.address = address
        self.versions: Mapping[int, VersionRange] = {}
        self._socket: socket.socket | None = connected
        self._protocol = ClientProtocol(client_id)
        self._request_timeout_ms = request_timeout_ms
        self._buffer = bytearray(_RECEIVE_BYTES)

    @classmethod
    def open(
        cls, address: Address, *, client_id: str, connect_timeout_ms: int = 10_000, request_timeout_ms: int = 30_000
    ) -> "Connection":
        """Connects to the first of the host's addresses that answers, and negotiates."""
        try:
            connected = socket.create_connection(address, connect_timeout_ms / 1000)
        except OSError as error:
            raise _cannot_connect(address, error, connect_timeout_ms) from error
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = cls(address, connected, client_id, request_timeout_ms)
        try:
            connection._negotiate()
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def call(
        self, request: Message, response_type: type[R], *, timeout_ms: int | None = None, at_most: int | None = None
    ) -> R:
        """Sends and waits. `timeout_ms` is for requests that the broker itself may hold back for long."""
        return self.finish(self.start(request, response_type, at_most=at_most), timeout_ms=timeout_ms)

    def start(self, request: Message, response_type: type[R], *, at_most: int | None = None) -> Exchange[R]:
        """Sends only: so that several brokers can work at the same time. `finish` in the order of starts.

        `at_most` is for callers who need an older shape of a message.
        """
        exchange, chunks = self._protocol.start(request, self.version_for(request, at_most), response_type)
        self._send(chunks)
        return exchange

    def finish(self, exchange: Exchange[R], *, timeout_ms: int | None = None) -> R:
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + limit_ms / 1000
        while exchange.response is None:
            self._receive(exchange, deadline, limit_ms)
        return exchange.response

    def send_unanswered(self, request: Message) -> None:
        self._send(self._protocol.start_unanswered(request, self.version_for(request)))

    def version_for(self, request: Message, at_most: int | None = None) -> int:
        """The version that a request of this kind will be sent in."""
        name = API_NAMES.get(request.KEY, f"API {request.KEY}")
        return choose_version(request.KEY, name, VersionRange(*request.VERSIONS), self.versions, at_most=at_most)

    def supports(self, request: type[Message]) -> bool:
        offered = self.versions.get(request.KEY)
        lowest, highest = request.VERSIONS
        return offered is not None and offered.lowest <= highest and lowest <= offered.highest

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _negotiate(self) -> None:
        response = self._ask_versions(ApiVersionsRequest.VERSIONS[1])
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            spoken = {entry.api_key: VersionRange(entry.min_version, entry.max_version) for entry in response.api_keys}
            mine = VersionRange(*ApiVersionsRequest.VERSIONS)
            offered = {API_VERSIONS_KEY: spoken.get(API_VERSIONS_KEY, VersionRange(0, 0))}
            response = self._ask_versions(choose_version(API_VERSIONS_KEY, "ApiVersions", mine, offered))
        raise_for(response.error_code, f"{self.address} refused to say which versions it speaks")
        self.versions = {key.api_key: VersionRange(key.min_version, key.max_version) for key in response.api_keys}

    def _ask_versions(self, version: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name=_SOFTWARE_NAME, client_software_version=VERSION)
        exchange, chunks = self._protocol.start(request, version, ApiVersionsResponse)
        self._send(chunks)
        return self.finish(exchange)

    def _send(self, chunks: list[Any]) -> None:
        connected = self._connected()
        try:
            connected.settimeout(self._request_timeout_ms / 1000)
            connected.sendall(b"".join(chunks))
        except OSError as error:
            self.close()
            raise ConnectionFailed(self.address, f"the connection broke while sending ({_text(error)})") from error

    def _receive(self, exchange: Exchange[Any], deadline: float, limit_ms: int) -> None:
        """Reads once, up to the buffer's size."""
        connected = self._connected()
        remaining = deadline - time.monotonic()
        try:
            if remaining <= 0:
                raise TimeoutError
            connected.settimeout(remaining)
            count = connected.recv_into(self._buffer)
        except TimeoutError:
            self.close()
            raise RequestTimedOut(self.address, exchange.api, limit_ms) from None
        except OSError as error:
            self.close()
            raise ConnectionFailed(self.address, f"the connection broke ({_text(error)})") from error
        if count == 0:
            self.close()
            raise ConnectionFailed(
                self.address, f"the broker closed the connection instead of answering {exchange.api}"
            )
        try:
            self._protocol.receive(memoryview(self._buffer)[:count])
        except DecodeError as error:
            self.close()
            raise ConnectionFailed(
                self.address, f"what answers there does not speak the Kafka protocol ({error.message})"
            ) from error

    def _connected(self) -> socket.socket:
        if self._socket is None:
            raise ConnectionFailed(self.address, "the connection is closed")
        return self._socket


def _cannot_connect(address: Address, error: OSError, connect_timeout_ms: int) -> KafkaError:
    if isinstance(error, ConnectionRefusedError):
        return ConnectionFailed(address, "connection refused: nothing listens there", refused=True)
    if isinstance(error, TimeoutError):
        return ConnectionFailed(address, f"no connection within {connect_timeout_ms} ms")
    if isinstance(error, socket.gaierror):
        return ConnectionFailed(address, f"the name {address.host!r} cannot be resolved ({_text(error)})")
    return ConnectionFailed(address, _text(error))


def _text(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
