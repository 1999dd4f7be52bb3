"""The cleaner among other things that happen to logs: readers, truncation, deletion, a full disk, a restart."""

import errno
from typing import TYPE_CHECKING, Any

import pytest

from headwater.base.ids import TopicId, TopicPartition
from headwater.log.compaction import planning
from headwater.log.compaction.cleaner import CHECKPOINT_MS, RETRY_MS, SPARE_BYTES, CleanerSettings
from headwater.log.log import Log
from headwater.records.builder import build_batch
from headwater.records.reader import Record, read_batches, read_records

if TYPE_CHECKING:
    from conftest import World

CONFIG: dict[str, Any] = {"segment_bytes": 300, "cleanup_compact": True, "cleanup_delete": False}


def fill_without_checkpoint(world: "World", log: Log, rounds: int = 6, epoch: int = 0) -> None:
    for number in range(rounds):
        records = [Record(at, world.clock.now_ms(), b"k%d" % at, b"%d" % number * 30) for at in range(3)]
        log.append_as_leader(memoryview(build_batch(records)), epoch, world.clock.now_ms())
    log.flush()
    world.disk.run()


def fill(world: "World", log: Log, rounds: int = 6, epoch: int = 0) -> None:
    fill_without_checkpoint(world, log, rounds, epoch)
    world.manager.write_checkpoints()
    world.disk.run()


def compacted(world: "World", **config: Any) -> Log:
    log = world.create(**{**CONFIG, **config})
    fill(world, log)
    return log


def start(world: "World") -> None:
    world.manager.cleaner.tick(world.clock.now_ms(), world.clock.monotonic_ms())


def finish(world: "World") -> None:
    world.scheduler.run_due()
    world.disk.run()


def values(log: Log) -> list[int]:
    """The offsets of all records."""
    found = []
    for segment in log.segments:
        data = segment.open_file().pread(0, segment.size_bytes)
        for at, header in read_batches(data):
            found += [record.offset for record in read_records(data[at : at + header.size_bytes], 1 << 20)]
    return found


def test_a_log_is_cleaned_up_to_its_active_segment_and_that_is_written_down(world: "World") -> None:
    log = compacted(world)
    active = log.active
    start(world)
    finish(world)
    assert values(log) == [12, 13, 14, 15, 16, 17]
    assert log.active is active
    assert world.manager.cleaner.clean_to == {world.partition: 15}
    assert world.disk.read_file("/data/cleaner-offset-checkpoint") == b"0\n1\ntopic 0 15\n"
    assert world.manager.cleaner.dirtiness(log, 0).dirty_bytes == 0
    log = world.reopen()
    assert world.manager.cleaner.clean_to == {world.partition: 15}
    assert values(log) == [12, 13, 14, 15, 16, 17]


def test_a_follower_learns_from_a_compacted_log_where_each_epoch_began(world: "World") -> None:
    """Seed 1345309456 of cluster-coordinators: nothing was left of the first batches of an epoch, so a replica that had
    begun anew had it begin later, and as a leader it took a deposed one's record before that for its own.
    """
    log = world.create(**CONFIG)
    for epoch in range(3):
        fill(world, log, epoch=epoch)
    starts = list(log.epochs.entries)
    start(world)
    finish(world)
    assert values(log)[0] > starts[-1][1]
    follower = world.manager.create(TopicPartition("follower", 0), TopicId(b"f" * 16))
    for segment in log.segments:
        follower.append_as_follower(memoryview(segment.open_file().pread(0, segment.size_bytes)), 2)
    assert follower.epochs.entries == starts[1:]
    assert follower.end_offset_for_epoch(0)[1] == log.end_offset_for_epoch(0)[1]


def test_the_old_files_go_later_and_a_slice_of_them_is_read_to_its_end(world: "World") -> None:
    log = compacted(world)
    piece = log.read(0, 1 << 20, log.log_end_offset, min_one_batch=True)
    assert piece is not None
    before = piece.read()
    start(world)
    finish(world)
    assert [name for name in world.files() if name.endswith(".log.deleted")]
    world.pass_time(60_000)
    assert not [name for name in world.files() if name.endswith(".deleted")]
    assert piece.read() == before
    piece.release()


