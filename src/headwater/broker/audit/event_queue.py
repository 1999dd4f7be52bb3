"""Events that wait to be written, in the order in which they happened: a bounded number of them.

What administrators change has room of its own: whoever causes other events, strangers with failed logins among them,
pushes out such events only. Pure; owned by the audit trail.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

_RECORD_BYTES: Final = 32  # at most, of a record beside its key and its value


class Event(NamedTuple):
    number: int  # of this broker's life
    time_ms: int
    key: bytes
    value: bytes
    is_change: bool

    @property
    def size_bytes(self) -> int:
        return len(self.key) + len(self.value) + _RECORD_BYTES


class EventQueue:
    def __init__(self, count_max: int) -> None:
        """`count_max` of either kind."""
        self._count_max = count_max
        self._changes: deque[Event] = deque()
        self._others: deque[Event] = deque()
        self._number = 0

    def add(self, time_ms: int, key: bytes, value: bytes, *, is_change: bool) -> int:
        """How many older ones were dropped for it."""
        self._number += 1
        self._of(is_change).append(Event(self._number, time_ms, key, value, is_change))
        return self._drop_oldest()

    def take(self, count_max: int, bytes_max: int) -> list[Event]:
        """The oldest: as many as fit, and one in any case."""
        taken: list[Event] = []
        size_bytes = 0
        while len(taken) < count_max and (events := self._next()):
            size_bytes += events[0].size_bytes
            if taken and size_bytes > bytes_max:
                break
            taken.append(events.popleft())
        return taken

    def give_back(self, taken: Sequence[Event]) -> int:
        """Those that were taken last, in their order. How many were dropped because others came meanwhile."""
        for event in reversed(taken):
            self._of(event.is_change).appendleft(event)
        return self._drop_oldest()

    def _of(self, is_change: bool) -> deque[Event]:
        return self._changes if is_change else self._others

    def _next(self) -> deque[Event]:
        if not self._changes or not self._others:
            return self._changes or self._others
        return min(self._changes, self._others, key=lambda events: events[0].number)

    def _drop_oldest(self) -> int:
        dropped = 0
        for events in (self._changes, self._others):
            while len(events) > self._count_max:
                events.popleft()
                dropped += 1
        return dropped

    def __len__(self) -> int:
        return len(self._changes) + len(self._others)
