"""Threads that drive a kernel: the synchronous face's engine.

Whoever waits for a result turns the crank meanwhile: its thread polls the sockets and runs the tasks. So an answer
reaches the thread that asked for it without a detour through another one. While several threads wait, one polls, the
others sleep on a condition; when the poller has what it wanted, the next takes over. A caretaker thread drives while
nobody waits, because heartbeats, lingering batches and retries do not wait for a caller.

Threads that compute in Python starve each other (a thread that wants the interpreter waits 5 ms for it), so the
caretaker keeps out of the way: with `patient` it looks at sockets only every tick while callers come and go by
themselves (a consumer between two polls); without, it waits on the sockets itself (a producer, whose answers nobody
waits for).

The lock is held whenever kernel state is touched, never while polling.
"""

import logging
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from headwater.client.reactor.kernel import Cancelled, Closed, Kernel, Task, TimedOut
from headwater.client.reactor.network import Network

T = TypeVar("T")
logger = logging.getLogger("headwater.client")

_TICK: Final = 0.05
_IDLE: Final = 60.0
_FAREWELL: Final = 10.0  # for threads that are told of the end; they need a moment of the interpreter


class Engine:
    """Owns the kernel, the network, the lock and the caretaker. `close` ends who waits, and joins the caretaker."""

    def __init__(self, network: Network, *, patient: bool = False, name: str = "headwater-client") -> None:
        self.network = network
        self.kernel = Kernel(network, time.monotonic)
        self._condition = threading.Condition(threading.RLock())
        self._polling = False
        self._polls_for: Task[Any] | None = None  # whose end ends the poller's wait, while a caller polls
        self._poll_ends_at = 0.0
        self._callers: dict[Task[Any], int] = {}  # what threads wait for, each with the thread that does
        self._closed = False
        self._patient = patient
        self._name = name
        self._caretaker: threading.Thread | None = None

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """The coroutine's result, driven by this thread. After `timeout` seconds it is cancelled: `TimedOut`.

        `Closed` if the engine is closed by then, or by another thread meanwhile."""
        with self._condition:
            if self._closed:
                coroutine.close()
                raise Closed
            self._start_caretaker()
            task = self.kernel.spawn(coroutine)
            self._callers[task] = threading.get_ident()
            try:
                self._drive(task, None if timeout is None else time.monotonic() + timeout)
            finally:
                del self._callers[task]
                if not task.done:
                    task.cancel()
                    self.kernel.run_ready()
                self._hurry()
                self._condition.notify_all()
        if isinstance(task.error, Cancelled):
            raise Closed if self._closed else TimedOut
        return task.result()

    def submit(self, action: Callable[[], T]) -> T:
        """Does something short with the kernel's state, and what becomes possible by it, in this thread."""
        with self._condition:
            self._start_caretaker()
            result = action()
            self.kernel.run_ready()
            self._hurry()
            if self._callers:  # one of them may sleep while another polls, and have what it waits for now
                self._condition.notify_all()
            return result

    def advance(self, action: Callable[[], object] | None = None, patience: float = 0.0) -> bool:
        """Serves the sockets without waiting, `action` first: for callers with time to spare.

        False: somebody else has had the kernel for `patience` seconds, and nothing was done. A little patience pays:
        who has the kernel most likely waits for the interpreter, which the caller gives away by waiting.
        """
        if not self._condition.acquire(timeout=patience) if patience else not self._condition.acquire(blocking=False):
            return False
        try:
            if not self._closed:
                if action is not None:
                    action()
                self.kernel.step(0.0)
                self._hurry()
                self._condition.notify_all()
        finally:
            self._condition.release()
        return True

    @property
    def owned(self) -> bool:
        """Whether the calling thread has the kernel: it is inside something that the kernel called."""
        return self._condition._is_owned()  # type: ignore[attr-defined,no-any-return]

    @property
    def lock(self) -> threading.Condition:
        return self._condition

    def interrupted(self) -> None:
        """Ctrl-C may come after the lock was taken and before the block that gives it back. Only from outside of all
        those.
        """
        while self.owned:
            self._condition.release()

    def close(self) -> None:
        self.interrupted()
        with self._condition:
            if self._closed:
                return
            self._closed = True
            self._end_callers()
            self._condition.notify_all()
            self.network.wake()
        if self._caretaker is not None and self._caretaker is not threading.current_thread():
            self._caretaker.join()
        self.network.close()

    def _end_callers(self) -> None:
        """What other threads wait for will not come any more: they hear so, and are gone before the sockets are."""
        self.kernel.run_ready()  # some may have what they wait for
        me = threading.get_ident()  # which Ctrl-C may have kept from signing off
        for task, thread in list(self._callers.items()):
            if thread != me:
                task.cancel()
        self.kernel.run_ready()
        give_up_at = time.monotonic() + _FAREWELL
        while any(thread != me for thread in self._callers.values()) and time.monotonic() < give_up_at:
            self._condition.notify_all()
            self.network.wake()
            self._condition.wait(_TICK)

    # Driving, with the lock held

    def _drive(self, task: "Task[Any]", deadline: float | None) -> None:
        self.kernel.run_ready()
        while not task.done:
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                return
            if self._polling:
                self._hurry()
                self._condition.wait(remaining)
            else:
                self._polls_for = task
                try:
                    self._poll(remaining)
                finally:
                    self._polls_for = None
        return

    def _poll(self, limit: float | None) -> None:
        """One turn as the poller. The lock is free while it waits."""
        planned = self.kernel.timeout()
        if limit is None or (planned is not None and planned < limit):
            limit = planned
        self._poll_ends_at = float("inf") if limit is None else time.monotonic() + limit
        self._polling = True  # no call from here to `try`: Ctrl-C comes after calls
        try:
            self._condition.release()
            events = self.network.poll(limit)
        finally:
            self._condition.acquire()
            self._polling = False
        if events:
            self.network.dispatch(events)
        self.kernel.run_ready()
        self._condition.notify_all()

    def _hurry(self) -> None:
        """Wakes the poller when something is due before its wait ends, or what it waits for is there already."""
        if self._polling:
            planned = 0.0 if self._polls_for is not None and self._polls_for.done else self.kernel.timeout()
            if planned is not None and time.monotonic() + planned < self._poll_ends_at:
                self.network.wake()
        elif self._caretaker is not None:
            self._condition.notify_all()

    def _start_caretaker(self) -> None:
        if self._caretaker is None:
            self._caretaker = threading.Thread(target=self._take_care, name=self._name, daemon=True)
            self._caretaker.start()

    def _take_care(self) -> None:
        with self._condition:
            while not self._closed:
                try:
                    self._care()
                except Exception:
                    logger.exception("Something in the background failed; the rest goes on")
                    self._condition.wait(_TICK)  # it may fail again at once

    def _care(self) -> None:
        if self._polling or self._callers:
            self._condition.wait(_IDLE)
        elif self._patient:
            planned = self.kernel.timeout()
            self._condition.wait(_TICK if planned is None else min(planned, _TICK))
            if not self._polling and not self._callers and not self._closed:
                self.kernel.step(0.0)
        else:
            self._poll(_IDLE)
