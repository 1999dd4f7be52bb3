"""What workers of a group tell each other when they join it, as JSON. Pure.

The protocol type is Kafka Connect's, the protocol's name our own: the broker refuses a group in which workers of both
kinds would be. `held` and shares are lists of [connector, task], the connector itself being the task -1.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from headwater.connect.distributed.assignor import Resources
from headwater.connect.runtime.task import TaskId

PROTOCOL_TYPE: Final = "connect"
PROTOCOL: Final = "headwater-v1"


@dataclass(frozen=True, slots=True)
class MemberState:
    """`url`: where the worker's REST door is, for the others."""

    url: str
    held: Resources

    def encode(self) -> bytes:
        return json.dumps({"version": 1, "url": self.url, "held": _listed(self.held)}).encode()

    @classmethod
    def decode(cls, data: bytes) -> "MemberState":
        """Raises ValueError."""
        document = _object(data)
        return cls(str(document.get("url")), _resources(document.get("held")))


@dataclass(frozen=True, slots=True)
class Assignment:
    """`failed`: the leader could not decide; everybody keeps what it has and joins again."""

    leader: str
    leader_url: str
    assigned: Resources
    revoked: Resources = frozenset()
    failed: bool = False
    delay_ms: int = 0

    def encode(self) -> bytes:
        document = {"version": 1, "leader": self.leader, "leader_url": self.leader_url, "failed": self.failed}
        shares = {"assigned": _listed(self.assigned), "revoked": _listed(self.revoked), "delay_ms": self.delay_ms}
        return json.dumps({**document, **shares}).encode()

    @classmethod
    def decode(cls, data: bytes) -> "Assignment":
        """Raises ValueError."""
        document = _object(data)
        try:
            return cls(
                str(document["leader"]),
                str(document["leader_url"]),
                _resources(document["assigned"]),
                _resources(document["revoked"]),
                document["failed"] is True,
                int(document["delay_ms"]),
            )
        except (KeyError, TypeError):
            raise ValueError("no assignment of a Connect worker") from None


def _object(data: bytes) -> dict[str, Any]:
    document = json.loads(data)
    if not isinstance(document, dict):
        raise ValueError("not an object")
    return document


def _listed(resources: Iterable[TaskId]) -> list[list[Any]]:
    return [list(each) for each in sorted(resources)]


def _resources(found: Any) -> Resources:
    try:
        return frozenset(TaskId(str(name), int(number)) for name, number in found)
    except TypeError:
        raise ValueError("no list of tasks") from None
