"""kazoo, held to the port's promises. Only this module and its neighbours `kazoo_*.py` import it.

kazoo runs one thread of its own, which waits for the network. Whatever happens there (an answer, a watch, a change of
state) is handed on at once and in that thread, so that what is posted to the loop has the order in which it came over
the wire.

kazoo would keep requests made while it is not connected, and send them later, maybe in another session. Here each
request names the connection that its sender knows of, by number. With another one it fails at once: what was decided in
the belief of one session is never done in the next.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

from kazoo.exceptions import (
    BadArgumentsError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.protocol import serialization as requests
from kazoo.protocol.states import EventType, KazooState, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from headwater.base.coordination import (
    ConnectionLost,
    CoordinationError,
    Create,
    Delete,
    NodeExists,
    NodeHasChildren,
    NodeMissing,
    NotAuthenticated,
    NotAuthorized,
    SessionLost,
    SessionState,
    SetData,
    Write,
    WrongVersion,
)
from headwater.metadata.cluster import node_acls
from headwater.server.zookeeper.kazoo_handler import InPlaceHandler
from headwater.server.zookeeper.kazoo_login import SecuredClient
from headwater.server.zookeeper.security import OPEN, ZooKeeperSecurity

_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2
_RECONNECT_S: Final = (0.05, 0.5)
_END_TIMEOUT_S: Final = 2.0

_STATES: Final = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}
_PROBLEMS: Final[tuple[tuple[type[Exception], type[CoordinationError]], ...]] = (
    (NoNodeError, NodeMissing),
    (NodeExistsError, NodeExists),
    (BadVersionError, WrongVersion),
    (NotEmptyError, NodeHasChildren),
    (NoAuthError, NotAuthorized),
    (InvalidACLError, NotAuthenticated),
    (ConnectionClosedError, ConnectionLost),  # to kazoo a kind of the next one
    (SessionExpiredError, SessionLost),
    (NoChildrenForEphemeralsError, CoordinationError),
    (BadArgumentsError, CoordinationError),
)

Answered = Callable[[Any, Exception | None], None]


def translated(problem: Exception, path: str = "") -> CoordinationError:
    """What is not known to be a refusal leaves open whether a write happened."""
    for theirs, ours in _PROBLEMS:
        if isinstance(problem, theirs):
            return ours(path)
    return ConnectionLost(path)


def is_missing(problem: Exception | None) -> bool:
    return isinstance(problem, NoNodeError)


def blamed(result: object) -> Exception | None:
    """The problem of one write among several; None for one that would have been done, or comes after the one to
    blame.
    """
    is_to_blame = isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency)
    return result if is_to_blame and isinstance(result, Exception) else None


def is_change(event: Any) -> bool:
    """kazoo also calls a watch when it drops it, with the connection."""
    return bool(event.type != EventType.NONE)


def exists_request(path: str, watch: Callable[[Any], None] | None) -> Any:
    return requests.Exists(path, watch)


def get_request(path: str) -> Any:
    return requests.GetData(path, None)


def children_request(path: str, watch: Callable[[Any], None] | None) -> Any:
    return requests.GetChildren2(path, watch)


def acls_of(path: str, *, is_secured: bool) -> list[Any]:
    """Of a new node, whose `path` is the one below the chroot. `auth` stands for whoever makes it."""
    rights = node_acls.rights_of(path) if is_secured else node_acls.Rights.ANYBODY_ALL
    if rights is node_acls.Rights.ANYBODY_ALL:
        return list(OPEN_ACL_UNSAFE)
    return [*CREATOR_ALL_ACL, *(READ_ACL_UNSAFE if rights is node_acls.Rights.ANYBODY_READS else ())]


def create_request(path: str, *, is_secured: bool) -> Any:
    return requests.Create(path, b"", acls_of(path, is_secured=is_secured), 0)


def write_request(writes: list[tuple[str, Write]], *, is_secured: bool) -> Any:
    """Each with its full path."""
    return requests.Transaction([_operation(path, write, is_secured) for path, write in writes])


def _operation(path: str, write: Write, is_secured: bool) -> Any:
    if isinstance(write, Create):
        flags = (_EPHEMERAL if write.ephemeral else 0) | (_SEQUENTIAL if write.sequential else 0)
        return requests.Create(path, write.data, acls_of(write.path, is_secured=is_secured), flags)
    if isinstance(write, SetData):
        return requests.SetData(path, write.data, write.version)
    if isinstance(write, Delete):
        return requests.Delete(path, write.version)
    return requests.CheckVersion(path, write.version)


class Connection(SecuredClient):
    """A client of kazoo that tells of every state with the number of the connection, and the id of the session."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        changed: Callable[["Connection", SessionState, int, int], None],
        security: ZooKeeperSecurity = OPEN,
    ) -> None:
        self._number = 0
        self._changed = changed
        self._quiet = _QuietLogger(logging.getLogger("headwater.zookeeper"), {})
        pause_s, pause_max_s = _RECONNECT_S
        handler = InPlaceHandler(session_timeout_ms / 1000, security.tls)
        super().__init__(
            security.login,
            hosts=hosts,
            timeout=session_timeout_ms / 1000,
            handler=handler,
            connection_retry=KazooRetry(max_tries=-1, delay=pause_s, max_delay=pause_max_s, max_jitter=0.1),
            logger=self._quiet,
        )
        handler.expects_answer = lambda: bool(self._pending) or self._connection.ping_outstanding.is_set()
        handler.give_up = self._connection.ping_outstanding.set
        self.add_listener(self._tell)

    def send(self, number: int, request: Any, answered: Answered) -> None:
        """`answered` is called once, in whichever thread."""
        answer = _Answer(answered)
        with self._turn:
            if number == self._number:
                self._call(request, answer)
                return
        answer.set_exception(ConnectionLoss())

    @property
    def has_given_up(self) -> bool:
        """After something that kazoo does not recover from."""
        return self.client_state in (KeeperState.CLOSED, KeeperState.AUTH_FAILED)

    def end(self, *, wait: bool) -> None:
        """Ends the session. With `wait`, it has ended on return, unless the server is silent."""
        thread = threading.Thread(target=self._end, name="zookeeper-end", daemon=True)
        thread.start()
        if wait:
            thread.join(_END_TIMEOUT_S)

    def _end(self) -> None:
        try:
            self.stop()
            self.close()
        except Exception as problem:  # noqa: BLE001 - nobody is left who could do something about it
            self._quiet.info("event=zookeeper-close-failed reason=%r", problem)

    @property
    def problem(self) -> str:
        """Why there is no connection, as far as somebody knows."""
        return self.login_problem or str(self.handler.problem)

    def _session_callback(self, state: Any) -> None:
        super()._session_callback(state)
        if state == KeeperState.AUTH_FAILED:  # of which kazoo tells nobody if there was no session before
            self._tell(KazooState.LOST)

    def _tell(self, state: Any) -> None:
        self._number += 1
        if state == KazooState.CONNECTED:
            self._quiet.forget()
        self._changed(self, _STATES[state], self._number, self._session_id or 0)


class _Answer:
    """What kazoo calls with the outcome of a request."""

    __slots__ = ("_answered",)

    def __init__(self, answered: Answered) -> None:
        self._answered = answered

    def set(self, value: Any) -> None:
        self._answered(value, None)

    def set_exception(self, problem: Exception) -> None:
        self._answered(None, problem)


class _QuietLogger(logging.LoggerAdapter):  # type: ignore[type-arg]
    """kazoo warns of each attempt to connect. Here that is information, and told once until there is a connection
    again.
    """

    def __init__(self, logger: logging.Logger, extra: dict[str, object]) -> None:
        super().__init__(logger, extra)
        self._told: set[str] = set()

    def forget(self) -> None:
        self._told.clear()

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:
        text = str(msg)
        if level >= logging.WARNING and text not in self._told:
            self._told.add(text)
            self.logger.info("event=zookeeper " + text, *args, exc_info=options.get("exc_info"))
