"""Simulated time: none passes unless the test says so."""

from typing import Final

START_MS: Final = 1_700_000_000_000


class SimClock:
    """Wall clock and monotonic clock. The wall clock can be made to jump, the monotonic one cannot."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self._monotonic_ms = 0
        self._wall_ahead_ms = now_ms

    def now_ms(self) -> int:
        return self._monotonic_ms + self._wall_ahead_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, delay_ms: int) -> None:
        assert delay_ms >= 0, "time does not go back; see jump()"
        self._monotonic_ms += delay_ms

    def jump(self, delta_ms: int) -> None:
        """As when someone sets the machine's clock."""
        self._wall_ahead_ms += delta_ms
