"""State that lies on a machine since its task went elsewhere, and comes back after a long time.

Whoever had the task meanwhile may have deleted rows. A tombstone stays in a changelog for a day (`delete.retention.ms`)
and then compaction takes it: who reads on from an old position would never hear of the deletion, and the row would be
there again. So the time of the last save lies beside the rows, and state that is older than a day, with a margin, is
not read on where its changelog went on, but restored, whether records are there or not: of a row that was deleted,
compaction leaves none. (Kafka Streams deletes the state of tasks that have been elsewhere for ten minutes.) State
without such a time is taken as it is, and has one from then on.
"""

from typing import Final

from headwater.streams.stores.formats import LONG
from headwater.streams.stores.state import TaskState

_NOTE: Final = b"saved-at"
STALE_MS: Final = 20 * 3_600_000
_NOTE_EVERY_MS: Final = 60_000


def note_saved(state: TaskState, now_ms: int) -> None:
    """Before a commit, with whose rows it is written. Not each time: it is a page more to write."""
    noted = state.notes.get(_NOTE)
    if noted is None or abs(now_ms - LONG.unpack(noted)[0]) >= _NOTE_EVERY_MS:
        state.notes.put(_NOTE, LONG.pack(now_ms))


def is_stale(state: TaskState, now_ms: int) -> bool:
    noted = state.notes.get(_NOTE)
    return noted is not None and now_ms - LONG.unpack(noted)[0] > STALE_MS


def went_on(position: int, end: int) -> bool:
    """Whether compaction may have taken what comes behind the position of old state. A single offset is the marker of
    the commit that wrote the position, or the last record of the log, whose segment is never compacted.
    """
    return end > position + 1
