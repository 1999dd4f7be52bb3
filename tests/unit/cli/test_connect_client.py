"""What `headwater connect` makes of an answer."""

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.errors import UserError
from headwater.cli.connect_client import ConnectClient
from headwater.cli.door_access import DoorAccess


def asked(monkeypatch: pytest.MonkeyPatch, status: int, body: bytes) -> Any:
    connection = SimpleNamespace(
        request=lambda *_: None,
        getresponse=lambda: SimpleNamespace(status=status, read=lambda: body),
        close=lambda: None,
    )
    monkeypatch.setattr(DoorAccess, "connect", lambda *_: connection)
    return ConnectClient("http://worker:8083").ask("GET", "connectors")


def test_answers_of_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(monkeypatch, 200, b'{"a": 1}') == {"a": 1}
    assert asked(monkeypatch, 204, b"") is None
    with pytest.raises(UserError, match=r"The Connect worker refused\. no such connector"):
        asked(monkeypatch, 404, b'{"message": "no such connector"}')


@pytest.mark.parametrize(("status", "body"), [(200, b"<html>"), (200, b"\xff"), (302, b"moved")])
def test_what_answers_is_no_worker(monkeypatch: pytest.MonkeyPatch, status: int, body: bytes) -> None:
    """An address of something else was a traceback."""
    with pytest.raises(UserError, match="What answers at http://worker:8083 is no Connect worker"):
        asked(monkeypatch, status, body)
