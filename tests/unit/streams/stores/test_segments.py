"""Rows by time after a restart: with timestamps of today, only segments that can have rows are looked at."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.segments import Segments
from headwater.streams.stores.state import Owner

NOW = 1_750_000_000_000
RETENTION = 600_000  # segments of 300,000


def _limited(look: Callable[..., Any]) -> Callable[..., Any]:
    looked = 0

    def limited(*given: Any) -> Any:
        nonlocal looked
        looked += 1
        assert looked <= 4, "it looks at segments that have expired"
        return look(*given)

    return limited


@pytest.fixture
def again(monkeypatch: pytest.MonkeyPatch) -> Iterator[Segments]:
    state = MemoryState()
    state.claim(Owner(1, 0))
    segments = Segments(state, "rows", RETENTION, None)
    for age in (RETENTION, 300_000, 0):
        segments.put(NOW - age, b"key%d" % age, b"row")
    state.commit({})
    restarted = Segments(state, "rows", RETENTION, None)
    committed = type(restarted.rows.committed)
    monkeypatch.setattr(committed, "scan", _limited(committed.scan))
    yield restarted
    state.close()


def test_what_was_committed_is_found_without_looking_at_all_segments_since_1970(again: Segments) -> None:
    assert [raw for raw, _ in again.scan_committed(b"key")] == [b"key600000", b"key300000", b"key0"]


def test_all_rows_are_found_so_too(again: Segments) -> None:
    found = again.scan(0, (1 << 63) - 1, None, None, lambda _: True, False)
    assert [raw for raw, _ in found] == [b"key600000", b"key300000", b"key0"]
