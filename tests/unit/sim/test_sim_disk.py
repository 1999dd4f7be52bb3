"""The simulated disk: what it keeps and what it loses must be what a real one may keep and lose."""

import errno

import pytest

from headwater.base.ports import Remove, Replace, Sync, SyncDirectory
from headwater.sim.disk import SimDisk


def written(seed: int, *pieces: bytes, sync_after: int = 0) -> bytes:
    """What is left of a file after writes, a sync somewhere between them, and a crash."""
    disk = SimDisk(seed)
    disk.faults.zero_tail = False
    file = disk.open("/f", create=True)
    disk.sync_directory_now("/")
    for at, piece in enumerate(pieces):
        file.append(piece)
        if at + 1 == sync_after:
            disk.sync_now(file)
    disk.crash()
    return disk.read_file("/f")


def test_a_crash_keeps_what_was_synced_and_a_prefix_of_the_rest() -> None:
    left = {written(seed, b"aa", b"bb", b"cc", sync_after=1) for seed in range(200)}
    assert left == {b"aa", b"aab", b"aabb", b"aabbc", b"aabbcc"}


def test_a_crash_may_leave_zeroes_where_data_should_be() -> None:
    left = set()
    for seed in range(200):
        disk = SimDisk(seed)
        file = disk.open("/f", create=True)
        disk.sync_directory_now("/")
        file.append(b"abc")
        disk.crash()
        left.add(disk.read_file("/f"))
    assert b"a\0\0" in left
    assert b"abc" in left


def test_files_do_not_wait_for_each_other() -> None:
    left = set()
    for seed in range(200):
        disk = SimDisk(seed)
        for path in ("/1", "/2"):
            disk.open(path, create=True)
        disk.sync_directory_now("/")
        for path in ("/1", "/2"):
            disk.open(path).append(b"x")
        disk.faults.zero_tail = False
        disk.crash()
        left.add((disk.read_file("/1"), disk.read_file("/2")))
    assert left == {(b"", b""), (b"x", b""), (b"", b"x"), (b"x", b"x")}


def test_a_name_is_durable_only_with_its_directory() -> None:
    survived = set()
    for seed in range(50):
        disk = SimDisk(seed)
        file = disk.open("/f", create=True)
        file.append(b"x")
        disk.sync_now(file)
        disk.crash()
        survived.add(disk.exists("/f"))
    assert survived == {True, False}


def test_a_rename_is_old_or_new_and_never_neither() -> None:
    seen = set()
    for seed in range(50):
        disk = SimDisk(seed)
        disk.write_file("/old", b"x")
        disk.rename("/old", "/new")
        disk.crash()
        seen.add(tuple(disk.list_directory("/")))
    assert seen == {("old",), ("new",)}


def test_replacing_without_a_sync_may_leave_an_empty_file() -> None:
    seen = set()
    for seed in range(300):
        disk = SimDisk(seed)
        disk.faults.zero_tail = False
        disk.write_file("/f", b"old")
        disk.write_file("/f", b"new", durable=False)
        disk.crash()
        seen.add(disk.read_file("/f"))
    assert {b"old", b"", b"new"} <= seen
    disk = SimDisk(1)
    disk.write_file("/f", b"old")
    disk.write_file("/f", b"new")
    disk.crash()
    assert disk.read_file("/f") == b"new"


def test_a_failed_fsync_loses_the_data_for_good_though_readers_see_it() -> None:
    disk = SimDisk()
    file = disk.open("/f", create=True)
    disk.sync_directory_now("/")
    file.append(b"lost")
    disk.faults.syncs_to_fail = 1
    with pytest.raises(OSError, match="Input/output"):
        disk.sync_now(file)
    assert file.pread(0, 10) == b"lost"
    disk.sync_now(file)  # says that all is well
    disk.crash()
    assert disk.read_file("/f") == b""


def test_a_full_disk() -> None:
    disk = SimDisk()
    disk.faults.free_bytes = 5
    file = disk.open("/f", create=True)
    file.append(b"123")
    with pytest.raises(OSError, match="No space") as caught:
        file.append(b"456")
    assert caught.value.errno == errno.ENOSPC
    assert file.size() == 3
    file.truncate(0)
    file.append(b"12345")


def test_files_from_before_a_crash_are_dead() -> None:
    disk = SimDisk()
    file = disk.open("/f", create=True)
    disk.crash()
    with pytest.raises(AssertionError):
        file.size()


def test_submitted_work_waits_and_is_lost_in_a_crash() -> None:
    disk = SimDisk()
    disk.make_directory("/d")
    file = disk.open("/d/f", create=True)
    told: list[OSError | None] = []
    for work in (Sync(file), SyncDirectory("/d"), Replace("/d/r", b"x"), Remove(("/d/f",))):
        disk.submit(work, told.append)
    assert disk.run(2) == 2
    assert told == [None, None]
    disk.submit(SyncDirectory("/missing"), told.append)
    disk.run()
    assert isinstance(told[-1], FileNotFoundError)
    assert disk.list_directory("/d") == ["r"]
    disk.submit(SyncDirectory("/d"), told.append)
    disk.crash()
    assert disk.run() == 0


def test_the_same_seed_gives_the_same_crash() -> None:
    pieces = [bytes([at]) * 50 for at in range(20)]
    assert [written(seed, *pieces) for seed in range(20)] == [written(seed, *pieces) for seed in range(20)]
