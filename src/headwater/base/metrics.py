"""Counts and latencies, kept as plain integers by their owner's thread; the server turns them into text."""

from collections import defaultdict
from typing import Final

BUCKETS: Final = 40


class ApiMetrics:
    """How often an API was asked and how long it took from the frame to the answer, waiting included.

    Bucket n holds what took less than 2^n nanoseconds and not less than half of that; the last one holds the rest.
    """

    __slots__ = ("buckets", "count", "total_ns")

    def __init__(self) -> None:
        self.count = 0
        self.total_ns = 0
        self.buckets = [0] * BUCKETS

    def observe(self, taken_ns: int) -> None:
        self.count += 1
        self.total_ns += taken_ns
        bucket = taken_ns.bit_length()
        self.buckets[bucket if bucket < BUCKETS else BUCKETS - 1] += 1


class ControllerMetrics:
    """What the active controller counts; nothing on the other brokers."""

    __slots__ = ("is_active", "offline_partitions", "unclean_elections")

    def __init__(self) -> None:
        self.is_active = False
        self.offline_partitions = 0  # without a live leader
        self.unclean_elections = 0  # leaders from outside the in-sync replicas


class BrokerMetrics:
    __slots__ = ("apis", "connections_refused", "connections_total", "controller", "requests_refused", "started_ms")

    def __init__(self) -> None:
        self.apis: defaultdict[int, ApiMetrics] = defaultdict(ApiMetrics)
        self.connections_total = 0
        self.connections_refused = 0
        self.requests_refused = 0
        self.controller = ControllerMetrics()
        self.started_ms = 0
