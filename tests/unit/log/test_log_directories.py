"""Several log directories: where new logs go, and one that cannot be used, at the start or later, while the others go
on.
"""

import errno
import os
from collections.abc import Callable

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicId, TopicPartition
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.manager import LogManager, ManagerSettings
from headwater.log.placement import Candidate, choose
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.sim.clock import SimClock
from headwater.sim.disk import SimDisk, SimFile
from headwater.sim.scheduler import SimRandom, SimScheduler

TOPIC_ID = TopicId(bytes(range(16)))


class BrokenDisk(SimDisk):
    """Some directories cannot be written to, as on a device that the kernel has made read-only."""

    def __init__(self) -> None:
        super().__init__(seed=1)
        self.read_only: set[str] = set()
        self.free: dict[str, int] = {}

    def _check(self, path: str) -> None:
        if any(path.startswith(each) for each in self.read_only):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def open(self, path: str, *, create: bool = False) -> SimFile:
        if create:
            self._check(path)
        return super().open(path, create=create)

    def take_space(self, size: int, path: str) -> None:
        self._check(path)
        super().take_space(size, path)

    def usage(self, path: str) -> tuple[int, int]:
        return 1 << 40, self.free.get(path, 1 << 30)


class Broker:
    def __init__(self, *paths: str, in_cluster: bool = False) -> None:
        self.paths = list(paths)
        self.in_cluster = in_cluster
        self.disk = BrokenDisk()
        self.manager = self.open()

    def open(self) -> LogManager:
        self.scheduler = SimScheduler(SimClock())
        context = LogContext(self.disk, self.scheduler, SimRandom(1))
        settings = ManagerSettings(topics_are_known=not self.in_cluster)
        self.manager = LogManager(context, self.paths, lambda _: LogConfig(), settings)
        self.manager.lock()
        self.manager.identity()
        self.manager.claim("cluster", 0)
        self.manager.open(lambda: None)
        return self.manager

    def create(self, number: int) -> str:
        partition = TopicPartition("t", number)
        self.manager.create(partition, TOPIC_ID)
        return self.manager.directory_of(partition)

    def append(self, number: int) -> None:
        batch = build_batch([Record(0, 1, b"k", b"v")])
        self.manager.logs[TopicPartition("t", number)].append_as_leader(memoryview(batch), 0, 1)

    def restart(self) -> None:
        self.disk.run()
        self.manager.close()
        self.open()


def test_the_roomiest_is_chosen() -> None:
    assert choose([Candidate("a", 100, 0), Candidate("b", 500, 9)]) == "b"


def test_among_those_with_about_as_much_room_the_one_with_the_fewest_logs() -> None:
    assert choose([Candidate("a", 100, 3), Candidate("b", 95, 1), Candidate("c", 89, 0)]) == "b"
    assert choose([Candidate("a", 90, 2), Candidate("b", 100, 2)]) == "a"


def test_new_logs_go_where_there_is_room() -> None:
    broker = Broker("/a", "/b")
    broker.disk.free = {"/a": 10, "/b": 1000}
    assert [broker.create(number) for number in range(3)] == ["/b"] * 3
    broker.disk.free = {"/a": 1000, "/b": 10}
    assert broker.create(3) == "/a"


def breaks_meta(disk: BrokenDisk) -> None:
    disk.write_file("/b/meta.properties", b"\x00\x00")


def makes_read_only(disk: BrokenDisk) -> None:
    disk.read_only.add("/b/")


