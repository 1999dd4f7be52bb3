"""How long an answer to a handshake is waited for."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from kazoo.exceptions import ConnectionDropped
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.serialization import Auth, Connect

from headwater.server.zookeeper.kazoo_client import Connection
from headwater.server.zookeeper.kazoo_handshake import patience_s
from headwater.server.zookeeper.security import SaslLogin, ZooKeeperSecurity

SESSION_MS = 18_000
FULL_S = SESSION_MS / 1000


@pytest.fixture(params=[None, SaslLogin("user", "secret")], ids=["open", "login"])
def connection(request: pytest.FixtureRequest) -> Connection:
    security = ZooKeeperSecurity(login=request.param)
    return Connection("127.0.0.1:1", SESSION_MS, lambda *_: None, security)


@pytest.fixture
def waits(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[float]]:
    """How long kazoo was told to wait in each of the handshakes, which end as they are told to."""
    waited: list[float] = []

    def invoke(_handler: Any, timeout_s: float, _request: Any, _xid: int | None = None) -> None:
        waited.append(timeout_s)
        if ends:
            problem = ends.pop(0)
            if problem is not None:
                raise problem

    ends: list[Exception | None] = []
    monkeypatch.setattr(ConnectionHandler, "_invoke", invoke)

    def handshakes(*how: Exception | None, session_id: int = 5, request: Any = None) -> list[float]:
        ends[:] = how
        waited.clear()
        for each in how:
            asked = request or Connect(0, 0, SESSION_MS, session_id, b"\0" * 16, False)
            with nullcontext() if each is None else pytest.raises(type(each)):
                connection._connection._invoke(FULL_S, asked)
        return list(waited)

    return handshakes


def silence(connection: Connection) -> Exception:
    problem: Exception = connection.handler.timeout_exception("silent")
    return problem


def test_a_session_is_asked_for_again_before_it_is_over_where_a_starting_server_is_silent(
    connection: Connection, waits: Callable[..., list[float]]
) -> None:
    """ZooKeeper that starts may leave a handshake unanswered for ever; kazoo waited until the session had expired."""
    assert waits(silence(connection), None) == [FULL_S / 3, FULL_S * 2 / 3]


def test_an_answer_that_is_slow_is_waited_for_in_the_end(
    connection: Connection, waits: Callable[..., list[float]]
) -> None:
    assert waits(*[silence(connection)] * 4, None)[2:] == [FULL_S] * 3


def test_patience_begins_anew_after_an_answer(connection: Connection, waits: Callable[..., list[float]]) -> None:
    assert waits(silence(connection), None, None)[2] == FULL_S / 3


def test_a_connection_that_is_refused_or_dropped_costs_no_patience(waits: Callable[..., list[float]]) -> None:
    assert waits(*[ConnectionDropped("not running")] * 5, None) == [FULL_S / 3] * 6


def test_a_new_session_has_all_the_time(connection: Connection, waits: Callable[..., list[float]]) -> None:
    assert waits(silence(connection), silence(connection), session_id=0) == [FULL_S] * 2


def test_what_else_is_asked_has_its_time(connection: Connection, waits: Callable[..., list[float]]) -> None:
    assert waits(silence(connection), None, request=Auth(0, "digest", "a")) == [FULL_S] * 2


def test_several_servers_share_the_time_as_kazoo_has_it() -> None:
    assert patience_s(FULL_S / 5, FULL_S, 0) == FULL_S / 5
