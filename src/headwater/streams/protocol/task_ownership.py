"""Exactly once: what the lead and the slots of an application do, step by step, without doing any of it (KIP-447).

Each part is a generator: it yields a step (a question to the cluster or to the state on disk, or something to write)
and is sent the answer. The shells in `lead` and `slot` drive it with the client; the model test drives the same code
through crashes, zombies and lost answers at every step. Why it holds is told in docs/adr/0020-streams-exactly-once.md.
In short:

* The lead is the only member of the application's group, and static. When a successor joins, whatever its predecessor's
  slots commit from then on is refused, because commits carry the member's metadata.
* Only the lead takes producer ids (a bare InitProducerId), and only while it is the member. That aborts what the id had
  open,
  and waits for what it had decided. A new run takes all ids of earlier runs first.
* A slot opens a task by claiming its state, and replays the changelog up to the *high watermark* that stood after all
  former
  owners were fenced or had released it. The last stable offset is not enough: a commit that is decided may have its
  offsets shown while the marker in the changelog is still to come. Offsets are read with require_stable for the same
  reason.
* A commit is one transaction: results, changes and offsets. The state on disk follows when it is certain, and checks
  its owner.
  The state is never ahead of the changelog, so nothing is ever undone. Where the outcome is unknown, what is pending is
  dropped, the id taken anew, and the task opened again.

Owns no state. At least once is the same without transactions: results and changes, then the state, then the offsets.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any

from headwater.base.errors import UserError
from headwater.streams.stores.state import Owner

Task = Any  # whatever names a task for the shell
Offsets = Mapping[Any, Any]  # by input partition


@dataclass(frozen=True, slots=True)
class Member:
    """The lead's membership of the group: what commits carry."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str


@dataclass(frozen=True, slots=True)
class SlotProducer:
    """The producer of a slot; each transaction may go on with another epoch, which the client knows."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Run:
    """What a run of an application has before its first task is opened."""

    member: Member
    number: int
    producers: Mapping[str, SlotProducer]


# Steps of the lead


@dataclass(frozen=True, slots=True)
class Join:
    """JoinGroup and SyncGroup as the static member -> Member."""


@dataclass(frozen=True, slots=True)
class TakeRunNumber:
    """InitProducerId for the lead's own id -> int: higher than any before."""


@dataclass(frozen=True, slots=True)
class StillMember:
    """Heartbeat. Raises Replaced if another run has joined since."""

    member: Member


@dataclass(frozen=True, slots=True)
class FindSlotIds:
    """ListTransactions -> tuple[str, ...]: the ids of slots that the cluster knows, of this run or earlier ones."""


@dataclass(frozen=True, slots=True)
class TakeProducerId:
    """A bare InitProducerId -> SlotProducer. What the id has open is aborted, what it has decided is through when this
    returns.
    """

    transactional_id: str


# Steps of a slot


@dataclass(frozen=True, slots=True)
class ClaimState:
    """Opens the state of the task and makes this its owner. Raises StateFenced."""

    task: Task
    owner: Owner


@dataclass(frozen=True, slots=True)
class ReadEnds:
    """ListOffsets -> where the task's changelog partitions end: read_uncommitted gives the high watermarks."""

    task: Task
    isolation: str = "read_uncommitted"


@dataclass(frozen=True, slots=True)
class ReplayChangelog:
    """Reads committed records from the state's position to these ends, waiting for open transactions, into what is
    pending.
    """

    task: Task
    ends: Offsets


@dataclass(frozen=True, slots=True)
class SaveState:
    """One local transaction: the owner is still itself, changes, position. Raises StateFenced."""

    task: Task


@dataclass(frozen=True, slots=True)
class ReadOffsets:
    """OffsetFetch -> the group's offsets of the task's inputs; with require_stable it waits for those that are being
    decided.
    """

    task: Task
    stable: bool = True


