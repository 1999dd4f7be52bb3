"""What a worker and its slots say to each other about tasks, besides what all slots say. Pure.

A run is one stay of a task in one slot. Configs travel as they were given, references to secrets unresolved, over a
connection whose ends have proved that they know the worker's secret (`spark.slots.frames`); they are in no plan, log or
page of Spark's.
"""

from dataclasses import dataclass, field
from typing import Any, Final

from headwater.spark.slots.message_codec import MessageCodec

# From the worker


@dataclass(frozen=True, slots=True)
class Serve:
    """The first message to a slot: whose tasks it will run. `props` are the worker's, references unresolved."""

    props: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Begin:
    """`config`: the connector's with the task's over it, references unresolved; `generation`: of the connector's tasks,
    for the fencing of KIP-618.
    """

    run: int
    connector: str
    number: int
    config: dict[str, Any]
    generation: int
    paused: bool


@dataclass(frozen=True, slots=True)
class Pause:
    run: int
    paused: bool


@dataclass(frozen=True, slots=True)
class End:
    """The task stops as ever, and `Ended` follows."""

    run: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """It was to end and did not: it commits and sends nothing any more."""

    run: int


@dataclass(frozen=True, slots=True)
class Answer:
    """To `Call`. `error`: why not; then there is no value."""

    call: int
    error: str = ""
    value: list[Any] = field(default_factory=list)


# From a slot


@dataclass(frozen=True, slots=True)
class Told:
    """The task's state has changed."""

    run: int
    state: str
    trace: str
    restarts: int


@dataclass(frozen=True, slots=True)
class TopicSeen:
    run: int
    topic: str


@dataclass(frozen=True, slots=True)
class Measured:
    """What the task has counted since it began here, now and then."""

    run: int
    values: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ended:
    """The task's thread has ended."""

    run: int


@dataclass(frozen=True, slots=True)
class Call:
    """A question that only the worker can answer, by name."""

    call: int
    run: int
    name: str
    arguments: list[Any] = field(default_factory=list)


CODEC: Final = MessageCodec(Serve, Begin, Pause, End, GiveUp, Answer, Told, TopicSeen, Measured, Ended, Call)
