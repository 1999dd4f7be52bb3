"""A task in a thread of its own: its states, and what becomes of it when it fails.

RUNNING and PAUSED follow the connector's target; FAILED has the trace. A failed task is begun again after a pause that
doubles, up to five minutes, unless `errors.restart=false`; a task that ran well for that long begins with the shortest
pause again. The thread owns the task's clients and plugin; others only set the target, ask for the status and wait for
its end. A task that does not end in time is given up (`cancel`): its thread may live on, but it commits and sends
nothing any more.
"""

import asyncio
import contextlib
import inspect
import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from headwater.connect.config.secrets import redacted
from headwater.connect.errors import ConnectError, Interrupted
from headwater.connect.metrics.exposition import PluginTexts, RunningTask
from headwater.connect.metrics.names import SOURCE
from headwater.connect.metrics.task_metrics import TaskMetrics, Values
from headwater.connect.metrics.worker_metrics import Startup
from headwater.connect.runtime.spark_session import WorkerSpark

logger = logging.getLogger("headwater.connect")

RESTART_FIRST_S: Final = 1.0
RESTART_MAX_S: Final = 300.0


class State(StrEnum):
    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    RESTARTING = "RESTARTING"


class TaskId(NamedTuple):
    connector: str
    number: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.number}"


class TaskHandle(Protocol):
    """A task as a herder sees it, wherever it runs."""

    @property
    def id(self) -> TaskId: ...

    @property
    def state(self) -> State: ...

    @property
    def trace(self) -> str | None: ...

    @property
    def version(self) -> str | None: ...

    @property
    def runs_on(self) -> str | None: ...

    @property
    def restarts(self) -> int: ...

    @property
    def paused(self) -> bool: ...

    startup: Startup | None  # of the one who made it
    plugins: PluginTexts

    @property
    def on_state(self) -> "Callable[[Any], None] | None": ...

    @on_state.setter
    def on_state(self, told: "Callable[[Any], None] | None") -> None: ...

    def start(self) -> None: ...

    def set_paused(self, paused: bool) -> None: ...

    def begin_stop(self) -> None: ...

    def cancel(self) -> None: ...

    def join(self, timeout_s: float) -> bool: ...

    def measured(self) -> Values:
        """What it has counted, as far as that is known here."""


def monotonic_ms() -> float:
    return time.monotonic_ns() / 1_000_000


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def restart_delay_s(failures: int) -> float:
    """After the first failure, the second, ..."""
    return float(min(RESTART_FIRST_S * 2 ** min(failures - 1, 20), RESTART_MAX_S))


class Failures:
    """Of a task, or of a connector, in a row: the more, the later it is started again."""

    def __init__(self) -> None:
        self.in_a_row = 0
        self._began = time.monotonic()

    def begin(self) -> None:
        """It is started."""
        self._began = time.monotonic()

    def count(self) -> None:
        """It has failed; what ran well for long begins with the shortest pause again."""
        self.in_a_row = 1 if time.monotonic() - self._began > RESTART_MAX_S else self.in_a_row + 1

    @property
    def delay_s(self) -> float:
        return restart_delay_s(self.in_a_row)

    def told(self, what: str) -> str:
        return f"(this {what} is started again in {self.delay_s:g} s; failures in a row: {self.in_a_row})\n"


