"""Counts and latencies, kept as plain integers by their owner's thread; the server turns them into text."""

from bisect import bisect_left
from collections import defaultdict
from typing import Final

# Upper bounds in nanoseconds; one more bucket holds the rest.
LATENCY_BOUNDS_NS: Final = tuple(
    int(bound * 1_000) for bound in (10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000, 1_000_000)
)


class ApiMetrics:
    """How often an API was asked and how long it took from the frame to the answer, waiting included."""

    __slots__ = ("buckets", "count", "total_ns")

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0
        self.buckets = [0] * (len(LATENCY_BOUNDS_NS) + 1)

    def observe(self, taken_ns: int) -> None:
        self.count += 1
        self.total_ns += taken_ns
        self.buckets[bisect_left(LATENCY_BOUNDS_NS, taken_ns)] += 1


class BrokerMetrics:
    __slots__ = ("apis", "connections_refused", "connections_total", "requests_refused", "started_ms")

    def __init__(self) -> None:
        self.apis: defaultdict[int, ApiMetrics] = defaultdict(ApiMetrics)
        self.connections_total = 0
        self.connections_refused = 0
        self.requests_refused = 0
        self.started_ms = 0
