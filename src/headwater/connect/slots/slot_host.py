"""A slot: a process that Spark supplies, in which many connector tasks run, each with a thread and clients of its own.

The thread that calls `run_in_slot` reads the connection and says now and then that the process lives. A task is made in
a short-lived thread, since plugins are imported and secrets resolved there, and then is a task like any other of
`runtime`. When the connection is lost the worker is gone, or has given this slot up: all tasks are cancelled, so that
they commit nothing any more, and `run_in_slot` raises. What a slot cannot decide by itself it asks the worker
(`ask`): whether a task may take its transactional id. A cancel waits for what the task is just committing, which may
wait for an answer that only the reading thread can hand over: so each has a thread of its own.
"""

import contextlib
import itertools
import logging
import queue
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from headwater.connect.config.secrets import forms_of, redacted, secrets_in
from headwater.connect.connector_config.common import connector_def
from headwater.connect.errors import ConnectError
from headwater.connect.runtime.task import Failures, State, TaskId, WorkerTask
from headwater.connect.runtime.worker import TaskSpec, Worker
from headwater.connect.slots import task_messages as messages
from headwater.spark.slots.frames import Channel, ChannelClosed
from headwater.spark.slots.greeting import greeting
from headwater.spark.slots.message_codec import EndLease, Heartbeat, Leaving

logger = logging.getLogger("headwater.connect")

_HEARTBEAT_S: Final = 0.5
_MEASURED_S: Final = 3.0
_ENDING_S: Final = 0.02
_ANSWER_S: Final = 300.0  # fencing waits for a leader; the worker ends what it answers no more
_CANCELLED_S: Final = 2.0  # for threads that may hang

Ask = Callable[..., list[Any]]  # (run, name, *arguments)


class SlotWorker(Protocol):
    """Makes tasks in a slot."""

    @property
    def worker(self) -> Worker: ...

    def task(self, begin: messages.Begin, make: Callable[[], WorkerTask]) -> WorkerTask:
        """`make` with what the worker's tasks need set up for this one."""

    def close(self) -> None: ...


MakeWorker = Callable[[messages.Serve, Ask], SlotWorker]


def run_in_slot(number: int, address: tuple[str, int], secret: bytes, make_worker: MakeWorker) -> int:
    """Until the lease ends: how many tasks it has run. Raises ChannelClosed when the worker is gone."""
    channel = Channel.connected(address, secret, messages.CODEC)
    host = SlotHost(channel.send, make_worker)
    try:
        channel.send(greeting(number))
        while not host.done:
            host.take(channel.receive(host.patience_s))
            host.beat(time.monotonic())
        channel.send(Leaving())
    except BaseException:
        host.lose()
        raise
    finally:
        host.close()
        channel.close()
    return host.begun


class HostedTask:
    """One run. `task` is None before it is made, and where it could not be."""

    def __init__(self, host: "SlotHost", begin: messages.Begin) -> None:
        self._host, self._begin = host, begin
        self.run, self.id = begin.run, TaskId(begin.connector, begin.number)
        self._lock = threading.Lock()
        self._stopping, self._cancelled = threading.Event(), False
        self._paused = begin.paused
        self.task: WorkerTask | None = None
        self._cancelling: threading.Thread | None = None
        self.ended = False
        threading.Thread(target=self._prepare, name=f"connect-begin-{begin.connector}", daemon=True).start()

    def set_paused(self, paused: bool) -> None:
        with self._lock:
            self._paused = paused
        if self.task is not None:
            self.task.set_paused(paused)

    def stop(self) -> None:
        with self._lock:
            self._stopping.set()
        if self.task is not None:
            self.task.begin_stop()

    def cancel(self) -> None:
        """Waits for nothing. Driven by the host's thread alone."""
        with self._lock:
            self._cancelled = True
            self._stopping.set()
        if self.task is None:
            return
        self.task.begin_stop()
        if self._cancelling is None or not self._cancelling.is_alive():
            name = f"connect-cancel-{self.task.id}"
            self._cancelling = threading.Thread(target=self.task.cancel, name=name, daemon=True)
            self._cancelling.start()

    def join(self, until: float) -> bool:
        """Whether it has ended, as far as there is something to wait for: its cancel too."""
        if self.task is None:
            return True
        if self._cancelling is not None:
            self._cancelling.join(max(0.0, until - time.monotonic()))
        with contextlib.suppress(RuntimeError):  # it is made, and not begun yet
            return self.task.join(max(0.0, until - time.monotonic()))
        return True

    def _prepare(self) -> None:
        made = self._made_at_last()
        with self._lock:
            if self._stopping.is_set():
                made = None
            elif made is not None:
                made.paused = self._paused
                made.on_state, made.on_end = self._changed, self._end
                self.task = made
        if made is None:
            self._end()
        else:
            made.start()
            if self._cancelled:
                made.cancel()

    def _made_at_last(self) -> WorkerTask | None:
        """Tried again like a task that has failed. None: it is to stop before, or its connector wants no other try."""
        failures, restarts = Failures(), 0
        while not self._stopping.is_set():
            secrets: set[str] = set()
            failures.begin()
            try:
                return self._made(secrets)
            except Exception as error:  # noqa: BLE001 - whatever a plugin or a provider raises is the task's status
                failures.count()
                again = self._host.restarts(self._begin.config)
                told = failures.told("task") if again else ""
                trace = redacted(told + "".join(traceback.format_exception(error)), secrets)
                self._host.say(messages.Told(self.run, str(State.FAILED), trace, restarts))
            if not again or self._stopping.wait(failures.delay_s):
                return None
            restarts += 1
            logger.warning("event=task-restarting connector=%r task=%d restarts=%d", *self.id, restarts)
        return None

    def _made(self, secrets: set[str]) -> WorkerTask:
        begin, slot_worker = self._begin, self._host.worker()
        worker = slot_worker.worker
        config = begin.config
        plugin = worker.catalog.connector(config.get("connector.class", ""))
        definition = connector_def(worker.catalog, plugin.kind)
        given: set[str] = set()
        resolved = worker.providers.resolved(config, given)
        secrets |= secrets_in(config, resolved, definition + plugin.config_def) | forms_of(given)
        parsed = definition.parse(resolved)

        spec = TaskSpec(self.id, plugin, config, resolved, parsed, frozenset(secrets), begin.paused, self._topic_seen)
        return slot_worker.task(begin, lambda: worker.task_here(spec))

    def _changed(self, task: WorkerTask) -> None:
        trace = (task.trace or "") if task.state is State.FAILED else ""
        self._host.say(messages.Told(self.run, str(task.state), trace, task.restarts))

    def _topic_seen(self, topic: str) -> None:
        self._host.say(messages.TopicSeen(self.run, topic))

    def _end(self) -> None:
        self.ended = True
        self._host.say(messages.Ended(self.run))


