"""The real disk: files that stay open while someone holds them, a lock, and work that waits elsewhere."""

import errno
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue

import pytest

from headwater.base.ports import FileSlice, Remove, Replace, Sync, SyncDirectory, Warm, Writeback
from headwater.server.disk import OsDisk


class Loop:
    """Posted functions run in `turn`, on the caller's thread."""

    def __init__(self) -> None:
        self.posted: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def turn(self) -> None:
        self.posted.get(timeout=60)()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def disk(loop: Loop) -> Iterator[OsDisk]:
    disk = OsDisk(loop.posted.put)
    yield disk
    disk.close()


def test_appending_and_reading(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    with pytest.raises(FileNotFoundError):
        disk.open(path)
    file = disk.open(path, create=True)
    file.append(b"hello ")
    file.append(memoryview(bytearray(b"world")))
    assert file.size() == 11
    assert file.pread(6, 100) == b"world"
    assert file.pread(100, 5) == b""
    file.truncate(5)
    file.append(b"!")
    assert disk.read_file(path) == b"hello!"
    file.release()


def test_an_empty_file_needs_no_descriptor(disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_arguments: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    path = tmp_path / "f"
    monkeypatch.setattr("headwater.server.disk.os.open", failing)
    disk.make_empty_file(str(path))
    monkeypatch.undo()
    assert path.is_file()
    path.write_bytes(b"something")
    disk.make_empty_file(str(path))
    assert path.read_bytes() == b"something"
    with pytest.raises(FileNotFoundError):
        disk.make_empty_file(str(tmp_path / "none" / "f"))


def test_a_file_is_closed_when_the_last_holder_lets_go(disk: OsDisk, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "f"), create=True)
    file.append(b"0123456789")
    piece = FileSlice(file, 2, 3)
    descriptor = file.fileno()
    file.release()
    os.unlink(tmp_path / "f")
    assert piece.read() == b"234"
    piece.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_short_write_is_finished(disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open(str(tmp_path / "f"), create=True)
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data)[:3]))
    file.append(memoryview(b"0123456789"))
    assert file.pread(0, 20) == b"0123456789"
    file.release()


def test_a_write_that_fails_half_way_is_taken_back(
    disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = disk.open(str(tmp_path / "f"), create=True)
    file.append(b"kept")
    write = os.write
    calls = []

    def fill_up(descriptor: int, data: bytes) -> int:
        calls.append(data)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, bytes(data)[:3])

    monkeypatch.setattr(os, "write", fill_up)
    with pytest.raises(OSError, match="No space"):
        file.append(b"0123456789")
    assert file.pread(0, 20) == b"kept"
    file.release()


