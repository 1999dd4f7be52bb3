"""How long a run of records is."""

from typing import Final

RUN: Final = 8_000  # records of a lane at once, where nobody says otherwise


class Runs:
    """How many records a lane may take at once, so that a run stays short: it grows and shrinks with the time that they
    took.
    """

    def __init__(self, most: int = 64, wanted_s: float = 0.01) -> None:
        self.most = most
        self._wanted_s = wanted_s

    def took(self, seconds: float) -> None:
        if seconds < self._wanted_s:
            self.most = min(self.most * 2, RUN)
        elif seconds > 4 * self._wanted_s:
            self.most = max(self.most // 4, 1)