class SlotHost:
    """What a slot does with what it is told. Driven by one thread."""

    def __init__(self, send: Callable[[Any], None], make_worker: MakeWorker) -> None:
        self._send, self._make_worker = send, make_worker
        self._serve: messages.Serve | None = None
        self._making = threading.Lock()
        self._worker: SlotWorker | None = None
        self._tasks: dict[int, HostedTask] = {}
        self._calls: dict[int, queue.SimpleQueue[messages.Answer | None]] = {}
        self._numbers = itertools.count(1)
        self._give_up_at: float | None = None
        self._lost = False
        self._beat_at = self._measured_at = 0.0
        self.begun = 0

    @property
    def done(self) -> bool:
        if self._give_up_at is None:
            return False
        return time.monotonic() > self._give_up_at or all(each.ended for each in self._tasks.values())

    @property
    def patience_s(self) -> float:
        return _HEARTBEAT_S if self._give_up_at is None else _ENDING_S

    def take(self, message: Any) -> None:
        match message:
            case None:
                return
            case messages.Serve():
                self._serve = message
            case messages.Begin(run):
                if self._give_up_at is None:
                    self.begun += 1
                    self._tasks[run] = HostedTask(self, message)
            case messages.Pause(run, paused):
                if (task := self._tasks.get(run)) is not None:
                    task.set_paused(paused)
            case messages.End(run):
                if (task := self._tasks.get(run)) is not None:
                    task.stop()
            case messages.GiveUp(run):
                if (task := self._tasks.get(run)) is not None:
                    task.cancel()
            case messages.Answer(call):
                waiting = self._calls.pop(call, None)
                if waiting is not None:
                    waiting.put(message)
            case EndLease():
                self._end_lease()
            case _:
                raise ChannelClosed(f"a worker does not say {type(message).__name__}")
        for run in [run for run, each in self._tasks.items() if each.ended]:
            del self._tasks[run]

    def beat(self, now: float) -> None:
        if now - self._beat_at >= _HEARTBEAT_S:
            self._beat_at = now
            self._send(Heartbeat())
        if now - self._measured_at >= _MEASURED_S:
            self._measured_at = now
            for each in self._tasks.values():
                if each.task is not None and not each.ended:
                    self._send(messages.Measured(each.run, each.task.measured()))

    def lose(self) -> None:
        self._lost = True
        for waiting in list(self._calls.values()):
            waiting.put(None)
        for each in self._tasks.values():
            if not each.ended:
                each.cancel()

    def close(self) -> None:
        """Nobody reads any more: who still waits for an answer gets none. What does not end is left, and the log says
        so.
        """
        self.lose()
        until = time.monotonic() + _CANCELLED_S
        for each in self._tasks.values():
            if not each.ended and not each.join(until):
                logger.error("event=task-left connector=%r task=%d reason=it-does-not-stop", *each.id)
        with self._making:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()

    # For the threads of tasks

    def worker(self) -> SlotWorker:
        with self._making:
            if self._worker is None:
                assert self._serve is not None, "a slot is told whom it serves before anything else"
                self._worker = self._make_worker(self._serve, self.ask)
            return self._worker

    def restarts(self, config: Mapping[str, str]) -> bool:
        """Whether a connector's task that has failed is started again; also where the worker could not be made."""
        if self._worker is not None:
            return self._worker.worker.restarts(config)
        return config.get("errors.restart", "").strip().lower() != "false"

    def say(self, message: Any) -> None:
        """What cannot be said any more is nobody's to hear: the reading thread finds out."""
        try:
            self._send(message)
        except ChannelClosed:
            return

    def ask(self, run: int, name: str, *arguments: Any) -> list[Any]:
        """Raises ConnectError if the worker says no, or nothing."""
        number, answers = next(self._numbers), queue.SimpleQueue[messages.Answer | None]()
        self._calls[number] = answers
        try:
            if self._lost:
                raise ConnectError("The worker of this slot is gone")
            self.say(messages.Call(number, run, name, list(arguments)))
            answer = answers.get(timeout=_ANSWER_S)
        except queue.Empty:
            raise ConnectError(f"The worker of this slot does not answer: {name}") from None
        finally:
            self._calls.pop(number, None)
        if answer is None:
            raise ConnectError("The worker of this slot is gone")
        if answer.error:
            raise ConnectError(answer.error)
        return answer.value

    def _end_lease(self) -> None:
        if self._give_up_at is None:
            graceful_s = self._worker.worker.graceful_s if self._worker is not None else 0.0
            self._give_up_at = time.monotonic() + graceful_s
            for each in self._tasks.values():
                each.stop()
