"""`--zookeeper` of older tools, mapped to the cluster: the brokers that are registered in that ZooKeeper."""

import json
import socket
from collections.abc import Sequence
from typing import Final

from headwater.base.errors import UserError

_HINT: Final = "A broker without zookeeper.connect is asked directly, with --bootstrap-server localhost:9092"
_DEFAULT_PORT: Final = 2181
_CONNECT_TIMEOUT_S: Final = 5.0
_IDS: Final = "/brokers/ids"


def brokers_in(connect: str) -> str:
    """host:port,host:port of the brokers whose ZooKeeper is `connect` (host:port,host:port/chroot)."""
    from headwater.server.zookeeper.browser import Browser

    _refuse_silence(connect)
    with Browser(connect) as browser:
        try:
            found = [browser.get(f"{_IDS}/{broker}") for broker in browser.children(_IDS)]
        except UserError:  # nobody has ever registered, or one has just gone
            found = []
    if not found:
        raise UserError(f"No broker is registered in ZooKeeper at {connect}", hint=_HINT)
    return addresses(found)


def addresses(registrations: Sequence[bytes]) -> str:
    """Each broker's plain listener, or else its first."""
    return ",".join(_address(json.loads(data)) for data in registrations)


def _address(node: "dict[str, object]") -> str:
    if node.get("host"):
        return f"{node['host']}:{node['port']}"
    endpoints = node["endpoints"]
    assert isinstance(endpoints, list)
    return str(endpoints[0]).partition("://")[2]


def _refuse_silence(connect: str) -> None:
    """Says at once that nobody listens there; the client of ZooKeeper would go on trying."""
    for place in connect.partition("/")[0].split(","):
        host, colon, port = place.strip().rpartition(":")
        if not colon:
            host, port = place.strip(), str(_DEFAULT_PORT)
        try:
            with socket.create_connection((host, int(port)), _CONNECT_TIMEOUT_S):
                return
        except (OSError, ValueError):
            continue
    raise UserError(f"Cannot reach ZooKeeper at {connect}", hint=_HINT)