@pytest.mark.parametrize(
    "config",
    [{"cleanup_compact": False}, {"min_cleanable_dirty_ratio": 1.0}, {"min_compaction_lag_ms": 10_000}],
    ids=str,
)
def test_what_is_not_due_is_left_as_it_is(world: "World", config: dict[str, Any]) -> None:
    log = compacted(world, **config)
    start(world)
    assert world.manager.cleaner.busy_count == 0
    assert len(values(log)) == 18


def test_records_that_are_not_on_the_device_or_not_committed_are_not_cleaned(world: "World") -> None:
    log = compacted(world)
    world.manager.high_watermark_of = lambda _: 7
    assert world.manager.cleaner.dirtiness(log, 0).end_offset == 6
    world.manager.high_watermark_of = lambda log: log.log_end_offset
    log.recovery_point = 4
    assert world.manager.cleaner.dirtiness(log, 0).end_offset == 3


def test_one_worker_takes_one_log_at_a_time_and_rests_when_nothing_is_due(world: "World") -> None:
    log = compacted(world)
    start(world)
    start(world)
    assert world.manager.cleaner.busy_count == 1
    finish(world)
    start(world)
    fill(world, log, 3)
    start(world)
    assert world.manager.cleaner.busy_count == 0, "it rests"
    world.clock.advance(15_000)
    start(world)
    assert world.manager.cleaner.busy_count == 1
    finish(world)


def test_the_cleaner_may_be_switched_off(world: "World") -> None:
    compacted(world)
    world.manager.cleaner.settings = lambda: CleanerSettings(enabled=False)
    start(world)
    assert world.manager.cleaner.busy_count == 0


def test_what_was_truncated_meanwhile_is_not_swapped_in(world: "World") -> None:
    log = compacted(world)
    start(world)
    log.truncate_to(4)
    finish(world)
    assert values(log) == [0, 1, 2]
    assert world.manager.cleaner.busy_count == 0
    assert not [name for name in world.files() if name.endswith((".cleaned", ".swap"))]
    assert world.manager.cleaner.clean_to == {}


def test_a_truncation_takes_what_is_clean_back(world: "World") -> None:
    log = compacted(world)
    start(world)
    finish(world)
    log.truncate_to(13)
    assert world.manager.cleaner.clean_to == {world.partition: log.log_end_offset}


def test_a_topic_that_was_deleted_meanwhile_and_made_again_is_not_touched(world: "World") -> None:
    log = compacted(world)
    start(world)
    world.manager.delete(log.partition)
    new = world.create(**CONFIG)
    fill(world, new, 1)
    finish(world)
    assert values(new) == [0, 1, 2]
    assert world.manager.cleaner.clean_to == {}
    assert not [name for name in world.files() if name.endswith((".cleaned", ".swap"))]


def test_a_damaged_log_is_left_alone_for_a_while(world: "World") -> None:
    log = compacted(world)
    world.disk.flip_bit(log.segments[1].path(".log"), 70, 0)
    start(world)
    finish(world)
    cleaner = world.manager.cleaner
    assert (cleaner.counts.failures, cleaner.uncleanable_count, cleaner.busy_count) == (1, 1, 0)
    assert len(log.segments) == 6
    assert not [name for name in world.files() if name.endswith(".cleaned")]
    start(world)
    assert cleaner.busy_count == 0
    world.clock.advance(RETRY_MS)
    start(world)
    assert cleaner.busy_count == 1
    finish(world)