@pytest.mark.parametrize("breaks", [breaks_meta, makes_read_only])
def test_without_one_directory_the_others_are_used(
    breaks: Callable[[BrokenDisk], None], caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker("/a", "/b")
    homes = {number: broker.create(number) for number in range(4)}
    broker.disk.run()
    broker.manager.close()
    breaks(broker.disk)
    manager = broker.open()
    assert manager.failed_directories().keys() == {"/b"}
    assert not manager.clean_start
    assert caplog.text.count("event=log-directory-offline path=/b") == 1
    assert {each.partition for each in manager.logs} == {number for number, home in homes.items() if home == "/a"}
    assert broker.create(9) == "/a"
    manager.tick(1_000_000, 0)
    manager.tick(2_000_000, 1_000_000)
    broker.disk.run()
    manager.close()
    assert broker.disk.exists("/a/.kafka_cleanshutdown")
    broker.disk.read_only.clear()
    broker.disk.write_file("/b/meta.properties", broker.disk.read_file("/a/meta.properties"))
    assert len(broker.open().logs) == 5


def test_without_any_directory_there_is_no_start() -> None:
    broker = Broker("/a", "/b")
    broker.manager.close()
    broker.disk.read_only = {"/a/", "/b/"}
    with pytest.raises(UserError) as caught:
        broker.open()
    assert caught.value.what == "No log directory can be used"
    broker.disk.read_only = set()
    broker.open()  # no lock was left


def test_the_only_directory_is_named() -> None:
    broker = Broker("/a")
    broker.manager.close()
    broker.disk.read_only = {"/a/"}
    with pytest.raises(UserError) as caught:
        broker.open()
    assert caught.value.what == "The log directory /a cannot be used"
    assert "Read-only" in caught.value.why


def test_a_device_that_fails_takes_its_logs_with_it_and_no_others(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker("/a", "/b")
    homes = {number: broker.create(number) for number in range(4)}
    mine, other = [n for n in homes if homes[n] == "/b"]
    broker.disk.read_only.add("/b/")
    with pytest.raises(KafkaError) as caught:
        broker.append(mine)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    broker.disk.read_only.clear()
    for number in (mine, other):  # also the one that nobody has written to; and it does not come back
        with pytest.raises(KafkaError):
            broker.append(number)
    assert broker.manager.failed_directories().keys() == {"/b"}
    assert caplog.text.count("event=log-directory-offline") == 1
    for number in homes.keys() - {mine, other}:
        broker.append(number)
    assert broker.create(9) == "/a"
    broker.restart()
    assert len(broker.manager.logs) == 5
    assert not broker.manager.failed_directories()


def test_a_failed_fsync_takes_the_directory_offline() -> None:
    broker = Broker("/a", "/b")
    homes = {number: broker.create(number) for number in range(4)}
    broker.append(0)
    broker.disk.run()
    broker.disk.faults.syncs_to_fail = 1
    broker.manager.logs[TopicPartition("t", 0)].flush()
    broker.disk.run()
    assert broker.manager.failed_directories().keys() == {homes[0]}


def test_a_full_disk_takes_nothing_offline() -> None:
    broker = Broker("/a", "/b")
    broker.create(0)
    broker.disk.faults.free_bytes = 0
    with pytest.raises(KafkaError):
        broker.append(0)
    assert not broker.manager.failed_directories()
    broker.disk.faults.free_bytes = 1 << 30
    broker.append(0)


@pytest.mark.parametrize("newer", ["/a", "/b"])
def test_in_a_cluster_a_replica_made_anew_wins_over_the_one_that_came_back(newer: str) -> None:
    broker = Broker("/a", "/b", in_cluster=True)
    homes = {number: broker.create(number) for number in range(2)}
    number = next(number for number in homes if homes[number] != newer)
    older, broken = {"/a": "/b", "/b": "/a"}[newer], f"{homes[number]}/"
    broker.append(number)
    broker.disk.run()
    broker.manager.close()
    broker.disk.read_only.add(broken)
    broker.open()
    assert broker.create(number) == newer
    broker.manager.logs[TopicPartition("t", number)].begin_epoch(4)
    broker.disk.run()
    broker.manager.close()
    broker.disk.read_only.clear()
    manager = broker.open()
    log = manager.logs[TopicPartition("t", number)]
    assert (manager.directory_of(log.partition), log.latest_epoch, manager.clean_start) == (newer, 4, False)
    assert any(name.endswith("-stray") for name in broker.disk.list_directory(older))
