"""Kafka Connect's REST API over a herder. Handlers are thin: they read the request, ask the herder in a thread, and
answer.

A body must say that it is JSON, and a request that a page of another origin sent is refused: otherwise any web page
could make connectors on a developer's machine.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Protocol
from urllib.parse import quote

from headwater._version import VERSION
from headwater.base.errors import KafkaError
from headwater.connect.connector_config.common import connector_def
from headwater.connect.connector_config.validation import Validation, definition_answer
from headwater.connect.errors import ConnectError
from headwater.connect.metrics.exposition import RunningConnector, RunningTask, exposition
from headwater.connect.plugins import Kind
from headwater.connect.rest import rights
from headwater.connect.rest.forwarding import Forwarding
from headwater.connect.rest.loggers import all_levels, check_level, level_of, set_level
from headwater.connect.runtime.herder import TARGETS
from headwater.connect.runtime.offset_pairs import BadOffsets
from headwater.connect.runtime.refusals import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Elsewhere,
    Forbidden,
    NotFound,
    has_half_character,
)
from headwater.connect.runtime.task import State
from headwater.connect.runtime.worker import Worker
from headwater.web.content import json_body, json_response
from headwater.web.door import Door
from headwater.web.messages import HttpError, Request, Response
from headwater.web.origin import check_origin, media_type
from headwater.web.router import Router

logger = logging.getLogger("headwater.connect")
_STATUS: Final = {NotFound: 404, AlreadyExists: 409, BadRequest: 400, BadOffsets: 400, Conflict: 409, Forbidden: 403}
_OF_A_CREATE: Final = ("name", "config", "initial_state")
KAFKA_VERSION: Final = "4.3.0"  # whose API this is
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPED_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
Route = tuple[str, str, rights.Handler, rights.Guard]


class Herder(Protocol):
    """What the door asks of a herder, a standalone one's or a distributed one's.
    What may wait is called in a thread.
    """

    @property
    def worker(self) -> Worker: ...

    def names(self) -> list[str]: ...
    def info(self, name: str) -> dict[str, Any]: ...
    def config(self, name: str) -> dict[str, str]: ...
    def status(self, name: str) -> dict[str, Any]: ...
    def tasks(self, name: str) -> list[dict[str, Any]]: ...
    def task_status(self, name: str, number: int) -> dict[str, Any]: ...
    def topics(self, name: str) -> dict[str, Any]: ...
    def reset_topics(self, name: str) -> None: ...
    def validated(self, config: Mapping[str, str]) -> Validation: ...
    def create(
        self, name: str, config: Mapping[str, str], target: State = State.RUNNING, *, replace: bool = False
    ) -> bool: ...
    def patch(self, name: str, changes: Mapping[str, str | None]) -> None: ...
    def delete(self, name: str) -> None: ...
    def set_target(self, name: str, target: State) -> None: ...
    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> dict[str, Any]: ...
    def restart_task(self, name: str, number: int) -> None: ...
    def read_offsets(self, name: str) -> list[dict[str, Any]]: ...
    def alter_offsets(self, name: str, body: Any) -> str: ...
    def reset_offsets(self, name: str) -> str: ...
    def tell_loggers(self, logger_name: str, level: str) -> None: ...
    def running_here(self) -> tuple[list[RunningConnector], list[RunningTask]]: ...


class ConnectDoor(Door):
    """A call that another worker has to do is handed on to it; see `Forwarding`."""

    def __init__(self, router: Router, forwarding: Forwarding) -> None:
        super().__init__(router)
        self._forwarding = forwarding

    async def handle(self, request: Request) -> Response:
        check_origin(request)
        try:
            return await super().handle(request)
        except Elsewhere as other:
            return await self._forwarding.forward(request, other.url)
        except ConnectError as error:
            status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)
            raise HttpError(status, str(error)) from None
        except KafkaError as error:
            raise HttpError(500, f"Kafka said: {error}") from None


def _body(request: Request) -> Any:
    if media_type(request) != "application/json":
        raise HttpError(415, "HTTP 415 Unsupported Media Type")
    document = json_body(request)
    if _ESCAPED_HALF.search(request.body) and has_half_character(document):  # no path could name such a connector again
        raise HttpError(400, "The body of the request has half a character (a lone surrogate)")
    return document


def _config(document: Any, *, nulls: bool = False) -> dict[str, Any]:
    """A JSON object of texts; numbers and booleans are taken as their text, as Jackson takes them."""
    if not isinstance(document, dict):
        raise HttpError(400, "A connector's config is a JSON object")
    config: dict[str, Any] = {}
    for name, value in document.items():
        if value is None:
            if nulls:
                config[name] = None
        elif isinstance(value, bool):
            config[name] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            config[name] = str(value)
        else:
            raise HttpError(400, f"The value of {name!r} is not a text")
    return config


class Api:
    """The handlers. `thread` runs what may wait."""

    def __init__(self, herder: Herder) -> None:
        self._herder = herder
        self._cluster_id: str | None = None

    async def _thread(self, call: Callable[[], Any]) -> Any:
        return await asyncio.to_thread(call)

    async def root(self, _request: Request) -> Response:
        if self._cluster_id is None:
            self._cluster_id = await self._thread(self._herder.worker.cluster_id)
        return json_response(
            {"version": KAFKA_VERSION, "commit": f"headwater-{VERSION}", "kafka_cluster_id": self._cluster_id}
        )

    async def health(self, _request: Request) -> Response:
        return json_response(
            {"status": "healthy", "message": "Worker has completed startup and is ready to handle requests."}
        )

    async def metrics(self, _request: Request) -> Response:
        """Of this worker alone: Prometheus asks each."""
        text = await self._thread(lambda: exposition(self._herder.worker.metrics, *self._herder.running_here()))
        return Response(200, text.encode("utf-8", "replace"), {"Content-Type": _PROMETHEUS})

    # Connectors

    async def list_connectors(self, request: Request) -> Response:
        expand = request.query.all("expand")
        names = await rights.seen(request.caller, self._herder.names())
        if not expand:
            return json_response(names)
        return json_response(await self._thread(lambda: self._expanded(names, expand)))

    def _expanded(self, names: list[str], expand: list[str]) -> dict[str, Any]:
        found = {"status": self._herder.status, "info": self._herder.info}
        made: dict[str, Any] = {}
        for name in names:
            with suppress(NotFound):  # gone meanwhile
                made[name] = {each: found[each](name) for each in expand if each in found}
        return made

    async def create(self, request: Request) -> Response:
        body = _body(request)
        if not isinstance(body, dict) or not isinstance(body.get("config"), dict):
            raise HttpError(400, "The body is an object with name and config")
        for each in body:  # a slip in `initial_state` must not start what was to be stopped
            if each not in _OF_A_CREATE:
                raise HttpError(400, f"Unrecognized field {each!r}: there are {', '.join(_OF_A_CREATE)}")
        name = str(body.get("name") or "").strip()
        config = _config(body["config"])
        _check_name(name, config)
        initial = str(body.get("initial_state") or "RUNNING").upper()
        if initial not in TARGETS:
            raise HttpError(400, f"Invalid initial state: {initial}")
        await self._thread(lambda: self._herder.create(name, config, TARGETS[initial]))
        return json_response(self._herder.info(name), 201, headers={"Location": f"/connectors/{quote(name, safe='')}"})

    async def info(self, request: Request) -> Response:
        return json_response(self._herder.info(_name(request)))

    async def config(self, request: Request) -> Response:
        return json_response(self._herder.config(_name(request)))

    async def put_config(self, request: Request) -> Response:
        name, config = _name(request), _config(_body(request))
        _check_name(name, config)
        made = await self._thread(lambda: self._herder.create(name, config, replace=True))
        headers = {"Location": f"/connectors/{quote(name, safe='')}"} if made else None
        return json_response(self._herder.info(name), 201 if made else 200, headers=headers)

    async def patch_config(self, request: Request) -> Response:
        name, changes = _name(request), _config(_body(request), nulls=True)
        self._herder.config(name)
        await self._thread(lambda: self._herder.patch(name, changes))
        return json_response(self._herder.info(name))

    async def status(self, request: Request) -> Response:
        try:
            return json_response(self._herder.status(_name(request)))
        except NotFound:
            raise HttpError(404, f"No status found for connector {_name(request)}") from None

    async def delete(self, request: Request) -> Response:
        name = _name(request)
        await self._thread(lambda: self._herder.delete(name))
        return Response(204)

    def set_target(self, target: State, status: int) -> Callable[[Request], Awaitable[Response]]:
        async def handler(request: Request) -> Response:
            name = _name(request)
            if name not in self._herder.names():
                raise HttpError(404, f"Unknown connector {name}")
            await self._thread(lambda: self._herder.set_target(name, target))
            return Response(status)

        return handler

    async def restart(self, request: Request) -> Response:
        name = _name(request)
        include, failed = request.query.boolean("includeTasks"), request.query.boolean("onlyFailed")
        plan = await self._thread(lambda: self._herder.restart(name, include_tasks=include, only_failed=failed))
        return json_response(plan, 202) if include or failed else Response(204)

    # Tasks, topics, offsets

    async def tasks(self, request: Request) -> Response:
        return json_response(self._herder.tasks(_name(request)))

    async def task_status(self, request: Request) -> Response:
        try:
            return json_response(self._herder.task_status(_name(request), _task(request)))
        except NotFound:
            raise HttpError(404, f"No status found for task {_name(request)}-{_task(request)}") from None

    async def restart_task(self, request: Request) -> Response:
        name, number = _name(request), _task(request)
        await self._thread(lambda: self._herder.restart_task(name, number))
        return Response(204)

    async def topics(self, request: Request) -> Response:
        if not self._herder.worker.config["topic.tracking.enable"]:
            raise HttpError(403, "Topic tracking is disabled.")
        return json_response(self._herder.topics(_name(request)))

    async def reset_topics(self, request: Request) -> Response:
        if not self._herder.worker.config["topic.tracking.enable"]:
            raise HttpError(403, "Topic tracking is disabled.")
        if not self._herder.worker.config["topic.tracking.allow.reset"]:
            raise HttpError(403, "Topic tracking reset is disabled.")
        name = _name(request)
        await self._thread(lambda: self._herder.reset_topics(name))
        return Response(202)

    async def offsets(self, request: Request) -> Response:
        name = _name(request)
        return json_response({"offsets": await self._thread(lambda: self._herder.read_offsets(name))})

    async def patch_offsets(self, request: Request) -> Response:
        name, body = _name(request), _body(request)
        return json_response({"message": await self._thread(lambda: self._herder.alter_offsets(name, body))})

    async def delete_offsets(self, request: Request) -> Response:
        name = _name(request)
        return json_response({"message": await self._thread(lambda: self._herder.reset_offsets(name))})

    # Plugins and loggers

    async def plugins(self, request: Request) -> Response:
        kinds = [Kind.SOURCE, Kind.SINK] if request.query.boolean("connectorsOnly", True) else list(Kind)
        found = self._herder.worker.catalog.plugins(*kinds)
        return json_response([{"class": each.name, "type": str(each.kind), "version": each.version} for each in found])

    async def plugin_config(self, request: Request) -> Response:
        name = request.parameters["plugin"]
        try:
            plugin = self._herder.worker.catalog.find(name, *Kind)
        except ConnectError:
            raise HttpError(404, f"Unknown plugin {name}.") from None
        wrong = plugin.wrong_version(request.query.get("version"))
        if wrong is not None:
            raise HttpError(400, wrong)
        keys = list(plugin.config_def)
        if plugin.kind in (Kind.SOURCE, Kind.SINK):
            keys += [
                each
                for each in connector_def(self._herder.worker.catalog, plugin.kind)
                if each.name not in plugin.config_def
            ]
        return json_response([definition_answer(key) for key in keys])

    async def validate(self, request: Request) -> Response:
        name, config = request.parameters["plugin"], _config(_body(request))
        given = config.setdefault("connector.class", name)
        catalog = self._herder.worker.catalog
        try:
            same = catalog.connector(given) == catalog.connector(name)
        except ConnectError as error:
            raise HttpError(404 if given == name else 400, str(error)) from None
        if not same:
            raise HttpError(400, f"Included connector type {given} does not match request type {name}")
        return json_response((await self._thread(lambda: self._herder.validated(config))).answer())

    async def loggers(self, _request: Request) -> Response:
        return json_response(all_levels())

    async def logger(self, request: Request) -> Response:
        return json_response(level_of(request.parameters["logger"]))

    async def set_logger(self, request: Request) -> Response:
        body = _body(request)
        level = body.get("level") if isinstance(body, dict) else None
        if not isinstance(level, str):
            raise HttpError(400, "Desired 'level' parameter was not specified in request.")
        name, everywhere = request.parameters["logger"], (request.query.get("scope") or "").lower() == "cluster"
        check_level(level)  # before other workers are told
        if everywhere:
            await self._thread(lambda: self._herder.tell_loggers(name, level))
        changed = set_level(name, level)
        return Response(204) if everywhere else json_response(changed)


def _name(request: Request) -> str:
    return request.parameters["connector"]


def _task(request: Request) -> int:
    text = request.parameters["task"]
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise HttpError(404, "HTTP 404 Not Found")
    return int(text)


def _check_name(name: str, config: dict[str, Any]) -> None:
    given = config.get("name", name)
    if given != name:
        raise HttpError(400, f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})")


def connect_door(herder: Herder, *more: Route, forwarding: Forwarding | None = None) -> ConnectDoor:
    """`more`: what workers ask of each other."""
    api, router = Api(herder), Router()
    one = "/connectors/{connector}"
    # The rights stand beside each call: one without them cannot be added.
    for method, path, handler, guard in (
        ("GET", "/", api.root, rights.any_login),
        ("GET", "/health", api.health, rights.any_login),
        ("GET", "/metrics", api.metrics, rights.SEE_WORKER),
        ("GET", "/connectors", api.list_connectors, rights.any_login),
        ("POST", "/connectors", api.create, rights.CHANGE),
        ("GET", one, api.info, rights.SEE),
        ("DELETE", one, api.delete, rights.CHANGE),
        ("GET", f"{one}/config", api.config, rights.SEE),
        ("PUT", f"{one}/config", api.put_config, rights.CHANGE),
        ("PATCH", f"{one}/config", api.patch_config, rights.CHANGE),
        ("GET", f"{one}/status", api.status, rights.SEE),
        ("PUT", f"{one}/pause", api.set_target(State.PAUSED, 202), rights.OPERATE),
        ("PUT", f"{one}/stop", api.set_target(State.STOPPED, 204), rights.OPERATE),
        ("PUT", f"{one}/resume", api.set_target(State.RUNNING, 202), rights.OPERATE),
        ("POST", f"{one}/restart", api.restart, rights.OPERATE),
        ("GET", f"{one}/tasks", api.tasks, rights.SEE),
        ("GET", f"{one}/tasks/{{task}}/status", api.task_status, rights.SEE),
        ("POST", f"{one}/tasks/{{task}}/restart", api.restart_task, rights.OPERATE),
        ("GET", f"{one}/topics", api.topics, rights.SEE),
        ("PUT", f"{one}/topics/reset", api.reset_topics, rights.OPERATE),
        ("GET", f"{one}/offsets", api.offsets, rights.SEE),
        ("PATCH", f"{one}/offsets", api.patch_offsets, rights.OPERATE),
        ("DELETE", f"{one}/offsets", api.delete_offsets, rights.FORGET),
        ("GET", "/connector-plugins", api.plugins, rights.any_login),
        ("GET", "/connector-plugins/{plugin}/config", api.plugin_config, rights.any_login),
        ("PUT", "/connector-plugins/{plugin}/config/validate", api.validate, rights.CHANGE),
        ("GET", "/admin/loggers", api.loggers, rights.SEE_WORKER),
        ("GET", "/admin/loggers/{logger}", api.logger, rights.SEE_WORKER),
        ("PUT", "/admin/loggers/{logger}", api.set_logger, rights.CHANGE),
        *more,
    ):
        router.add(method, path, rights.guarded(guard, handler))
    return ConnectDoor(router, forwarding or Forwarding())
