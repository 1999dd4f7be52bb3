"""Faults one after the other, as the seed decides: when, of which kind, and whom they hit.

Each has a number and draws from a stream of its own (`chance`), so that leaving one out changes no other. Owned by the
world's injector.
"""

import random
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.sim.stage import Stage


class Strikes:
    def __init__(self, stage: "Stage", kinds: Mapping[Callable[[], None], int]) -> None:
        """`kinds`: what may be done, and how often against the others; 0 is never."""
        self._stage = stage
        self._kinds = list(kinds)
        self._weights = list(kinds.values())
        self._number = 0
        self.is_over = False
        self.struck: list[int] = []  # the numbers of those that came
        self.chance = random.Random()

    def start(self) -> None:
        if self._stage.faults.interval_ms and any(self._weights):
            self._plan()

    def later(self, between_ms: tuple[int, int], function: Callable[[], None]) -> None:
        self._stage.heap.call_later(self.chance.randint(*between_ms), function)

    def _plan(self) -> None:
        self._number += 1
        number, interval_ms = self._number, self._stage.faults.interval_ms
        chance = self._stage.stream(f"fault {number}")
        self._stage.heap.call_later(
            chance.randint(interval_ms // 2, interval_ms * 3 // 2), lambda: self._strike(number, chance)
        )

    def _strike(self, number: int, chance: random.Random) -> None:
        if self.is_over:
            return
        self._plan()
        fault = chance.choices(self._kinds, self._weights)[0]
        if number not in self._stage.less.faults:
            self.chance = chance
            self.struck.append(number)
            fault()
