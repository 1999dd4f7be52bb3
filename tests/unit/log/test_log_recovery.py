"""After a crash: what is checked, what is cut, what is rebuilt, and what people are told."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.log.recovery import recover

if TYPE_CHECKING:
    from conftest import World


def path_of(world: "World", offset: int, suffix: str = ".log") -> str:
    return f"{world.directory}/{offset:020d}{suffix}"


def cut(world: "World", path: str, length: int) -> None:
    file = world.disk.open(path)
    file.truncate(length)
    file.release()


def test_a_clean_start_reads_no_segment(world: "World") -> None:
    log = world.create(segment_bytes=500)
    for at in range(10):
        world.append(log, 2, 60, producer_id=7, producer_epoch=0, base_sequence=at * 2)
    world.disk.run()
    world.manager.close()
    world.disk.bytes_read.clear()
    log = world.open().logs[world.partition]
    assert world.manager.clean_start
    assert not [path for path in world.disk.bytes_read if path.endswith((".log", ".index", ".timeindex"))]
    assert (log.log_end_offset, log.recovery_point) == (20, 20)
    assert log.producers.producers[7].next_sequence == 20
    assert world.contents(log) == list(range(0, 20, 2))


def test_snapshots_of_earlier_shutdowns_do_not_pile_up(world: "World") -> None:
    log = world.create(segment_bytes=400)
    for _ in range(5):
        world.append(log, size=50)
        log = world.reopen()
    bases = [segment.base_offset for segment in log.segments[1:]]
    assert log.snapshot_offsets == sorted({*bases, 5})
    assert [name for name in world.files() if name.endswith(".snapshot")] == [
        f"{offset:020d}.snapshot" for offset in log.snapshot_offsets
    ]


def test_a_clean_start_without_a_checkpoint_looks_at_the_end(world: "World") -> None:
    log = world.create(index_interval_bytes=100)
    for _ in range(10):
        world.append(log, 2, 60)
    world.disk.run()
    world.manager.close()
    world.disk.remove("/data/recovery-point-offset-checkpoint")
    log = world.open().logs[world.partition]
    assert log.log_end_offset == 20
    assert world.append(log) == 20


def test_the_mark_of_a_clean_shutdown_is_gone_while_the_broker_runs(world: "World") -> None:
    world.append(world.create())
    world.reopen()
    assert not world.disk.exists("/data/.kafka_cleanshutdown")
    world.kill()
    assert not world.manager.clean_start


def test_an_empty_mark_of_an_old_kafka_counts(world: "World") -> None:
    world.append(world.create())
    world.disk.run()
    world.manager.close(broker_epoch=33)
    assert world.disk.read_file("/data/.kafka_cleanshutdown").startswith(b'{"version":0,"brokerEpoch":33,')
    world.disk.write_file("/data/.kafka_cleanshutdown", b"")
    assert world.open().clean_start


def test_a_torn_tail_is_cut_at_every_byte(world: "World", caplog: pytest.LogCaptureFixture) -> None:
    log = world.create()
    world.append(log, 3)
    good = log.active.size_bytes
    world.append(log, 2)
    whole = world.disk.read_file(path_of(world, 0))
    for length in range(good, len(whole)):
        world.disk.write_file(path_of(world, 0), whole[:length])
        log = world.kill()
        assert log.log_end_offset == 3
        assert world.contents(log) == [0]
        assert world.disk.file_size(path_of(world, 0)) == good
    assert f"cut {len(whole) - 1 - good} bytes off {0:020d}.log at position {good}, offset 3" in caplog.text


def test_a_flipped_bit_anywhere_in_the_last_batch_is_never_served(world: "World") -> None:
    """In the CRC's reach, or in the header before it: base offset, length and epoch have no checksum."""
    log = world.create()
    world.append(log, 3)
    good = log.active.size_bytes
    world.append(log, 2, epoch=0)
    whole = world.disk.read_file(path_of(world, 0))
    for position in range(good, len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x80
        world.disk.write_file(path_of(world, 0), bytes(damaged))
        log = world.kill()
        changed_offset = position - good in range(1, 8)  # a later base offset is a gap, which compaction may leave too
        changed_epoch = position - good in range(12, 16)
        if not changed_offset and not changed_epoch:
            assert log.log_end_offset == 3, position - good


def test_a_bad_batch_in_the_middle_ends_the_log_and_is_reported(
    world: "World", caplog: pytest.LogCaptureFixture
) -> None:
    log = world.create(segment_bytes=400)
    for _ in range(8):
        world.append(log, size=100)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]
    second_batch = log.segments[1].find(3)
    world.disk.flip_bit(path_of(world, 2), second_batch + 80, 3)
    log = world.kill()
    assert log.log_end_offset == 3
    assert world.contents(log) == [0, 1, 2]
    assert "offset 3: a wrong CRC" in caplog.text
    assert f"set aside {4:020d}.log" in caplog.text
    assert f"set aside {6:020d}.log" in caplog.text
    assert world.append(log, epoch=1) == 3
    assert world.contents(world.reopen()) == [0, 1, 2, 3]


