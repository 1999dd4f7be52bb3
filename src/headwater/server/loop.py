"""The loop that owns everything: one thread, one epoll, timers, and completions posted by helper threads.

Whoever registers a descriptor gets called with its events; nobody below this file knows about epoll. A callback that
raises is reported and costs at most its own connection, never the loop. `stalled_ms` tells how long the longest turn
took: what a request may have waited behind somebody else's work.

A client that waits for each answer before it sends the next request comes back within microseconds. To sleep and to be
woken then costs both sides more than the request does. So after some waits in a row that were that short, the loop asks
a few times whether something is there before it sleeps; one time in vain, and it sleeps at once again.
"""

import heapq
import logging
import os
import select
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from concurrent.futures import Future, ProcessPoolExecutor

EVENTS_PER_TURN: Final = 256
STALL_NS: Final = 20_000_000
_LONGEST_WAIT_S: Final = 60.0
_CANCELLED_TIMERS_MIN: Final = 256
_SHORT_WAIT_NS: Final = 40_000
_SHORT_WAITS_MIN: Final = 16  # so many in a row, before asking is tried
_NEVER: Final = 1 << 62
_ASKS_MAX: Final = 40  # each takes a little less than a microsecond: together as long as a short wait

logger = logging.getLogger("headwater.server")

Done = Callable[[Any, BaseException | None], None]