class WorkerTask:
    """`work` is what the kinds of task differ in."""

    kind = SOURCE  # for its metrics

    def __init__(self, task_id: TaskId, *, restart: bool, secrets: frozenset[str], paused: bool = False) -> None:
        self.id = task_id
        self.on_state: Callable[[Any], None] | None = None  # told of each change of `state`, by whoever made it
        self.on_end: Callable[[], None] | None = None  # called by the thread at its end
        self._state = State.UNASSIGNED
        self.trace: str | None = None
        self.restarts = 0
        self.version: str | None = None  # of the plugin
        self.worker_spark: WorkerSpark | None = None  # the worker's, for tasks that need it
        self.runs_on: str | None = None  # where, if not in a thread of the worker alone
        self.metrics = TaskMetrics(self.kind, monotonic_ms, wall_ms)
        self.plugins = PluginTexts()
        self.startup: Startup | None = None
        self._restart = restart
        self._secrets = secrets
        self.stopping = threading.Event()
        self.cancelled = False  # given up: what it did is not told to anybody any more
        self.committing = threading.Lock()  # held while offsets are written: they are before a `cancel`, or never
        self._changed = threading.Event()  # something to look at: paused, resumed, stopping
        self.paused = paused
        self._runner: asyncio.Runner | None = None
        self._thread = threading.Thread(target=self._run, name=f"connect-task-{task_id}", daemon=True)

    @property
    def state(self) -> State:
        return self._state

    @state.setter
    def state(self, state: State) -> None:
        changed, self._state = state is not self._state, state
        if not changed:
            return
        self.metrics.state(state)
        if self.startup is not None:
            self.startup.state(state)
        told = self.on_state  # which whoever stops the task takes away, at any time
        if told is not None:
            told(self)

    # For the herder

    def start(self) -> None:
        self._thread.start()

    def set_paused(self, paused: bool) -> None:
        self.paused = paused
        self.wake()

    def begin_stop(self) -> None:
        self.stopping.set()
        self.wake()

    def cancel(self) -> None:
        """It was to end and did not."""
        with self.committing:
            self.cancelled = True

    def wake(self) -> None:
        self._changed.set()

    def join(self, timeout_s: float) -> bool:
        """Whether its thread has ended."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def measured(self) -> Values:
        return self.metrics.values()

    def redact(self, text: str) -> str:
        return redacted(text, self._secrets)

    # For its own thread

    def use_spark(self) -> Any:
        """The worker's Spark session, which begins with the first that asks."""
        if self.worker_spark is None:
            raise ConnectError(
                "There is no Spark session here: a connector whose tasks ask for one says so (needs_spark)"
            )
        session = self.worker_spark.session()
        self.runs_on = self.worker_spark.place
        return session

    def work(self) -> None:
        """Runs until `stopping`; raises whatever went wrong. What it opened, it closes."""
        raise NotImplementedError

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A plugin's method, whether it is a coroutine function or not."""
        result = function(*arguments)
        if not inspect.isawaitable(result):
            return result
        if self._runner is None:
            runner = asyncio.Runner()
            runner.get_loop()  # made by this thread, before another sees the runner
            self._runner = runner

        async def awaited() -> Any:
            return await result

        return self._runner.run(awaited())

    def quietly(self, function: Callable[..., Any], *arguments: Any) -> None:
        """What goes wrong at the end is logged: what went wrong before it counts, and what is left is ended too."""
        try:
            self.call(function, *arguments)
        except Exception as error:  # noqa: BLE001
            logger.warning("event=stop-failed connector=%r task=%d error=%r", *self.id, self.redact(str(error)))

    def in_loop(self, function: Callable[[], Any]) -> None:
        """For other threads: runs beside what the task awaits, or with the next thing that it does."""
        runner = self._runner
        if runner is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the task is at its end
                runner.get_loop().call_soon_threadsafe(function)

    def sleep(self, seconds: float) -> bool:
        """Whether the task is to stop."""
        return self.stopping.wait(seconds)

    def running(self) -> None:
        """Called by `work` once the plugin has started."""
        self.state = State.PAUSED if self.paused else State.RUNNING
        self.trace = None

    @contextlib.contextmanager
    def timed_commit(self) -> Iterator[None]:
        """Around a commit of offsets, for the metrics."""
        began_ms, success = self.metrics.now_ms(), False
        try:
            yield
            success = True
        finally:
            self.metrics.committed(self.metrics.now_ms() - began_ms, success=success)

    def wait_while_paused(self) -> None:
        if not self.paused:
            if self.state is State.PAUSED:
                self.state = State.RUNNING
            return
        self.state = State.PAUSED
        self._changed.clear()
        if self.paused and not self.stopping.is_set():
            self._changed.wait(1.0)

    def _run(self) -> None:
        failures = Failures()
        while not self.stopping.is_set():
            failures.begin()
            try:
                self.work()
                break
            except Interrupted:
                break
            except BaseException as error:  # noqa: BLE001 - whatever a plugin raises ends its task, a cancelled coroutine too
                failures.count()
                self._failed(error, failures)
            finally:
                self.metrics.ended()
                self._close_runner()
            if not self._restart or self.stopping.wait(failures.delay_s):
                break
            self.restarts += 1
            logger.warning("event=task-restarting connector=%r task=%d restarts=%d", *self.id, self.restarts)
        if self.state is not State.FAILED:
            self.state = State.UNASSIGNED
        if self.on_end is not None:
            self.on_end()

    def _failed(self, error: BaseException, failures: Failures) -> None:
        trace = "".join(traceback.format_exception(error))
        self.trace = self.redact((failures.told("task") if self._restart else "") + trace)
        self.state = State.FAILED
        logger.error("event=task-failed connector=%r task=%d error=%r", *self.id, self.redact(str(error))[:2000])

    def _close_runner(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.close()


def status_of(task: TaskHandle, worker_id: str) -> Mapping[str, Any]:
    made: dict[str, Any] = {
        "id": task.id.number,
        "state": str(task.state),
        "worker_id": worker_id,
        "version": task.version,
    }
    if task.runs_on is not None:
        made["runs_on"] = task.runs_on
    if task.state is State.FAILED and task.trace is not None:
        made["trace"] = task.trace
    return made


def running_task(task: TaskHandle) -> RunningTask:
    """For the worker's metrics."""
    return RunningTask(*task.id, task.state, task.restarts, task.measured(), task.plugins)