def test_only_what_lies_past_the_recovery_point_is_checked(world: "World") -> None:
    log = world.create(segment_bytes=400)
    for _ in range(8):
        world.append(log, size=100)
    log.flush()
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    world.append(log, size=100)
    world.disk.bytes_read.clear()
    world.disk.flip_bit(path_of(world, 0), 100, 3)
    log = world.kill()
    assert log.log_end_offset == 9
    assert not [path for path in world.disk.bytes_read if path.endswith((f"{0:020d}.log", f"{2:020d}.log"))]


def test_indexes_past_the_recovery_point_are_rebuilt(world: "World") -> None:
    log = world.create(index_interval_bytes=100)
    for _ in range(10):
        world.append(log, 2, 60)
        world.clock.advance(5)
    world.disk.run()
    log.active.end_time_index()
    paths = [path_of(world, 0, suffix) for suffix in (".index", ".timeindex")]
    expected = [world.disk.read_file(path) for path in paths]
    assert all(expected)
    world.disk.write_file(paths[0], bytes(800))
    world.disk.write_file(paths[1], b"\x7f" * 24)
    world.kill()
    assert [world.disk.read_file(path) for path in paths] == expected


def test_a_preallocated_index_is_rebuilt(world: "World") -> None:
    """Apache Kafka leaves ten megabytes of zeroes when it dies."""
    log = world.create(index_interval_bytes=100)
    for _ in range(10):
        world.append(log, 2, 60)
    for suffix in (".index", ".timeindex"):
        path = path_of(world, 0, suffix)
        world.disk.write_file(path, world.disk.read_file(path) + bytes(10 << 20))
    log = world.kill()
    assert world.contents(log) == list(range(0, 20, 2))
    assert world.disk.file_size(path_of(world, 0, ".index")) < 1000


def test_lost_leader_epochs_are_found_again_in_the_batches(world: "World") -> None:
    log = world.create(segment_bytes=400)
    for epoch in (0, 0, 2, 2, 5):
        world.append(log, size=100, epoch=epoch)
    world.disk.write_file(f"{world.directory}/leader-epoch-checkpoint", b"")
    assert world.kill().epochs.entries == [(0, 0), (2, 2), (5, 4)]
    world.disk.remove(f"{world.directory}/leader-epoch-checkpoint")
    assert world.kill().epochs.entries == [(0, 0), (2, 2), (5, 4)]


def test_a_damaged_snapshot_is_rebuilt_from_the_log(world: "World") -> None:
    log = world.create(segment_bytes=400)
    for at in range(7):
        world.append(log, size=100, producer_id=7, producer_epoch=0, base_sequence=at)
    log.flush()
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    for offset in (2, 4, 6):
        world.disk.write_file(path_of(world, offset, ".snapshot"), b"\0\1garbage")
    assert world.kill().producers.producers[7].next_sequence == 7


