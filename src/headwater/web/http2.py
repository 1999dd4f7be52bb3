"""HTTP/2, for clients that begin with its preface ("prior knowledge", or agreed by ALPN): the same applications,
several requests at a time on one connection.

The `h2` library keeps the protocol's state; it reads no sockets. This owns one connection: each complete request is
answered by a task of its own, and a task that sends waits for the window that its peer has opened. A request is handed
on when all of it is there, so a body that never ends is refused with time; one that is to be streamed is handed on with
its head, and the peer's window opens again as its handler reads. Limits are those of HTTP/1.1; a peer may
have `STREAMS_MAX` requests open, and may take back `RESETS_MAX` of them. A stream whose answer fails is reset, so that
its peer hears of it and sends no more.
"""

import asyncio
import contextlib
import importlib
import importlib.util
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from headwater.web.body_stream import BodyLost, BodyStream
from headwater.web.limits import Limits
from headwater.web.messages import Headers, HttpError, Request, Response
from headwater.web.parser import split_target

logger = logging.getLogger("headwater.web")

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STREAMS_MAX: Final = 100
RESETS_MAX: Final = 1_000
_READ_BYTES: Final = 64 * 1024
_WINDOW_BYTES: Final = 65_535  # of a stream: what a peer may send before its handler reads
_ALWAYS_HELD_BYTES: Final = 64 * 1024  # of a connection's streamed bodies, also when all connections hold too much
_INTERNAL_ERROR: Final = 2  # error codes of RFC 9113
_REFUSED_STREAM: Final = 7
_ENHANCE_YOUR_CALM: Final = 11
_FIELD_BYTES: Final = 32  # that RFC 9113 counts for each header field, beside its name and value


def is_available() -> bool:
    """Looked for, and not loaded: that takes longer than the rest of a door, and few connections need it."""
    return importlib.util.find_spec("h2") is not None


@dataclass(slots=True)
class _Incoming:
    """A body that is handed on while it comes. What its handler has not read yet is not acknowledged either."""

    request: Request
    stream: BodyStream
    data: bytearray = field(default_factory=bytearray)  # of all frames: many small objects would cost far more
    window_bytes: int = 0  # what the data, and its padding, took of the peer's window
    came: asyncio.Event = field(default_factory=asyncio.Event)
    is_complete: bool = False
    is_awaited: bool = False
    is_refused: bool = False

    @property
    def held_bytes(self) -> int:
        return len(self.data) + self.stream.held_bytes


@dataclass(slots=True)
class _Stream:
    """One request, and its answer."""

    headers: list[tuple[str, str]]
    held_bytes: int = 0
    body: bytearray = field(default_factory=bytearray)
    window: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    patience: asyncio.TimerHandle | None = None
    incoming: _Incoming | None = None


