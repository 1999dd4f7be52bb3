"""What becomes of files when the offsets of their connector are set (KIP-875), and the marks that say it. Pure.

The names of files say where to go on; a *mark* says it beside them, as a name too:

    <topic>/_offsets/<partition>+<generation>+<offset>.mark         `none` for an offset: wherever the group is
    <topic>/_offsets/<partition>+<generation>+<offset>.setting      the same, while files leave for it

A partition goes on behind its last record in a file, or at its mark where that is further on. So setting an offset puts
a mark, and files with records from there on leave: they are kept under `<topic>/_replaced/<generation>/`, which readers
of directories such as Spark pass over. Who finds that this was begun and did not end, ends it. A file that has records
on both sides of the offset cannot leave, and is told.

Each mark has a generation of its own. A task knows that of its start, and writes nothing once there is a later one: one
that has slept since would otherwise put files there that make the next task go on behind them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from headwater.base.ids import TopicPartition
from headwater.connect.connectors.topic_files.names import FileName
from headwater.connect.errors import ConnectError

MARKS: Final = "_offsets"
REPLACED: Final = "_replaced"
File = TypeVar("File")
_MARK: Final = re.compile(r"(\d+)\+(\d+)\+(\d+|none)\.(mark|setting)", re.ASCII)


class Mark(NamedTuple):
    partition: int
    generation: int
    offset: int | None
    is_set: bool = True  # False: files are leaving for it

    def text(self) -> str:
        offset = "none" if self.offset is None else str(self.offset)
        return f"{self.partition}+{self.generation}+{offset}.{'mark' if self.is_set else 'setting'}"

    @classmethod
    def parse(cls, text: str) -> "Mark | None":
        found = _MARK.fullmatch(text)
        if found is None:
            return None
        offset = None if found[3] == "none" else int(found[3])
        return cls(int(found[1]), int(found[2]), offset, found[4] == "mark")


def newest(marks: Iterable[Mark]) -> dict[int, Mark]:
    """By partition."""
    found: dict[int, Mark] = {}
    for mark in sorted(marks, key=lambda each: (each.generation, each.is_set)):
        found[mark.partition] = mark
    return found


def generation_of(partition: int, marks: Iterable[Mark]) -> int:
    found = newest(marks).get(partition)
    return 0 if found is None else found.generation


def ends_by_partition(topic: str, files: Sequence[FileName]) -> Mapping[TopicPartition, int]:
    """The offset behind the last record in a file."""
    ends: dict[TopicPartition, int] = {}
    for file in files:
        place = TopicPartition(topic, file.partition)
        ends[place] = max(ends.get(place, 0), file.last + 1)
    return ends


def positions(topic: str, files: Sequence[FileName], marks: Iterable[Mark]) -> dict[TopicPartition, int]:
    """Where to go on, of each partition that has a file or a mark with an offset."""
    found = dict(ends_by_partition(topic, files))
    for mark in newest(marks).values():
        place = TopicPartition(topic, mark.partition)
        if not mark.is_set:
            found.pop(place, None)  # what is there leaves
        if mark.offset is not None:
            found[place] = max(found.get(place, 0), mark.offset)
    return found


def check_cut(place: TopicPartition, offset: int | None, files: Iterable[FileName]) -> None:
    """ConnectError: a file has records on both sides of the offset."""
    for file in files:
        if offset is not None and file.partition == place.partition and file.first < offset <= file.last:
            raise ConnectError(
                f"A file of {place.topic}-{place.partition} holds records from offset {file.first} to {file.last}, and cannot be "
                f"cut at {offset}: choose {file.first}, or {file.last + 1}"
            )


def check_generation(place: TopicPartition, known: int, marks: Iterable[Mark]) -> None:
    if generation_of(place.partition, marks) != known:
        raise ConnectError(
            f"The offset of {place.topic}-{place.partition} was set while this task slept: it has to start again"
        )


def leaving(place: TopicPartition, offset: int | None, files: Iterable[tuple[File, FileName]]) -> list[File]:
    """The files with records from the offset on, last ones first: whoever dies meanwhile leaves what a later offset
    would have left.
    """
    there = [each for each in files if each[1].partition == place.partition and each[1].last >= (offset or 0)]
    return [file for file, _ in sorted(there, key=lambda each: (each[1].last, each[1].first), reverse=True)]
