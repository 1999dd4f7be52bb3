"""Coroutines on a clock and a poller: what both faces of the client, and its tests, run on.

The client's work is written once, as coroutines that await futures of this kernel: an answer of a broker, a pause, the
end of another task. Who turns the crank is not their business: a thread that waits for a result (`engine`), an asyncio
loop (`aio`), or a test that moves a clock of its own. Nothing here blocks except `poll`, and that waits in the poller.

A kernel has one owner at a time (`engine` has the lock). Times are monotonic, in seconds, and come from `clock`.
"""

import heapq
import itertools
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from headwater.base.errors import UserError

T = TypeVar("T")

_SWEEP_AT: Final = 256


class Cancelled(BaseException):
    """Thrown into a task that is told to stop. It may clean up, and is then done."""


class TimedOut(Exception):
    """What `Kernel.within` waited for did not come in time."""


class Closed(UserError):
    """What drives the kernel was closed before the result was there."""

    def __init__(self) -> None:
        super().__init__("The client cannot be used any more", "it is closed")


class Poller(Protocol):
    """Waits for I/O and tells it to whoever registered for it."""

    def poll(self, timeout: float | None) -> list[Any]:
        """Waits up to `timeout` seconds (None: for ever). May be called while another thread owns the kernel."""

    def dispatch(self, events: list[Any]) -> None:
        """Tells the events to their owners. Only the owner of the kernel calls it."""

    def wake(self) -> None:
        """Ends a `poll` under way, from any thread."""


class Future(Generic[T]):
    """A value that comes later, once. Awaited by any number of tasks."""

    __slots__ = ("_callbacks", "_done", "_error", "_value")

    def __init__(self) -> None:
        self._done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], object]] = []

    @property
    def done(self) -> bool:
        return self._done

    @property
    def error(self) -> BaseException | None:
        return self._error

    def result(self) -> T:
        assert self._done, "the future has no value yet"
        if self._error is not None:
            raise self._error
        return cast(T, self._value)

    def resolve(self, value: T) -> None:
        """The value is there. A second one is an error of ours, except after a failure that came first."""
        if not self._done:
            self._value = value
            self._finish()

    def fail(self, error: BaseException) -> None:
        if not self._done:
            self._error = error
            self._finish()

    def when_done(self, callback: "Callable[[Future[T]], object]") -> None:
        if self._done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def forget(self, callback: "Callable[[Future[T]], object]") -> None:
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    def _finish(self) -> None:
        self._done = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def __await__(self) -> Generator[Any, None, T]:
        if not self._done:
            yield self
        return self.result()


class Task(Future[T]):
    """A coroutine under way. Its own outcome is its value as a future."""

    __slots__ = ("_cancelled", "_coroutine", "_kernel", "_waits_for", "name")

    def __init__(self, kernel: "Kernel", coroutine: Coroutine[Any, Any, T], name: str) -> None:
        super().__init__()
        self.name = name
        self._kernel = kernel
        self._coroutine = coroutine
        self._waits_for: Future[Any] | None = None
        self._cancelled = False

    def cancel(self) -> None:
        """Throws `Cancelled` into the coroutine where it waits; nothing if it is done."""
        if self._done or self._cancelled:
            return
        self._cancelled = True
        if self._waits_for is not None:
            self._waits_for.forget(self._resume)
            self._waits_for = None
            self._kernel.ready(self)

    def _resume(self, _: Future[Any]) -> None:
        self._waits_for = None
        self._kernel.ready(self)

    def step(self) -> None:
        """Runs to the next wait. Called by the kernel."""
        if self._done:
            return
        try:
            if self._cancelled:
                self._cancelled = False
                waits_for = self._coroutine.throw(Cancelled())
            else:
                waits_for = self._coroutine.send(None)
        except StopIteration as stop:
            self.resolve(stop.value)
        except (Exception, Cancelled) as error:  # noqa: BLE001 (it is the value of the task)
            self.fail(error)
        except BaseException:  # Ctrl-C is for who drives the kernel; but the task is over: nobody shall wait for it
            self.fail(Cancelled())
            raise
        else:
            self._waits_for = waits_for
            waits_for.when_done(self._resume)


class Timer:
    """Something to do at a time, unless it is cancelled before."""

    __slots__ = ("action", "at")

    def __init__(self, at: float, action: Callable[[], None] | None) -> None:
        self.at = at
        self.action = action

    def cancel(self) -> None:
        self.action = None


