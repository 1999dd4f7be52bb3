"""Which windows of a table are past their retention. A table in windows is a topic, which keeps windows for as long as
its own retention says; pull queries have those that the query's own store has, as in ksqlDB.

As in a store, time is the newest start of a window that a task of the query has seen (of sessions, the newest end),
and a window is gone when it lies RETENTION or more behind that: where it is not given, the size and the grace period.
`window_tasks` tells which task that is.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Final

from headwater.sql.language.tree import WindowKind

if TYPE_CHECKING:
    from headwater.sql.plan.catalog import SourceWindow
    from headwater.sql.server.lookup import Key

_FEW: Final = 256


class Expiry:
    """The windows of one table, by task, the oldest first. `is_there`: whether a row is still there; sessions that
    grow leave others behind, which are forgotten when they are half of what is kept.
    """

    def __init__(self, kept_ms: int, is_there: Callable[[Key], bool], *, by_end: bool) -> None:
        self._kept_ms = kept_ms
        self._is_there = is_there
        self._place = -1 if by_end else -2  # in the names of rows, which end with the bounds of their windows
        self._newest: dict[Hashable, int] = {}
        self._oldest_first: dict[Hashable, list[tuple[int, int, Key]]] = {}
        self._full: dict[Hashable, int] = {}  # how many of a task are looked through
        self._count = 0  # names of keys cannot be compared

    def is_past(self, task: Hashable, name: Key) -> bool:
        """Whether the window has gone, now that a record of it has come; it counts for the time."""
        time: int = name[self._place]
        newest = self._newest[task] = max(time, self._newest.get(task, time))
        return time <= newest - self._kept_ms

    def add(self, task: Hashable, name: Key) -> None:
        """A window that is not past and was not there."""
        self._count += 1
        waiting = self._oldest_first.setdefault(task, [])
        heapq.heappush(waiting, (name[self._place], self._count, name))
        if len(waiting) > self._full.get(task, _FEW):
            there = {each[2]: each for each in waiting if self._is_there(each[2])}
            waiting[:] = sorted(there.values())
            self._full[task] = max(_FEW, 2 * len(waiting))

    def take_past(self, task: Hashable) -> list[Key]:
        """Those that have gone since the last call; one that was taken away meanwhile may be among them."""
        waiting, found = self._oldest_first.get(task, []), []
        while waiting and waiting[0][0] <= self._newest[task] - self._kept_ms:
            found.append(heapq.heappop(waiting)[2])
        return found


def expiry_of(window: SourceWindow | None, is_there: Callable[[Key], bool]) -> Expiry | None:
    """None where nothing expires: without windows, and of a topic that no query of ours writes."""
    if window is None or window.kept_ms is None:
        return None
    return Expiry(window.kept_ms, is_there, by_end=window.kind is WindowKind.SESSION)
