"""The exactly-once writer's protocol: what a task and the driver do, step by step, without doing any of it.

Each side is a generator: it yields a step (a question to the cluster, or something to write) and is sent the answer.
The writer drives it with the client; the model test drives the same code through crashes, zombies and time-outs at
every step. Why it holds is told in docs/adr/0010-exactly-once-writer.md. In short, for batch N of query Q:

* A task writes into a transaction of its own, stores `progress[task] = N` in it, and leaves it open.
* The driver writes a decision that names all these transactions, then commits the first of them: from there on the
  batch
  is decided. Then it commits the others. Both may be done again by whoever finds the decision.
* A task that runs again for a decided batch commits its decided transaction instead of writing. If that one is gone
  (timed out, or aborted by a zombie), it writes again, and only the very same rows.
* Only the last driver that has begun to decide can write a decision, so that one which was replaced and does not know
  it
  cannot put an old decision in the place of its successor's.
* Before the driver calls the batch settled, it aborts what runs with more tasks have left open: readers of committed
  records stop at the first open transaction.
* When a batch fails, or a run of the query ends, what it has open and not decided is aborted, and nothing of other
  runs.

Owns no state. The decision lives in a compacted topic under the query's id, progress in a consumer group's offsets.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from headwater.base.errors import UserError

PROGRESS_KEPT_MS: Final = (
    6 * 24 * 3_600_000
)  # brokers forget offsets after 7 days by default; one day is left for clocks


@dataclass(frozen=True, slots=True)
class Producer:
    """One transaction: each has an epoch of its own, because each begins with InitProducerId."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Digest:
    """What a task wrote: equal digests mean equal rows in equal order."""

    rows: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Progress:
    """The last batch that a task has committed, and by which producer."""

    batch: int
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Entry:
    producer: Producer
    digest: Digest


@dataclass(frozen=True, slots=True)
class Decision:
    """In force once the transaction of its first task, `point`, is committed. `settled`: all of them are."""

    batch: int
    entries: Mapping[int, Entry]
    first: int
    point: Producer
    settled: bool = False
    age_ms: int = field(default=0, compare=False)


# What a task reports to the driver


@dataclass(frozen=True, slots=True)
class Open:
    """It wrote, and its transaction waits for the driver."""

    task: int
    producer: Producer
    digest: Digest


@dataclass(frozen=True, slots=True)
class Done:
    """Its part of the batch was committed before, or belongs to others."""

    task: int


Report = Open | Done


# Steps, and what they are answered with


@dataclass(frozen=True, slots=True)
class ReadDecision:
    """-> Decision | None: the last one of the query."""


@dataclass(frozen=True, slots=True)
class Begin:
    """InitProducerId for the task's transactional id -> Producer. Aborts what is open there, fences whoever opened
    it.
    """

    task: int


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """OffsetFetch -> Progress | None; with require_stable it waits for offsets whose transaction is being ended."""

    task: int
    stable: bool = True


@dataclass(frozen=True, slots=True)
class WriteRows:
    """All rows of the task's input, and the answers of the brokers awaited -> Digest."""

    producer: Producer


@dataclass(frozen=True, slots=True)
class StoreProgress:
    """TxnOffsetCommit in the transaction: it counts if and when the transaction is committed."""

    task: int
    producer: Producer
    batch: int


@dataclass(frozen=True, slots=True)
class AllOpen:
    """DescribeTransactions -> bool: whether all of these are still open."""

    producers: tuple[Producer, ...]


@dataclass(frozen=True, slots=True)
class FindOpen:
    """ListTransactions, DescribeTransactions -> tuple[Producer, ...]: whatever is open of this query, of any task.

    With a run, only what that run of the query has begun."""

    run: str | None = None


@dataclass(frozen=True, slots=True)
class RunsAgain:
    """-> bool: whether the query has been started again, as far as this process knows."""


@dataclass(frozen=True, slots=True)
class End:
    """EndTxn -> bool: True if this very transaction is (or was before) ended so; False if it is fenced or aborted."""

    producer: Producer
    commit: bool


@dataclass(frozen=True, slots=True)
class CommitAll:
    """EndTxn for each, in any order or side by side -> a bool for each, as of End."""

    producers: tuple[Producer, ...]


@dataclass(frozen=True, slots=True)
class BeginDeciding:
    """InitProducerId for the query's own transactional id: drivers that began before cannot write a decision any
    more.
    """


@dataclass(frozen=True, slots=True)
class WriteDecision:
    """One record, in place of the query's last decision. Superseded is raised if another driver has begun to decide
    since.
    """

    decision: Decision


