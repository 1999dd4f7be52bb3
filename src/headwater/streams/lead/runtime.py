"""Slots and the applications that share them. Whoever supplies the slots (Spark) tells them where this listens, and the
secret.

Applications know nothing of each other: each has a lead with a thread of its own, and one that fails leaves the others
running. What slots say goes to the application that it is about. No state but who is there.
"""

import threading
from collections.abc import Callable
from typing import Final

from headwater.base.errors import UserError
from headwater.spark.slots.frames import FRAME_MAX_BYTES, SILENCE_S
from headwater.spark.slots.slot_links import SlotLink, SlotServer
from headwater.streams.lead.application import ApplicationLead
from headwater.streams.lead.status_server import Published, publish
from headwater.streams.protocol.slot_messages import CODEC, Message, OfApplication
from headwater.streams.query.server import QueryServer
from headwater.streams.query.slots import LeadDirectory
from headwater.streams.slot.program import Program

_PROGRAM_MAX_BYTES: Final = (FRAME_MAX_BYTES - 65_536) // 4 * 3  # its frame has it as base64, and who the slot is


class SlotRuntime:
    def __init__(self, slots: int, *, host: str = "127.0.0.1", silence_s: float = SILENCE_S) -> None:
        self.slots = slots
        self._lock = threading.Lock()
        self._applications: dict[str, ApplicationLead] = {}
        self._published: dict[str, Published] = {}
        self._queries: dict[str, QueryServer] = {}
        self._server = SlotServer(self, CODEC, host, silence_s)

    @property
    def port(self) -> int:
        return self._server.port

    @property
    def secret(self) -> bytes:
        return self._server.secret

    @property
    def registered(self) -> list[SlotLink]:
        return self._server.links

    @property
    def applications(self) -> list[ApplicationLead]:
        with self._lock:
            return list(self._applications.values())

    @property
    def running(self) -> bool:
        return any(each.running for each in self.applications)

    def run(self, program: Program, pickled: str) -> ApplicationLead:
        """Raises UserError if an application of that name runs here, or if it is too large to be sent."""
        program.settings.refuse_door_of_slots()
        _refuse_too_large(program.name, len(pickled) // 4 * 3)
        with self._lock:
            known = self._applications.get(program.name)
            if known is not None and known.running:
                raise UserError(
                    f"The application {program.name} runs in this runtime already",
                    "a second run of it would replace the first",
                    "Stop the first one, or give this one another name",
                )
            application = ApplicationLead(program, pickled, tuple(range(self.slots)), self._load_beside(program.name))
            self._serve_queries(application, program)  # first: its port may be another's
            self._applications[program.name] = application
            self._publish(application, program)
            for link in self._server.links:
                application.joined(link)
            application.start()
        return application

    def forget(self, application: ApplicationLead) -> None:
        """One that was stopped: nothing of it stays, not even that it has been."""
        with self._lock:
            if self._applications.get(application.name) is application:
                del self._applications[application.name]
                published = self._published.pop(application.name, None)
                if published is not None:
                    published.close()
                door = self._queries.pop(application.name, None)
                if door is not None:
                    door.stop()

    def _publish(self, application: ApplicationLead, program: Program) -> None:
        """Also one that has failed is told of, until the runtime ends or the application runs again."""
        former = self._published.pop(program.name, None)
        if former is not None:
            former.close()
        status = publish(program.name, lambda: application.status, program.settings.state_dir)
        self._published[program.name] = status

    def _serve_queries(self, application: ApplicationLead, program: Program) -> None:
        """The door to the stores of all slots: of an application that asks for it."""
        former = self._queries.pop(program.name, None)
        if former is not None:
            former.stop()
        settings = program.settings
        if settings.queries is None:
            return
        assert settings.queries_token is not None, "slots are sent the secret with the program"
        directory = LeadDirectory(
            program.sub_topologies, program.topics.tasks, program.task_settings, lambda: application.status["slots"]
        )
        self._queries[program.name] = QueryServer(
            program.name,
            lambda: (),
            port=settings.queries,
            host=settings.queries_host,
            token=settings.queries_token,
            directory=directory,
            known=directory.known,
            names=directory.names,
        ).start()

    def queries(self, application: str) -> QueryServer | None:
        return self._queries.get(application)

    def end_lease(self, *, late_ones: bool = False) -> None:
        """Slots end and come again; nothing is lost, and nothing moves. `late_ones`: also those that come before
        `begin_lease`.
        """
        for each in self.applications:
            each.expect(tuple(range(self.slots)))
        self._server.end_lease(late_ones=late_ones)

    @property
    def present(self) -> int:
        return len(self._server.links)

    @property
    def losses(self) -> int:
        return self._server.losses

    def begin_lease(self) -> None:
        self._server.begin_lease()

    def fail(self, error: UserError) -> None:
        """There will be no slots any more."""
        for each in self.applications:
            each.ask_to_stop(error)

    def close(self) -> None:
        """Stops applications that run, then the slots."""
        for each in self.applications:
            each.ask_to_stop()
        for each in self.applications:
            if each.running:
                each.join_run()
        self._server.end_lease(late_ones=True)

    def close_port(self) -> None:
        """When no slot is left, or nobody waits for those that are."""
        self._server.close()
        for each in self._published.values():
            each.close()
        for server in self._queries.values():
            server.stop()
        self._published, self._queries = {}, {}

    def _load_beside(self, name: str) -> Callable[[], dict[int, int]]:
        def load() -> dict[int, int]:
            counts: dict[int, int] = {}
            for each in list(self._applications.values()):
                if each.name != name:
                    for slot in each.status["slots"]:
                        counts[slot["slot"]] = counts.get(slot["slot"], 0) + len(slot["tasks"])
            return counts

        return load

    # A `Listener`: called by the threads of connections

    def joined(self, link: SlotLink) -> None:
        with self._lock:
            for each in self._applications.values():
                each.joined(link)

    def said(self, link: SlotLink, message: Message) -> None:
        if isinstance(message, OfApplication):
            application = self._applications.get(message.application)
            if application is not None:
                application.said(link, message)

    def gone(self, link: SlotLink) -> None:
        with self._lock:
            for each in self._applications.values():
                each.gone(link)


def _refuse_too_large(application: str, size: int) -> None:
    """Slots hang up on such a message: each would end as soon as it has come, with all other applications in it."""
    if size > _PROGRAM_MAX_BYTES:
        raise UserError(
            f"The application {application} is too large to be sent to slots",
            f"its functions and what they hold are {size >> 20} MB, and {_PROGRAM_MAX_BYTES >> 20} MB are the most",
            "Load models and tables in a processor's init, or read them as a global table",
        )
