"""The lead of one application whose slots are other processes: membership, producer ids, who has which task.

One thread owns all of it: it takes events from a queue (slots that came, went or said something; a stop), lets
`task_moves` decide, and does what that says. Only here producer ids are taken, with `fence_steps`: for a slot that
comes, for one that asks, and for one that is lost, whose tasks go to others once that has succeeded. While brokers are
away, what is to be fenced waits, and is tried again.
"""

import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.positions import OffsetAndMetadata
from headwater.client.errors import passes
from headwater.spark.slots.slot_links import SlotLink
from headwater.streams.lead.membership import Lead, lead_of
from headwater.streams.lead.run_thread import RunThread
from headwater.streams.lead.status import SlotStatus, document
from headwater.streams.lead.task_moves import Action, Grant, TaskMoves
from headwater.streams.protocol import slot_messages as messages
from headwater.streams.protocol import task_ownership as protocol
from headwater.streams.protocol.transactional_ids import slot_id
from headwater.streams.slot.open_task import Stopped
from headwater.streams.slot.program import Program

_log: Final = logging.getLogger("headwater.streams")
_TICK_S: Final = 0.25
_START_PATIENCE_MS: Final = 5_000  # for all slots, before the first tasks are dealt out
_RETURN_PATIENCE_MS: Final = 10_000  # between two leases
_STOP_PATIENCE_S: Final = 30.0
_NEVER_MS: Final = 1 << 62
_ERRORS_MAX: Final = 10
_NOTHING: Final = messages.Progress("", 0, {})


@dataclass(frozen=True, slots=True)
class _Event:
    kind: Literal["joined", "gone", "said", "expect", "pause", "stop"]
    link: SlotLink | None = None
    message: messages.OfApplication | None = None
    slots: tuple[int, ...] = ()
    error: UserError | None = None


