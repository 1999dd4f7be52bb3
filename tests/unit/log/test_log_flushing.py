"""What reaches the device, when, and what happens when the device refuses."""

from typing import TYPE_CHECKING

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.log.manager import ManagerSettings

if TYPE_CHECKING:
    from conftest import World


def test_the_recovery_point_moves_when_the_sync_has_succeeded_and_not_before(world: "World") -> None:
    log = world.create()
    world.append(log, 3)
    told: list[OSError | None] = []
    log.flush(told.append)
    world.append(log)
    assert log.recovery_point == 0
    assert told == []
    world.disk.run()
    assert log.recovery_point == 3  # what came later is not claimed
    assert told == [None]


def test_flushes_that_are_asked_for_meanwhile_are_one_flush(world: "World") -> None:
    log = world.create()
    told: list[OSError | None] = []
    for _ in range(10):
        world.append(log)
        log.flush(told.append)
    world.disk.run()
    assert told == [None] * 10
    assert log.recovery_point == 10
    assert world.disk.syncs <= 8


def test_a_flush_of_nothing_is_told_too_but_not_inside_the_call(world: "World") -> None:
    log = world.create()
    told: list[OSError | None] = []
    log.flush(told.append)
    assert told == []
    world.disk.run()
    assert told == [None]


def test_rolling_flushes_what_is_behind(world: "World") -> None:
    log = world.create(segment_bytes=200)
    world.append(log, size=100)
    world.append(log, size=100)
    world.disk.run()
    assert log.recovery_point == 1


def test_flush_messages_makes_the_replica_wait(world: "World") -> None:
    log = world.create(flush_messages=1)
    moved: list[int] = []
    log.on_flushed = lambda log: moved.append(log.committable_offset)
    world.append(log, 2)
    world.append(log, 2)
    assert (log.log_end_offset, log.committable_offset) == (4, 0)
    world.disk.run()
    assert moved[-1] == 4
    assert log.committable_offset == log.recovery_point == 4


def test_flush_messages_counts_records(world: "World") -> None:
    log = world.create(flush_messages=5)
    world.append(log, 4)
    assert log.committable_offset == 4
    world.append(log, 1)
    assert log.committable_offset == 0
    world.disk.run()
    assert (log.committable_offset, log.recovery_point) == (5, 5)
    world.append(log, 4)
    assert log.committable_offset == 9


def test_flush_ms(world: "World") -> None:
    world.settings = ManagerSettings(flush_check_interval_ms=100)
    world.manager.close()
    world.open()
    log = world.create(flush_ms=1000)
    for _ in range(30):
        if log.log_end_offset == 0:
            world.append(log)
        world.manager.tick(world.clock.now_ms(), world.clock.monotonic_ms())
        world.pass_time(100)
        if world.clock.monotonic_ms() < 800:
            assert log.recovery_point == 0
    assert log.recovery_point == 1


def test_a_failed_fsync_is_never_trusted_again(world: "World", caplog: pytest.LogCaptureFixture) -> None:
    log = world.create()
    world.append(log)
    told: list[OSError | None] = []
    world.disk.faults.syncs_to_fail = 1
    log.flush(told.append)
    log.flush(told.append)
    world.disk.run()
    assert [type(error) for error in told] == [OSError, OSError]
    assert log.recovery_point == 0
    assert log.failed is not None
    for _ in range(2):
        with pytest.raises(KafkaError) as caught:
            world.append(log)
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    with pytest.raises(KafkaError):
        log.append_as_follower(world.batch(), 0)
    assert world.contents(log) == [0]  # reading goes on
    log.flush(told.append)
    world.disk.run()
    assert told[-1] is not None
    assert log.recovery_point == 0
    assert "event=log-failed" in caplog.text


def test_who_waits_for_a_flush_learns_that_it_failed(world: "World") -> None:
    log = world.create(flush_messages=1)
    seen: list[OSError | None] = []
    log.on_flushed = lambda log: seen.append(log.failed)
    world.append(log)
    world.disk.faults.syncs_to_fail = 1
    world.disk.run()
    assert len(seen) == 1
    assert isinstance(seen[0], OSError)
    assert log.committable_offset == 0


def test_a_failed_log_is_not_shut_down_cleanly(world: "World") -> None:
    log = world.create()
    world.append(log)
    world.disk.faults.syncs_to_fail = 1
    log.flush()
    world.disk.run()
    world.manager.close()
    assert not world.disk.exists("/data/.kafka_cleanshutdown")
    assert world.disk.open_references == 0


def test_a_sync_that_fails_while_closing_leaves_no_clean_mark(world: "World") -> None:
    world.append(world.create())
    world.disk.run()
    world.disk.faults.syncs_to_fail = 1
    world.manager.close()
    assert not world.disk.exists("/data/.kafka_cleanshutdown")


@pytest.mark.parametrize("count", [3, 150])
def test_a_sync_that_fails_while_closing_costs_the_other_logs_nothing(world: "World", count: int) -> None:
    logs = [world.create(TopicPartition("topic", index)) for index in range(count)]
    for log in logs:
        world.append(log)
    world.disk.faults.syncs_to_fail = 1  # the first that comes: of the first log
    world.manager.close()
    assert [log.recovery_point for log in logs] == [0, *[1] * (count - 1)]
    assert not world.disk.exists("/data/.kafka_cleanshutdown")
    assert world.disk.open_references == 0
    world.disk.crash()
    found = world.open().logs
    assert [found[log.partition].log_end_offset for log in logs[1:]] == [1] * (count - 1)


def test_after_a_clean_close_even_a_power_loss_loses_nothing(world: "World") -> None:
    log = world.create(segment_bytes=500, index_interval_bytes=100)
    for at in range(10):
        world.append(log, 2, 60, producer_id=7, producer_epoch=0, base_sequence=at * 2)
    world.manager.close()
    world.disk.crash()
    log = world.open().logs[world.partition]
    assert world.manager.clean_start
    assert world.contents(log) == list(range(0, 20, 2))
    assert log.offset_for_timestamp(0, 20).offset == 0
    assert log.producers.producers[7].next_sequence == 20
    assert log.topic_id == bytes(range(16))
