"""The timers of one shard, by the keys that it gave them. Owned by its `Hosted`."""

from collections.abc import Callable

from headwater.base.ports import Scheduler, Timer
from headwater.coordinator.effects import TimerKey


class Timers:
    def __init__(self, scheduler: Scheduler, on_due: Callable[[TimerKey, int], None]) -> None:
        """`on_due` gets the key, and how long it was waited for."""
        self._scheduler = scheduler
        self._on_due = on_due
        self._timers: dict[TimerKey, Timer] = {}

    def set(self, key: TimerKey, delay_ms: int | None) -> None:
        """In place of what was waited for under that key; None: nothing more is waited for."""
        old = self._timers.pop(key, None)
        if old is not None:
            old.cancel()
        if delay_ms is not None:
            self._timers[key] = self._scheduler.call_later(max(0, delay_ms), lambda: self._due(key, delay_ms))

    def _due(self, key: TimerKey, delay_ms: int) -> None:
        del self._timers[key]
        self._on_due(key, delay_ms)

    def clear(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
