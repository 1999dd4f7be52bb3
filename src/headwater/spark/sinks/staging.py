"""The shape of the database sinks: tasks put rows aside, one transaction makes the batch visible with its progress.

For each batch N of query Q: a task asks the store how far Q has come; N or further, and it drops its rows. Else it puts
them aside under the number of its attempt, which nobody else has. `commit` on the driver publishes the attempts that
Spark counts, and writes (Q, N) in the same transaction, unless (Q, N) is there. So:

- a task that is tried again has another attempt, and only one of them is published;
- a zombie, task or driver, can put aside what it likes: its attempt is never named, or its batch is done already;
- how the rows are dealt out to tasks does not matter: a batch that was not published left nothing but litter, and may
  come again with another number of partitions, or other rows.

Rows outside of a streaming query have no (Q, N): they are published once, in one transaction. What they leave when they
are killed, and a query that never comes back, is litter that no batch follows: it goes by its age.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from headwater.base.errors import UserError

if TYPE_CHECKING:
    import pyarrow

LITTER_KEPT_DAYS: Final = 7  # what nobody comes back for; no task takes so long


class Batch(NamedTuple):
    """Batch N of query Q."""

    query_id: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one attempt of one task has put aside. `batch` is None outside of a streaming query."""

    batch: Batch | None
    attempt: str
    host: str
    pieces: int = 0
    rows: int = 0
    skipped: bool = False


class Store(Protocol):
    """A database, seen by the writer. Objects travel to the tasks: they hold options, and open what they need."""

    def prepare(self) -> None:
        """On the driver, before the tasks: tables are made, and what cannot work is refused."""

    def last_batch(self, query_id: str) -> int | None:
        """How far a query has come; None: nowhere yet."""

    def stage(self, batch: Batch | None, attempt: str, rows: Iterator["pyarrow.RecordBatch"]) -> Attempt:
        """In a task: puts rows aside."""

    def publish(self, batch: Batch | None, attempts: Sequence[Attempt]) -> bool:
        """Rows and progress in one transaction, then takes away litter. False: the batch was there already."""

    def discard(self, attempts: Sequence[Attempt]) -> None:
        """The batch failed; what these attempts put aside can go. What is missed here, the next `publish` takes
        away.
        """


def is_done(last_batch: int | None, batch_id: int) -> bool:
    return last_batch is not None and last_batch >= batch_id


def write_task(
    store: Store, batch: Batch | None, attempt: str, host: str, rows: Iterator["pyarrow.RecordBatch"]
) -> Attempt:
    if batch is not None and is_done(store.last_batch(batch.query_id), batch.batch_id):
        for _ in rows:  # Spark counts on a reader that reads
            pass
        return Attempt(batch, attempt, host, skipped=True)
    return store.stage(batch, attempt, rows)


def commit_batch(store: Store, attempts: Sequence[Attempt]) -> bool:
    """False: there was nothing to do, or it was done already."""
    if not attempts:
        return False
    batch = attempts[0].batch
    assert all(each.batch == batch for each in attempts), "one commit is for one batch"
    return store.publish(batch, attempts)


def refuse_skipped(attempts: Sequence[Attempt]) -> None:
    """Before a batch that is not done is published: a task that found it done has dropped its rows."""
    skipped = [each.batch for each in attempts if each.skipped]
    if skipped:
        raise UserError(
            "A task found its batch done, and the database says that it is not",
            f"{skipped[0]} was in the table of progress, and is not any more",
            "Nothing of the batch was published. If the database was set back to an older state, start the query from a "
            "checkpoint that fits it",
        )