class Kernel:
    def __init__(self, poller: Poller, clock: Callable[[], float]) -> None:
        self.poller = poller
        self.clock = clock
        self._ready: deque[Task[Any]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._sweep_at = _SWEEP_AT

    # For coroutines

    def spawn(self, coroutine: Coroutine[Any, Any, T], name: str = "") -> Task[T]:
        task = Task(self, coroutine, name or getattr(coroutine, "__qualname__", "task"))
        self._ready.append(task)
        return task

    def at(self, time: float, action: Callable[[], None]) -> Timer:
        timer = Timer(time, action)
        if len(self._timers) >= self._sweep_at:
            self._sweep()
        heapq.heappush(self._timers, (time, next(self._numbers), timer))
        return timer

    def after(self, seconds: float, action: Callable[[], None]) -> Timer:
        return self.at(self.clock() + max(0.0, seconds), action)

    async def sleep(self, seconds: float) -> None:
        done: Future[None] = Future()
        timer = self.after(seconds, lambda: done.resolve(None))
        try:
            await done
        finally:
            timer.cancel()

    async def within(self, seconds: float | None, future: Future[T]) -> T:
        """The future's value, or `TimedOut`. The future itself goes on: whoever made it decides about it."""
        if seconds is None or future.done:
            return await future
        either: Future[bool] = Future()
        timer = self.after(seconds, lambda: either.resolve(False))

        def came(_: Future[T]) -> None:
            either.resolve(True)

        future.when_done(came)
        try:
            if not await either:
                raise TimedOut
        finally:
            timer.cancel()
            future.forget(came)
        return future.result()

    async def first_done(self, futures: "Sequence[Future[T]]", seconds: float | None) -> None:
        """Until one of them is done, or the time is up. They all go on."""
        over: Future[None] = Future()

        def end(_: object = None) -> None:
            over.resolve(None)

        timer = None if seconds is None else self.after(seconds, end)
        for future in futures:
            future.when_done(end)
        try:
            await over
        finally:
            if timer is not None:
                timer.cancel()
            for future in futures:
                future.forget(end)

    async def all_of(self, coroutines: list[Coroutine[Any, Any, T]]) -> list[T | BaseException]:
        """Runs them side by side; gives each one's value or exception, in order."""
        tasks = [self.spawn(each) for each in coroutines]
        outcome: list[T | BaseException] = []
        try:
            for task in tasks:
                try:
                    outcome.append(await task)
                except Exception as error:  # noqa: BLE001 (it is handed to the caller as a value)
                    outcome.append(error)
        finally:
            for task in tasks:
                task.cancel()
        return outcome

    # For whoever drives it

    def ready(self, task: Task[Any]) -> None:
        self._ready.append(task)

    def run_ready(self) -> None:
        """Runs due timers and all tasks that can go on, until every one of them waits."""
        while True:
            self._run_timers()
            if not self._ready:
                return
            for _ in range(len(self._ready)):
                if not self._ready:
                    break  # a step has called this method itself, as a callback that sends a record does
                self._ready.popleft().step()

    def timeout(self) -> float | None:
        """How long a poll may wait: until the next timer. None: nothing is planned."""
        if self._ready:
            return 0.0
        while self._timers and self._timers[0][2].action is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return None
        return max(0.0, self._timers[0][0] - self.clock())

    def step(self, timeout: float | None = 0.0) -> None:
        """Runs what can run, waits for I/O up to `timeout` or the next timer, runs what became possible."""
        self.run_ready()
        planned = self.timeout()
        if timeout is None or (planned is not None and planned < timeout):
            timeout = planned
        events = self.poller.poll(timeout)
        if events:
            self.poller.dispatch(events)
        self.run_ready()

    def _sweep(self) -> None:
        """Timers that were cancelled leave at their time; when most are, they leave at once, or they would pile up."""
        self._timers = [entry for entry in self._timers if entry[2].action is not None]
        heapq.heapify(self._timers)
        self._sweep_at = max(_SWEEP_AT, 2 * len(self._timers))

    def _run_timers(self) -> None:
        if not self._timers:
            return
        now = self.clock()
        while self._timers and self._timers[0][0] <= now:
            action = heapq.heappop(self._timers)[2].action
            if action is not None:
                action()


class Signal:
    """Wakes those who wait for a change: `await signal.wait()` ends at the next `signal.notify()`."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next: Future[None] = Future()

    def notify(self) -> None:
        passed, self._next = self._next, Future()
        passed.resolve(None)

    def next(self) -> Future[None]:
        return self._next

    def wait(self) -> Awaitable[None]:
        return self._next
