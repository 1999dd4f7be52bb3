"""What a coordinator's decision asks for: records to append, answers to give once they are committed, timers to set.

A shard is the state of one partition of `__consumer_offsets` or `__transaction_state`. It is changed by requests,
timers and, while it is loaded, by the records that it wrote in an earlier life. Its methods change the state at once
and return `Effects`; the runtime (broker/coordinators) appends the records as one batch, and gives the answers when the
high watermark has passed them. An answer without records waits all the same until everything that the shard wrote
before is committed: nobody is told what could still be taken back. When an append fails, the whole shard is thrown away
and loaded again from the log, and all who wait get an error.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

TimerKey = Hashable


class CoordinatorRecord(NamedTuple):
    """One record of an internal topic. No value is a tombstone. Both begin with their int16 version."""

    key: bytes
    value: bytes | None


class Producer(NamedTuple):
    """On whose behalf a batch is written within a transaction."""

    producer_id: int
    producer_epoch: int


class Ticket:
    """Stands for one request that waits for its answer. Made by the runtime; a shard only keeps it and names it in
    `replies`.
    """

    __slots__ = ("settle",)

    def __init__(self, settle: Any) -> None:
        self.settle = settle  # for the runtime alone


@dataclass(slots=True)
class Effects:
    records: list[CoordinatorRecord] = field(default_factory=list)
    replies: list[tuple[Ticket, Any]] = field(default_factory=list)
    timers: dict[TimerKey, int | None] = field(default_factory=dict)  # milliseconds from now; None cancels
    producer: Producer | None = None  # the records belong to this producer's transaction
    is_recalled: bool = (
        False  # nothing is done: what was asked for has been reached before, as far as the shard remembers
    )

    def add(self, other: "Effects") -> None:
        """What a second decision, made right after the first, asks for too."""
        assert self.producer is None
        assert other.producer is None
        self.records += other.records
        self.replies += other.replies
        self.timers |= other.timers
