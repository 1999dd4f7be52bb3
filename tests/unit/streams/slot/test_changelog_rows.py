"""Columns of a changelog as lists, compiled and in Python; and stores that are restored by runs of them."""

import random
from array import array
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headwater.base.ids import TopicPartition
from headwater.records.columns import Columns
from headwater.streams.serdes.native_cells import Cells
from headwater.streams.slot.changelog_rows import changelog_rows, changelog_runs
from headwater.streams.stores.build import build_store
from headwater.streams.stores.formats import session_key, window_key
from headwater.streams.stores.memory import MemoryState
from headwater.streams.stores.spec import StoreKind, StoreSpec
from headwater.streams.stores.state import Owner


def column(cells: Cells) -> tuple[int, bytes | None, bytes, bytes]:
    """How many nulls, validity, offsets and data."""
    ends, bits = array("i", [0]), bytearray((len(cells) + 7) // 8)
    for at, cell in enumerate(cells):
        ends.append(ends[-1] + len(cell or b""))
        bits[at // 8] |= (cell is not None) << at % 8
    nulls = cells.count(None)
    return nulls, bytes(bits) if nulls else None, ends.tobytes(), b"".join(cell or b"" for cell in cells)


def columns_of(rows: list[tuple[bytes, bytes | None, int]], begin: int = 40) -> Columns:
    keys, values, times = map(list, zip(*rows, strict=True))
    numbers = array("q", range(begin, begin + 2 * len(rows), 2)).tobytes()  # some offsets hold none
    stamps = array("q", [max(min(each * 1000, (1 << 63) - 1), -(1 << 63)) for each in times]).tobytes()
    nobody: tuple[Any, ...] = (b"", b"", b"", numbers, stamps, b"", None)
    return Columns(len(rows), *column(keys), *column(values), *nobody)


@pytest.fixture(params=["compiled", "python"])
def _either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setenv("HEADWATER_PURE", "1")


@pytest.mark.usefixtures("_either")
def test_rows_are_listed_with_times_in_milliseconds_and_where_to_go_on() -> None:
    rows = [(b"a", b"1", 5), (b"", None, -1), (b"b" * 300, b"", 7), (b"c", None, 0), *[(b"d", b"x", 9)] * 7]
    found = changelog_rows(columns_of(rows))
    assert found is not None
    assert list(zip(found.keys, found.values, found.timestamps, strict=True)) == rows
    assert found.next_offset == 40 + 2 * len(rows) - 1


class Reader:
    """Of a changelog whose every second offset holds a record, in runs of three."""

    def __init__(self, rows: list[tuple[bytes, bytes | None, int]]) -> None:
        self._rows = rows
        self.is_reading = False

    def columns(self, _partition: Any, begin: int, *_: Any, **__: Any) -> Iterator[Columns]:
        assert begin == 40
        self.is_reading = True
        try:
            for at in range(0, len(self._rows), 3):
                yield columns_of(self._rows[at : at + 3], 40 + 2 * at)
        finally:
            self.is_reading = False

    def records(self, _partition: Any, begin: int, *_: Any, **__: Any) -> Iterator[Any]:
        assert not self.is_reading, "it reads one range at a time"
        for at, (key, value, timestamp) in enumerate(self._rows):
            if 40 + 2 * at >= begin:
                yield SimpleNamespace(key=key, value=value, timestamp_ms=timestamp, offset=40 + 2 * at)


@pytest.mark.parametrize("odd", [1_700_000_000_000_000_000, -(1 << 62)])
def test_times_that_microseconds_do_not_hold_are_restored_as_they_were(odd: int) -> None:
    """They were cut off, so what was restored was not what had been lost."""
    rows = [(b"%d" % each, b"v", odd if each == 4 else each) for each in range(9)]
    runs = list(changelog_runs(cast(Any, Reader(rows)), TopicPartition("c", 0), 40, 58, 3, lambda: False))
    assert [row for run in runs for row in zip(run.keys, run.values, run.timestamps, strict=True)] == rows
    assert [len(run.keys) for run in runs] == [3, 1, 1, 1, 1, 1, 1]
    assert runs[-1].next_offset == 57


KINDS = {
    "plain": StoreSpec("s", timestamped=False),
    "timestamped": StoreSpec("s"),
    "expiring": StoreSpec("s", ttl_ms=100),
    "windows": StoreSpec("s", StoreKind.WINDOW, retention_ms=60_000),
    "duplicates": StoreSpec("s", StoreKind.WINDOW, timestamped=False, retention_ms=60_000, retain_duplicates=True),
    "sessions": StoreSpec("s", StoreKind.SESSION, timestamped=False, retention_ms=60_000),
}


def changelog_key(spec: StoreSpec, dice: random.Random) -> bytes:
    key, at = b"%d" % dice.randrange(9), dice.randrange(200)
    match spec.kind:
        case StoreKind.WINDOW:
            return window_key(key, at, dice.randrange(3) if spec.retain_duplicates else 0)
        case StoreKind.SESSION:
            return session_key(key, at, at + dice.randrange(9))
    return key


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_restores_what_its_records_would_one_by_one(kind: str) -> None:
    """The same key several times in a run, and deletions."""
    spec, dice = KINDS[kind], random.Random(5)
    rows = [
        (changelog_key(spec, dice), None if dice.random() < 0.3 else b"%d" % n, dice.randrange(100)) for n in range(300)
    ]
    states = []
    for run in (1, 7, 300):
        state = MemoryState()
        state.claim(Owner(1, 0))
        store = build_store(spec, state)
        for begin in range(0, len(rows), run):
            some = rows[begin : begin + run]
            if run == 1:
                store.restore(*some[0])
            else:
                store.restore_run(*map(list, zip(*some, strict=True)))
        states.append({name: list(pending.scan()) for name, (_, pending) in state._maps.items()})
    assert states[0] == states[1] == states[2]
    assert states[0]["s"]
