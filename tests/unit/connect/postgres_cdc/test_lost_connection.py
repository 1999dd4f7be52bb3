"""A replication connection that breaks: what the log had given before is given, once."""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.connect.connectors.postgres_cdc import connector, replication
from headwater.connect.connectors.postgres_cdc.catalog import Slot
from headwater.connect.connectors.postgres_cdc.pgoutput import LogicalMessage
from headwater.connect.data.record import SourceRecord
from headwater.connect.errors import ConnectError, RetriableError
from unit.connect.postgres_cdc.test_begin_anew import Postgres

BROKEN = RetriableError("The server ended the replication")


class Following(Postgres):
    """Each of `connections` is what one connection gives, until it breaks or has nothing more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *connections: list[Any]) -> None:
        super().__init__(monkeypatch, slot=Slot("pgoutput", False, 50, False))
        monkeypatch.setattr(connector, "decode", lambda payload: payload)
        self.connections = list(connections)
        self.frames: list[Any] = []

    def start(self, *_given: Any) -> None:
        self.frames = self.connections.pop(0)

    def receive(self, _timeout_s: float) -> Any:
        frame = self.frames.pop(0) if self.frames else None
        if isinstance(frame, Exception):
            raise frame
        return None if frame is None else SimpleNamespace(payload=frame, start_lsn=frame.lsn)

    def send_status(self, _written: int, _flushed: int) -> None: ...


def lsns(records: list[SourceRecord] | None) -> list[int]:
    return [each.source_offset["lsn"] for each in records or () if each.source_offset is not None]


def message(lsn: int) -> LogicalMessage:
    return LogicalMessage(False, lsn, "p", b"x")


def test_changes_that_came_before_the_connection_broke_are_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll that met the break lost them, and the next connection's were left out as given before."""
    first, second = [message(60), message(70), BROKEN], [message(60), message(70), message(80)]
    task = Following(monkeypatch, first, second).task("when_needed")
    assert [lsns(task.poll()) for _ in range(2)] == [[60, 70], [80]]


def test_a_connection_that_breaks_before_anything_came_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Following(monkeypatch, [BROKEN], [message(60)]).task("when_needed")
    with pytest.raises(RetriableError):
        task.poll()
    assert lsns(task.poll()) == [60]


REFUSED = RetriableError('The database said: FATAL:  password authentication failed for user "u"')


class Refusing(Following):
    """Says no to one of the two kinds of connection."""

    refuses = ""

    def version(self) -> int:
        if self.refuses == "queries":
            raise REFUSED
        return super().version()

    def replication(self) -> "Refusing":
        if self.refuses == "replication":
            raise REFUSED
        return self


@pytest.mark.parametrize("refuses", ["queries", "replication"])
def test_a_server_that_refuses_the_login_at_the_start_fails_the_task(
    monkeypatch: pytest.MonkeyPatch, refuses: str
) -> None:
    """It was asked again and again, and the status said RUNNING."""
    server = Refusing(monkeypatch, [message(60), BROKEN], [message(70)])
    monkeypatch.setattr(replication, "ReplicationConnection", lambda _parameters: server.replication())
    task = server.task("when_needed")
    server.refuses = refuses
    with pytest.raises(ConnectError, match="password authentication failed") as told:
        task.poll()
    assert not isinstance(told.value, RetriableError)
    server.refuses = ""
    task = server.task("when_needed")
    assert lsns(task.poll()) == [60]
    server.refuses = refuses
    with pytest.raises(RetriableError):  # it was there: it comes back
        task.poll()
    server.refuses = ""
    assert lsns(task.poll()) == [70]
