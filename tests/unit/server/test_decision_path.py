"""What coordinators write, compiled, against the way in Python: the same bytes in the log, the same memory."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.coordinators.batches import build_decision
from headwater.coordinator.effects import CoordinatorRecord
from headwater.server import hot_path
from unit.server.test_hot_path import NOW_MS, Side, batch

pytestmark = pytest.mark.skipif(not hot_path.COMPILED, reason="the hot path is not compiled")

if hot_path.COMPILED:
    from headwater.server import _produce as compiled


@pytest.fixture
def sides(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Side, Side]]:
    made = []
    for name in ("compiled", "python"):
        (tmp_path / name).mkdir()
        made.append(Side(tmp_path / name, compiled=name == "compiled", **getattr(request, "param", {})))
    for side in made:
        side.log.append_own(memoryview(batch(1, 1)), 0, NOW_MS)  # opens the segment
    yield made[0], made[1]
    for side in made:
        side.manager.abandon()


def records(*pairs: tuple[bytes, bytes | None]) -> list[CoordinatorRecord]:
    return [CoordinatorRecord(key, value) for key, value in pairs]


def append(sides: tuple[Side, Side], *pairs: tuple[bytes, bytes | None], now_ms: int = NOW_MS) -> bool:
    """Whether the compiled way took it; if not, the other is taken there too, and both must be the same in the end."""
    offset: int = compiled.append_records(sides[0].partition, records(*pairs), now_ms)
    for side in sides if offset < 0 else sides[1:]:
        data = memoryview(build_decision(records(*pairs), now_ms, None))
        last_offset = side.partition.append_internal(data, now_ms).last_offset
        assert offset in (-1, last_offset)
    assert sides[0].state() == sides[1].state()
    return offset >= 0


def test_the_records_of_a_decision(sides: tuple[Side, Side]) -> None:
    assert append(sides, (b"key", b"value"))
    assert append(sides, (b"key", None), (b"", b""), (b"k", b"v"))
    for size in (0, 1, 62, 63, 64, 127, 8000, 100_000):
        assert append(sides, (b"k" * size, b"v"), (b"k", b"v" * size))
    assert append(sides, *[(b"%d" % index, b"value") for index in range(1000)])


@pytest.mark.parametrize("sides", [{"segment_bytes": 5000, "index_interval_bytes": 300}], indirect=True)
def test_index_entries_and_segments(sides: tuple[Side, Side]) -> None:
    taken = [append(sides, (b"key", b"value" * 10), now_ms=NOW_MS + at) for at in range(150)]
    assert len(sides[0].log.segments) > 3
    assert taken.count(False) < 10


def test_who_waits_is_told(sides: tuple[Side, Side]) -> None:
    for side in sides:
        side.partition.waiters[side] = None
    assert append(sides, (b"key", b"value"))
    assert end_transaction(sides, 7)
    assert sides[0].woken == [0, 0], "whatever they wait for"


OTHERWISE: list[Callable[[Side], None]] = [
    lambda side: side.partition.confirm(side.log.log_end_offset),  # another replica
    lambda side: setattr(side.partition, "leader_epoch", side.log.latest_epoch + 1),
    lambda side: setattr(side.log.active, "last_offset_max", side.log.log_end_offset - 1),
    lambda side: side.log.active.let_go(),
    lambda side: setattr(side.log.active, "limit_bytes", -1),
]


@pytest.mark.parametrize("change", range(len(OTHERWISE)))
def test_what_does_not_simply_go_at_the_end_of_the_open_segment(sides: tuple[Side, Side], change: int) -> None:
    for way in (lambda: append(sides, (b"key", b"value")), lambda: end_transaction(sides, 7)):
        for side in sides:
            OTHERWISE[change](side)
        assert not way()


def test_a_log_that_has_failed_takes_nothing(sides: tuple[Side, Side]) -> None:
    sides[0].log.fail(OSError("gone"))
    before = sides[0].state()
    assert compiled.append_records(sides[0].partition, records((b"key", b"value")), NOW_MS) == -1
    assert compiled.append_marker(sides[0].partition, 7, 0, 0, True, NOW_MS) == -1
    assert sides[0].state() == before


@pytest.mark.parametrize("sides", [{"log_append_time": True}, {"codec": 3}, {"max_message_bytes": 73}], indirect=True)
def test_settings_that_need_a_closer_look(sides: tuple[Side, Side]) -> None:
    before = sides[0].state()
    assert compiled.append_records(sides[0].partition, records((b"key", b"value")), NOW_MS) == -1
    assert compiled.append_marker(sides[0].partition, 7, 0, 0, True, NOW_MS) == -1
    assert sides[0].state() == before


@pytest.mark.parametrize(
    "odd",
    [
        [],
        [(b"key",)],
        [("key", b"value")],
        [(b"key", "value")],
        [(None, b"value")],
        [[b"key", b"value"]],
        [(b"key", b"value")] * 1001,
        [(b"key", b"v" * (1 << 20))],
    ],
    ids=[
        "none",
        "no value",
        "a key of text",
        "a value of text",
        "no key",
        "a list",
        "too many",
        "too large",
    ],
)
def test_records_that_are_not_plainly_fine(sides: tuple[Side, Side], odd: list[Any]) -> None:
    before = sides[0].state()
    assert compiled.append_records(sides[0].partition, odd, NOW_MS) == -1
    assert compiled.append_records(object(), records((b"key", b"value")), NOW_MS) == -1  # type: ignore[arg-type]
    assert sides[0].state() == before


def test_calls_that_are_wrong_are_told_so(sides: tuple[Side, Side]) -> None:
    for wrong in ((), (sides[0].partition, ()), (sides[0].partition, (), NOW_MS), (sides[0].partition, [], "now")):
        with pytest.raises(TypeError):
            compiled.append_records(*wrong)  # type: ignore[call-arg]
    for wrong in ((), (sides[0].partition, "7", 0, 0, True, NOW_MS)):
        with pytest.raises(TypeError):
            compiled.append_marker(*wrong)  # type: ignore[call-arg]


# Markers


def begin_transaction(sides: tuple[Side, Side], producer_id: int, epoch: int = 0) -> None:
    for side in sides:
        data = batch(2, producer_id=producer_id, producer_epoch=epoch, transactional=True)
        side.partition.append_internal(memoryview(data), NOW_MS)


def end_transaction(
    sides: tuple[Side, Side], producer_id: int, epoch: int = 0, *, committed: bool = True, coordinator: int = 3
) -> bool:
    """Whether the compiled way took it."""
    taken: list[int] = []

    def quickly(*given: Any) -> int:
        taken.append(compiled.append_marker(*given))
        return taken[-1]

    first, second = (
        side.partition.append_marker(producer_id, epoch, coordinator, committed, NOW_MS, append_quickly=way)
        for side, way in zip(sides, (quickly, None), strict=True)
    )
    assert (first.base_offset, first.last_offset) == (second.base_offset, second.last_offset)
    assert sides[0].state() == sides[1].state()
    aborted = [side.log.aborted_transactions(0, side.log.log_end_offset) for side in sides]
    assert aborted[0] == aborted[1]
    stable = [side.partition.last_stable_offset for side in sides]
    assert stable[0] == stable[1]
    return taken[0] >= 0


def test_markers(sides: tuple[Side, Side]) -> None:
    for committed in (True, False):
        begin_transaction(sides, 7)
        begin_transaction(sides, 8, (1 << 15) - 1)
        assert end_transaction(sides, 7, committed=committed)
        assert end_transaction(sides, 8, (1 << 15) - 1, committed=committed, coordinator=(1 << 31) - 1)
        assert end_transaction(sides, (1 << 63) - 1, committed=committed), "nothing is open"
    assert len(sides[0].log.aborted_transactions(0, sides[0].log.log_end_offset)) == 2


def test_a_marker_of_an_earlier_coordinator_or_epoch_is_refused(sides: tuple[Side, Side]) -> None:
    begin_transaction(sides, 7, 5)
    assert end_transaction(sides, 7, 5)
    before = sides[0].state()
    for epoch, coordinator, code in (
        (4, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (5, 2, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ):
        with pytest.raises(KafkaError) as refused:
            sides[0].partition.append_marker(7, epoch, coordinator, True, NOW_MS, append_quickly=compiled.append_marker)
        assert refused.value.code == code
    assert sides[0].state() == before


@pytest.mark.parametrize(("epoch", "coordinator"), [(1 << 15, 0), (0, 1 << 31), (-(1 << 15) - 1, 0)])
def test_numbers_that_do_not_fit(sides: tuple[Side, Side], epoch: int, coordinator: int) -> None:
    before = sides[0].state()
    assert compiled.append_marker(sides[0].partition, 7, epoch, coordinator, True, NOW_MS) == -1
    assert sides[0].state() == before
