"""Rates as Apache Kafka measures them for quotas. Pure: what happened and the time come in.

A `Rate` keeps samples of `window_ms` each. A sample begins with the first event behind the last one's end, so idle time
costs nothing and samples need not touch. What a sample holds counts until `samples` windows after its last event. The
rate is the sum of what counts over the time since the oldest sample began, but never over less than `samples - 1`
windows: one request at the start is no burst.

`Throttles` are the pauses that a quota has cost:
their average over the same windows, as Apache Kafka's `throttle-time`.

A `TokenBucket` holds `samples` windows' worth of tokens at most. It may be overdrawn by one event, and then has to fill
up to nothing.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

_MS_PER_S: Final = 1000


class Window(NamedTuple):
    samples: int = 11  # quota.window.num
    window_ms: int = 1000  # quota.window.size.seconds

    @property
    def counts_ms(self) -> int:
        """For how long something counts."""
        return self.samples * self.window_ms


@dataclass(slots=True)
class _Sample:
    began_ms: int
    last_ms: int
    value: float = 0.0

    def begin_anew(self, now_ms: int) -> None:
        self.began_ms = self.last_ms = now_ms
        self.value = 0.0


class Throttles:
    """Owned by the rate that they are for."""

    __slots__ = ("_count", "_sum_ms", "total_ms")

    def __init__(self, window: Window) -> None:
        self._sum_ms, self._count = Rate(window), Rate(window)
        self.total_ms = 0

    def record(self, throttle_ms: int, now_ms: int) -> None:
        self.total_ms += throttle_ms
        self._sum_ms.record(throttle_ms, now_ms)
        self._count.record(1, now_ms)

    def average_ms(self, now_ms: int) -> float:
        count = self._count.per_second(now_ms)
        return self._sum_ms.per_second(now_ms) / count if count else 0.0


class Rate:
    """Owned by whoever it is a rate of. Times never go backwards."""

    __slots__ = ("_current", "_samples", "_window", "throttles")

    def __init__(self, window: Window) -> None:
        self._window = window
        self.throttles: Throttles | None = None  # before the first one
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Below 0 takes back what was recorded too much."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms, now_ms))
        sample = samples[self._current]
        if now_ms - sample.began_ms >= self._window.window_ms:
            sample = self._next(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        over_ms = self.measured_ms(now_ms)
        return sum(sample.value for sample in self._samples) * _MS_PER_S / over_ms

    def measured_ms(self, now_ms: int) -> int:
        """The time over which the rate is measured."""
        window = self._window
        for sample in self._samples:
            if now_ms - sample.last_ms >= window.counts_ms:
                sample.begin_anew(now_ms)
        elapsed_ms = now_ms - min((sample.began_ms for sample in self._samples), default=now_ms)
        missing = window.samples - 1 - elapsed_ms // window.window_ms
        return max(elapsed_ms + max(missing, 0) * window.window_ms, 1)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long nothing may happen until the rate, measured over so much more time, is within its bound;
        0 if it is.
        """
        measured = self.per_second(now_ms)
        if measured <= bound:
            return 0
        return _rounded((measured - bound) / bound * self.measured_ms(now_ms))

    def throttled(self, throttle_ms: int, now_ms: int) -> None:
        """Somebody was told to wait for so long because of it."""
        if self.throttles is None:
            self.throttles = Throttles(self._window)
        self.throttles.record(throttle_ms, now_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing of it counts any more."""
        return not any(s.value and now_ms - s.last_ms < self._window.counts_ms for s in self._samples)

    def _next(self, now_ms: int) -> _Sample:
        # One more than count: the oldest may reach into the time that is measured.
        self._current = (self._current + 1) % (self._window.samples + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms, now_ms))
        else:
            self._samples[self._current].begin_anew(now_ms)
        return self._samples[self._current]


class TokenBucket:
    """Full at first. Owned by whoever it holds tokens for."""

    __slots__ = ("_filled_ms", "_tokens", "_window", "throttles")

    def __init__(self, window: Window) -> None:
        self._window = window
        self.throttles: Throttles | None = None  # before the first one
        self._tokens = 0.0
        self._filled_ms: int | None = None

    def take(self, count: float, rate: float, now_ms: int) -> None:
        self._fill(rate, now_ms)
        self._tokens -= count

    def throttle_ms(self, rate: float, now_ms: int) -> int:
        """How long until it is not overdrawn; 0 if it is not."""
        self._fill(rate, now_ms)
        return 0 if self._tokens >= 0 else _rounded(-self._tokens / rate * _MS_PER_S)

    def throttled(self, throttle_ms: int, now_ms: int) -> None:
        """Somebody was told to wait for so long because of it."""
        if self.throttles is None:
            self.throttles = Throttles(self._window)
        self.throttles.record(throttle_ms, now_ms)

    def is_idle(self, now_ms: int) -> bool:
        """Whether nobody took anything for so long that it is full, whatever its rate, unless it was overdrawn by very
        much.
        """
        return self._filled_ms is None or (self._tokens >= 0 and now_ms - self._filled_ms >= self._window.counts_ms)

    def _fill(self, rate: float, now_ms: int) -> None:
        most = rate * self._window.counts_ms / _MS_PER_S
        if self._filled_ms is None:
            self._tokens = most
        else:
            self._tokens = min(most, self._tokens + rate * (now_ms - self._filled_ms) / _MS_PER_S)
        self._filled_ms = now_ms


def _rounded(milliseconds: float) -> int:
    """Half goes up, as Java rounds; what fits into an answer."""
    return min(int(milliseconds + 0.5), (1 << 31) - 1)
