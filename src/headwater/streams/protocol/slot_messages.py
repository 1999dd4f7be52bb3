"""What the lead of a runtime and its slots say to each other, as JSON: one dataclass per message. Pure.

Tasks are named as in Kafka Streams, `<sub-topology>_<partition>`. What a program contains is pickled and travels only
in `Introduce`, from the lead to a slot that has proved that it is one, and to whom the lead has proved that it is the
lead (`spark.slots.frames`).
"""

from dataclasses import dataclass, field
from typing import Any, Final

from headwater.spark.slots.message_codec import EndLease, Heartbeat, Hello, Leaving, MessageCodec

# From a slot. `run`: the number that the slot was introduced with; an earlier run of the name may still say something


@dataclass(frozen=True, slots=True)
class Ready:
    """The program is there; tasks may be given. `states`: the tasks whose state lies on this machine; `place`: host and
    directory of it.
    """

    application: str
    states: list[str]
    place: str = ""
    run: int = 0


@dataclass(frozen=True, slots=True)
class Owned:
    """After `Assign`: these tasks are open, all others have been committed and released; copies are kept of `standbys`
    alone.
    """

    application: str
    grant: int
    tasks: list[str]
    standbys: list[str] = field(default_factory=list)
    run: int = 0


@dataclass(frozen=True, slots=True)
class AskProducer:
    """A transaction failed, or nobody knows how it ended: the slot needs its producer id with another epoch."""

    application: str
    run: int = 0


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """Where there are no transactions: [topic, partition, offset, metadata] each, for the group."""

    application: str
    offsets: list[Any]
    run: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """Since the slot has the application. `dropped`: by reason; `tasks`, `errors`: rows of `slot_report`; `standbys`:
    of `standby_tasks`; `queries`: where the slot answers them.
    """

    application: str
    records: int
    dropped: dict[str, Any]
    tasks: list[Any] = field(default_factory=list)
    errors: list[Any] = field(default_factory=list)
    standbys: list[Any] = field(default_factory=list)
    queries: str = ""
    run: int = 0


@dataclass(frozen=True, slots=True)
class Released:
    """Everything of the application is committed and released; until it is introduced again, the slot opens nothing of
    it.
    """

    application: str
    run: int = 0


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The slot has let go of the application's tasks without a commit; a transaction of it may be open."""

    application: str
    run: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The application cannot go on: a record's processing raised, the program does not load."""

    application: str
    what: str
    why: str = ""
    hint: str = ""
    run: int = 0


# From the lead


@dataclass(frozen=True, slots=True)
class Introduce:
    """An application, and who the slot is in it: the lead's membership, the run's number, the slot's producer."""

    application: str
    program: str
    run: int
    generation: int
    member_id: str
    instance_id: str
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class Assign:
    """All tasks that the slot shall have, and those whose state it shall have a copy of. `grant`: higher than any
    before, to whomever.
    """

    application: str
    grant: int
    tasks: list[str]
    standbys: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Pause:
    """Process nothing for now, or (`paused` is false) go on. A slot that is introduced is not paused."""

    application: str
    paused: bool


@dataclass(frozen=True, slots=True)
class Producer:
    """The answer to `AskProducer`."""

    application: str
    producer_id: int
    producer_epoch: int
    generation: int
    member_id: str
    refused: str = ""


@dataclass(frozen=True, slots=True)
class OffsetsCommitted:
    """The answer to `CommitOffsets`; `code` is Kafka's error code."""

    application: str
    code: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class NewMember:
    """The lead's membership has another generation."""

    application: str
    generation: int
    member_id: str


@dataclass(frozen=True, slots=True)
class StopApplication:
    """Commit, and let go of all tasks; the answer is `Released` or `GaveUp`."""

    application: str


OfApplication = Ready | Owned | AskProducer | CommitOffsets | Progress | Released | GaveUp | Failed
FromSlot = Hello | Heartbeat | OfApplication | Leaving
FromLead = Introduce | Assign | Pause | Producer | OffsetsCommitted | NewMember | StopApplication | EndLease
Message = FromSlot | FromLead
CODEC: Final = MessageCodec(*Message.__args__)
