"""`app.run_here()`: an application in this process, one slot in a thread of its own.

    run = app.run_here(state_dir="state")
    ...
    run.stop()

The thread owns everything; other threads only ask it to stop, and look into stores. A clean stop commits, leaves no
transaction open, and leaves the group. What a record's processing raises ends the run; `stop` and `wait` raise it.
"""

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import UserError
from headwater.streams.lead.membership import lead_of
from headwater.streams.lead.run_thread import RunThread
from headwater.streams.lead.status import SlotStatus, document, this_process
from headwater.streams.lead.status_server import publish
from headwater.streams.protocol import task_ownership as protocol
from headwater.streams.protocol.transactional_ids import slot_id
from headwater.streams.query.local import LocalStore
from headwater.streams.query.server import QueryServer
from headwater.streams.slot.open_task import Stopped
from headwater.streams.slot.program import Program, prepare
from headwater.streams.slot.settings import RunSettings
from headwater.streams.slot.slot import Slot, new_slot

if TYPE_CHECKING:
    from headwater.streams.dsl.app import App

_log: Final = logging.getLogger("headwater.streams")


class LocalRun:
    def __init__(self, app: "App", settings: RunSettings, stopping: threading.Event | None = None) -> None:
        """`stopping`: ends the run when it is set, also while `start` waits for state that is being restored."""
        self._app = app
        self._settings = settings
        self._stopping = stopping or threading.Event()
        self._paused = threading.Event()
        self._slot: Slot | None = None
        self._opening: Slot | None = None
        self._program: Program | None = None
        self.queries: QueryServer | None = None
        self._thread = RunThread(self._run, f"headwater-streams-{app.name}")

    def start(self) -> "LocalRun":
        """Returns when all tasks are open, or the run was told to stop before; raises what kept them from it."""
        self._thread.start()
        self._thread.started.wait()
        if not self._thread.is_alive or self._thread.error is not None:
            self.wait()
        return self

    def ask_to_stop(self, error: UserError | None = None) -> None:
        """Commits and ends, some time. `error`: why, if it is none of its own doing; whoever waits is told."""
        if error is not None and self._thread.error is None:
            self._thread.error = error
        self._stopping.set()

    def stop(self) -> None:
        """Commits and ends. While brokers are away it ends without: the next run processes again what was not
        committed. A function of the application that calls this is not held up: the run ends when it has returned.
        """
        self._stopping.set()
        self.wait()

    def pause(self) -> None:
        """No further record is processed, and no punctuator is called, until `resume`. The run stays in its group, and
        commits what it has processed.
        """
        self._paused.set()

    def resume(self) -> None:
        self._paused.clear()

    @property
    def paused(self) -> bool:
        return self._paused.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Until the run has ended; False if it has not within `timeout` seconds. Raises what ended it."""
        return self._thread.wait(timeout)

    def store(self, name: str) -> LocalStore:
        """A store to read, as of the last commit that is written: while its task is behind, five seconds old or more;
        of all partitions.
        """
        if self._slot is None:
            raise UserError(f"The application {self._app.name} does not run", "stores are read while it does")
        return LocalStore(name, self._slot.tasks, lambda: self.running)

    @property
    def task_count(self) -> int:
        return len(self._slot.tasks) if self._slot is not None else 0

    @property
    def running(self) -> bool:
        return self._thread.is_alive and self._thread.error is None

    def __enter__(self) -> "LocalRun":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def on_end(self, callback: Callable[[], None]) -> None:
        """Calls it when the run has ended, in the run's thread; at once if it has."""
        self._thread.end.add(callback)

    def status(self) -> dict[str, Any]:
        """Tasks with their positions, lag and how much is restored; what went wrong lately. See `lead.status`."""
        slot, program = self._opening, self._program
        if slot is None or program is None:
            has_ended, error = self._thread.end.has_ended, self._thread.error  # the error is there before the end
            phase = "failed" if error is not None else "stopped" if has_ended else "starting"
            told = document(self._app.name, program.tasks if program is not None else (), (), phase=phase)
            return {**told, "error": str(error or "")}
        tasks = [task.name for task in slot.tasks if task.is_running]
        rows, errors = slot.report.rows(slot.tasks), slot.report.errors
        mine = SlotStatus(0, this_process(), 1, tasks, slot.fetched, dict(slot.dropped), rows, errors)
        phase = "stopping" if self._stopping.is_set() else ""
        return document(self._app.name, program.tasks, [mine], phase=phase, paused=self.paused)

    def restoring(self) -> list[tuple[str, int, int, int]]:
        """Of stores that are being restored: name, partition, how far the changelog is read, and where it ends. Empty
        when the run has all its state. Called by any thread.
        """
        slot = self._opening
        if slot is None or self._slot is not None:
            return []
        return [
            (task.changelogs[changelog].name, changelog.partition, position, end)
            for task in list(slot.tasks)
            for changelog, position, end in task.restore.positions()
        ]

    def _run(self) -> None:
        self._program = program = prepare(self._app, self._settings)
        published = publish(self._app.name, self.status, self._settings.state_dir)
        try:
            self._run_program(program)
        finally:
            published.close()

    def _run_program(self, program: Program) -> None:
        lead = lead_of(program)
        lead.given_up = self._stopping.is_set
        clean = False
        try:
            name = slot_id(self._app.name, 0)
            try:
                run: protocol.Run = lead.drive(protocol.start_steps((name,)))
            except Stopped:  # the group has not taken the member yet: nothing was begun
                return
            self._opening = slot = new_slot(program, lead, run, name, program.tasks, self._stopping)
            slot.is_paused = self._paused.is_set
            try:
                slot.open()
                self._slot = slot
                self._serve_queries()
                self._thread.started.set()
                while not self._stopping.is_set():
                    slot.turn()
                slot.commit()
                clean = True
            except Stopped:
                clean = self._slot is None  # still restoring: there was nothing to commit
                if not clean:
                    _log.warning(
                        "ended without a last commit: the next run goes on before it application=%s", self._app.name
                    )
            except BaseException:
                slot.give_up()
                raise
            finally:
                self._slot = self._opening = None
                if self.queries is not None:
                    self.queries.stop()
                slot.close()
        finally:
            if clean and self._settings.leave_on_stop:
                lead.leave()
            else:
                lead.close()

    def _serve_queries(self) -> None:
        settings = self._settings
        if settings.queries is None:
            return
        server = QueryServer(
            self._app.name,
            lambda: self._slot.tasks if self._slot is not None else (),
            port=settings.queries,
            host=settings.queries_host,
            token=settings.queries_token,
            door=settings.queries_door,
            client=settings.for_admins,
        )
        self.queries = server.start()
