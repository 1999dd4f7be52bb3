"""TLS handshakes in helper threads: a step costs a millisecond or two of OpenSSL's time, which the loop does not have.

OpenSSL lets go of the GIL while it computes, so the loop goes on beside it. At most `threads_max` steps are under way
at once, however many connections wait, and addresses take turns: who connects by the thousand from one address waits
behind himself, and a client from elsewhere waits for one step of each address at most. A socket is lent to a thread
when its turn has come and not before, so that a connection which ends while it waits withdraws its step and closes its
socket at once.

`Turns` decides who is next and knows no threads. Both are owned by the server's loop; the threads take a step, and post
what came of it.
"""

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Final

_THREADS_MAX: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """`lend` is called on the loop when its turn has come; `take` runs in a thread and says whether the handshake is
    over; `done` hears of it on the loop, also if the step could not be taken.
    """

    lend: Callable[[], None]
    take: Callable[[], bool]
    done: Callable[[bool, Exception | None], None]


class Turns:
    """Steps that wait, of each address in the order in which they came; addresses in a circle."""

    def __init__(self) -> None:
        self._waiting: dict[str, OrderedDict[Step, None]] = {}  # no address without a step; the first address is next
        self._count = 0

    def add(self, address: str, step: Step) -> None:
        self._waiting.setdefault(address, OrderedDict())[step] = None
        self._count += 1

    def take(self) -> Step | None:
        address = next(iter(self._waiting), None)
        if address is None:
            return None
        steps = self._waiting.pop(address)
        step, _ = steps.popitem(last=False)
        if steps:
            self._waiting[address] = steps  # behind the others
        self._count -= 1
        return step

    def withdraw(self, address: str, step: Step) -> None:
        """Nothing, where it does not wait any more."""
        steps = self._waiting.get(address)
        if steps is None or step not in steps:
            return
        del steps[step]
        if not steps:
            del self._waiting[address]
        self._count -= 1

    def __len__(self) -> int:
        return self._count


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

    def withdraw(self, address: str, step: Step) -> None:
        """Its connection ends while it waits: the step is not taken, and `done` hears nothing."""
        self._turns.withdraw(address, step)

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
        while self.under_way < self._threads_max and len(self._turns):
            problem = self._start_thread() if len(self._threads) <= self.under_way else None
            if problem is not None and self._threads:
                return  # those that are busy take the next steps
            step = self._turns.take()
            assert step is not None
            if problem is not None:
                step.done(False, problem)
                continue
            step.lend()
            self._under_way.append(step)
            self._queue.put(step)

    def _start_thread(self) -> OSError | None:
        thread = threading.Thread(target=self._run, name=f"headwater-handshakes-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except (RuntimeError, MemoryError) as problem:  # the system has no thread for us
            return OSError(errno.EAGAIN, f"no thread can be started ({problem})")
        self._threads.append(thread)
        return None

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
