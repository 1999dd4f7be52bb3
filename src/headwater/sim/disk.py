"""A disk in memory that knows what would survive a power loss, and can lose the rest.

Every file has two contents: what a reader sees, and what is on the device. Writes and truncations wait in between, in
order, until a sync of the file. Directories are the same: making, renaming and removing an entry is on the device only
after a sync of that directory. `crash` keeps of every file and directory what was synced, plus some of what was
waiting: a random number of the first operations, the last one torn anywhere. Files are independent of each other, so
their order is lost too.

A failed fsync drops what was waiting, as Linux does: readers still see it, no later fsync brings it to the device. A
directory that fails (`fail`) answers EIO to everything, until it is mended without what was not synced.

Everything random comes from the seed. Completions of `submit` wait until `run` lets them happen.
"""

import errno
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from headwater.base.ports import Buffer, DiskWork, File, Remove, Replace, Sync, SyncDirectory

Done = Callable[[OSError | None], None]
UNLIMITED: Final = 1 << 62


@dataclass(slots=True)
class DiskFaults:
    """What can go wrong. Changed by the test while it runs."""

    free_bytes: int = UNLIMITED  # appends beyond it get ENOSPC
    syncs_to_fail: int = 0  # the next so many fsyncs get EIO
    may_fail_sync: Callable[[], bool] | None = None  # asked when one is about to; if not, it succeeds
    zero_tail: bool = True  # a crash may leave a file longer than what was written to it, with zeroes


class _Inode:
    __slots__ = ("device", "modified_ms", "seen", "waiting")

    def __init__(self) -> None:
        self.seen = bytearray()
        self.device = bytearray()
        self.waiting: list[tuple[int, bytes | None]] = []  # (position, data), or (length, None) for a truncation
        self.modified_ms = 0

    def write(self, position: int, data: bytes) -> None:
        _apply(self.seen, position, data)
        self.waiting.append((position, data))

    def truncate(self, length: int) -> None:
        _apply(self.seen, length, None)
        self.waiting.append((length, None))

    def sync(self) -> None:
        for position, data in self.waiting:
            _apply(self.device, position, data)
        self.waiting.clear()

    def crash(self, chance: random.Random, zero_tail: bool) -> None:
        kept = chance.randint(0, len(self.waiting))
        for position, data in self.waiting[:kept]:
            _apply(self.device, position, data)
        if kept < len(self.waiting):
            position, data = self.waiting[kept]
            if data is not None:
                torn = data[: chance.randint(0, len(data))]
                if zero_tail and chance.random() < 0.25:
                    torn += bytes(len(data) - len(torn))
                _apply(self.device, position, torn)
        self.waiting.clear()
        self.seen = bytearray(self.device)


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        del content[position:]
    if len(content) < position:
        content += bytes(position - len(content))
    if data is not None:
        content[position : position + len(data)] = data


@lru_cache(4096)
def _names(path: str) -> tuple[str, ...]:
    return tuple(filter(None, path.split("/")))


class _Directory:
    __slots__ = ("device", "seen", "waiting")

    def __init__(self) -> None:
        self.seen: dict[str, _Inode | _Directory] = {}
        self.device: dict[str, _Inode | _Directory] = {}
        self.waiting: list[tuple[str, str | None, _Inode | _Directory | None]] = []

    def change(self, name: str, new_name: str | None, node: "_Inode | _Directory | None") -> None:
        """`name` is linked to `node`, or renamed to `new_name`, or (neither) removed."""
        _change(self.seen, name, new_name, node)
        self.waiting.append((name, new_name, node))

    def sync(self) -> None:
        for change in self.waiting:
            _change(self.device, *change)
        self.waiting.clear()

    def crash(self, chance: random.Random, zero_tail: bool) -> None:
        for change in self.waiting[: chance.randint(0, len(self.waiting))]:
            _change(self.device, *change)
        self.waiting.clear()
        self.seen = dict(self.device)
        for node in self.seen.values():
            node.crash(chance, zero_tail)


def _change(
    entries: dict[str, _Inode | _Directory], name: str, new_name: str | None, node: _Inode | _Directory | None
) -> None:
    if node is not None:
        entries[name] = node
    elif new_name is not None:
        moved = entries.pop(name, None)
        if moved is not None:
            entries[new_name] = moved
    else:
        entries.pop(name, None)


