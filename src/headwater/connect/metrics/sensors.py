"""Rates, averages and extremes over a sliding time, with the rules of Kafka's own metrics. Pure: time comes in.

Values go into samples that follow each other, each as long as `window_ms`. What is asked for is worked out of the last
`samples` of them: so with Kafka's defaults (two samples of 30 s) a rate is that of the last 30 to 60 seconds. A sample
that nobody wrote to for `samples * window_ms` counts no more.
"""

from dataclasses import dataclass
from math import inf
from typing import Final

DEFAULT_SAMPLES: Final = 2
DEFAULT_WINDOW_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class Windows:
    """`metrics.num.samples` and `metrics.sample.window.ms` of a worker."""

    samples: int = DEFAULT_SAMPLES
    window_ms: int = DEFAULT_WINDOW_MS


class _Sample:
    __slots__ = ("count", "largest", "last_ms", "smallest", "started_ms", "sum")

    def __init__(self, now_ms: float) -> None:
        self.begin(now_ms)

    def begin(self, now_ms: float) -> None:
        self.started_ms = self.last_ms = now_ms
        self.count, self.sum, self.largest, self.smallest = 0, 0.0, -inf, inf


class Sensor:
    """What one thing measured: `total` since the beginning, the others of the last samples; None: nothing was
    recorded then.
    """

    __slots__ = ("_current", "_samples", "_windows", "total")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: list[_Sample] = []
        self._current = 0
        self.total = 0.0

    def record(self, value: float, now_ms: float) -> None:
        sample = self._sample(now_ms)
        sample.count += 1
        sample.sum += value
        sample.last_ms = now_ms
        if value > sample.largest:
            sample.largest = value
        if value < sample.smallest:
            sample.smallest = value
        self.total += value

    def rate(self, now_ms: float) -> float:
        """Per second. In the first window it is taken as if a whole one had passed before, so that the first value is
        no burst.
        """
        if not self._samples:
            self._samples.append(_Sample(now_ms))  # time counts from the first question on
        found = self._measured(now_ms)
        window_ms = self._windows.window_ms
        elapsed_ms = now_ms - min(each.started_ms for each in found)
        missing = self._windows.samples - 1 - int(elapsed_ms // window_ms)
        elapsed_ms += max(0, missing) * window_ms
        return sum(each.sum for each in found) / max(elapsed_ms, 1) * 1000

    def average(self, now_ms: float) -> float | None:
        found = self._measured(now_ms)
        count = sum(each.count for each in found)
        return sum(each.sum for each in found) / count if count else None

    def largest(self, now_ms: float) -> float | None:
        found = max((each.largest for each in self._measured(now_ms)), default=-inf)
        return None if found == -inf else found

    def smallest(self, now_ms: float) -> float | None:
        found = min((each.smallest for each in self._measured(now_ms)), default=inf)
        return None if found == inf else found

    def _sample(self, now_ms: float) -> _Sample:
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        current = self._samples[self._current]
        if now_ms - current.started_ms < self._windows.window_ms:
            return current
        # Kafka keeps one sample more than it is told to: the one that is being filled
        self._current = (self._current + 1) % (self._windows.samples + 1)
        if self._current >= len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].begin(now_ms)
        return self._samples[self._current]

    def _measured(self, now_ms: float) -> list[_Sample]:
        """The samples, those that are too old begun anew."""
        limit_ms = self._windows.samples * self._windows.window_ms
        for each in self._samples:
            if now_ms - each.last_ms >= limit_ms:
                each.begin(now_ms)
        return self._samples