class Http2Connection:
    """`answer` gives a response to every request and never raises; `refuse` gives one to what is no request."""

    def __init__(
        self,
        answer: Callable[[Request], Any],
        refuse: Callable[[HttpError], Response],
        limits: Limits,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        peer: str,
        count: Callable[[int], bool],
        is_streamed: Callable[[Request], bool] | None = None,
    ) -> None:
        """`count` is told how many more bytes are held, and says whether that is still within the limit of all
        connections. `is_streamed`: which requests are handed on when their head is there.
        """
        connection, config = importlib.import_module("h2.connection"), importlib.import_module("h2.config")
        self._events = importlib.import_module("h2.events")
        self._protocol_error: type[Exception] = importlib.import_module("h2.exceptions").ProtocolError
        settings = importlib.import_module("h2.settings")
        self._http2: Any = connection.H2Connection(config.H2Configuration(client_side=False, header_encoding="latin-1"))
        self._settings = {
            settings.SettingCodes.MAX_CONCURRENT_STREAMS: STREAMS_MAX,
            settings.SettingCodes.MAX_HEADER_LIST_SIZE: limits.head_bytes_max,
        }
        self._answer, self._refuse, self._limits = answer, refuse, limits
        self._reader, self._writer, self._peer, self._count = reader, writer, peer, count
        self._is_streamed = is_streamed
        self._streams: dict[int, _Stream] = {}
        self._resets = 0
        self._idle: asyncio.Timeout | None = None
        self._closing = False

    def stop_when_idle(self) -> None:
        """New requests are refused; those under way are answered, but for bodies that might never end. There is no
        GOAWAY: clients that stand on `h2` take nothing more behind it, not even those answers.
        """
        self._closing = True
        for each in self._streams.values():
            if each.incoming is not None and each.incoming.is_awaited and each.task is not None:
                each.task.cancel()
        if not self._streams:
            self._writer.transport.abort()

    async def serve(self, first: bytes) -> None:
        self._http2.initiate_connection()
        self._http2.update_settings(self._settings)
        if self._is_streamed is not None:  # a body that is not read must not hold up the other streams
            self._http2.increment_flow_control_window(STREAMS_MAX * _WINDOW_BYTES)
        data = first
        try:
            while data:
                self._take(data)
                await self._flush()
                if self._closing and not self._streams:
                    return
                data = await self._next()
        except self._protocol_error:
            await self._flush()  # h2 has written what was wrong
        finally:
            await self._end()

    async def _next(self) -> bytes:
        """What comes next. It is waited for without end while a request is under way, and not for long once none is."""
        async with asyncio.timeout(None if self._streams else self._limits.idle_timeout_s) as self._idle:
            try:
                return await self._reader.read(_READ_BYTES)
            finally:
                self._idle = None

    async def _end(self) -> None:
        streams = list(self._streams.values())
        tasks = [each.task for each in streams if each.task is not None]
        for each in streams:
            self._forget_patience(each)
        for task in tasks:
            task.cancel()
        try:
            if tasks:
                await asyncio.wait(tasks)
        finally:
            for each in streams:
                self._let_go(each)

    # -- what comes ----------------------------------------------------------------------------------------------------

    def _take(self, data: bytes) -> None:
        events = self._events
        for event in self._http2.receive_data(data):
            if isinstance(event, events.RequestReceived):
                self._begin(event.stream_id, list(event.headers))
            elif isinstance(event, events.DataReceived):
                self._more(event)
            elif isinstance(event, events.StreamEnded):
                self._complete(event.stream_id)
            elif isinstance(event, events.StreamReset):
                self._gone(event.stream_id)
            elif isinstance(event, events.WindowUpdated | events.RemoteSettingsChanged):
                for each in self._streams.values():
                    each.window.set()
            elif isinstance(event, events.ConnectionTerminated):
                self._closing = True

    def _begin(self, stream_id: int, headers: list[tuple[str, str]]) -> None:
        if self._closing:
            self._reset(stream_id, _REFUSED_STREAM)
            return
        stream = self._streams[stream_id] = _Stream(headers)
        loop = asyncio.get_running_loop()
        stream.patience = loop.call_later(self._limits.receive_timeout_s, self._too_slow, stream_id)
        size = sum(len(name) + len(value) + _FIELD_BYTES for name, value in headers)
        within = self._hold(stream, size)
        if sum(not name.startswith(":") for name, _ in headers) > self._limits.header_fields_max:
            most = self._limits.header_fields_max
            self._start(stream_id, HttpError(431, f"The request has more than {most} header fields"))
        elif size > self._limits.head_bytes_max:
            most = self._limits.head_bytes_max
            self._start(stream_id, HttpError(431, f"The header of a request may have at most {most} bytes"))
        elif not within:
            self._start(stream_id, _too_much_held())
        elif self._is_streamed is not None:
            self._begin_streamed(stream_id, stream, self._is_streamed)

    def _begin_streamed(self, stream_id: int, stream: _Stream, is_streamed: Callable[[Request], bool]) -> None:
        try:
            request = self._request(stream)
        except HttpError as error:
            self._start(stream_id, error)
            return
        if is_streamed(request):
            body = BodyStream(partial(self._next_piece, stream_id, stream), self._count)
            stream.incoming = _Incoming(replace(request, stream=body), body)
            self._start(stream_id, None)

    def _more(self, event: Any) -> None:
        stream = self._streams.get(event.stream_id)
        if stream is not None and stream.incoming is not None:
            self._more_streamed(stream, stream.incoming, event)
            return
        self._http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        if stream is None or stream.task is not None:
            return
        stream.body += event.data
        within = self._hold(stream, len(event.data))
        if len(stream.body) > self._limits.body_bytes_max:
            size = self._limits.body_bytes_max
            self._start(event.stream_id, HttpError(413, f"The body of a request may have at most {size} bytes"))
        elif not within:
            self._start(event.stream_id, _too_much_held())

    def _more_streamed(self, stream: _Stream, incoming: _Incoming, event: Any) -> None:
        if incoming.is_refused:  # it came together with what was refused
            self._http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            return
        if not event.flow_controlled_length:
            return
        incoming.data += event.data
        incoming.window_bytes += event.flow_controlled_length
        incoming.came.set()
        if not self._hold(stream, len(event.data)) and self._streamed_bytes() > _ALWAYS_HELD_BYTES:
            incoming.is_refused = True
            self._reset(event.stream_id, _ENHANCE_YOUR_CALM)
            assert stream.task is not None
            stream.task.cancel()

    def _streamed_bytes(self) -> int:
        return sum(each.incoming.held_bytes for each in self._streams.values() if each.incoming is not None)

    def _complete(self, stream_id: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is not None and stream.incoming is not None:
            stream.incoming.is_complete = True
            stream.incoming.came.set()
        elif stream is not None and stream.task is None:
            self._start(stream_id, None)

    async def _next_piece(self, stream_id: int, stream: _Stream) -> bytes:
        """More of a body that is streamed; none at its end."""
        incoming = stream.incoming
        assert incoming is not None
        while True:
            if incoming.window_bytes:
                data = bytes(incoming.data)
                incoming.data.clear()
                self._give_back(stream_id, incoming)
                self._hold(stream, -len(data))
                await self._flush()
                if data:
                    return data
                continue  # there was only padding
            if incoming.is_complete:
                return b""
            if self._closing:
                raise BodyLost("the server stops in the middle of a body")
            incoming.came.clear()
            incoming.is_awaited = True
            try:
                async with asyncio.timeout(self._limits.stream_idle_timeout_s):
                    await incoming.came.wait()
            except TimeoutError:
                raise BodyLost("nothing came of a body for too long") from None
            finally:
                incoming.is_awaited = False

    def _start(self, stream_id: int, error: HttpError | None) -> None:
        stream = self._streams[stream_id]
        self._forget_patience(stream)
        stream.task = asyncio.create_task(self._respond(stream_id, stream, error))
        # Not at the end of the task's own code: a task that is cancelled before its first step runs none of it.
        stream.task.add_done_callback(lambda _: self._forget(stream_id, stream))

    def _too_slow(self, stream_id: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is not None and stream.task is None:
            self._start(
                stream_id, HttpError(408, f"The request did not come within {self._limits.receive_timeout_s:g} s")
            )

    def _gone(self, stream_id: int) -> None:
        """The peer takes a request back. One that does little else costs us more than itself."""
        self._resets += 1
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._forget_patience(stream)
            if stream.task is not None:
                stream.task.cancel()
            else:
                self._forget(stream_id, stream)
        if self._resets > RESETS_MAX:
            raise ConnectionResetError("the peer takes back too many requests")

    # -- what goes -----------------------------------------------------------------------------------------------------

    async def _respond(self, stream_id: int, stream: _Stream, error: HttpError | None) -> None:
        try:
            try:
                if error is not None:
                    raise error
                incoming = stream.incoming
                response = await self._answer(self._request(stream) if incoming is None else incoming.request)
            except HttpError as problem:
                response = self._refuse(problem)
            await self._send(stream_id, stream, response)
            if stream.incoming is not None and not stream.incoming.is_complete:
                self._http2.reset_stream(stream_id, error_code=0)  # the answer is whole: the rest need not come
                await self._flush()
        except (ConnectionError, TimeoutError, self._protocol_error):
            await self._fail(stream_id)  # the stream or the connection is gone, or its peer sends or takes nothing
        except Exception:
            logger.exception("event=stream-failed peer=%s", self._peer)
            await self._fail(stream_id)

    async def _fail(self, stream_id: int) -> None:
        """The peer is told that no more of the answer comes, if it can be told anything."""
        self._reset(stream_id, _INTERNAL_ERROR)
        with contextlib.suppress(ConnectionError, TimeoutError):
            await self._flush()

    def _reset(self, stream_id: int, error_code: int) -> None:
        with contextlib.suppress(self._protocol_error):  # it has ended already
            self._http2.reset_stream(stream_id, error_code=error_code)

    def _request(self, stream: _Stream) -> Request:
        fields = dict(stream.headers)
        method, target = fields.get(":method", ""), fields.get(":path", "")
        try:
            target = target.encode("latin-1").decode("utf-8")  # the bytes that came; some clients escape none of them
        except UnicodeDecodeError:
            raise HttpError(400, "The path of the request is not UTF-8") from None
        segments, query_string = split_target(target)
        plain = [(name, value) for name, value in stream.headers if not name.startswith(":")]
        if ":authority" in fields and "host" not in fields:
            plain.insert(
                0, ("host", fields[":authority"])
            )  # as HTTP/1.1 calls it, for whoever asks by whose name we were called
        return Request(method, target, segments, query_string, Headers(tuple(plain)), bytes(stream.body), 1, self._peer)

    async def _send(self, stream_id: int, stream: _Stream, response: Response) -> None:
        has_body = dict(stream.headers).get(":method") != "HEAD" and response.status not in (204, 304)
        headers = [(":status", str(response.status))]
        headers += [(name.lower(), value) for name, value in response.headers.items()]
        pieces = response.body
        if isinstance(pieces, bytes):
            headers.append(("content-length", str(len(pieces))))
            self._http2.send_headers(stream_id, headers, end_stream=not (has_body and pieces))
            if has_body and pieces:
                await self._send_data(stream_id, stream, pieces, ends=True)
            await self._flush()
            return
        try:
            self._http2.send_headers(stream_id, headers, end_stream=not has_body)
            await self._flush()
            if has_body:
                async for piece in pieces:
                    await self._send_data(stream_id, stream, piece, ends=False)
                self._http2.end_stream(stream_id)
                await self._flush()
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await close()

    async def _send_data(self, stream_id: int, stream: _Stream, data: bytes, *, ends: bool) -> None:
        """Within the window that the peer has opened, in frames that it takes."""
        at = 0
        while at < len(data):
            stream.window.clear()
            room = min(self._http2.local_flow_control_window(stream_id), self._http2.max_outbound_frame_size)
            if room <= 0:
                async with asyncio.timeout(self._limits.send_timeout_s):
                    await stream.window.wait()
                continue
            piece = data[at : at + room]
            at += len(piece)
            self._http2.send_data(stream_id, piece, end_stream=ends and at >= len(data))
            await self._flush()

    async def _flush(self) -> None:
        data = self._http2.data_to_send()
        if data:
            self._writer.write(data)
        async with asyncio.timeout(self._limits.send_timeout_s):
            await self._writer.drain()

    # -- bookkeeping ---------------------------------------------------------------------------------------------------

    def _forget(self, stream_id: int, stream: _Stream) -> None:
        if self._streams.pop(stream_id, None) is None:
            return
        self._let_go(stream)
        if stream.incoming is not None:
            self._leave_body(stream_id, stream.incoming)
        if self._streams:
            return
        if self._closing:
            self._writer.transport.abort()
        elif self._idle is not None:
            self._idle.reschedule(asyncio.get_running_loop().time() + self._limits.idle_timeout_s)

    def _leave_body(self, stream_id: int, incoming: _Incoming) -> None:
        """What was not read gives its window back to the other streams of the connection."""
        incoming.stream.close()
        with contextlib.suppress(self._protocol_error):
            self._give_back(stream_id, incoming)

    def _give_back(self, stream_id: int, incoming: _Incoming) -> None:
        window_bytes, incoming.window_bytes = incoming.window_bytes, 0
        self._http2.acknowledge_received_data(window_bytes, stream_id)

    @staticmethod
    def _forget_patience(stream: _Stream) -> None:
        if stream.patience is not None:
            stream.patience.cancel()

    def _hold(self, stream: _Stream, more: int) -> bool:
        """Count bytes that a request brings; whether all connections together are still within their limit."""
        stream.held_bytes += more
        return self._count(more)

    def _let_go(self, stream: _Stream) -> None:
        """Nothing of it is held any more. Saying so again changes nothing."""
        held, stream.held_bytes = stream.held_bytes, 0
        self._count(-held)


def _too_much_held() -> HttpError:
    return HttpError(503, "The server holds too many unanswered requests; try again")