class SimFile:
    __slots__ = ("_disk", "_generation", "_inode", "_references", "path")

    def __init__(self, disk: "SimDisk", path: str, inode: _Inode) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._references = 1
        self._generation = disk.generation

    def _check(self) -> _Inode:
        assert self._references > 0, f"{self.path} is closed"
        self._disk.refuse_if_failed(self.path)
        assert self._generation == self._disk.generation, f"{self.path} was opened before a crash"
        return self._inode

    def size(self) -> int:
        return len(self._check().seen)

    def append(self, data: Buffer) -> None:
        inode = self._check()
        self._disk.take_space(len(data), self.path)
        inode.write(len(inode.seen), bytes(data))
        inode.modified_ms = self._disk.now_ms

    def pread(self, position: int, length: int) -> bytes:
        data = bytes(self._check().seen[position : position + length])
        self._disk.bytes_read[self.path] += len(data)
        return data

    def truncate(self, length: int) -> None:
        inode = self._check()
        self._disk.faults.free_bytes += max(0, len(inode.seen) - length)
        inode.truncate(length)

    def fileno(self) -> int:
        raise OSError(errno.EBADF, "a simulated file has no descriptor", self.path)

    def retain(self) -> None:
        assert self._references > 0, f"{self.path} is closed"
        self._references += 1
        self._disk.open_references += 1

    def release(self) -> None:
        assert self._references > 0, f"{self.path} was released too often"
        self._references -= 1
        self._disk.open_references -= 1

    def sync(self) -> None:
        inode = self._check()
        self._disk.syncs += 1
        faults = self._disk.faults
        if faults.syncs_to_fail > 0 and (faults.may_fail_sync is None or faults.may_fail_sync()):
            faults.syncs_to_fail -= 1
            inode.waiting.clear()
            raise OSError(errno.EIO, os.strerror(errno.EIO), self.path)
        inode.sync()