@pytest.mark.parametrize("where", ["planning.job_for", "planning.state_of"])
def test_a_log_that_cannot_be_read_stops_neither_others_nor_the_checkpoints(
    world: "World", where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tick ended there: no other log was compacted, and no recovery point was written any more."""
    log = compacted(world)
    other = world.manager.create(TopicPartition("other", 0), TopicId(bytes(16)))
    fill(world, other)
    name = where.rpartition(".")[2]
    real = getattr(planning, name)

    def failing(each: Log, *rest: Any) -> Any:
        if each is log:
            raise OSError(errno.EBADMSG, "the index of aborted transactions is damaged")
        return real(each, *rest)

    monkeypatch.setattr(f"headwater.log.compaction.cleaner.{name}", failing)
    for _ in range(3):
        world.clock.advance(60_000)
        world.manager.tick(world.clock.now_ms(), world.clock.monotonic_ms())
        finish(world)
    assert world.manager.cleaner.uncleanable_count == 1
    assert TopicPartition("other", 0) in world.manager.cleaner.clean_to
    assert world.disk.exists("/data/recovery-point-offset-checkpoint")


def test_a_lack_of_descriptors_at_the_end_is_no_failure_of_the_device(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory could not be opened to be synced, and so it went offline, with all its logs."""
    log = compacted(world)

    def without_descriptors(path: str) -> None:
        raise OSError(errno.EMFILE, "Too many open files", path)

    with monkeypatch.context() as patch:
        start(world)
        world.scheduler.run_due()
        patch.setattr(world.disk, "sync_directory_now", without_descriptors)
        world.disk.run()
    assert log.failed is None
    assert world.manager.cleaner.busy_count == 0
    assert world.manager.cleaner.clean_to == {}
    log.flush()
    world.disk.run()
    start(world)
    finish(world)
    assert world.manager.cleaner.clean_to == {world.partition: 15}
    assert values(world.crash()) == [12, 13, 14, 15, 16, 17]


def test_a_disk_without_room_is_not_filled(world: "World") -> None:
    compacted(world)
    world.disk.faults.free_bytes = SPARE_BYTES
    start(world)
    assert world.manager.cleaner.busy_count == 0
    assert world.manager.cleaner.uncleanable_count == 1


def test_a_disk_without_room_for_a_longer_name_loses_the_old_files_at_once(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with retention; the log failed over it, and its directory went offline."""
    log = compacted(world)
    rename = world.disk.rename

    def crowded(old: str, new: str) -> None:
        if new.endswith(".deleted"):
            raise OSError(errno.ENOSPC, "No space left on device", new)
        rename(old, new)

    monkeypatch.setattr(world.disk, "rename", crowded)
    start(world)
    finish(world)
    assert log.failed is None
    assert values(log) == [12, 13, 14, 15, 16, 17]
    assert values(world.kill()) == [12, 13, 14, 15, 16, 17]


@pytest.mark.parametrize("suffix", [".index.swap", ".timeindex.swap", ".log.swap"])
def test_a_disk_without_room_for_the_first_new_name_leaves_the_log_as_it_was(
    world: "World", monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """Nothing counts before the log itself is called `.swap`; the log failed over it until a restart."""
    log = compacted(world)
    before, rename = values(log), world.disk.rename

    def crowded(old: str, new: str) -> None:
        if new.endswith(suffix):
            raise OSError(errno.ENOSPC, "No space left on device", new)
        rename(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(world.disk, "rename", crowded)
        start(world)
        finish(world)
    assert log.failed is None
    assert values(log) == before
    assert world.manager.cleaner.uncleanable_count == 1
    assert not [name for name in world.files() if name.endswith((".cleaned", ".swap"))]
    world.clock.advance(RETRY_MS)
    start(world)
    finish(world)
    assert values(log) == [12, 13, 14, 15, 16, 17]
    assert values(world.kill()) == [12, 13, 14, 15, 16, 17]


def no_room_for_the_second_group(world: "World", monkeypatch: pytest.MonkeyPatch, log: Log) -> None:
    rename, swapped = world.disk.rename, set[str]()

    def crowded(old: str, new: str) -> None:
        if new.endswith(".log.swap"):
            if swapped:
                raise OSError(errno.ENOSPC, "No space left on device", new)
            swapped.add(new)
        rename(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(world.disk, "rename", crowded)
        start(world)
        world.scheduler.run_due()
    assert log.failed is None
    assert swapped


def test_groups_swapped_in_before_one_without_room_are_on_the_device_before_the_log_is_free(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody synced the directory before the next flush, while the old files were removed after their delay."""
    log = compacted(world)
    no_room_for_the_second_group(world, monkeypatch, log)
    cleaner, before = world.manager.cleaner, values(log)
    assert len(before) < 18, "the first group is in place"
    assert cleaner.busy_count == 1, "until the directory is synced"
    world.disk.run()
    assert (cleaner.busy_count, cleaner.uncleanable_count, cleaner.clean_to) == (0, 1, {})
    assert not [name for name in world.files() if name.endswith((".cleaned", ".swap"))]
    assert values(world.crash()) == before


def test_groups_swapped_in_before_the_log_changed_are_on_the_device_before_it_is_free(world: "World") -> None:
    log = compacted(world)
    start(world)
    world.scheduler.run_one()  # the worker is done, and its first result is in place
    log.truncate_to(16)
    world.scheduler.run_due()
    cleaner = world.manager.cleaner
    assert cleaner.busy_count == 1
    world.disk.run()
    assert (cleaner.busy_count, cleaner.clean_to) == (0, {})
    assert not [name for name in world.files() if name.endswith((".cleaned", ".swap"))]


def test_keys_that_do_not_fit_take_several_rounds(world: "World") -> None:
    log = compacted(world, min_cleanable_dirty_ratio=0.0)
    world.manager.cleaner.settings = lambda: CleanerSettings(map_bytes=1, backoff_ms=0)
    clean_to = []
    for _ in range(10):
        start(world)
        finish(world)
        clean_to.append(world.manager.cleaner.clean_to[world.partition])
    assert clean_to[:5] == [3, 6, 9, 12, 15]
    assert values(log) == [12, 13, 14, 15, 16, 17]
    assert world.disk.open_references <= len(log.segments)


def test_what_a_killed_process_left_unsynced_is_synced_and_then_cleaned(world: "World") -> None:
    compacted(world)
    world.disk.remove("/data/recovery-point-offset-checkpoint")
    log = world.kill()
    assert log.recovery_point < log.active.base_offset
    start(world)
    world.disk.run()
    world.clock.advance(15_000)
    start(world)
    finish(world)
    assert len(values(log)) == 18, "that all is synced is written down first"
    world.clock.advance(CHECKPOINT_MS)
    start(world)
    finish(world)
    assert values(log) == [12, 13, 14, 15, 16, 17]


def test_nothing_is_cleaned_past_the_recovery_point_that_the_device_has(world: "World") -> None:
    """A recovery from there on takes what is missing for lost."""
    log = world.create(**CONFIG)
    fill(world, log, rounds=3)
    fill_without_checkpoint(world, log, rounds=3)
    assert world.manager.synced_recovery_point(world.partition) == 9
    assert log.recovery_point == 18
    start(world)  # asks for the next checkpoint, too
    world.scheduler.run_due()
    world.disk.run(0)
    assert world.manager.cleaner.dirtiness(log, 0).end_offset == 15
    assert values(log) == [6, 7, 8, *range(9, 18)]
    finish(world)
    start(world)
    finish(world)
    assert values(log) == [12, 13, 14, 15, 16, 17]


def refill(world: "World", log: Log, letter: bytes) -> None:
    """From offset 6 on, with records of the same size."""
    log.truncate_to(6)
    for _ in range(4):
        records = [Record(at, world.clock.now_ms(), letter + b"%d" % at, letter * 30) for at in range(3)]
        log.append_as_leader(memoryview(build_batch(records)), 7, world.clock.now_ms())
    assert log.log_end_offset == 18


def test_a_result_is_not_swapped_in_over_other_records_of_the_same_size(world: "World") -> None:
    """The segments began and ended as before, so what was cut came back over what had been appended since."""
    log = compacted(world)
    before = [(segment.base_offset, segment.size_bytes) for segment in log.segments]
    start(world)
    world.scheduler.run_one()  # the worker is done, and its first result is in place
    refill(world, log, b"o")
    assert [(segment.base_offset, segment.size_bytes) for segment in log.segments][1:] == before[1:]
    after = values(log)
    assert after[-12:] == list(range(6, 18))
    finish(world)
    assert values(log) == after
    assert world.manager.cleaner.clean_to == {}
    assert not [name for name in world.files() if name.endswith(".cleaned")]
    log.flush()
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    world.manager.cleaner.tick(world.clock.now_ms(), world.clock.monotonic_ms() + 1)
    finish(world)
    assert world.manager.cleaner.clean_to == {world.partition: 15}, "and it is cleaned again"


def test_what_was_truncated_before_the_names_were_on_the_device_is_not_clean(world: "World") -> None:
    log = compacted(world)
    start(world)
    world.scheduler.run_due()  # all is swapped in, and the directory not yet synced
    refill(world, log, b"o")
    world.disk.run()
    assert world.manager.cleaner.clean_to == {}