def test_a_segment_that_lost_its_end_ends_the_log(world: "World", caplog: pytest.LogCaptureFixture) -> None:
    """The order in which the kernel writes files back is its own: the later segment may survive alone."""
    log = world.create(segment_bytes=400)
    for _ in range(4):
        world.append(log, size=100)
    cut(world, path_of(world, 0), log.segments[0].find(1))
    log = world.kill()
    assert world.contents(log) == [0]
    assert "behind the cut" in caplog.text


def test_a_compacted_topic_has_no_gap_past_the_recovery_point_that_is_not_a_loss(world: "World") -> None:
    """A replica of __consumer_offsets had lost a segment that never reached the device, and kept the next, which had: a
    committed offset was gone there, and it was in sync. The cleaner leaves alone what lies past the recovery point."""
    log = world.create(segment_bytes=400, cleanup_compact=True)
    for _ in range(4):
        world.append(log, size=100)
    cut(world, path_of(world, 0), 0)
    assert world.contents(world.kill()) == []


def test_compacted_topics_may_have_gaps_below_the_recovery_point(world: "World") -> None:
    log = world.create(segment_bytes=400, cleanup_compact=True)
    for _ in range(4):
        world.append(log, size=100)
    log.flush()
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    cut(world, path_of(world, 0), log.segments[0].find(1))
    assert world.contents(world.kill()) == [0, 2, 3]


@pytest.mark.parametrize("damage", [b"0\n1\ntopic 0 x\n", None], ids=["damaged", "gone"])
def test_without_its_checkpoint_a_compacted_topic_keeps_what_lies_behind_its_gaps(
    world: "World", damage: bytes | None
) -> None:
    """Nobody knows then which of them compaction has made."""
    log = world.create(segment_bytes=400, cleanup_compact=True)
    for _ in range(4):
        world.append(log, size=100)
    log.flush()
    world.disk.run()
    world.manager.cleaner.clean_to[world.partition] = 1
    world.manager.checkpoint_cleaner(log)
    world.manager.write_checkpoints()
    world.disk.run()
    cut(world, path_of(world, 0), log.segments[0].find(1))
    if damage is None:
        world.disk.remove("/data/recovery-point-offset-checkpoint")
    else:
        world.disk.write_file("/data/recovery-point-offset-checkpoint", damage)
    assert world.contents(world.kill()) == [0, 2, 3]


def test_what_was_truncated_does_not_come_back_behind_what_followed_it(world: "World") -> None:
    log = world.create(segment_bytes=400)
    for _ in range(4):
        world.append(log, size=100, epoch=1)
    old = world.disk.read_file(path_of(world, 2))
    log.truncate_to(1)
    world.append(log, size=100, epoch=2)
    world.disk.write_file(path_of(world, 2), old)  # its removal was not on the device yet
    log = world.kill()
    assert world.contents(log) == [0, 1]
    assert log.epochs.entries == [(1, 0), (2, 1)]


def test_a_truncated_segment_that_overlaps_what_followed_goes(world: "World") -> None:
    log = world.create(segment_bytes=400)
    for _ in range(4):
        world.append(log, size=100, epoch=1)
    old = world.disk.read_file(path_of(world, 2))
    log.truncate_to(1)
    for _ in range(2):
        world.append(log, epoch=1)
    assert len(log.segments) == 1
    world.disk.write_file(path_of(world, 2), old)
    assert world.contents(world.kill()) == [0, 1, 2]


def test_half_deleted_segments_leave_no_orphans(world: "World") -> None:
    log = world.create(segment_bytes=400)
    for _ in range(4):
        world.append(log, size=100)
    world.disk.rename(path_of(world, 0), path_of(world, 0) + ".deleted")
    log = world.kill()
    assert log.log_start_offset == 2
    assert not [name for name in world.files() if name.startswith(f"{0:020d}")]


