"""TLS on a socket that never blocks, with the face of a plain one.

`recv_into` gives as many records as fit; `is_drained` says that OpenSSL has nothing more, so that the socket's events
tell of what comes. Where OpenSSL cannot go on, both directions raise BlockingIOError, as a plain socket does. What was
refused is offered again as it was, or longer: OpenSSL has made a record of its start already. Owned by whoever owns the
connection; while it `is_lent` to a thread that takes a step of the handshake, nobody else touches it, and `close` waits
for its return: a descriptor that is closed then could be somebody else's when OpenSSL writes to it.
"""

import ssl
from collections.abc import Sequence
from typing import Any, Final

_JOINED_BYTES: Final = 128 * 1024


class TlsSocket:
    """`step` until it is True; then it is as good as a socket."""

    __slots__ = ("_is_to_close", "_ssl", "is_drained", "is_lent", "is_writing")

    def __init__(self, sock: Any, context: ssl.SSLContext, server_hostname: str | None = None) -> None:
        self._ssl = context.wrap_socket(
            sock,
            server_side=server_hostname is None,
            do_handshake_on_connect=False,
            suppress_ragged_eofs=True,
            server_hostname=server_hostname,
        )
        self.is_drained = True
        self.is_writing = False  # the handshake waits for room to write
        self.is_lent = False
        self._is_to_close = False

    def lend(self) -> None:
        """To a thread that takes one step."""
        assert not self.is_lent
        self.is_lent = True

    def give_back(self) -> None:
        self.is_lent = False
        if self._is_to_close:
            self._ssl.close()

    def step(self) -> bool:
        """One step of the handshake; True when it is over. Raises ssl.SSLError or OSError when there will be none."""
        try:
            self._ssl.do_handshake()
        except ssl.SSLWantReadError:
            self.is_writing = False
            return False
        except ssl.SSLWantWriteError:
            self.is_writing = True
            return False
        self.is_drained = False  # what came behind the handshake may be there already
        return True

    @property
    def certificate(self) -> bytes | None:
        """The peer's, in DER; None if it has shown none, or nobody has checked it."""
        return self._ssl.getpeercert(binary_form=True)

    def fileno(self) -> int:
        return self._ssl.fileno()

    def recv_into(self, buffer: memoryview, size: int = 0) -> int:
        room = size or len(buffer)
        read = self._ssl.recv_into
        filled = 0
        while filled < room:
            try:
                count = read(buffer[filled:room])
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                self.is_drained = True
                if not filled:
                    raise BlockingIOError from None
                return filled
            except OSError:
                if filled:  # the next read meets it again
                    return filled
                raise
            if count == 0:
                self.is_drained = not filled
                return filled
            filled += count
        self.is_drained = False
        return filled

    def send(self, data: Any, flags: int = 0) -> int:  # noqa: ARG002
        view = memoryview(data)
        write = self._ssl.send
        sent = 0
        try:
            while sent < len(view):
                sent += write(view[sent:])
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not sent:
                raise BlockingIOError from None
        return sent

    def sendmsg(self, buffers: Sequence[Any]) -> int:
        """Small pieces go out as one."""
        pieces: list[Any] = []
        size = 0
        for buffer in buffers:
            pieces.append(buffer)
            size += len(buffer)
            if size >= _JOINED_BYTES:
                break
        return self.send(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def close(self) -> None:
        if self.is_lent:
            self._is_to_close = True
        else:
            self._ssl.close()
