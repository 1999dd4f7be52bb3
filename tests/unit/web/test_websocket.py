"""WebSockets: handshakes, frames of clients that behave and of clients that do not, and conversations over real
sockets.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from headwater.web.door import Door
from headwater.web.limits import Limits
from headwater.web.messages import Headers, HttpError, Request, Response
from headwater.web.router import Router
from headwater.web.server import HttpServer
from headwater.web.websocket import (
    FRAME_BYTES_MAX,
    Code,
    FrameParser,
    Opcode,
    WebSocketClosed,
    accept,
    answer_to_close,
    close_frame,
    frame,
)

_ASKING = {
    "host": "a",
    "connection": "keep-alive, Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",  # the example of RFC 6455, section 1.3
}


async def _nothing() -> AsyncIterator[str]:
    for each in ():
        yield each


def _request(method: str = "GET", minor: int = 1, **changes: str) -> Request:
    fields = _ASKING | {name.replace("_", "-"): value for name, value in changes.items()}
    return Request(method, "/", (), headers=Headers(tuple(fields.items())), http_minor=minor)


def masked(opcode: int, payload: bytes = b"", *, first: int | None = None, mask: bytes = b"\x01\x02\x03\x04") -> bytes:
    """A frame of a client."""
    size = len(payload)
    length = bytes([0x80 | size]) if size <= 125 else struct.pack(">BH", 0x80 | 126, size)
    body = bytes(each ^ mask[at % 4] for at, each in enumerate(payload))
    return bytes([0x80 | opcode if first is None else first]) + length + mask + body


def test_the_handshake_of_the_specification() -> None:
    answer = accept(_request(), _nothing())
    assert (answer.status, answer.headers["Sec-WebSocket-Accept"]) == (101, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (_request("POST"), 426),
        (_request(minor=0), 426),
        (_request(connection="keep-alive"), 426),
        (_request(upgrade="h2c"), 426),
        (_request(sec_websocket_version="8"), 426),
        (_request(sec_websocket_key=""), 400),
        (_request(sec_websocket_key="c2hvcnQ="), 400),
        (_request(sec_websocket_key="dGhlIHNhbXBsZSBub25jZQ=!"), 400),
        (_request(sec_websocket_key="\u00e9"), 400),
    ],
)
def test_what_is_no_handshake(request_: Request, status: int) -> None:
    with pytest.raises(HttpError) as told:
        accept(request_, _nothing())
    assert told.value.status == status


@pytest.mark.parametrize("size", [0, 1, 125, 126, 5000, FRAME_BYTES_MAX])
@pytest.mark.parametrize("at_once", [1, 7, 1 << 20])
def test_frames_are_read_however_they_come(size: int, at_once: int) -> None:
    payload = bytes(each % 251 for each in range(size))
    data = masked(Opcode.BINARY, payload) + masked(Opcode.PING, b"hi")
    parser = FrameParser()
    found = [each for at in range(0, len(data), at_once) for each in parser.feed(data[at : at + at_once])]
    assert found == [(Opcode.BINARY, payload), (Opcode.PING, b"hi")]


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(Opcode.TEXT, b"hello"), Code.PROTOCOL_ERROR),  # not masked
        (masked(3), Code.PROTOCOL_ERROR),
        (masked(11), Code.PROTOCOL_ERROR),
        (masked(1, first=0xC1), Code.PROTOCOL_ERROR),  # an extension that nobody agreed upon
        (masked(9, first=0x09), Code.PROTOCOL_ERROR),  # a ping in pieces
        (masked(9, bytes(126)), Code.PROTOCOL_ERROR),
        (b"\x82\xfe\x00\x7d", Code.PROTOCOL_ERROR),  # 125 in two bytes
        (b"\x82\xff" + struct.pack(">Q", 65535), Code.PROTOCOL_ERROR),
        (b"\x82\xfe" + struct.pack(">H", FRAME_BYTES_MAX + 1), Code.TOO_BIG),  # before any of it has come
        (b"\x82\xff" + b"\xff" * 8, Code.TOO_BIG),
    ],
)
def test_frames_that_end_the_conversation(data: bytes, code: Code) -> None:
    with pytest.raises(WebSocketClosed) as told:
        list(FrameParser().feed(data))
    assert told.value.code == code


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536])
def test_the_lengths_of_frames_that_are_sent(size: int) -> None:
    made = frame(Opcode.TEXT, bytes(size))
    head = {
        0: b"\x00",
        125: b"\x7d",
        126: b"\x7e\x00\x7e",
        65535: b"\x7e\xff\xff",
        65536: b"\x7f" + struct.pack(">Q", 65536),
    }
    assert made == b"\x81" + head[size] + bytes(size)


def test_a_long_reason_is_cut_between_characters() -> None:
    assert close_frame(1000, "done") == b"\x88\x06\x03\xe8done"
    made = close_frame(1011, "x" + "\u20ac" * 100)
    assert len(made) <= 127
    assert made[4:].decode() == "x" + "\u20ac" * 39 + "..."


def test_closes_of_clients() -> None:
    assert [answer_to_close(each) for each in (b"", b"\x03\xe8", b"\x03\xe9bye", b"\x0b\xb8")] == [
        1000,
        1000,
        1001,
        3000,
    ]
    for payload, code in (
        (b"\x03", 1002),
        (b"\x03\xed", 1002),  # 1005 and 1006 are never sent
        (b"\x03\xee", 1002),
        (b"\xff\xff", 1002),
        (b"\x03\xe8\xff", 1007),
    ):
        with pytest.raises(WebSocketClosed) as told:
            answer_to_close(payload)
        assert told.value.code == code


class Stage:
    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.closed = asyncio.Event()
        router = Router()
        router.add("GET", "/talk", self._talk)
        self.door = Door(router)

    async def _talk(self, request: Request) -> Response:
        async def messages() -> AsyncIterator[str]:
            try:
                yield "one"
                await self.go_on.wait()
                yield "two"
                if request.query_string:
                    raise WebSocketClosed(int(request.query_string), "told")
            finally:
                self.closed.set()

        return accept(request, messages())


Play = Callable[[Stage, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
ONE, TWO = frame(Opcode.TEXT, b"one"), frame(Opcode.TEXT, b"two")


def on_stage(play: Play, path: str = "/talk", more: bytes = b"", limits: Limits | None = None) -> None:
    """After the handshake, behind which `more` is sent at once."""

    async def run() -> None:
        stage = Stage()
        server = HttpServer(stage.door, limits, http2=True)
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in _ASKING.items()), "", ""]
            writer.write("\r\n".join(lines).encode() + more)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
            assert b"Content-Length" not in head
            await play(stage, reader, writer)
            await stage.closed.wait()
        finally:
            writer.close()
            await writer.wait_closed()
            await server.stop()
        assert server.connections == 0

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize(
    ("path", "end"), [("/talk", close_frame(1000, "done")), ("/talk?1003", close_frame(1003, "told"))]
)
def test_messages_and_then_the_end(path: str, end: bytes) -> None:
    async def play(stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stage.go_on.set()
        assert await reader.readexactly(len(ONE + TWO + end)) == ONE + TWO + end
        writer.write(masked(Opcode.CLOSE, end[2:4]))
        assert await reader.read() == b""

    on_stage(play, path)


def test_pings_are_answered_while_nothing_else_comes() -> None:
    async def play(_stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pong = frame(Opcode.PONG, b"early")
        found = await reader.readexactly(len(ONE + pong))
        assert found in (ONE + pong, pong + ONE)
        writer.write(masked(Opcode.TEXT, b"not read") + masked(Opcode.PING, b"late"))
        late = frame(Opcode.PONG, b"late")
        assert await reader.readexactly(len(late)) == late
        writer.close()

    on_stage(play, more=masked(Opcode.PING, b"early"))


@pytest.mark.parametrize(
    ("sent", "answered"),
    [
        (masked(Opcode.CLOSE, b"\x03\xe9"), b"\x88\x02\x03\xe9"),
        (frame(Opcode.TEXT, b"bare"), close_frame(1002, "a client must mask its frames")),
    ],
)
def test_a_client_ends_it_or_breaks_the_rules(sent: bytes, answered: bytes) -> None:
    async def play(_stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(ONE)) == ONE
        writer.write(sent)
        assert await reader.read() == answered

    on_stage(play)


def test_a_client_that_goes_away_ends_the_messages() -> None:
    async def play(_stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(ONE)) == ONE
        writer.close()

    on_stage(play)


def test_a_client_that_stays_silent_is_asked_and_given_up() -> None:
    async def play(_stage: Stage, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == ONE + frame(Opcode.PING, b"")

    on_stage(play, limits=Limits(idle_timeout_s=1.0))
