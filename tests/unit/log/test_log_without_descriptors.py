"""Files that cannot be opened for a moment, since no descriptors are left. A batch that cannot be written is refused. Where only an index
cannot be read when the batch is in the log, the log goes on as if it could, and what belongs into the index comes there later."""

import errno
from typing import TYPE_CHECKING, Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
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
    log = world.create()
    log.append_as_leader(batch(world), 0, world.clock.now_ms())
    log.active.let_go()
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
