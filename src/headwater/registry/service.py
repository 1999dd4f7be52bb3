"""`headwater registry start`: the registry as a service of its own process. Puts the parts together, in the order of a
start: read the topic, listen, take part in the election, say `ready`.
"""

import socket
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from headwater.base.errors import UserError
from headwater.registry.api import make_door
from headwater.registry.config import RegistryConfig
from headwater.registry.election import Identity
from headwater.registry.node import RegistryNode
from headwater.web.door_security import DoorSecurity
from headwater.web.limits import Limits
from headwater.web.listeners import HttpListener
from headwater.web.process import listen
from headwater.web.server import HttpServer

_BUFFERED_BYTES_MAX: Final = 32 * 1024 * 1024  # of requests that have not come in whole yet, of all clients
_ANY: Final = ("", "0.0.0.0", "::", "*")


class RegistryService:
    """Made inside a running loop."""

    def __init__(self, config: RegistryConfig) -> None:
        self._config = config
        self._security = DoorSecurity("The schema registry", config.given, config.listeners, config.client())
        self._advertised = advertised_listener(config.listeners)
        listener = config.listeners[self._advertised]
        identity = Identity(_advertised_host(config, listener.host), 0, config.is_eligible, listener.scheme)
        self._node = RegistryNode(config, identity)
        limits = Limits(
            body_bytes_max=config.number("request.bytes.max"),
            buffered_bytes_max=_BUFFERED_BYTES_MAX,
            connections_max=config.number("connections.max"),
            handle_timeout_s=config.number("kafkastore.timeout.ms") / 1000 * 2 + 10,
        )
        self._server = HttpServer(self._security.guard(make_door(self._node)), limits)
        self.port = 0

    async def start(self) -> str:
        hint = "Name another port: --set listeners=http://127.0.0.1:PORT, or --registry-port of `headwater up`"
        await self._node.open()
        ports = [
            await listen(self._server, each, self._security.tls, "The schema registry", hint)
            for each in self._config.listeners
        ]
        self.port = ports[0]
        own = self._node.identity
        self._node.identity = replace(own, port=ports[self._advertised])
        self._node.begin_election()
        return f"ready registry={self._config.listeners[0].url(self.port)}"

    async def broken(self) -> UserError:
        return await self._node.broken()

    async def stop(self) -> None:
        await self._server.stop()
        await self._node.close()
        await self._security.close()


def advertised_listener(listeners: Sequence[HttpListener]) -> int:
    """The first that other machines can reach, else the first."""
    return next((number for number, each in enumerate(listeners) if not each.is_loopback), 0)


def _advertised_host(config: RegistryConfig, host: str) -> str:
    named = config.values["host.name"]
    if named:
        return str(named)
    return socket.gethostname() if host in _ANY else host
