"""What lies between the port and kazoo, as far as it needs no server."""

import logging
import socket
import sys
import time
from collections.abc import Callable

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import (
    APIError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)

from headwater.base.coordination import (
    ConnectionLost,
    CoordinationError,
    Create,
    NodeExists,
    NodeHasChildren,
    NodeMissing,
    SessionLost,
    SessionState,
    WrongVersion,
)
from headwater.base.errors import UserError
from headwater.server.zookeeper.client import KazooCoordination
from headwater.server.zookeeper.kazoo_client import Connection, _QuietLogger, blamed, translated
from headwater.server.zookeeper.kazoo_handler import InPlaceHandler


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (NoNodeError, NodeMissing),
        (NodeExistsError, NodeExists),
        (BadVersionError, WrongVersion),
        (NotEmptyError, NodeHasChildren),
        (SessionExpiredError, SessionLost),
        (NoChildrenForEphemeralsError, CoordinationError),
        (ConnectionLoss, ConnectionLost),
        (ConnectionClosedError, ConnectionLost),
        (APIError, ConnectionLost),
        (RuntimeError, ConnectionLost),
    ],
)
def test_problems_are_translated(theirs: type[Exception], ours: type[CoordinationError]) -> None:
    problem = translated(theirs(), "/a")
    assert (type(problem), problem.path) == (ours, "/a")


def test_of_writes_that_failed_together_one_is_to_blame() -> None:
    to_blame = BadVersionError()
    results = [RolledBackError(), to_blame, RuntimeInconsistency(), "/made", True]
    assert [blamed(result) for result in results] == [None, to_blame, None, None, None]


def test_kazoo_has_the_methods_that_are_built_upon() -> None:
    for name in ("_call", "_session_callback"):
        assert callable(getattr(KazooClient, name))
    added = set(vars(Connection)) - {"__module__", "__doc__", "__init__", "_session_callback", "__annotations__"}
    assert not [name for name in added if hasattr(KazooClient, name)], "hides something of kazoo's"


def test_a_request_for_another_connection_fails_at_once() -> None:
    connection = Connection("127.0.0.1:1", 1500, lambda *_told: None)
    problems: list[Exception | None] = []
    connection.send(7, object(), lambda _result, problem: problems.append(problem))
    assert [type(problem) for problem in problems] == [ConnectionLoss]


def test_what_is_asked_before_there_is_a_session_fails_later_and_not_inside_the_call() -> None:
    posted: list[Callable[[], None]] = []
    coordination = KazooCoordination("127.0.0.1:1", 1500, posted.append)
    problems: list[CoordinationError | None] = []
    coordination.write([Create("/a")], lambda _written, problem: problems.append(problem))
    coordination.get("/a", lambda _node, problem: problems.append(problem), lambda: None)
    coordination.children("/a", lambda _names, problem: problems.append(problem))
    assert not problems
    for function in posted:
        function()
    assert [type(problem) for problem in problems] == [SessionLost] * 3
    coordination.close()


def test_nothing_is_told_after_close() -> None:
    posted: list[Callable[[], None]] = []
    told: list[SessionState] = []
    coordination = KazooCoordination("127.0.0.1:1", 1500, posted.append)
    coordination.on_state = told.append
    coordination._connection._tell("CONNECTED")
    assert len(posted) == 1
    coordination.close()
    posted[0]()
    coordination._connection._tell("SUSPENDED")
    assert len(posted) == 1
    assert not told


def test_addresses_that_make_no_sense_are_told() -> None:
    with pytest.raises(UserError, match=r"zookeeper\.connect names no servers: host:port"):
        KazooCoordination("host:port", 1500, lambda function: function())


def test_a_missing_kazoo_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "headwater.server.zookeeper.kazoo_client", None)
    monkeypatch.delattr("headwater.server.zookeeper.kazoo_client", raising=False)
    with pytest.raises(UserError, match=r"pip install 'headwater\[cluster\]'"):
        KazooCoordination("127.0.0.1:1", 1500, lambda function: function())


def test_kazoos_warnings_are_information_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "headwater.zookeeper")
    quiet = _QuietLogger(logging.getLogger("headwater.zookeeper"), {})
    quiet.info("chatter")
    quiet.debug("chatter")
    for _ in range(3):
        quiet.warning("Connection dropped: %s", "refused")
    quiet.forget()
    quiet.warning("Connection dropped: %s", "refused")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.INFO, "event=zookeeper Connection dropped: refused")
    ] * 2


def test_the_wake_up_never_blocks_and_counts() -> None:
    reading, writing = InPlaceHandler(1.5).create_socket_pair()
    try:
        for _ in range(100_000):
            writing.send(b"\0")
        for _ in range(100_000):
            assert reading.recv(1) == b"\0"
        with pytest.raises(BlockingIOError):
            reading.recv(1)
    finally:
        reading.close()
        writing.close()


class Waiting:
    """A handler that waits for a server which says nothing, and for requests."""

    def __init__(self, session_timeout_s: float) -> None:
        self.handler = InPlaceHandler(session_timeout_s)
        self.given_up = 0
        self.handler.give_up = self._give_up
        self.server, self.far_end = socket.socketpair()
        self.requests, self.asking = self.handler.create_socket_pair()

    def select(self, timeout_s: float) -> list[object]:
        found: list[object] = self.handler.select([self.server, self.requests], [], [], timeout_s)[0]
        return found

    def _give_up(self) -> None:
        self.given_up += 1

    def close(self) -> None:
        for each in (self.server, self.far_end, self.requests, self.asking):
            each.close()


def test_a_connection_on_which_nothing_is_due_is_not_given_up() -> None:
    waiting = Waiting(0.02)
    try:
        for _ in range(5):
            assert waiting.select(0.01) == []
        assert not waiting.given_up
    finally:
        waiting.close()


def test_a_server_that_owes_an_answer_is_given_up_although_there_is_something_to_send() -> None:
    waiting = Waiting(0.1)
    try:
        waiting.handler.expects_answer = lambda: True
        waiting.asking.send(b"\0")
        deadline = time.monotonic() + 30
        while not waiting.given_up:
            assert waiting.select(0.01) in ([waiting.requests], [])
            assert time.monotonic() < deadline
    finally:
        waiting.close()


def test_who_answers_late_but_answers_is_waited_for() -> None:
    waiting = Waiting(60)
    try:
        waiting.handler.expects_answer = lambda: True
        waiting.handler._silent_since -= 10
        before = waiting.handler._silent_since
        waiting.far_end.send(b"late")
        assert waiting.select(0.01) == [waiting.server]
        assert not waiting.given_up
        assert waiting.handler._silent_since > before
    finally:
        waiting.close()
