"""The files on a local disk: cuts are written whole or not at all, and names tell where to go on (`names` has the
rules).

Its task owns the partitions it is asked for; hidden files of other partitions are another task's and stay. A task that
has lost a partition without knowing may still write: its files are the same by `rotation`, and where its hidden files
were deleted meanwhile, its rename fails and so does the task. Files of a cut are made, renamed, and deleted in the
order of their paths, and nothing is deleted before two looks saw the same: so the first file alone decides between the
two.
"""

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.topic_files.names import FileName, HiddenName
from headwater.connect.errors import ConnectError


class Written(NamedTuple):
    """One file of a cut."""

    directory: str  # below that of the topic
    first: int
    last: int
    data: bytes


class _Found(NamedTuple):
    finished: list[tuple[Path, FileName]]
    hidden: list[tuple[Path, HiddenName]]  # in the order of their paths


class FileStore:
    def __init__(self, root: Path, offset_width: int) -> None:
        self._root, self._width = root, offset_width
        self._writer = uuid.uuid4().hex[:12]
        self._synced: set[Path] = set()  # directories that are known to stay

    def recover(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Ends what a crash left half done; gives the offset behind the last record in a file, where there is one."""
        ends: dict[TopicPartition, int] = {}
        for topic in sorted({each.topic for each in partitions}):
            wanted = {each.partition for each in partitions if each.topic == topic}
            with _told(self._root / topic):
                while not self._settle(topic, found := self._scan_twice(topic, wanted)):
                    pass  # another task was at it: look again
            ends |= _ends(topic, [name for _, name in found.finished])
        return ends

    def next_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The same without changing anything, for whoever asks while no task runs."""
        ends: dict[TopicPartition, int] = {}
        for topic in sorted({each.topic for each in partitions}):
            with _told(self._root / topic):
                found = self._scan(topic, {each.partition for each in partitions if each.topic == topic})
            names = [name for _, name in found.finished]
            names += [name.file(topic) for _, name in found.hidden if name.ready and _decided(name, found)]
            ends |= _ends(topic, names)
        return ends

    def is_empty(self) -> bool:
        with _told(self._root):
            return all(FileName.parse(path.name) is None for path in _files(self._root))

    def _scan(self, topic: str, partitions: set[int]) -> _Found:
        found = _Found([], [])
        for path in sorted(_files(self._root / topic)):
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
                    final = path.rename(path.with_name(file.text(self._width)))
                    found.finished.append((final, file))
                else:
                    path.unlink()
        except FileNotFoundError:
            return False
        # Also of what was finished before: who renamed it may have been killed before its directory was synced.
        for directory in {path.parent for path, _ in (*found.hidden, *found.finished)}:
            _sync(directory)
        return True

    def write(self, place: TopicPartition, extension: str, files: Sequence[Written]) -> None:
        """One cut; when this returns, it is safe."""
        cut = min(each.first for each in files), max(each.last for each in files)
        with _told(self._root / place.topic):
            ready: list[tuple[Path, Path]] = []
            for each in sorted(files, key=lambda each: Path(each.directory)):
                hidden = HiddenName(place.partition, each.first, each.last, *cut, self._writer, extension)
                directory = self._directory(place.topic, each.directory)
                part = directory / hidden.text()
                with part.open("wb") as file:
                    file.write(each.data)
                    file.flush()
                    os.fsync(file.fileno())
                whole = part.rename(directory / hidden._replace(ready=True).text())
                ready.append((whole, directory / hidden.file(place.topic).text(self._width)))
            directories = {whole.parent for whole, _ in ready}
            for directory in directories:
                _sync(directory)
            for whole, final in ready:
                _finish(whole, final)
            for directory in directories:
                _sync(directory)

    def _directory(self, topic: str, below: str) -> Path:
        """Makes it, so that it stays: each parent is synced for its new child."""
        there = self._root
        there.mkdir(parents=True, exist_ok=True)
        for name in (topic, *below.split("/")):
            parent, there = there, there / name
            if there not in self._synced:  # whoever made it may not have synced it yet
                there.mkdir(exist_ok=True)
                _sync(parent)
                self._synced.add(there)
        return there


def _decided(name: HiddenName, found: _Found) -> bool:
    return any(name.in_cut(file) for _, file in found.finished)


def _is_there(directory: Path, file: FileName, found: _Found) -> bool:
    """However many digits its offsets have, and in whatever format."""
    return any(path.parent == directory and name[:4] == file[:4] for path, name in found.finished)


def _ends(topic: str, files: Sequence[FileName]) -> Mapping[TopicPartition, int]:
    ends: dict[TopicPartition, int] = {}
    for file in files:
        place = TopicPartition(topic, file.partition)
        ends[place] = max(ends.get(place, 0), file.last + 1)
    return ends


def _files(directory: Path) -> Iterator[Path]:
    """All below it. A directory that cannot be read is an error: its files would be written again."""
    for parent, _, names in os.walk(directory, onerror=_raise_unless_missing):
        for name in names:
            yield Path(parent, name)


def _raise_unless_missing(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def _finish(whole: Path, final: Path) -> None:
    try:
        whole.rename(final)
    except FileNotFoundError:
        if not final.exists():
            raise ConnectError(
                f"{whole} was deleted while it was written: another task, or another connector, writes there"
            ) from None


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _told:  # noqa: N801 - reads as a word of the `with`
    """Errors of the disk, with the file they are about."""

    def __init__(self, where: Path) -> None:
        self._where = where

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            raise ConnectError(f"Cannot write {error.filename or self._where}: {error.strerror}") from error
