"""The Coordination port of one process, against a simulated ZooKeeper."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeVar

from headwater.base.coordination import (
    ConnectionLost,
    CoordinationError,
    Node,
    SessionLost,
    SessionState,
    Write,
    Written,
)
from headwater.base.ports import Scheduler
from headwater.sim.zookeeper_link import Link
from headwater.sim.zookeeper_session import Session
from headwater.sim.zookeeper_tree import Changed

Result = TypeVar("Result")

_RECONNECT_MS_MAX: Final = 100
_HEARTBEATS_PER_TIMEOUT: Final = 4
_HEARTBEATS_UNANSWERED_MAX: Final = 2


class Service(Protocol):
    """What `SimZooKeeper` is to its clients."""

    def open_link(self, client: "SimCoordination", ended: Callable[[], None]) -> Link | None: ...

    def connect(self, client: "SimCoordination", link: Link, session_id: int, watches: Iterable[int]) -> None: ...

    def serve(
        self, session_id: int, request: Callable[[Session], Result], answered: Callable[[Result], None]
    ) -> None: ...

    def write(
        self, session: Session, writes: Sequence[Write]
    ) -> tuple[list[Written] | None, CoordinationError | None]: ...

    def close(self, session_id: int) -> None: ...


class SimCoordination:
    on_state: Callable[[SessionState], None]

    def __init__(
        self, service: Service, scheduler: Scheduler, randomness: random.Random, session_timeout_ms: int
    ) -> None:
        self.scheduler = scheduler
        self.session_timeout_ms = session_timeout_ms
        self.link: Link | None = None
        self.on_state = lambda _state: None
        self._service = service
        self._random = randomness
        self._session_id = 0
        self._is_connected = False
        self._is_closed = False
        self._count = 0  # of requests and watches, which are known by their numbers
        self._pending: dict[int, Callable[[CoordinationError], None]] = {}
        self._watches: dict[int, Callable[[], None]] = {}
        self._unanswered = 0

    @property
    def session_id(self) -> int:
        return self._session_id

    def start(self) -> None:
        self.scheduler.call_soon(self._connect)

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._is_connected:
            self._service.close(self._session_id)
        if self.link is not None:
            self.link.forget()
        self._session_id = 0
        self._is_connected = False

    def get(
        self,
        path: str,
        done: Callable[[Node | None, CoordinationError | None], None],
        watch: Callable[[], None] | None = None,
    ) -> None:
        number = self._number()

        def read(session: Session) -> tuple[Node | None, bool]:
            if watch is not None:
                session.watches.add(number, Changed(path, children=False))
            return session.tree.get(path), True

        self._read(read, done, number, watch)

    def children(
        self,
        path: str,
        done: Callable[[list[str] | None, CoordinationError | None], None],
        watch: Callable[[], None] | None = None,
    ) -> None:
        number = self._number()

        def read(session: Session) -> tuple[list[str] | None, bool]:
            names = session.tree.children(path)
            if watch is not None and names is not None:
                session.watches.add(number, Changed(path, children=True))
            return names, names is not None

        self._read(read, done, number, watch)

    def write(
        self, writes: Sequence[Write], done: Callable[[list[Written] | None, CoordinationError | None], None]
    ) -> None:
        taken = tuple(writes)
        self._ask(
            lambda session: self._service.write(session, taken),
            lambda outcome: done(*outcome),
            lambda problem: done(None, problem),
        )

    # --- what the service sends

    def session_given(self, session_id: int) -> None:
        self._unanswered = 0
        self._session_id = session_id
        self._is_connected = True
        self._tell(SessionState.CONNECTED)

    def session_refused(self) -> None:
        """The session that it had is over. The link serves for a new one."""
        self._unanswered = 0
        self._session_id = 0
        self._watches.clear()
        if self.link is not None:
            self._ask_for_session(self.link)
        self._tell(SessionState.LOST)

    def watch_told(self, number: int) -> None:
        self._unanswered = 0
        watch = self._watches.pop(number, None)
        if watch is not None and not self._is_closed:
            watch()

    # --- inside

    def _connect(self) -> None:
        if self._is_closed:
            return
        link = self._service.open_link(self, lambda: self._dropped(link))
        if link is None:
            self._connect_later()
            return
        self.link = link
        self._unanswered = 0
        self._ask_for_session(link)
        self.scheduler.call_later(self._heartbeat_ms(), lambda: self._heartbeat(link))

    def _connect_later(self) -> None:
        self.scheduler.call_later(self._random.randint(1, _RECONNECT_MS_MAX), self._connect)

    def _ask_for_session(self, link: Link) -> None:
        session_id, watches = self._session_id, tuple(self._watches)
        link.to_service(lambda: self._service.connect(self, link, session_id, watches))

    def _heartbeat_ms(self) -> int:
        return self.session_timeout_ms // _HEARTBEATS_PER_TIMEOUT

    def _heartbeat(self, link: Link) -> None:
        if self._is_closed or self.link is not link:
            return
        if self._unanswered >= _HEARTBEATS_UNANSWERED_MAX:
            self._dropped(link)
            return
        self._unanswered += 1
        if self._is_connected:
            session_id = self._session_id
            link.to_service(lambda: self._service.serve(session_id, lambda _session: None, lambda _none: self._heard()))
        self.scheduler.call_later(self._heartbeat_ms(), lambda: self._heartbeat(link))

    def _heard(self) -> None:
        self._unanswered = 0

    def _dropped(self, link: Link | None) -> None:
        if self._is_closed or link is None or self.link is not link:
            return
        link.cut()
        self.link = None
        was_connected, self._is_connected = self._is_connected, False
        failed, self._pending = self._pending, {}
        self._connect_later()
        is_told_first = self._random.random() < 0.5
        if was_connected and is_told_first:
            self._tell(SessionState.SUSPENDED)
        for fail in failed.values():
            if not self._is_closed:
                fail(ConnectionLost())
        if was_connected and not is_told_first:
            self._tell(SessionState.SUSPENDED)

    def _tell(self, state: SessionState) -> None:
        if not self._is_closed:
            self.on_state(state)

    def _number(self) -> int:
        self._count += 1
        return self._count

    def _read(
        self,
        read: Callable[[Session], tuple[Result | None, bool]],
        done: Callable[[Result | None, CoordinationError | None], None],
        number: int,
        watch: Callable[[], None] | None,
    ) -> None:
        def answered(outcome: tuple[Result | None, bool]) -> None:
            result, is_watched = outcome
            if watch is not None and is_watched:
                self._watches[number] = watch
            done(result, None)

        self._ask(read, answered, lambda problem: done(None, problem))

    def _ask(
        self,
        request: Callable[[Session], Result],
        answered: Callable[[Result], None],
        failed: Callable[[CoordinationError], None],
    ) -> None:
        link = self.link
        if link is None or not self._is_connected:
            problem = ConnectionLost() if self._session_id else SessionLost()
            self.scheduler.call_soon(lambda: None if self._is_closed else failed(problem))
            return
        number = self._number()
        self._pending[number] = failed

        def answer(result: Result) -> None:
            self._unanswered = 0
            del self._pending[number]
            if not self._is_closed:
                answered(result)

        session_id = self._session_id
        link.to_service(lambda: self._service.serve(session_id, request, answer))
