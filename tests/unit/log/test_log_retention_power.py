"""What retention deletes takes no producer with it: neither a power loss nor a full disk makes a log take a batch
twice.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from headwater.log import names
from headwater.log.log import Log

if TYPE_CHECKING:
    from unit.log.conftest import World

ROOMY = 1 << 40
SEEDS = range(8)  # what a power loss takes differs
STEPS = range(6)  # how much of what was submitted to the disk is done by then

PLAIN = {"retention_ms": 1000}
DURABLE = {"retention_ms": 1000, "flush_messages": 1}


def send(world: "World", log: Log, sequence: int, count: int = 3) -> Any:
    batch = world.batch(count, producer_id=7, producer_epoch=0, base_sequence=sequence)
    return log.append_as_leader(batch, 0, world.clock.now_ms())


def expired(world: "World", **config: Any) -> Log:
    """One batch of a producer, on the device, in a segment that is due."""
    log = world.create(**config)
    send(world, log, 0)
    log.flush()
    world.pass_time(2000)
    assert log.recovery_point == 3
    return log


@pytest.mark.parametrize("config", [PLAIN, DURABLE], ids=["plain", "durable"])
def test_a_batch_whose_segment_has_just_been_deleted_is_known_after_a_power_loss(
    worlds: Callable[[int], "World"], config: dict[str, int]
) -> None:
    """The new names of the old segment's files had reached the device, the snapshot had not: the batch was appended
    once more.
    """
    for seed in SEEDS:
        for steps in STEPS:
            world = worlds(seed)
            log = expired(world, **config)
            world.manager.apply_retention(world.clock.now_ms())
            world.disk.run(steps)
            log = world.crash()
            assert log.log_end_offset == 3
            assert send(world, log, 0).duplicate, (seed, steps)


def test_the_same_with_a_flush_under_way_that_began_before(worlds: Callable[[int], "World"]) -> None:
    """That one tells of the records up to the log's end, and nothing of the snapshot that came behind it."""
    for seed in SEEDS:
        for steps in STEPS:
            world = worlds(seed)
            log = expired(world, **PLAIN)
            log.flush()
            world.manager.apply_retention(world.clock.now_ms())
            world.disk.run(steps)
            assert send(world, world.crash(), 0).duplicate, (seed, steps)


def test_the_same_behind_records_that_were_deleted_on_request(worlds: Callable[[int], "World"]) -> None:
    for seed in SEEDS:
        for steps in STEPS:
            world = worlds(seed)
            log = world.create(retention_ms=-1, segment_ms=1000)
            send(world, log, 0)
            log.flush()
            world.pass_time(2000)
            log.delete_records_before(3)
            world.append(log)  # rolls
            world.manager.apply_retention(world.clock.now_ms())
            world.disk.run(steps)
            assert send(world, world.crash(), 0).duplicate, (seed, steps)


def test_the_same_with_a_log_that_has_just_been_recovered(worlds: Callable[[int], "World"]) -> None:
    """A killed process leaves snapshots in the page cache, and a recovery writes them anew."""
    for seed in SEEDS:
        for steps in STEPS:
            world = worlds(seed)
            log = world.create(retention_ms=-1, segment_ms=1000)
            send(world, log, 0)
            world.pass_time(2000)
            world.append(log)  # rolls
            log.flush()
            world.disk.run()
            log = world.kill()
            log.delete_records_before(3)
            world.manager.apply_retention(world.clock.now_ms())
            world.disk.run(steps)
            assert send(world, world.crash(), 0).duplicate, (seed, steps)


def test_the_producers_of_an_empty_log_outlive_one_power_loss_after_the_other(
    worlds: Callable[[int], "World"],
) -> None:
    """Each recovery wrote the snapshot anew, which was on the device already: the next power loss tore it."""
    for seed in SEEDS:
        world = worlds(seed)
        log = expired(world, **PLAIN)
        world.manager.apply_retention(world.clock.now_ms())
        world.disk.run()
        assert log.log_start_offset == 3
        for _ in range(4):
            log = world.crash()
        assert send(world, log, 0).duplicate, seed


def test_snapshots_that_a_recovery_writes_below_the_recovery_point_are_on_the_device(
    worlds: Callable[[int], "World"],
) -> None:
    """All are written anew where the leader epochs are lost. No flush looked at them, and retention took the segments
    before them.
    """
    for seed in range(24):
        world = worlds(seed)
        log = world.create(retention_ms=-1, segment_ms=1000)
        send(world, log, 0)
        world.pass_time(2000)
        world.append(log)  # rolls
        log.flush()
        world.disk.run()
        world.manager.write_checkpoints()
        world.disk.run()
        world.disk.remove(f"{world.directory}/{names.LEADER_EPOCH_CHECKPOINT}")
        log = world.kill()
        assert log.base_offsets == [0, 3]
        log.delete_records_before(3)
        world.manager.apply_retention(world.clock.now_ms())
        assert send(world, world.crash(), 0).duplicate, seed


