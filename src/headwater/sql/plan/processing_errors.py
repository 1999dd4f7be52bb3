"""What a query tells of rows that it could not decode or compute. Whoever runs it may listen; the row is left out, or
its column NULL, either way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from headwater.streams.engine.failures import Failure, Verdict


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


def leave_out(query_id: str, listener: Listener | None) -> Callable[[Failure], Verdict]:
    """What is done with records that cannot be decoded: they are left out, and told."""

    def decide(failure: Failure) -> Verdict:
        if listener is not None:
            record = failure.record
            place = (None, None, None, None) if record is None else (record.topic, record.partition, record.offset, record.value)  # fmt: skip
            listener(ProcessingError(query_id, "deserialization", failure.node, str(failure.error), *place))
        return "skip"

    return decide
