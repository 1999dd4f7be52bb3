"""Bodies that are handed on while they come, over real sockets: HTTP/1.1 with chunks and with a length, HTTP/2 with its
windows.
"""

import asyncio
import contextlib
import http.client
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.web.body_stream import BodyStream
from headwater.web.door import Door
from headwater.web.limits import Limits
from headwater.web.messages import HttpError, Request, Response
from headwater.web.parser import RequestParser
from headwater.web.router import Router
from headwater.web.server import HttpServer
from unit.web.test_http2 import Client

_HEAD = b"POST /lines HTTP/1.1\r\nHost: a\r\n"


def _is_streamed(request: Request) -> bool:
    return request.segments in (("lines",), ("held",), ("deaf",))


class Stage:
    """`/lines` answers each line as it comes, to one that is `end`, and with a short length when all are there; `/held`
    reads nothing until `release`; `/deaf` refuses at once.
    """

    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.closed = asyncio.Event()
        self.streamed: list[bool] = []
        router = Router()
        router.add("POST", "/lines", self._lines)
        router.add("POST", "/held", self._held)
        router.add("POST", "/deaf", self._deaf)
        router.add("POST", "/whole", self._whole)
        self.door = Door(router)

    async def _lines(self, request: Request) -> Response:
        stream = request.stream
        self.streamed.append(stream is not None)

        async def whole() -> AsyncIterator[bytes]:
            for line in request.body.splitlines():
                yield line

        async def answers() -> AsyncIterator[bytes]:
            try:
                async for line in stream.lines(100_000) if stream is not None else whole():
                    yield b"<" + line + b">"
                    if line == b"end":
                        return
            except HttpError as error:
                yield error.message.encode()
            finally:
                self.closed.set()

        return Response(200, answers())

    async def _held(self, request: Request) -> Response:
        await self.release.wait()
        assert request.stream is not None
        return Response(200, str(sum([len(each) async for each in request.stream.pieces()])).encode())

    async def _deaf(self, _request: Request) -> Response:
        raise HttpError(403, "no")

    async def _whole(self, request: Request) -> Response:
        assert request.stream is None
        return Response(200, request.body)