Step = (
    ReadDecision
    | Begin
    | ReadProgress
    | WriteRows
    | StoreProgress
    | AllOpen
    | FindOpen
    | RunsAgain
    | End
    | CommitAll
    | BeginDeciding
    | WriteDecision
)
Steps = Generator[Step, Any, Any]


class Superseded(UserError):
    """Another run of the same query has decided this batch, or a later one."""

    def __init__(self, why: str) -> None:
        super().__init__("Another run of this query writes to the same sink", why, "Stop one of them")


class TransactionsLost(UserError):
    """Transactions were aborted before their batch was decided. Nothing is written; the batch can be run again."""

    def __init__(self) -> None:
        super().__init__(
            "Transactions of this batch ended before all tasks were done",
            "the batch took longer than transaction.max.timeout.ms, or a lost task came back",
            "Start the query again: nothing of the batch was committed. Smaller batches (maxOffsetsPerTrigger) take less time",
        )


class LostAfterDecision(UserError):
    """Some of a decided batch's transactions are gone. The batch must be run again, by the same plan."""

    def __init__(self, batch: int, tasks: Sequence[int]) -> None:
        super().__init__(
            f"Batch {batch} is decided, but tasks {', '.join(map(str, tasks))} have lost their transactions",
            "they timed out, or a lost task came back, before they were committed",
            "Start the query again with the same number of partitions: these tasks write again, and only the same rows",
        )


class NotTheSame(UserError):
    def __init__(self, batch: int, task: int) -> None:
        super().__init__(
            f"Task {task} of batch {batch} cannot be written again",
            "it was decided before with other rows: the plan is not deterministic, or the number of partitions has changed",
            "Restore the plan and the number of partitions, or move the checkpoint past the batch and repair it by hand",
        )


class ProgressForgotten(UserError):
    def __init__(self, batch: int) -> None:
        super().__init__(
            f"Nobody can tell any more whether batch {batch} was committed",
            "the query stopped in the middle of it, longer ago than brokers keep offsets (offsets.retention.minutes)",
            "Look at the output topic for rows of the batch, and move the checkpoint past it if they are there",
        )


def task_steps(batch: int, task: int) -> Steps:
    """What one attempt of a task does -> Report."""
    decision: Decision | None = yield ReadDecision()
    expected: Digest | None = None
    if decision is not None and (yield from in_force(decision, batch)):
        mine = decision.entries.get(task)
        if mine is None or decision.settled or (yield End(mine.producer, commit=True)):
            return Done(task)
        expected = mine.digest
    producer: Producer = yield Begin(task)
    progress: Progress | None = yield ReadProgress(task)
    if progress is not None and progress.batch >= batch:
        return Done(task)
    digest: Digest = yield WriteRows(producer)
    if expected is not None and digest != expected:
        yield End(producer, commit=False)
        raise NotTheSame(batch, task)
    yield StoreProgress(task, producer, batch)
    return Open(task, producer, digest)


def commit_steps(batch: int, reports: Sequence[Report]) -> Steps:
    """What the driver does when all tasks have reported. Returns when the batch is committed, and only then."""
    opened = {report.task: Entry(report.producer, report.digest) for report in reports if isinstance(report, Open)}
    yield BeginDeciding()  # before the look: what others write after it is refused, what they wrote before it is seen
    found: Decision | None = yield ReadDecision()
    if found is not None and (yield from in_force(found, batch)):
        decision = yield from _amend(found, opened)
    else:
        if len(opened) < len(reports):
            raise Superseded(f"tasks of batch {batch} were committed before, but not by this run")
        if not opened:
            return None
        decision = yield from _decide(batch, opened)
    if decision.settled:
        return None
    if not (yield from _point_is_committed(decision)):
        raise TransactionsLost
    lost = yield from _commit_others(decision)
    if lost:
        raise LostAfterDecision(batch, lost)
    yield from _abort_abandoned(decision)
    yield WriteDecision(replace(decision, settled=True))
    return None


def abort_steps(reports: Sequence[Report]) -> Steps:
    """What the driver does when the batch has failed: its tasks' transactions are aborted, so that they hold up no
    reader until the batch is run again, or nobody runs it again. Those that a decision names stay: whoever finds it
    commits them.

    An abort is no more than a time-out that comes early, which the protocol lives with at every moment.
    """
    opened = [report.producer for report in reports if isinstance(report, Open)]
    for producer in (yield from _undecided(opened)):
        yield End(producer, commit=False)


