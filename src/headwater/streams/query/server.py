"""The queries of one process: an HTTP server in a thread of its own, beside whatever runs the tasks.

    server = QueryServer("orders", tasks, port=0).start()
    server.url, server.token
    server.stop()

Listens on the loopback interface unless told otherwise. The secret is made for each run; it is given to those who may
ask, and to nobody else.
"""

import asyncio
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headwater.streams.plan.stores import StorePlan
from headwater.streams.query.directory import Alone, Directory
from headwater.streams.query.door import QueryDoor
from headwater.streams.query.readable import Readable
from headwater.web.listeners import HttpListener
from headwater.web.process import listen
from headwater.web.server import HttpServer

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
    ) -> None:
        """`door`: the settings of TLS and of a login (`authentication.method=BASIC`, `ssl.*`), as all HTTP doors have
        them: users of the cluster who may READ the application's group may then ask, besides those who have the secret.
        `client`: how to reach the brokers for that.
        """
        self._known = known
        self._application = application
        self._tasks = tasks
        self._directory = directory or Alone(tasks)
        self._host = host
        self._port = port
        self._door_settings, self._client = door, dict(client or {})
        self.token = token or secrets.token_urlsafe(32)
        self.url = ""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._error: BaseException | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"headwater-queries-{application}", daemon=True)

    def start(self) -> "QueryServer":
        """Returns when it listens. Raises UserError where it cannot."""
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self

    def stop(self) -> None:
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def __enter__(self) -> "QueryServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _main(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - whoever started it is told
            self._error = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        door = QueryDoor(self._application, self._tasks, self._directory, "", self.token, self._known)
        is_secured = any(name.startswith("ssl.keystore.") for name in self._door_settings or ())
        listener = HttpListener(self._host, self._port, "https" if is_secured else "http")
        security = self._security(listener, door)
        server = HttpServer(security.guard(door) if security is not None else door)
        try:
            hint = "Name another port, or 0 for any that is free"
            tls = security.tls if security is not None else None
            port = await listen(server, listener, tls, "Interactive queries", hint)
            self.url = door.url = listener.url(port)
            self._ready.set()
            await self._stop.wait()
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
