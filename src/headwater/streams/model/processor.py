"""What a node of a running topology is: `Processor`, written by us (one file per operator) or by users.

A task makes each processor, gives it its `context` and `forward`, calls `init` once, `process` for each record and
`close` at the end; all from one thread. `forward(record)` runs every child to its end before it returns.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Protocol

from headwater.streams.model.record import Origin, Record, RecordMetadata

Forward = Callable[[Record], None]
Supplier = Callable[[], "Processor"]
TimeKind = Literal["stream", "wall"]


class Cancellable(Protocol):
    """A schedule that can be ended."""

    def cancel(self) -> None: ...


class Context(Protocol):
    """What a processor sees of its task."""

    @property
    def application_id(self) -> str: ...

    @property
    def task_id(self) -> str:
        """Sub-topology and partition, as `0_3`."""

    @property
    def node_name(self) -> str: ...

    @property
    def partition(self) -> int:
        """The partition of the task."""

    @property
    def stream_time_ms(self) -> int:
        """The largest timestamp that the task has processed, -1 before its first record. It never goes back."""

    @property
    def wall_clock_ms(self) -> int: ...

    @property
    def record_metadata(self) -> RecordMetadata | None:
        """Of the record that is being processed; None in a punctuator."""

    @property
    def emit_interval_ms(self) -> int:
        """How often, by wall-clock time, results that wait for stream time may go out."""

    @property
    def origin(self) -> Origin:
        """Of what is held back now, and goes on later by `resume`."""

    def resume(self, record: Record, origin: Origin, step: "Forward | None" = None) -> None:
        """`step(record)`, or to all children, as coming from another record than the one that is being processed: that
        one has its metadata, and is what has failed if something fails.
        """

    def forward(self, record: Record, child: str | None = None) -> None:
        """To all children, or to the one with this name."""

    def store(self, name: str) -> Any:
        """A store that is connected to this node, or a global one: to be read, but by processors of global stores."""

    def schedule(self, interval_ms: int, kind: TimeKind, callback: Callable[[int], None]) -> Cancellable:
        """Calls `callback(timestamp_ms)` every `interval_ms` of stream time or of wall-clock time."""

    def commit(self) -> None:
        """Asks for a commit soon."""

    def drop(self, reason: str) -> None:
        """Counts a record that an operator leaves out: without a key, ..."""

    def drop_late(self, by_ms: int, reason: str = "late") -> None:
        """Counts a record that a window leaves out, or that is late for a join; with so much more grace it would have
        been in time.
        """


class Processor:
    """A node. `init` may be overridden without calling it here: context and forward are set before."""

    context: Context
    forward: Forward
    kept_times: ClassVar[tuple[str, ...]] = ()  # attributes, all of them times, that live on in the task's notes
    stores: ClassVar[Any] = ()
    """Stores that the class brings along: a list of them, or a method of the class that returns one. `process` adds
    them and connects them to it.
    """

    def init(self, context: Context) -> None:
        """Before the first record: get stores, schedule punctuators."""

    def process(self, record: Record) -> None:
        raise NotImplementedError(f"{type(self).__name__} has no process(record)")

    def close(self) -> None:
        """After the last record."""


def fan_out(children: Sequence[Forward]) -> Forward:
    """One function that gives a record to each child, in order."""
    if len(children) == 1:
        return children[0]
    if not children:
        return _nobody
    together = tuple(children)

    def forward(record: Record) -> None:
        for child in together:
            child(record)

    return forward


def _nobody(record: Record) -> None:  # noqa: ARG001  # a node without children forwards into nothing
    return
