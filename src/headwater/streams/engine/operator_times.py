"""The times of operators beside the state of their task: stream time as they observed it, what they emitted last, when
punctuators are due.

They are in no changelog, as in Kafka Streams: a lost disk loses them, and an operator begins anew at -1. Where the
state stays, they make a restart, or the end of a lease, invisible. What was emitted on close is in the offsets'
metadata, too. Saved with every commit, if they have changed.
"""

from struct import Struct
from typing import Final

from headwater.streams.engine.punctuation import Schedule
from headwater.streams.model.processor import Processor
from headwater.streams.stores.ordered import PendingMap

_LONG: Final = Struct(">q")
_CANCELLED: Final = -1


class OperatorTimes:
    """Owned by one task."""

    def __init__(self, times: PendingMap) -> None:
        self._times = times
        self._kept: list[tuple[bytes, Processor]] = []
        self._schedules: dict[bytes, list[Schedule]] = {}
        self._saved: dict[bytes, bytes] = {}

    def load(self, node: str, processor: Processor) -> None:
        """Gives a new processor the times that were saved for its node."""
        note = b"times\x00" + node.encode()
        self._kept.append((note, processor))
        found = self._times.get(note)
        if found is None or len(found) != 8 * len(processor.kept_times):
            return
        self._saved[note] = found
        for name, (time,) in zip(processor.kept_times, _LONG.iter_unpack(found), strict=True):
            setattr(processor, name, time)

    def load_schedules(self, schedules: list[Schedule]) -> bool:
        """Gives the schedules that were made in `init` the due times they had; whether any has changed.

        They are told apart by their node and their turn. Those that are made later are not kept: nobody makes them
        again.
        """
        for schedule in schedules:
            self._schedules.setdefault(b"schedules\x00" + schedule.node_name.encode(), []).append(schedule)
        changed = False
        for note, together in self._schedules.items():
            found = self._times.get(note)
            if found is None or len(found) != 8 * len(together):
                continue  # never saved, or another version of the application
            self._saved[note] = found
            for schedule, (due_ms,) in zip(together, _LONG.iter_unpack(found), strict=True):
                changed = True
                if due_ms == _CANCELLED:
                    schedule.cancel()
                else:
                    schedule.due_ms = due_ms
        return changed

    def save(self) -> None:
        for note, processor in self._kept:
            self._put(note, b"".join(_LONG.pack(getattr(processor, name)) for name in processor.kept_times))
        for note, together in self._schedules.items():
            dues = (_CANCELLED if schedule.cancelled else schedule.due_ms for schedule in together)
            self._put(note, b"".join(map(_LONG.pack, dues)))

    def _put(self, note: bytes, times: bytes) -> None:
        if self._saved.get(note) != times:
            self._saved[note] = times
            self._times.put(note, times)