class SimDisk:
    def __init__(self, seed: int = 0, faults: DiskFaults | None = None) -> None:
        self.faults = faults or DiskFaults()
        self.bytes_read: Counter[str] = Counter()
        self.syncs = 0
        self.open_references = 0
        self.generation = 0  # grows with each crash; files opened before are dead
        self.now_ms = 0  # what new data is stamped with
        self._chance = random.Random(seed)
        self._root = _Directory()
        self._locks: set[str] = set()
        self._submitted: list[tuple[DiskWork, Done]] = []
        self._failed: str | None = None

    # What tests do to it

    def fail(self, directory: str) -> None:
        """Whatever lies in it can be neither read nor written from now on."""
        self._failed = directory + "/"

    def mend(self) -> None:
        """After the process that used it is gone."""
        if self._failed is not None:
            node = self._find(self._failed)
            self._failed = None
            if isinstance(node, _Directory):
                node.crash(self._chance, self.faults.zero_tail)

    @property
    def has_failed(self) -> bool:
        return self._failed is not None

    def refuse_if_failed(self, path: str) -> None:
        if self._failed is not None and path.startswith(self._failed):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def crash(self) -> None:
        """Power loss: unsynced bytes and names are lost or torn, whatever was under way never ends."""
        self.generation += 1
        self.open_references = 0
        self._locks.clear()
        self._submitted.clear()
        self._root.crash(self._chance, self.faults.zero_tail)

    def kill(self) -> None:
        """The process is gone, the machine is not: its files and locks go, the page cache stays. Of the work under way,
        some was done, and nobody is told."""
        done = self._chance.randint(0, len(self._submitted))
        submitted, self._submitted = self._submitted, []
        for work, _ in submitted[:done]:
            with suppress(OSError):
                self._perform(work)
        self.generation += 1
        self.open_references = 0
        self._locks.clear()

    @property
    def work_count(self) -> int:
        """What was submitted and has not happened yet."""
        return len(self._submitted)

    @property
    def work_references(self) -> int:
        """How many references to files that holds."""
        return sum([1 for work, _ in self._submitted if getattr(work, "file", None) is not None])

    def run(self, count: int | None = None) -> int:
        """Lets submitted work happen, in order, and its completions with it; also what those submit, unless counted."""
        done = 0
        while self._submitted and (count is None or done < count):
            work, tell = self._submitted.pop(0)
            error: OSError | None = None
            try:
                self._perform(work)
            except OSError as raised:
                error = raised
            done += 1
            file = getattr(work, "file", None)
            if file is not None:
                file.release()
            tell(error)
        return done

    def flip_bit(self, path: str, position: int, bit: int) -> None:
        inode = self._inode(path)
        inode.seen[position] ^= 1 << bit
        if position < len(inode.device):
            inode.device[position] ^= 1 << bit

    # The Disk port

    def open(self, path: str, *, create: bool = False) -> SimFile:
        self.refuse_if_failed(path)
        directory, name = self._parent(path)
        node = directory.seen.get(name)
        if node is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = self._new_inode()
            directory.change(name, None, node)
        if not isinstance(node, _Inode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        self.open_references += 1
        return SimFile(self, path, node)

    def read_file(self, path: str) -> bytes:
        self.refuse_if_failed(path)
        data = bytes(self._inode(path).seen)
        self.bytes_read[path] += len(data)
        return data

    def write_file(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self.refuse_if_failed(path)
        directory, name = self._parent(path)
        self.take_space(len(data), path)
        inode = self._new_inode()
        inode.write(0, data)
        if durable:
            inode.sync()
        directory.change(name, None, inode)
        if durable:
            directory.sync()

    def make_empty_file(self, path: str) -> None:
        self.refuse_if_failed(path)
        directory, name = self._parent(path)
        if name not in directory.seen:
            directory.change(name, None, self._new_inode())

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def file_size(self, path: str) -> int:
        self.refuse_if_failed(path)
        return len(self._inode(path).seen)

    def modified_ms(self, path: str) -> int:
        self.refuse_if_failed(path)
        return self._inode(path).modified_ms

    def list_directory(self, path: str) -> list[str]:
        self.refuse_if_failed(path)
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return sorted(node.seen)

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), _Directory)

    def make_directory(self, path: str) -> None:
        self.refuse_if_failed(path)
        directory = self._root
        for name in path.strip("/").split("/"):
            node = directory.seen.get(name)
            if node is None:
                node = _Directory()
                directory.change(name, None, node)
            assert isinstance(node, _Directory), path
            directory = node

    def rename(self, old: str, new: str) -> None:
        self.refuse_if_failed(old)
        directory, name = self._parent(old)
        new_directory, new_name = self._parent(new)
        assert directory is new_directory, "only inside one directory"
        if name not in directory.seen:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), old)
        directory.change(name, new_name, None)

    def remove(self, path: str) -> None:
        self.refuse_if_failed(path)
        directory, name = self._parent(path)
        node = directory.seen.get(name)
        if node is not None:
            if isinstance(node, _Inode):
                self.faults.free_bytes += len(node.seen)
            directory.change(name, None, None)

    def lock(self, path: str) -> None:
        if path in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "locked", path)
        self.open(path, create=True).release()
        self._locks.add(path)

    def unlock(self, path: str) -> None:
        self._locks.discard(path)

    def usage(self, path: str) -> tuple[int, int]:  # noqa: ARG002 - there is only one file system
        return UNLIMITED, max(0, self.faults.free_bytes)

    def submit(self, work: DiskWork, done: Done) -> None:
        file = getattr(work, "file", None)
        if file is not None:
            file.retain()
        self._submitted.append((work, done))

    def sync_now(self, file: File) -> None:
        assert isinstance(file, SimFile)
        file.sync()

    def sync_directory_now(self, path: str) -> None:
        self.refuse_if_failed(path)
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        node.sync()

    def drop_cached(self, path: str) -> None:
        self.refuse_if_failed(path)
        inode = self._inode(path)
        inode.sync()
        inode.seen = bytearray(inode.device)

    def sync_together(self, work: Sequence[Sync | SyncDirectory]) -> list[OSError | None]:
        errors: list[OSError | None] = []
        for each in work:
            try:
                self._perform(each)
                errors.append(None)
            except OSError as error:
                errors.append(error)
        return errors

    # Inside

    def take_space(self, size: int, path: str) -> None:
        if size > self.faults.free_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self.faults.free_bytes -= size

    def _perform(self, work: DiskWork) -> None:
        if isinstance(work, Sync):
            assert isinstance(work.file, SimFile)
            work.file.sync()
        elif isinstance(work, SyncDirectory):
            self.sync_directory_now(work.path)
        elif isinstance(work, Replace):
            self.write_file(work.path, work.data)
        elif isinstance(work, Remove):
            for path in work.paths:
                self.remove(path)

    def _new_inode(self) -> _Inode:
        inode = _Inode()
        inode.modified_ms = self.now_ms
        return inode

    def _find(self, path: str) -> _Inode | _Directory | None:
        node: _Inode | _Directory | None = self._root
        for name in _names(path):
            node = node.seen.get(name) if isinstance(node, _Directory) else None
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rpartition("/")
        node = self._find(parent) if parent else self._root
        if not isinstance(node, _Directory):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node, name

    def _inode(self, path: str) -> _Inode:
        node = self._find(path)
        if not isinstance(node, _Inode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return node
