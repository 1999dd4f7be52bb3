"""Listeners: `NAME://host:port`, and which security protocol each name speaks.

Names are compared in capitals. An empty host means every interface; an IPv6 address stands in brackets. What Apache
Kafka refuses (two listeners of one name or on one port, a name without a protocol) is refused here too.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headwater.base.errors import UserError

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_FORM: Final = "Write NAME://host:port, for example PLAINTEXT://localhost:9092"


class Listener(NamedTuple):
    name: str
    host: str  # empty: every interface
    port: int  # 0: any free port
    protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        return f"{self.name}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """`NAME:PROTOCOL` pairs with commas between them."""
    result: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, protocol = (part.strip() for part in pair.partition(":"))
        if not colon or not name or protocol.upper() not in PROTOCOLS:
            raise UserError(
                f"Bad value for listener.security.protocol.map: {text}",
                f"{pair!r} is not a pair of a listener name and a security protocol",
                f"Protocols are {', '.join(PROTOCOLS)}",
            )
        if name.upper() in result:
            raise UserError(
                f"Bad value for listener.security.protocol.map: {text}", f"{name.upper()} stands in it twice"
            )
        result[name.upper()] = protocol.upper()
    return result


def parse_listeners(property_name: str, entries: Sequence[str], protocols: dict[str, str]) -> list[Listener]:
    listeners = [_parse(property_name, entry, protocols) for entry in entries]
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise UserError(_bad(property_name, entries), "Each listener must have a different name")
    ports = [listener.port for listener in listeners if listener.port]
    if property_name == "listeners" and len(set(ports)) != len(ports):
        raise UserError(_bad(property_name, entries), "Each listener must have a different port")
    return listeners


def _parse(property_name: str, entry: str, protocols: dict[str, str]) -> Listener:
    name, separator, address = entry.strip().partition("://")
    host, colon, port = address.rpartition(":")
    if not (
        separator and name and colon and port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
    ):
        raise UserError(_bad(property_name, [entry]), "it has no name, or no port between 0 and 65535", _FORM)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise UserError(_bad(property_name, [entry]), "an IPv6 address needs brackets", "Write NAME://[::1]:9092")
    name = name.upper()
    protocol = protocols.get(name)
    if protocol is None:
        raise UserError(
            _bad(property_name, [entry]),
            f"No security protocol is defined for listener {name}",
            f"Add it to listener.security.protocol.map, for example {name}:PLAINTEXT",
        )
    return Listener(name, host, int(port), protocol)


def _bad(property_name: str, entries: Sequence[str]) -> str:
    return f"Bad value for {property_name}: {','.join(entries)}"
