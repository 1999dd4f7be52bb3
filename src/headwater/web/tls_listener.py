"""Connections over TLS, each by the certificates that are right when it comes: asyncio's own server has one context for
ever.

Owned by an `HttpServer`. Handshakes run side by side, so many at a time and each for so long; a client that speaks
plain HTTP, or whose certificate is refused, is closed, and the log says so at level debug: anybody may knock.
"""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from headwater.web.listening import listening_sockets

if TYPE_CHECKING:
    from headwater.base.security.tls import ContextSource

logger = logging.getLogger("headwater.web")

_HANDSHAKE_S: Final = 30.0
_AGAIN_S: Final = 0.2  # after descriptors ran out

OnConnection = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class TlsListener:
    def __init__(
        self,
        on_connection: OnConnection,
        source: "ContextSource",
        reader_limit_bytes: int,
        handshakes_max: int,
        protocols: Sequence[str] = ("http/1.1",),
    ) -> None:
        """`protocols`: what is offered by ALPN, best first. Clients that do not ask are served all the same."""
        self._on_connection = on_connection
        self._source = source
        self._reader_limit_bytes = reader_limit_bytes
        self._protocols = list(protocols)
        self._handshakes = asyncio.Semaphore(handshakes_max)
        self._sockets: list[socket.socket] = []
        self._accepting: list[asyncio.Task[None]] = []
        self._shaking: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Raises OSError."""
        self._sockets = await listening_sockets(host, port)
        self._accepting = [asyncio.create_task(self._accept(each)) for each in self._sockets]
        return self.port

    @property
    def port(self) -> int:
        return int(self._sockets[0].getsockname()[1]) if self._sockets else 0

    async def close(self) -> None:
        tasks = [*self._accepting, *self._shaking]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for each in self._sockets:
            each.close()

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._handshakes.acquire()
            try:
                connection, _ = await loop.sock_accept(listening)
            except OSError as problem:
                self._handshakes.release()
                logger.warning("event=accept-failed reason=%r", str(problem))
                await asyncio.sleep(_AGAIN_S)
                continue
            except asyncio.CancelledError:
                self._handshakes.release()
                raise
            task = asyncio.create_task(self._shake(connection))
            self._shaking.add(task)
            task.add_done_callback(self._shaking.discard)

    async def _shake(self, connection: socket.socket) -> None:
        """When the handshake is over, the protocol calls `on_connection` in a task of its own."""
        loop = asyncio.get_running_loop()

        def made() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(
                asyncio.StreamReader(limit=self._reader_limit_bytes), self._on_connection
            )

        context = self._source.current()
        context.set_alpn_protocols(self._protocols)
        try:
            await loop.connect_accepted_socket(made, connection, ssl=context, ssl_handshake_timeout=_HANDSHAKE_S)
        except (OSError, EOFError) as problem:  # ssl.SSLError and timeouts are OSErrors
            logger.debug("event=handshake-failed reason=%r", str(problem))
            with contextlib.suppress(OSError):
                connection.close()
        finally:
            self._handshakes.release()