def test_a_real_full_file_system_leaves_no_part_of_a_batch(disk: OsDisk, tmp_path: Path) -> None:
    """By a limit on the file's size, which the kernel enforces like a full disk: a part is written, then refused."""
    path = tmp_path / "f"
    program = f"""
import resource, signal
from headwater.server.disk import OsDisk
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
file = OsDisk().open({str(path)!r}, create=True)
file.append(b"x" * 900)
try:
    file.append(b"y" * 500)
except OSError as error:
    print(error.errno, file.size())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout.split() == [str(errno.EFBIG), "900"]


def test_small_files_are_replaced_as_one_step(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    disk.write_file(path, b"one")
    disk.write_file(path, b"two", durable=False)
    assert disk.read_file(path) == b"two"
    assert disk.list_directory(str(tmp_path)) == ["f"]


def test_names_and_directories(disk: OsDisk, tmp_path: Path) -> None:
    directory = f"{tmp_path}/a/b"
    disk.make_directory(directory)
    disk.make_directory(directory)
    disk.write_file(f"{directory}/2", b"22", durable=False)
    disk.write_file(f"{directory}/1", b"", durable=False)
    assert disk.list_directory(directory) == ["1", "2"]
    assert disk.is_directory(directory)
    assert not disk.is_directory(f"{directory}/1")
    assert disk.file_size(f"{directory}/2") == 2
    assert disk.modified_ms(f"{directory}/2") > 1_600_000_000_000
    disk.rename(f"{directory}/2", f"{directory}/3")
    disk.remove(f"{directory}/1")
    disk.remove(f"{directory}/1")
    assert disk.list_directory(directory) == ["3"]
    assert disk.exists(f"{directory}/3")
    total, usable = disk.usage(directory)
    assert total >= usable > 0


def test_a_lock_is_exclusive_within_this_process(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    disk.lock(path)
    with pytest.raises(BlockingIOError):
        OsDisk().lock(path)
    disk.unlock(path)
    other = OsDisk()
    other.lock(path)
    other.unlock(path)


def test_a_lock_keeps_other_processes_out_the_way_java_does(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    disk.lock(path)
    program = f"from headwater.server.disk import OsDisk\nOsDisk().lock({path!r})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 1
    assert "BlockingIOError" in done.stderr
    disk.unlock(path)
    subprocess.run([sys.executable, "-c", program], timeout=240, check=True)


def test_many_syncs_together_each_have_their_outcome(disk: OsDisk, tmp_path: Path) -> None:
    files = [disk.open(str(tmp_path / f"f{index}"), create=True) for index in range(40)]
    missing = SyncDirectory(str(tmp_path / "missing"))
    work: list[Sync | SyncDirectory] = [Sync(file) for file in files]
    work[7:7] = [missing]
    work.append(SyncDirectory(str(tmp_path)))
    errors = disk.sync_together(work)
    assert [at for at, error in enumerate(errors) if error is not None] == [7]
    assert isinstance(errors[7], FileNotFoundError)
    assert disk.sync_together([]) == []
    for file in files:
        file.release()


def test_submitted_work_is_done_elsewhere_and_told_on_the_loop(disk: OsDisk, loop: Loop, tmp_path: Path) -> None:
    file = disk.open(str(tmp_path / "f"), create=True)
    file.append(bytes(100_000))
    told: list[tuple[OSError | None, int]] = []
    works = [
        Sync(file),
        Writeback(file, 0, 100_000),
        Warm(file, 0, 100_000),
        SyncDirectory(str(tmp_path)),
        Replace(str(tmp_path / "r"), b"new"),
    ]
    for work in works:
        disk.submit(work, lambda error: told.append((error, threading.get_ident())))
    assert told == []
    file.release()  # the work under way still holds it
    for _ in works:
        loop.turn()
    assert told == [(None, threading.get_ident())] * 5
    assert disk.read_file(str(tmp_path / "r")) == b"new"
    with pytest.raises(AssertionError):
        file.retain()


def test_a_failure_is_told(disk: OsDisk, loop: Loop, tmp_path: Path) -> None:
    told: list[OSError | None] = []
    disk.submit(SyncDirectory(str(tmp_path / "missing")), told.append)
    loop.turn()
    assert isinstance(told[0], FileNotFoundError)


def test_removing_files_and_whole_directories(disk: OsDisk, loop: Loop, tmp_path: Path) -> None:
    disk.make_directory(f"{tmp_path}/d/e")
    disk.write_file(f"{tmp_path}/d/e/f", b"x", durable=False)
    disk.write_file(f"{tmp_path}/g", b"x", durable=False)
    told: list[OSError | None] = []
    disk.submit(Remove((f"{tmp_path}/d", f"{tmp_path}/g", f"{tmp_path}/never-there")), told.append)
    loop.turn()
    assert told == [None]
    assert os.listdir(tmp_path) == []


def test_threads_start_when_needed_and_end_with_the_disk(loop: Loop, tmp_path: Path) -> None:
    before = set(threading.enumerate())

    def started() -> list[threading.Thread]:
        return [each for each in threading.enumerate() if each not in before and each.name.startswith("headwater-disk")]

    disk = OsDisk(loop.posted.put)
    assert started() == []
    for _ in range(20):
        disk.submit(SyncDirectory(str(tmp_path)), lambda _: None)
    assert 0 < len(started()) <= 4
    disk.close()
    assert started() == []
    assert loop.posted.qsize() == 20


def test_a_device_that_is_stuck_holds_up_no_other(
    disk: OsDisk, loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All threads waited in syncs of the slow one, and flushes of the other log directory waited with them."""
    stuck, well = (str(tmp_path / name) for name in ("stuck", "well"))
    released = threading.Event()
    monkeypatch.setattr("headwater.server.disk.device_of", lambda work: int(work.path == stuck))
    monkeypatch.setattr("headwater.server.disk.perform", lambda work: work.path == well or released.wait(60))
    told: list[str] = []
    for path in (*[stuck] * 10, well):
        disk.submit(SyncDirectory(path), lambda _error, path=path: told.append(path))  # type: ignore[misc]
    loop.turn()
    assert told == [well]
    released.set()
    for _ in range(10):
        loop.turn()
    assert disk.is_idle


def test_pages_that_are_dropped_are_read_again(disk: OsDisk, tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    file = disk.open(path, create=True)
    file.append(b"x" * 100_000)
    disk.drop_cached(path)
    assert file.pread(0, 200_000) == b"x" * 100_000
    file.release()
    with pytest.raises(FileNotFoundError):
        disk.drop_cached(path + "?")


def test_a_disk_travels_to_a_worker_process(disk: OsDisk, tmp_path: Path) -> None:
    copy = pickle.loads(pickle.dumps(disk))
    copy.write_file(str(tmp_path / "f"), b"x")
    assert disk.read_file(str(tmp_path / "f")) == b"x"
