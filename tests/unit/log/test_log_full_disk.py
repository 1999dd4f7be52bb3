"""A disk without room: what is there can be read and deleted, what is refused leaves no trace, and a restart needs no
room.
"""

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.log import names
from headwater.log.log import Log
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record

if TYPE_CHECKING:
    from unit.log.conftest import World

ROOMY = 1 << 40


def fill(world: "World") -> Log:
    """Many segments and leader epochs, and then no byte is free."""
    log = world.create(segment_bytes=1000, index_interval_bytes=100)
    for number in range(40):
        world.append(log, size=200, epoch=number // 10)
    world.disk.run()
    world.disk.faults.free_bytes = 0
    with pytest.raises(KafkaError):
        world.append(log, size=200, epoch=3)
    return log


def test_a_start_on_a_full_disk_finds_everything(world: "World") -> None:
    """A recovery that needs room to rebuild an index would keep the broker from the records that could be deleted."""
    fill(world)
    log = world.kill()
    assert world.opened
    assert world.contents(log) == list(range(40))
    assert log.epochs.entries == [(0, 0), (1, 10), (2, 20), (3, 30)]
    world.disk.faults.free_bytes = ROOMY
    assert world.append(log, epoch=3) == 40
    assert world.contents(world.reopen()) == list(range(41))


def test_indexes_and_snapshots_that_found_no_room_are_made_later(world: "World") -> None:
    log = fill(world)
    timestamp = world.clock.now_ms()
    world.disk.kill()
    for name in world.files():
        if name.endswith((names.OFFSET_INDEX, names.TIME_INDEX, names.SNAPSHOT)):
            world.disk.remove(f"{world.directory}/{name}")
    log = world.open().logs[world.partition]
    found = log.offset_for_timestamp(timestamp, 40)
    assert found is not None
    assert found.offset == 0
    assert log.read(17, 1, 40, min_one_batch=True) is not None
    world.disk.faults.free_bytes = ROOMY
    log = world.reopen()
    assert log.read(17, 1, 40, min_one_batch=True) is not None
    assert world.contents(log) == list(range(40))


def test_retention_makes_room_on_a_full_disk(world: "World") -> None:
    """It wanted to write down the leader epochs first, found no room, and deleted nothing."""
    log = fill(world)
    world.clock.advance(log.config.retention_ms + 1)
    before = len(log.segments)
    assert log.apply_retention(world.clock.now_ms()) == before
    assert log.epochs.entries == [(3, 40)]
    world.disk.faults.free_bytes = ROOMY
    log = world.reopen()
    assert log.epochs.entries == [(3, 40)]
    assert world.append(log, epoch=3) == 40


@pytest.mark.parametrize("ending", ["reopen", "kill", "crash"])
def test_the_only_segment_of_a_log_expires_on_a_full_disk(world: "World", ending: str) -> None:
    """It had to be rolled first, its index and a snapshot found no room, and so it stayed, and the disk stayed full."""
    log = world.create()
    producer = {"producer_id": 7, "producer_epoch": 0}
    for sequence in range(20):
        world.append(log, base_sequence=sequence, **producer)
    log.flush()
    world.disk.run()
    world.disk.faults.free_bytes = 0
    world.clock.advance(log.config.retention_ms + 1)
    assert log.apply_retention(world.clock.now_ms()) == 1
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes()) == (20, 20, 0)
    with pytest.raises(KafkaError):
        world.append(log, base_sequence=20, **producer)
    world.disk.run()
    world.pass_time(log.config.file_delete_delay_ms)
    assert not [name for name in world.files() if name.startswith(names.segment_name(0))]
    assert world.disk.faults.free_bytes > 1000, "there is room again"
    assert world.append(log, base_sequence=20, **producer) == 20
    log.flush()
    world.disk.run()
    log = getattr(world, ending)()
    assert (log.log_start_offset, world.contents(log)) == (20, [20])


