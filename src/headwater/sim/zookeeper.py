"""A simulated ZooKeeper: the service, and the Coordination port of one client process.

    zookeeper = SimZooKeeper(scheduler, random)
    coordination = zookeeper.client(process_scheduler)

Writes are carried out by one leader, in one order. A session reads from a server that lags behind
(`zookeeper_session.py`), over a link that delays (`zookeeper_link.py`). What a client process does and hears goes
through its own scheduler: a process that died, or that stands still, sends no heartbeat, and its session expires.

Faults, to be called by a test or a world: `cut_off` and `let_through`, `disconnect`, `expire`, `stop` and `resume`. All
chance is drawn from the one `random.Random`.
"""

import random
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from headwater.base.coordination import CoordinationError, Delete, Write, Written
from headwater.base.ports import Scheduler
from headwater.sim.zookeeper_client import SimCoordination
from headwater.sim.zookeeper_link import Link
from headwater.sim.zookeeper_session import Session, Transaction
from headwater.sim.zookeeper_tree import Tree

Result = TypeVar("Result")

DELAY_MS: Final = 5
NOTICE_MS_MAX: Final = 20  # until a client sees that its connection was reset
_TRANSACTIONS_KEPT: Final = 256


class SimZooKeeper:
    def __init__(
        self, scheduler: Scheduler, randomness: random.Random, *, delay_ms_max: int = DELAY_MS, lag_ms_max: int = 5
    ) -> None:
        self.tree = Tree()
        """What is committed; a test may look at it."""
        self.is_up = True
        self._scheduler = scheduler
        self._random = randomness
        self.delay_ms_max = delay_ms_max  # of a message, either way
        self._lag_ms_max = lag_ms_max
        self._number = 0
        self._transactions: deque[Transaction] = deque()
        self._forgotten = 0  # transactions that every session has applied, and that are kept no longer
        self._sessions: dict[int, Session] = {}
        self._last_session_id = 0
        self._cut_off: list[SimCoordination] = []

    def client(self, scheduler: Scheduler, session_timeout_ms: int = 1500) -> SimCoordination:
        return SimCoordination(self, scheduler, self._random, session_timeout_ms)

    # --- faults

    def cut_off(self, client: SimCoordination) -> None:
        """No message passes until `let_through`. The client sees a reset soon, or only that nothing comes any more."""
        self._cut_off.append(client)
        if client.link is not None:
            if self._random.random() < 0.5:
                client.link.end(NOTICE_MS_MAX)
            else:
                client.link.cut()

    def let_through(self, client: SimCoordination) -> None:
        self._cut_off = [other for other in self._cut_off if other is not client]

    def disconnect(self, client: SimCoordination) -> None:
        """Resets its connection once; it may come back at once."""
        if client.link is not None:
            client.link.end(NOTICE_MS_MAX)

    def expire(self, session_id: int) -> None:
        """The session is over at once, whatever its client does."""
        session = self._sessions.get(session_id)
        if session is not None:
            self._end(session)

    def stop(self) -> None:
        """The whole ensemble is down: nobody is answered, and no session grows older."""
        for session in list(self._sessions.values()):
            if session.link is not None:
                session.link.end(NOTICE_MS_MAX)
                session.link.arrive_now()
                session.link = None
        self.is_up = False
        for session in self._sessions.values():
            if session.expiry is not None:
                session.expiry.cancel()

    def resume(self) -> None:
        """It is back, and every session has its whole time-out again."""
        self.is_up = True
        for session in self._sessions.values():
            self._touch(session)

    @property
    def last_transaction(self) -> int:
        """Grows with every write, done or refused; no node was made by a later one."""
        return self._number

    def session_ids(self) -> list[int]:
        return list(self._sessions)

    # --- what clients send

    def open_link(self, client: SimCoordination, ended: Callable[[], None]) -> Link | None:
        """None if it does not get through."""
        if not self.is_up or any(other is client for other in self._cut_off):
            return None
        return Link(self._scheduler, client.scheduler, self._random, lambda: self.delay_ms_max, ended)

    def connect(self, client: SimCoordination, link: Link, session_id: int, watches: Iterable[int]) -> None:
        """With 0 for a new session. `watches` are those that the client still waits for."""
        if not self.is_up:
            link.end(NOTICE_MS_MAX)
            return
        if session_id and session_id not in self._sessions:
            link.to_client(client.session_refused)
            return
        session = self._sessions[session_id] if session_id else self._new_session(client.session_timeout_ms)
        if session.link is not None:
            session.link.forget()
        session.link = link
        session.tell_watch = lambda number: link.to_client(lambda: client.watch_told(number))
        link.to_client(lambda: client.session_given(session.session_id))
        for number in watches:
            if number not in session.watches:
                session.tell_watch(number)  # it was told, but lost on its way
        self._touch(session)

    def serve(self, session_id: int, request: Callable[[Session], Result], answered: Callable[[Result], None]) -> None:
        session = self._sessions.get(session_id)
        if session is None:
            return
        self._touch(session)
        result = request(session)
        if session.link is not None:
            session.link.to_client(lambda: answered(result))

    def write(self, session: Session, writes: Sequence[Write]) -> tuple[list[Written] | None, CoordinationError | None]:
        self._number += 1
        try:
            written, _ = self.tree.apply(self._number, session.session_id, writes)
        except CoordinationError as refused:
            self._catch_up(session, self._committed)  # a refusal, too, comes after all that was before it
            return None, refused
        self._commit(Transaction(self._number, session.session_id, writes))
        self._catch_up(session, self._committed)
        return written, None

    def close(self, session_id: int) -> None:
        """Its client ends it: what it asked for before is done first."""
        session = self._sessions.get(session_id)
        if session is not None and session.link is not None and session.link.is_open:
            session.link.arrive_now()
            self._end(session)

    # --- inside

    @property
    def _committed(self) -> int:
        return self._forgotten + len(self._transactions)

    def _new_session(self, timeout_ms: int) -> Session:
        self._last_session_id += 1
        session = Session(self._last_session_id, timeout_ms, self.tree.copy(), self._committed)
        self._sessions[session.session_id] = session
        return session

    def _touch(self, session: Session) -> None:
        """It was heard of. ZooKeeper looks for silent sessions now and then only: so they live a little longer."""
        if session.expiry is not None:
            session.expiry.cancel()
        grace_ms = self._random.randint(0, session.timeout_ms // 5)
        session.expiry = self._scheduler.call_later(session.timeout_ms + grace_ms, lambda: self._end(session))

    def _end(self, session: Session) -> None:
        del self._sessions[session.session_id]
        if session.expiry is not None:
            session.expiry.cancel()
        if session.link is not None:
            session.link.end(NOTICE_MS_MAX)
            session.link.forget()
        writes = [Delete(path) for path in self.tree.ephemerals_of(session.session_id)]
        self._number += 1
        if writes:
            self.tree.apply(self._number, session.session_id, writes)
            self._commit(Transaction(self._number, session.session_id, writes))

    def _commit(self, transaction: Transaction) -> None:
        self._transactions.append(transaction)
        for session in self._sessions.values():
            self._catch_up_later(session, self._committed)
        if len(self._transactions) > _TRANSACTIONS_KEPT:
            self._forget()

    def _catch_up_later(self, session: Session, position: int) -> None:
        lag_ms = self._random.randint(0, self._lag_ms_max)
        self._scheduler.call_later(lag_ms, lambda: self._catch_up(session, position))

    def _catch_up(self, session: Session, position: int) -> None:
        if session.session_id not in self._sessions:
            return
        while session.position < position:
            session.apply(self._transactions[session.position - self._forgotten])

    def _forget(self) -> None:
        needed = min((session.position for session in self._sessions.values()), default=self._committed)
        while self._forgotten < needed:
            self._transactions.popleft()
            self._forgotten += 1
