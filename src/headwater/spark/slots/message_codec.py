"""Messages between a lead and its slots, as JSON: one dataclass per message. Pure.

The four here are what every runtime says; what a runtime says besides is its own, and a `MessageCodec` knows both. A
message of an unknown kind, or with a field missing, of another type or too many, is refused: `decode` raises
ValueError.
"""

import json
from dataclasses import asdict, dataclass, fields
from typing import Any, get_type_hints


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message of a slot. `number`: which slot of the runtime this is; a later one of the same number replaces
    an earlier one. `tries_before`: how often Spark has begun it in vain since the lease began.
    """

    number: int
    process: str
    tries_before: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Nothing else was to be said for a while."""


@dataclass(frozen=True, slots=True)
class Leaving:
    """The last message of a slot whose lease has ended: it has let go of everything."""


@dataclass(frozen=True, slots=True)
class EndLease:
    """From the lead: commit, let go of everything, and end; the next lease begins with a new process."""


class MessageCodec:
    """Of the messages of one runtime."""

    def __init__(self, *kinds: type) -> None:
        self._kinds = {kind.__name__: kind for kind in (Hello, Heartbeat, Leaving, EndLease, *kinds)}

    def encode(self, message: Any) -> bytes:
        kind: str = type(message).__name__
        assert kind in self._kinds, f"no message of this runtime: {kind}"
        return json.dumps({"kind": kind, **asdict(message)}, separators=(",", ":")).encode()

    def decode(self, data: bytes) -> Any:
        try:
            told = json.loads(data)
        except (UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"no JSON: {error}") from None
        if not isinstance(told, dict) or told.get("kind") not in self._kinds:
            raise ValueError("no message that is known")
        kind = self._kinds[told.pop("kind")]
        types = get_type_hints(kind)
        for each in fields(kind):
            expected = getattr(types[each.name], "__origin__", types[each.name])
            if each.name in told and type(told[each.name]) is not expected:
                raise ValueError(f"{kind.__name__}.{each.name} is no {expected.__name__}")
        try:
            return kind(**told)
        except TypeError as error:
            raise ValueError(str(error)) from None