def test_a_disk_without_room_for_a_name_keeps_the_last_segment(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not even an empty file can be made, the others go, and nothing is left half done."""
    log = fill(world)
    world.clock.advance(log.config.retention_ms + 1)
    before = len(log.segments)
    open_file = world.disk.open

    def full(path: str, *, create: bool = False) -> object:
        if create and not world.disk.exists(path):
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return open_file(path, create=create)

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "open", full)
        assert log.apply_retention(world.clock.now_ms()) == before - 1
        with pytest.raises(OSError, match="No space"):
            log.apply_retention(world.clock.now_ms())
    assert world.contents(log)[-1] == 39
    assert log.apply_retention(world.clock.now_ms()) == 1
    assert world.contents(world.kill()) == []


def test_segments_go_at_once_where_there_is_no_room_for_a_longer_name(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """They had left the log, and their files stayed for ever: the disk that they were to make room on remained full."""
    log = fill(world)
    world.clock.advance(log.config.retention_ms + 1)
    count = len(log.segments)

    def full(old: str, _new: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", old)

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "rename", full)
        assert log.apply_retention(world.clock.now_ms()) == count
    assert {name[:20] for name in world.files() if name[0].isdecimal()} == {names.segment_name(40)}
    assert world.disk.faults.free_bytes > 5_000
    assert world.append(log, epoch=3) == 40
    assert world.contents(world.kill()) == [40]


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_start_needs_no_room_after_all_has_expired(world: "World", is_removed: bool) -> None:
    """The file of leader epochs still had those of what had been deleted, and the log was offline for want of room to
    correct it.
    """
    log = fill(world)
    world.clock.advance(log.config.retention_ms + 1)
    log.apply_retention(world.clock.now_ms())
    if is_removed:
        world.disk.run()
        world.pass_time(log.config.file_delete_delay_ms)
        world.disk.faults.free_bytes = 0
    log = world.kill()
    assert (log.log_start_offset, log.log_end_offset, world.contents(log)) == (40, 40, [])
    assert not [name for name in world.files() if name.endswith(names.DELETED)]
    world.disk.faults.free_bytes = ROOMY
    assert world.append(log, epoch=4) == 40
    assert log.epochs.entries[-1] == (4, 40)
    assert world.contents(world.kill()) == [40]


def no_room(_size: int, path: str) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", path)


def no_descriptors(path: str, *, create: bool = False) -> None:
    raise OSError(errno.EMFILE, f"Too many open files {create}", path)


@pytest.mark.parametrize(
    ("name", "failing", "told"), [("take_space", no_room, "No space"), ("open", no_descriptors, "Too many")]
)
def test_an_index_that_could_not_be_cut_in_its_file_is_written_whole_later(
    world: "World", monkeypatch: pytest.MonkeyPatch, name: str, failing: Callable[..., None], told: str
) -> None:
    """What was to be written anew was added to what stood in the file."""
    log = world.create(index_interval_bytes=100)
    for _ in range(20):
        world.append(log, size=100)
    log.active.write_indexes()
    index = log.active.offset_index
    with monkeypatch.context() as patch:
        patch.setattr(world.disk, name, failing)
        with pytest.raises(OSError, match=told):
            index.truncate_to_position(world.disk, 1000)
    index.write(world.disk)
    assert world.disk.read_file(index.path) == bytes(index.entries)


def test_batches_behind_one_that_found_no_room_are_refused_as_it_was(world: "World") -> None:
    """They were out of order then; librdkafka bumped its epoch over that, and sent again what other partitions had
    already.
    """
    log = world.create()
    producer = {"producer_id": 7, "producer_epoch": 0}
    world.append(log, base_sequence=0, **producer)
    world.disk.faults.free_bytes = 0
    for sequence in (1, 2, 3):
        with pytest.raises(KafkaError) as caught:
            world.append(log, base_sequence=sequence, **producer)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    world.disk.faults.free_bytes = ROOMY
    with pytest.raises(KafkaError) as caught:
        world.append(log, base_sequence=2, **producer)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [world.append(log, base_sequence=sequence, **producer) for sequence in (1, 2)] == [1, 2]
    with pytest.raises(KafkaError) as caught:
        world.append(log, base_sequence=5, **producer)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_log_that_was_truncated_does_not_become_full_again_where_it_was_once(world: "World") -> None:
    """Its end came back to the same offset: gaps were told as "no room", for ever, and its leader was taken for one
    without room.
    """
    log = world.create()
    producer = {"producer_id": 7, "producer_epoch": 0}
    for sequence in (0, 1):
        world.append(log, base_sequence=sequence, **producer)
    world.disk.faults.free_bytes = 0
    with pytest.raises(KafkaError):
        world.append(log, base_sequence=2, **producer)
    assert log.is_full
    world.disk.faults.free_bytes = ROOMY
    log.truncate_to(1)
    world.append(log, base_sequence=1, epoch=1, **producer)
    assert (log.log_end_offset, log.is_full) == (2, False)
    with pytest.raises(KafkaError) as caught:
        world.append(log, base_sequence=4, epoch=1, **producer)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_of_another_cause_is_told_although_the_disk_was_full_for_somebody_else(world: "World") -> None:
    """A power loss had taken a batch that was acknowledged. "No room" was the answer to all that followed on it, for
    ever.
    """
    log = world.create()
    world.append(log, base_sequence=0, producer_id=7, producer_epoch=0)
    world.append(log, base_sequence=0, producer_id=8, producer_epoch=0)
    world.disk.faults.free_bytes = 0
    with pytest.raises(KafkaError):
        world.append(log, base_sequence=1, producer_id=8, producer_epoch=0)
    world.disk.faults.free_bytes = ROOMY
    with pytest.raises(KafkaError) as caught:
        world.append(log, base_sequence=2, producer_id=7, producer_epoch=0)  # as if 1 had been lost
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    with pytest.raises(KafkaError) as caught:
        world.append(log, base_sequence=2, producer_id=8, producer_epoch=0)  # behind the one that found no room
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("is_rolled", [True, False])
def test_a_start_needs_no_room_for_what_was_aborted(
    world: "World", is_rolled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker had found room and its index entry had not: the log was offline, and could not even expire."""
    log = world.create(segment_bytes=600)
    append_aborted(world, log)
    while is_rolled and len(log.segments) < 3:
        world.append(log)
    path = log.segments[0].path(names.TRANSACTION_INDEX)
    world.disk.kill()
    if world.disk.exists(path):
        world.disk.remove(path)
    world.disk.faults.free_bytes = 0
    log = world.open().logs[world.partition]
    for room in (0, ROOMY):
        world.disk.faults.free_bytes = room
        assert [entry.first_offset for entry in log.aborted_transactions(0, 10)] == [1]
    log = world.reopen()
    assert [entry.first_offset for entry in log.aborted_transactions(0, 10)] == [1]
    monkeypatch.setattr(world.disk, "take_space", lambda _size, path: pytest.fail(f"{path} is written again"))
    assert [entry.first_offset for entry in log.aborted_transactions(0, 10)] == [1]


def append_aborted(world: "World", log: Log) -> None:
    world.append(log)
    batch = build_batch([Record(0, 0, b"k", b"")], producer_id=7, producer_epoch=0, transactional=True)
    log.append_own(memoryview(batch), 0, world.clock.now_ms())
    marker = EndTransactionMarker(False, 0)
    ending = build_end_transaction_marker(marker, producer_id=7, producer_epoch=0, timestamp=1)
    log.append_own(memoryview(ending), 0, world.clock.now_ms(), marker)


def rolled_twice(world: "World") -> Log:
    """All of it is on the device, so that the next start looks at the last segment alone."""
    log = world.create(segment_bytes=600, index_interval_bytes=1)
    append_aborted(world, log)
    while len(log.segments) < 3:
        world.append(log)
    log.flush()
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    assert log.recovery_point == log.log_end_offset
    return log


@pytest.mark.parametrize("damage", [b"?", bytes(33), b"?" * 34], ids=len)
def test_an_index_of_aborted_transactions_without_room_stays_damaged(
    world: "World", damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was emptied to be written in place, and said then that nothing was aborted: after a kill, aborted records were
    read as committed.
    """
    log = rolled_twice(world)
    first = log.segments[0]
    first.let_go()
    world.disk.write_file(first.path(names.TRANSACTION_INDEX), damage)

    def no_room(_size: int, path: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", path)

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "take_space", no_room)
        assert [entry.first_offset for entry in log.aborted_transactions(0, 10)] == [1]
        first.let_go()
        assert [entry.first_offset for entry in log.aborted_transactions(0, 10)] == [1]
    log = world.kill()
    assert [entry.first_offset for entry in log.aborted_transactions(0, 10)] == [1]


def test_an_index_without_room_is_missing_and_not_empty(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    """Lookups by time left the segment out after a kill."""
    log = rolled_twice(world)
    first = log.segments[0]
    first.let_go()
    timestamp = world.clock.now_ms()
    world.disk.write_file(first.path(names.TIME_INDEX), b"?")

    def no_room(_size: int, path: str) -> None:
        if path.endswith(names.TIME_INDEX):
            raise OSError(errno.ENOSPC, "No space left on device", path)

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "take_space", no_room)
        found = log.offset_for_timestamp(timestamp, 10)
        assert found is not None
        assert found.offset == 0
    log = world.kill()
    found = log.offset_for_timestamp(timestamp, 10)
    assert found is not None
    assert found.offset == 0


@pytest.mark.parametrize("suffix", [names.TRANSACTION_INDEX, names.TIME_INDEX])
def test_an_index_that_found_room_later_is_on_the_device_before_it_is_believed(
    worlds: Callable[[int], "World"], suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was written in place: a power loss left it empty, of a segment that no recovery looks at."""
    for seed in range(12):
        world = worlds(seed)
        log = rolled_twice(world)
        first = log.segments[0]
        first.let_go()
        timestamp = world.clock.now_ms()
        world.disk.write_file(first.path(suffix), b"?")

        def no_room(_size: int, path: str) -> None:
            if path.endswith(suffix):
                raise OSError(errno.ENOSPC, "No space left on device", path)

        with monkeypatch.context() as patch:
            patch.setattr(world.disk, "take_space", no_room)
            assert log.aborted_transactions(0, 10)
            assert log.offset_for_timestamp(timestamp, 10) is not None
        first.let_go()
        log = world.crash()
        assert [entry.first_offset for entry in log.aborted_transactions(0, 10)] == [1]
        found = log.offset_for_timestamp(timestamp, 10)
        assert found is not None
        assert found.offset == 0


def test_a_leader_without_room_knows_its_epoch_and_writes_it_down_before_it_appends(world: "World") -> None:
    log = fill(world)
    log.begin_term(7)
    assert log.end_offset_for_epoch(5) == (3, 40)
    assert log.end_offset_for_epoch(7) == (7, 40)
    with pytest.raises(KafkaError):
        world.append(log, epoch=7)
    assert b"7 40" not in world.disk.read_file(f"{world.directory}/{names.LEADER_EPOCH_CHECKPOINT}")
    world.disk.faults.free_bytes = ROOMY
    assert world.append(log, epoch=7) == 40
    assert b"7 40" in world.disk.read_file(f"{world.directory}/{names.LEADER_EPOCH_CHECKPOINT}")
    log = world.kill()
    assert log.epochs.entries == [(0, 0), (1, 10), (2, 20), (3, 30), (7, 40)]
