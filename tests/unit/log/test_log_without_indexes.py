"""Indexes that cannot be read for a moment (no descriptors are left, the device stumbles) when something was appended: the log goes on
as if they could, and what belongs into them comes there later."""

import errno
from typing import TYPE_CHECKING, Any

import pytest

from headwater.log.log import Log
from headwater.records.builder import build_batch
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.records.reader import Record

if TYPE_CHECKING:
    from unit.log.conftest import World


def without_descriptors(_path: str) -> bytes:
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
