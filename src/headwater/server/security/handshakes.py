"""TLS handshakes in helper threads: a step costs a millisecond or two of OpenSSL's time, which the loop does not have.

OpenSSL lets go of the GIL while it computes, so the loop goes on beside it. At most `threads_max` steps are under way at
once, however many connections wait, and addresses take turns: who connects by the thousand from one address waits behind
himself, and a client from elsewhere waits for one step of each address at most.

`Turns` decides who is next and knows no threads. Both are owned by the server's loop; the threads take a step, and post
what came of it.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Final, NamedTuple

_THREADS_MAX: Final = 4


class Step(NamedTuple):
    """`take` runs in a thread and says whether the handshake is over; `done` hears of it on the loop."""

    take: Callable[[], bool]
    done: Callable[[bool, Exception | None], None]


class Turns:
    """Steps that wait, of each address in the order in which they came; addresses in a circle."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Step]] = {}  # no address without a step; the first address is next

    def add(self, address: str, step: Step) -> None:
        self._waiting.setdefault(address, deque()).append(step)

    def take(self) -> Step | None:
        address = next(iter(self._waiting), None)
        if address is None:
            return None
        steps = self._waiting.pop(address)
        step = steps.popleft()
        if steps:
            self._waiting[address] = steps  # behind the others
        return step

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))


class Handshakes:
    """`post` brings a function to the loop's thread. Threads are started when they are needed."""

    def __init__(self, post: Callable[[Callable[[], None]], None], threads_max: int | None = None) -> None:
        self._post = post
        self._threads_max = threads_max or threads_for(os.cpu_count() or 1)
        self._threads: list[threading.Thread] = []
        self._turns = Turns()
        self._queue: SimpleQueue[Step | None] = SimpleQueue()
        self._is_closed = False
        self._under_way: list[Step] = []

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    @property
    def waiting(self) -> int:
        return len(self._turns)

    def submit(self, address: str, step: Step) -> None:
        self._turns.add(address, step)
        self._begin()

    def close(self) -> None:
        """When the connections are closed. The steps that are under way wait for nothing, and end; those that wait are
        not taken. All are given back, so that their sockets are closed too.
        """
        self._is_closed = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        left, self._under_way = self._under_way, []
        while (step := self._turns.take()) is not None:
            left.append(step)
        for step in left:
            step.done(False, None)

    def _begin(self) -> None:
        while self.under_way < self._threads_max:
            step = self._turns.take()
            if step is None:
                return
            self._under_way.append(step)
            if len(self._threads) < self.under_way:
                name = f"headwater-handshakes-{len(self._threads)}"
                self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
                self._threads[-1].start()
            self._queue.put(step)

    def _run(self) -> None:
        while (step := self._queue.get()) is not None:
            is_over, problem = False, None
            try:
                is_over = step.take()
            except Exception as caught:  # noqa: BLE001  # whatever it is, its connection hears of it
                problem = caught
            self._post(partial(self._done, step, is_over, problem))

    def _done(self, step: Step, is_over: bool, problem: Exception | None) -> None:
        if self._is_closed:
            return
        self._under_way.remove(step)
        try:
            step.done(is_over, problem)
        finally:
            self._begin()


def threads_for(cpu_count: int) -> int:
    """One core is the loop's."""
    return max(1, min(_THREADS_MAX, cpu_count - 1))
