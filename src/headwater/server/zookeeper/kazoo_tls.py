"""TLS below kazoo: its sockets, and its wait for them.

kazoo waits for the socket although OpenSSL may have answers that are read off it already, and then takes a part of a
record, or one that holds no data, for the start of an answer. So what arrives is read into a buffer here, and a
connection counts as readable only when there is something in it.
"""

import ssl
import time
from typing import TYPE_CHECKING, Any, Final

from kazoo.handlers.threading import SequentialThreadingHandler

if TYPE_CHECKING:
    from headwater.base.security.tls import ContextSource

_READ_BYTES: Final = 64 * 1024
_HANDSHAKE_TIMEOUT_S: Final = 10.0  # at most: no longer than the connection may take


class TlsStream:
    """A connection behind its handshake, with the part of a socket's face that kazoo looks at."""

    def __init__(self, secured: ssl.SSLSocket) -> None:
        self._secured = secured
        self._buffer = bytearray()
        self._has_ended = False
        self._problem: OSError | None = None

    def fill(self) -> bool:
        """Reads what has come; whether there is something for `recv`: data, the end, or a problem."""
        try:
            while not self._has_ended and self._problem is None and len(self._buffer) < _READ_BYTES:
                data = self._secured.recv(_READ_BYTES)
                self._buffer += data
                self._has_ended = not data
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass
        except OSError as problem:
            self._problem = problem
        return bool(self._buffer) or self._has_ended or self._problem is not None

    def recv(self, size: int) -> bytes:
        if not self.fill():
            raise ssl.SSLWantReadError(ssl.SSL_ERROR_WANT_READ, "nothing has come yet")
        if not self._buffer and self._problem is not None:
            raise self._problem
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def send(self, data: Any) -> int:
        return self._secured.send(data)

    def pending(self) -> int:
        return len(self._buffer)

    def fileno(self) -> int:
        return self._secured.fileno()

    def setblocking(self, _is_blocking: object) -> None:
        self._secured.setblocking(False)

    def shutdown(self, how: int) -> None:
        self._secured.shutdown(how)

    def getpeername(self) -> Any:
        return self._secured.getpeername()

    def close(self) -> None:
        self._secured.close()


class TlsHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's own, with TLS if it has a source of contexts. `problem`: why the last connection could not be made."""

    def __init__(self, tls: "ContextSource | None" = None) -> None:
        super().__init__()
        self.problem = ""
        self._tls = tls

    def create_connection(self, *arguments: Any, hostname: str | None = None, **options: Any) -> Any:
        try:
            plain = super().create_connection(*arguments, hostname=hostname, **options)
        except OSError as problem:
            self.problem = problem.strerror or str(problem)
            raise
        timeout_s = min(_HANDSHAKE_TIMEOUT_S, options.get("timeout") or _HANDSHAKE_TIMEOUT_S)
        connection = plain if self._tls is None else self._secured(plain, hostname or "", timeout_s)
        self.problem = ""
        return connection

    def _secured(self, plain: Any, hostname: str, timeout_s: float) -> TlsStream:
        assert self._tls is not None
        plain.settimeout(timeout_s)
        try:
            return TlsStream(self._tls.current().wrap_socket(plain, server_hostname=hostname))
        except (OSError, ValueError) as problem:
            reason = getattr(problem, "verify_message", None) or getattr(problem, "reason", None) or str(problem)
            self.problem = f"no TLS with {hostname}: {reason}"
            plain.close()
            raise problem if isinstance(problem, OSError) else OSError(str(problem)) from problem

    def select(self, readers: list[Any], writers: list[Any], errors: list[Any], timeout_s: float | None = None) -> Any:
        """What comes may be no data, such as a ticket for a later session: then the wait goes on."""
        streams = [reader for reader in readers if isinstance(reader, TlsStream)]
        if not streams:
            return super().select(readers, writers, errors, timeout_s)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            has_more = any(stream.pending() for stream in streams)
            found = super().select(readers, writers, errors, 0 if has_more else left_s)
            ready = [stream for stream in streams if stream.pending() or (stream in found[0] and stream.fill())]
            ready += [each for each in found[0] if each not in streams]
            if ready or found[1] or left_s == 0:
                return ready, *found[1:]
