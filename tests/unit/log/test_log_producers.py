"""Idempotence: what a log takes from a producer, and what it remembers of it."""

import struct
from typing import TYPE_CHECKING, Any

import crc32c
import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.log.producer_state import ProducerStates, SnapshotError
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker

if TYPE_CHECKING:
    from conftest import World

LAST = (1 << 31) - 1


def send(
    world: "World", log: Any, sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 7, **fields: Any
) -> Any:
    batch = world.batch(count, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **fields)
    return log.append_as_leader(batch, 0, world.clock.now_ms())


def refused(world: "World", log: Any, *arguments: Any, **fields: Any) -> ErrorCode:
    end = log.log_end_offset
    with pytest.raises(KafkaError) as caught:
        send(world, log, *arguments, **fields)
    assert log.log_end_offset == end
    return caught.value.code


def test_sequences_must_follow_on(world: "World") -> None:
    log = world.create()
    send(world, log, 0, 3)
    assert refused(world, log, 4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(world, log, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(world, log, 3).base_offset == 3


def test_the_last_five_batches_are_known_as_duplicates_and_the_sixth_is_not(world: "World") -> None:
    log = world.create()
    for sequence in range(0, 12, 2):
        send(world, log, sequence, 2)
    for sequence in range(2, 12, 2):
        result = send(world, log, sequence, 2)
        assert result.duplicate
        assert (result.base_offset, result.last_offset) == (sequence, sequence + 1)
    assert refused(world, log, 0, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(world, log, 10, 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER  # other borders: not the same batch
    assert log.log_end_offset == 12


def test_sequences_wrap_at_two_to_the_31(world: "World") -> None:
    log = world.create()
    send(world, log, LAST - 2, 2)
    send(world, log, LAST)
    assert send(world, log, 0).base_offset == 3
    send(world, log, 1, 2)
    log.producers.producers[7].next_sequence = LAST
    assert send(world, log, LAST, 3).base_offset == 6
    assert log.producers.producers[7].next_sequence == 2
    assert send(world, log, LAST, 3).duplicate


def test_a_producer_that_is_not_known_may_begin_anywhere(world: "World") -> None:
    assert send(world, world.create(), 500).base_offset == 0


def test_an_older_epoch_is_fenced_and_a_newer_one_begins_at_zero(world: "World") -> None:
    log = world.create()
    send(world, log, 0, epoch=3)
    assert refused(world, log, 1, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(world, log, 1, epoch=4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(world, log, 0, epoch=4)
    assert refused(world, log, 1, epoch=3) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert not send(world, log, 1, epoch=4).duplicate


def test_a_failed_write_leaves_the_sequence_as_it_was(world: "World") -> None:
    log = world.create()
    send(world, log, 0)
    world.disk.faults.free_bytes = 0
    assert refused(world, log, 1) == ErrorCode.KAFKA_STORAGE_ERROR
    world.disk.faults.free_bytes = 1 << 40
    assert send(world, log, 1).base_offset == 1


def test_quiet_producers_expire_but_not_those_in_a_transaction(world: "World") -> None:
    log = world.create(producer_id_expiration_ms=1000, retention_ms=-1)
    send(world, log, 0)
    send(world, log, 0, producer=8, transactional=True)
    world.pass_time(1000)
    log.apply_retention(world.clock.now_ms())
    assert list(log.producers.producers) == [8]
    assert not send(world, log, 0).duplicate


@pytest.mark.parametrize("way", ["reopen", "kill"])
def test_duplicates_are_known_after_a_restart(world: "World", way: str) -> None:
    log = world.create()
    send(world, log, 0, 3)
    send(world, log, 3, 2)
    log = getattr(world, way)()
    assert send(world, log, 3, 2).base_offset == 3
    assert refused(world, log, 9) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(world, log, 5).base_offset == 5


@pytest.mark.parametrize("way", ["reopen", "kill", "crash"])
def test_a_log_without_records_knows_its_producers_after_a_restart(world: "World", way: str) -> None:
    """Retention took the records and left what was known of who wrote them; a recovery of it leaves a snapshot, by
    which it differs from a log that has begun anew.
    """
    log = world.create(retention_ms=1000)
    send(world, log, 0, 3)
    world.pass_time(2000)
    log.apply_retention(world.clock.now_ms())
    world.pass_time(100_000)
    log = getattr(world, way)()
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    assert log.snapshot_offsets == [3]
    assert send(world, log, 0, 3).duplicate


def test_a_snapshot_as_kafka_writes_it() -> None:
    states = ProducerStates()
    states.append(7, 2, 10, 100, 104, 1234, transactional=True)
    entry = struct.pack(">qhiqiqiq", 7, 2, 14, 104, 4, 1234, -1, 100)
    body = struct.pack(">i", 1) + entry
    expected = struct.pack(">hI", 1, crc32c.crc32c(body)) + body
    assert states.to_snapshot() == expected
    loaded = ProducerStates.from_snapshot(expected)
    assert loaded.to_snapshot() == expected
    assert loaded.producers[7].next_sequence == 15
    assert loaded.producers[7].find_duplicate(2, 10, 14) == (10, 14, 100, 104, 1234)
    assert loaded.ongoing == {100: 7}


def test_a_producer_without_batches_in_a_snapshot() -> None:
    states = ProducerStates()
    states.end_transaction(7, 2, EndTransactionMarker(True, 5), 3, 1234)
    loaded = ProducerStates.from_snapshot(states.to_snapshot())
    assert loaded.producers[7].epoch == 2
    assert loaded.producers[7].coordinator_epoch == 5
    assert not loaded.producers[7].batches


def test_every_damage_to_a_snapshot_is_noticed() -> None:
    states = ProducerStates()
    states.append(7, 2, 10, 100, 104, 1234, transactional=False)
    good = states.to_snapshot()
    for at in range(len(good)):
        damaged = bytearray(good)
        damaged[at] ^= 1
        with pytest.raises(SnapshotError):
            ProducerStates.from_snapshot(bytes(damaged))
        with pytest.raises(SnapshotError):
            ProducerStates.from_snapshot(good[:at])


def test_transactions_hold_the_last_stable_offset_until_their_marker_is_committed(world: "World") -> None:
    log = world.create()
    send(world, log, 0)
    send(world, log, 0, 2, producer=8, transactional=True)  # offsets 1, 2
    send(world, log, 1)
    assert log.last_stable_offset(4) == 1
    marker = build_end_transaction_marker(
        EndTransactionMarker(False, 0), producer_id=8, producer_epoch=0, timestamp=world.clock.now_ms()
    )
    log.append_own(memoryview(marker), 0, world.clock.now_ms())
    assert log.log_end_offset == 5
    assert log.last_stable_offset(4) == 1  # the marker, at 4, is not below the high watermark
    assert log.last_stable_offset(5) == 5
    assert [tuple(entry) for entry in log.aborted_transactions(0, 5)] == [(8, 1, 4, 5)]
    assert log.aborted_transactions(0, 1) == []


def test_aborted_transactions_come_in_offset_order_and_survive_restarts(world: "World") -> None:
    log = world.create(segment_bytes=400)
    for producer in (8, 9):
        send(world, log, 0, producer=producer, transactional=True)
    for producer in (9, 8):
        marker = build_end_transaction_marker(
            EndTransactionMarker(False, 0), producer_id=producer, producer_epoch=0, timestamp=world.clock.now_ms()
        )
        log.append_own(memoryview(marker), 0, world.clock.now_ms())
    for reopened in (log, world.reopen(), world.kill()):
        assert [entry.producer_id for entry in reopened.aborted_transactions(0, 4)] == [8, 9]
        assert reopened.last_stable_offset(4) == 4


def test_a_write_outside_an_open_transaction_is_refused(world: "World") -> None:
    log = world.create()
    send(world, log, 0, transactional=True)
    assert refused(world, log, 1) == ErrorCode.INVALID_TXN_STATE


def test_a_full_disk_made_readers_take_an_aborted_transaction_for_a_committed_one(world: "World") -> None:
    log = world.create()
    for producer in (8, 9):
        send(world, log, 0, producer=producer, transactional=True)
    for producer in (8, 9):
        marker = build_end_transaction_marker(
            EndTransactionMarker(False, 0), producer_id=producer, producer_epoch=0, timestamp=world.clock.now_ms()
        )
        world.disk.faults.free_bytes = len(marker)  # and nothing for the index
        log.append_own(memoryview(marker), 0, world.clock.now_ms())
        log.active.let_go()
    assert [entry.producer_id for entry in log.aborted_transactions(0, 4)] == [8, 9]
    world.disk.faults.free_bytes = 1 << 40
    for reopened in (world.reopen(), world.kill()):
        assert [entry.producer_id for entry in reopened.aborted_transactions(0, 4)] == [8, 9]
        assert reopened.last_stable_offset(4) == 4


def test_a_power_loss_right_after_a_roll_made_an_aborted_transaction_committed(world: "World") -> None:
    log = world.create(segment_bytes=400)
    send(world, log, 0, producer=8, transactional=True)
    marker = build_end_transaction_marker(
        EndTransactionMarker(False, 0), producer_id=8, producer_epoch=0, timestamp=world.clock.now_ms()
    )
    log.append_own(memoryview(marker), 0, world.clock.now_ms())
    log.flush(lambda error: None)
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    world.append(log, size=300)  # rolls; neither the old segment's indexes nor anything else is synced
    assert len(log.segments) == 2
    assert log.recovery_point == log.active.base_offset
    world.disk.sync_directory_now(world.directory)
    snapshot = world.disk.open(f"{world.directory}/{log.active.base_offset:020d}.snapshot")
    world.disk.sync_now(snapshot)  # so that recovery has no reason of its own to begin earlier
    snapshot.release()
    world.disk._chance = Worst()
    reopened = world.crash()
    assert [entry.producer_id for entry in reopened.aborted_transactions(0, 2)] == [8]


class Worst:
    """Chance at its worst: nothing is kept that was not synced."""

    def randint(self, low: int, high: int) -> int:
        return low

    def random(self) -> float:
        return 0.0
