"""Files where a rename is atomic (a local disk, HDFS): cuts are written whole or not at all, and names tell where to go
on (`names` has the rules). Object stores, which have no rename, are in `object_store`.

Its task owns the partitions it is asked for; hidden files of other partitions are another task's and stay. A task that
has lost a partition without knowing may still write: its files are the same by `rotation`, and where its hidden files
were deleted meanwhile, its rename fails and so does the task. Files of a cut are made, renamed, and deleted in the
order of their paths, and nothing is deleted before two looks saw the same: so the first file alone decides between the
two.

Setting offsets puts a mark before it deletes hidden files, and a task looks for marks when its files are hidden and
whole: so either its files are gone, or it sees the mark (`offset_marks`).
"""

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.topic_files.file_system import FileSystem, LocalFiles
from headwater.connect.connectors.topic_files.names import FileName, HiddenName
from headwater.connect.connectors.topic_files.offset_marks import (
    MARKS,
    REPLACED,
    Mark,
    check_cut,
    check_generation,
    generation_of,
    leaving,
    newest,
    positions,
)
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
        """Ends what a crash left half done; gives the offset behind the last record in a file, or that was set."""

    def next_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """The same without changing anything, for whoever asks while no task runs."""

    def partitions(self) -> set[TopicPartition]:
        """Those of which anything here says where to go on:
        files, cuts that are half written, offsets that were set.
        """

    def check_offset(self, place: TopicPartition, offset: int | None) -> None:
        """ConnectError: it cannot be set. Changes nothing."""

    def set_offset(self, place: TopicPartition, offset: int | None) -> None:
        """Makes it go on there (None: wherever the group is); files with later records are kept aside. While no task
        runs."""

    def write(self, place: TopicPartition, extension: str, files: Sequence[Written]) -> None:
        """One cut; when this returns, it is safe."""


class _Found(NamedTuple):
    finished: list[tuple[Path, FileName]]
    hidden: list[tuple[Path, HiddenName]]  # in the order of their paths
    marks: list[Mark]


