"""The server's side of a WebSocket (RFC 6455), for doors that send messages: the handshake, frames, pings and the end.

`FrameParser` and the functions that write frames are pure; `converse` owns the connection from the answer to the
handshake on. A door that answers with a `WebSocketResponse` only speaks: frames with data of a client are bounded and
let go unread. Extensions and sub-protocols are not offered. A client that is silent is asked by a ping, and given up
when it stays so.
"""

import asyncio
import base64
import binascii
import hashlib
import struct
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from headwater.web.limits import Limits
from headwater.web.messages import HttpError, Request, Response

FRAME_BYTES_MAX: Final = 16 * 1024  # of a client, which has little to say here
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_READ_BYTES: Final = 16 * 1024
_CONTROL_BYTES_MAX: Final = 125
_LINGER_S: Final = 5.0


class Opcode(IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class Code(IntEnum):
    """Why a conversation ends."""

    NORMAL = 1000
    PROTOCOL_ERROR = 1002
    UNSUPPORTED = 1003
    INVALID_DATA = 1007
    POLICY = 1008
    TOO_BIG = 1009
    SERVER_ERROR = 1011
    TRY_AGAIN_LATER = 1013


class WebSocketClosed(Exception):
    """Ends a conversation, with a code and a reason that the client is told. A door's messages may raise it."""

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


@dataclass(slots=True)
class WebSocketResponse(Response):
    """The answer to a handshake, and then `messages`, each a text. When they end, the conversation does."""

    messages: AsyncIterator[str] = field(kw_only=True)


def accept(request: Request, messages: AsyncIterator[str]) -> WebSocketResponse:
    """Raises HttpError for what is no handshake."""
    headers = request.headers
    asks = "upgrade" in headers.listed("connection") and "websocket" in headers.listed("upgrade")
    if request.method != "GET" or not request.http_minor or not asks:
        raise HttpError(426, "Only WebSockets are spoken here", headers={"Upgrade": "websocket"})
    if headers.all("sec-websocket-version") != ["13"]:
        raise HttpError(426, "Only version 13 of WebSockets is spoken", headers={"Sec-WebSocket-Version": "13"})
    keys = headers.all("sec-websocket-key")
    try:
        is_key = len(keys) == 1 and len(base64.b64decode(keys[0], validate=True)) == 16
    except (binascii.Error, ValueError):
        is_key = False
    if not is_key:
        raise HttpError(400, "The Sec-WebSocket-Key must be 16 bytes in Base64")
    proof = base64.b64encode(hashlib.sha1(keys[0].encode() + _GUID, usedforsecurity=False).digest()).decode()
    answer = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": proof}
    return WebSocketResponse(101, b"", answer, messages=messages)


def frame(opcode: Opcode, payload: bytes) -> bytes:
    """A whole message in one frame, not masked: servers do not."""
    size = len(payload)
    if size <= 125:
        head = struct.pack(">BB", 0x80 | opcode, size)
    elif size < 1 << 16:
        head = struct.pack(">BBH", 0x80 | opcode, 126, size)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, 127, size)
    return head + payload


def close_frame(code: int, reason: str = "") -> bytes:
    """The reason is cut where it does not fit, between two characters."""
    text = reason.encode("utf-8", "replace")
    if len(text) > _CONTROL_BYTES_MAX - 2:
        text = text[: _CONTROL_BYTES_MAX - 5].decode("utf-8", "ignore").encode() + b"..."
    return frame(Opcode.CLOSE, struct.pack(">H", code) + text)