class _Job(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    done: Done


class SystemClock:
    """The Clock port on the kernel's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class SystemRandom:
    """The Random port on the kernel's generator."""

    def bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def below(self, limit: int) -> int:
        return int.from_bytes(os.urandom(8)) % limit


class LoopTimer:
    """One call in the future. Cancelling lets go of the function; the heap drops the rest when there are many of
    them.
    """

    __slots__ = ("_loop", "due_ns", "function")

    def __init__(self, loop: "Loop", due_ns: int, function: Callable[[], None]) -> None:
        self._loop = loop
        self.due_ns = due_ns
        self.function: Callable[[], None] | None = function

    def cancel(self) -> None:
        if self.function is not None:
            self.function = None
            self._loop.timer_cancelled()

    def __lt__(self, other: "LoopTimer") -> bool:
        return self.due_ns < other.due_ns


class Loop:
    def __init__(self) -> None:
        self._poller = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._on_failure: dict[int, Callable[[], None]] = {}
        self._timers: list[LoopTimer] = []
        self._cancelled_timers = 0  # those of the heap that will not run
        self._posted: deque[Callable[[], None]] = deque()
        self._wake_fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._stopping = False
        self._workers: ProcessPoolExecutor | None = None
        self._lone_worker: ProcessPoolExecutor | None = None  # for what was under way when a worker was lost
        self._suspects: deque[_Job] = deque()  # of which each gets the lone worker to itself; the first one has it
        self._computing = 0
        self._soon: list[Callable[[], None]] = []
        self.turn_ns = self._ended_ns = (
            time.monotonic_ns()
        )  # when this turn began to handle its events; when the last ended
        self._short_waits = 0  # of the last waits
        # With one processor, who asks keeps the client from sending.
        self._short_waits_min = _SHORT_WAITS_MIN if len(os.sched_getaffinity(0)) > 1 else _NEVER
        self.stall_count = 0
        self.stalled_ms = 0
        self.stall_longest_ms = 0
        self.register(self._wake_fd, select.EPOLLIN, self._woken)

    # Descriptors

    def register(
        self, fd: int, events: int, handler: Callable[[int], None], on_failure: Callable[[], None] | None = None
    ) -> None:
        """`on_failure` is called when the handler raises: it is to give up the descriptor, whose state nobody knows."""
        self._poller.register(fd, events)
        self._handlers[fd] = handler
        if on_failure is not None:
            self._on_failure[fd] = on_failure

    def modify(self, fd: int, events: int) -> None:
        self._poller.modify(fd, events)

    def unregister(self, fd: int) -> None:
        del self._handlers[fd]
        self._on_failure.pop(fd, None)
        self._poller.unregister(fd)

    # The Scheduler port

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> LoopTimer:
        timer = LoopTimer(self, time.monotonic_ns() + delay_ms * 1_000_000, function)
        heapq.heappush(self._timers, timer)
        return timer

    def timer_cancelled(self) -> None:
        """Peers choose how long their requests may wait: what was answered must not stay in memory for that long."""
        self._cancelled_timers += 1
        if self._cancelled_timers >= max(_CANCELLED_TIMERS_MIN, len(self._timers) // 2):
            self._timers[:] = [timer for timer in self._timers if timer.function is not None]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    def drop_timers(self) -> None:
        """Before the end: what is due later will not happen."""
        self._timers.clear()
        self._cancelled_timers = 0

    def call_soon(self, function: Callable[[], None]) -> None:
        self._soon.append(function)

    def compute(self, function: Callable[..., Any], *arguments: Any, done: Done) -> None:
        """In a worker process. A pool that lost one of its workers fails everything that it had under way, and only one
        job can be why: the pool is replaced, and those jobs are begun once more, one at a time, so that only the one
        that kills its worker fails.
        """
        self._computing += 1
        pool = self._workers or self._new_pool(os.cpu_count())
        self._workers = pool
        self._begin(_Job(function, arguments, done), pool)

    def _begin(self, job: _Job, pool: "ProcessPoolExecutor") -> None:
        def finished(future: "Future[Any]") -> None:
            if not future.cancelled():
                self.post(lambda: self._computed(job, pool, future.exception(), future))

        try:
            pool.submit(job.function, *job.arguments).add_done_callback(finished)
        except RuntimeError as problem:  # BrokenProcessPool, if a worker was lost and nobody has been told yet
            refused = problem
            self.post(lambda: self._computed(job, pool, refused, None))

    def _computed(
        self, job: _Job, pool: "ProcessPoolExecutor", problem: BaseException | None, future: "Future[Any] | None"
    ) -> None:
        from concurrent.futures.process import BrokenProcessPool

        was_alone = bool(self._suspects) and self._suspects[0] is job
        if isinstance(problem, BrokenProcessPool):
            self._give_up(pool)
            if not was_alone and not self._stopping:
                logger.warning("event=worker-lost job=%s note='it is begun once more'", job.function.__name__)
                self._suspects.append(job)
                if len(self._suspects) == 1:
                    self._begin_alone()
                return
        self._computing -= 1
        if was_alone:
            self._suspects.popleft()
            if self._suspects:
                self._begin_alone()
        for each in (self._workers, self._lone_worker):
            if self._computing == 0 and each is not None:  # recovery is over: give their memory back
                self._give_up(each)
        job.done(None if problem or future is None else future.result(), problem)

    def _begin_alone(self) -> None:
        self._lone_worker = self._lone_worker or self._new_pool(1)
        self._begin(self._suspects[0], self._lone_worker)

    def _new_pool(self, worker_count: int | None) -> "ProcessPoolExecutor":
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        return ProcessPoolExecutor(
            max_workers=worker_count, mp_context=get_context("forkserver"), initializer=_die_with_parent
        )

    def _give_up(self, pool: "ProcessPoolExecutor") -> None:
        """The next job gets a new one."""
        pool.shutdown(wait=False)
        if self._workers is pool:
            self._workers = None
        if self._lone_worker is pool:
            self._lone_worker = None

    def post(self, function: Callable[[], None]) -> None:
        """Runs `function` on the loop's thread, soon. The one method that other threads may call."""
        self._posted.append(function)
        os.eventfd_write(self._wake_fd, 1)

    # Running

    def stop(self) -> None:
        """Ends `run` after the current turn. Safe in a signal handler."""
        self._stopping = True
        os.eventfd_write(self._wake_fd, 1)

    @property
    def is_stopping(self) -> bool:
        return self._stopping

    def run(self) -> None:
        """Until `stop`, which may have come already: a signal can be quicker than we are."""
        while not self._stopping:
            self.turn(_LONGEST_WAIT_S)

    def run_until(self, finished: Callable[[], bool], timeout_ms: int) -> bool:
        """Turns until `finished` or the time is over: for start-up and shutdown."""
        deadline_ms = time.monotonic_ns() // 1_000_000 + timeout_ms
        while not finished():
            left_ms = deadline_ms - time.monotonic_ns() // 1_000_000
            if left_ms <= 0:
                return False
            self.turn(left_ms / 1000)
        return True

    def turn(self, wait_s: float) -> None:
        """Waits for events, at most `wait_s`, and handles them."""
        timers = self._timers
        if timers:
            left_s = (timers[0].due_ns - time.monotonic_ns()) / 1_000_000_000
            if left_s < wait_s:
                wait_s = left_s if left_s > 0 else 0  # a negative wait is for ever
        ready = self._ask() if self._short_waits >= self._short_waits_min else None
        if not ready:
            ready = self._poller.poll(wait_s, EVENTS_PER_TURN)
        self.turn_ns = began_ns = time.monotonic_ns()
        if began_ns - self._ended_ns > _SHORT_WAIT_NS:
            self._short_waits = 0
        else:
            self._short_waits += 1
        handlers = self._handlers
        for fd, events in ready:
            handler = handlers.get(fd)  # an earlier event of this turn may have closed it
            if handler is not None:
                try:
                    handler(events)
                except Exception:
                    logger.exception("event=handler-failed fd=%d", fd)
                    if fd in self._on_failure and handlers.get(fd) is handler:
                        self._guarded(self._on_failure[fd])
        if timers and timers[0].due_ns <= began_ns:
            self._run_timers(began_ns)
        while self._soon:
            self._run_soon()
        self._ended_ns = ended_ns = time.monotonic_ns()
        if ended_ns - began_ns >= STALL_NS:
            self._stalled((ended_ns - began_ns) // 1_000_000)

    def _ask(self) -> list[tuple[int, int]] | None:
        """The events that come within a short wait, without sleeping."""
        poll = self._poller.poll
        for _ in range(_ASKS_MAX):
            ready = poll(0, EVENTS_PER_TURN)
            if ready:
                return ready
        self._short_waits = 0
        return None

    def _run_soon(self) -> None:
        soon, self._soon = self._soon, []
        for function in soon:
            self._guarded(function)

    def _stalled(self, taken_ms: int) -> None:
        self.stall_count += 1
        self.stalled_ms += taken_ms
        self.stall_longest_ms = max(self.stall_longest_ms, taken_ms)

    def close(self) -> None:
        for pool in (self._workers, self._lone_worker):
            if pool is not None:
                for process in tuple(pool._processes.values()):  # nobody waits for a scan that nobody needs
                    process.kill()
                pool.shutdown(cancel_futures=True)
        self._poller.close()
        os.close(self._wake_fd)

    def _run_timers(self, now_ns: int) -> None:
        """Those that were due when this turn looked for events. If something has taken long since, what came meanwhile
        goes first: a heartbeat that waits in a socket is not late because we were.
        """
        timers = self._timers
        while timers and timers[0].due_ns <= now_ns:
            timer = heapq.heappop(timers)
            function, timer.function = timer.function, None
            if function is None:
                self._cancelled_timers -= 1
            else:
                self._guarded(function)

    def _woken(self, _events: int) -> None:
        os.eventfd_read(self._wake_fd)
        for _ in range(len(self._posted)):
            self._guarded(self._posted.popleft())

    def _guarded(self, function: Callable[[], None]) -> None:
        try:
            function()
        except Exception:
            logger.exception("event=callback-failed function=%r", function)


def _die_with_parent() -> None:
    """In a worker process: a broker that is killed must not leave its scans behind."""
    import multiprocessing
    import threading

    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
