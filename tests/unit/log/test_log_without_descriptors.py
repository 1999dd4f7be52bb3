"""Files that cannot be opened for a moment, since no descriptors are left. A batch that cannot be written is refused.
Where only an index cannot be read when the batch is in the log, the log goes on as if it could, and what belongs into
the index comes there later.
"""

import errno
from typing import TYPE_CHECKING, Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.log.flushing import RETRY_MS
from headwater.log.log import Log
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record

if TYPE_CHECKING:
    from unit.log.conftest import World


def without_descriptors(_path: str, **_options: bool) -> bytes:
    raise OSError(errno.EMFILE, "Too many open files")


def let_go(log: Log) -> None:
    log.active.let_go()
    log.active.open_file()


def batch(world: "World", **fields: Any) -> memoryview:
    return memoryview(build_batch([Record(0, world.clock.now_ms(), b"key", b"v" * 100)], **fields))


def with_a_record_and_no_open_file(world: "World") -> Log:
    log = world.create()
    log.append_as_leader(batch(world), 0, world.clock.now_ms())
    log.active.let_go()
    return log


def test_offsets_go_on_though_an_index_cannot_be_read(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    log = world.create(index_interval_bytes=1)
    for _ in range(3):
        log.append_as_leader(batch(world), 0, world.clock.now_ms())
    let_go(log)
    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "read_file", without_descriptors)
        offsets = [log.append_as_leader(batch(world), 0, world.clock.now_ms()).base_offset for _ in range(3)]
        offsets.append(log.append_own(batch(world), 0, world.clock.now_ms()).base_offset)
    offsets.append(log.append_as_leader(batch(world), 0, world.clock.now_ms()).base_offset)
    assert offsets == [3, 4, 5, 6, 7]
    assert world.contents(log) == list(range(8))


def test_a_log_whose_file_cannot_be_opened_for_a_moment_goes_on_later(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    log = with_a_record_and_no_open_file(world)
    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "open", without_descriptors)
        for append in (log.append_as_leader, log.append_own):
            with pytest.raises(KafkaError) as refused:
                append(batch(world), 0, world.clock.now_ms())
            assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.failed is None
    assert log.append_as_leader(batch(world), 0, world.clock.now_ms()).base_offset == 1
    assert world.contents(log) == [0, 1]


def end_transaction(world: "World", log: Log, producer_id: int, committed: bool) -> None:
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    log.append_own(batch(world, **fields), 0, world.clock.now_ms())
    marker = EndTransactionMarker(committed, 0)
    ending = build_end_transaction_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp=1)
    log.append_own(memoryview(ending), 0, world.clock.now_ms(), marker)


@pytest.mark.parametrize("is_read", [True, False])
def test_an_aborted_transaction_is_not_forgotten_though_its_index_cannot_be_read(
    world: "World", monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    log = world.create()
    end_transaction(world, log, 1, False)
    let_go(log)
    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "read_file", without_descriptors)
        end_transaction(world, log, 2, False)
        end_transaction(world, log, 3, True)
        let_go(log)
    if is_read:
        assert [entry.producer_id for entry in log.aborted_transactions(0, 100)] == [1, 2]
    world.disk.run()
    world.manager.close()
    reopened = world.open().logs[world.partition]
    assert [entry.producer_id for entry in reopened.aborted_transactions(0, 100)] == [1, 2]


@pytest.mark.parametrize("what", ["a file", "the directory"])
def test_a_flush_that_cannot_open_its_files_is_tried_again(
    world: "World", monkeypatch: pytest.MonkeyPatch, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The log had failed, and its whole directory went offline with it, although no fsync had."""
    log = world.create(segment_bytes=500, flush_messages=1)
    told: list[OSError | None] = []
    with monkeypatch.context() as patch:
        for _ in range(8):
            log.append_as_leader(batch(world), 0, world.clock.now_ms())
        name = "open" if what == "a file" else "sync_directory_now"
        patch.setattr(world.disk, name, without_descriptors)
        for segment in log.segments:
            segment.let_go()
        log.flusher.directory_dirty = True
        log.flush(told.append)
        for _ in range(3):
            world.disk.run()
            world.pass_time(RETRY_MS)
        log.flush(told.append)
        assert (told, log.failed, world.manager.failed_directories()) == ([], None, {})
        assert log.recovery_point < 8
        assert log.committable_offset == log.recovery_point
    world.pass_time(RETRY_MS)
    assert told == [None, None]
    assert (log.recovery_point, log.committable_offset) == (8, 8)
    assert caplog.text.count("event=flush-put-off") == 1
    log = world.crash()
    assert world.contents(log) == list(range(8))


def test_a_failed_fsync_beside_a_file_that_could_not_be_opened_counts(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    log = world.create()
    log.append_as_leader(batch(world), 0, world.clock.now_ms())
    world.disk.run()
    world.disk.faults.syncs_to_fail = 1
    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "sync_directory_now", without_descriptors)
        log.flush()
        world.disk.run()
    assert log.failed is not None
    assert log.failed.errno == errno.EIO


def test_a_flush_that_was_put_off_is_forgotten_when_the_log_is_deleted(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    log = with_a_record_and_no_open_file(world)
    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "open", without_descriptors)
        log.flush()
        world.disk.run()
    world.manager.delete(world.partition)
    world.pass_time(RETRY_MS)
    assert log.failed is None
    assert world.manager.failed_directories() == {}


def test_who_waits_for_a_flush_that_was_put_off_learns_that_the_log_has_failed(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    log = with_a_record_and_no_open_file(world)
    told: list[OSError | None] = []
    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "open", without_descriptors)
        log.flush(told.append)
        world.disk.run()
    problem = OSError(errno.EMFILE, "somebody gave up")
    log.fail(problem)
    world.pass_time(RETRY_MS)
    assert told == [problem]
