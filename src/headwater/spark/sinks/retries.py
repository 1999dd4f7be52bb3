"""A database that is gone for a while: tried again until a deadline, then its error is raised.

Pure but for the clock and the sleep, which come in. What is tried must be safe to repeat: the caller sees to that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

T = TypeVar("T")

_FIRST_WAIT_S: Final = 0.05
_LONGEST_WAIT_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class RetryUntilDeadline:
    """`now` and `sleep` in seconds; `passing` says whether an error may go away by itself."""

    limit_s: float
    now: Callable[[], float]
    sleep: Callable[[float], None]
    passing: Callable[[Exception], bool]

    def call(self, action: Callable[[], T]) -> T:
        deadline = self.now() + self.limit_s
        wait_s = _FIRST_WAIT_S
        while True:
            try:
                return action()
            except Exception as error:
                left_s = deadline - self.now()
                if left_s <= 0 or not self.passing(error):
                    raise
            self.sleep(min(wait_s, left_s))
            wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
