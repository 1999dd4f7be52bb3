"""An HTTP server on asyncio, HTTP/1.1 and, for doors that ask for it, HTTP/2 without TLS: keep-alive, requests of a
connection answered one after the other, limits on everything.

The server owns its connections; an application answers requests and gives errors their bodies. A connection reads on
only when its last request is answered, so a client that sends faster than it is served is held by its own socket. An
exception in a handler is a 500 and never ends the server.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn, Protocol

from headwater.web.body_stream import BodyLost, BodyStream
from headwater.web.http2 import PREFACE, Http2Connection, is_available
from headwater.web.limits import Limits
from headwater.web.listening import BACKLOG, listening_sockets
from headwater.web.messages import HttpError, Request, Response, reason
from headwater.web.parser import RequestParser
from headwater.web.tls_listener import TlsListener
from headwater.web.websocket import WebSocketResponse, converse

if TYPE_CHECKING:
    from headwater.base.security.tls import ContextSource

logger = logging.getLogger("headwater.web")

_READ_BYTES: Final = 64 * 1024
_READER_LIMIT_BYTES: Final = 16 * 1024  # asyncio holds up to twice that for a connection that is not read from
_DISCARD_BYTES_MAX: Final = 64 * 1024 * 1024
_LINGER_S: Final = 5.0
_ALWAYS_HELD_BYTES: Final = (
    64 * 1024
)  # of each connection, also when all together hold too much: small requests pass beside large ones


class Application(Protocol):
    async def handle(self, request: Request) -> Response:
        """Its answer; HttpError and any other exception become one by `on_error`."""

    def on_error(self, error: HttpError, request: Request | None) -> Response:
        """The body of an error as this door writes it; no request where it could not be read."""


class HttpServer:
    """`await start()`, then `port` is known; `await stop()` lets requests under way finish, for a bounded time."""

    def __init__(
        self,
        application: Application,
        limits: Limits | None = None,
        *,
        http2: bool = False,
        is_streamed: Callable[[Request], bool] | None = None,
    ) -> None:
        """`http2`: also for clients that begin with its preface, if the `h2` library is installed. `is_streamed`: which
        requests are handed on when their head is there, with the body as a stream.
        """
        self.http2 = http2 and is_available()
        self.is_streamed = is_streamed
        self._application = application
        self._limits = limits or Limits()
        self._servers: list[asyncio.Server] = []
        self._tls_listeners: list[TlsListener] = []
        self._connections: dict[asyncio.Task[None], _Connection] = {}
        self._buffered_bytes = 0
        self._stopping = False

    async def start(self, host: str, port: int, tls: "ContextSource | None" = None) -> int:
        """Listens there too, with TLS if there are certificates, and gives the port. Raises OSError where it cannot."""
        if tls is not None:
            handshakes_max = self._limits.connections_max
            protocols = ("h2", "http/1.1") if self.http2 else ("http/1.1",)
            listener = TlsListener(self._on_connection, tls, _READER_LIMIT_BYTES, handshakes_max, protocols)
            self._tls_listeners.append(listener)
            return await listener.start(host, port)
        sockets = await listening_sockets(host, port)
        bound: int = sockets[0].getsockname()[1]
        for each in sockets:
            self._servers.append(
                await asyncio.start_server(self._on_connection, sock=each, limit=_READER_LIMIT_BYTES, backlog=BACKLOG)
            )
        return bound

    async def stop(self) -> None:
        self._stopping = True
        for server in self._servers:
            server.close()
        for listener in self._tls_listeners:
            await listener.close()
        self._tls_listeners.clear()
        for connection in self._connections.values():
            connection.stop_when_idle()
        if self._connections:
            await asyncio.wait(list(self._connections), timeout=self._limits.stop_timeout_s)
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(list(self._connections))
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self._stopping or len(self._connections) >= self._limits.connections_max:
            writer.transport.abort()
            return
        connection = _Connection(self, self._application, self._limits, reader, writer)
        self._connections[task] = connection
        try:
            await connection.serve()
        except (ConnectionError, TimeoutError, asyncio.CancelledError):
            pass  # the client has gone, or is too slow, or we stop: nobody is left to be told
        except Exception:
            logger.exception("event=connection-failed peer=%s", connection.peer)
        finally:
            del self._connections[task]
            writer.transport.abort()

    def change_buffered(self, bytes_more: int) -> bool:
        """Whether all connections together are still within their limit."""
        self._buffered_bytes += bytes_more
        return self._buffered_bytes <= self._limits.buffered_bytes_max


class _Connection:
    def __init__(
        self,
        server: HttpServer,
        application: Application,
        limits: Limits,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._server = server
        self._application = application
        self._limits = limits
        self._reader = reader
        self._writer = writer
        name = writer.get_extra_info("peername")
        self.peer = f"{name[0]}:{name[1]}" if isinstance(name, tuple) else ""
        self._parser = RequestParser(limits, self.peer, server.is_streamed)
        self._counted_bytes = 0
        self._idle = False
        self._closing = False
        self._http2: Http2Connection | None = None
        self._may_switch = server.http2  # until the first bytes have come
        sock = writer.get_extra_info("socket")
        if isinstance(sock, socket.socket) or hasattr(sock, "setsockopt"):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def stop_when_idle(self) -> None:
        self._closing = True
        if self._http2 is not None:
            self._http2.stop_when_idle()
        elif self._idle:
            self._writer.transport.abort()

    async def serve(self) -> None:
        if self._may_switch and (preface := await self._preface()):
            self._http2 = Http2Connection(
                self._answer,
                lambda error: self._application.on_error(error, None),
                self._limits,
                self._reader,
                self._writer,
                self.peer,
                self._server.change_buffered,
                self._server.is_streamed,
            )
            await self._http2.serve(preface)
            return
        try:
            while not self._closing:
                try:
                    request = await self._receive()
                except HttpError as error:
                    await self._refuse(error)
                    return
                if request is None:
                    return
                if request.stream is not None:
                    if not await self._answer_streamed(request, request.stream):
                        return
                    continue
                response = await self._answer(request)
                if not await self._send(request, response, request.keeps_alive and not self._closing):
                    return
        finally:
            self._server.change_buffered(-self._counted_bytes)

    async def _preface(self) -> bytes:
        """The first bytes, if they are those of HTTP/2. Anything else goes to the parser of HTTP/1.1."""
        data = b""
        self._idle = True
        try:
            async with asyncio.timeout(self._limits.idle_timeout_s):
                while len(data) < len(PREFACE) and PREFACE.startswith(data):
                    more = await self._reader.read(_READ_BYTES)
                    if not more:
                        break
                    data += more
        finally:
            self._idle = False
        if data.startswith(PREFACE):
            return data
        self._parser.feed(data)
        self._count()
        return b""

    async def _receive(self) -> Request | None:
        """The next request; None when the client has gone between two. Raises HttpError for what is none or comes too
        slowly.
        """
        request = self._next()
        if request is not None:
            return request
        if self._parser.is_between_requests:
            if not await self._read(self._limits.idle_timeout_s, idle=True):
                return None
            if (request := self._next()) is not None:  # most have come whole: no clock has to be set for them
                return request
        try:
            async with asyncio.timeout(self._limits.receive_timeout_s):
                while (request := self._next()) is None:
                    if self._parser.take_continue():
                        self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                    if not await self._read(None):
                        return None
                return request
        except TimeoutError:
            raise HttpError(408, f"The request did not come within {self._limits.receive_timeout_s:g} s") from None

    def _next(self) -> Request | None:
        request = self._parser.next_request()
        self._count(len(request.body) if request is not None else 0)
        if request is not None and self._parser.is_streaming:
            return replace(request, stream=BodyStream(self._next_piece, self._server.change_buffered))
        return request

    async def _next_piece(self) -> bytes:
        """More of a body that is streamed. A server that stops does not wait for it."""
        while (piece := self._parser.next_piece()) is None:
            if self._parser.take_continue():
                self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            if self._closing or not await self._read(self._limits.stream_idle_timeout_s, idle=True):
                raise BodyLost("the client went away in the middle of a body")
        self._count()
        return piece

    def _count(self, request_bytes: int = 0) -> bool:
        """What this connection holds in memory, for the limit of all."""
        now = self._parser.buffered_bytes + request_bytes
        change, self._counted_bytes = now - self._counted_bytes, now
        return self._server.change_buffered(change)

    async def _read(self, timeout_s: float | None, *, idle: bool = False) -> bool:
        self._idle = idle
        try:
            async with asyncio.timeout(timeout_s):
                data = await self._reader.read(_READ_BYTES)
        except TimeoutError:
            if timeout_s is None:
                raise
            return False
        finally:
            self._idle = False
        if not data:
            return False
        self._parser.feed(data)
        if not self._count() and self._counted_bytes > _ALWAYS_HELD_BYTES:
            raise HttpError(503, "The server holds too many unanswered requests; try again")
        return True

    async def _answer(self, request: Request) -> Response:
        try:
            async with asyncio.timeout(self._limits.handle_timeout_s):
                return await self._application.handle(request)
        except HttpError as error:
            return self._application.on_error(error, request)
        except BodyLost:
            raise
        except TimeoutError:
            return self._application.on_error(HttpError(503, "The request took too long"), request)
        except Exception:
            logger.exception(
                "event=handler-failed peer=%s method=%s target=%.200r", self.peer, request.method, request.target
            )
            return self._application.on_error(HttpError(500, "Internal Server Error"), request)

    async def _answer_streamed(self, request: Request, stream: BodyStream) -> bool:
        """Whether the connection goes on: not if the answer has ended before the body. Only the handler reads
        meanwhile, so a client that goes away ends the answer when more of the body is asked for.
        """
        try:
            response = await self._answer(request)
            keeps_alive = request.keeps_alive and not self._closing
            if isinstance(response.body, bytes):
                head = _head(response, len(response.body), request, keeps_alive=keeps_alive and stream.has_ended)
                self._writer.write(head + response.body)
                await self._drain()
            else:
                keeps_alive = keeps_alive and bool(request.http_minor)
                await self._send_pieces(request, response, keeps_alive, has_body=True)
            if not stream.has_ended:
                await self._discard_rest()
                return False
            return keeps_alive or await self._end()
        finally:
            stream.close()

    async def _refuse(self, error: HttpError) -> None:
        """The last answer of this connection."""
        response = self._application.on_error(error, None)
        assert isinstance(response.body, bytes)
        self._writer.write(_head(response, len(response.body), None, keeps_alive=False) + response.body)
        await self._drain()
        await self._discard_rest()

    async def _discard_rest(self) -> None:
        """What the client still sends is read for a moment, so that it sees the answer."""
        if self._writer.can_write_eof():
            self._writer.write_eof()
        discarded = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while discarded < _DISCARD_BYTES_MAX and (data := await self._reader.read(_READ_BYTES)):
                    discarded += len(data)

    async def _send(self, request: Request, response: Response, keeps_alive: bool) -> bool:
        """Whether the connection goes on."""
        if isinstance(response, WebSocketResponse):
            self._writer.write(_head(response, -1, request, keeps_alive=True))
            await self._drain()
            rest = self._parser.take_rest()
            self._count()
            await converse(self._reader, self._writer, response.messages, self._limits, rest)
            return await self._end()
        has_body = request.method != "HEAD" and response.status not in (204, 304)
        if isinstance(response.body, bytes):
            body = response.body if has_body else b""
            self._writer.write(_head(response, len(response.body), request, keeps_alive=keeps_alive) + body)
            self._count()
            await self._drain()
        else:
            keeps_alive = keeps_alive and bool(request.http_minor)
            await self._send_stream(request, response, keeps_alive, has_body)
        return keeps_alive or await self._end()

    async def _end(self) -> bool:
        """Closes the connection when the client has taken everything."""
        self._writer.close()
        async with asyncio.timeout(self._limits.send_timeout_s):
            await self._writer.wait_closed()
        return False

    async def _send_stream(self, request: Request, response: Response, keeps_alive: bool, has_body: bool) -> None:
        """Piece by piece as they come. A client that goes away ends it, also while nothing comes."""
        sending = asyncio.create_task(self._send_pieces(request, response, keeps_alive, has_body))
        watching = asyncio.create_task(self._watch(len(request.body)))
        try:
            await asyncio.wait({sending, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                watching.result()
            else:
                sending.result()
        finally:
            for task in (sending, watching):
                task.cancel()
            await asyncio.wait({sending, watching})
            if not watching.cancelled():
                watching.exception()  # that the client has gone is no news any more

    async def _watch(self, request_bytes: int) -> NoReturn:
        """Until the client goes away, which raises. What it sends meanwhile is kept for later, but for one that sends
        much: its end could not be seen behind that.
        """
        while data := await self._reader.read(_READ_BYTES):
            self._parser.feed(data)
            self._count(request_bytes)
            if self._parser.buffered_bytes > _ALWAYS_HELD_BYTES:
                raise ConnectionResetError("the client sends too much behind a request that is being answered")
        raise ConnectionResetError("the client closed its end of a stream")

    async def _send_pieces(self, request: Request, response: Response, keeps_alive: bool, has_body: bool) -> None:
        """In chunks; to a client of HTTP/1.0 until the connection closes.
        A stream that fails is cut: no end is sent.
        """
        pieces = response.body
        assert not isinstance(pieces, bytes)
        try:
            chunked = bool(request.http_minor)
            self._writer.write(_head(response, None if chunked else -1, request, keeps_alive=keeps_alive))
            await self._drain()
            if not has_body:
                return
            async for piece in pieces:
                if not piece:
                    continue
                self._writer.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
                await self._drain()
            if chunked:
                self._writer.write(b"0\r\n\r\n")
                await self._drain()
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()

    async def _drain(self) -> None:
        if not self._writer.transport.get_write_buffer_size():  # nothing is left to wait for
            await self._writer.drain()
            return
        async with asyncio.timeout(self._limits.send_timeout_s):
            await self._writer.drain()


def _head(response: Response, length: int | None, request: Request | None, *, keeps_alive: bool) -> bytes:
    """`length`: None is chunked, -1 until the connection closes. `request`: None where it could not be read."""
    lines = [f"HTTP/1.1 {response.status} {reason(response.status)}"]
    lines += [f"{name}: {value}" for name, value in response.headers.items()]
    if length is None:
        lines.append("Transfer-Encoding: chunked")
    elif length >= 0 and response.status not in (204, 304):
        lines.append(f"Content-Length: {length}")
    if not keeps_alive:
        lines.append("Connection: close")
    elif request is not None and not request.http_minor:
        lines.append("Connection: keep-alive")  # a client of HTTP/1.0 waits for the end of the connection otherwise
    assert not any("\r" in line or "\n" in line for line in lines), "a header value with a line end"
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
