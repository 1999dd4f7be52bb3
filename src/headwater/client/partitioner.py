"""Which partition a record goes to: the same choice that Kafka's Java client makes, so that keys meet.

With a key: murmur2 of its bytes, sign bit dropped, modulo the number of partitions. Without: `Sticky` stays with one
partition until a batch is full, `RoundRobin` takes them in turn.

One of the user's own (`partitioner.class` of a producer) is a `CustomPartitioner`, or a function with the same
parameters.
"""

import random
from collections.abc import Callable
from typing import Any, Protocol

from headwater.records.codec import murmur2 as murmur2


class CustomPartitioner(Protocol):
    def partition(
        self,
        topic: str,
        key_bytes: bytes | None,
        key: Any,
        value_bytes: bytes | None,
        value: Any,
        partition_count: int,
        /,
    ) -> int:
        """From 0 to partition_count - 1. Called for each record without a given partition, by the thread that sends
        it.
        """


def partition_for_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class RoundRobin:
    """Takes the available partitions in turn. Owned by one producer."""

    def __init__(self) -> None:
        self._next = 0

    def choose(self, available: list[int]) -> int:
        partition = available[self._next % len(available)]
        self._next += 1
        return partition

    def batch_done(self) -> None:
        """A batch was sent: nothing to this one."""


class Sticky:
    """Stays with a partition until the batch for it is sent, so that batches fill. Owned by one producer."""

    def __init__(self, below: Callable[[int], int] = random.randrange) -> None:
        self._below = below
        self._current = -1
        self._full = True

    def choose(self, available: list[int]) -> int:
        if self._full or self._current not in available:
            others = [partition for partition in available if partition != self._current] or available
            self._current = others[self._below(len(others))]
            self._full = False
        return self._current

    def batch_done(self) -> None:
        """The next record without a key goes to another partition."""
        self._full = True


Partitioner = RoundRobin | Sticky