def test_a_compaction_that_died_before_its_swap_was_complete(world: "World") -> None:
    log = world.create(segment_bytes=400, cleanup_compact=True)
    for _ in range(6):
        world.append(log, size=100)
    for suffix in (".log", ".index", ".timeindex"):  # one segment in the place of the first two
        world.disk.write_file(path_of(world, 0, suffix) + ".swap", world.disk.read_file(path_of(world, 0, suffix)))
    world.disk.write_file(path_of(world, 9) + ".cleaned", b"unfinished")
    log = world.kill()
    assert world.contents(log) == list(range(6))
    assert not [name for name in world.files() if name.endswith((".swap", ".cleaned"))]


def test_an_empty_directory_is_an_empty_log(world: "World") -> None:
    world.disk.make_directory("/data/topic-0")
    log = world.kill()
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert world.append(log) == 0


def test_recovering_twice_changes_nothing(world: "World") -> None:
    log = world.create(segment_bytes=400)
    for at in range(7):
        world.append(log, size=100, producer_id=7, producer_epoch=0, base_sequence=at)
    cut(world, path_of(world, 6), 50)
    arguments = (world.disk, world.directory, 0, 0, 4096)
    first = recover(*arguments)
    files = {name: world.disk.read_file(f"{world.directory}/{name}") for name in world.files()}
    second = recover(*arguments)
    assert first.log_end_offset == second.log_end_offset == 6
    assert (first.bytes_cut, second.bytes_cut) == (50, 0)
    assert {name: world.disk.read_file(f"{world.directory}/{name}") for name in world.files()} == files


