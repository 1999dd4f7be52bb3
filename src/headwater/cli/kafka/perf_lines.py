"""What the performance tools count, and the lines that they say it in. Pure: times come in, in milliseconds.

Latencies are kept of at most half a million records, evenly spread over the run.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from headwater.cli.kafka.java_text import number, ratio

_SAMPLES_MAX: Final = 500_000
_MIB: Final = 1024 * 1024
_PERCENTILES: Final = ((0.5, "50th"), (0.95, "95th"), (0.99, "99th"), (0.999, "99.9th"))


class SendStatistics:
    """Of records that were acknowledged. `is_steady`: those after the warm-up; `is_quiet`: no lines before the last."""

    def __init__(self, expected: int, now_ms: int, interval_ms: int, *, is_steady: bool = False) -> None:
        self.is_quiet = False
        self._is_steady = is_steady
        self._interval_ms = interval_ms
        self._started_ms = now_ms
        self._every = max(1, expected // _SAMPLES_MAX)
        self._latencies: list[int] = []
        self._count = 0
        self._size_bytes = 0
        self._latency_sum = 0
        self._latency_max = 0
        self._begin_window(now_ms)

    def _begin_window(self, now_ms: int) -> None:
        self._window_ms = now_ms
        self._window_count = 0
        self._window_bytes = 0
        self._window_latency_sum = 0
        self._window_latency_max = 0

    def record(self, latency_ms: int, size_bytes: int, now_ms: int, count: int = 1) -> str:
        """Counts one, or some that are alike; gives what is to be said now, which is mostly nothing."""
        sampled = -(-(self._count + count) // self._every) - -(-self._count // self._every)
        self._latencies.extend([latency_ms] * sampled)
        self._count += count
        self._size_bytes += size_bytes * count
        self._latency_sum += latency_ms * count
        self._window_count += count
        self._window_bytes += size_bytes * count
        self._window_latency_sum += latency_ms * count
        if latency_ms > self._window_latency_max:
            self._window_latency_max = latency_ms
            if latency_ms > self._latency_max:
                self._latency_max = latency_ms
        if now_ms - self._window_ms < self._interval_ms:
            return ""
        said = "In steady state.\n" if self._is_steady and self._count == self._window_count else ""
        said += "" if self.is_quiet else self._window_line(now_ms)
        self._begin_window(now_ms)
        return said

    def _window_line(self, now_ms: int) -> str:
        count, seconds = self._window_count, (now_ms - self._window_ms) / 1000
        return (
            f"{count} records sent, {number(ratio(count, seconds), 1)} records/sec "
            f"({number(ratio(self._window_bytes / _MIB, seconds), 2)} MB/sec), "
            f"{number(ratio(self._window_latency_sum, count), 1)} ms avg latency, "
            f"{number(self._window_latency_max, 1)} ms max latency.\n"
        )

    def total(self, now_ms: int) -> str:
        count, seconds = self._count, (now_ms - self._started_ms) / 1000
        ordered = sorted(self._latencies)
        percentiles = ", ".join(
            f"{ordered[int(part * len(ordered))] if ordered else 0} ms {name}" for part, name in _PERCENTILES
        )
        return (
            f"{count}{' steady state' if self._is_steady else ''} records sent, "
            f"{number(ratio(count, seconds), 6)} records/sec "
            f"({number(ratio(self._size_bytes / _MIB, seconds), 2)} MB/sec), "
            f"{number(ratio(self._latency_sum, count), 2)} ms avg latency, "
            f"{number(self._latency_max, 2)} ms max latency, {percentiles}.\n"
        )


class Stretch(NamedTuple):
    """What was read in some time, and how much of that time went into joining the group."""

    size_bytes: int
    record_count: int
    taken_ms: int
    joining_ms: int

    def rates(self) -> tuple[str, str]:
        """MB and records per second."""
        return _per_second(self.size_bytes, self.taken_ms), _per_second(self.record_count * _MIB, self.taken_ms)

    def tail(self) -> str:
        """The columns about fetching alone."""
        fetching_ms = self.taken_ms - self.joining_ms
        size, count = _per_second(self.size_bytes, fetching_ms), _per_second(self.record_count * _MIB, fetching_ms)
        return f"{self.joining_ms}, {fetching_ms}, {size}, {count}"


def _per_second(amount_bytes: int, taken_ms: int) -> str:
    return number(ratio(amount_bytes / _MIB, taken_ms / 1000), 4)


def read_header(*, detailed: bool) -> str:
    first = "time, threadId" if detailed else "start.time, end.time"
    return (
        f"{first}, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
        "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec\n"
    )


def read_line(times: str, total_bytes: int, total_count: int, stretch: Stretch) -> str:
    """`times` fills the first two columns. Totals are of the whole run, rates of the stretch."""
    size_rate, count_rate = stretch.rates()
    size = number(total_bytes / _MIB, 4)
    return f"{times}, {size}, {size_rate}, {total_count}, {count_rate}, {stretch.tail()}\n"


class JoinTime:
    """How long a consumer had no partitions because its group was making up its mind. Owned by one run."""

    def __init__(self, now_ms: int) -> None:
        self.total_ms = 0
        self._since_ms = now_ms
        self._counted_ms = 0
        self._assigned: set[object] = set()

    def assigned(self, partitions: Sequence[object], now_ms: int) -> None:
        if not self._assigned:
            self.total_ms += now_ms - self._since_ms
        self._assigned.update(partitions)

    def revoked(self, partitions: Sequence[object], now_ms: int) -> None:
        self._assigned.difference_update(partitions)
        if not self._assigned:
            self._since_ms = now_ms

    def since_last_asked(self) -> int:
        found, self._counted_ms = self.total_ms - self._counted_ms, self.total_ms
        return found


def metric_lines(group: str, client_id: str, metrics: Mapping[str, float]) -> str:
    """The table of --print-metrics."""
    names = {name: f"{group}:{name}:{{client-id={client_id}}}" for name in sorted(metrics)}
    width = max(map(len, names.values()), default=0)
    rows = "".join(f"{full:<{width}} : {number(metrics[name], 3)}\n" for name, full in names.items())
    return f"\n{'Metric Name':<{width}}   Value\n{rows}"
