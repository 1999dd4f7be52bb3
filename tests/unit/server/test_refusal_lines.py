"""Lines of the log that strangers cause are limited: nonsense by the thousand fills no disk."""

import logging
import struct
from collections.abc import Callable

import pytest

from headwater.server.line_limit import LineLimit
from headwater.server.node import Node
from unit.server.support.by_hand import Client

SECOND_NS = 1_000_000_000


def test_twenty_lines_a_second_and_how_many_were_left_out() -> None:
    limit = LineLimit()
    now_ns = 10 * SECOND_NS
    assert [limit.take(now_ns) for _ in range(25)] == [0] * 20 + [None] * 5
    assert limit.take(now_ns + SECOND_NS) is None
    assert limit.take(now_ns + SECOND_NS + 1) == 6
    assert limit.take(now_ns + SECOND_NS + 2) == 0


def test_nonsense_is_no_flood_of_lines(
    connect: Callable[[], Client], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "headwater")
    clients = [connect() for _ in range(30)]
    node: Node = clients[0].node
    lines = node.server._refusal_lines["PLAINTEXT"]
    monkeypatch.setattr(lines, "_since_ns", node.loop.turn_ns + 3600 * SECOND_NS)  # within one second
    for client in clients:
        client.send(struct.pack(">i", -1))
        assert client.is_closed()
    levels = [record.levelname for record in caplog.records if "event=connection-closed" in record.getMessage()]
    assert levels == ["WARNING"] * 20 + ["DEBUG"] * 10
    assert node.broker.metrics.requests_refused == 30
