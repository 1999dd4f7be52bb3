"""A connection to one broker, for coroutines: opened, its versions negotiated, then many requests under way at once.

Answers come in the order of the requests. A request that gets none in time closes the link, because what would come
next could be the answer to it; then all requests under way fail, and each caller decides whether to ask again
elsewhere. Owned by one `Session`.
"""

import socket
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headwater._version import VERSION
from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.addresses import Address
from headwater.client.errors import ConnectionFailed, NotTrusted, RequestTimedOut, raise_for
from headwater.client.negotiation import VersionRange, choose_version
from headwater.client.protocol import RESPONSE_BYTES_MAX, ClientProtocol, Exchange
from headwater.client.reactor.kernel import Future, Kernel, TimedOut, Timer
from headwater.client.reactor.network import Dialer, NotSecured, Stream
from headwater.wire.api import API_NAMES, API_VERSIONS_KEY
from headwater.wire.errors import DecodeError
from headwater.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from headwater.wire.schema import Message

if TYPE_CHECKING:
    from headwater.base.security.sasl_client import Credentials

R = TypeVar("R", bound=Message)

_SOFTWARE_NAME: Final = "headwater"
# Of ApiVersions. v5 adds only which broker a client believes to have reached, which ours does not say; a broker that
# does not know it would have to be asked twice, at each connection.
_ASKED_FIRST: Final = 4
_RETIRED_AT: Final = 0.85  # of the time that a login holds


class _UnderWay:
    __slots__ = ("deadline", "exchange", "future", "sent_at", "timeout_ms")

    def __init__(
        self, exchange: Exchange[Any], future: Future[Any], sent_at: float, deadline: float, timeout_ms: int
    ) -> None:
        self.exchange = exchange
        self.future = future
        self.sent_at = sent_at
        self.deadline = deadline
        self.timeout_ms = timeout_ms


