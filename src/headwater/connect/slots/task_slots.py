"""The slots of a worker: which tasks it wants in them, and what becomes of them. The shell around `placement`.

One thread owns the placement, the states of tasks and the links to slots; everybody else leaves it events. Another
supplies the slots: it begins the worker's Spark session when the first task is wanted, and not before, and begins again
when the session is lost. A slot that is gone is known by its connection; its tasks begin elsewhere at once. What such a
slot may still do is fenced as a lost worker's would be (KIP-618): a source task's transactional id is taken by its
successor, and a slot asks the worker before it takes one, which refuses what it has given up.
"""

import itertools
import logging
import math
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from headwater.base.errors import UserError
from headwater.connect.errors import ConnectError, Interrupted
from headwater.connect.plugins import Plugin
from headwater.connect.runtime.spark_session import WorkerSpark
from headwater.connect.runtime.task import State, TaskId
from headwater.connect.slots import task_messages as messages
from headwater.connect.slots.placement import Action, Finished, Lost, Placement, Start, Stop
from headwater.connect.slots.slot_task import SlotTask
from headwater.spark.slots.frames import SILENCE_S
from headwater.spark.slots.slot_count import slots_for
from headwater.spark.slots.slot_links import SlotLink, SlotServer

logger = logging.getLogger("headwater.connect")

_LOOK_S: Final = 0.25
_CLOSE_S: Final = 40.0
_RETIRE_S: Final = 10.0
_AGAIN_FIRST_S: Final = 1.0
_AGAIN_MAX_S: Final = 60.0
_ONE_SLOT: Final = (
    "task.isolation=slot: this worker has one slot, which its tasks share. Set task.slots to 2 or more, and give "
    "spark.master a core for each and one besides"
)
RunSlot = Callable[[int, tuple[str, int], bytes], int]
Answerer = Callable[[SlotTask, int, list[Any]], list[Any]]  # of a task, its run and the arguments


class Supply(Protocol):
    """What makes slots for a keeper, until it is stopped or cannot any more."""

    def wait(self, timeout_s: float) -> bool:
        """Whether it has ended."""

    def stop(self) -> None: ...


MakeSupply = Callable[["TaskSlots"], Supply]