def test_what_had_to_wait_is_deleted_when_the_flush_is_done(world: "World") -> None:
    """And not at the next retention, five minutes later."""
    log = expired(world, **PLAIN)
    assert world.manager.apply_retention(world.clock.now_ms()) == 0
    assert (log.base_offsets, log.log_start_offset) == ([0, 3], 0)
    world.disk.run()
    assert (log.base_offsets, log.log_start_offset) == ([3], 3)
    assert f"{0:020d}.log.deleted" in world.files()
    assert not log.retention_waits


def test_it_is_asked_for_once_while_it_waits(world: "World") -> None:
    log = expired(world, **PLAIN)
    world.manager.apply_retention(world.clock.now_ms())
    submitted = world.disk.work_count
    log.update_config(log.config)
    for _ in range(3):
        assert world.manager.apply_retention(world.clock.now_ms()) == 0
    assert world.disk.work_count == submitted
    world.disk.run()
    assert log.base_offsets == [3]
    send(world, log, 3)
    world.pass_time(2000)
    world.manager.apply_retention(world.clock.now_ms())
    world.disk.run()
    assert log.base_offsets == [6]


def test_a_segment_that_began_long_ago_is_not_waited_for(world: "World") -> None:
    log = world.create(segment_bytes=100, retention_ms=-1)
    for sequence in range(4):
        send(world, log, sequence, 1)
    world.disk.run()
    log.delete_records_before(2)
    count = log.base_offsets.index(2)
    assert world.manager.apply_retention(world.clock.now_ms()) == count
    assert not world.disk.work_count


def test_what_is_no_longer_due_when_the_flush_is_done_stays(world: "World") -> None:
    log = expired(world, **PLAIN)
    world.manager.apply_retention(world.clock.now_ms())
    world.manager.high_watermark_of = lambda _log: 0
    world.disk.run()
    assert log.base_offsets == [0, 3]


def test_nothing_is_deleted_behind_a_sync_that_failed(world: "World") -> None:
    log = expired(world, **PLAIN)
    world.manager.apply_retention(world.clock.now_ms())
    world.disk.faults.syncs_to_fail = 1
    world.disk.run()
    assert log.failed is not None
    assert (log.base_offsets, log.log_start_offset) == ([0, 3], 0)


def test_a_log_that_is_deleted_meanwhile_is_left_alone(world: "World") -> None:
    log = expired(world, **PLAIN)
    world.manager.apply_retention(world.clock.now_ms())
    world.manager.delete(world.partition)
    world.disk.run()
    assert log.base_offsets == [0, 3]


def test_an_error_of_the_disk_then_is_told_as_that_of_any_retention(
    world: "World", monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = expired(world, **PLAIN)
    world.manager.apply_retention(world.clock.now_ms())

    def broken(old: str, _new: str) -> None:
        raise PermissionError(1, "Operation not permitted", old)

    monkeypatch.setattr(world.disk, "rename", broken)
    world.disk.run()
    assert "event=retention-failed partition=topic-0" in caplog.text
    assert not log.retention_waits


def test_on_a_full_disk_all_but_the_last_segment_go_until_there_is_room_for_the_producers(world: "World") -> None:
    """The last one went too, with no snapshot in its place, although the others leave room enough."""
    log = world.create(segment_bytes=400, retention_ms=1000)
    for sequence in range(0, 12, 3):
        send(world, log, sequence)
    log.flush()
    world.pass_time(2000)
    before = len(log.segments)
    world.disk.faults.free_bytes = 0
    assert world.manager.apply_retention(world.clock.now_ms()) == before - 1
    world.disk.run()
    world.pass_time(log.config.file_delete_delay_ms)
    assert world.disk.faults.free_bytes > 300
    world.manager.apply_retention(world.clock.now_ms())
    world.disk.run()
    assert (log.log_start_offset, log.size_bytes()) == (12, 0)
    assert send(world, world.crash(), 9).duplicate


def test_records_that_are_old_when_they_come_are_rolled_once_and_not_at_the_pace_of_the_disk(world: "World") -> None:
    """A producer that fills in the past goes on while retention waits for the flush of what it has rolled: it looked
    again, rolled again, and flushed again, without end.
    """
    log = world.create(retention_ms=3_600_000)
    old_ms = world.clock.now_ms() - 7_200_000

    def send_old(sequence: int) -> None:
        batch = world.batch(1, timestamp=old_ms, producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.append_as_leader(batch, 0, world.clock.now_ms())

    for sequence in range(10):
        send_old(sequence)
    log.flush()
    world.disk.run()
    world.manager.apply_retention(world.clock.now_ms())
    begun = set()
    for sequence in range(10, 200):
        send_old(sequence)
        begun.add(log.active.base_offset)
        world.disk.run(1)
    assert len(begun) == 2
    assert log.log_start_offset >= 10
    assert not log.retention_waits
