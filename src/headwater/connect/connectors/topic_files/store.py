"""Files where a rename is atomic (a local disk, HDFS): cuts are written whole or not at all, and names tell where to go
on (`names` has the rules). Object stores, which have no rename, are in `object_store`.

Its task owns the partitions it is asked for; hidden files of other partitions are another task's and stay. A task that
has lost a partition without knowing may still write: its files are the same by `rotation`, and where its hidden files
were deleted meanwhile, its rename fails and so does the task. Files of a cut are made, renamed, and deleted in the
order of their paths, and nothing is deleted before two looks saw the same: so the first file alone decides between the
two.
"""

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.topic_files.file_system import FileSystem, LocalFiles
from headwater.connect.connectors.topic_files.names import FileName, HiddenName
from headwater.connect.errors import ConnectError


class Written(NamedTuple):
    """One file of a cut."""

    directory: str  # below that of the topic
    first: int
    last: int
    data: bytes


class Store(Protocol):
    """Where finished cuts are."""

    def recover(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Ends what a crash left half done; gives the offset behind the last record in a file, where there is one."""

    def next_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The same without changing anything, for whoever asks while no task runs."""

    def is_empty(self) -> bool: ...

    def write(self, place: TopicPartition, extension: str, files: Sequence[Written]) -> None:
        """One cut; when this returns, it is safe."""


class _Found(NamedTuple):
    finished: list[tuple[Path, FileName]]
    hidden: list[tuple[Path, HiddenName]]  # in the order of their paths


class FileStore:
    def __init__(self, root: Path, offset_width: int, files: FileSystem | None = None) -> None:
        self._root, self._width = root, offset_width
        self._files: FileSystem = LocalFiles() if files is None else files
        self._writer = uuid.uuid4().hex[:12]
        self._made: set[Path] = set()  # directories that are known to stay

    def recover(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for topic in sorted({each.topic for each in partitions}):
            wanted = {each.partition for each in partitions if each.topic == topic}
            with told(self._root / topic):
                while not self._settle(topic, found := self._scan_twice(topic, wanted)):
                    pass  # another task was at it: look again
            ends |= ends_by_partition(topic, [name for _, name in found.finished])
        return ends

    def next_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for topic in sorted({each.topic for each in partitions}):
            with told(self._root / topic):
                found = self._scan(topic, {each.partition for each in partitions if each.topic == topic})
            names = [name for _, name in found.finished]
            names += [name.file(topic) for _, name in found.hidden if name.ready and _decided(name, found)]
            ends |= ends_by_partition(topic, names)
        return ends

    def is_empty(self) -> bool:
        with told(self._root):
            return all(FileName.parse(path.name) is None for path in self._files.walk(self._root))

    def _scan(self, topic: str, partitions: set[int]) -> _Found:
        found = _Found([], [])
        for path in sorted(self._files.walk(self._root / topic)):
            finished, hidden = FileName.parse(path.name), HiddenName.parse(path.name)
            if finished is not None and finished.topic == topic and finished.partition in partitions:
                found.finished.append((path, finished))
            elif hidden is not None and hidden.partition in partitions:
                found.hidden.append((path, hidden))
        return found

    def _scan_twice(self, topic: str, partitions: set[int]) -> _Found:
        """Files may come while directories are walked; what two walks saw was there between them, all at once."""
        before = self._scan(topic, partitions)
        while (found := self._scan(topic, partitions)) != before:
            before = found
        return found

    def _settle(self, topic: str, found: _Found) -> bool:
        """False: a file was gone, so what was found is not what is there."""
        try:
            for path, name in found.hidden:
                file = name.file(topic)
                if name.ready and _decided(name, found) and not _is_there(path.parent, file, found):
                    final = path.with_name(file.text(self._width))
                    self._files.rename(path, final)
                    found.finished.append((final, file))
                else:
                    self._files.unlink(path)
        except FileNotFoundError:
            return False
        # Also of what was finished before: who renamed it may have been killed before its directory was synced.
        for directory in {path.parent for path, _ in (*found.hidden, *found.finished)}:
            self._files.sync(directory)
        return True

    def write(self, place: TopicPartition, extension: str, files: Sequence[Written]) -> None:
        cut = min(each.first for each in files), max(each.last for each in files)
        with told(self._root / place.topic):
            ready: list[tuple[Path, Path]] = []
            for each in sorted(files, key=lambda each: Path(each.directory)):
                hidden = HiddenName(place.partition, each.first, each.last, *cut, self._writer, extension)
                directory = self._directory(place.topic, each.directory)
                part, whole = directory / hidden.text(), directory / hidden._replace(ready=True).text()
                self._files.write(part, each.data)
                self._files.rename(part, whole)
                ready.append((whole, directory / hidden.file(place.topic).text(self._width)))
            directories = {whole.parent for whole, _ in ready}
            for directory in directories:
                self._files.sync(directory)
            for whole, final in ready:
                self._finish(whole, final)
            for directory in directories:
                self._files.sync(directory)

    def _directory(self, topic: str, below: str) -> Path:
        """Makes it, so that it stays: each parent is synced for its new child."""
        there = self._root
        self._files.make_directory(there)
        for name in (topic, *below.split("/")):
            parent, there = there, there / name
            if there not in self._made:  # whoever made it may not have synced it yet
                self._files.make_directory(there)
                self._files.sync(parent)
                self._made.add(there)
        return there

    def _finish(self, whole: Path, final: Path) -> None:
        try:
            self._files.rename(whole, final)
        except FileNotFoundError:
            if not self._files.exists(final):
                raise ConnectError(
                    f"{whole} was deleted while it was written: another task, or another connector, writes there"
                ) from None


def _decided(name: HiddenName, found: _Found) -> bool:
    return any(name.in_cut(file) for _, file in found.finished)


def _is_there(directory: Path, file: FileName, found: _Found) -> bool:
    """However many digits its offsets have, and in whatever format."""
    return any(path.parent == directory and name[:4] == file[:4] for path, name in found.finished)


def ends_by_partition(topic: str, files: Sequence[FileName]) -> Mapping[TopicPartition, int]:
    ends: dict[TopicPartition, int] = {}
    for file in files:
        place = TopicPartition(topic, file.partition)
        ends[place] = max(ends.get(place, 0), file.last + 1)
    return ends


class told:  # noqa: N801 - reads as a word of the `with`
    """Errors of the disk, with the file they are about."""

    def __init__(self, where: Path | str) -> None:
        self._where = where

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            why = error.strerror or str(error) or type(error).__name__  # Arrow's errors have a text alone
            raise ConnectError(f"Cannot write {error.filename or self._where}: {why.splitlines()[0]}") from error
