"""The names of files, and what they say after a restart. Pure.

A finished file is `<topic>+<partition>+<first offset>+<last offset>.<extension>`. The files of one partition that are
finished together are a *cut*: they hold all its records from one offset to another, whichever directories these belong
to. Before that, a file has a hidden name in the same directory:

    .<partition>+<first>+<last>+<cut's first>+<cut's last>+<writer>.<extension>.part     being written
    .<partition>+<first>+<last>+<cut's first>+<cut's last>+<writer>.<extension>.ready    whole and synced

Every file of a cut is ready before the first one gets its final name, so a cut is decided by that first rename: whoever
finds a finished file with offsets of a cut gives the ready ones their names too, and otherwise deletes them. Cuts of a
partition follow each other, so a finished file within the offsets of a cut belongs to it.
"""

import re
from typing import Final, NamedTuple

EXTENSIONS: Final = ("parquet", "avro", "json")
_ANY: Final = "|".join(EXTENSIONS)
_FINAL: Final = re.compile(rf"([a-zA-Z0-9._-]+)\+(\d+)\+(\d+)\+(\d+)\.({_ANY})", re.ASCII)
_HIDDEN: Final = re.compile(rf"\.(\d+)\+(\d+)\+(\d+)\+(\d+)\+(\d+)\+([0-9a-f]+)\.({_ANY})\.(part|ready)", re.ASCII)


class FileName(NamedTuple):
    topic: str
    partition: int
    first: int
    last: int
    extension: str

    def text(self, width: int) -> str:
        """`width`: offsets have at least so many digits, so that names sort as offsets do."""
        return f"{self.topic}+{self.partition}+{self.first:0{width}}+{self.last:0{width}}.{self.extension}"

    @classmethod
    def parse(cls, text: str) -> "FileName | None":
        found = _FINAL.fullmatch(text)
        if found is None:
            return None
        topic, partition, first, last, extension = found.groups()
        return cls(topic, int(partition), int(first), int(last), extension)


class HiddenName(NamedTuple):
    partition: int
    first: int
    last: int
    cut_first: int
    cut_last: int
    writer: str  # tells apart two tasks that write the same file, one of which has lost its partition
    extension: str
    ready: bool = False

    def text(self) -> str:
        numbers = "+".join(map(str, self[:5]))
        return f".{numbers}+{self.writer}.{self.extension}.{'ready' if self.ready else 'part'}"

    def file(self, topic: str) -> FileName:
        return FileName(topic, self.partition, self.first, self.last, self.extension)

    def in_cut(self, file: FileName) -> bool:
        return self.partition == file.partition and self.cut_first <= file.first <= self.cut_last

    @classmethod
    def parse(cls, text: str) -> "HiddenName | None":
        found = _HIDDEN.fullmatch(text)
        if found is None:
            return None
        partition, first, last, cut_first, cut_last, writer, extension, state = found.groups()
        return cls(
            int(partition), int(first), int(last), int(cut_first), int(cut_last), writer, extension, state == "ready"
        )
