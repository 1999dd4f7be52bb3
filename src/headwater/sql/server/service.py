"""`headwater sql server`: the server as a service of its own process."""

from __future__ import annotations

from headwater.base.errors import UserError
from headwater.sql.server.api import is_streamed, make_door
from headwater.sql.server.config import SqlServerConfig
from headwater.sql.server.node import SqlNode
from headwater.sql.server.peers import name_of_this
from headwater.web.door_security import DoorSecurity
from headwater.web.limits import Limits
from headwater.web.process import listen
from headwater.web.server import HttpServer


class SqlService:
    """Made inside a running loop."""

    def __init__(self, config: SqlServerConfig) -> None:
        self._config = config
        self.node = SqlNode(config)
        self._security = DoorSecurity("The SQL server", config.given, config.listeners, config.client)
        door = self._security.guard(make_door(self.node))
        self._server = HttpServer(door, Limits(handle_timeout_s=120), http2=True, is_streamed=is_streamed)

    async def start(self) -> str:
        await self.node.open()
        hint = "Name another port: --set listeners=http://127.0.0.1:PORT"
        ports = [
            await listen(self._server, each, self._security.tls, "The SQL server", hint)
            for each in self._config.listeners
        ]
        self.node.join(name_of_this(*self._config.advertised(ports[0])))
        return f"ready sql={self._config.listeners[0].url(ports[0])}"

    async def broken(self) -> UserError:
        return await self.node.broken()

    async def stop(self) -> None:
        self.node.row_queries.end_answers()
        await self._server.stop()
        await self.node.close()
        await self._security.close()
