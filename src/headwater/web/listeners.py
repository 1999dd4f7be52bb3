"""Where a door listens: `https://host:port`. Pure."""

import ipaddress
from collections.abc import Iterable
from typing import Final, NamedTuple

from headwater.base.errors import UserError

_ANY: Final = ("", "0.0.0.0", "::", "*")


class HttpListener(NamedTuple):
    host: str
    port: int
    scheme: str = "http"

    @property
    def is_secured(self) -> bool:
        return self.scheme == "https"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def url(self, port: int | None = None) -> str:
        """For clients on this machine; every address is shown as the loopback's."""
        shown = "127.0.0.1" if self.host in _ANY else self.host
        return f"{self.scheme}://{f'[{shown}]' if ':' in shown else shown}:{self.port if port is None else port}"


def parse_listener(text: str, default_port: int) -> HttpListener:
    """`http://0.0.0.0:8081`, `http://[::]:8081` and `http://:8081` are every address. Raises UserError."""
    scheme, separator, rest = text.strip().partition("://")
    host, colon, port = rest.rpartition(":") if not rest.endswith("]") else (rest, "", "")
    if not colon:
        host, port = rest, str(default_port)
    hint = f"Write it as http://127.0.0.1:{default_port}, or https://... with ssl.keystore.location"
    if not separator or scheme.lower() not in ("http", "https"):
        why = "only http:// and https:// are spoken here" if separator else "it has no protocol"
        raise UserError(f"The listener {text!r} cannot be served", why, hint)
    host = host.strip("[]")
    if not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise UserError(f"The listener {text!r} has no port that can be", hint=hint)
    return HttpListener(host, int(port), scheme.lower())


def http_listeners(texts: Iterable[str], default_port: int) -> tuple[HttpListener, ...]:
    """At least one. Raises UserError."""
    listeners = tuple(parse_listener(each, default_port) for each in texts)
    if not listeners:
        raise UserError("listeners names no address", hint=f"Write it as http://127.0.0.1:{default_port}")
    return listeners
