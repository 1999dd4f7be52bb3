"""The server over real sockets: clients that behave, clients that do not, and a stop that lets requests finish."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

import pytest

from headwater.base.security.tls import ContextSource
from headwater.web.client import HttpClient, HttpClientError
from headwater.web.content import json_response
from headwater.web.door import Door
from headwater.web.limits import Limits
from headwater.web.messages import HttpError, Request, Response
from headwater.web.router import Router
from headwater.web.server import HttpServer


class Stage:
    """A door with a few odd handlers. `entered` and `release` hold a request where a test wants it."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.release = asyncio.Event()
        self.stream_closed = asyncio.Event()
        router = Router()
        router.add("GET", "/echo/{word}", self._echo)
        router.add("POST", "/size", self._size)
        router.add("GET", "/wait", self._wait)
        router.add("GET", "/broken", self._broken)
        router.add("GET", "/refused", self._refused)
        router.add("GET", "/stream", self._stream)
        router.add("GET", "/endless", self._endless)
        self.door = Door(router)

    async def _echo(self, request: Request) -> Response:
        return Response(200, request.parameters["word"].encode())

    async def _size(self, request: Request) -> Response:
        return json_response({"bytes": len(request.body)})

    async def _wait(self, request: Request) -> Response:
        self.entered.set()
        await self.release.wait()
        return Response(200, b"done")

    async def _broken(self, request: Request) -> Response:
        raise RuntimeError("a fault of ours")

    async def _refused(self, request: Request) -> Response:
        raise HttpError(409, "no", 40901)

    async def _stream(self, request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            for piece in (b"one", b"", b"two"):
                yield piece

        return Response(200, pieces())

    async def _endless(self, request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            try:
                yield b"begin"
                self.entered.set()
                await asyncio.Event().wait()
            finally:
                self.stream_closed.set()

        return Response(200, pieces())


def on_stage(play: Callable[[Stage, HttpServer, int], Awaitable[None]], limits: Limits | None = None) -> None:
    async def run() -> None:
        stage = Stage()
        server = HttpServer(stage.door, limits)
        port = await server.start("127.0.0.1", 0)
        try:
            await play(stage, server, port)
        finally:
            stage.release.set()
            await server.stop()
        assert server.connections == 0

    asyncio.run(run())


async def talk(port: int, data: bytes) -> bytes:
    """Everything that the server says, until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await reader.read()
    finally:
        writer.close()
        await writer.wait_closed()


def get(path: str, *lines: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", "Host: a", *lines, "", ""]).encode()


LAST = get("/echo/last", "Connection: close")


def test_requests_sent_at_once_are_answered_in_order() -> None:
    async def play(_stage: Stage, _server: HttpServer, port: int) -> None:
        said = await talk(port, get("/echo/1") + get("/refused") + get("/stream") + get("/echo/a%2Fb") + LAST)
        places = [
            said.index(word)
            for word in (b"\r\n\r\n1", b'{"error_code":40901', b"3\r\none\r\n3\r\ntwo\r\n0\r\n", b"a/b", b"last")
        ]
        assert places == sorted(places)
        assert said.count(b"HTTP/1.1 200 OK\r\n") == 4

    on_stage(play)


def test_a_fault_in_a_handler_costs_one_answer() -> None:
    async def play(_stage: Stage, _server: HttpServer, port: int) -> None:
        said = await talk(port, get("/broken") + LAST)
        assert said.startswith(b"HTTP/1.1 500 ")
        assert said.endswith(b"last")

    on_stage(play)


def test_our_client_keeps_its_connection() -> None:
    async def play(_stage: Stage, server: HttpServer, port: int) -> None:
        client = HttpClient()
        try:
            for size in (0, 1, 1_000_000):
                answer = await client.request("POST", f"http://127.0.0.1:{port}/size", body=b"x" * size)
                assert (answer.status, answer.body) == (200, b'{"bytes":%d}' % size)
                assert server.connections == 1
            assert (await client.request("GET", f"http://127.0.0.1:{port}/stream")).body == b"onetwo"
            assert (await client.request("HEAD", f"http://127.0.0.1:{port}/echo/x")).body == b""
            assert (await client.request("GET", f"http://127.0.0.1:{port}/nothing")).status == 404
        finally:
            await client.close()

    on_stage(play)


def test_a_client_of_http_1_0_is_told_that_its_connection_is_kept() -> None:
    """Otherwise it reads on after an answer until the connection closes, as those with `ab -k` or old proxies do."""

    def old(path: str, *lines: str) -> bytes:
        return "\r\n".join([f"GET {path} HTTP/1.0", *lines, "", ""]).encode()

    async def play(_stage: Stage, _server: HttpServer, port: int) -> None:
        said = await talk(port, old("/echo/1", "Connection: Keep-Alive") + old("/echo/last"))
        first, last = said.split(b"HTTP/1.1 ")[1:]
        assert b"\r\nConnection: keep-alive\r\n" in first
        assert b"\r\nConnection: close\r\n" in last
        said = await talk(port, old("/stream", "Connection: keep-alive"))
        assert b"\r\nConnection: close\r\n" in said
        assert said.endswith(b"\r\n\r\nonetwo")

    on_stage(play)


def test_what_is_no_request_gets_an_answer_and_a_close() -> None:
    async def play(_stage: Stage, _server: HttpServer, port: int) -> None:
        for data, status in (
            (b"\x16\x03\x01\x00\x00\r\n\r\n", b"400"),
            (b"GET /" + b"a" * 100_000, b"431"),
            (b"POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n", b"413"),
        ):
            said = await talk(port, data)
            assert said.startswith(b"HTTP/1.1 " + status)
            assert b"error_code" in said

    on_stage(play)


def test_a_request_that_comes_too_slowly_is_told_so() -> None:
    async def play(_stage: Stage, _server: HttpServer, port: int) -> None:
        assert (await talk(port, b"POST /size HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx")).startswith(
            b"HTTP/1.1 408"
        )
        assert await talk(port, b"") == b""  # never said anything: closed when it was idle for too long

    on_stage(play, Limits(receive_timeout_s=0.05, idle_timeout_s=0.05))


def test_a_handler_that_takes_too_long_is_given_up() -> None:
    async def play(_stage: Stage, _server: HttpServer, port: int) -> None:
        assert (await talk(port, get("/wait", "Connection: close"))).startswith(b"HTTP/1.1 503")

    on_stage(play, Limits(handle_timeout_s=0.05))


def test_connections_beyond_the_limit_are_closed() -> None:
    async def play(stage: Stage, server: HttpServer, port: int) -> None:
        first = asyncio.create_task(talk(port, get("/wait", "Connection: close")))
        await stage.entered.wait()
        try:
            beyond = await talk(port, LAST)
        except ConnectionResetError:
            beyond = b""
        assert beyond == b""
        stage.release.set()
        assert (await first).endswith(b"done")

    on_stage(play, Limits(connections_max=1))


def test_requests_that_are_held_have_one_limit_for_all_connections() -> None:
    async def play(stage: Stage, _server: HttpServer, port: int) -> None:
        head = b"POST /size HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 600000\r\n\r\n"
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head + b"x" * 500_000)  # stays unfinished
        held = asyncio.create_task(talk(port, get("/wait", "Connection: close")))
        await stage.entered.wait()
        said = b""
        while not said.startswith(b"HTTP/1.1 503"):  # once the first one's bytes have come in
            said = await talk(port, head + b"x" * 600_000)
        writer.close()
        await writer.wait_closed()
        stage.release.set()
        assert (await held).endswith(b"done")
        while not said.startswith(b"HTTP/1.1 200"):  # and once they are forgotten again
            said = await talk(port, head + b"x" * 600_000)

    on_stage(play, Limits(buffered_bytes_max=1_000_000))


def test_a_client_that_leaves_ends_its_stream() -> None:
    async def play(stage: Stage, _server: HttpServer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/endless"))
        await reader.readuntil(b"begin")
        await stage.entered.wait()
        writer.close()
        await writer.wait_closed()
        await stage.stream_closed.wait()

    on_stage(play)


@pytest.mark.parametrize("more", [b"\r\n", LAST, b"x" * 200_000])
def test_a_client_that_leaves_ends_its_stream_whatever_it_sent_meanwhile(more: bytes) -> None:
    """One byte behind the request, and nobody saw it leave: a thousand such streams kept everybody else out."""

    async def play(stage: Stage, _server: HttpServer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(get("/endless"))
        await reader.readuntil(b"begin")
        await stage.entered.wait()
        writer.write(more)
        await writer.drain()
        writer.close()
        async with asyncio.timeout(60):
            await stage.stream_closed.wait()

    on_stage(play)


def test_a_request_behind_a_stream_is_answered_after_it() -> None:
    async def play(_stage: Stage, _server: HttpServer, port: int) -> None:
        said = await talk(port, get("/stream") + b"\r\n" + LAST)
        assert said.count(b"HTTP/1.1 200") == 2
        assert said.endswith(b"last")

    on_stage(play)


def test_a_stop_lets_requests_finish_and_closes_idle_connections() -> None:
    async def play(stage: Stage, server: HttpServer, port: int) -> None:
        idle_reader, idle_writer = await asyncio.open_connection("127.0.0.1", port)
        idle_writer.write(get("/echo/idle"))
        await idle_reader.readuntil(b"idle")
        waiting = asyncio.create_task(talk(port, get("/wait")))
        await stage.entered.wait()
        stopping = asyncio.create_task(server.stop())
        with contextlib.suppress(ConnectionResetError):
            assert await idle_reader.read() == b""
        stage.release.set()
        said = await waiting
        assert b"Connection: close" in said
        assert said.endswith(b"done")
        await stopping
        idle_writer.close()

    on_stage(play)


def test_bodies_that_do_not_end_keep_large_requests_out_and_not_small_ones() -> None:
    async def play(stage: Stage, server: HttpServer, port: int) -> None:
        _, holding = await asyncio.open_connection("127.0.0.1", port)
        holding.write(b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n" + b"x" * 249_990)
        client = HttpClient()
        try:
            while server._buffered_bytes < 249_990:
                await asyncio.sleep(0)
            url = f"http://127.0.0.1:{port}"
            assert (await client.request("GET", f"{url}/echo/here")).body == b"here"
            assert (await client.request("POST", f"{url}/size", body=b"x" * 1000)).status == 200
            assert (await client.request("POST", f"{url}/size", body=b"x" * 200_000)).status == 503
        finally:
            holding.close()
            await client.close()

    on_stage(play, Limits(buffered_bytes_max=250_000))


@pytest.mark.parametrize(
    "url", ["http://alice:hunter2/x@host", "http://alice:x,?hunter2@host:port", "http://[hunter2@host"]
)
def test_an_address_that_cannot_be_asked_is_told_without_its_login(url: str) -> None:
    async def ask() -> None:
        with pytest.raises(HttpClientError, match="is no address that can be asked") as caught:
            await HttpClient().request("GET", url)
        assert "hunter2" not in str(caught.value)
        assert not caught.value.was_sent

    asyncio.run(ask())


def test_a_connection_that_does_not_come_about_in_time_has_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nobody(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", nobody)

    async def ask() -> None:
        with pytest.raises(HttpClientError, match="cannot be reached: no connection within") as caught:
            await HttpClient().request("POST", "http://127.0.0.1:1/", timeout_s=60, connect_timeout_s=0.01)
        assert not caught.value.was_sent

    asyncio.run(ask())


@pytest.mark.parametrize("tls", [False, True])
def test_a_name_with_an_address_that_this_machine_has_not_listens_on_the_others(
    monkeypatch: pytest.MonkeyPatch, tls: bool
) -> None:
    """In containers without IPv6 localhost is ::1, too: nothing was served there."""

    async def both(*_: object, **__: object) -> list[object]:
        kind = socket.SOCK_STREAM
        return [
            (socket.AF_INET6, kind, 6, "", ("2001:db8::1", 0, 0, 0)),
            (socket.AF_INET, kind, 6, "", ("127.0.0.1", 0)),
        ]

    async def serve() -> None:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", both)
        server = HttpServer(Stage().door)
        port = await server.start("localhost", 0, cast("ContextSource", object()) if tls else None)
        monkeypatch.undo()
        socket.create_connection(("127.0.0.1", port)).close()
        await server.stop()

    asyncio.run(serve())


def test_a_name_of_two_addresses_has_one_port() -> None:
    async def serve() -> None:
        server = HttpServer(Stage().door)
        port = await server.start("", 0)
        for host in ("127.0.0.1", "::1"):
            socket.create_connection((host, port)).close()
        await server.stop()

    asyncio.run(serve())


def test_a_port_that_is_taken_is_told_and_nothing_stays_open() -> None:
    async def serve() -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            server = HttpServer(Stage().door)
            with pytest.raises(OSError, match="in use"):
                await server.start("127.0.0.1", other.getsockname()[1])
            await server.stop()

    asyncio.run(serve())
