"""Cutting a log back: what a follower does when the new leader never had its last records."""

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import World


def filled(world: "World", **config: Any) -> Any:
    """Three records to a batch, three batches to a segment:
    0 .. 26 under epochs 0 (from 0), 1 (from 9), 2 (from 18).
    """
    log = world.create(segment_bytes=3 * len(world.batch(3, 30)), **config)
    for at in range(9):
        world.append(log, 3, 30, epoch=at // 3, producer_id=7, producer_epoch=0, base_sequence=at * 3)
        world.clock.advance(10)
    assert [segment.base_offset for segment in log.segments] == [0, 9, 18]
    return log


@pytest.mark.parametrize(
    ("offset", "end", "epochs"),
    [
        (27, 27, [(0, 0), (1, 9), (2, 18)]),
        (24, 24, [(0, 0), (1, 9), (2, 18)]),
        (25, 24, [(0, 0), (1, 9), (2, 18)]),  # inside a batch: the batch goes
        (18, 18, [(0, 0), (1, 9)]),
        (12, 12, [(0, 0), (1, 9)]),
        (9, 9, [(0, 0)]),
        (3, 3, [(0, 0)]),
        (0, 0, []),
    ],
)
@pytest.mark.parametrize("way", ["", "reopen", "kill"])
def test_truncation_to_an_offset(world: "World", offset: int, end: int, epochs: list[Any], way: str) -> None:
    log = filled(world)
    log.truncate_to(offset)
    if way:
        log = getattr(world, way)()
    assert log.log_end_offset == end
    assert world.contents(log) == list(range(0, end, 3))
    assert log.epochs.entries == epochs
    assert log.latest_epoch == (epochs[-1][0] if epochs else -1)
    assert log.recovery_point <= end
    producer = log.producers.producers.get(7)
    assert (producer.next_sequence if producer else 0) == end
    assert world.append(log, 3, 30, epoch=5, producer_id=7, producer_epoch=0, base_sequence=end) == end
    assert log.epochs.entries == [*epochs, (5, end)]
    assert world.contents(log) == list(range(0, end + 3, 3))


def test_truncation_forgets_what_is_later_in_time(world: "World") -> None:
    log = filled(world)
    last = log.max_timestamp_offset()
    log.truncate_to(12)
    assert log.max_timestamp_offset().offset == 9
    assert log.offset_for_timestamp(last.timestamp, log.log_end_offset) is None


def test_truncation_drops_snapshots_of_what_is_gone(world: "World") -> None:
    log = filled(world)
    log.truncate_to(12)
    assert log.snapshot_offsets == [9]
    assert [name for name in world.files() if name.endswith(".snapshot")] == [f"{9:020d}.snapshot"]


def test_a_replica_that_is_too_far_behind_begins_again(world: "World") -> None:
    log = filled(world)
    log.truncate_fully(1000)
    assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
    assert log.epochs.entries == []
    assert log.producers.producers == {}
    assert world.append(log, epoch=3) == 1000
    log = world.reopen()
    assert world.contents(log) == [1000]
    assert log.log_start_offset == 1000


def test_below_the_first_segment_everything_goes(world: "World") -> None:
    log = filled(world)
    world.disk.run()
    log.delete_records_before(9)
    assert log.apply_retention(world.clock.now_ms()) > 0
    log.truncate_to(5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)


def test_the_recovery_point_on_disk_never_lies_past_a_truncation(world: "World") -> None:
    """Or else a crash would leave what was written after it unchecked."""
    log = filled(world)
    log.flush()
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    assert world.disk.read_file("/data/recovery-point-offset-checkpoint") == b"0\n1\ntopic 0 27\n"
    log.truncate_to(12)
    assert world.disk.read_file("/data/recovery-point-offset-checkpoint") == b"0\n1\ntopic 0 12\n"


def test_a_flush_under_way_does_not_claim_what_was_truncated(world: "World") -> None:
    log = filled(world)
    world.disk.run()
    log.flush()
    log.truncate_to(12)
    world.append(log, 3, 30, epoch=5)
    world.disk.run()
    assert log.recovery_point <= 12


def test_an_older_checkpoint_under_way_does_not_win(world: "World") -> None:
    log = filled(world)
    log.flush()
    world.disk.run()
    world.manager.write_checkpoints()  # under way
    log.truncate_to(12)
    world.disk.run()
    assert world.disk.read_file("/data/recovery-point-offset-checkpoint") == b"0\n1\ntopic 0 12\n"
