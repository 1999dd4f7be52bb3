"""The names of the files that a topic becomes, and what they say. Pure.

    topic=clicks/partition=3/clicks+3+0000000120+0000000184.parquet

holds the records of partition 3 from offset 120 up to and including 184; the numbers are padded as Confluent's HDFS
sink pads them. Files get these names in the order of their offsets, by a rename, so a name means that all offsets up to
its end are in files: the last end is where to go on, and no other record of progress is kept. Offsets that no file
covers were never visible records (the marks of transactions, records that compaction took).
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.spark.offset_options import EARLIEST

OFFSET_DIGITS: Final = 10
STAGING: Final = "_staging"  # Spark's and Hadoop's readers pass over names that begin with an underscore
_NAME: Final = re.compile(r"([a-zA-Z0-9._-]+)\+(\d+)\+(\d{10,19})\+(\d{10,19})\.parquet")


class TopicFile(NamedTuple):
    """The records of one partition from `start` to `end`, both included."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def directory(self) -> str:
        return f"topic={self.topic}/partition={self.partition}"

    @property
    def name(self) -> str:
        return f"{self.topic}+{self.partition}+{self.start:0{OFFSET_DIGITS}d}+{self.end:0{OFFSET_DIGITS}d}.parquet"

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def parse(name: str) -> TopicFile | None:
    """None for a name that is not of ours: others may put their files beside them."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    topic, partition, start, end = match.groups()
    return TopicFile(topic, int(partition), int(start), int(end))


def last_offsets(names: Iterable[str]) -> dict[TopicPartition, int]:
    """The last offset of each partition that is in a file."""
    ends: dict[TopicPartition, int] = {}
    for name in names:
        file = parse(name)
        if file is not None:
            ends[file.topic_partition] = max(file.end, ends.get(file.topic_partition, -1))
    return ends


def overlap(files: Iterable[TopicFile]) -> tuple[TopicFile, TopicFile] | None:
    """Two files that claim an offset both, or None."""
    previous: TopicFile | None = None
    for file in sorted(files):
        if previous is not None and previous.topic_partition == file.topic_partition and file.start <= previous.end:
            return previous, file
        previous = file
    return None


def refuse_overlap(root: str, names: Iterable[str]) -> None:
    """Two queries wrote the same topic to one directory: what is in there twice cannot be told by the names."""
    found = overlap(file for file in map(parse, names) if file is not None)
    if found is not None:
        first, second = found
        raise UserError(
            f"The files in {root} overlap",
            f"{first.name} and {second.name} both hold offset {second.start}; two queries wrote to one directory",
            "Keep one of the two, and give each query a directory of its own",
        )


def not_yet_in_files(done: Mapping[TopicPartition, int]) -> str | None:
    """The SQL condition for rows that no file holds; None: for all rows."""
    by_topic: dict[str, list[str]] = {}
    for each in sorted(done):
        by_topic.setdefault(each.topic, []).append(f"WHEN partition = {each.partition} THEN offset > {done[each]}L")
    if not by_topic:
        return None
    topics = " ".join(
        f"WHEN topic = '{topic}' THEN CASE {' '.join(cases)} ELSE true END" for topic, cases in by_topic.items()
    )
    return f"CASE {topics} ELSE true END"


def starting_offsets_json(done: Mapping[TopicPartition, int], partitions: Mapping[str, int] | None = None) -> str:
    """`partitions`: how many a topic has; those without a file begin at their earliest offset."""
    tree = {
        topic: {str(each): EARLIEST for each in range(count)} for topic, count in sorted((partitions or {}).items())
    }
    for each in sorted(done):
        tree.setdefault(each.topic, {})[str(each.partition)] = done[each] + 1
    return json.dumps(tree)
