"""Broker addresses as people write them: `host`, `host:port`, `[::1]:9092`, several with commas between.

Pure text: nothing here looks a name up.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from headwater.base.errors import UserError

DEFAULT_PORT: Final = 9092
_PORT_MAX: Final = 65535


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_bootstrap(text: str | Iterable[str]) -> list[Address]:
    """The addresses in the order given, each once. A listener's `PLAINTEXT://` in front is taken as meant."""
    pieces = text.split(",") if isinstance(text, str) else [piece for part in text for piece in part.split(",")]
    addresses = [parse_address(piece) for piece in pieces if piece.strip()]
    if not addresses:
        raise UserError("No bootstrap server is given", "the list is empty", "Give at least one host:port")
    return list(dict.fromkeys(addresses))


def parse_address(text: str) -> Address:
    rest = text.strip()
    scheme, separator, after = rest.partition("://")
    if separator:
        if scheme.upper() != "PLAINTEXT":
            raise _bad(text, f"the protocol {scheme!r} is not one of: PLAINTEXT")
        rest = after
    if rest.startswith("["):
        host, closed, tail = rest[1:].partition("]")
        if not closed or (tail and not tail.startswith(":")):
            raise _bad(text, "an IPv6 address is written as [address]:port")
        port_text = tail[1:]
    elif rest.count(":") > 1:
        host, port_text = rest, ""  # a bare IPv6 address: every colon belongs to it
    else:
        host, _, port_text = rest.partition(":")
    if not host:
        raise _bad(text, "the host is missing")
    return Address(host, _port(text, port_text) if port_text else DEFAULT_PORT)


def _port(text: str, port_text: str) -> int:
    if not (port_text.isascii() and port_text.isdigit()) or not 0 < int(port_text) <= _PORT_MAX:
        raise _bad(text, f"the port {port_text!r} is not a number from 1 to {_PORT_MAX}")
    return int(port_text)


def _bad(text: str, why: str) -> UserError:
    return UserError(f"Cannot read the bootstrap server {text.strip()!r}", why, "Write host:port, as in localhost:9092")
