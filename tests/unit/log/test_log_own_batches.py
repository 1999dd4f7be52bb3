"""What the broker writes into a log itself: the same outcome as by the careful way, without its questions."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.log.appending import append_carefully
from headwater.records.batch import read_header
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from headwater.replication.partition import Partition

if TYPE_CHECKING:
    from conftest import World

TRANSACTIONAL = {"producer_id": 7, "producer_epoch": 1, "transactional": True}


def own(world: "World", log: Any, count: int = 1, *, epoch: int = 0, **fields: Any) -> Any:
    return log.append_own(world.batch(count, **fields), epoch, world.clock.now_ms())


def data_of(log: Any) -> list[bytes]:
    return [segment.open_file().pread(0, segment.size_bytes) for segment in log.segments]


def end(world: "World", quick: Any, careful: Any, *, committed: bool) -> None:
    """Ends the transaction of producer 7 in both logs, and begins another."""
    now_ms = world.clock.now_ms()
    marker = EndTransactionMarker(committed, 3)
    batch = build_end_transaction_marker(marker, producer_id=7, producer_epoch=1, timestamp=now_ms)
    quick.append_own(memoryview(bytearray(batch)), quick.latest_epoch, now_ms, marker)
    append_carefully(careful, memoryview(bytearray(batch)), careful.latest_epoch, now_ms, False, 0)
    for log in (quick, careful):
        own(world, log, epoch=log.latest_epoch, **TRANSACTIONAL)


@pytest.mark.parametrize(
    "config", [{}, {"cleanup_compact": True}, {"codec": 3}, {"log_append_time": True}, {"segment_bytes": 300}], ids=str
)
def test_own_batches_leave_the_log_as_the_careful_way_does(world: "World", config: dict[str, Any]) -> None:
    quick = world.create(TopicPartition("quick", 0), **config)
    careful = world.create(TopicPartition("careful", 0), **config)
    for epoch, fields in enumerate(({}, {}, TRANSACTIONAL, {"count": 3}, TRANSACTIONAL, {"size": 150})):
        for each in range(2):
            now_ms = world.clock.now_ms()
            first = quick.append_own(world.batch(**fields), epoch, now_ms)
            second = append_carefully(careful, world.batch(**fields), epoch, now_ms, False, 0)
            assert (first.base_offset, first.last_offset, first.append_time_ms) == (
                second.base_offset,
                second.last_offset,
                second.append_time_ms,
            ), each
    for committed in (False, True, False):
        end(world, quick, careful, committed=committed)
    assert data_of(quick) == data_of(careful)
    assert quick.aborted_transactions(0, 100) == careful.aborted_transactions(0, 100) != []
    assert quick.last_stable_offset(100) == careful.last_stable_offset(100)
    assert quick.producers.to_snapshot() == careful.producers.to_snapshot()
    assert quick.epochs.entries == careful.epochs.entries
    assert len(quick.segments) == len(careful.segments)


def test_a_fenced_producer_writes_no_more(world: "World") -> None:
    log = world.create()
    own(world, log, **TRANSACTIONAL)
    with pytest.raises(KafkaError) as raised:
        own(world, log, **{**TRANSACTIONAL, "producer_epoch": 0})
    assert raised.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert log.log_end_offset == 1


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"max_message_bytes": 500}, ErrorCode.MESSAGE_TOO_LARGE),
        ({"segment_bytes": 500}, ErrorCode.RECORD_LIST_TOO_LARGE),
    ],
)
def test_what_is_too_large_is_refused(world: "World", config: dict[str, Any], code: ErrorCode) -> None:
    log = world.create(**config)
    with pytest.raises(KafkaError) as raised:
        own(world, log, size=1000)
    assert raised.value.code == code
    assert log.log_end_offset == 0


@pytest.mark.parametrize("config", [{}, {"log_append_time": True}, {"codec": 3}], ids=str)
def test_a_marker_ends_a_transaction_whatever_max_message_bytes_says(world: "World", config: dict[str, Any]) -> None:
    """It was refused as too large, and the transaction stayed open for ever."""
    log = world.create(**config)
    partition = Partition("topic", log.topic_id, 0, log, 0)
    own(world, log, **TRANSACTIONAL)
    log.update_config(replace(log.config, max_message_bytes=10))
    partition.append_marker(7, 1, 0, False, world.clock.now_ms())
    assert (log.log_end_offset, log.last_stable_offset(2)) == (2, 2)
    batch = build_end_transaction_marker(EndTransactionMarker(True, 0), producer_id=8, producer_epoch=0, timestamp=0)
    with pytest.raises(KafkaError) as raised:
        log.append_as_leader(memoryview(bytearray(batch)), 0, world.clock.now_ms())
    assert raised.value.code == ErrorCode.MESSAGE_TOO_LARGE, "of a client it is refused for all that is wrong with it"


def test_a_full_disk_takes_nothing_and_leaves_nothing(world: "World") -> None:
    log = world.create()
    own(world, log)
    before = data_of(log)
    world.disk.faults.free_bytes = 10
    with pytest.raises(KafkaError) as raised:
        own(world, log)
    assert raised.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    world.disk.faults.free_bytes = 1 << 40
    assert data_of(log) == before
    assert own(world, log).base_offset == 1


def test_offset_and_leader_epoch_are_put_in(world: "World") -> None:
    log = world.create()
    own(world, log, 3, epoch=5)
    result = own(world, log, 2, epoch=5)
    assert (result.base_offset, result.last_offset) == (3, 4)
    header = read_header(data_of(log)[0], len(world.batch(3)))
    assert (header.base_offset, header.partition_leader_epoch) == (3, 5)


def test_ended_transactions_are_forgotten_also_where_nobody_reads(world: "World") -> None:
    log = world.create()
    partition = Partition("topic", log.topic_id, 0, log, 0)
    for epoch in range(20):
        own(world, log, **{**TRANSACTIONAL, "producer_epoch": epoch})
        partition.append_marker(7, epoch, 0, True, world.clock.now_ms())
    assert not log.producers.ended
