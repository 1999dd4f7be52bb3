"""Truncations that something stands in the way of: a full disk, no descriptors, a damaged batch. None of it takes a
follower's disk offline.
"""

import errno
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.log import names
from headwater.log.log import Log
from headwater.log.rolling import roll
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record, read_batches

if TYPE_CHECKING:
    from unit.log.conftest import World

RECOVERY_POINTS = f"/data/{names.RECOVERY_POINT_CHECKPOINT}"


def filled(world: "World", interval_bytes: int = 200) -> Log:
    """Offsets 0 to 39, ten to an epoch and to a segment, all of it on the device and in the checkpoint."""
    log = world.create(segment_bytes=10 * len(world.batch(size=50)), index_interval_bytes=interval_bytes)
    for number in range(40):
        world.append(log, size=50, epoch=number // 10)
    log.flush()
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    assert log.base_offsets == [0, 10, 20, 30]
    return log


def no_room(_size: int, path: str) -> None:
    """Whatever is freed, others take it."""
    raise OSError(errno.ENOSPC, "No space left on device", path)


@pytest.mark.parametrize("offset", [40, 35, 30, 25, 12, 0])
@pytest.mark.parametrize("way", ["goes-on", "kill"])
def test_a_truncation_needs_no_room(world: "World", offset: int, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader epochs could not be written: the log had failed half truncated, and its directory went offline."""
    log = filled(world)
    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "take_space", no_room)
        log.truncate_to(offset)
        if way == "kill":
            log = world.kill()
        assert log.failed is None
        assert (log.log_end_offset, world.contents(log)) == (offset, list(range(offset)))
        assert [entry for entry in log.epochs.entries if entry[1] >= offset] == []
    assert world.append(log, epoch=7) == offset
    log = world.reopen()
    assert world.contents(log) == list(range(offset + 1))
    assert log.epochs.entries[-1] == (7, offset)


@pytest.mark.parametrize("epoch", [1, 5])
def test_nothing_follows_a_truncation_before_the_files_beside_the_log_tell_of_it(
    world: "World", epoch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power loss would leave unchecked what came after it, or under the epochs of what was cut."""
    log = filled(world)
    assert world.disk.read_file(RECOVERY_POINTS) == b"0\n1\ntopic 0 40\n"
    real = world.disk.write_file
    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "write_file", lambda path, *_data, **_durable: no_room(0, path))
        log.truncate_to(12)
        with pytest.raises(KafkaError) as caught:
            world.append(log, epoch=epoch)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.disk.write_file == real
    assert world.append(log, epoch=epoch) == 12
    assert world.disk.read_file(RECOVERY_POINTS) == b"0\n1\ntopic 0 12\n"
    later = b"" if epoch == 1 else b"5 12\n"
    assert world.disk.read_file(log.epochs.path) == b"0\n%d\n0 0\n1 10\n" % (2 + bool(later)) + later


def test_a_truncation_that_cannot_begin_changes_nothing_and_may_be_tried_again(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later segments were gone already when the file of the one to be cut could not be opened."""
    log = filled(world)
    for segment in log.segments:
        segment.let_go()

    def failing(path: str, *, create: bool = False) -> None:
        raise OSError(errno.EMFILE, f"Too many open files {create}", path)

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "open", failing)
        with pytest.raises(KafkaError) as caught:
            log.truncate_to(15)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failed is None
    assert world.contents(log) == list(range(40))
    log.truncate_to(15)
    assert world.contents(log) == list(range(15))


@pytest.mark.parametrize("ending", ["reopen", "kill", "crash"])
@pytest.mark.parametrize("offset", [40, 35, 31, 30])  # further back one is needed, see test_log_truncation_power
def test_a_truncation_that_runs_out_of_descriptors_leaves_the_log_in_use(
    world: "World", offset: int, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was open could be cut, and the files beside it could not be opened:
    the whole directory went offline for it.
    """
    log = filled(world)
    log.begin_epoch(4)

    def failing(path: str, *_data: bytes, **_options: bool) -> None:
        raise OSError(errno.EMFILE, "Too many open files", path)

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "open", failing)
        patch.setattr(world.disk, "write_file", failing)
        log.truncate_to(offset)
        assert log.failed is None
        assert (log.log_end_offset, world.contents(log)) == (offset, list(range(offset)))
        with pytest.raises(KafkaError):
            world.append(log, epoch=7)
        log.active.let_go()
    assert world.contents(log) == list(range(offset))
    for number in range(offset, offset + 3):
        assert world.append(log, epoch=7) == number
    assert world.disk.read_file(RECOVERY_POINTS) == b"0\n1\ntopic 0 %d\n" % offset
    log.flush()
    world.disk.run()
    log = getattr(world, ending)()
    assert world.contents(log) == list(range(offset + 3))
    assert log.epochs.entries[-1] == (7, offset)
    assert log.active.time_index.last_entry()[1] < offset + 3


@pytest.mark.parametrize("is_open", [True, False])
def test_a_log_begins_again_elsewhere_without_a_descriptor_to_spare(
    world: "World", is_open: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its segments were gone already when the new one could not be opened: it had none any more, and stopped the
    retention of all logs.
    """
    log = filled(world)
    for segment in log.segments:
        segment.close()
    if is_open:
        log.active.open_file()
    most, open_file = world.disk.open_references, world.disk.open

    def limited(path: str, *, create: bool = False) -> object:
        if world.disk.open_references >= most:
            raise OSError(errno.EMFILE, "Too many open files", path)
        return open_file(path, create=create)

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "open", limited)
        if is_open:
            log.truncate_fully(100)
        else:
            with pytest.raises(KafkaError):
                log.truncate_fully(100)
            assert log.log_end_offset == 40
    assert log.failed is None
    world.manager.apply_retention(world.clock.now_ms())
    assert world.contents(log) == ([] if is_open else list(range(40)))
    log.truncate_fully(100)
    assert world.append(log, epoch=7) == 100
    assert world.contents(world.kill()) == [100]


@pytest.mark.parametrize("position", [0, 1])
def test_an_index_that_was_cut_and_could_not_be_opened_is_written_with_the_next_entries(
    world: "World", position: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing left in it there seemed to be nothing to write, and the file kept what was cut."""
    log = filled(world, 1)
    active = log.active
    assert len(active.offset_index.entries) > 2 * 8

    def failing(path: str, *, create: bool = False) -> None:
        raise OSError(errno.EMFILE, f"Too many open files {create}", path)

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "open", failing)
        log.truncate_to(30 + position)
    active.let_go()
    assert world.disk.file_size(active.path(names.OFFSET_INDEX)) == 0
    assert world.disk.file_size(active.path(names.TIME_INDEX)) <= 12 * position


def damage(world: "World", log: Log, base: int, batch: int, length: int) -> list[int]:
    """Where the batches of that segment begin."""
    segment = next(segment for segment in log.segments if segment.base_offset == base)
    path = segment.path(names.LOG)
    data = world.disk.read_file(path)
    positions = [position for position, _ in read_batches(data)]
    at = positions[batch] + 8
    for wrong, right in zip(length.to_bytes(4, "big", signed=True), data[at : at + 4], strict=True):
        for bit in range(8):
            if (wrong ^ right) & (1 << bit):
                world.disk.flip_bit(path, at, bit)
        at += 1
    segment.let_go()
    return positions


@pytest.mark.parametrize("interval_bytes", [200, 1 << 20])
@pytest.mark.parametrize("length", [0, -12, 5, 300, (1 << 31) - 1])
@pytest.mark.parametrize("base", [10, 30])
def test_a_damaged_batch_does_not_stand_in_the_way(
    world: "World", base: int, length: int, interval_bytes: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The log failed over it, and its directory with it; or it was cut in the middle of a batch, or not at all."""
    log = filled(world, interval_bytes)
    positions = damage(world, log, base, 4, length)
    log.truncate_to(base + 8)
    assert log.failed is None
    assert log.active.size_bytes <= positions[8]
    assert base + 4 <= log.log_end_offset <= base + 8
    end = log.log_end_offset
    data = log.active.open_file().pread(0, log.active.size_bytes)
    assert log.active.open_file().size() == log.active.size_bytes
    if end < base + 8:  # nothing damaged is left
        assert [header.base_offset for _, header in read_batches(data)] == list(range(base, end))
        assert "event=truncated-at-damage" in caplog.text
    assert world.append(log, epoch=7) == end
    piece = log.read(end, 1 << 20, end + 1, min_one_batch=True)
    assert piece is not None
    assert [header.base_offset for _, header in read_batches(piece.read())] == [end]
    piece.release()


def test_producers_are_loaded_past_a_damaged_batch(world: "World", caplog: pytest.LogCaptureFixture) -> None:
    """Where their snapshot was gone too, the log could not be opened again."""
    log = filled(world)
    world.append(log, epoch=3, producer_id=7, producer_epoch=0, base_sequence=0)
    world.disk.run()
    world.manager.close()
    damage(world, log, 10, 4, 0)
    for name in world.files():
        if name.endswith(names.SNAPSHOT):
            world.disk.remove(f"{world.directory}/{name}")
    log = world.open().logs[world.partition]
    assert log.log_end_offset == 41
    assert list(log.producers.producers) == [7]
    assert "event=producers-incomplete" in caplog.text


def test_a_file_that_was_let_go_of_meanwhile_is_opened_again(worlds: Callable[[int], "World"]) -> None:
    """To make the index of aborted transactions again other segments were opened, and the one to be cut was closed for
    it.
    """
    world = worlds(1)
    world.open_files_max = 1
    log = world.create()
    world.disk.run()
    world.manager.close()
    log = world.open().logs[world.partition]
    for producer_id in (1, 2):
        world.append(log)
        batch = build_batch([Record(0, 0, b"k", b"")], producer_id=producer_id, producer_epoch=0, transactional=True)
        log.append_own(memoryview(batch), 0, world.clock.now_ms())
        roll(log, world.clock.now_ms())
        marker = EndTransactionMarker(False, 0)
        ending = build_end_transaction_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=1)
        log.append_own(memoryview(ending), 0, world.clock.now_ms(), marker)
        world.append(log)
    path = log.active.path(names.TRANSACTION_INDEX)
    log.active.let_go()
    world.disk.run()
    world.disk.write_file(path, b"damaged")
    world.disk.remove(f"{world.directory}/{names.snapshot_name(log.active.base_offset)}")
    log.truncate_to(log.log_end_offset - 1)
    assert world.contents(log)[-1] == log.log_end_offset - 1
    assert [entry.producer_id for entry in log.aborted_transactions(0, 100)] == [1, 2]