def test_big_logs_are_recovered_in_a_worker_process(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    log = world.create()
    world.append(log, 3)
    monkeypatch.setattr("headwater.log.opening.RECOVER_IN_PLACE_BYTES", 10)
    world.disk.kill()
    manager = world.open()
    assert not world.opened
    assert not manager.logs
    world.scheduler.run_due()
    assert world.opened
    assert manager.logs[world.partition].log_end_offset == 3


def test_a_log_start_offset_survives_kills(world: "World") -> None:
    log = world.create()
    for _ in range(5):
        world.append(log)
    log.delete_records_before(3)
    world.manager.write_checkpoints()
    world.disk.run()
    assert world.kill().log_start_offset == 3


def test_a_log_start_offset_past_the_end_begins_again_there(world: "World") -> None:
    """The checkpoint was synced, the records were not."""
    log = world.create()
    for _ in range(5):
        world.append(log)
    log.delete_records_before(4)
    world.manager.write_checkpoints()
    world.disk.run()
    cut(world, path_of(world, 0), 0)
    log = world.kill()
    assert (log.log_start_offset, log.log_end_offset) == (4, 4)
    assert not log.snapshot_offsets


def test_data_that_was_durable_and_is_missing_is_reported(world: "World", caplog: pytest.LogCaptureFixture) -> None:
    log = world.create()
    world.append(log, 5)
    log.flush()
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    cut(world, path_of(world, 0), 0)
    world.kill()
    assert "event=data-missing" in caplog.text


@pytest.mark.parametrize("seed", range(30))
def test_power_loss_at_any_moment_keeps_what_was_flushed(worlds: "Callable[[int], World]", seed: int) -> None:
    world = worlds(seed)
    log: Any = world.create(segment_bytes=600, index_interval_bytes=100)
    flushed = 0
    for at in range(25):
        world.append(log, 2, 40, producer_id=7, producer_epoch=0, base_sequence=at * 2)
        if at % 7 == seed % 7:
            log.flush()
            world.disk.run()
            flushed = log.log_end_offset
            world.manager.write_checkpoints()
        elif at % 5 == 0:
            world.disk.run(2)
    log = world.crash()
    end = log.log_end_offset
    assert end >= flushed
    assert world.contents(log) == list(range(0, end, 2))
    assert log.producers.producers[7].next_sequence == end


@pytest.mark.parametrize("seed", range(20))
def test_the_mark_of_a_clean_shutdown_does_not_come_back(worlds: "Callable[[int], World]", seed: int) -> None:
    world = worlds(seed)
    world.append(world.create())
    world.append(world.reopen())
    world.crash()
    assert not world.manager.clean_start


@pytest.mark.parametrize("seed", range(20))
def test_a_segment_begun_after_a_recovery_is_as_durable_as_any(worlds: "Callable[[int], World]", seed: int) -> None:
    """The snapshot that rolling would have written was there already; the new segment's name was not synced with it."""
    world = worlds(seed)
    log = world.create(segment_bytes=200)
    world.append(log, size=100)
    log = world.kill()
    log.flush()
    world.disk.run()
    world.append(log, size=100)
    log.flush()
    world.disk.run()
    assert world.contents(world.crash()) == [0, 1]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("killed", [False, True])
def test_below_the_recovery_point_indexes_are_on_the_device(
    worlds: "Callable[[int], World]", seed: int, killed: bool
) -> None:
    """Written by a segment that was flushed before it was rolled, or by a recovery."""
    world = worlds(seed)
    log = world.create(segment_bytes=400, index_interval_bytes=100)
    for at in range(7):
        world.append(log, size=100, timestamp=world.clock.now_ms() + at)
        if not killed:
            log.flush()
            world.disk.run()
    if killed:
        log = world.kill()
    log.flush()
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    paths = [path_of(world, base, suffix) for base in (0, 2, 4) for suffix in (".index", ".timeindex")]
    before = [world.disk.read_file(path) for path in paths]
    assert all(before)
    log = world.crash()
    assert log.recovery_point == 7
    assert [world.disk.read_file(path) for path in paths] == before


def test_other_partitions_do_not_suffer(world: "World") -> None:
    other = TopicPartition("other", 3)
    world.append(world.create())
    log = world.create(other)
    world.append(log)
    cut(world, path_of(world, 0), 20)
    world.kill()
    assert world.manager.logs[other].log_end_offset == 1


@pytest.mark.parametrize(("position", "bit"), [(16, 0), (12, 6)])  # the message format, the leader epoch
@pytest.mark.parametrize("is_clean", [True, False])
def test_damage_below_the_recovery_point_costs_no_later_segment(
    world: "World", is_clean: bool, position: int, bit: int
) -> None:
    """What was synced is walked over only to find the leader epochs again: whatever stops the walk, nothing there is
    cut.
    """
    log = world.create(segment_bytes=500, index_interval_bytes=100)
    world.append(log, 2, 60, producer_id=7, producer_epoch=0, base_sequence=0)
    for epoch in (0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3):
        world.append(log, 2, 60, epoch=epoch)
    bases = list(log.base_offsets)
    assert len(bases) > 3
    world.disk.run()
    world.manager.close()
    if not is_clean:
        world.disk.remove("/data/.kafka_cleanshutdown")
    sizes = {base: world.disk.file_size(path_of(world, base)) for base in bases}
    index = world.disk.read_file(path_of(world, 0, ".index"))
    world.disk.flip_bit(path_of(world, 0), position, bit)
    world.disk.write_file(f"{world.directory}/leader-epoch-checkpoint", b"0\n7\nno\n")
    log = world.open().logs[world.partition]
    assert log.base_offsets == bases
    assert log.log_end_offset == 24
    assert {base: world.disk.file_size(path_of(world, base)) for base in bases} == sizes
    assert world.disk.read_file(path_of(world, 0, ".index")) == index
    if position == 16:
        assert log.epochs.latest_epoch == 3
        assert log.end_offset_for_epoch(0) == (0, 12)
    assert log.producers.producers[7].next_sequence == 2


def test_to_find_leader_epochs_again_in_a_big_log_is_work_for_another_process(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    log = world.create(segment_bytes=500)
    for _ in range(12):
        world.append(log, 2, 60)
    world.disk.run()
    world.manager.close()
    world.disk.remove(f"{world.directory}/leader-epoch-checkpoint")
    monkeypatch.setattr("headwater.log.opening.RECOVER_IN_PLACE_BYTES", 1500)  # more than the last segments have
    manager = world.open()
    is_open_at_once = world.opened
    world.scheduler.run_due()
    assert manager.logs[world.partition].epochs.entries == [(0, 0)]
    assert not is_open_at_once
