"""What a query tells of rows that it could not decode or compute. Whoever runs it may listen; the row is left out, or
its column NULL, either way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from headwater.streams.engine.failures import Failure, Verdict

_TEXT_MAX: Final = 2_000  # characters of a message


@dataclass(frozen=True, slots=True)
class ProcessingError:
    query_id: str
    kind: Literal["deserialization", "processing"]
    where: str  # the node of the topology, or the column
    message: str
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    data: bytes | None = None  # of the record's value


Listener = Callable[[ProcessingError], None]


def message_of(error: BaseException) -> str:
    """What it says, as much as somebody reads of it: it may quote a whole value."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  it is of somebody's function, and cannot say
        text = ""
    return text[:_TEXT_MAX] + "..." if len(text) > _TEXT_MAX else text or type(error).__name__


def leave_out(query_id: str, listener: Listener | None) -> Callable[[Failure], Verdict]:
    """What is done with records that cannot be decoded: they are left out, and told."""

    def decide(failure: Failure) -> Verdict:
        if listener is not None:
            record = failure.record
            place = (None, None, None, None) if record is None else (record.topic, record.partition, record.offset, record.value)  # fmt: skip
            listener(ProcessingError(query_id, "deserialization", failure.node, message_of(failure.error), *place))
        return "skip"

    return decide
