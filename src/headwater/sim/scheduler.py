"""The Scheduler and Random ports in a simulated world: one heap of events, one seed, no thread and no wall clock."""

import random
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from headwater.sim.clock import SimClock


class SimTimer:
    __slots__ = ("cancelled", "function")

    def __init__(self, function: Callable[[], None]) -> None:
        self.function = function
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class SimRandom:
    """The Random port, from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def below(self, limit: int) -> int:
        return self._random.randrange(limit)


class SimScheduler:
    """Events run in the order of their time; of two at the same time, the one that was scheduled first."""

    def __init__(self, clock: SimClock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, SimTimer]] = []
        self._count = 0

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> SimTimer:
        timer = SimTimer(function)
        self._count += 1
        heappush(self._heap, (self._clock.monotonic_ms() + delay_ms, self._count, timer))
        return timer

    def post(self, function: Callable[[], None]) -> None:
        self.call_later(0, function)

    def call_soon(self, function: Callable[[], None]) -> None:
        self.call_later(0, function)

    def compute(
        self, function: Callable[..., Any], *arguments: Any, done: Callable[[Any, BaseException | None], None]
    ) -> None:
        def run() -> None:
            try:
                result = function(*arguments)
            except Exception as problem:  # noqa: BLE001 - a worker process reports whatever happened in it
                done(None, problem)
            else:
                done(result, None)

        self.post(run)

    def due_in_ms(self) -> int | None:
        """How long until the next event; None if there is none."""
        while self._heap and self._heap[0][2].cancelled:
            heappop(self._heap)
        return max(0, self._heap[0][0] - self._clock.monotonic_ms()) if self._heap else None

    def run_one(self) -> None:
        """Runs the next event, which must be due."""
        assert self.due_in_ms() == 0
        heappop(self._heap)[2].function()

    def run_next(self) -> bool:
        """Lets time pass until the next event, and runs it; whether there was one."""
        heap = self._heap
        while heap:
            due_ms, _, timer = heappop(heap)
            if not timer.cancelled:
                clock = self._clock
                late_ms = due_ms - clock.monotonic_ms()
                if late_ms > 0:
                    clock.advance(late_ms)
                timer.function()
                return True
        return False

    def run_due(self) -> int:
        """Runs what is due now; how many events that were."""
        ran = 0
        while self.due_in_ms() == 0:
            self.run_one()
            ran += 1
        return ran


class ProcessScheduler(SimScheduler):
    """The Scheduler port of one process on the world's heap: when it dies, all that it had planned dies with it.

    While it is paused, what falls due waits; then all of it comes, in its order, each as an event of its own. `on_run`
    is called before each of them.
    """

    def __init__(self, clock: SimClock, world: SimScheduler, on_run: Callable[[], None] = lambda: None) -> None:
        super().__init__(clock)
        self._world = world
        self._on_run = on_run
        self._alive = True
        self._is_paused = False
        self._held: deque[tuple[SimTimer | None, Callable[[], None]]] = deque()

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> SimTimer:
        timer = self._world.call_later(delay_ms, lambda: self._run(timer, function))
        return timer

    def die(self) -> None:
        self._alive = False
        self._held.clear()

    def enter(self, function: Callable[[], None]) -> None:
        """Something comes from outside: it is handled now, or when the process runs again."""
        self._run(None, function)

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        if self._is_paused:
            self._world.call_later(0, self._catch_up)

    def _catch_up(self) -> None:
        if not self._held:
            self._is_paused = False
            return
        timer, function = self._held.popleft()
        self._world.call_later(0, self._catch_up)
        if timer is None or not timer.cancelled:
            self._on_run()
            function()

    def _run(self, timer: SimTimer | None, function: Callable[[], None]) -> None:
        if self._is_paused:
            self._held.append((timer, function))
        elif self._alive:
            self._on_run()
            function()
