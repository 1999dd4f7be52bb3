"""An asyncio loop that drives a kernel: the asynchronous face's engine.

The kernel's selector is one descriptor to the loop: when it is readable, the kernel takes a step; the kernel's next
timer is one timer of the loop. So the client's coroutines run inside the loop's thread, without a thread of their own.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from headwater.client.reactor.kernel import Cancelled, Closed, Future, Kernel, Task
from headwater.client.reactor.network import Network

T = TypeVar("T")


class AioEngine:
    """Made and used within one running loop."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.kernel = Kernel(network, time.monotonic)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(network.fileno(), self._step)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._running: set[Task[Any]] = set()
        self._closed = False

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The coroutine's result. Cancelled with the asyncio task that waits for it. `Closed` if `close` comes
        first.
        """
        if self._closed:
            coroutine.close()
            raise Closed
        outcome: asyncio.Future[None] = self._loop.create_future()
        task = self.kernel.spawn(coroutine)

        def came(_: Future[T]) -> None:
            if not outcome.done():
                outcome.set_result(None)

        task.when_done(came)
        self._running.add(task)
        self._turn()
        try:
            await outcome
        except asyncio.CancelledError:
            task.cancel()
            self._turn()
            raise
        finally:
            self._running.discard(task)
        if isinstance(task.error, Cancelled):  # `close` did it
            raise Closed
        return task.result()

    async def wait(self, future: Future[T]) -> T:
        """The value of a future of the kernel."""

        async def waiting() -> T:
            return await future

        return await self.run(waiting())

    def submit(self, action: Callable[[], T]) -> T:
        """Does something short with the kernel's state, and what becomes possible by it."""
        result = action()
        self._turn()
        return result

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self.kernel.run_ready()
        for task in list(self._running):  # others wait for what will not come any more
            task.cancel()
        self.kernel.run_ready()
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self.network.fileno())
        self.network.close()

    def _step(self) -> None:
        if not self._closed:
            self.kernel.step(0.0)
            self._plan()

    def _turn(self) -> None:
        self.kernel.run_ready()
        if not self._closed:
            self._plan()

    def _plan(self) -> None:
        planned = self.kernel.timeout()
        if planned is None:
            return
        at = self._loop.time() + planned
        if self._timer is not None and not self._timer.cancelled() and self._timer_at <= at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = at
        self._timer = self._loop.call_at(at, self._due)

    def _due(self) -> None:
        self._timer = None
        self._step()