class Link:
    """Use `Link.open`. `versions` is what this broker offers, `features` what its cluster has finalized."""

    def __init__(self, kernel: Kernel, address: Address, client_id: str, request_timeout_ms: int) -> None:
        self.address = address
        self.versions: Mapping[int, VersionRange] = {}
        self.features: Mapping[str, int] = {}
        self._kernel = kernel
        self._request_timeout_ms = request_timeout_ms
        self._protocol = ClientProtocol(client_id)
        self._stream: Stream | None = None
        self._connected: Future[None] = Future()
        self._under_way: deque[_UnderWay] = deque()
        self._watch: Timer | None = None
        self._retirement: Timer | None = None
        self._is_mute = True  # the broker has answered nothing but which versions it speaks, and no login
        self._is_retired = False  # its login ends soon: what is under way is answered, and nothing more is begun

    @classmethod
    async def open(
        cls,
        kernel: Kernel,
        dialer: Dialer,
        address: Address,
        *,
        client_id: str,
        connect_timeout_ms: int = 10_000,
        request_timeout_ms: int = 30_000,
        credentials: "Credentials | None" = None,
    ) -> "Link":
        """Within `connect_timeout_ms` it is connected, has said which versions it speaks, and is logged in: a process
        that is stopped connects, too.
        """
        until = kernel.clock() + connect_timeout_ms / 1000
        link = cls(kernel, address, client_id, request_timeout_ms)
        link._stream = dialer.dial(address, link, RESPONSE_BYTES_MAX)
        try:
            await kernel.within(connect_timeout_ms / 1000, link._connected)
            rest_ms = round((until - kernel.clock()) * 1000)
            await link._negotiate(max(1, min(rest_ms, request_timeout_ms)))
            if credentials is not None:
                login = kernel.spawn(link._log_in(credentials, dialer), f"login {address}")
                await kernel.within(max(0.001, until - kernel.clock()), login)
        except TimedOut:
            link.close()
            raise ConnectionFailed(address, f"no connection within {connect_timeout_ms} ms") from None
        except BaseException:
            link.close()
            raise
        return link

    @property
    def is_open(self) -> bool:
        return self._stream is not None and self._connected.done and not self._is_retired

    @property
    def requests_under_way(self) -> int:
        return len(self._under_way)

    def call(
        self, request: Message, response_type: type[R], *, timeout_ms: int | None = None, at_most: int | None = None
    ) -> Future[R]:
        """Sends at once; the answer comes as the future's value. `timeout_ms` is for requests that a broker holds
        back.
        """
        return self._call(request, self.version_for(request, at_most), response_type, timeout_ms)

    def send_unanswered(self, request: Message, *, at_most: int | None = None) -> None:
        """Produce with acks=0: the broker says nothing to it."""
        if self._stream is None:
            raise ConnectionFailed(self.address, "the connection is closed")
        self._stream.write(self._protocol.start_unanswered(request, self.version_for(request, at_most)))

    @property
    def unsent_bytes(self) -> int:
        """What the socket has not taken yet."""
        return self._stream.unsent_bytes if self._stream is not None else 0

    def version_for(self, request: Message, at_most: int | None = None) -> int:
        """The version that a request of this kind will be sent in."""
        name = API_NAMES.get(request.KEY, f"API {request.KEY}")
        return choose_version(request.KEY, name, VersionRange(*request.VERSIONS), self.versions, at_most=at_most)

    def supports(self, request: type[Message]) -> bool:
        offered = self.versions.get(request.KEY)
        lowest, highest = request.VERSIONS
        return offered is not None and offered.lowest <= highest and lowest <= offered.highest

    def close(self, error: KafkaError | None = None) -> None:
        """Whoever still waits gets `error`."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._retirement is not None:
            self._retirement.cancel()
            self._retirement = None
        problem = error or ConnectionFailed(self.address, "the connection was closed")
        self._connected.fail(problem)
        while self._under_way:
            self._under_way.popleft().future.fail(problem)

    # What the stream tells

    def stream_connected(self) -> None:
        self._connected.resolve(None)

    def stream_frame(self, frame: memoryview) -> None:
        try:
            exchange = self._protocol.receive_frame(frame)
        except DecodeError as error:
            self.close(
                ConnectionFailed(
                    self.address, f"what answers there does not speak the Kafka protocol ({error.message})"
                )
            )
            return
        if self._is_mute and exchange.key != API_VERSIONS_KEY:
            self._is_mute = False
        self._under_way.popleft().future.resolve(exchange.response)
        if self._is_retired and not self._under_way:
            self.close()

    def stream_closed(self, error: Exception | None) -> None:
        self.close(self._failure(error))

    # Inside

    def _call(self, request: Message, version: int, response_type: type[R], timeout_ms: int | None) -> Future[R]:
        future: Future[R] = Future()
        if self._stream is None:
            future.fail(ConnectionFailed(self.address, "the connection is closed"))
            return future
        exchange, chunks = self._protocol.start(request, version, response_type)
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        now = self._kernel.clock()
        deadline = now + limit_ms / 1000
        self._under_way.append(_UnderWay(exchange, future, now, deadline, limit_ms))
        if self._watch is None or deadline < self._watch.at:
            self._watch_until(deadline)
        self._stream.write(chunks)
        return future

    async def _negotiate(self, timeout_ms: int) -> None:
        response = await self._ask_versions(_ASKED_FIRST, timeout_ms)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            spoken = {entry.api_key: VersionRange(entry.min_version, entry.max_version) for entry in response.api_keys}
            mine = VersionRange(*ApiVersionsRequest.VERSIONS)
            offered = {API_VERSIONS_KEY: spoken.get(API_VERSIONS_KEY, VersionRange(0, 0))}
            version = choose_version(API_VERSIONS_KEY, "ApiVersions", mine, offered)
            response = await self._ask_versions(version, timeout_ms)
        raise_for(response.error_code, f"{self.address} refused to say which versions it speaks")
        self.versions = {key.api_key: VersionRange(key.min_version, key.max_version) for key in response.api_keys}
        self.features = {feature.name: feature.max_version_level for feature in response.finalized_features}

    async def _log_in(self, credentials: "Credentials", dialer: Dialer) -> None:
        """A login that holds for a time only is not repeated here (KIP-368 would stop all other requests for it): the
        link is given up in time, when nothing is under way, and the next request opens another.
        """
        from headwater.client.reactor.login import has_token, log_in  # not for those who need none

        await has_token(self.address, credentials, self._kernel, dialer.post)
        lifetime_ms = await log_in(self.address, credentials, self.call)
        if lifetime_ms:
            self._retirement = self._kernel.at(self._kernel.clock() + lifetime_ms * _RETIRED_AT / 1000, self._retire)

    def _retire(self) -> None:
        self._retirement = None
        self._is_retired = True
        if not self._under_way:
            self.close()

    async def _ask_versions(self, version: int, timeout_ms: int) -> ApiVersionsResponse:
        request = ApiVersionsRequest(client_software_name=_SOFTWARE_NAME, client_software_version=VERSION)
        return await self._call(request, version, ApiVersionsResponse, timeout_ms)

    def _watch_until(self, deadline: float) -> None:
        """One timer per link: it looks at the earliest deadline, and again at what is the earliest then."""
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self._kernel.at(deadline, self._look_at_deadlines)

    def _look_at_deadlines(self) -> None:
        self._watch = None
        if not self._under_way:
            return
        earliest = min(self._under_way, key=lambda each: each.deadline)
        if earliest.deadline <= self._kernel.clock():
            self.close(RequestTimedOut(self.address, earliest.exchange.api, earliest.timeout_ms))
        else:
            self._watch_until(earliest.deadline)

    def _failure(self, error: Exception | None) -> KafkaError:
        if not self._connected.done:
            if isinstance(error, ConnectionRefusedError):
                return ConnectionFailed(self.address, "connection refused: nothing listens there", refused=True)
            if isinstance(error, socket.gaierror):
                return ConnectionFailed(
                    self.address, f"the name {self.address.host!r} cannot be resolved ({_text(error)})"
                )
        is_mute = self._is_mute and self._connected.done
        guess = "; is security.protocol that of the listener?" if is_mute else ""
        if isinstance(error, OSError):
            return ConnectionFailed(self.address, f"the connection broke ({_text(error)}){guess}", mute=is_mute)
        if isinstance(error, NotSecured):
            if error.is_final:
                return NotTrusted(self.address, str(error))
            return ConnectionFailed(self.address, str(error))
        if error is not None:
            return ConnectionFailed(self.address, f"what answers there does not speak the Kafka protocol ({error})")
        waits = self._under_way[0].exchange.api if self._under_way else None
        instead = f" instead of answering {waits}" if waits else ""
        return ConnectionFailed(self.address, f"the broker closed the connection{instead}{guess}", mute=is_mute)


def _text(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
