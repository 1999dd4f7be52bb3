"""The body of a request while it comes, for handlers that answer before it has ended.

A connection makes one for the requests that its server was told to stream, and gives `receive`: the next bytes, none at
the end. One handler reads it. Whatever it keeps of an unfinished line is counted among the bytes that all connections
hold; the connection closes the stream when the request is answered.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from headwater.web.messages import HttpError

_ALWAYS_HELD_BYTES: Final = 64 * 1024  # also when all connections together hold too much


class BodyLost(ConnectionResetError):
    """The client went away, or was silent for too long, in the middle of a body: nobody is left to be answered."""


class BodyStream:
    """`receive` raises BodyLost, and HttpError for what is no body."""

    def __init__(self, receive: Callable[[], Awaitable[bytes]], count: Callable[[int], bool]) -> None:
        """`count` is told how many more bytes are held, and says whether that is still within the limit of all."""
        self._receive, self._count = receive, count
        self.held_bytes = 0
        self.has_ended = False

    async def pieces(self) -> AsyncIterator[bytes]:
        """As they come, to the end of the body."""
        while not self.has_ended:
            piece = await self._receive()
            if piece:
                yield piece
            else:
                self.has_ended = True

    async def lines(self, line_bytes_max: int) -> AsyncIterator[bytes]:
        """Without their line feeds; also the last one, if it has none. Raises HttpError 413 for a line that is too
        long.
        """
        rest = bytearray()
        async for piece in self.pieces():
            *complete, last = piece.split(b"\n")
            for each in complete:
                line = bytes(rest) + each
                rest.clear()
                _check_line(len(line), line_bytes_max)
                yield line
            rest += last
            self._hold(len(rest))
            _check_line(len(rest), line_bytes_max)
        if rest:
            yield bytes(rest)

    def close(self) -> None:
        """Nothing of it is held any more."""
        self._count(-self.held_bytes)
        self.held_bytes = 0

    def _hold(self, size_bytes: int) -> None:
        more, self.held_bytes = size_bytes - self.held_bytes, size_bytes
        if not self._count(more) and size_bytes > _ALWAYS_HELD_BYTES:
            raise HttpError(503, "The server holds too many unanswered requests; try again")


def _check_line(size_bytes: int, line_bytes_max: int) -> None:
    if size_bytes > line_bytes_max:
        raise HttpError(413, f"A line of the body may have at most {line_bytes_max} bytes")
