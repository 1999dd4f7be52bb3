"""The cap on dirty pages: what is sent to the device early, and what is left to the kernel."""

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.base.ports import Writeback

if TYPE_CHECKING:
    from conftest import World

PIECE_BYTES = 1000
LIMIT_BYTES = 5000


@pytest.fixture
def submitted(world: "World", monkeypatch: pytest.MonkeyPatch) -> list[Writeback]:
    """What was sent on its way, with small pieces and a small cap."""
    monkeypatch.setattr("headwater.log.rolling.PIECE_BYTES", PIECE_BYTES)
    monkeypatch.setattr(world.manager.context.dirty, "_limit_bytes", LIMIT_BYTES)
    found: list[Any] = []
    monkeypatch.setattr(world.disk, "submit", lambda work, done: found.append(work))
    return found


def fill(world: "World", log: Any, size_bytes: int) -> None:
    end = log.active.size_bytes + size_bytes
    while log.active.size_bytes < end:
        world.append(log, size=100, epoch=max(log.latest_epoch, 0))


def test_below_the_cap_the_kernel_decides(world: "World", submitted: list[Writeback]) -> None:
    fill(world, world.create(), LIMIT_BYTES)
    assert submitted == []


def test_beyond_the_cap_the_oldest_pieces_go_first_and_without_gaps(world: "World", submitted: list[Writeback]) -> None:
    log = world.create()
    fill(world, log, 3 * LIMIT_BYTES)
    ranges = [(work.position, work.position + work.length) for work in submitted]
    assert ranges[0][0] == 0
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    left = log.active.size_bytes - ranges[-1][1]
    assert LIMIT_BYTES - PIECE_BYTES < left < LIMIT_BYTES + 2 * PIECE_BYTES


def test_the_cap_is_for_all_logs_together(world: "World", submitted: list[Writeback]) -> None:
    logs = [world.create(TopicPartition("topic", index)) for index in range(4)]
    for log in logs:
        fill(world, log, LIMIT_BYTES)
    sent = {log.partition.partition: 0 for log in logs}
    for work in submitted:
        sent[next(log for log in logs if log.active.file is work.file).partition.partition] += work.length
    assert sent[0] == logs[0].active.reported_bytes
    assert sent[1] == logs[1].active.reported_bytes
    assert sent[3] == 0
    assert world.manager.context.dirty.size_bytes <= LIMIT_BYTES


def test_what_was_deleted_is_not_written(world: "World", submitted: list[Writeback]) -> None:
    gone, kept = world.create(TopicPartition("gone", 0)), world.create(TopicPartition("kept", 0))
    fill(world, gone, LIMIT_BYTES)
    world.manager.delete(gone.partition)
    fill(world, kept, LIMIT_BYTES)
    assert [work for work in submitted if isinstance(work, Writeback)] == []
    assert world.manager.context.dirty.size_bytes <= LIMIT_BYTES


def test_what_follows_a_truncation_is_counted_again(world: "World", submitted: list[Writeback]) -> None:
    log = world.create()
    fill(world, log, 2 * PIECE_BYTES)
    log.truncate_to(2)
    kept = log.active.size_bytes
    world.append(log, epoch=1)
    fill(world, log, 2 * LIMIT_BYTES)
    assert kept in [work.position for work in submitted]
