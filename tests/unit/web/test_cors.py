"""Which pages of other origins may use a door, and what their browsers are told: through the server, as they ask."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.errors import UserError
from headwater.connect.config.worker import WorkerConfig
from headwater.registry.api import RegistryDoor
from headwater.registry.config import RegistryConfig
from headwater.registry.state import State
from headwater.sql.server import api
from headwater.sql.server.config import SqlServerConfig
from headwater.web.client import Answer, HttpClient
from headwater.web.content import json_response
from headwater.web.cors import sharing
from headwater.web.door import Door
from headwater.web.door_security import DoorSecurity
from headwater.web.listeners import parse_listener
from headwater.web.messages import Headers, Request, Response
from headwater.web.origin import check_origin
from headwater.web.router import Router
from headwater.web.server import Application, HttpServer
from headwater.web.websocket import WebSocketResponse

APP = "https://app.example"
ORIGIN = "access.control.allow.origin"
METHODS = "access.control.allow.methods"
HEADERS = "access.control.allow.headers"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,x-own"}


class Guarded(Door):
    """One that lets no page of another origin in by itself, as the doors of the services do."""

    def __init__(self) -> None:
        router = Router()
        router.add("GET", "/info", self._info)
        super().__init__(router)

    async def handle(self, request: Request) -> Response:
        check_origin(request)
        return await super().handle(request)

    async def _info(self, _request: Request) -> Response:
        return json_response({"is": "here"})


def asked(
    settings: Mapping[str, str],
    method: str,
    path: str,
    headers: Mapping[str, str],
    door: Application | None = None,
    body: bytes = b"",
) -> Answer:
    async def ask() -> Answer:
        security = DoorSecurity("The door", settings, [parse_listener("http://127.0.0.1:1", 1)], {})
        server = HttpServer(security.guard(door or Guarded()))
        port = await server.start("127.0.0.1", 0)
        client = HttpClient()
        try:
            return await client.request(method, f"http://127.0.0.1:{port}{path}", headers=headers, body=body)
        finally:
            await client.close()
            await server.stop()
            await security.close()

    return asyncio.run(ask())


def told(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers if name.startswith("access-control-")}


def test_without_the_setting_no_page_of_another_origin_may_and_no_answer_speaks_of_it() -> None:
    for settings in ({}, {ORIGIN: ""}, {METHODS: "PUT", HEADERS: "X-Own"}):
        for method, headers in (("GET", {}), ("GET", {"Origin": APP}), ("OPTIONS", {"Origin": APP, **PREFLIGHT})):
            answer = asked(settings, method, "/info", headers)
            assert answer.status == (403 if headers else 200)
            assert not told(answer)
            assert answer.headers.get("vary") is None


@pytest.mark.parametrize(
    ("allowed", "origin", "may"),
    [
        (APP, APP, True),
        (f"foo.com,{APP}", APP, True),
        ("*", APP, True),
        ("*", "null", True),
        ("https://*.example", APP, True),
        ("*.wibble.com", "http://foo.wibble.com", True),
        ("blah.com, *.wibble.com, foo.com", "http://a.b.wibble.com", True),
        ("foo.com", APP, False),
        ("https://app.exampl", APP, False),
        ("https://appXexample", APP, False),
        ("https://app.example:8443", APP, False),
        (APP.replace(".", "x"), APP, False),
        (APP, f"{APP}.evil.com", False),
        (APP, "https://appxexample", False),
        ("*.wibble.com", "http://foo.wibble.com.evil.com", False),
        (APP, f"http://evil.com, {APP}", False),
    ],
)
def test_an_origin_is_allowed_as_it_is_written_or_by_a_star(allowed: str, origin: str, may: bool) -> None:
    answer = asked({ORIGIN: allowed}, "GET", "/info", {"Origin": origin})
    assert answer.status == (200 if may else 403)
    if may:
        assert told(answer) == {"access-control-allow-origin": origin, "access-control-allow-credentials": "true"}
    else:
        assert not told(answer)
    assert answer.headers.get("vary") == "Origin"


def test_a_page_reads_what_is_refused_too() -> None:
    for path, status in (("/nothing", 404), ("/info?a=%ff", 200)):
        answer = asked({ORIGIN: APP}, "GET", path, {"Origin": APP})
        assert answer.status == status
        assert told(answer)["access-control-allow-origin"] == APP


def test_who_sends_no_origin_or_the_doors_own_is_served_as_always() -> None:
    answer = asked({ORIGIN: APP}, "GET", "/info", {})
    assert (answer.status, told(answer), answer.headers.get("vary")) == (200, {}, "Origin")
    own = asked({ORIGIN: APP}, "GET", "/info", {"Host": "localhost:8083", "Origin": "http://localhost:8083"})
    assert (own.status, told(own)) == (200, {})


@pytest.mark.parametrize(
    ("settings", "methods", "headers"),
    [
        ({}, "GET,POST,HEAD", "X-Requested-With,Content-Type,Accept,Origin"),
        ({METHODS: "delete, PATCH", HEADERS: "Foo-Header,bar-header"}, "DELETE,PATCH", "Foo-Header,bar-header"),
        ({HEADERS: "*"}, "GET,POST,HEAD", "content-type,x-own"),
    ],
)
def test_a_browser_that_asks_first_is_told_what_pages_may(
    settings: Mapping[str, str], methods: str, headers: str
) -> None:
    for path in ("/info", "/nothing"):
        answer = asked({ORIGIN: APP, **settings}, "OPTIONS", path, {"Origin": APP, **PREFLIGHT})
        assert (answer.status, answer.body) == (204, b"")
        assert told(answer) == {
            "access-control-allow-origin": APP,
            "access-control-allow-credentials": "true",
            "access-control-allow-methods": methods,
            "access-control-allow-headers": headers,
            "access-control-max-age": "1800",
        }
    refused = asked({ORIGIN: "https://other.example", **settings}, "OPTIONS", "/info", {"Origin": APP, **PREFLIGHT})
    assert (refused.status, told(refused)) == (403, {})


def test_a_browser_asks_without_a_login_and_a_page_reads_that_it_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Browsers show no login when they ask first: a 401 there would keep every page out."""
    monkeypatch.setattr(DoorSecurity, "_login_of", lambda self, *_: SimpleNamespace(close=_nothing))
    settings = {ORIGIN: APP, "authentication.method": "BASIC"}
    assert asked(settings, "OPTIONS", "/info", {"Origin": APP, **PREFLIGHT}).status == 204
    refused = asked(settings, "GET", "/info", {"Origin": APP})
    assert (refused.status, told(refused)["access-control-allow-origin"]) == (401, APP)
    assert asked(settings, "OPTIONS", "/info", {"Origin": APP}).status == 401, "it asks nothing of that kind"