class FileStore:
    def __init__(self, root: Path, offset_width: int, files: FileSystem | None = None) -> None:
        self._root, self._width = root, offset_width
        self._files: FileSystem = LocalFiles() if files is None else files
        self._writer = uuid.uuid4().hex[:12]
        self._made: set[Path] = set()  # directories that are known to stay
        self._generations: dict[TopicPartition, int] = {}  # of the marks when a partition was taken

    def recover(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for topic in sorted({each.topic for each in partitions}):
            wanted = {each.partition for each in partitions if each.topic == topic}
            with told(self._root / topic):
                found = self._settled(topic, wanted)
                for mark in newest(found.marks).values():
                    if not mark.is_set:
                        self._make_room(TopicPartition(topic, mark.partition), mark)
                        found = self._settled(topic, wanted)
            self._generations |= {
                TopicPartition(topic, each): generation_of(each, found.marks) for each in sorted(wanted)
            }
            ends |= positions(topic, [name for _, name in found.finished], found.marks)
        return ends

    def next_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        ends: dict[TopicPartition, int] = {}
        for topic in sorted({each.topic for each in partitions}):
            with told(self._root / topic):
                found = self._scan(topic, {each.partition for each in partitions if each.topic == topic})
            ends |= positions(topic, _decided_names(topic, found), found.marks)
        return ends

    def check_offset(self, place: TopicPartition, offset: int | None) -> None:
        with told(self._root / place.topic):
            found = self._scan(place.topic, {place.partition})
        check_cut(place, offset, _decided_names(place.topic, found))

    def partitions(self) -> set[TopicPartition]:
        found = set()
        with told(self._root):
            for path in self._files.walk(self._root):
                topic, *below = path.relative_to(self._root).parts
                name = _part_of_topic(topic, below)
                if name is not None:
                    found.add(TopicPartition(topic, name.partition))
        return found

    def set_offset(self, place: TopicPartition, offset: int | None) -> None:
        topic, number = place
        with told(self._root / topic):
            found = self._settled(topic, {number})
            names = [name for _, name in found.finished]
            if (
                offset is not None
                and positions(topic, names, found.marks).get(place) == offset
                and all(each.is_set for each in found.marks)
            ):
                return
            check_cut(place, offset, names)
            mark = Mark(number, generation_of(number, found.marks) + 1, offset, is_set=False)
            marks = self._directory(topic, MARKS)
            self._files.write(marks / mark.text(), b"")
            self._files.sync(marks)
            self._make_room(place, mark)

    def _make_room(self, place: TopicPartition, mark: Mark) -> None:
        """For a mark that is there. Nobody gives a hidden file its name from now on without seeing it."""
        topic, number = place
        found = self._settled(topic, {number})
        check_cut(place, mark.offset, [name for _, name in found.finished])
        for path in leaving(place, mark.offset, found.finished):
            self._set_aside(topic, path, mark.generation)
        marks = self._root / topic / MARKS
        self._files.rename(marks / mark.text(), marks / mark._replace(is_set=True).text())
        for old in found.marks:
            if old.generation != mark.generation:
                self._files.unlink(marks / old.text())
        self._files.sync(marks)

    def _set_aside(self, topic: str, path: Path, generation: int) -> None:
        below = path.relative_to(self._root / topic)
        there = self._directory(topic, f"{REPLACED}/{generation}/{below.parent.as_posix()}")
        self._files.rename(path, there / below.name)
        self._files.sync(there)
        self._files.sync(path.parent)

    def _settled(self, topic: str, partitions: set[int]) -> _Found:
        while not self._settle(topic, found := self._scan_twice(topic, partitions)):
            pass  # another task was at it: look again
        return found

    def _scan(self, topic: str, partitions: set[int]) -> _Found:
        found = _Found([], [], [])
        for path in sorted(self._files.walk(self._root / topic)):
            top = path.relative_to(self._root / topic).parts[0]
            finished, hidden, mark = FileName.parse(path.name), HiddenName.parse(path.name), Mark.parse(path.name)
            if top == REPLACED:
                continue
            if top == MARKS:
                if mark is not None and mark.partition in partitions:
                    found.marks.append(mark)
            elif finished is not None and finished.topic == topic and finished.partition in partitions:
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
            marks = [Mark.parse(path.name) for path in self._files.walk(self._root / place.topic / MARKS)]
            check_generation(place, self._generations.get(place, 0), [each for each in marks if each is not None])
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


def _decided_names(topic: str, found: _Found) -> list[FileName]:
    """Those of finished files, and of those that only lack their last rename."""
    hidden = [name.file(topic) for _, name in found.hidden if name.ready and _decided(name, found)]
    return [name for _, name in found.finished] + hidden


def _decided(name: HiddenName, found: _Found) -> bool:
    return any(name.in_cut(file) for _, file in found.finished)


def _is_there(directory: Path, file: FileName, found: _Found) -> bool:
    """However many digits its offsets have, and in whatever format."""
    return any(path.parent == directory and name[:4] == file[:4] for path, name in found.finished)


def _part_of_topic(topic: str, below: Sequence[str]) -> FileName | Mark | None:
    if not below or below[0] == REPLACED:
        return None
    if below[0] == MARKS:
        return Mark.parse(below[-1])
    name = FileName.parse(below[-1])
    return name if name is not None and name.topic == topic else None


class told:  # noqa: N801 - reads as a word of the `with`
    """Errors of the disk, with the file they are about."""

    def __init__(self, where: Path | str) -> None:
        self._where = where

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            why = error.strerror or str(error) or type(error).__name__  # Arrow's errors have a text alone
            raise ConnectError(f"Cannot write {error.filename or self._where}: {why.splitlines()[0]}") from error