class TaskSlots:
    """`answers`: what slots may ask, by name. `make_supply` begins what supplies slots, and may take long or raise."""

    def __init__(
        self,
        props: Mapping[str, str],
        answers: Mapping[str, Answerer],
        make_supply: MakeSupply,
        place: Callable[[], str | None] = lambda: None,
        silence_s: float = SILENCE_S,
    ) -> None:
        self._props = {name: value for name, value in props.items() if not name.startswith("spark.")}
        self._answers, self._make_supply, self._place, self._silence_s = answers, make_supply, place, silence_s
        self.slots = 0
        self._keys = itertools.count(1)
        self._placement = Placement()
        self._tasks: dict[int, SlotTask] = {}
        self._keys_of_runs: dict[int, int] = {}
        self._links: dict[int, SlotLink] = {}
        self._server: SlotServer | None = None
        self._trouble: str | None = None  # why there are no slots
        self._events: queue.SimpleQueue[tuple[Callable[..., None], tuple[Any, ...]] | None] = queue.SimpleQueue()
        self._needed, self._closed = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name="connect-slots", daemon=True),
            threading.Thread(target=self._supply, name="connect-slot-supply", daemon=True),
        ]
        for each in self._threads:
            each.start()

    # For the worker

    def task(
        self,
        task_id: TaskId,
        plugin: Plugin,
        given: Mapping[str, str],
        generation: int,
        *,
        isolated: bool,
        paused: bool,
        on_topic: Callable[[str], None],
    ) -> SlotTask:
        return SlotTask(
            self,
            next(self._keys),
            task_id,
            given,
            generation,
            plugin.version,
            isolated=isolated,
            paused=paused,
            on_topic=on_topic,
        )

    def shut_down(self) -> None:
        """Ends what is left, and the slots."""
        self._closed.set()
        self._needed.set()
        self._threads[1].join(_CLOSE_S)  # a JVM may hang, or be about to begin
        if self._threads[1].is_alive():
            logger.error("event=slots-left reason=they-do-not-stop")
        self._events.put(None)
        self._threads[0].join()

    # A `Keeper`

    def want(self, task: SlotTask) -> None:
        self._needed.set()
        self._post(self._wanted, task)

    def unwant(self, task: SlotTask) -> None:
        self._post(self._unwanted, task)

    def pause(self, task: SlotTask) -> None:
        self._post(self._paused, task)

    def give_up(self, task: SlotTask) -> None:
        self._post(self._given_up, task)

    # A `SlotKeeper`: called by the supply's threads

    def open_port(self, host: str, slots: int) -> None:
        """Before slots are supplied."""
        self.slots = slots
        self._server = SlotServer(self, messages.CODEC, host, self._silence_s)
        self._post(self._opened, slots)

    @property
    def port(self) -> int:
        assert self._server is not None
        return self._server.port

    @property
    def secret(self) -> bytes:
        assert self._server is not None
        return self._server.secret

    @property
    def running(self) -> bool:
        return not self._closed.is_set()

    @property
    def present(self) -> int:
        server = self._server
        return len(server.links) if server is not None else 0

    @property
    def losses(self) -> int:
        server = self._server
        return server.losses if server is not None else 0

    def begin_lease(self) -> None:
        if self._server is not None:
            self._server.begin_lease()

    def end_lease(self, *, late_ones: bool = False) -> None:
        """Nothing begins in these slots any more; then they are told."""
        retired = threading.Event()
        self._post(self._retire, retired)
        retired.wait(_RETIRE_S)
        if self._server is not None:
            self._server.end_lease(late_ones=late_ones)

    def fail(self, error: UserError) -> None:
        self._post(self._failed, str(error))

    def close(self) -> None:
        self.end_lease(late_ones=True)

    def close_port(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    # A `Listener`: called by the threads of connections

    def joined(self, link: SlotLink) -> None:
        self._post(self._slot_joined, link)

    def said(self, link: SlotLink, message: Any) -> None:
        self._post(self._slot_said, link, message)

    def gone(self, link: SlotLink) -> None:
        self._post(self._slot_gone, link)

    # The thread that supplies slots

    def _supply(self) -> None:
        pause_s = _AGAIN_FIRST_S
        self._needed.wait()
        while not self._closed.is_set():
            try:
                supply = self._make_supply(self)
            except Interrupted:
                return
            except Exception as error:  # noqa: BLE001 - whatever Spark says is the status of the tasks that wait
                self.close_port()
                logger.warning("event=no-slots again_s=%g error=%r", pause_s, str(error)[:500])
                self._post(self._failed, f"{error}\n(slots are asked for again in {pause_s:g} s)")
                self._closed.wait(pause_s)
                pause_s = min(2 * pause_s, _AGAIN_MAX_S)
                continue
            pause_s = _AGAIN_FIRST_S
            while not self._closed.is_set():
                if supply.wait(_LOOK_S):
                    logger.warning("event=slots-lost again_s=%g", pause_s)
                    self._closed.wait(pause_s)
                    break
            else:
                supply.stop()

    # The thread that owns everything

    def _post(self, function: Callable[..., None], *arguments: Any) -> None:
        self._events.put((function, arguments))

    def _run(self) -> None:
        while (event := self._events.get()) is not None:
            function, arguments = event
            try:
                function(*arguments)
            except Exception:
                logger.exception("event=slots-failed")
        for task in self._tasks.values():
            task.finish()

    def _wanted(self, task: SlotTask) -> None:
        if self._closed.is_set():
            task.finish()
            return
        self._tasks[task.key] = task
        self._do(self._placement.wanted(task.key, isolated=task.isolated))
        self._tell_waiting()

    def _unwanted(self, task: SlotTask) -> None:
        if task.key not in self._tasks:
            task.finish()
        else:
            self._do(self._placement.unwanted(task.key))

    def _paused(self, task: SlotTask) -> None:
        placed = self._placement.slot_of(task.key)
        if placed is not None:
            self._send(placed[0], messages.Pause(placed[1], task.paused))

    def _given_up(self, task: SlotTask) -> None:
        placed = self._placement.slot_of(task.key)
        if placed is not None:
            self._send(placed[0], messages.GiveUp(placed[1]))

    def _opened(self, slots: int) -> None:
        logger.info("event=slots-supplied slots=%d", slots)
        self._trouble = None
        self._tell_waiting()

    def _failed(self, trouble: str) -> None:
        self._trouble = trouble
        self._tell_waiting()

    def _retire(self, retired: threading.Event) -> None:
        try:
            self._do(self._placement.retiring())
        finally:
            retired.set()

    def _slot_joined(self, link: SlotLink) -> None:
        self._links[link.number] = link
        link.send(messages.Serve(self._props))
        self._do(self._placement.joined(link.number))
        self._tell_waiting()

    def _slot_gone(self, link: SlotLink) -> None:
        if self._links.get(link.number) is link:
            del self._links[link.number]
            self._do(self._placement.left(link.number))
            self._tell_waiting()

    def _slot_said(self, link: SlotLink, message: Any) -> None:
        run = message.run
        key = self._keys_of_runs.get(run, 0)
        task = self._tasks.get(key)
        current = task is not None and self._links.get(link.number) is link and self._placement.is_current(key, run)
        if isinstance(message, messages.Call):
            self._called(link, message, task if current else None)
        elif task is None or not current:
            return
        elif isinstance(message, messages.Told):
            task.restarts = message.restarts
            task.now(State(message.state), message.trace or None, self._where(link))
        elif isinstance(message, messages.Measured):
            task.told_values = message.values
        elif isinstance(message, messages.TopicSeen):
            task.on_topic(message.topic)
        elif isinstance(message, messages.Ended):
            self._do(self._placement.ended(key, run))
            self._tell_waiting()

    def _where(self, link: SlotLink) -> str:
        return " ".join(each for each in (self._place(), f"slot {link.number}", link.process) if each)

    # Questions of slots, each in a thread of its own: the answer may wait for the group's leader

    def _called(self, link: SlotLink, call: messages.Call, task: SlotTask | None) -> None:
        if task is None:
            link.send(messages.Answer(call.call, "The worker has given this task to another slot"))
            return
        threading.Thread(
            target=self._answer, args=(link, call, task), name=f"connect-ask-{task.id}", daemon=True
        ).start()

    def _answer(self, link: SlotLink, call: messages.Call, task: SlotTask) -> None:
        try:
            answer = messages.Answer(call.call, "", self._answers[call.name](task, call.run, call.arguments))
        except Exception as error:  # noqa: BLE001 - the task's, wherever it runs
            answer = messages.Answer(call.call, str(error) or type(error).__name__)
        self._post(self._answered, link, call, task, answer)

    def _answered(self, link: SlotLink, call: messages.Call, task: SlotTask, answer: messages.Answer) -> None:
        """What was granted meanwhile to a run that is over is refused."""
        if not self._placement.is_current(task.key, call.run):
            answer = messages.Answer(call.call, "The worker has given this task to another slot")
        link.send(answer)

    # Actions

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            task = self._tasks[action.key]
            match action:
                case Start(_, run, slot):
                    self._forget_runs(action.key)
                    self._keys_of_runs[run] = action.key
                    task.now_run(run)
                    begin = messages.Begin(run, *task.id, task.config, task.generation, task.paused)
                    self._send(slot, begin)
                case Stop(_, run, slot):
                    self._send(slot, messages.End(run))
                case Lost():
                    task.now_run(0)
                    logger.warning("event=slot-lost connector=%r task=%d was=%r", *task.id, task.runs_on)
                    task.now(State.UNASSIGNED, None, None)
                case Finished():
                    self._forget_runs(action.key)
                    del self._tasks[action.key]
                    task.now_run(0)
                    task.finish()

    def _forget_runs(self, key: int) -> None:
        self._keys_of_runs = {run: each for run, each in self._keys_of_runs.items() if each != key}

    def _send(self, slot: int, message: Any) -> None:
        link = self._links.get(slot)
        if link is not None:
            link.send(message)

    def _tell_waiting(self) -> None:
        """Why a task is in no slot yet; one that fails by itself says so itself."""
        for key in self._placement.waiting:
            task = self._tasks[key]
            if self._trouble is not None:
                task.now(State.FAILED, self._trouble, None)
            elif task.isolated and self.slots == 1:
                task.now(State.FAILED, _ONE_SLOT, None)
            elif task.isolated and self._links:
                task.now(State.UNASSIGNED, None, "waits for a slot of its own")
            else:
                task.now(State.UNASSIGNED, None, "waits for a slot")


def spark_supply(
    spark: WorkerSpark, wanted: int | None, run_slot: RunSlot
) -> tuple[MakeSupply, Callable[[], str | None]]:
    """Slots that a query of the worker's Spark session supplies; and where they are, in words."""

    def make(keeper: TaskSlots) -> Supply:
        session = spark.session()
        from headwater.spark.slots.slot_supply import SlotSupply, addresses, cores_for

        try:
            slots = slots_for(wanted, cores_for(wanted, session), str(session.sparkContext.master))
        except UserError as error:
            raise ConnectError(str(error)) from None
        keeper.open_port(addresses(session)[1], slots)
        return SlotSupply(session, keeper, run_slot, wanted=wanted, lease_s=math.inf)

    return make, lambda: spark.place
