"""An application in a slot that is a process of its own: one thread, which opens, processes and releases the tasks that
the lead gives it.

    Introduce -> Ready;  Assign -> (commit, release, open) -> Owned;  stop -> (commit, close) -> Released, or GaveUp

The thread that reads the connection calls `assign`, `pause`, `answer`, `stop` and `lose`, which only leave a note; an
earlier run of the application in this slot is waited for here, and not there. Whatever is raised here ends the
application's part in this slot, and is told to the lead; other applications of the slot go on.
"""

import base64
import contextlib
import logging
import pickle
import re
import socket
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from headwater.base.errors import KafkaError, UserError
from headwater.client.admin import Admin
from headwater.client.errors import passes
from headwater.spark.slots.frames import ChannelClosed
from headwater.streams.protocol import slot_messages as messages
from headwater.streams.protocol import task_ownership as protocol
from headwater.streams.protocol.transactional_ids import slot_id
from headwater.streams.slot.open_task import Stopped
from headwater.streams.slot.program import Program
from headwater.streams.slot.remote_lead import LeadLost, RemoteLead
from headwater.streams.slot.slot import Slot, new_slot
from headwater.streams.slot.standby_tasks import StandbyTasks

if TYPE_CHECKING:
    from headwater.streams.query.server import QueryServer

_log: Final = logging.getLogger("headwater.streams")
_TASK: Final = re.compile(r"\d+_\d+")
_PATIENCE_S: Final = 600.0  # with brokers that are away while the slot starts
_PAUSE_S: Final = 0.25
_COPIES_PAUSE_S: Final = 0.05  # between two looks at changelogs, in a slot that has copies and no task
_OPENINGS_BITS: Final = 20  # a slot may open its tasks so often (2 to the power of it) under one grant

T = TypeVar("T")


