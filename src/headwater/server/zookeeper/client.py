"""The Coordination port on a real ZooKeeper. Owned by the loop: everything but what `kazoo_client.py` posts runs there.

A login that the server refuses is tried again after a while (`login_problem` says why it was), since passwords are
changed on one side first.

Watches are kept here. kazoo drops them with the connection; when the same session is back, they are set again, and
whoever missed a change meanwhile is told.
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headwater.base.coordination import (
    ConnectionLost,
    CoordinationError,
    Create,
    Node,
    SessionLost,
    SessionState,
    SetData,
    Write,
    Written,
)
from headwater.base.errors import UserError
from headwater.server.zookeeper.security import OPEN, ZooKeeperSecurity

if TYPE_CHECKING:
    from headwater.server.zookeeper.kazoo_client import Connection

_LOG_IN_AGAIN_S: Final = 1.0

logger = logging.getLogger("headwater.zookeeper")


@dataclass(slots=True, eq=False)
class _Watch:
    path: str
    of_children: bool
    tell: Callable[[], None]
    seen: tuple[int, int] | None = None  # transactions that made the node, and that changed it last
    came_early: bool = False  # before the answer of its read


class KazooCoordination:
    """`connect` is host:port,host:port/chroot. `post` runs a function on the loop's thread, from any other one."""

    on_state: Callable[[SessionState], None]

    def __init__(
        self,
        connect: str,
        session_timeout_ms: int,
        post: Callable[[Callable[[], None]], None],
        security: ZooKeeperSecurity = OPEN,
    ) -> None:
        try:
            from headwater.server.zookeeper import kazoo_client
        except ImportError as problem:
            raise UserError(
                "Several brokers need the client of ZooKeeper, which is not installed",
                str(problem),
                "pip install 'headwater[cluster]'",
            ) from problem
        self._kazoo = kazoo_client
        self.on_state = lambda _state: None
        self.login_problem = ""
        """Why the server does not take the login; empty while it does."""
        self._security = security
        self._again: threading.Timer | None = None
        self._hosts, _, chroot = connect.replace(" ", "").partition("/")
        self._chroot = f"/{chroot.strip('/')}" if chroot.strip("/") else ""
        self._session_timeout_ms = session_timeout_ms
        self._post_to_loop = post
        self._session_id = 0
        self._number = 0  # of the connection, as kazoo_client counts them
        self._is_connected = False
        self._is_started = False
        self._is_closed = False
        self._watches: dict[_Watch, None] = {}
        self._connection = self._new_connection()

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def has_login(self) -> bool:
        return self._security.login is not None or self._security.has_certificate

    @property
    def problem(self) -> str:
        """Why there is no connection, as far as somebody knows."""
        return self.login_problem or self._connection.problem

    def start(self) -> None:
        self._is_started = True
        self._connection.start_async()

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        if self._again is not None:
            self._again.cancel()
        if self._is_started:
            self._connection.end(wait=self._is_connected)
        self._session_id = 0
        self._is_connected = False
        self._watches.clear()

    def get(
        self,
        path: str,
        done: Callable[[Node | None, CoordinationError | None], None],
        watch: Callable[[], None] | None = None,
    ) -> None:
        full = self._full(path)
        set_watch: _Watch | None = None
        if watch is not None:  # asked for first, since a read of a node that is not there sets none
            set_watch = _Watch(full, False, watch)
            self._send(self._kazoo.exists_request(full, self._on_event(set_watch)), lambda _stat, _problem: None)

        def answered(found: Any, problem: Exception | None) -> None:
            if problem is not None and not self._kazoo.is_missing(problem):
                done(None, self._translated(problem, path))
                return
            data, stat = found or (b"", None)
            self._hold(set_watch, None if stat is None else (stat.czxid, stat.mzxid))
            done(None if stat is None else Node(data or b"", stat.version, stat.czxid), None)
            self._tell_if_early(set_watch)

        self._send(self._kazoo.get_request(full), answered)

    def children(
        self,
        path: str,
        done: Callable[[list[str] | None, CoordinationError | None], None],
        watch: Callable[[], None] | None = None,
    ) -> None:
        full = self._full(path)
        set_watch = None if watch is None else _Watch(full, True, watch)

        def answered(found: Any, problem: Exception | None) -> None:
            if problem is not None:
                done(None, None if self._kazoo.is_missing(problem) else self._translated(problem, path))
                return
            names, stat = found
            self._hold(set_watch, (stat.czxid, stat.pzxid))
            done(sorted(names), None)
            self._tell_if_early(set_watch)

        on_event = None if set_watch is None else self._on_event(set_watch)
        self._send(self._kazoo.children_request(full, on_event), answered)

    def write(
        self, writes: Sequence[Write], done: Callable[[list[Written] | None, CoordinationError | None], None]
    ) -> None:
        asked = tuple(writes)

        def answered(results: Any, problem: Exception | None) -> None:
            if problem is not None:
                done(None, self._translated(problem, ""))
                return
            for write, result in zip(asked, results, strict=True):
                refusal = self._kazoo.blamed(result)
                if refusal is not None:
                    done(None, self._translated(refusal, write.path))
                    return
            done([self._written(write, result) for write, result in zip(asked, results, strict=True)], None)

        full = [(self._full(write.path), write) for write in asked]
        self._send(self._kazoo.write_request(full, is_secured=self._security.set_acl), answered)

    # --- requests

    def _full(self, path: str) -> str:
        assert path.startswith("/"), path
        return (self._chroot + path if path != "/" else self._chroot) or "/"

    def _written(self, write: Write, result: Any) -> Written:
        if isinstance(write, Create):
            return str(result).removeprefix(self._chroot)
        return int(result.version) if isinstance(write, SetData) else None

    def _translated(self, problem: Exception, path: str) -> CoordinationError:
        return problem if isinstance(problem, CoordinationError) else self._kazoo.translated(problem, path)

    def _send(self, request: Any, answered: Callable[[Any, Exception | None], None]) -> None:
        def on_loop(result: Any, problem: Exception | None) -> None:
            self._post(lambda: answered(result, problem))

        if self._is_connected:
            self._connection.send(self._number, request, on_loop)
        else:
            on_loop(None, ConnectionLost() if self._session_id else SessionLost())

    def _post(self, function: Callable[[], None]) -> None:
        """Nothing is called back after `close`."""
        if not self._is_closed:
            self._post_to_loop(lambda: None if self._is_closed else function())

    # --- watches

    def _on_event(self, watch: _Watch) -> Callable[[Any], None]:
        def on_event(event: Any) -> None:
            if self._kazoo.is_change(event):
                self._post(lambda: self._tell(watch))

        return on_event

    def _hold(self, watch: _Watch | None, seen: tuple[int, int] | None) -> None:
        if watch is not None:
            watch.seen = seen
            self._watches[watch] = None

    def _tell_if_early(self, watch: _Watch | None) -> None:
        if watch is not None and watch.came_early and not self._is_closed:
            self._tell(watch)

    def _tell(self, watch: _Watch) -> None:
        if watch in self._watches:
            del self._watches[watch]
            watch.tell()
        else:
            watch.came_early = True

    def _set_again(self, watch: _Watch) -> None:
        def answered(found: Any, problem: Exception | None) -> None:
            if problem is not None and not self._kazoo.is_missing(problem):
                return  # the connection is gone again, and so the watch will be set once more
            seen = None
            if found is not None:
                stat = found[1] if watch.of_children else found
                seen = (stat.czxid, stat.pzxid if watch.of_children else stat.mzxid)
            if seen != watch.seen and watch in self._watches:
                self._tell(watch)

        request = self._kazoo.children_request if watch.of_children else self._kazoo.exists_request
        self._send(request(watch.path, self._on_event(watch)), answered)

    # --- the session

    def _new_connection(self) -> "Connection":
        def changed(connection: "Connection", state: SessionState, number: int, session_id: int) -> None:
            self._post(lambda: self._changed(connection, state, number, session_id))

        try:
            return self._kazoo.Connection(self._hosts, self._session_timeout_ms, changed, self._security)
        except ValueError as problem:
            raise UserError(
                f"zookeeper.connect names no servers: {self._hosts}", str(problem), "Write host:port,host:port/path"
            ) from problem

    def _changed(self, connection: "Connection", state: SessionState, number: int, session_id: int) -> None:
        if connection is not self._connection:
            return
        self._number = number
        self._is_connected = state is SessionState.CONNECTED
        if state is SessionState.LOST:
            self._session_id = 0
            self._watches.clear()
            if connection.has_given_up:
                connection.end(wait=False)
                self._connection = self._new_connection()
                if connection.login_problem:
                    self._log_in_later(connection.login_problem)
                else:
                    self._connection.start_async()
        elif self._is_connected and session_id == self._session_id:
            for watch in list(self._watches):
                self._set_again(watch)
        elif self._is_connected:
            self._session_id = session_id
            self._make_chroot()
        if self._is_connected:
            self.login_problem = ""
        self.on_state(state)

    def _log_in_later(self, problem: str) -> None:
        if problem != self.login_problem:
            logger.error("event=zookeeper-login-failed reason=%r note='it is tried again'", problem)
        self.login_problem = problem
        connection = self._connection

        def start() -> None:
            if connection is self._connection:
                connection.start_async()

        self._again = threading.Timer(_LOG_IN_AGAIN_S, lambda: self._post(start))
        self._again.daemon = True
        self._again.start()

    def _make_chroot(self) -> None:
        """Requests are carried out in order: whatever is asked for next finds it there."""
        path = ""
        for name in self._chroot.split("/")[1:]:
            path += f"/{name}"
            request = self._kazoo.create_request(path, is_secured=self._security.set_acl)
            self._send(request, lambda _path, _problem: None)
