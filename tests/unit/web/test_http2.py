"""HTTP/2 with prior knowledge and over TLS, spoken by the h2 library as a client: several requests at a time, windows,
limits, and HTTP/1.1 beside it.
"""

import asyncio
import importlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from compat.support.certificates import Authority
from headwater.base.security.tls import ContextSource, TlsSettings, client_context, server_context
from headwater.web.content import json_response
from headwater.web.door import Door
from headwater.web.http2 import RESETS_MAX
from headwater.web.limits import Limits
from headwater.web.messages import HttpError, Request, Response
from headwater.web.router import Router
from headwater.web.server import HttpServer

h2_connection, h2_config = importlib.import_module("h2.connection"), importlib.import_module("h2.config")
h2_events = importlib.import_module("h2.events")


class Client:
    """One connection. What has come of each stream: its status, its body, and whether it has ended."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.http2: Any = h2_connection.H2Connection(h2_config.H2Configuration(header_encoding="utf-8"))
        self.http2.initiate_connection()
        self.status: dict[int, int] = {}
        self.bodies: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.resets: dict[int, int] = {}  # error codes
        self.opens_windows = True

    def ask(
        self, method: str, path: str, body: bytes = b"", *, whole: bool = True, more: Sequence[tuple[str, str]] = ()
    ) -> int:
        stream_id: int = self.http2.get_next_available_stream_id()
        head = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "x"), *more]
        self.http2.send_headers(stream_id, head, end_stream=whole and not body)
        if body:
            self.http2.send_data(stream_id, body, end_stream=whole)
        self.send()
        return stream_id

    def send(self) -> None:
        self._writer.write(self.http2.data_to_send())

    async def once(self) -> bool:
        """What comes next; False at the end of the connection."""
        self.send()
        data = await asyncio.wait_for(self._reader.read(65536), 60)
        for event in self.http2.receive_data(data) if data else ():
            if isinstance(event, h2_events.ResponseReceived):
                self.status[event.stream_id] = int(dict(event.headers)[":status"])
            elif isinstance(event, h2_events.DataReceived):
                self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + event.data
                if self.opens_windows:
                    self.http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2_events.StreamEnded):
                self.ended.add(event.stream_id)
            elif isinstance(event, h2_events.StreamReset):
                self.resets[event.stream_id] = int(event.error_code)
        self.send()
        return bool(data)

    async def until(self, *stream_ids: int) -> None:
        while not self.ended.issuperset(stream_ids):
            assert await self.once(), "the connection ended"

    async def until_reset(self, stream_id: int) -> int:
        """The error code."""
        while stream_id not in self.resets:
            assert await self.once(), "the connection ended"
        return self.resets[stream_id]


class Stage:
    def __init__(self) -> None:
        self.release = asyncio.Event()
        self.closed = asyncio.Event()
        router = Router()
        router.add("POST", "/size", self._size)
        router.add("GET", "/wait", self._wait)
        router.add("GET", "/large", self._large)
        router.add("GET", "/endless", self._endless)
        router.add("GET", "/refused", self._refused)
        router.add("GET", "/failing", self._failing)
        router.add("GET", "/host", self._host)
        self.door = Door(router)

    async def _size(self, request: Request) -> Response:
        return json_response({"bytes": len(request.body), "peer": bool(request.peer)})

    async def _host(self, request: Request) -> Response:
        return json_response(request.headers.get("host"))

    async def _wait(self, _request: Request) -> Response:
        await self.release.wait()
        return Response(200, b"waited")

    async def _large(self, _request: Request) -> Response:
        return Response(200, b"x" * 300_000)

    async def _refused(self, _request: Request) -> Response:
        raise HttpError(409, "no", 40901)

    async def _failing(self, _request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"first"
            raise RuntimeError("the rows end here")

        return Response(200, pieces())

    async def _endless(self, _request: Request) -> Response:
        async def pieces() -> AsyncIterator[bytes]:
            try:
                yield b"first"
                await asyncio.Event().wait()
            finally:
                self.closed.set()

        return Response(200, pieces())


async def _on_stage(test: Any, limits: Limits | None = None) -> None:
    stage = Stage()
    server = HttpServer(stage.door, limits or Limits(), http2=True)
    port = await server.start("127.0.0.1", 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        await test(stage, Client(reader, writer), server, port)
    finally:
        writer.close()
        stage.release.set()
        await server.stop()


def test_requests_beside_each_other_are_answered_as_they_are_ready() -> None:
    async def test(stage: Stage, client: Client, _server: HttpServer, _port: int) -> None:
        slow = client.ask("GET", "/wait")
        quick = client.ask("POST", "/size", b"abc")
        refused, nowhere = client.ask("GET", "/refused"), client.ask("GET", "/nowhere")
        await client.until(quick, refused, nowhere)
        assert slow not in client.ended
        assert client.bodies[quick] == b'{"bytes":3,"peer":true}'
        assert [client.status[each] for each in (quick, refused, nowhere)] == [200, 409, 404]
        stage.release.set()
        await client.until(slow)
        assert client.bodies[slow] == b"waited"

    asyncio.run(_on_stage(test))


def test_a_large_answer_waits_for_the_window_of_its_reader() -> None:
    async def test(_stage: Stage, client: Client, _server: HttpServer, _port: int) -> None:
        client.opens_windows = False
        large = client.ask("GET", "/large")
        while len(client.bodies.get(large, b"")) < 65_535:
            await client.once()
        small = client.ask("POST", "/size", b"a")
        client.http2.increment_flow_control_window(100_000)
        await client.until(small)
        assert len(client.bodies[large]) == 65_535
        client.opens_windows = True
        client.http2.increment_flow_control_window(300_000, large)
        client.http2.increment_flow_control_window(300_000)
        await client.until(large)
        assert len(client.bodies[large]) == 300_000

    asyncio.run(_on_stage(test))


def test_a_stream_that_is_taken_back_ends_its_rows() -> None:
    async def test(stage: Stage, client: Client, _server: HttpServer, _port: int) -> None:
        endless = client.ask("GET", "/endless")
        while client.bodies.get(endless) != b"first":
            await client.once()
        client.http2.reset_stream(endless)
        client.send()
        await asyncio.wait_for(stage.closed.wait(), 60)
        after = client.ask("POST", "/size", b"a")
        await client.until(after)
        assert client.bodies[endless] == b"first"
        assert client.status[after] == 200

    asyncio.run(_on_stage(test))


def test_an_answer_that_fails_in_the_middle_is_reset() -> None:
    async def test(_stage: Stage, client: Client, _server: HttpServer, _port: int) -> None:
        failing = client.ask("GET", "/failing")
        assert await client.until_reset(failing) == 2  # INTERNAL_ERROR
        assert client.bodies[failing] == b"first"
        await client.until(client.ask("POST", "/size", b"a"))

    asyncio.run(_on_stage(test))


def test_bodies_are_bounded_and_bad_paths_are_refused() -> None:
    async def test(_stage: Stage, client: Client, _server: HttpServer, _port: int) -> None:
        large = client.ask("POST", "/size", b"x" * 2_000, whole=False)
        await client.until(large)
        assert client.status[large] == 413
        bad = client.ask("GET", "/%zz")
        await client.until(bad)
        assert client.status[bad] == 400

    asyncio.run(_on_stage(test, Limits(body_bytes_max=1_000)))


def test_a_request_that_does_not_come_is_not_waited_for() -> None:
    async def test(_stage: Stage, client: Client, _server: HttpServer, _port: int) -> None:
        slow = client.ask("POST", "/size", b"x", whole=False)
        await client.until(slow)
        assert client.status[slow] == 408

    asyncio.run(_on_stage(test, Limits(receive_timeout_s=0.01)))


def test_a_peer_that_only_takes_back_loses_its_connection() -> None:
    async def test(_stage: Stage, client: Client, server: HttpServer, _port: int) -> None:
        for _ in range(RESETS_MAX + 1):
            client.http2.reset_stream(client.ask("POST", "/size", b"x", whole=False))
        client.send()
        try:
            while await client.once():
                pass
        except ConnectionError:
            pass
        assert not client.ended

    asyncio.run(_on_stage(test))


def test_bytes_that_are_no_http2_end_the_connection() -> None:
    async def test(_stage: Stage, client: Client, _server: HttpServer, _port: int) -> None:
        client._writer.write(
            client.http2.data_to_send() + b"\x00\x00\x01\x00\x00\x00\x00\x00\x00a"
        )  # data of no stream
        while await client._reader.read(1000):
            pass

    asyncio.run(_on_stage(test))


def test_a_header_that_is_not_utf_8_is_one_of_latin_1_as_in_http_1() -> None:
    """It ended the connection, with the other requests on it, and the log had a traceback."""

    async def test(_stage: Stage, client: Client, _server: HttpServer, _port: int) -> None:
        head = [(b":method", b"GET"), (b":path", b"/host"), (b":scheme", b"http"), (b":authority", b"x")]
        client.http2.send_headers(1, [*head, (b"x-user", b"Ren\xe9")], end_stream=True)
        client.http2.send_headers(3, [head[0], (b":path", b"/host\xe9"), *head[2:]], end_stream=True)
        client.http2.send_headers(5, [head[0], (b":path", "/host?é".encode()), *head[2:]], end_stream=True)
        client.send()
        await client.until(1, 3, 5)
        assert client.status == {1: 200, 3: 400, 5: 200}

    asyncio.run(_on_stage(test))


def test_http_1_is_served_beside_it() -> None:
    async def test(_stage: Stage, client: Client, _server: HttpServer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"P")  # as HTTP/2 would begin
        writer.write(b"OST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nab")
        assert (await reader.read()).endswith(b'{"bytes":2,"peer":true}')
        writer.close()
        assert client.ask("GET", "/refused") == 1

    asyncio.run(_on_stage(test))


def test_a_stop_lets_a_request_finish() -> None:
    async def test(stage: Stage, client: Client, server: HttpServer, _port: int) -> None:
        slow = client.ask("GET", "/wait")
        quick = client.ask("POST", "/size", b"a")
        await client.until(quick)
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        stage.release.set()
        await client.until(slow)
        await stopping
        assert client.bodies[slow] == b"waited"

    asyncio.run(_on_stage(test))


@pytest.mark.parametrize("body", [b"", b"a"])
def test_a_server_that_stops_refuses_new_requests_and_answers_those_under_way(body: bytes) -> None:
    """They were taken, and a peer that went on asking kept the server from its end until its time was up."""

    async def test(stage: Stage, client: Client, server: HttpServer, _port: int) -> None:
        slow = client.ask("GET", "/wait")
        await client.until(client.ask("POST", "/size", b"a"))
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        assert await client.until_reset(client.ask("POST", "/size", body)) == 7  # REFUSED_STREAM: safe to ask another
        stage.release.set()
        await client.until(slow)
        await stopping
        assert client.bodies[slow] == b"waited"

    asyncio.run(_on_stage(test))


def test_a_header_is_bounded_and_its_host_is_named() -> None:
    async def test(_stage: Stage, client: Client, _server: HttpServer, _port: int) -> None:
        many = client.ask("GET", "/host", more=[(f"x-{each}", "y") for each in range(11)])
        large = client.ask("GET", "/host", more=[("x", "y" * 900)])
        small = client.ask("GET", "/host", more=[(f"x-{each}", "y") for each in range(10)])
        await client.until(many, large, small)
        assert [client.status[each] for each in (many, large, small)] == [431, 431, 200]
        assert client.bodies[small] == b'"x"'

    asyncio.run(_on_stage(test, Limits(header_fields_max=10, head_bytes_max=1_000)))


def test_headers_count_as_held() -> None:
    async def test(stage: Stage, client: Client, server: HttpServer, _port: int) -> None:
        held = client.ask("GET", "/wait", more=[("x", "y" * 900)])
        refused = client.ask("GET", "/host", more=[("x", "y" * 900)])
        await client.until(refused)
        assert client.status[refused] == 503
        stage.release.set()
        await client.until(held)
        after = client.ask("GET", "/host")
        await client.until(after)
        assert client.status[after] == 200

    asyncio.run(_on_stage(test, Limits(buffered_bytes_max=2_000)))


async def _ended(server: HttpServer) -> None:
    await server.stop()
    assert server._buffered_bytes == 0


def test_the_end_of_a_connection_gives_back_what_it_held_once() -> None:
    async def test(_stage: Stage, client: Client, server: HttpServer, _port: int) -> None:
        client.ask("POST", "/size", b"x" * 1_000, whole=False)
        client.ask("GET", "/endless", b"x" * 1_000)
        while not client.bodies:
            await client.once()
        assert server._buffered_bytes >= 2_000
        client._writer.transport.abort()
        await _ended(server)

    asyncio.run(_on_stage(test))


async def _until_idle(server: HttpServer) -> None:
    """Until the only connection holds no request; then its peer is not waited for without end."""
    (connection,) = server._connections.values()
    http2 = connection._http2
    assert http2 is not None
    async with asyncio.timeout(60):
        while http2._streams:
            await asyncio.sleep(0)
    assert http2._idle is not None
    assert http2._idle.when() is not None
    assert server._buffered_bytes == 0


def test_a_request_that_is_taken_back_before_its_first_step_leaves_nothing() -> None:
    async def test(_stage: Stage, client: Client, server: HttpServer, _port: int) -> None:
        head = [(":method", "POST"), (":path", "/size"), (":scheme", "http"), (":authority", "x")]
        client.http2.send_headers(1, head)
        client.http2.send_data(1, b"x" * 1_000, end_stream=True)
        client.http2.reset_stream(1)
        client.send()  # all in one segment
        after = client.ask("POST", "/size", b"a")
        await client.until(after)
        await _until_idle(server)

    asyncio.run(_on_stage(test))


def test_a_connection_whose_last_request_was_answered_is_idle() -> None:
    async def test(stage: Stage, client: Client, server: HttpServer, _port: int) -> None:
        slow = client.ask("GET", "/wait")
        await client.until(client.ask("POST", "/size", b"a"))
        stage.release.set()
        await client.until(slow)
        await _until_idle(server)

    asyncio.run(_on_stage(test))


@pytest.mark.parametrize(("offered", "agreed"), [(["h2", "http/1.1"], "h2"), (["http/1.1"], "http/1.1"), ([], None)])
def test_over_tls_the_protocol_is_agreed_by_alpn(tmp_path: Path, offered: list[str], agreed: str | None) -> None:
    authority = Authority(tmp_path)
    settings = TlsSettings(keystore_location=authority.pem("server"))
    trusting = client_context(TlsSettings(truststore_location=authority.path))
    if offered:
        trusting.set_alpn_protocols(offered)

    async def scene() -> None:
        stage = Stage()
        server = HttpServer(stage.door, Limits(), http2=True)
        port = await server.start("127.0.0.1", 0, ContextSource(lambda: settings, server_context))
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting, server_hostname="localhost")
        try:
            assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == agreed
            if agreed == "h2":
                client = Client(reader, writer)
                asked = client.ask("POST", "/size", b"12345")
                await client.until(asked)
                assert (client.status[asked], b'"bytes":5' in client.bodies[asked].replace(b" ", b"")) == (200, True)
            else:
                writer.write(b"POST /size HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345")
                assert (await asyncio.wait_for(reader.readline(), 60)).startswith(b"HTTP/1.1 200 ")
        finally:
            writer.close()
            stage.release.set()
            await server.stop()

    asyncio.run(scene())
