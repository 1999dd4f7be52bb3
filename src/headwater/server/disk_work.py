"""What the threads of the real disk do: system calls that may wait for the device, each device's with threads of their
own.

Nothing here computes: the GIL is let go of while a thread waits.
"""

import os
import shutil
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final

from headwater.base.ports import DiskWork, Remove, Replace, Sync, SyncDirectory, Warm, Writeback

WARM_CHUNK_BYTES: Final = 1 << 20
_SYNC_FILE_RANGE_WRITE: Final = 2

Done = Callable[[OSError | None], None]


class Lane:
    """What waits for one device. Owned by the loop; its threads only take from the queue."""

    __slots__ = ("_threads", "_threads_max", "queue", "under_way")

    def __init__(self, threads_max: int) -> None:
        self._threads: list[threading.Thread] = []
        self._threads_max = threads_max
        self.queue: SimpleQueue[tuple[DiskWork, Done] | None] = SimpleQueue()
        self.under_way = 0

    def start_thread_if_needed(self, run: "Callable[[Lane], None]") -> None:
        if len(self._threads) < min(self.under_way, self._threads_max):
            name = f"headwater-disk-{len(self._threads)}"
            thread = threading.Thread(target=run, args=(self,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        for _ in self._threads:
            self.queue.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()


def device_of(work: DiskWork) -> int:
    """That holds what is worked on; 0 for what is not there any more."""
    try:
        if isinstance(work, Sync | Warm | Writeback):
            return os.fstat(work.file.fileno()).st_dev
        path = work.paths[0] if isinstance(work, Remove) else work.path
        return os.stat(os.path.dirname(path)).st_dev
    except (OSError, IndexError):
        return 0


def perform(work: DiskWork) -> None:
    """On a pool thread: system calls that release the GIL, and nothing that computes."""
    if isinstance(work, Sync):
        os.fdatasync(work.file.fileno())
    elif isinstance(work, SyncDirectory):
        sync_directory(work.path)
    elif isinstance(work, Remove):
        for path in work.paths:
            _remove_tree(path)
    elif isinstance(work, Warm):
        end = work.position + work.length
        for position in range(work.position, end, WARM_CHUNK_BYTES):
            os.pread(work.file.fileno(), min(WARM_CHUNK_BYTES, end - position), position)
    elif isinstance(work, Replace):
        replace_file(work.path, work.data, durable=True, suffix=".background.tmp")  # the loop may write it too
    else:
        _start_writeback(work.file.fileno(), work.position, work.length)


def replace_file(path: str, data: bytes, durable: bool, suffix: str = ".tmp") -> None:
    beside = path + suffix
    with open(beside, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        if durable:
            os.fsync(file.fileno())
    os.rename(beside, path)
    if durable:
        sync_directory(os.path.dirname(path))


def _remove_tree(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        if not os.path.isdir(path):
            raise
        shutil.rmtree(path)


def sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_sync_file_range: Any = None


def _start_writeback(descriptor: int, position: int, length: int) -> None:
    """`sync_file_range(2)`, which the standard library lacks; where libc lacks it too, the kernel decides alone."""
    global _sync_file_range
    if _sync_file_range is None:
        import ctypes  # 20 ms to import: only once a broker has written tens of megabytes

        function: Any = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", False)
        if function:
            function.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
        _sync_file_range = function
    if _sync_file_range:
        _sync_file_range(descriptor, position, length, _SYNC_FILE_RANGE_WRITE)
