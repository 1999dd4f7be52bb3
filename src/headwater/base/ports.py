"""The ports: all that the broker wing below `server` may ask of the outside world.

`server` implements them with the kernel, `sim` with a heap of events and a seed. Everything is called from one thread,
the owner of the loop; `done` callbacks are posted back to that thread, never run inside `submit`.

The disk has two kinds of call. The synchronous ones run at page-cache speed. What may wait for the device (fsync, cold
reads, deletion) goes through `submit` and comes back as a completion event.
"""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))  # the errors of a disk that may have room again
NO_DESCRIPTORS: Final = frozenset((errno.EMFILE, errno.ENFILE))  # until somebody closes one
PASSING: Final = FULL | NO_DESCRIPTORS  # it may go well when it is tried again


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock milliseconds since 1970: for record timestamps and retention. May jump."""
        ...

    def monotonic_ms(self) -> int:
        """For timeouts. Never goes back; its zero means nothing."""
        ...


class Random(Protocol):
    def bytes(self, count: int) -> bytes: ...

    def below(self, limit: int) -> int:
        """A number in [0, limit)."""
        ...


class Timer(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """The owner's loop, as seen from below."""

    def call_later(self, delay_ms: int, function: Callable[[], None]) -> Timer: ...

    def call_soon(self, function: Callable[[], None]) -> None:
        """After the events of this turn are handled."""
        ...

    def compute(
        self, function: Callable[..., Any], *arguments: Any, done: Callable[[Any, BaseException | None], None]
    ) -> None:
        """Runs Python that computes in a worker process (never a thread): function and arguments must pickle."""
        ...


class File(Protocol):
    """An open file. Reference counted: it is closed when the last holder lets go, never under a slice in flight."""

    path: str

    def size(self) -> int: ...

    def append(self, data: Buffer) -> None:
        """Writes all of `data` at the end, or raises OSError and leaves the file as long as it was."""
        ...

    def pread(self, position: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end of the file."""
        ...

    def truncate(self, length: int) -> None: ...

    def fileno(self) -> int:
        """The descriptor, for `sendfile`. A simulated file has none and raises."""
        ...

    def retain(self) -> None: ...

    def release(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Sync:
    """fsync of a file (its data and size)."""

    file: File


@dataclass(frozen=True, slots=True)
class SyncDirectory:
    path: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Deletes files and whole directories; what is gone already is fine."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Warm:
    """Brings a stretch of a file into the page cache."""

    file: File
    position: int
    length: int


@dataclass(frozen=True, slots=True)
class Writeback:
    """Starts writing a stretch of dirty pages out, so that a later append does not meet the kernel's throttle.

    Promises nothing about durability: only `Sync` does.
    """

    file: File
    position: int
    length: int


@dataclass(frozen=True, slots=True)
class Replace:
    """`write_file`, durable, off the loop. One at a time for a path."""

    path: str
    data: bytes


DiskWork = Sync | SyncDirectory | Remove | Warm | Writeback | Replace


class Disk(Protocol):
    """Paths are strings, absolute. OSError means what it means in the standard library (errno and all)."""

    def open(self, path: str, *, create: bool = False) -> File:
        """For reading and appending; with `create` it may be new. The caller holds one reference."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def write_file(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Replaces a small file as one step: beside it, fsync if `durable`, rename, fsync of the directory."""
        ...

    def make_empty_file(self, path: str) -> None:
        """Needs no descriptor; fine if it is there. It is on the device with the next sync of its directory."""
        ...

    def exists(self, path: str) -> bool: ...

    def file_size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def list_directory(self, path: str) -> list[str]:
        """Names of the entries, sorted."""
        ...

    def is_directory(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """With parents; fine if it is there."""
        ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None:
        """One file; fine if it is gone."""
        ...

    def lock(self, path: str) -> None:
        """Takes an exclusive lock on a file for as long as this process lives or until `unlock`; OSError if another
        holds it.
        """
        ...

    def unlock(self, path: str) -> None: ...

    def usage(self, path: str) -> tuple[int, int]:
        """(total, usable) bytes of the file system that holds `path`."""
        ...

    def submit(self, work: DiskWork, done: Callable[[OSError | None], None]) -> None: ...

    def sync_now(self, file: File) -> None:
        """fsync that the caller waits for: start-up, shutdown and metadata only, never the request path."""
        ...

    def sync_directory_now(self, path: str) -> None: ...

    def drop_cached(self, path: str) -> None:
        """Writes the file out and forgets its pages, so that the next read is of the device. At the start only."""
        ...

    def sync_together(self, work: Sequence[Sync | SyncDirectory]) -> list[OSError | None]:
        """Many such at once, waited for; what came of each. The device does many together in little more time than
        one.
        """
        ...


class FileSlice:
    """A stretch of a file on its way out: the server sends it by `sendfile`, everyone else reads it as bytes.

    Holds a reference to its file from construction until `release`, so that the handle cache, retention and compaction
    never close a descriptor under it.
    """

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length
        file.retain()

    def __len__(self) -> int:
        return self.length

    def read(self) -> bytes:
        return self.file.pread(self.position, self.length)

    def release(self) -> None:
        self.file.release()