def abandon_steps(run: str) -> Steps:
    """The same when a run of the query has ended, for whatever it has left open: tasks that were killed have reported
    to nobody.

    Another run may be at work by then, in this process or in another, and under the same transactional ids. What is its
    own is not even looked at: it may be about to be decided. One that runs in this process ends itself what it finds
    open.
    """
    found: tuple[Producer, ...] = yield FindOpen(run)
    for producer in (yield from _undecided(found)):
        if (yield RunsAgain()):
            return
        yield End(producer, commit=False)


def _undecided(opened: Sequence[Producer]) -> Generator[Step, Any, list[Producer]]:
    """Those that the last decision does not wait for."""
    if not opened:
        return []
    decision: Decision | None = yield ReadDecision()
    entries = {} if decision is None or decision.settled else decision.entries
    decided = {entry.producer for entry in entries.values()}
    return [producer for producer in opened if producer not in decided]


def in_force(decision: Decision, batch: int) -> Generator[Step, Any, bool]:
    """Whether the batch is decided by this decision. One that was only written is brought into force, if it still can
    be.
    """
    if decision.batch > batch:
        raise Superseded(f"it is at batch {decision.batch}, this one at {batch}")
    if decision.batch < batch:
        return False
    if decision.settled or (yield End(decision.point, commit=True)):
        return True
    progress: Progress | None = yield ReadProgress(decision.first)
    if progress is None and decision.age_ms > PROGRESS_KEPT_MS:
        raise ProgressForgotten(batch)
    if progress is None or progress.batch < batch:
        return False
    if _is(progress, decision.point, batch):
        return True
    raise Superseded(f"batch {batch} was decided by a producer that this decision does not know")


def _decide(batch: int, opened: Mapping[int, Entry]) -> Generator[Step, Any, Decision]:
    if not (yield AllOpen(tuple(entry.producer for entry in opened.values()))):
        raise TransactionsLost
    first = min(opened)
    decision = Decision(batch, dict(opened), first, opened[first].producer)
    yield WriteDecision(decision)
    return decision


def _amend(decision: Decision, opened: Mapping[int, Entry]) -> Generator[Step, Any, Decision]:
    """Tasks that wrote although the batch was decided: the same rows take the lost ones' place, all else is aborted."""
    again = {task: entry for task, entry in opened.items() if task in decision.entries and not decision.settled}
    for task, entry in opened.items():
        if task not in again:
            yield End(entry.producer, commit=False)
    for task, entry in again.items():
        if entry.digest != decision.entries[task].digest:
            raise NotTheSame(decision.batch, task)
    if again:
        if not (yield AllOpen(tuple(entry.producer for entry in again.values()))):
            raise TransactionsLost  # somebody has gone on without them, and may have settled the batch: leave it so
        decision = replace(decision, entries={**decision.entries, **again})
        yield WriteDecision(decision)
    return decision


def _point_is_committed(decision: Decision) -> Generator[Step, Any, bool]:
    """After trying. An entry that took the first task's place is none: then the point was committed before."""
    if (yield End(decision.entries[decision.first].producer, commit=True)):
        return True
    progress = yield from _progress_of(decision, decision.first)
    return progress is not None and _is(progress, decision.point, decision.batch)


def _commit_others(decision: Decision) -> Generator[Step, Any, list[int]]:
    """The tasks whose transactions are lost, after trying."""
    tasks = [task for task in sorted(decision.entries) if task != decision.first]
    if not tasks:
        return []
    answers: Sequence[bool] = yield CommitAll(tuple(decision.entries[task].producer for task in tasks))
    lost = []
    for task, committed in zip(tasks, answers, strict=True):
        if not committed:
            progress = yield from _progress_of(decision, task)
            if progress is None or progress.batch < decision.batch:
                lost.append(task)
    return lost


def _abort_abandoned(decision: Decision) -> Generator[Step, Any, None]:
    """All rows of the batch are committed: what is open is of runs that are gone or came too late, or of a later batch.

    There is no later batch before this one is settled. So the decision is read after the look: if nobody has settled
    the batch by then, nothing of what was found is of a later one. Just that is aborted, and nothing that has begun
    since.
    """
    found: tuple[Producer, ...] = yield FindOpen()
    if not found:
        return
    last: Decision | None = yield ReadDecision()
    if last is None or (last.batch, last.settled) < (decision.batch, True):
        for producer in found:
            yield End(producer, commit=False)


def _progress_of(decision: Decision, task: int) -> Generator[Step, Any, Progress | None]:
    progress: Progress | None = yield ReadProgress(task)
    if progress is not None and progress.batch > decision.batch:
        raise Superseded(f"it has committed batch {progress.batch}, this one is at {decision.batch}")
    return progress


def _is(progress: Progress, producer: Producer, batch: int) -> bool:
    return progress == Progress(batch, producer.producer_id, producer.epoch)
