"""What a start believes of what it finds: marks, checkpoints and the page cache,
and what it does when they are wrong.
"""

from typing import TYPE_CHECKING

import pytest

from headwater.base.ids import TopicId, TopicPartition
from headwater.log import names
from headwater.log.log import Log

if TYPE_CHECKING:
    from unit.log.conftest import World

OTHER = TopicPartition("other", 0)


def close(world: "World") -> None:
    world.disk.run()
    world.manager.close(broker_epoch=5)


def move_away(world: "World", name: str) -> None:
    world.disk.rename(f"/data/{name}", f"/data/{name}.away")


def test_a_partition_that_was_taken_away_makes_the_start_unclean(
    world: "World", caplog: pytest.LogCaptureFixture
) -> None:
    """The mark of a clean shutdown was believed, and a broker that had lost a log said that it had lost nothing."""
    world.append(world.create())
    world.manager.create(OTHER, TopicId(bytes(16)))
    close(world)
    move_away(world, "other-0")
    manager = world.open()
    assert not manager.clean_start
    assert "event=log-gone partition=other-0 directory=/data" in caplog.text
    assert manager.directories[0].clean  # the others need no recovery
    assert world.contents(manager.logs[world.partition]) == [0]


def test_partitions_that_were_deleted_are_not_missed(world: "World") -> None:
    world.append(world.create())
    world.manager.create(OTHER, TopicId(bytes(16)))
    world.manager.write_checkpoints()
    world.manager.delete(OTHER)
    close(world)
    assert world.open().clean_start


def test_a_checkpoint_that_was_taken_away_makes_the_start_unclean(world: "World") -> None:
    world.append(world.create())
    close(world)
    move_away(world, names.RECOVERY_POINT_CHECKPOINT)
    assert not world.open().clean_start


@pytest.mark.parametrize("digit", [b"1", b"9"])
@pytest.mark.parametrize("name", [names.RECOVERY_POINT_CHECKPOINT, names.LOG_START_OFFSET_CHECKPOINT])
def test_a_wrong_offset_in_a_checkpoint_of_a_clean_shutdown_is_not_believed(
    world: "World", name: str, digit: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A recovery point one too low gave two records one offset; a log start offset past the end emptied the log."""
    log = world.create()
    for _ in range(5):
        world.append(log)
    log.delete_records_before(3)
    close(world)
    path = f"/data/{name}"
    right = b"topic 0 5" if name == names.RECOVERY_POINT_CHECKPOINT else b"topic 0 3"
    text = world.disk.read_file(path)
    assert right in text
    world.disk.write_file(path, text.replace(right, right[:-1] + digit))
    log = world.open().logs[world.partition]
    assert (log.log_end_offset, world.contents(log)[-2:]) == (5, [3, 4])
    assert "reason='it has changed since the last shutdown'" in caplog.text


def test_wrong_leader_epochs_of_a_clean_shutdown_are_found_again(world: "World") -> None:
    log = world.create()
    for epoch in (0, 0, 4, 4, 6):
        world.append(log, epoch=epoch)
    close(world)
    path = f"{world.directory}/{names.LEADER_EPOCH_CHECKPOINT}"
    text = world.disk.read_file(path)
    world.disk.write_file(path, text.replace(b"4 2", b"4 1"))
    manager = world.open()
    assert manager.logs[world.partition].epochs.entries == [(0, 0), (4, 2), (6, 4)]
    assert not manager.clean_start
    assert world.contents(manager.logs[world.partition]) == [0, 1, 2, 3, 4]


def test_a_damaged_mark_is_none(world: "World", caplog: pytest.LogCaptureFixture) -> None:
    world.append(world.create())
    close(world)
    world.disk.flip_bit("/data/.kafka_cleanshutdown", 5, 1)
    manager = world.open()
    assert not manager.clean_start
    assert not world.disk.exists("/data/.kafka_cleanshutdown")
    assert "event=file-damaged path=/data/.kafka_cleanshutdown" in caplog.text
    assert world.contents(manager.logs[world.partition]) == [0]


def about_to_fail_its_second_sync(world: "World") -> Log:
    """Record 0 is on the device; the flush of record 1 is under way, and will fail."""
    log = world.create()
    world.append(log)
    log.flush()
    world.disk.run()
    world.append(log)
    world.disk.faults.syncs_to_fail = 1
    log.flush()
    return log


def test_after_a_failed_fsync_a_start_reads_the_device_and_not_the_page_cache(world: "World") -> None:
    """The cache shows two records; the device never got the second, and would not show it after the next power loss."""
    log = about_to_fail_its_second_sync(world)
    world.disk.run()
    assert world.contents(log) == [0, 1]
    assert world.contents(world.kill()) == [0]
    assert world.contents(world.crash()) == [0]


def test_once_the_device_was_read_the_cache_is_believed_again(world: "World") -> None:
    log = world.create()
    world.append(log)
    world.disk.faults.syncs_to_fail = 1
    log.flush()
    world.disk.run()
    log = world.kill()
    assert not world.disk.exists(f"/data/{names.SYNC_FAILED}")
    world.append(log)
    assert len(world.contents(world.kill())) == 1


def test_a_directory_is_distrusted_until_all_its_logs_could_be_opened(
    world: "World", monkeypatch: pytest.MonkeyPatch
) -> None:
    log = world.create()
    world.append(log)
    world.disk.faults.syncs_to_fail = 1
    log.flush()
    world.disk.run()

    def failing(_path: str) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "drop_cached", failing)
        world.disk.kill()
        assert not world.open().logs
    assert world.disk.exists(f"/data/{names.SYNC_FAILED}")


def test_a_sync_that_fails_while_closing_is_remembered(world: "World") -> None:
    world.append(world.create())
    world.disk.run()
    world.disk.faults.syncs_to_fail = 1
    world.manager.close()
    assert world.disk.exists(f"/data/{names.SYNC_FAILED}")


def test_a_failed_fsync_is_remembered_without_a_descriptor(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the next start took the page cache for what the device had, and its own syncs went well."""
    log = about_to_fail_its_second_sync(world)

    def failing(path: str, _data: bytes, *, durable: bool = True) -> None:
        raise OSError(24, f"Too many open files {durable}", path)

    with monkeypatch.context() as patch:
        patch.setattr(world.disk, "write_file", failing)
        world.disk.run()
    assert log.failed is not None
    assert not world.disk.is_directory(f"/data/{names.SYNC_FAILED}")  # Apache Kafka would not start over one
    assert world.contents(world.kill()) == [0]
    assert not world.disk.exists(f"/data/{names.SYNC_FAILED}")
    assert world.contents(world.crash()) == [0]


def test_a_failed_fsync_is_remembered_before_the_rest_of_its_flush_is_done(world: "World") -> None:
    """Other files were still being synced when the process was killed, and nothing told the next start."""
    log = world.create()
    world.append(log)
    log.flush()
    world.disk.run()
    world.append(log, epoch=1)  # and so the epochs are to be synced too
    world.disk.faults.syncs_to_fail = 1
    log.flush()
    assert world.disk.work_count > 1
    world.disk.run(1)
    assert log.failed is not None
    assert world.contents(world.kill()) == [0]
    assert world.contents(world.crash()) == [0]
