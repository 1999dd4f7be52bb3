"""Punctuators: callbacks that are due when stream time or wall-clock time has come far enough.

As in Kafka Streams: a stream-time schedule is first due at time 0, so it fires at the very first record; a wall-clock
schedule is first due one interval after it was made. When time jumps over several intervals, the callback runs once,
and the next due time stays on the grid of the first. Owned by one task.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from math import inf
from typing import get_args

from headwater.base.errors import UserError
from headwater.streams.model.processor import TimeKind
from headwater.streams.model.time import whole


class Schedule:
    """One callback, every `interval_ms`."""

    __slots__ = ("callback", "cancelled", "due_ms", "interval_ms", "node_name")

    def __init__(self, node_name: str, due_ms: int, interval_ms: int, callback: Callable[[int], None]) -> None:
        self.node_name = node_name
        self.due_ms = due_ms
        self.interval_ms = interval_ms
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


def check_schedule(node: str, interval_ms: object, kind: object, callback: object) -> int:
    """What was asked for, by whom: the interval."""
    if kind not in get_args(TimeKind):
        raise UserError(
            f"{node} schedules a punctuator by {kind!r}", f"one of {', '.join(get_args(TimeKind))} is needed"
        )
    interval = whole(interval_ms)
    if interval is None or interval < 1:
        raise UserError(f"{node} schedules a punctuator every {interval_ms!r} ms", "it is a whole number, at least 1")
    if not callable(callback):
        raise UserError(f"{node} schedules {callback!r}", "a function of the time is needed")
    return interval


class PunctuationQueue:
    """The schedules of one kind of time, by due time; among equals, the one that was scheduled first."""

    __slots__ = ("_heap", "_sequence", "due_ms")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Schedule]] = []
        self._sequence = 0
        self.due_ms: float = inf  # of the first

    def add(self, schedule: Schedule) -> None:
        self._sequence += 1
        heappush(self._heap, (schedule.due_ms, self._sequence, schedule))
        self.due_ms = self._heap[0][0]

    def moved(self) -> None:
        """Due times of schedules were changed from outside."""
        self._heap = sorted((schedule.due_ms, sequence, schedule) for _, sequence, schedule in self._heap)
        self.due_ms = self._heap[0][0] if self._heap else inf

    def bring_near(self, now_ms: int) -> None:
        """None is due later than an interval from now: in another version it was longer, or the clock was set back."""
        for _, _, schedule in self._heap:
            schedule.due_ms = min(schedule.due_ms, now_ms + schedule.interval_ms)
        self.moved()

    def pass_over(self, now_ms: int) -> None:
        """What is due at `now_ms` of stream time was called then, by somebody who could not save the next due time.
        What is further away than an interval had a longer one in another version: it goes by the grid of the new one.
        A time below 0 is not known.
        """
        for _, _, schedule in self._heap:
            if 0 <= now_ms < schedule.due_ms - schedule.interval_ms:
                schedule.due_ms = 0
            if schedule.due_ms <= now_ms:
                schedule.due_ms = _next_due(schedule, now_ms)
        self.moved()

    def next_due_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def fire(self, now_ms: int, call: Callable[[Schedule, int], None]) -> bool:
        """Calls what is due at `now_ms`; whether anything was."""
        fired = False
        while self._heap and self._heap[0][0] <= now_ms:
            _, _, schedule = heappop(self._heap)
            if schedule.cancelled:
                continue
            call(schedule, now_ms)
            fired = True
            if not schedule.cancelled:
                schedule.due_ms = _next_due(schedule, now_ms)
                self.add(schedule)
        self.due_ms = self._heap[0][0] if self._heap else inf
        return fired


def _next_due(schedule: Schedule, now_ms: int) -> int:
    due = schedule.due_ms + schedule.interval_ms
    if due <= now_ms:  # several intervals were missed: the next on the grid
        due += schedule.interval_ms * ((now_ms - schedule.due_ms) // schedule.interval_ms)
    return due
