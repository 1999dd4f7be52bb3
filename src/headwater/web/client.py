"""A small HTTP/1.1 client on asyncio, for what one door asks of another: a request, and its whole answer within limits.

Connections are kept and used again. A request is sent once: whether it was carried out is known only by its answer, so
what to do after an error is the caller's decision.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from headwater.base.redaction import http_address, without_login
from headwater.web.messages import Headers

if TYPE_CHECKING:
    from headwater.base.security.tls import ContextSource

_HEAD_BYTES_MAX: Final = 64 * 1024
_PORTS: Final = {"http": 80, "https": 443}
_IDLE_MAX: Final = 16  # connections that are kept, of all servers


_Place: TypeAlias = tuple[str, int, str]  # host, port, scheme


class HttpClientError(Exception):
    """No answer, or one that makes no sense. `was_sent` False: the server has seen nothing of the request."""

    def __init__(self, message: str, *, was_sent: bool = True) -> None:
        super().__init__(message)
        self.was_sent = was_sent


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Headers
    body: bytes


@dataclass(slots=True)
class _Link:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def close(self) -> None:
        self.writer.transport.abort()


async def _end(limit: asyncio.Timeout, when: asyncio.Event) -> None:
    await when.wait()
    if not limit.expired():
        limit.reschedule(asyncio.get_running_loop().time())


class HttpClient:
    """Owned by one loop; `close` it."""

    def __init__(self, body_bytes_max: int = 64 * 1024 * 1024, tls: "ContextSource | None" = None) -> None:
        """`tls`: whom to trust behind https://; without it, whom the system trusts."""
        self._body_bytes_max = body_bytes_max
        self._tls = tls
        self._idle: dict[_Place, list[_Link]] = {}

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout_s: float = 30.0,
        connect_timeout_s: float | None = None,
        unless: asyncio.Event | None = None,
    ) -> Answer:
        """`url`: http(s)://host:port/path?query, encoded already. To connect has a time of its own: `timeout_s` too, if
        none is given. Nothing is sent if `unless` is set before there is a connection. Raises HttpClientError.
        """
        parts = http_address(url)
        if parts is None or parts.hostname is None:
            raise HttpClientError(f"{without_login(url)} is no address that can be asked", was_sent=False)
        place = (parts.hostname, parts.port or _PORTS[parts.scheme], parts.scheme)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        fields = {"Host": parts.netloc.rpartition("@")[2], **(headers or {}), "Content-Length": str(len(body))}
        lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        data = "\r\n".join(lines).encode("latin-1") + body
        try:
            link = await self._connected(place, timeout_s if connect_timeout_s is None else connect_timeout_s, unless)
            async with asyncio.timeout(timeout_s):
                return await self._exchange(place, link, method, data)
        except TimeoutError:
            raise HttpClientError(f"{place[0]}:{place[1]} did not answer within {timeout_s:g} s") from None
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as problem:
            raise HttpClientError(f"{place[0]}:{place[1]} did not answer: {problem}") from None

    async def _connected(self, place: _Place, timeout_s: float, unless: asyncio.Event | None) -> _Link:
        link = self._take(place)
        if link is not None:
            return link
        watch: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(timeout_s) as limit:
                if unless is not None:
                    watch = asyncio.create_task(_end(limit, unless))
                host, port, scheme = place
                tls = self._context() if scheme == "https" else None
                return _Link(*await asyncio.open_connection(host, port, limit=_HEAD_BYTES_MAX, ssl=tls))
        except OSError as problem:  # a timeout is one, too
            why = str(problem) or f"no connection within {timeout_s:g} s"
            raise HttpClientError(f"{place[0]}:{place[1]} cannot be reached: {why}", was_sent=False) from None
        finally:
            if watch is not None:
                watch.cancel()

    def _context(self) -> ssl.SSLContext:
        return self._tls.current() if self._tls is not None else ssl.create_default_context()

    async def _exchange(self, place: _Place, link: _Link, method: str, data: bytes) -> Answer:
        keeps = False
        try:
            link.writer.write(data)
            await link.writer.drain()
            answer = await self._answer(link.reader, method)
            keeps = (
                "close" not in answer.headers.listed("connection") and answer.headers.get("content-length") is not None
            )
            return answer
        finally:
            kept = self._idle.setdefault(place, [])
            if keeps and sum(map(len, self._idle.values())) < _IDLE_MAX:
                kept.append(link)
            else:
                link.close()

    def _take(self, place: _Place) -> _Link | None:
        kept = self._idle.get(place, [])
        while kept:
            link = kept.pop()
            if not link.reader.at_eof() and not link.writer.is_closing():
                return link
            link.close()
        return None

    async def _answer(self, reader: asyncio.StreamReader, method: str) -> Answer:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.removesuffix("\r\n\r\n").split("\r\n")
            version, status, *_ = [*first.split(" ", 2), ""]
            if not version.startswith("HTTP/1.") or not (status.isascii() and status.isdigit()):
                raise ValueError("its answer is no HTTP")
            fields = [line.partition(":") for line in lines]
            headers = Headers(tuple((name, value.strip()) for name, _, value in fields))
            if int(status) >= 200:
                break
        return Answer(int(status), headers, await self._body(reader, method, int(status), headers))

    async def _body(self, reader: asyncio.StreamReader, method: str, status: int, headers: Headers) -> bytes:
        if method == "HEAD" or status in (204, 304):
            return b""
        if "chunked" in headers.listed("transfer-encoding"):
            return await self._chunks(reader)
        length = headers.get("content-length")
        if length is None:
            body = await reader.read(self._body_bytes_max + 1)
            while piece := await reader.read(65536):
                body += piece
                self._check(len(body))
            return body
        self._check(int(length))
        return await reader.readexactly(int(length))

    async def _chunks(self, reader: asyncio.StreamReader) -> bytes:
        body = bytearray()
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            self._check(len(body) + size)
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        while (await reader.readuntil(b"\r\n")) != b"\r\n":
            pass
        return bytes(body)

    def _check(self, size_bytes: int) -> None:
        if not 0 <= size_bytes <= self._body_bytes_max:
            raise ValueError(f"its answer has more than {self._body_bytes_max} bytes")

    async def close(self) -> None:
        links = [link for kept in self._idle.values() for link in kept]
        self._idle.clear()
        for link in links:
            link.close()
            with contextlib.suppress(OSError):
                await link.writer.wait_closed()
