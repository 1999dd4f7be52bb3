"""Where the leads of this process tell the status of their applications: `GET /applications`, `GET
/applications/{name}`.

One server for all applications of the process, on a port of the loopback interface, from the first that is published to
the last. Each leaves a note beside its state (`<state directory>/<application>/lead.json`, for its owner's eyes only)
with the address and the secret, by which `headwater stream status` finds it. A note that is left by a killed process
leads nowhere; the next run replaces it. Nobody fails over this: where the note cannot be written, the application runs
without.
"""

import contextlib
import hmac
import json
import logging
import os
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headwater.base.errors import UserError
from headwater.streams.lead.status import this_process
from headwater.web.content import json_response
from headwater.web.door import Door
from headwater.web.listeners import HttpListener
from headwater.web.messages import HttpError, Request, Response
from headwater.web.process import listen
from headwater.web.router import Router
from headwater.web.server import HttpServer
from headwater.web.server_thread import ServerThread, Serving

_log: Final = logging.getLogger("headwater.streams")
_NOTE: Final = "lead.json"
_HOST: Final = "127.0.0.1"

Status = Callable[[], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class LeadNote:
    """What `lead.json` says."""

    application: str
    url: str
    token: str
    process: str


def read_note(directory: Path) -> LeadNote | None:
    """`directory`: of the application. None where there is none, or nothing that was written here."""
    with contextlib.suppress(OSError, ValueError, TypeError):
        return LeadNote(**json.loads((directory / _NOTE).read_text()))
    return None


class Published:
    """An application whose status is told; `close` ends that."""

    def __init__(self, application: str, status: Status, directory: Path) -> None:
        self.application = application
        self.status = status
        self._path = directory / _NOTE
        self._server: _Server | None = None

    def open(self) -> "Published":
        try:
            self._server = server = _Server.take(self)
            self._path.parent.mkdir(parents=True, exist_ok=True)
            note = {"application": self.application, "url": server.url, "token": server.token}
            self._write(json.dumps({**note, "process": this_process()}))
        except (OSError, UserError) as error:
            _log.warning("the status of the application is not told application=%s error=%s", self.application, error)
        return self

    def close(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        found = read_note(self._path.parent)
        if found is not None and (found.url, found.token) == (server.url, server.token):  # not that of a later run
            with contextlib.suppress(OSError):
                self._path.unlink()
        server.leave(self)

    def _write(self, text: str) -> None:
        fresh = self._path.with_name(f"lead.{os.getpid()}.{threading.get_ident()}.new")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        fresh.replace(self._path)


def publish(application: str, status: Status, state_dir: Path) -> Published:
    """`state_dir`: of the run. `status` is called by the server's thread."""
    return Published(application, status, state_dir / application).open()


class _Server:
    """The server of this process. Made and ended under the lock; `published` is replaced, never changed."""

    _lock: Final = threading.Lock()
    _running: "_Server | None" = None

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)
        self.url = ""
        self.process_id = os.getpid()
        self.published: tuple[Published, ...] = ()
        self._thread = ServerThread("headwater-streams-status", self._serve)

    @classmethod
    def take(cls, published: Published) -> "_Server":
        with cls._lock:
            server = cls._running
            if server is None or server.process_id != os.getpid():  # a process that was forked has no threads
                server = cls._running = cls()._started()
            server.published = (*server.published, published)
            return server

    def leave(self, published: Published) -> None:
        with self._lock:
            self.published = tuple(each for each in self.published if each is not published)
            if self.published or self.process_id != os.getpid():
                return
            if _Server._running is self:
                _Server._running = None
        self._thread.stop()

    def _started(self) -> "_Server":
        try:
            self._thread.start()
        except Exception as error:
            raise UserError("The status cannot be told", str(error)) from error
        return self

    async def _serve(self, serving: Serving) -> None:
        server = HttpServer(_StatusDoor(self))
        try:
            port = await listen(server, HttpListener(_HOST, 0), None, "The status of applications", "")
            self.url = f"http://{_HOST}:{port}"
            await serving.until_asked_to_end()
        finally:
            await server.stop()


class _StatusDoor:
    def __init__(self, server: _Server) -> None:
        self._server = server
        self._expected = f"Bearer {server.token}".encode()
        router = Router()
        router.add("GET", "/applications", self._list)
        router.add("GET", "/applications/{name}", self._show)
        self._door = Door(router)

    async def handle(self, request: Request) -> Response:
        given = (request.headers.get("authorization") or "").encode("latin-1", "replace")
        if not hmac.compare_digest(given, self._expected):
            raise HttpError(401, "The secret of this process is needed: Authorization: Bearer ...", code=40101)
        return await self._door.handle(request)

    def on_error(self, error: HttpError, request: Request | None) -> Response:
        return self._door.on_error(error, request)

    async def _list(self, _request: Request) -> Response:
        return json_response([each.status() for each in self._server.published])

    async def _show(self, request: Request) -> Response:
        name = request.parameters["name"]
        found = [each for each in self._server.published if each.application == name]
        if not found:
            raise HttpError(404, f"The application {name[:100]!r} does not run in this process", code=40403)
        return json_response(found[-1].status())
