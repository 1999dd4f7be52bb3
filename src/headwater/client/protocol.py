"""One connection's side of the protocol, without I/O: requests become bytes, bytes become their responses.

A broker answers the requests of a connection in order, so the oldest unanswered request says what the next frame is.
Anything else than that (another correlation id, a frame nobody waits for, an absurd length) is a `DecodeError`, and the
connection is of no more use. Owns the correlation ids and the requests under way.
"""

from collections import deque
from typing import Any, Final, Generic, TypeVar

from headwater.base.errors import ErrorCode
from headwater.base.ports import Buffer
from headwater.wire.api import API_NAMES, API_VERSIONS_KEY
from headwater.wire.errors import DecodeError
from headwater.wire.framing import Frames, frame
from headwater.wire.headers import decode_response_header, encode_request_header
from headwater.wire.schema import Chunk, Message

R = TypeVar("R", bound=Message)

RESPONSE_BYTES_MAX: Final = 1 << 30  # a fetch of several brokers' worth; bounded all the same
_CORRELATION_IDS: Final = 1 << 31


class Exchange(Generic[R]):
    """A request under way, and later its response."""

    __slots__ = ("correlation_id", "key", "response", "response_type", "version")

    def __init__(self, key: int, version: int, correlation_id: int, response_type: type[R]) -> None:
        self.key = key
        self.version = version
        self.correlation_id = correlation_id
        self.response_type = response_type
        self.response: R | None = None

    @property
    def api(self) -> str:
        return API_NAMES.get(self.key, f"API {self.key}")


class ClientProtocol:
    def __init__(self, client_id: str, response_bytes_max: int = RESPONSE_BYTES_MAX) -> None:
        self._client_id = client_id
        self._frames = Frames(response_bytes_max)
        self._under_way: deque[Exchange[Any]] = deque()
        self._next_correlation_id = 0

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def start(self, request: Message, version: int, response_type: type[R]) -> tuple[Exchange[R], list[Chunk]]:
        """The bytes to send, and where their response will appear."""
        exchange = Exchange(request.KEY, version, self._take_correlation_id(), response_type)
        chunks = self._encode(request, version, exchange.correlation_id)
        self._under_way.append(exchange)
        return exchange, chunks

    def start_unanswered(self, request: Message, version: int) -> list[Chunk]:
        """The bytes of a request that gets no response: Produce with acks=0 is the only one."""
        return self._encode(request, version, self._take_correlation_id())

    def receive(self, data: bytes | memoryview) -> list[Exchange[Any]]:
        """Takes what came; gives the exchanges it completed, oldest first."""
        return [self.receive_frame(whole) for whole in self._frames.feed(data)]

    def receive_frame(self, whole: Buffer) -> Exchange[Any]:
        """The exchange that one whole frame completes. Its response keeps the frame: records are not copied."""
        if not self._under_way:
            raise DecodeError("a response came that no request asked for")
        exchange = self._under_way.popleft()
        exchange.response = _decode(exchange, whole)
        return exchange

    def _encode(self, request: Message, version: int, correlation_id: int) -> list[Chunk]:
        header = encode_request_header(request.KEY, version, correlation_id, self._client_id)
        return frame([header, *request.encode(version)])

    def _take_correlation_id(self) -> int:
        taken = self._next_correlation_id
        self._next_correlation_id = (taken + 1) % _CORRELATION_IDS
        return taken


def _decode(exchange: Exchange[R], whole: Buffer) -> R:
    correlation_id, position = decode_response_header(whole, exchange.key, exchange.version)
    if correlation_id != exchange.correlation_id:
        raise DecodeError(
            f"the response to {exchange.api} has correlation id {correlation_id}, its request had {exchange.correlation_id}"
        )
    version = exchange.version
    if exchange.key == API_VERSIONS_KEY and _error_code(whole, position) == ErrorCode.UNSUPPORTED_VERSION:
        version = 0  # a broker that does not know the version can only answer in the oldest
    return exchange.response_type.decode(whole, position, version)


def _error_code(whole: Buffer, position: int) -> int:
    return int.from_bytes(whole[position : position + 2], "big", signed=True)
