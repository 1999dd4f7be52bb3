"""What a walk over a log knows of its transactions: which data was aborted, which markers still have something to end.

Of an aborted transaction, the data goes as soon as it is met. Its marker and its entry in the transaction index stay
while the walk has met something of it; so does the marker of a committed one. A marker whose transaction has nothing
left in the log may go, once its delete horizon has passed. All that is walked over must be decided: lie below the last
stable offset.
"""

from collections.abc import Iterable, Sequence

from headwater.log.transaction_index import AbortedTransaction
from headwater.records.batch import BatchHeader
from headwater.records.control import ABORT, COMMIT, control_type
from headwater.records.record import Record


class TransactionWalk:
    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)  # the next one last
        self._aborting: dict[int, AbortedTransaction] = {}  # by producer id
        self._met: set[int] = set()  # of these, something was met
        self._committing: set[int] = set()
        self.index: list[AbortedTransaction] = []  # the entries that stay; whoever writes a segment takes them

    def _begin(self, last_offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[-1].first_offset <= last_offset:
            entry = waiting.pop()
            self._aborting.setdefault(entry.producer_id, entry)

    def on_data(self, header: BatchHeader) -> bool:
        """Whether this batch, which is no control batch, was aborted."""
        self._begin(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborting:
            self._met.add(header.producer_id)
            return True
        self._committing.add(header.producer_id)
        return False

    def on_control(self, header: BatchHeader, records: Sequence[Record]) -> bool:
        """Whether the marker in this batch ends a transaction of which nothing is left."""
        self._begin(header.last_offset)
        if not records:
            return True
        kind = control_type(records[0])
        if kind == COMMIT:
            was_met = header.producer_id in self._committing
            self._committing.discard(header.producer_id)
            return not was_met
        if kind != ABORT:
            return False
        entry = self._aborting.pop(header.producer_id, None)
        was_met = header.producer_id in self._met
        self._met.discard(header.producer_id)
        if entry is not None and was_met:
            self.index.append(entry)
        return not was_met

    def take_index(self) -> list[AbortedTransaction]:
        taken, self.index = self.index, []
        return taken
