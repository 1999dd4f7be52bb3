"""When to try again: exponential, bounded, with jitter, until a deadline. Pure: the caller brings clock and chance."""

from dataclasses import dataclass
from typing import Final

_EXPONENT_MAX: Final = 30  # 2**30 times the first delay is past any bound


@dataclass(frozen=True, slots=True)
class Backoff:
    """The defaults are those of Kafka's own clients (`retry.backoff.ms`, `retry.backoff.max.ms`)."""

    first_ms: int = 100
    max_ms: int = 1000
    jitter: float = 0.2

    def delay_ms(self, attempt: int, chance: float) -> int:
        """How long to wait after failure number `attempt` (from 0); `chance` is in [0, 1)."""
        base_ms = min(self.first_ms << min(attempt, _EXPONENT_MAX), self.max_ms)
        return max(0, round(base_ms * (1 + self.jitter * (2 * chance - 1))))
