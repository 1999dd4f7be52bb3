"""The real Disk port: files of the operating system, and a few threads for what may wait for the device.

Files are unbuffered descriptors opened for appending and reading, with a reference count that only the owner of the
loop touches. `submit` hands work to threads that are started when first needed; they only wait in system calls (fsync,
reads, unlink), and their completions come back through the `post` function of the loop. Each device has threads of its
own, so that one that is slow or stuck holds up nobody who waits for another.

The directory lock is a POSIX record lock, the kind that Java's `FileChannel.tryLock` takes: a running Apache Kafka and
a running Headwater keep each other out. Such a lock belongs to the process, so two brokers inside one process are kept
apart by a table here.
"""

import contextlib
import errno
import fcntl
import os
import stat
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from headwater.base.ports import Buffer, DiskWork, File, Sync, SyncDirectory, Warm, Writeback
from headwater.server.disk_work import Done, Lane, device_of, perform, replace_file, sync_directory

THREADS_MAX: Final = 4
SYNC_THREADS_MAX: Final = 16  # they only wait
_APPEND_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC

_locked_paths: dict[str, int] = {}  # real path -> descriptor that holds the lock; of this whole process

Post = Callable[[Callable[[], None]], None]


class OsFile:
    """An open file: one descriptor, closed when the last reference goes."""

    __slots__ = ("_descriptor", "_references", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor
        self._references = 1

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def append(self, data: Buffer) -> None:
        written = os.write(self._descriptor, data)
        if written != len(data):
            self._append_rest(data, written)

    def _append_rest(self, data: Buffer, written: int) -> None:
        """The kernel took only a part (nearly full disk, or over 2 GiB): finish, or take back what it took."""
        view = memoryview(data).cast("B")
        start = self.size() - written
        try:
            while written < len(view):
                written += os.write(self._descriptor, view[written:])
        except OSError:
            os.ftruncate(self._descriptor, start)
            raise

    def pread(self, position: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        chunks = [data]
        have = len(data)
        while have < length and (data := os.pread(self._descriptor, length - have, position + have)):
            chunks.append(data)
            have += len(data)
        return b"".join(chunks)

    def truncate(self, length: int) -> None:
        os.ftruncate(self._descriptor, length)

    def fileno(self) -> int:
        return self._descriptor

    def retain(self) -> None:
        assert self._references > 0, f"{self.path} is closed"
        self._references += 1

    def release(self) -> None:
        assert self._references > 0, f"{self.path} was released too often"
        self._references -= 1
        if self._references == 0:
            os.close(self._descriptor)
            self._descriptor = -1


class OsDisk:
    """Owned by the loop. Pickles as a disk without threads, for scans in a worker process."""

    def __init__(self, post: Post | None = None, threads_max: int = THREADS_MAX) -> None:
        self._post = post
        self._threads_max = threads_max
        self._lanes: dict[int, Lane] = {}  # by device
        self._under_way = 0  # submitted and not yet completed; touched by the loop only

    def __reduce__(self) -> tuple[Any, ...]:
        return (OsDisk, ())

    # -- at page-cache speed

    def open(self, path: str, *, create: bool = False) -> OsFile:
        flags = _APPEND_FLAGS | os.O_CREAT if create else _APPEND_FLAGS
        return OsFile(path, os.open(path, flags, 0o644))

    def read_file(self, path: str) -> bytes:
        with open(path, "rb", buffering=0) as file:
            return file.read() or b""

    def write_file(self, path: str, data: bytes, *, durable: bool = True) -> None:
        replace_file(path, data, durable)

    def make_empty_file(self, path: str) -> None:
        with contextlib.suppress(FileExistsError):
            os.mknod(path, stat.S_IFREG | 0o644)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def file_size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def lock(self, path: str) -> None:
        real = os.path.realpath(path)
        if real in _locked_paths:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked by another broker of this process", path)
        descriptor = os.open(real, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise
        _locked_paths[real] = descriptor

    def unlock(self, path: str) -> None:
        descriptor = _locked_paths.pop(os.path.realpath(path), None)
        if descriptor is not None:
            os.close(descriptor)

    def usage(self, path: str) -> tuple[int, int]:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize

    def sync_now(self, file: File) -> None:
        os.fdatasync(file.fileno())

    def sync_directory_now(self, path: str) -> None:
        sync_directory(path)

    def drop_cached(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.fdatasync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)

    def sync_together(self, work: Sequence[Sync | SyncDirectory]) -> list[OSError | None]:
        errors: list[OSError | None] = [None] * len(work)
        left = iter(range(len(work)))  # shared: who is free takes the next

        def take() -> None:
            for at in left:
                try:
                    perform(work[at])
                except OSError as error:
                    errors[at] = error

        threads = [threading.Thread(target=take, daemon=True) for _ in range(min(SYNC_THREADS_MAX, len(work)) - 1)]
        for thread in threads:
            thread.start()
        take()
        for thread in threads:
            thread.join()
        return errors

    # -- what may wait for the device

    def submit(self, work: DiskWork, done: Done) -> None:
        assert self._post is not None, "a disk without a loop takes no work"
        if isinstance(work, Sync | Warm | Writeback):
            work.file.retain()
        self._under_way += 1
        device = device_of(work)
        lane = self._lanes.get(device)
        if lane is None:
            lane = self._lanes[device] = Lane(self._threads_max)
        lane.under_way += 1
        lane.start_thread_if_needed(self._work)
        lane.queue.put((work, done))

    @property
    def is_idle(self) -> bool:
        """Nothing is under way, and nobody is still to be told."""
        return self._under_way == 0

    def close(self) -> None:
        """Finishes what was submitted, then ends the threads. Completions are posted as ever."""
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()

    def _work(self, lane: Lane) -> None:
        post = self._post
        assert post is not None
        while (item := lane.queue.get()) is not None:
            work, done = item
            error: OSError | None = None
            try:
                perform(work)
            except OSError as raised:
                error = raised
            post(partial(self._complete, lane, work, done, error))

    def _complete(self, lane: Lane, work: DiskWork, done: Done, error: OSError | None) -> None:
        """On the loop's thread: lets go of the file, then tells the one who asked."""
        self._under_way -= 1
        lane.under_way -= 1
        if isinstance(work, Sync | Warm | Writeback):
            work.file.release()
        done(error)
