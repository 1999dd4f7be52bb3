"""All logs of a broker: the directories they are in, how they come and go, and what is due when."""

from typing import TYPE_CHECKING, Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import NO_TOPIC_ID, TopicId, TopicPartition
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.manager import LogManager, ManagerSettings
from headwater.sim.scheduler import SimRandom

if TYPE_CHECKING:
    from conftest import World


def manager_of(world: "World", *directories: str) -> LogManager:
    context = LogContext(world.disk, world.scheduler, SimRandom(1))
    return LogManager(context, list(directories), lambda _: LogConfig())


def open_here(manager: LogManager) -> None:
    opened: list[bool] = []
    manager.lock()
    manager.claim("cluster", 0)
    manager.open(lambda: opened.append(True))
    assert opened


def test_a_new_log_has_kafkas_files(world: "World") -> None:
    world.create()
    assert world.files() == [f"{0:020d}.index", f"{0:020d}.log", f"{0:020d}.timeindex", "partition.metadata"]
    assert world.disk.read_file("/data/topic-0/partition.metadata") == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    meta = world.disk.read_file("/data/meta.properties").decode().splitlines()
    assert meta[:3] == ["version=0", "broker.id=0", "cluster.id=cluster"]
    assert meta[3].startswith("directory.id=")


def test_a_directory_in_use_is_refused(world: "World") -> None:
    with pytest.raises(UserError) as caught:
        manager_of(world, "/data").lock()
    assert "in use" in caught.value.what
    world.manager.close()
    manager_of(world, "/data").lock()


def test_if_one_directory_is_taken_none_is(world: "World") -> None:
    with pytest.raises(UserError):
        manager_of(world, "/free", "/data").lock()
    manager_of(world, "/free").lock()


@pytest.mark.parametrize(
    "text", [b"version=0\nbroker.id=1\ncluster.id=cluster\n", b"version=1\nnode.id=0\ncluster.id=x\n"]
)
def test_a_directory_of_another_broker_or_cluster_is_refused(world: "World", text: bytes) -> None:
    world.disk.make_directory("/other")
    world.disk.write_file("/other/meta.properties", text)
    with pytest.raises(UserError) as caught:
        manager_of(world, "/other").claim("cluster", 0)
    assert "belongs to another" in caught.value.what


def test_a_directory_that_apache_kafka_4_wrote_is_taken(world: "World") -> None:
    world.disk.make_directory("/other")
    text = b"#\n#Sat Nov 15 00:00:00 UTC 2025\ncluster.id=cluster\ndirectory.id=abc\nnode.id=0\nversion=1\n"
    world.disk.write_file("/other/meta.properties", text)
    manager_of(world, "/other").claim("cluster", 0)
    assert world.disk.read_file("/other/meta.properties") == text


def test_a_meta_file_of_the_future_is_refused(world: "World") -> None:
    world.disk.make_directory("/other")
    world.disk.write_file("/other/meta.properties", b"version=2\n")
    with pytest.raises(UserError):
        manager_of(world, "/other").claim("cluster", 0)


def test_new_logs_go_where_there_are_fewest(world: "World") -> None:
    manager = manager_of(world, "/a", "/b")
    open_here(manager)
    for number in range(4):
        manager.create(TopicPartition("t", number), TopicId(bytes(16)))
    assert [manager.directory_of(TopicPartition("t", number)) for number in range(4)] == ["/a", "/b", "/a", "/b"]
    manager.close()
    manager = manager_of(world, "/a", "/b")
    open_here(manager)
    assert manager.clean_start
    assert len(manager.logs) == 4


def test_a_partition_in_two_directories_is_refused(world: "World") -> None:
    for path in ("/a/t-0", "/b/t-0"):
        world.disk.make_directory(path)
    with pytest.raises(UserError) as caught:
        open_here(manager_of(world, "/a", "/b"))
    assert "two log directories" in caught.value.what


def test_deleting_a_partition(world: "World") -> None:
    log = world.create(file_delete_delay_ms=500)
    world.append(log)
    piece = log.read(0, 1000, 1, min_one_batch=True)
    world.manager.delete(world.partition)
    assert world.partition not in world.manager.logs
    (gone,) = [name for name in world.disk.list_directory("/data") if name.startswith("topic-0")]
    assert gone.endswith("-delete")
    assert len(piece.read()) == len(piece)  # someone is still reading
    piece.release()
    world.create()  # the same name again
    world.pass_time(500)
    assert [name for name in world.disk.list_directory("/data") if name.startswith("topic-0")] == ["topic-0"]


def test_a_deletion_is_finished_at_the_next_start(world: "World") -> None:
    world.create()
    world.manager.delete(world.partition)
    world.manager.close()
    world.open()
    world.disk.run()
    assert not [name for name in world.disk.list_directory("/data") if name.startswith("topic-0")]
    assert not world.manager.logs


def test_what_is_not_a_partition_is_left_alone(world: "World") -> None:
    for path in ("/data/lost+found", "/data/t-0.0123456789abcdef0123456789abcdef-future", "/data/x"):
        world.disk.make_directory(path)
    world.disk.write_file("/data/notes-1", b"a file")
    world.manager.close()
    assert not world.open().logs
    world.disk.run()
    assert world.disk.exists("/data/lost+found")


def test_a_damaged_partition_metadata_leaves_the_topic_id_unknown(world: "World") -> None:
    world.create()
    world.disk.write_file("/data/topic-0/partition.metadata", b"")
    assert world.reopen().topic_id == NO_TOPIC_ID


