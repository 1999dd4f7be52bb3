"""`kafka-get-offsets`: the offsets of partitions, by time: `topic:partition:offset` a line."""

import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.cli.kafka.options import COMMAND_CONFIG, Option, Options, Stop, Usage, run, run_with, whole_number

if TYPE_CHECKING:
    from headwater.client.admin import Admin

ABOUT: Final = "An interactive shell for getting topic-partition offsets."
_TIMES: Final = (
    ("latest", -1),
    ("earliest", -2),
    ("max-timestamp", -3),
    ("earliest-local", -4),
    ("latest-tiered", -5),
    ("earliest-pending-upload", -6),
)
OPTIONS: Final = (
    Option("bootstrap-server", "REQUIRED. The server(s) to connect to.", "HOST1:PORT1,...,HOST3:PORT3"),
    COMMAND_CONFIG,
    Option("topic", "The topic to get the offsets for; a regular expression. Without one, all.", "topic"),
    Option("partitions", "Comma separated list of partition ids. Without one, all.", "partition ids"),
    Option("topic-partitions", "Comma separated patterns: topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3.", "patterns"),
    Option("time", "A timestamp, or latest (-1), earliest (-2), max-timestamp (-3) and the like.", "time"),
    Option("exclude-internal-topics", "Exclude internal topics."),
)
_RULE: Final = re.compile(r"(?P<topic>[^:,]*)(?::(?P<lower>\d*)(?:(?P<dash>-)(?P<upper>\d*))?)?")

Rule = Callable[[TopicPartition], bool]


def main() -> NoReturn:
    run(ABOUT, OPTIONS, act)


def script(arguments: Sequence[str]) -> int:
    return run_with(arguments, ABOUT, OPTIONS, act)


def act(options: Options) -> int:
    from headwater.cli.kafka.connecting import connected

    if not any(name in options for name in ("bootstrap-server", "broker-list", "zookeeper")):
        raise Usage(ABOUT)
    rule = _rule(options)
    timestamp = _timestamp(options.get("time", "latest") or "latest")
    with connected(options) as admin:
        _print(admin, _matching(admin, options, rule), timestamp)
    return 0


def _timestamp(text: str) -> int:
    for name, number in _TIMES:
        if text == name:
            return number
    timestamp = whole_number(text)
    if timestamp is None:
        known = " / ".join(f"{number} or {name}" for name, number in _TIMES)
        raise Stop(
            1,
            f"Error occurred: Malformed time argument {text}. Please use {known}, or a specified long format timestamp",
        )
    return timestamp


def _rule(options: Options) -> Rule:
    patterns, topic, partitions = (options.get(name) for name in ("topic-partitions", "topic", "partitions"))
    if patterns is not None:
        if topic is not None or partitions is not None:
            raise Stop(1, "Error occurred: --topic-partitions cannot be used with --topic or --partitions")
        rules = [_pattern_rule(text.strip()) for text in patterns.split(",")]
        return lambda partition: any(rule(partition) for rule in rules)
    name = _topics(topic) if topic is not None else None
    wanted = None if partitions is None else _numbers(partitions)
    return lambda partition: (
        (name is None or name.fullmatch(partition.topic) is not None)
        and (wanted is None or partition.partition in wanted)
    )


def _topics(text: str) -> re.Pattern[str]:
    from headwater.cli.kafka.topic_patterns import topic_pattern

    try:
        return topic_pattern(text)
    except Usage as wrong:
        raise Stop(1, f"Error occurred: {wrong}") from None


def _numbers(text: str) -> set[int]:
    try:
        return {int(number) for number in text.split(",")}
    except ValueError:
        raise Stop(
            1,
            "Error occurred: --partitions expects a comma separated list of numeric partition ids, "
            f"but received: {text}",
        ) from None


def _pattern_rule(text: str) -> Rule:
    """`topic:3`, `topic:2-5` (without 5), `topic:2-`, `topic:-5`, `topic`, `:3`."""
    matched = _RULE.fullmatch(text)
    if matched is None:
        raise Stop(1, f"Error occurred: Invalid rule specification: {text}")
    topic = _topics(matched["topic"]) if matched["topic"] else None
    first = int(matched["lower"]) if matched["lower"] else 0
    end: int | None = int(matched["upper"]) if matched["upper"] else None
    if not matched["dash"] and matched["lower"]:
        end = first + 1
    return lambda partition: (
        (topic is None or topic.fullmatch(partition.topic) is not None)
        and (first <= partition.partition and (end is None or partition.partition < end))
    )


def _matching(admin: "Admin", options: Options, rule: Rule) -> list[TopicPartition]:
    found = [
        partition
        for topic in admin.list_topics(internal="exclude-internal-topics" not in options)
        for each in topic.partitions
        if rule(partition := TopicPartition(topic.name, each.partition))
    ]
    if not found:
        raise Stop(1, "Error occurred: Could not match any topic-partitions with the specified filters")
    return sorted(found, key=lambda each: (each.topic, str(each.partition)))


def _print(admin: "Admin", partitions: list[TopicPartition], timestamp: int) -> None:
    from headwater.cli.kafka.exits import java_text

    for partition, answer in admin.list_offsets(dict.fromkeys(partitions, timestamp)).items():
        if isinstance(answer, KafkaError):
            sys.stderr.write(
                f"Skip getting offsets for topic-partition {partition} due to error: {java_text(answer)}\n"
            )
        elif answer.offset >= 0:
            sys.stdout.write(f"{partition.topic}:{partition.partition}:{answer.offset}\n")