class HostedApplication:
    def __init__(
        self,
        number: int,
        introduced: messages.Introduce,
        send: Callable[[messages.Message], None],
        address: str = "127.0.0.1",
        before: "HostedApplication | None" = None,
    ) -> None:
        """`address`: of this machine, where queries of the application's stores are answered. `before`: an earlier run
        of the application in this slot, which is to end; this one begins when it has.
        """
        self._before = before
        self._address = address
        self._queries: QueryServer | None = None
        self.name = introduced.application
        self._number = number
        self._introduced = introduced
        self._send_to_lead = send
        self._changed = threading.Condition()
        self._wanted: messages.Assign | None = None
        self._member: messages.NewMember | None = None  # the last that was told; it may come before there is a lead
        self._stopping = threading.Event()
        self._paused = threading.Event()
        self._lost = False
        self._lead: RemoteLead | None = None
        self._slot: Slot | None = None
        self._standbys: StandbyTasks | None = None
        self._fetched_before = 0
        self._producer_used = False  # a slot was made with the one that the lead has introduced
        self._thread = threading.Thread(target=self._main, name=f"headwater-streams-{self.name}", daemon=True)
        self._thread.start()

    # From the thread of the connection

    def assign(self, message: messages.Assign) -> None:
        with self._changed:
            self._wanted = message
            self._changed.notify()

    def pause(self, paused: bool) -> None:
        """Processes nothing for now, or goes on."""
        if paused:
            self._paused.set()
        else:
            self._paused.clear()

    def answer(self, message: messages.Message) -> None:
        if isinstance(message, messages.NewMember):
            with self._changed:
                self._member = message
                if self._lead is not None:
                    self._lead.member_changed(message.generation, message.member_id)
        elif isinstance(message, messages.Producer | messages.OffsetsCommitted) and self._lead is not None:
            self._lead.answer(message)

    def stop(self) -> None:
        with self._changed:
            self._stopping.set()
            self._changed.notify()

    def lose(self) -> None:
        """The lead is gone: nothing may be committed any more."""
        self._lost = True
        lead = self._lead
        if lead is not None:
            lead.lose()
        self.stop()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def join(self) -> None:
        self._thread.join()

    def progress(self) -> messages.Progress:
        slot, standbys, queries = self._slot, self._standbys, self._queries
        url = queries.url if queries is not None else ""
        copies = standbys.rows() if standbys is not None else []
        errors = standbys.errors if standbys is not None else []
        if slot is None:
            return messages.Progress(self.name, self._fetched_before, {}, [], errors, copies, url, self._introduced.run)
        report = slot.report
        shown = (dict(slot.dropped), report.rows(slot.tasks), report.errors + errors, copies, url, self._introduced.run)
        return messages.Progress(self.name, self._fetched_before + slot.fetched, *shown)

    # The application's thread

    def _send(self, message: messages.OfApplication) -> None:
        self._send_to_lead(replace(message, run=self._introduced.run))

    def _main(self) -> None:
        if self._before is not None:  # it may hold the directories of tasks
            self._before.join()
            self._before = None
        try:
            told: messages.OfApplication = self._run()
        except (Stopped, LeadLost, ChannelClosed):
            told = messages.GaveUp(self.name)
        except UserError as error:
            told = messages.Failed(self.name, error.what, error.why, error.hint)
        except BaseException as error:  # noqa: BLE001 - the lead is told
            _log.exception("the application fails in this slot application=%s slot=%s", self.name, self._number)
            last = traceback.format_exception(error)[-1].strip()
            told = messages.Failed(self.name, f"The application {self.name} failed in slot {self._number}", last)
        if not self._lost:  # then nobody listens, or another run of the application does
            with contextlib.suppress(ChannelClosed):
                self._send(told)

    def _run(self) -> messages.OfApplication:
        pickled = base64.b64decode(self._introduced.program)
        program: Program = pickle.loads(pickled)  # noqa: S301 - from the lead, which has proved that it is
        with Admin(program.settings.for_admins) as admin:
            lead = self._make_lead(admin)
            if self._lost:  # before there was anybody to tell
                raise LeadLost
            directory = program.state_directory(self._patiently(admin.describe_cluster).cluster_id)
            states = [path.name for path in directory.glob("*_*") if _TASK.fullmatch(path.name)]
            place = f"{socket.gethostname()}:{directory.resolve()}"
            self._send(messages.Ready(self.name, sorted(states), place))
            try:
                self._serve_queries(program)
                self._serve(program, lead, directory)
            except BaseException:
                if self._slot is not None:
                    self._slot.give_up()
                raise
            finally:
                with contextlib.ExitStack() as all_of_it:  # the last one first
                    all_of_it.callback(self._end_slot)
                    all_of_it.callback(self._end_standbys)
                    if self._queries is not None:
                        all_of_it.callback(self._queries.stop)
        return messages.Released(self.name)

    def _make_lead(self, admin: Admin) -> RemoteLead:
        lead = RemoteLead(self._introduced, admin, self._send, self._stopping)
        with self._changed:  # until the lead knows it: else an older member could be told after a newer one
            self._lead, member = lead, self._member
            if member is not None:
                lead.member_changed(member.generation, member.member_id)
        return lead

    def _serve(self, program: Program, lead: RemoteLead, directory: Path) -> None:
        while True:
            wanted = self._next()
            if self._stopping.is_set():
                if self._lost:
                    raise LeadLost
                if self._slot is not None:
                    self._slot.commit()
                return
            if wanted is not None:
                self._change(program, lead, wanted, directory)
                self._send(messages.Owned(self.name, wanted.grant, wanted.tasks, wanted.standbys))
            if self._slot is not None:
                self._slot.turn()
            if self._standbys is not None:
                self._standbys.turn()

    def _next(self) -> messages.Assign | None:
        """What the lead wants now, if that is news; without tasks, waits for it, but not for long while there are
        copies.
        """
        with self._changed:
            while self._slot is None and self._wanted is None and not self._stopping.is_set():
                if not self._changed.wait(None if self._standbys is None else _COPIES_PAUSE_S):
                    break
            wanted, self._wanted = self._wanted, None
        return wanted

    def _change(self, program: Program, lead: RemoteLead, wanted: messages.Assign, directory: Path) -> None:
        epoch = wanted.grant << _OPENINGS_BITS
        if self._standbys is not None:  # first: a task that is opened now may have a copy here
            self._standbys.keep(wanted.standbys)
        if self._slot is None and wanted.tasks:
            self._slot = self._patiently(lambda: self._open_slot(program, lead))
        if self._slot is not None:
            self._slot.change_tasks(wanted.tasks, epoch)
            if not wanted.tasks:
                self._end_slot()
        if wanted.standbys:  # last: a task that was released now may be copied from now on
            if self._standbys is None:
                self._standbys = StandbyTasks(program, lead.admin, directory, self._introduced.run)
            self._standbys.add(wanted.standbys, epoch)
        else:
            self._end_standbys()

    def _open_slot(self, program: Program, lead: RemoteLead) -> Slot:
        slot = self._make_slot(program, lead)
        slot.is_paused = self._paused.is_set
        try:
            slot.open()
        except BaseException:
            slot.close()
            raise
        return slot

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Again while brokers are away; raises what does not pass."""
        give_up_at = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return ask()
            except (KafkaError, TimeoutError) as error:
                if not passes(error) or time.monotonic() > give_up_at:
                    raise
                _log.warning("the slot does not start yet application=%s error=%s", self.name, error)
            if self._stopping.wait(_PAUSE_S):
                raise Stopped

    def _make_slot(self, program: Program, lead: RemoteLead) -> Slot:
        told, name = self._introduced, slot_id(self.name, self._number)
        producer = protocol.SlotProducer(name, told.producer_id, told.producer_epoch)
        if self._producer_used:  # its epoch may have gone on, also where no record was read
            producer = lead.do(protocol.TakeProducerId(name))
        self._producer_used = True
        run = protocol.Run(lead.member(), told.run, {name: producer})
        return new_slot(program, lead, run, name, (), self._stopping)

    def _serve_queries(self, program: Program) -> None:
        """Of the tasks that this slot owns. The lead's door asks all slots, so a port of any number will do.

        A slot that answers none loads no server: that is a quarter of what it imports before it can begin.
        """
        if program.settings.queries is None:
            return
        from headwater.streams.query.server import QueryServer
        from headwater.streams.query.slots import SlotDirectory

        program.settings.refuse_door_of_slots()
        self._queries = QueryServer(
            self.name,
            lambda: slot.tasks if (slot := self._slot) is not None else (),
            host=self._address,
            token=program.settings.queries_token,
            directory=SlotDirectory(program.sub_topologies, program.topics.tasks),
        ).start()

    def _end_standbys(self) -> None:
        standbys, self._standbys = self._standbys, None
        if standbys is not None:
            standbys.close()

    def _end_slot(self) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            self._fetched_before += slot.fetched
            slot.close()