def test_a_damaged_checkpoint_means_checking_everything(world: "World", caplog: pytest.LogCaptureFixture) -> None:
    log = world.create()
    world.append(log, 3)
    world.disk.write_file("/data/recovery-point-offset-checkpoint", b"0\n5\n")
    assert world.kill().log_end_offset == 3
    assert "event=checkpoint-unusable" in caplog.text


def test_a_full_disk_when_a_partition_is_made(world: "World") -> None:
    world.disk.faults.free_bytes = 0
    with pytest.raises(KafkaError) as caught:
        world.create()
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not world.manager.logs
    world.disk.faults.free_bytes = 1 << 40
    world.disk.run()  # what was made of it is cleared away first
    world.append(world.create())


def test_what_is_due_when(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    world.manager.close()
    world.settings = ManagerSettings(retention_check_interval_ms=3000, checkpoint_interval_ms=2000)
    world.open()
    world.append(world.create(retention_ms=0, segment_bytes=100))
    ran: list[int] = []
    monkeypatch.setattr(world.manager, "apply_retention", lambda now_ms: ran.append(world.clock.monotonic_ms()))
    for _ in range(70):
        world.manager.tick(world.clock.now_ms(), world.clock.monotonic_ms())
        world.pass_time(100)
    assert ran == [3000, 6000]
    assert world.disk.read_file("/data/recovery-point-offset-checkpoint") == b"0\n1\ntopic 0 0\n"
    assert world.disk.read_file("/data/replication-offset-checkpoint") == b"0\n1\ntopic 0 1\n"


def test_nothing_is_deleted_before_the_topics_are_known(world: "World", monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then the logs have default configs, and a topic's own may keep more."""
    world.manager.close()
    world.settings = ManagerSettings(retention_check_interval_ms=3000, topics_are_known=False)
    world.open()
    ran: list[str] = []
    monkeypatch.setattr(world.manager, "apply_retention", lambda _now_ms: ran.append("retention"))
    monkeypatch.setattr(world.manager.cleaner, "tick", lambda _now_ms, _monotonic_ms: ran.append("cleaner"))

    def tick_twice() -> None:
        for _ in range(2):
            world.manager.tick(world.clock.now_ms(), world.clock.monotonic_ms())
            world.pass_time(3000)

    tick_twice()
    assert ran == []
    world.manager.topics_are_known = True
    tick_twice()
    assert ran == ["cleaner", "retention", "cleaner"]


def test_high_watermarks_are_kept(world: "World") -> None:
    log = world.create()
    world.append(log, 5)
    world.manager.high_watermark_of = lambda _: 4
    world.reopen()
    assert world.manager.saved_high_watermark(world.partition) == 4


def test_the_start_offset_checkpoint_tells_only_what_names_do_not(world: "World") -> None:
    log = world.create()
    world.append(log, 5)
    world.reopen()
    assert world.disk.read_file("/data/log-start-offset-checkpoint") == b"0\n0\n"
    log = world.manager.logs[world.partition]
    log.delete_records_before(2)
    log = world.reopen()
    assert world.disk.read_file("/data/log-start-offset-checkpoint") == b"0\n1\ntopic 0 2\n"
    assert log.log_start_offset == 2


def test_a_thousand_clean_partitions_are_opened_with_few_reads(world: "World") -> None:
    for number in range(50):
        world.append(world.create(TopicPartition("t", number)))
    world.disk.run()
    world.manager.close()
    world.disk.bytes_read.clear()
    opened: list[Any] = []
    original = world.disk.open
    world.disk.open = lambda path, **options: (opened.append(path), original(path, **options))[1]  # type: ignore[method-assign]
    world.open()
    assert len(world.manager.logs) == 50
    assert [path for path in opened if not path.endswith(".lock")] == []
    assert len(world.disk.bytes_read) <= 5 + 3 * 50


def test_a_checkpoint_on_its_way_never_takes_the_place_of_a_later_one(world: "World") -> None:
    """Past a truncation, the recovery point from before it would leave what comes after it unchecked."""
    log = world.create()
    world.append(log)
    log.flush(lambda _error: None)
    world.disk.run()
    path = "/data/recovery-point-offset-checkpoint"
    world.manager.write_checkpoints()  # it is being written while the log is truncated
    log.truncate_to(0)
    for _ in range(5):
        assert world.disk.read_file(path) == b"0\n1\ntopic 0 0\n"
        world.disk.run(1)
    world.append(log)
    log.flush(lambda _error: None)
    world.disk.run()
    world.manager.write_checkpoints()
    world.disk.run()
    assert world.disk.read_file(path) == b"0\n1\ntopic 0 1\n"
    assert not [name for name in world.disk.list_directory("/data") if name.endswith((".next", ".tmp"))]


def test_a_deleted_log_does_not_take_the_directory_of_its_successor_offline(world: "World") -> None:
    """A flush that waited for the one under way began after the deletion, found none of its files, and the device was
    to blame.
    """
    log = world.create(segment_bytes=200)
    for _ in range(4):
        world.append(log, size=100)
    log.flush()
    log.flush()
    world.manager.delete(world.partition)
    new = world.create()
    world.append(new)
    world.disk.run()
    assert world.manager.failed_directories() == {}
    assert new.failed is None
    log.flush()
    world.disk.run()
    assert world.manager.failed_directories() == {}
    assert world.disk.open_references == 1, "the new one's file"
