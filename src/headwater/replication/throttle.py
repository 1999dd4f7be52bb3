"""How fast replicas are copied that are not in sync yet: a budget of bytes a second, of which one second's worth can be
saved up.

What comes is counted when it has come, so a budget may be overdrawn by one fetch. Then nothing is fetched until that is
made up for, and over time it comes to the rate. Owned by the broker's loop; there is one for what the broker leads, one
for what it follows.
"""

from collections.abc import Callable
from typing import Final

from headwater.base.ids import PartitionKey
from headwater.base.ports import Clock

UNLIMITED: Final = (1 << 63) - 1
_LOOK_AGAIN_MS: Final = 1_000  # the rate may be another one by then
_MS_PER_S: Final = 1_000


class Budget:
    """Pure: rate and time come in."""

    __slots__ = ("_at_ms", "_left_bytes")

    def __init__(self) -> None:
        self._left_bytes = 0.0
        self._at_ms: int | None = None

    def left_bytes(self, rate: int, now_ms: int) -> float:
        """Below 0 if more was taken than there was."""
        if self._at_ms is None:
            self._left_bytes = rate
        else:
            self._left_bytes = min(rate, self._left_bytes + rate * (now_ms - self._at_ms) / _MS_PER_S)
        self._at_ms = now_ms
        return self._left_bytes

    def take(self, size_bytes: int, rate: int, now_ms: int) -> None:
        self._left_bytes = self.left_bytes(rate, now_ms) - size_bytes


class Throttle:
    def __init__(self, clock: Clock, rate: Callable[[], int], covers: Callable[[PartitionKey], bool]) -> None:
        """`rate`: bytes a second, as it is now; `covers`: whether the partition is one of those that have to keep to
        it.
        """
        self._clock = clock
        self._rate = rate
        self._covers = covers
        self._budget = Budget()

    def rest_ms(self, key: PartitionKey) -> int:
        """How long the partition has to wait, at least 1, before that is asked again; 0 if it need not."""
        rate = self._rate()
        if rate == UNLIMITED or not self._covers(key):
            return 0
        left_bytes = self._budget.left_bytes(rate, self._clock.monotonic_ms())
        if left_bytes > 0:
            return 0
        if -left_bytes * _MS_PER_S >= _LOOK_AGAIN_MS * rate:
            return _LOOK_AGAIN_MS
        return int(-left_bytes * _MS_PER_S / rate) + 1

    def took(self, key: PartitionKey, size_bytes: int) -> None:
        rate = self._rate()
        if rate != UNLIMITED and self._covers(key):
            self._budget.take(size_bytes, rate, self._clock.monotonic_ms())
