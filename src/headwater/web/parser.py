"""HTTP/1.1 requests out of bytes, without I/O: `feed` takes what came, `next_request` gives a whole request or None.

A request that is to be streamed is given as soon as its head is there, without a body; `next_piece` gives that. One
that names a length within the limit of bodies is read whole all the same: many clients send all of a body before they
read, and an answer that nobody reads meanwhile would stop both.

Any split of the same bytes gives the same requests. What two readers could understand differently is refused, not
guessed: a length beside chunks, two lengths, folded header lines, a space before the colon, a line feed alone. After an
error the parser is finished, and so is its connection.
"""

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Final
from urllib.parse import unquote_to_bytes

from headwater.web.limits import Limits
from headwater.web.messages import Headers, HttpError, Request

_TOKEN: Final = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_REQUEST_LINE: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32}) ([!-~]+) HTTP/1\.([01])")
_BAD_IN_VALUE: Final = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_ABSOLUTE: Final = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CHUNK_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\x00-\x08\x0a-\x1f\x7f]*)?")
_CHUNK_LINE_BYTES_MAX: Final = 1024
_LENGTH_DIGITS_MAX: Final = 18


class _State(Enum):
    HEAD = auto()
    BODY = auto()  # of a known length
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()  # and the line end behind it
    TRAILERS = auto()
    FAILED = auto()


