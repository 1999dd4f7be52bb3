"""Where reading begins and ends, as the options say it: earliest, latest, offsets or times, per partition or for all.

Pure. Kafka's numbers stand for the words in JSON: -2 is earliest, -1 is latest. `resolve` turns a position into one
offset per partition, from what the leaders say about their logs.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.spark.client_options import bad_value

EARLIEST: Final = -2
LATEST: Final = -1
_NUMBER_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Everywhere:
    """`earliest` or `latest` in every partition."""

    offset: int


@dataclass(frozen=True, slots=True)
class Offsets:
    by_partition: Mapping[TopicPartition, int]  # EARLIEST and LATEST stand for themselves


@dataclass(frozen=True, slots=True)
class Times:
    """The first record at or after a time. `everywhere_ms` holds for partitions that have no time of their own."""

    by_partition: Mapping[TopicPartition, int]
    everywhere_ms: int | None = None

    def of(self, partition: TopicPartition) -> int | None:
        return self.by_partition.get(partition, self.everywhere_ms)


Position = Everywhere | Offsets | Times


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What a leader says of its partition. `at_time`: the answer for the time asked; -1: no record is so young.

    `anew`: its topic is not the one that was there before, although it has the same name.
    """

    earliest: int
    latest: int
    at_time: int = -1
    anew: bool = False


def resolve(
    position: Position, facts: Mapping[TopicPartition, LogFacts], option: str, *, nothing_so_young_is_latest: bool
) -> dict[TopicPartition, int]:
    """One offset per partition of `facts`. Offsets and times must name exactly these partitions."""
    for_each = isinstance(position, Offsets) or (isinstance(position, Times) and position.everywhere_ms is None)
    if for_each and not isinstance(position, Everywhere):
        _same_partitions(set(position.by_partition), set(facts), option)
    return {each: _offset(position, each, facts[each], option, nothing_so_young_is_latest) for each in facts}


def _offset(position: Position, partition: TopicPartition, facts: LogFacts, option: str, or_latest: bool) -> int:
    if isinstance(position, Times):
        if facts.at_time >= 0:
            return facts.at_time
        if or_latest:
            return facts.latest
        raise UserError(
            f"No record of {partition} is as young as the option {option} asks",
            f"{position.of(partition)} ms is later than its last record",
            "Choose an earlier time, or set startingOffsetsByTimestampStrategy to latest",
        )
    asked = position.offset if isinstance(position, Everywhere) else position.by_partition[partition]
    return facts.earliest if asked == EARLIEST else facts.latest if asked == LATEST else asked


def _same_partitions(named: set[TopicPartition], there: set[TopicPartition], option: str) -> None:
    if named == there:
        return
    wrong = [f"{each} is missing" for each in sorted(there - named)] + [
        f"{each} is not read" for each in sorted(named - there)
    ]
    raise UserError(
        f"The option {option} must name all partitions that are read, and no others",
        "; ".join(wrong[:5]) + (" ..." if len(wrong) > 5 else ""),
        "In offsets, -2 stands for earliest and -1 for latest",
    )


def parse_offsets(option: str, text: str) -> Position:
    """`earliest`, `latest`, or {"topic": {"0": 23, "1": -2}}."""
    word = text.strip().lower()
    if word == "earliest":
        return Everywhere(EARLIEST)
    if word == "latest":
        return Everywhere(LATEST)
    return Offsets(parse_by_partition(option, text, smallest=EARLIEST, example='{"topic": {"0": 23, "1": -2}}'))


def parse_times(option: str, text: str) -> Times:
    """{"topic": {"0": 1700000000000}}, in ms."""
    return Times(parse_by_partition(option, text, smallest=0, example='{"topic": {"0": 1700000000000}}'))


def parse_by_partition(option: str, text: str, *, smallest: int, example: str) -> dict[TopicPartition, int]:
    try:
        tree: Any = json.loads(text)
    except ValueError:
        raise bad_value(option, text, f"it is neither a word that it knows nor JSON such as {example}") from None
    if not isinstance(tree, dict) or not tree:
        raise bad_value(option, text, f"it is not an object such as {example}")
    found: dict[TopicPartition, int] = {}
    for topic, numbers in tree.items():
        if not isinstance(numbers, dict):
            raise bad_value(option, text, f"topic {topic!r} has no object of partitions, as in {example}")
        for partition, number in numbers.items():
            if not (partition.isascii() and partition.isdigit()):
                raise bad_value(option, text, f"{partition!r} of topic {topic!r} is not a partition's number")
            if type(number) is not int or not smallest <= number <= _NUMBER_MAX:
                raise bad_value(option, text, f"{number!r} at {topic}-{partition} is not a whole number >= {smallest}")
            found[TopicPartition(topic, int(partition))] = number
    return found