class FrameParser:
    """Bytes of a client to frames, unmasked. Holds one frame and one read at most."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Opcode, bytes]]:
        """What is whole now. Raises WebSocketClosed for what breaks the protocol or a limit."""
        self._buffer += data
        while (found := self._next()) is not None:
            yield found

    def _next(self) -> tuple[Opcode, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        first, second = buffer[0], buffer[1]
        if first & 0x70 or (first & 0x0F) not in tuple(Opcode):
            raise WebSocketClosed(Code.PROTOCOL_ERROR, "a frame of an unknown kind")
        if not second & 0x80:
            raise WebSocketClosed(Code.PROTOCOL_ERROR, "a client must mask its frames")
        final, opcode, size = bool(first & 0x80), Opcode(first & 0x0F), second & 0x7F
        if opcode >= Opcode.CLOSE and (not final or size > _CONTROL_BYTES_MAX):
            raise WebSocketClosed(Code.PROTOCOL_ERROR, "a control frame that is long or in pieces")
        start = 2 + {126: 2, 127: 8}.get(size, 0)
        if len(buffer) < start:
            return None
        if size > 125:
            shortest = 126 if size == 126 else 1 << 16
            size = int.from_bytes(buffer[2:start], "big")
            if size < shortest:
                raise WebSocketClosed(Code.PROTOCOL_ERROR, "a length in more bytes than it needs")
        if size > FRAME_BYTES_MAX:
            raise WebSocketClosed(Code.TOO_BIG, f"a frame has {FRAME_BYTES_MAX} bytes at most")
        end = start + 4 + size
        if len(buffer) < end:
            return None
        mask = bytes(buffer[start : start + 4]) * (size // 4 + 1)
        masked = int.from_bytes(buffer[start + 4 : end], "big") ^ int.from_bytes(mask[:size], "big")
        del buffer[:end]
        return opcode, masked.to_bytes(size, "big")


def answer_to_close(payload: bytes) -> int:
    """The code with which a client's close is answered. Raises WebSocketClosed for a close that is none."""
    if not payload:
        return Code.NORMAL
    code = int.from_bytes(payload[:2], "big")
    if len(payload) == 1 or not (code in (1000, 1001, 1002, 1003) or 1007 <= code <= 1014 or 3000 <= code <= 4999):
        raise WebSocketClosed(Code.PROTOCOL_ERROR, "a close without a code that may be sent")
    try:
        payload[2:].decode("utf-8")
    except UnicodeDecodeError:
        raise WebSocketClosed(Code.INVALID_DATA, "a reason that is not in UTF-8") from None
    return code


async def converse(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    messages: AsyncIterator[str],
    limits: Limits,
    first: bytes = b"",
) -> None:
    """Until the messages or the client end it. `first`: what the client sent behind its handshake."""
    sending = asyncio.create_task(_send(writer, messages, limits))
    receiving = asyncio.create_task(_receive(reader, writer, limits, first))
    try:
        await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
        ended = receiving.result() if receiving.done() else sending.result()
        if ended is None:
            return
        sending.cancel()
        await asyncio.wait({sending})
        writer.write(close_frame(ended.code, ended.reason))
        await _drain(writer, limits)
        if not receiving.done():  # the client answers with its own close
            await asyncio.wait({receiving}, timeout=_LINGER_S)
    finally:
        for task in (sending, receiving):
            task.cancel()
        await asyncio.wait({sending, receiving})
        for task in (sending, receiving):
            if not task.cancelled():
                task.exception()  # it was told already, or the connection has gone
        close = getattr(messages, "aclose", None)
        if close is not None:
            await close()


async def _send(writer: asyncio.StreamWriter, messages: AsyncIterator[str], limits: Limits) -> WebSocketClosed:
    try:
        async for message in messages:
            writer.write(frame(Opcode.TEXT, message.encode("utf-8", "replace")))
            await _drain(writer, limits)
    except WebSocketClosed as closed:
        return closed
    return WebSocketClosed(Code.NORMAL, "done")


async def _receive(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Limits, data: bytes
) -> WebSocketClosed | None:
    """How the client ends it; None if it has gone."""
    parser, asked = FrameParser(), False
    try:
        while True:
            for opcode, payload in parser.feed(data):
                if opcode is Opcode.CLOSE:
                    return WebSocketClosed(answer_to_close(payload))
                if opcode is Opcode.PING:
                    writer.write(frame(Opcode.PONG, payload))
                    await _drain(writer, limits)
            try:
                async with asyncio.timeout(limits.idle_timeout_s):
                    data = await reader.read(_READ_BYTES)
            except TimeoutError:
                if asked:
                    return None
                asked, data = True, b""
                writer.write(frame(Opcode.PING, b""))
                await _drain(writer, limits)
                continue
            if not data:
                return None
            asked = False
    except WebSocketClosed as closed:
        return closed


async def _drain(writer: asyncio.StreamWriter, limits: Limits) -> None:
    async with asyncio.timeout(limits.send_timeout_s):
        await writer.drain()