def _play(
    play: Callable[[Stage, asyncio.StreamReader, asyncio.StreamWriter, HttpServer], Awaitable[None]],
    limits: Limits | None = None,
) -> None:
    async def run() -> None:
        stage = Stage()
        server = HttpServer(stage.door, limits, http2=True, is_streamed=_is_streamed)
        port = await server.start("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            async with asyncio.timeout(120):
                await play(stage, reader, writer, server)
        finally:
            stage.release.set()
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
            await server.stop()
        assert server.change_buffered(0)
        assert server._buffered_bytes == 0

    asyncio.run(run())


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def test_each_line_is_answered_before_the_next_is_sent() -> None:
    async def play(_stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: HttpServer) -> None:
        writer.write(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        for word in (b"one", b"two"):
            writer.write(_chunk(word[:1]) + _chunk(word[1:] + b"\n"))
            await reader.readuntil(b"<" + word + b">")
        writer.write(_chunk(b"last without an end") + b"0\r\n\r\n")
        await reader.readuntil(b"<last without an end>\r\n0\r\n\r\n")
        writer.write(b"POST /whole HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nafter")
        await reader.readuntil(b"after")

    _play(play)


def test_a_body_with_a_length_may_be_longer_than_what_is_held_of_others() -> None:
    limits = Limits(body_bytes_max=1_000)

    async def play(_stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: HttpServer) -> None:
        writer.write(_HEAD + b"Expect: 100-continue\r\nContent-Length: 5000\r\n\r\n")
        await reader.readuntil(b"100 Continue\r\n\r\n")
        for _number in range(500):
            writer.write(b"123456789\n")
        said = await reader.readuntil(b"\r\n0\r\n\r\n")
        assert said.count(b"<123456789>") == 500

    _play(play, limits)


def test_a_client_that_sends_all_before_it_reads_is_answered() -> None:
    """The answer is larger than what the sockets between them take."""
    line = b"x" * 999 + b"\n"

    async def play(stage: Stage, _reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: HttpServer) -> None:
        host, port = writer.get_extra_info("peername")

        def call() -> bytes:
            connection = http.client.HTTPConnection(host, port, timeout=100)
            connection.sock = socket.socket()
            with contextlib.closing(connection):
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
                connection.sock.connect((host, port))
                connection.request("POST", "/lines", line * 16_000)
                return connection.getresponse().read()

        said = await asyncio.to_thread(call)
        assert said == (b"<" + line[:-1] + b">") * 16_000
        assert stage.streamed == [False]

    _play(play)


@pytest.mark.parametrize(
    "body", [b"Content-Length: 100000000\r\n\r\nend\nmore", b"Transfer-Encoding: chunked\r\n\r\n4\r\nend\n\r\n"]
)
def test_an_answer_that_ends_before_the_body_ends_the_connection(body: bytes) -> None:
    async def play(_stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: HttpServer) -> None:
        writer.write(_HEAD + body)
        assert (await reader.read()).endswith(b"<end>\r\n0\r\n\r\n")

    _play(play)


def test_a_refusal_does_not_wait_for_the_body() -> None:
    async def play(_stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: HttpServer) -> None:
        writer.write(b"POST /deaf HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        said = await reader.read()
        assert said.startswith(b"HTTP/1.1 403 ")
        assert b"Connection: close" in said

    _play(play)


def test_a_line_without_an_end_is_refused() -> None:
    async def play(_stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: HttpServer) -> None:
        writer.write(_HEAD + b"Content-Length: 100000000\r\n\r\n" + b"x" * 200_000)
        assert b"A line of the body may have at most 100000 bytes" in await reader.read()

    _play(play)


def test_a_client_that_goes_away_in_the_middle_ends_the_handler() -> None:
    async def play(stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: HttpServer) -> None:
        writer.write(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + _chunk(b"one\ntw"))
        await reader.readuntil(b"<one>")
        writer.close()
        await stage.closed.wait()

    _play(play)


@pytest.mark.parametrize("version", [1, 2])
def test_a_server_that_stops_does_not_wait_for_a_body(version: int) -> None:
    async def play(
        stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: HttpServer
    ) -> None:
        if version == 1:
            writer.write(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + _chunk(b"one\n"))
            await reader.readuntil(b"<one>")
        else:
            client = Client(reader, writer)
            stream = client.ask("POST", "/lines", b"one\n", whole=False)
            while client.bodies.get(stream) != b"<one>":
                assert await client.once()
        await server.stop()
        await stage.closed.wait()

    _play(play, Limits(stop_timeout_s=100.0))


def test_http2_answers_lines_while_the_body_comes() -> None:
    async def play(stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: HttpServer) -> None:
        client = Client(reader, writer)
        stream = client.ask("POST", "/lines", b"one\ntw", whole=False)
        await _until_said(client, stream, b"<one>")
        client.http2.send_data(stream, b"o\n")
        await _until_said(client, stream, b"<one><two>")
        client.http2.send_data(stream, b"three", end_stream=True)
        await client.until(stream)
        assert client.bodies[stream] == b"<one><two><three>"
        cut = client.ask("POST", "/lines", b"end\nmore", whole=False)
        refused = client.ask("POST", "/deaf", b"more", whole=False)
        await client.until(cut, refused)
        assert (client.bodies[cut], client.status[refused]) == (b"<end>", 403)

    _play(play)


def test_http2_holds_a_sender_until_its_handler_reads_and_lets_others_pass() -> None:
    async def play(stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: HttpServer) -> None:
        client = Client(reader, writer)
        held = client.ask("POST", "/held", whole=False)
        assert await client.once()
        sent = 0
        while (room := client.http2.local_flow_control_window(held)) > 0:
            client.http2.send_data(held, b"x" * min(room, 16_384))
            sent += min(room, 16_384)
        assert sent == 65_535
        other = client.ask("POST", "/whole", b"passes")
        await client.until(other)
        assert client.bodies[other] == b"passes"
        assert client.http2.local_flow_control_window(held) == 0
        stage.release.set()
        while client.http2.local_flow_control_window(held) == 0:
            assert await client.once()
        client.http2.send_data(held, b"y", end_stream=True)
        await client.until(held)
        assert client.bodies[held] == b"65536"

    _play(play)


def test_http2_resets_a_stream_whose_body_does_not_come() -> None:
    async def play(_stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: HttpServer) -> None:
        client = Client(reader, writer)
        silent = client.ask("POST", "/lines", b"one\n", whole=False)
        assert await client.until_reset(silent) == 2  # INTERNAL_ERROR
        await client.until(client.ask("POST", "/whole", b"passes"))

    _play(play, Limits(stream_idle_timeout_s=0.05))


def test_http2_counts_streamed_bodies_among_what_all_connections_hold() -> None:
    async def play(
        stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: HttpServer
    ) -> None:
        client = Client(reader, writer)
        first, second = (client.ask("POST", "/held", whole=False) for _ in range(2))
        while client.http2.outbound_flow_control_window < 200_000:
            assert await client.once()
        for _number in range(4):
            client.http2.send_data(first, b"x" * 15_000)
        client.send()
        await _until_held(server, 60_000)  # more than all may hold, and less than this one may always
        assert not client.resets
        for _number in range(4):  # in one segment: what follows a refused frame is dropped
            client.http2.send_data(second, b"y" * 15_000)
        assert await client.until_reset(second) == 11  # ENHANCE_YOUR_CALM
        await _until_held(server, 60_000)
        stage.release.set()
        client.http2.end_stream(first)
        await client.until(first)
        assert client.bodies[first] == b"60000"
        await client.until(client.ask("POST", "/whole", b"passes"))

    _play(play, Limits(buffered_bytes_max=10_000))


async def _until_held(server: HttpServer, size_bytes: int) -> None:
    """Beside that there are some hundred bytes of heads."""
    async with asyncio.timeout(60):
        while not size_bytes <= server._buffered_bytes < size_bytes + 1_000:
            await asyncio.sleep(0)


def test_http2_keeps_nothing_of_empty_frames_and_gives_the_window_of_padding_back() -> None:
    async def play(
        stage: Stage, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: HttpServer
    ) -> None:
        client = Client(reader, writer)
        held = client.ask("POST", "/held", whole=False)
        for _number in range(5_000):
            client.http2.send_data(held, b"")
        for _number in range(255):
            client.http2.send_data(held, b"", pad_length=255)
        client.http2.send_data(held, b"x")
        await client.until(client.ask("POST", "/whole", b"passes"))
        (connection,) = server._connections.values()
        assert connection._http2 is not None
        incoming = connection._http2._streams[held].incoming
        assert incoming is not None
        assert (bytes(incoming.data), incoming.window_bytes) == (b"x", 255 * 256 + 1)
        stage.release.set()
        while client.http2.local_flow_control_window(held) < 60_000:
            assert await client.once()
        client.http2.send_data(held, b"y", end_stream=True)
        await client.until(held)
        assert client.bodies[held] == b"2"

    _play(play)


async def _until_said(client: Client, stream: int, wanted: bytes) -> None:
    while client.bodies.get(stream) != wanted:
        assert await client.once(), "the connection ended"


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=5), st.booleans(), st.data())
def test_any_cuts_give_the_same_body_and_the_request_behind_it(chunks: list[bytes], chunked: bool, data: Any) -> None:
    body = b"".join(chunks)
    if chunked:
        sent = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(map(_chunk, chunks)) + b"0\r\nX: y\r\n\r\n"
    else:
        sent = _HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    is_whole = not chunked and len(body) <= 50
    sent += b"POST /whole HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=8)))
    parser = RequestParser(Limits(body_bytes_max=50), "", _is_streamed)
    came, requests = b"", []
    for begin, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
        parser.feed(sent[begin:end])
        while True:
            if parser.is_streaming:
                piece = parser.next_piece()
                if piece is None:
                    break
                came += piece
            elif (request := parser.next_request()) is not None:
                requests.append(request)
            else:
                break
    assert came == (b"" if is_whole else body)
    assert [(each.segments, each.body) for each in requests] == [
        (("lines",), body if is_whole else b""),
        (("whole",), b"hi"),
    ]


def test_what_is_kept_of_a_line_is_counted_and_let_go() -> None:
    held = 0

    def count(more: int) -> bool:
        nonlocal held
        held += more
        return held < 100_000

    async def run() -> None:
        pieces = iter([b"a" * 10, b"b\nccc", b"c" * 90_000, b"c" * 90_000])

        async def receive() -> bytes:
            return next(pieces, b"")

        stream = BodyStream(receive, count)
        lines = stream.lines(10**6)
        assert await anext(lines) == b"a" * 10 + b"b"
        with pytest.raises(HttpError, match="too many unanswered"):
            await anext(lines)
        stream.close()

    asyncio.run(run())
    assert held == 0
