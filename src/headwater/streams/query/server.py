"""The queries of one process: an HTTP server in a thread of its own, beside whatever runs the tasks.

    server = QueryServer("orders", tasks, port=0).start()
    server.url, server.token
    server.stop()

Listens on the loopback interface unless told otherwise. The secret is made for each run; it is given to those who may
ask, and to nobody else.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headwater.streams.query.api import QueryDoor
from headwater.streams.query.directory import Alone, Directory
from headwater.streams.query.readable import Readable
from headwater.streams.query.short_slice import take_short_slice
from headwater.streams.query.short_turns import OF_SERVERS
from headwater.streams.topology.stores import StorePlan
from headwater.web.listeners import HttpListener
from headwater.web.process import listen
from headwater.web.server import HttpServer
from headwater.web.server_thread import ServerThread, Serving

if TYPE_CHECKING:
    from headwater.web.door_security import DoorSecurity


class QueryServer:
    def __init__(
        self,
        application: str,
        tasks: Callable[[], Sequence[Readable]],
        *,
        port: int = 0,
        host: str = "127.0.0.1",
        token: str | None = None,
        directory: Directory | None = None,
        door: Mapping[str, str] | None = None,
        client: Mapping[str, Any] | None = None,
        known: Callable[[str], tuple[Readable, StorePlan] | None] = lambda _: None,
        names: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`door`: the settings of TLS and of a login (`authentication.method=BASIC`, `ssl.*`), as all HTTP doors have
        them: users of the cluster who may READ the application's group may then ask, besides those who have the secret.
        `client`: how to reach the brokers for that.
        """
        self._known, self._names = known, names
        self._application = application
        self._tasks = tasks
        self._directory = directory or Alone(tasks)
        self._host = host
        self._port = port
        self._door_settings, self._client = door, dict(client or {})
        self.token = token or secrets.token_urlsafe(32)
        self.url = ""
        self._thread = ServerThread(f"headwater-queries-{application}", self._serve)

    def start(self) -> "QueryServer":
        """Returns when it listens. Raises UserError where it cannot."""
        self._thread.start()
        return self

    def stop(self) -> None:
        self._thread.stop()

    def __enter__(self) -> "QueryServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _serve(self, serving: Serving) -> None:
        take_short_slice()
        OF_SERVERS.begin()
        try:
            await self._listen(serving)
        finally:
            OF_SERVERS.end()

    async def _listen(self, serving: Serving) -> None:
        door = QueryDoor(self._application, self._tasks, self._directory, "", self.token, self._known, self._names)
        is_secured = any(name.startswith("ssl.keystore.") for name in self._door_settings or ())
        listener = HttpListener(self._host, self._port, "https" if is_secured else "http")
        security = self._security(listener, door)
        server = HttpServer(security.guard(door) if security is not None else door)
        try:
            hint = "Name another port, or 0 for any that is free"
            tls = security.tls if security is not None else None
            port = await listen(server, listener, tls, "Interactive queries", hint)
            self.url = door.url = listener.url(port)
            await serving.until_asked_to_end()
        finally:
            await server.stop()
            await door.close()
            if security is not None:
                await security.close()

    def _security(self, listener: HttpListener, door: QueryDoor) -> "DoorSecurity | None":
        if self._door_settings is None:
            return None
        from headwater.web.door_security import DoorSecurity

        what = f"Queries of {self._application}"
        return DoorSecurity(what, self._door_settings, [listener], self._client, is_own_call=door.has_secret)
