"""Frames between a lead and its slots, and how each proves to the other that it belongs to the runtime.

A frame is its length (4 bytes, big-endian) and so many bytes. Whoever connects is sent a nonce, answers with a nonce of
its own and HMAC-SHA256 of both under the runtime's secret, and is sent such a proof in return; nothing else is read
before, and no frame of more than 1 KiB. The secret is made anew for each runtime and reaches the slots with their code,
by Spark. Frames are not encrypted: what they carry is as visible on the network as what Spark itself sends without
encryption.

A slot that is cut off finds out when the lead does: what it sends, heartbeats at least, must be acknowledged within
`SILENCE_S`, or its connection is over (TCP_USER_TIMEOUT). Without that, what it says goes into the socket's buffer for
a quarter of an hour, and its tasks run on while their successors do.

`FrameBuffer` is without I/O; `Channel` owns a socket: one thread receives, any thread sends.
"""

import contextlib
import hmac
import secrets
import select
import socket
import threading
import time
from struct import Struct
from typing import Any, Final

from headwater.spark.slots.message_codec import MessageCodec

_LENGTH: Final = Struct(">I")
_NONCE_BYTES: Final = 32
_PROOF_BYTES: Final = 32
_STRANGERS_MAX_BYTES: Final = 1024
FRAME_MAX_BYTES: Final = 256 * 1024 * 1024  # a program may have tables in it
_CHUNK_BYTES: Final = 1 << 16
_HANDSHAKE_S: Final = 30.0
_SEND_S: Final = 30.0
SILENCE_S: Final = 10.0  # of a slot, for its lead; of the network, for a slot


class ChannelClosed(Exception):
    """The other side is gone, or says what it must not."""


class FrameBuffer:
    def __init__(self, max_bytes: int = _STRANGERS_MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        self._data += data

    def next(self) -> bytes | None:
        """The next whole frame. Raises ChannelClosed for one that is too long."""
        if len(self._data) < _LENGTH.size:
            return None
        (size,) = _LENGTH.unpack_from(self._data)
        if size > self.max_bytes:
            raise ChannelClosed(f"a frame of {size} bytes, where {self.max_bytes} are the most")
        end = _LENGTH.size + size
        if len(self._data) < end:
            return None
        frame = bytes(self._data[_LENGTH.size : end])
        del self._data[:end]
        return frame


def _proof(secret: bytes, who: bytes, nonces: bytes) -> bytes:
    return hmac.digest(secret, who + nonces, "sha256")


class Channel:
    """A connection between two who have proved that they know the secret."""

    def __init__(self, connection: socket.socket, codec: MessageCodec) -> None:
        connection.settimeout(_SEND_S)
        self._codec = codec
        self._socket = connection
        self._readable = select.poll()
        self._readable.register(connection, select.POLLIN)
        self._buffer = FrameBuffer()
        self._sending = threading.Lock()

    @classmethod
    def accepted(cls, connection: socket.socket, secret: bytes, codec: MessageCodec) -> "Channel":
        """The lead's side."""
        channel = cls(connection, codec)
        mine = secrets.token_bytes(_NONCE_BYTES)
        channel._send(mine)
        answer = channel._receive(_HANDSHAKE_S)
        theirs, proof = answer[:_NONCE_BYTES], answer[_NONCE_BYTES:]
        if len(theirs) != _NONCE_BYTES or not hmac.compare_digest(proof, _proof(secret, b"slot", mine + theirs)):
            raise ChannelClosed("it does not know the secret of this runtime")
        channel._send(_proof(secret, b"lead", mine + theirs))
        channel._buffer.max_bytes = FRAME_MAX_BYTES
        return channel

    @classmethod
    def connected(cls, address: tuple[str, int], secret: bytes, codec: MessageCodec) -> "Channel":
        """The slot's side."""
        connection = socket.create_connection(address, _HANDSHAKE_S)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SILENCE_S * 1000))
            channel = cls(connection, codec)
            theirs = channel._receive(_HANDSHAKE_S)
            mine = secrets.token_bytes(_NONCE_BYTES)
            channel._send(mine + _proof(secret, b"slot", theirs + mine))
            proof = channel._receive(_HANDSHAKE_S)
            if not hmac.compare_digest(proof, _proof(secret, b"lead", theirs + mine)):
                raise ChannelClosed("it does not know the secret of this runtime")
        except BaseException:
            connection.close()
            raise
        channel._buffer.max_bytes = FRAME_MAX_BYTES
        return channel

    @property
    def local_host(self) -> str:
        """The address of this machine by which the other side is reached."""
        return str(self._socket.getsockname()[0])

    def send(self, message: Any) -> None:
        """Raises ChannelClosed when the other side is gone or takes nothing."""
        self._send(self._codec.encode(message))

    def receive(self, timeout_s: float) -> Any:
        """None if nothing came in time. Raises ChannelClosed."""
        try:
            return self._codec.decode(self._receive(timeout_s))
        except TimeoutError:
            return None
        except ValueError as error:
            raise ChannelClosed(str(error)) from error

    def hang_up(self) -> None:
        """For other threads than the one that receives, which finds the connection closed. The descriptor stays: were
        it closed here, the next connection could get its number, and that thread would wait for what comes there.
        """
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """For the thread that receives."""
        self.hang_up()
        self._socket.close()

    def _send(self, frame: bytes) -> None:
        with self._sending:
            try:
                self._socket.sendall(_LENGTH.pack(len(frame)) + frame)
            except OSError as error:
                with contextlib.suppress(OSError):  # a part of the frame may be sent: nothing may follow it
                    self._socket.shutdown(socket.SHUT_RDWR)
                raise ChannelClosed(str(error)) from error

    def _receive(self, timeout_s: float) -> bytes:
        give_up_at = time.monotonic() + timeout_s
        while True:
            frame = self._buffer.next()
            if frame is not None:
                return frame
            try:
                left_ms = max(give_up_at - time.monotonic(), 0.0) * 1000
                data = self._socket.recv(_CHUNK_BYTES) if self._readable.poll(left_ms) else None
            except OSError as error:  # ETIMEDOUT, too, which Python makes a TimeoutError of
                raise ChannelClosed(str(error)) from error
            if data is None:
                raise TimeoutError
            if not data:
                raise ChannelClosed("the connection was closed")
            self._buffer.feed(data)