class RequestParser:
    """Owned by one connection."""

    def __init__(self, limits: Limits, peer: str = "", is_streamed: Callable[[Request], bool] | None = None) -> None:
        """`is_streamed` is asked for each request when its head has come, but for those with a short body."""
        self._limits = limits
        self._is_streamed = is_streamed or (lambda _: False)
        self._streams = False
        self._peer = peer
        self._buffer = bytearray()
        self._searched = 0  # no line end before that place of the buffer
        self._state = _State.HEAD
        self._head: Request | None = None
        self._missing_bytes = 0
        self._body = bytearray()
        self._continue_due = False

    def feed(self, data: bytes) -> None:
        self._buffer += data

    @property
    def is_between_requests(self) -> bool:
        """Nothing of a next request has come."""
        return self._state is _State.HEAD and not self._buffer.strip(b"\r\n")

    @property
    def is_streaming(self) -> bool:
        """The body of the last request is taken by `next_piece`, and has not ended."""
        return self._streams

    @property
    def buffered_bytes(self) -> int:
        return len(self._buffer) + len(self._body)

    def take_continue(self) -> bool:
        """Whether the client waits for `100 Continue` before it sends the body. True once."""
        due, self._continue_due = self._continue_due, False
        return due

    def take_rest(self) -> bytes:
        """What has come behind the last request, for another protocol that goes on from here."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def next_request(self) -> Request | None:
        """The next whole request; None until more has come. Raises HttpError for what is none."""
        assert not self.is_streaming, "the body of the last request has not been read"
        try:
            while True:
                match self._state:
                    case _State.HEAD:
                        if not self._take_head():
                            return None
                        if self._streams:
                            return self._head
                    case _State.BODY:
                        return self._take_body()
                    case _State.CHUNK_SIZE:
                        if not self._take_chunk_size():
                            return None
                    case _State.CHUNK_DATA:
                        if not self._take_chunk():
                            return None
                    case _State.TRAILERS:
                        if not self._take_trailers():
                            return None
                        return self._finish()
                    case _State.FAILED:
                        return None
        except HttpError:
            self._fail()
            raise

    def next_piece(self) -> bytes | None:
        """More of the body that is streamed, none at its end; None until more has come. Raises HttpError for what is no
        body.
        """
        try:
            while True:
                match self._state:
                    case _State.BODY:
                        if piece := self._take_piece():
                            return piece
                        return None if self._missing_bytes else self._finish().body
                    case _State.CHUNK_SIZE:
                        if not self._take_chunk_size():
                            return None
                    case _State.CHUNK_DATA:
                        if self._missing_bytes:
                            return self._take_piece() or None
                        if not self._take_chunk():
                            return None
                    case _State.TRAILERS:
                        return self._finish().body if self._take_trailers() else None
                    case _State.HEAD | _State.FAILED:
                        return b""
        except HttpError:
            self._fail()
            raise

    def _take_piece(self) -> bytes:
        piece = bytes(self._buffer[: self._missing_bytes])
        del self._buffer[: len(piece)]
        self._missing_bytes -= len(piece)
        return piece

    def _fail(self) -> None:
        self._state = _State.FAILED
        self._buffer.clear()
        self._body.clear()

    def _take_until(self, end: bytes, bytes_max: int, what: str) -> bytes | None:
        """What stands before `end`, without it; None if that has not come yet."""
        place = self._buffer.find(end, max(0, self._searched - len(end) + 1), bytes_max + len(end))
        if place == -1:
            if len(self._buffer) >= bytes_max + len(end):
                raise HttpError(
                    431 if what == "header" else 400, f"The {what} of the request is larger than {bytes_max} bytes"
                )
            self._searched = len(self._buffer)
            return None
        taken = bytes(self._buffer[:place])
        del self._buffer[: place + len(end)]
        self._searched = 0
        return taken

    def _take_head(self) -> bool:
        while self._buffer[:2] == b"\r\n":  # some clients send an empty line behind a body
            del self._buffer[:2]
            self._searched = 0
        if self._buffer == b"\r":
            return False
        head = self._take_until(b"\r\n\r\n", self._limits.head_bytes_max, "header")
        if head is None:
            return False
        first, *lines = head.split(b"\r\n")
        match = _REQUEST_LINE.fullmatch(first)
        if match is None:
            raise HttpError(505 if re.search(rb" HTTP/[02-9]", first) else 400, "The request line is malformed")
        headers = Headers(self._fields(lines))
        target = match[2].decode("ascii")
        segments, query_string = split_target(target)
        self._head = Request(
            method=match[1].decode("ascii"),
            target=target,
            segments=segments,
            query_string=query_string,
            headers=headers,
            http_minor=int(match[3]),
            peer=self._peer,
        )
        if self._head.http_minor and len(headers.all("host")) != 1:
            raise HttpError(400, "The request must have one Host header")
        self._frame(self._head)
        return True

    def _fields(self, lines: list[bytes]) -> tuple[tuple[str, str], ...]:
        if len(lines) > self._limits.header_fields_max:
            raise HttpError(431, f"The request has more than {self._limits.header_fields_max} header fields")
        fields = []
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon or not _TOKEN.fullmatch(name) or _BAD_IN_VALUE.search(value):
                raise HttpError(400, "A header line is malformed")
            fields.append((name.decode("ascii"), value.strip(b" \t").decode("latin-1")))
        return tuple(fields)

    def _frame(self, head: Request) -> None:
        """How the body is told apart from what follows it."""
        codings, lengths = head.headers.listed("transfer-encoding"), head.headers.all("content-length")
        if codings:
            if lengths or codings != ["chunked"] or not head.http_minor:
                raise HttpError(
                    501 if codings != ["chunked"] else 400, "Transfer-Encoding can only be chunked, without a length"
                )
            self._streams = self._is_streamed(head)
            self._state = _State.CHUNK_SIZE
        else:
            self._missing_bytes = self._length(lengths)
            self._streams = self._missing_bytes > self._limits.body_bytes_max and self._is_streamed(head)
            self._check_body_bytes(self._missing_bytes)
            self._state = _State.BODY
        expects = head.headers.listed("expect")
        if expects and expects != ["100-continue"]:
            raise HttpError(417, "Only 100-continue can be expected")
        self._continue_due = bool(expects) and bool(head.http_minor) and (bool(codings) or self._missing_bytes > 0)

    def _length(self, lengths: list[str]) -> int:
        if not lengths:
            return 0
        text = lengths[0]
        if len(lengths) > 1 or not (text.isascii() and text.isdigit() and len(text) <= _LENGTH_DIGITS_MAX):
            raise HttpError(400, "Content-Length is malformed")
        return int(text)

    def _check_body_bytes(self, size_bytes: int) -> None:
        if size_bytes > self._limits.body_bytes_max and not self._streams:
            raise HttpError(413, f"The body of a request may have at most {self._limits.body_bytes_max} bytes")

    def _take_body(self) -> Request | None:
        if len(self._buffer) < self._missing_bytes:
            return None
        self._body += self._buffer[: self._missing_bytes]
        del self._buffer[: self._missing_bytes]
        return self._finish()

    def _take_chunk_size(self) -> bool:
        line = self._take_until(b"\r\n", _CHUNK_LINE_BYTES_MAX, "chunk size")
        if line is None:
            return False
        match = _CHUNK_SIZE.fullmatch(line)
        if match is None:
            raise HttpError(400, "A chunk size is malformed")
        self._missing_bytes = int(match[1], 16)
        self._check_body_bytes(len(self._body) + self._missing_bytes)
        self._state = _State.CHUNK_DATA if self._missing_bytes else _State.TRAILERS
        return True

    def _take_chunk(self) -> bool:
        if len(self._buffer) < self._missing_bytes + 2:
            return False
        if self._buffer[self._missing_bytes : self._missing_bytes + 2] != b"\r\n":
            raise HttpError(400, "A chunk is longer than its size")
        self._body += self._buffer[: self._missing_bytes]
        del self._buffer[: self._missing_bytes + 2]
        self._state = _State.CHUNK_SIZE
        return True

    def _take_trailers(self) -> bool:
        """They are checked, and dropped: nobody here has asked for any."""
        if self._searched == 0 and self._buffer[:2] == b"\r\n":
            del self._buffer[:2]
            return True
        if len(self._buffer) < 2:
            return False
        trailers = self._take_until(b"\r\n\r\n", self._limits.head_bytes_max, "header")
        if trailers is None:
            return False
        self._fields(trailers.split(b"\r\n"))
        return True

    def _finish(self) -> Request:
        assert self._head is not None
        head, body = self._head, bytes(self._body)
        self._head, self._body = None, bytearray()
        self._missing_bytes, self._searched = 0, 0
        self._continue_due = False
        self._streams = False
        self._state = _State.HEAD
        return Request(
            method=head.method,
            target=head.target,
            segments=head.segments,
            query_string=head.query_string,
            headers=head.headers,
            body=body,
            http_minor=head.http_minor,
            peer=head.peer,
        )


def origin_form(target: str) -> str:
    """The path and the query, as they came, of a target that may name a server before them: as proxies write it."""
    server = _ABSOLUTE.match(target)
    if server is None:
        return target
    rest = target[server.end() :]
    return rest if rest.startswith("/") else f"/{rest}"


def split_target(target: str) -> tuple[tuple[str, ...], str]:
    """The decoded pieces of the path, and the query as it came."""
    path, _, query_string = origin_form(target).partition("?")
    if target == "*":
        return ("*",), ""
    if not path.startswith("/") or "#" in target or _BAD_ESCAPE.search(path):
        raise HttpError(400, "The path of the request is malformed")
    pieces = path[1:].split("/")
    if pieces[-1] == "":
        pieces.pop()
    try:
        return tuple(unquote_to_bytes(piece).decode("utf-8") for piece in pieces), query_string
    except UnicodeDecodeError:
        raise HttpError(400, "The path of the request is not UTF-8") from None