class ApplicationLead:
    def __init__(
        self,
        program: Program,
        pickled: str,
        expected: tuple[int, ...] = (),
        load: Callable[[], Mapping[int, int]] = dict,
        make_lead: Callable[[Program], Lead] = lead_of,
    ) -> None:
        """`pickled`: the program as slots get it. `expected`: slots that will come. `load`: how many tasks of other
        applications slots have.
        """
        self.name = program.name
        self._program = program
        self._pickled = pickled
        self._make_lead = make_lead
        self._moves = TaskMoves(
            program.tasks,
            load,
            stateful=program.stateful_tasks,
            standbys=program.settings.num_standby_replicas,
            acceptable_lag=program.settings.acceptable_recovery_lag,
            warmups_max=program.settings.max_warmup_replicas,
        )
        self._moves.expect(expected, _NEVER_MS)
        self._expected = expected
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._links: dict[int, SlotLink] = {}  # those that know the application, by their life
        self._to_admit: list[SlotLink] = []
        self._ending: set[int] = set()  # lives whose lease ends
        self._progress: dict[int, messages.Progress] = {}
        self._records_before = 0  # of slots that are gone
        self._stopping = False
        self._failed: UserError | None = None  # what a slot has told while the others were still to stop
        self._paused = False
        self._asked_to_stop = threading.Event()  # known before the event is handled
        self._stop_by = math.inf
        self._fences_in_vain = False  # the last one: brokers were away
        self._errors: deque[dict[str, Any]] = deque(maxlen=_ERRORS_MAX)
        self._status = document(self.name, program.tasks, (), phase="starting")
        self._thread = RunThread(self._run, f"headwater-lead-{self.name}", self._tell_end)

    # From other threads

    def start(self) -> None:
        self._thread.start()

    def joined(self, link: SlotLink) -> None:
        self._events.put(_Event("joined", link))

    def gone(self, link: SlotLink) -> None:
        self._events.put(_Event("gone", link))

    def said(self, link: SlotLink, message: messages.OfApplication) -> None:
        self._events.put(_Event("said", link, message))

    def expect(self, slots: tuple[int, ...]) -> None:
        """These slots will end, and come again: as many of them soon as there are now."""
        self._events.put(_Event("expect", slots=slots))

    def pause(self, paused: bool) -> None:
        """In all slots, and in those that come; or they go on, if it is not to be paused."""
        self._paused = paused
        self._events.put(_Event("pause"))

    @property
    def paused(self) -> bool:
        return self._paused

    def ask_to_stop(self, error: UserError | None = None) -> None:
        """`error`: why, if it is none of its own doing; whoever waits is told."""
        self._events.put(_Event("stop", error=error))
        self._asked_to_stop.set()

    def wait_started(self, timeout: float | None = None) -> bool:
        """Until every task is open, or it has ended before; False if neither is so within `timeout` seconds. Raises
        what ended it.
        """
        started = self._thread.started.wait(timeout)
        if self._thread.error is not None:
            self.wait()
        return started

    def on_end(self, callback: Callable[[], None]) -> None:
        """Calls it when the application has ended, in its thread; at once if it has."""
        self._thread.end.add(callback)

    def wait(self, timeout: float | None = None) -> bool:
        """Until the application has ended; False if it has not within `timeout` seconds. Raises what ended it."""
        return self._thread.wait(timeout)

    def join(self) -> None:
        """Until it has ended, however."""
        self._thread.join()

    def join_run(self) -> None:
        """The same, but whoever hears of the end may still be called: it may be who waits here."""
        self._thread.end.wait()

    @property
    def running(self) -> bool:
        return self._thread.is_alive

    @property
    def status(self) -> dict[str, Any]:
        return self._status

    # The thread

    def _tell_end(self) -> None:
        error = self._thread.error
        state = "stopped" if error is None else "failed"
        tasks = [{**task, "slot": None, "state": "stopped"} for task in self._status["tasks"]]
        ended = {"state": state, "error": str(error or ""), "slots": [], "tasks": tasks}
        self._status = {**self._status, **ended}

    def _run(self) -> None:
        self._lead = lead = self._make_lead(self._program)
        lead.given_up = self._asked_to_stop.is_set
        clean = False
        try:
            try:
                self._run_started = lead.drive(protocol.start_steps(()))
            except Stopped:
                return self._handle_all()
            self._member = self._run_started.member
            try:
                while not self._stopping:
                    self._turn(_TICK_S)
            except BaseException:
                self._stop_slots()
                raise
            clean = self._stop_slots()
            if self._failed is not None:
                raise self._failed
        finally:
            if clean and self._program.settings.leave_on_stop:
                lead.leave()
            else:
                lead.close()

    def _handle_all(self) -> None:
        """Of a run that ends before it has begun: no slot knows of it. Raises why it was to end."""
        self._stopping = True
        while not self._events.empty():
            self._handle(self._events.get_nowait())

    def _turn(self, patience_s: float) -> None:
        try:
            event: _Event | None = self._events.get(timeout=patience_s)
        except queue.Empty:
            event = None
        while event is not None:
            self._handle(event)
            event = None if self._events.empty() else self._events.get_nowait()
        self._tick()
        self._do(self._moves.tick(_now_ms()))
        self._show()
        if self._moves.all_open and not self._thread.started.is_set():
            self._thread.started.set()

    def _tick(self) -> None:
        """The membership, and what brokers that were away have left undone."""
        if self._bravely(self._lead.tick) is not None:
            return
        self._follow_member()
        for link in self._to_admit[:]:
            if self._stop_waits:
                return
            self._admit(link)
        for fence in self._moves.unfenced():
            if self._stop_waits:
                return
            self._do(self._fence(fence.slot, fence.life))

    @property
    def _stop_waits(self) -> bool:
        """Each question to brokers that are away takes a minute: it is not to wait for one about each slot."""
        return self._asked_to_stop.is_set() and not self._stopping

    def _follow_member(self) -> None:
        """It may have joined again since, and slots commit as the member."""
        member = self._lead.member()
        if member != self._member:
            self._member = member
            for link in self._links.values():
                link.send(messages.NewMember(self.name, member.generation, member.member_id))

    def _handle(self, event: _Event) -> None:
        link = event.link
        if event.kind == "stop":
            self._stopping = True
            if event.error is not None:
                raise event.error
        elif event.kind == "pause":
            for each in self._links.values():
                each.send(messages.Pause(self.name, self._paused))
        elif event.kind == "expect":
            self._moves.expect(event.slots, _now_ms() + _RETURN_PATIENCE_MS, max(len(self._links), 1))
            self._ending = set(self._links)
        elif event.kind == "joined":
            assert link is not None
            known = link.life in self._links or any(each.life == link.life for each in self._to_admit)
            if self._stopping or known:  # one that comes while the application starts may be told twice
                return
            if self._expected:  # the first one is here: the others have so long
                self._moves.expect(self._expected, _now_ms() + _START_PATIENCE_MS)
                self._expected = ()
            self._admit(link)
        elif event.kind == "gone":
            assert link is not None
            if self._moves.is_current(link.number, link.life):
                self._note_error(f"the slot is gone: {link.process}", link.number)
            self._forget(link)
            self._do(self._moves.lost(link.number, link.life, _now_ms()))
        elif event.message is not None:
            assert link is not None
            self._hear(link, event.message)

    def _hear(self, link: SlotLink, message: messages.OfApplication) -> None:
        """An earlier run of the same name may still end in the slot: what it says is not of this one."""
        if link.life not in self._links or message.run != self._run_started.number:
            return
        now, slot = _now_ms(), (link.number, link.life)
        match message:
            case messages.Ready(_, states, place):
                self._do(self._moves.ready(*slot, states, now, place))
            case messages.Owned(_, grant, tasks, standbys):
                self._do(self._moves.owned(*slot, grant, tasks, now, standbys))
            case messages.Released():
                self._forget(link)
                self._do(self._moves.released(*slot, now))
            case messages.GaveUp():
                self._note_error("the slot gave its tasks up", link.number)
                self._forget(link)
                self._do(self._moves.lost(*slot, now))
                if not self._stopping and link.life not in self._ending:
                    self._to_admit.append(link)  # its process lives: it begins anew, under another producer epoch
            case messages.Progress():
                self._progress[link.life] = message
                lags = {str(row["task"]): row["lag"] for row in message.standbys if row["lag"] is not None}
                self._do(self._moves.lags(*slot, lags, now))
            case messages.AskProducer():
                self._answer_producer(link)
            case messages.CommitOffsets(_, offsets):
                self._answer_offsets(link, offsets)
            case messages.Failed(_, what, why, hint):
                failed = UserError(what, why, hint)
                self._failed = self._failed or failed
                self._moves.close()  # nobody else shall fail over it
                self._forget(link)
                self._do(self._moves.lost(*slot, now))
                if not self._stopping:  # else the others are on their way to their last commit: `_run` raises it
                    raise failed

    # What is done

    def _do(self, actions: list[Action]) -> None:
        todo = list(actions)
        while todo:
            action = todo.pop(0)
            if isinstance(action, Grant):
                link = self._links.get(action.life)
                if link is not None:
                    link.send(messages.Assign(self.name, action.number, list(action.tasks), list(action.standbys)))
            else:
                todo += self._fence(action.slot, action.life)

    def _fence(self, slot: int, life: int) -> list[Action]:
        """When the patience of a stop is over, not while brokers are away. What the slot has open then ends with its
        time-out, or the next run fences it.
        """
        if self._fences_in_vain and time.monotonic() >= self._stop_by:
            return []
        error = self._bravely(lambda: self._take(slot))
        self._fences_in_vain = error is not None
        return self._moves.fenced(slot, life, _now_ms()) if error is None else []

    def _take(self, slot: int) -> protocol.SlotProducer:
        name = slot_id(self.name, slot)
        self._follow_member()
        if not self._program.settings.exactly_once:
            self._lead.drive(_check_steps(self._member))
            return protocol.SlotProducer(name, -1, -1)
        taken: protocol.SlotProducer = self._lead.drive(protocol.fence_steps(name, self._member))
        return taken

    def _admit(self, link: SlotLink) -> None:
        """Tells a slot that came who it is. Its number may have been another's: that one is fenced by this, too."""
        found: list[protocol.SlotProducer] = []
        if self._bravely(lambda: found.append(self._take(link.number))) is not None:
            if link not in self._to_admit:
                self._to_admit.append(link)
            return
        if link in self._to_admit:
            self._to_admit.remove(link)
        self._links[link.life] = link
        member, (producer,) = self._member, found
        for fence in self._moves.unfenced():
            if fence.slot == link.number:
                self._do(self._moves.fenced(fence.slot, fence.life, _now_ms()))
        link.send(
            messages.Introduce(
                self.name,
                self._pickled,
                self._run_started.number,
                member.generation,
                member.member_id,
                member.instance_id,
                producer.producer_id,
                producer.epoch,
            )
        )
        if self._paused:
            link.send(messages.Pause(self.name, paused=True))

    def _answer_producer(self, link: SlotLink) -> None:
        """Also where the run ends over it, because another has taken over: the slot waits for an answer, with the state
        of its tasks open, and nobody would give it one.
        """
        found: list[protocol.SlotProducer] = []
        error: Exception | None = None
        try:
            error = self._bravely(lambda: found.append(self._take(link.number)))
        except Exception as ended:
            error = ended
            raise
        finally:
            self._tell_producer(link, found[0] if found else protocol.SlotProducer("", -1, -1), error)

    def _tell_producer(self, link: SlotLink, producer: protocol.SlotProducer, error: Exception | None) -> None:
        refused = "" if error is None else str(error) or type(error).__name__
        member = self._member
        link.send(
            messages.Producer(
                self.name, producer.producer_id, producer.epoch, member.generation, member.member_id, refused
            )
        )

    def _answer_offsets(self, link: SlotLink, rows: list[Any]) -> None:
        offsets = {TopicPartition(str(t), int(p)): OffsetAndMetadata(int(o), str(m)) for t, p, o, m in rows}
        try:
            self._lead.commit(offsets)
        except KafkaError as error:
            link.send(messages.OffsetsCommitted(self.name, int(error.code), str(error)))
        except TimeoutError as error:
            link.send(messages.OffsetsCommitted(self.name, int(ErrorCode.REQUEST_TIMED_OUT), str(error)))
        else:
            link.send(messages.OffsetsCommitted(self.name, 0))

    def _bravely(self, ask: Callable[[], Any]) -> Exception | None:
        """What went wrong for the moment; raises what does not pass."""
        try:
            ask()
        except (KafkaError, TimeoutError) as error:
            if not passes(error):
                raise
            self._warn(error)
            return error
        return None

    def _warn(self, error: Exception) -> None:
        _log.warning("the cluster does not answer application=%s error=%s", self.name, error)
        self._note_error(f"the cluster does not answer: {error}")

    def _forget(self, link: SlotLink) -> None:
        self._links.pop(link.life, None)
        if link in self._to_admit:
            self._to_admit.remove(link)
        told = self._progress.pop(link.life, None)
        self._records_before += told.records if told is not None else 0

    def _stop_slots(self) -> bool:
        """Slots commit and let go; whoever does not answer is fenced. Whether nothing of this run can be written any
        more.
        """
        self._stopping = True
        self._moves.close()
        self._to_admit.clear()  # nobody would tell them to stop, and they would be waited for
        for link in self._links.values():
            link.send(messages.StopApplication(self.name))
        self._stop_by = time.monotonic() + _STOP_PATIENCE_S
        try:
            while self._links and time.monotonic() < self._stop_by:
                self._turn(0.05)
            for link in list(self._links.values()):
                self._forget(link)
                self._do(self._moves.lost(link.number, link.life, _now_ms()))
        except (UserError, KafkaError) as error:
            _log.warning("the application did not stop cleanly application=%s error=%s", self.name, error)
            return False
        return self._moves.idle and self._failed is None

    def _show(self) -> None:
        slots = []
        for link in sorted(self._links.values(), key=lambda link: link.number):
            told = self._progress.get(link.life, _NOTHING)
            tasks = self._moves.tasks_of(link.number)
            shown = (told.records, told.dropped, told.tasks, told.errors, told.standbys, told.queries)
            slots.append(SlotStatus(link.number, link.process, link.life, tasks, *shown))
        self._status = document(
            self.name,
            self._moves.tasks,
            slots,
            self._moves.had_owner,
            phase="stopping" if self._stopping else "",
            records_before=self._records_before,
            errors=list(self._errors),
            paused=self._paused,
        )

    def _note_error(self, what: str, slot: int | None = None) -> None:
        self._errors.append({"at_ms": time.time_ns() // 1_000_000, "slot": slot, "error": what})


def _check_steps(member: protocol.Member) -> protocol.Steps:
    """Where there are no transactions, a slot is fenced by its connection: it commits through the lead."""
    yield protocol.StillMember(member)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
