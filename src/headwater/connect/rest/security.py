"""The REST door's TLS and login, from a worker's properties: `listeners.https.ssl.*`, else `ssl.*`, as in Kafka
Connect; and our `authentication.*`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headwater.base.security.tls import ContextSource
from headwater.connect.config.worker import WorkerConfig
from headwater.web.door_security import DoorSecurity, forwarding_tls
from headwater.web.listeners import HttpListener
from headwater.web.messages import Request

_PREFIX: Final = "listeners.https."
_BETWEEN_WORKERS: Final = (("POST", "tasks"), ("PUT", "fence"))


def door_settings(props: Mapping[str, str]) -> dict[str, str]:
    """A key store under `listeners.https.` is meant whole: parts of another one are not mixed in."""
    own = {name.removeprefix(_PREFIX): value for name, value in props.items() if name.startswith(_PREFIX)}
    for kind in ("ssl.keystore.", "ssl.truststore."):
        if any(name.startswith(kind) for name in own):
            props = {name: value for name, value in props.items() if not name.startswith(kind)}
    return {**props, **own}


def is_between_workers(request: Request) -> bool:
    """What workers ask of each other is signed with a key that only they know, and is checked by that."""
    segments = request.segments
    return len(segments) == 3 and segments[0] == "connectors" and (request.method, segments[2]) in _BETWEEN_WORKERS


def security_of(
    config: WorkerConfig, listeners: Sequence[HttpListener], client: Mapping[str, Any], *, distributed: bool = False
) -> DoorSecurity:
    """Raises UserError."""
    own_calls = is_between_workers if distributed else None
    return DoorSecurity("Connect", door_settings(config.props), listeners, client, is_own_call=own_calls)


def peers_tls(config: WorkerConfig, listeners: Sequence[HttpListener]) -> ContextSource | None:
    """For calls to other workers; None where they speak plain HTTP."""
    return forwarding_tls(door_settings(config.props)) if listeners[0].is_secured else None