async def _nothing() -> None: ...


@pytest.mark.parametrize(("name", "value"), [(METHODS, "GET\nX: y"), (HEADERS, "X-Own: y"), (HEADERS, "a b")])
def test_what_cannot_stand_in_a_header_does_not_start(name: str, value: str) -> None:
    with pytest.raises(UserError, match=name):
        asked({ORIGIN: APP, name: value}, "GET", "/info", {})


def test_the_answer_to_a_websocket_is_left_as_it_is() -> None:
    class Talking(Guarded):
        async def handle(self, request: Request) -> Response:
            check_origin(request)
            return WebSocketResponse(101, b"", {"Upgrade": "websocket"}, messages=_silence())

    request = Request("GET", "/ws/query", ("ws", "query"), headers=Headers((("Origin", APP),)))
    answer = asyncio.run(sharing({ORIGIN: [APP], METHODS: [], HEADERS: []})(Talking()).handle(request))
    assert answer.headers == {"Upgrade": "websocket"}


async def _silence() -> AsyncIterator[str]:
    return
    yield


# The doors of the services


class _SqlNode:
    async def execute(self, _text: str, *_: Any, **__: Any) -> list[Any]:
        return []


def test_a_page_that_is_allowed_runs_statements() -> None:
    door = api.make_door(cast("Any", _SqlNode()))
    headers = {"Origin": APP, "Content-Type": "application/json"}
    for settings, status in (({}, 403), ({ORIGIN: APP}, 200), ({ORIGIN: "https://other.example"}, 403)):
        assert asked(settings, "POST", "/ksql", headers, door, b'{"ksql": "SHOW QUERIES;"}').status == status
    unasked = {"Origin": APP, "Content-Type": "text/plain"}  # a browser would not ask first
    assert asked({ORIGIN: APP}, "POST", "/ksql", unasked, door, b'{"ksql": "SHOW QUERIES;"}').status == 415


def test_a_page_that_is_allowed_asks_the_registry() -> None:
    door = RegistryDoor(cast("Any", SimpleNamespace(state=State())))
    for settings, status in (({}, 403), ({ORIGIN: "*"}, 200)):
        answer = asked(settings, "GET", "/schemas/types", {"Origin": APP}, door)
        assert answer.status == status
        assert bool(told(answer)) == (status == 200)


def test_every_service_knows_the_settings() -> None:
    given = {ORIGIN: "https://a.example,https://b.example", METHODS: "GET,PUT", HEADERS: "Authorization"}
    sql, warnings = SqlServerConfig.of(given)
    assert (sql.values[ORIGIN], warnings) == (["https://a.example", "https://b.example"], [])
    registry, warnings = RegistryConfig.of(given)
    assert (registry.values[METHODS], warnings) == (["GET", "PUT"], [])
    converters = {f"{each}.converter": "org.apache.kafka.connect.json.JsonConverter" for each in ("key", "value")}
    worker = WorkerConfig({**given, **converters, "offset.storage.file.filename": "offsets"})
    assert (worker[HEADERS], worker.unknown) == (["Authorization"], [])
