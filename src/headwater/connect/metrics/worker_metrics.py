"""What a worker counts besides its tasks: starts of connectors and tasks, and rebalances of its group. Pure but for the
clock that is given; for any thread.
"""

import threading
from collections.abc import Callable
from typing import Final

from headwater.connect.metrics.sensors import Sensor, Windows

_STARTED: Final = ("RUNNING", "PAUSED", "STOPPED")


class Startups:
    """Of connectors, or of tasks."""

    def __init__(self, now_ms: Callable[[], float], windows: Windows) -> None:
        self._now_ms, self._lock = now_ms, threading.Lock()
        self._attempts = self._successes = self._failures = 0
        self._results = Sensor(windows)

    def begun(self) -> "Startup":
        with self._lock:
            self._attempts += 1
        return Startup(self._ended)

    def _ended(self, success: bool) -> None:
        with self._lock:
            self._successes += success
            self._failures += not success
            self._results.record(1.0 if success else 0.0, self._now_ms())

    def values(self, what: str) -> dict[str, float]:
        with self._lock:
            share = self._results.average(self._now_ms())
            return {
                f"{what}-startup-attempts-total": self._attempts,
                f"{what}-startup-success-total": self._successes,
                f"{what}-startup-failure-total": self._failures,
                f"{what}-startup-success-percentage": 0.0 if share is None else share,
                f"{what}-startup-failure-percentage": 0.0 if share is None else 1.0 - share,
            }


class Startup:
    """One attempt: what counts is the first state that says how it went."""

    __slots__ = ("_ended",)

    def __init__(self, ended: Callable[[bool], None]) -> None:
        self._ended: Callable[[bool], None] | None = ended

    def state(self, state: str) -> None:
        told = self._ended
        if told is not None and (state in _STARTED or state == "FAILED"):
            self._ended = None
            told(state != "FAILED")


class Rebalances:
    """Of the worker's group: from the moment it wants to join until it knows what it is to run."""

    def __init__(self, now_ms: Callable[[], float], windows: Windows) -> None:
        self._now_ms, self._lock = now_ms, threading.Lock()
        self._times = Sensor(windows)
        self._completed = 0
        self._began_ms: float | None = None
        self._ended_ms: float | None = None
        self._epoch = -1
        self.texts: dict[str, str] = {}

    def begin(self) -> None:
        with self._lock:
            if self._began_ms is None:
                self._began_ms = self._now_ms()

    def end(self, epoch: int, leader_url: str, protocol: str) -> None:
        with self._lock:
            now_ms = self._now_ms()
            began_ms, self._began_ms = self._began_ms, None
            if began_ms is not None:
                self._times.record(now_ms - began_ms, now_ms)
            self._completed += 1
            self._ended_ms, self._epoch = now_ms, epoch
            self.texts = {"leader-name": leader_url, "connect-protocol": protocol}

    def values(self) -> dict[str, float]:
        with self._lock:
            now_ms = self._now_ms()
            made = {
                "completed-rebalances-total": float(self._completed),
                "rebalancing": float(self._began_ms is not None),
                "epoch": float(self._epoch),
            }
            if self._ended_ms is not None:
                made["time-since-last-rebalance-ms"] = now_ms - self._ended_ms
            for name, value in (
                ("rebalance-avg-time-ms", self._times.average(now_ms)),
                ("rebalance-max-time-ms", self._times.largest(now_ms)),
            ):
                if value is not None:
                    made[name] = value
            return made


class WorkerMetrics:
    """`rebalances` of a worker of a group; None for one alone."""

    def __init__(self, now_ms: Callable[[], float], windows: Windows | None = None) -> None:
        self.windows = windows or Windows()
        self.now_ms = now_ms
        self.connectors = Startups(now_ms, self.windows)
        self.tasks = Startups(now_ms, self.windows)
        self.rebalances: Rebalances | None = None

    def in_group(self) -> Rebalances:
        self.rebalances = Rebalances(self.now_ms, self.windows)
        return self.rebalances