@dataclass(frozen=True, slots=True)
class SendRecords:
    """Results and changes of all tasks, and the answers of the brokers awaited."""

    producer: SlotProducer | None


@dataclass(frozen=True, slots=True)
class SendOffsets:
    """TxnOffsetCommit, or OffsetCommit where there is no transaction. Refused if another run has joined."""

    producer: SlotProducer | None
    member: Member | None


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """EndTxn(commit) -> bool: True if it is committed; False if nobody can tell. Raises where it is refused."""

    producer: SlotProducer


@dataclass(frozen=True, slots=True)
class DropPending:
    """Forgets what the task has changed since the last commit."""

    task: Task


Step = (
    Join
    | TakeRunNumber
    | StillMember
    | FindSlotIds
    | TakeProducerId
    | ClaimState
    | ReadEnds
    | ReplayChangelog
    | SaveState
    | ReadOffsets
    | SendRecords
    | SendOffsets
    | EndTransaction
    | DropPending
)
Steps = Generator[Step, Any, Any]


class Replaced(UserError):
    """Another run of the application has taken over."""

    def __init__(self, application_id: str) -> None:
        super().__init__(
            f"Another run of the application {application_id} has taken over",
            "it joined the group under the same instance id, so nothing of this run is committed any more",
            "This run may end; nothing of it is lost or doubled",
        )


def start_steps(wanted: tuple[str, ...]) -> Steps:
    """What the lead does before anything is processed -> Run. `wanted`: the transactional ids of its slots."""
    member: Member = yield Join()
    number: int = yield TakeRunNumber()
    yield StillMember(member)  # so whoever joins later also has a higher number
    known: tuple[str, ...] = yield FindSlotIds()
    producers = {}
    for name in sorted({*wanted, *known}):  # those of larger earlier runs, too
        producers[name] = yield TakeProducerId(name)
    yield StillMember(
        member
    )  # a run that was replaced meanwhile has taken ids from its successor: it must not use them
    return Run(member, number, {name: producers[name] for name in wanted})


def open_steps(task: Task, owner: Owner) -> Steps:
    """Makes a task ready whose former owners are fenced or have released it -> the offsets to go on from."""
    yield ClaimState(task, owner)
    ends: Offsets = yield ReadEnds(task)
    yield ReplayChangelog(task, ends)
    yield SaveState(task)
    offsets: Offsets = yield ReadOffsets(task)
    return offsets


def commit_steps(tasks: tuple[Task, ...], producer: SlotProducer, member: Member) -> Steps:
    """One transaction for all tasks of a slot -> bool: False if its outcome is unknown, and the tasks must be opened
    again.
    """
    yield SendRecords(producer)
    yield SendOffsets(producer, member)
    committed: bool = yield EndTransaction(producer)
    for task in tasks:
        if committed:
            yield SaveState(task)
        else:
            yield DropPending(task)
    return committed


def commit_at_least_once_steps(tasks: tuple[Task, ...], member: Member) -> Steps:
    """What was processed since the last commit may be processed again, but nothing is left out -> True."""
    yield SendRecords(None)
    for task in tasks:
        yield SaveState(task)
    yield SendOffsets(None, member)
    return True


def fence_steps(transactional_id: str, member: Member) -> Steps:
    """By the lead, for a slot that comes, that asks for it, or that is lost -> SlotProducer.

    Whoever had the id writes nothing any more, what it had decided is through, and its tasks may be opened by others.
    Where slots are processes of their own, a slot asks the lead for this step; the lead refuses one that it has given
    up.
    """
    yield StillMember(member)
    taken: SlotProducer = yield TakeProducerId(transactional_id)
    return taken


def recover_steps(tasks: tuple[Task, ...], producer: SlotProducer, member: Member) -> Steps:
    """After a transaction that failed or whose outcome is unknown -> SlotProducer,
    with which tasks are opened again.
    """
    for task in tasks:
        yield DropPending(task)
    taken: SlotProducer = yield from fence_steps(producer.transactional_id, member)
    return taken
