"""The options of the source, with the names and meanings of Spark's own Kafka source; wrong ones say what is wrong.

Pure. Option names come in any case, as Spark's do. `SourceOptions` travels to the executors, so it holds plain values.
Two defaults are not Spark's: `kafka.isolation.level` is read_committed, and a consumer group's offsets follow a stream
(`following_group`), unless `commitOffsets` is false.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from headwater.base.errors import UserError
from headwater.base.ids import TopicPartition
from headwater.spark import offset_options
from headwater.spark.client_options import KAFKA, bad_value, bootstrap_servers, check_consumer, client_settings
from headwater.spark.offset_options import Everywhere, Offsets, Position, Times
from headwater.spark.serdes.options import SerdeOptions, is_serde_option, serde_options

_SUBSCRIPTIONS: Final = ("assign", "subscribe", "subscribePattern")
_OURS: Final = frozenset(
    name.lower()
    for name in (
        *_SUBSCRIPTIONS,
        "startingOffsets",
        "startingTimestamp",
        "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy",
        "endingOffsets",
        "endingTimestamp",
        "endingOffsetsByTimestamp",
        "maxOffsetsPerTrigger",
        "minOffsetsPerTrigger",
        "maxTriggerDelay",
        "minPartitions",
        "maxRecordsPerPartition",
        "failOnDataLoss",
        "includeHeaders",
        "groupIdPrefix",
        "commitOffsets",
    )
)
# Tuning of the JVM connector that has no counterpart here, and what Spark itself puts among the options.
_WITHOUT_EFFECT: Final = frozenset(
    (
        "kafkaconsumer.polltimeoutms",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "path",
        "checkpointlocation",
        "queryname",
    )
)
_REFUSED: Final = {
    "kafka.auto.offset.reset": "Say where to begin with the option startingOffsets",
    "kafka.enable.auto.commit": "Offsets are committed by the source when a batch is done",
    "kafka.key.deserializer": "Keys come as bytes, or typed by the option key.format",
    "kafka.value.deserializer": "Values come as bytes, or typed by the option value.format",
    "kafka.interceptor.classes": "Transform the columns of the data frame instead",
}
_DURATION: Final = re.compile(r"(\d+)\s*(us|ms|s|min|m|h|d|)")
_GROUP_PREFIX: Final = "headwater-spark"
_GROUP_TEXT_MAX: Final = 80
_UNITS_US: Final = {
    "": 1000,
    "us": 1,
    "ms": 1000,
    "s": 10**6,
    "m": 6 * 10**7,
    "min": 6 * 10**7,
    "h": 36 * 10**8,
    "d": 864 * 10**8,
}


@dataclass(frozen=True, slots=True)
class Subscription:
    """What is read: partitions, topics by name, or topics by a regular expression that matches the whole name."""

    kind: Literal["assign", "subscribe", "subscribePattern"]
    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    bootstrap_servers: str
    subscription: Subscription
    starting: Position
    starting_option: str
    young_is_latest: bool  # a starting time later than all records means the end, not an error
    ending: Position = Everywhere(offset_options.LATEST)  # noqa: RUF009 (frozen)
    ending_option: str = "endingOffsets"
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = 900_000
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    fail_on_data_loss: bool = True
    include_headers: bool = False
    group_id: str | None = None  # None: no group follows the query
    read_committed: bool = True
    client: Mapping[str, str] = field(default_factory=dict)  # the other kafka.* settings, without their prefix
    serdes: SerdeOptions | None = None  # None: keys and values are bytes


def parse_source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    given = {name.lower(): value for name, value in options.items()}
    _refuse_unknown(given, streaming)
    starting_option, starting = _position(
        given, "starting", Everywhere(offset_options.LATEST if streaming else offset_options.EARLIEST)
    )
    ending_option, ending = _position(given, "ending", Everywhere(offset_options.LATEST))
    if not streaming:
        _refuse_number(
            starting_option, starting, offset_options.LATEST, "a batch that begins at the end would be empty"
        )
        _refuse_number(
            ending_option, ending, offset_options.EARLIEST, "a batch that ends at the beginning would be empty"
        )
    max_offsets = _count(given, "maxOffsetsPerTrigger")
    min_offsets = _count(given, "minOffsetsPerTrigger")
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise bad_value(
            "minOffsetsPerTrigger", str(min_offsets), f"maxOffsetsPerTrigger is {max_offsets}, which is less"
        )
    subscription = _subscription(given)
    isolation = _word(given, "kafka.isolation.level", "read_committed", ("read_committed", "read_uncommitted"))
    strategy = _word(given, "startingOffsetsByTimestampStrategy", "error", ("error", "latest"))
    client = client_settings(given)
    check_consumer(client)
    return SourceOptions(
        bootstrap_servers=bootstrap_servers(given),
        subscription=subscription,
        starting=starting,
        starting_option=starting_option,
        young_is_latest=strategy == "latest",
        ending=ending,
        ending_option=ending_option,
        max_offsets_per_trigger=max_offsets,
        min_offsets_per_trigger=min_offsets,
        max_trigger_delay_ms=_duration_ms(given, "maxTriggerDelay", "15m"),
        min_partitions=_count(given, "minPartitions"),
        max_records_per_partition=_count(given, "maxRecordsPerPartition"),
        fail_on_data_loss=_flag(given, "failOnDataLoss", default=True),
        include_headers=_flag(given, "includeHeaders", default=False),
        group_id=following_group(given, subscription) if streaming else None,
        read_committed=isolation == "read_committed",
        client=client,
        serdes=_serdes(given, subscription),
    )


def _serdes(given: Mapping[str, str], subscription: Subscription) -> SerdeOptions | None:
    made = serde_options(given, topics_by_name(subscription), sink=False)
    dead = made.dead_letter_topic if made is not None else ""
    if dead and subscription.pattern and re.fullmatch(subscription.pattern, dead):
        raise bad_value(
            "badRecords", given["badrecords"], "subscribePattern takes it in: its dead letters would come again"
        )
    return made


def topics_by_name(subscription: Subscription) -> tuple[str, ...]:
    return subscription.topics or tuple(dict.fromkeys(each.topic for each in subscription.partitions))


def source_serdes(options: Mapping[str, str]) -> SerdeOptions | None:
    """What the types of key and value depend on."""
    given = {name.lower(): value for name, value in options.items()}
    if not any(is_serde_option(name, sink=False) for name in given):
        return None
    return _serdes(given, _subscription(given))


def following_group(given: Mapping[str, str], subscription: Subscription) -> str | None:
    """`kafka.group.id`, or a name that the subscription gives: the same at each start, so that lag is found again.

    Two queries over the same topics would share it, and show the offsets of whichever was last: then name them apart.
    """
    if not _flag(given, "commitOffsets", default=True):
        return None
    if named := given.get("kafka.group.id", "").strip():
        return named
    parts = subscription.topics or [str(each) for each in subscription.partitions] or [subscription.pattern]
    whole = ",".join(parts)
    readable = re.sub(r"[^A-Za-z0-9._-]+", "_", whole)[:_GROUP_TEXT_MAX]
    if readable != whole:  # what was changed or cut off could be another subscription's name
        readable += "-" + hashlib.sha256(f"{subscription.kind} {whole}".encode()).hexdigest()[:8]
    return f"{given.get('groupidprefix', _GROUP_PREFIX).strip()}-{readable}"


def include_headers(options: Mapping[str, str]) -> bool:
    """Whether there is a column of headers."""
    return _flag({name.lower(): value for name, value in options.items()}, "includeHeaders", default=False)


def _refuse_unknown(given: Mapping[str, str], streaming: bool) -> None:
    for name in given:
        if name in _REFUSED:
            raise UserError(f"The option {name} cannot be set", "the source decides it", _REFUSED[name])
        if streaming and name.startswith("ending"):
            raise UserError(
                f"The option {name} is for batch reads",
                "a stream has no end",
                "Take it away, or use read instead of readStream, or the trigger availableNow",
            )
        known = name.startswith(KAFKA) or name in _OURS or name in _WITHOUT_EFFECT
        if not known and not is_serde_option(name, sink=False):
            raise UserError(
                f"The option {name!r} is not known",
                "a slip in its name would change what is read without a word",
                "The options are those of Spark's Kafka source; settings of the client begin with kafka.",
            )


def _subscription(given: Mapping[str, str]) -> Subscription:
    chosen = [name for name in _SUBSCRIPTIONS if name.lower() in given]
    if len(chosen) != 1:
        raise UserError(
            "It is not clear what to read",
            f"of the options assign, subscribe and subscribePattern {'none is' if not chosen else ' and '.join(chosen) + ' are'} given",
            "Give exactly one of them",
        )
    (kind,) = chosen
    text = given[kind.lower()].strip()
    if not text:
        raise bad_value(kind, text, "it is empty")
    if kind == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise bad_value(kind, text, "it names no topic")
        return Subscription("subscribe", topics=topics)
    if kind == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise bad_value(kind, text, f"it is no regular expression: {error}") from None
        return Subscription("subscribePattern", pattern=text)
    return Subscription("assign", partitions=_assigned(text))


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    """{"topic": [0, 1]}"""
    import json

    example = '{"topic": [0, 1]}'
    try:
        tree = json.loads(text)
    except ValueError:
        raise bad_value("assign", text, f"it is not JSON such as {example}") from None
    if not isinstance(tree, dict) or not tree:
        raise bad_value("assign", text, f"it is not an object such as {example}")
    found = set()
    for topic, numbers in tree.items():
        if not isinstance(numbers, list) or not numbers or any(type(each) is not int or each < 0 for each in numbers):
            raise bad_value("assign", text, f"topic {topic!r} has no list of partitions, as in {example}")
        found |= {TopicPartition(topic, each) for each in numbers}
    return tuple(sorted(found))


def _position(given: Mapping[str, str], end: str, default: Position) -> tuple[str, Position]:
    """The option that decides, and what it says. A time for all goes before times by partition, these before
    offsets.
    """
    option = f"{end}Timestamp"
    if option.lower() in given:
        text = given[option.lower()].strip()
        if not (text.isascii() and text.isdigit()):
            raise bad_value(option, text, "it is not a time in milliseconds since 1970")
        return option, Times({}, int(text))
    option = f"{end}OffsetsByTimestamp"
    if option.lower() in given:
        return option, offset_options.parse_times(option, given[option.lower()])
    option = f"{end}Offsets"
    if option.lower() in given:
        return option, offset_options.parse_offsets(option, given[option.lower()])
    return option, default


def _refuse_number(option: str, position: Position, number: int, why: str) -> None:
    word = "latest" if number == offset_options.LATEST else "earliest"
    if isinstance(position, Everywhere) and position.offset == number:
        raise bad_value(option, word, why)
    if isinstance(position, Offsets):
        for partition, offset in position.by_partition.items():
            if offset == number:
                raise bad_value(option, f"{number} at {partition}", f"it stands for {word}, and {why}")


def _count(given: Mapping[str, str], option: str) -> int | None:
    text = given.get(option.lower())
    if text is None:
        return None
    text = text.strip()
    if not (text.isascii() and text.isdigit()) or int(text) <= 0:
        raise bad_value(option, text, "it is not a whole number above 0")
    return int(text)


def _flag(given: Mapping[str, str], option: str, *, default: bool) -> bool:
    return _word(given, option, "true" if default else "false", ("true", "false")) == "true"


def _word(given: Mapping[str, str], option: str, default: str, words: tuple[str, ...]) -> str:
    text = given.get(option.lower(), default).strip().lower()
    if text not in words:
        raise bad_value(option, text, f"it is not one of: {', '.join(words)}")
    return text


def _duration_ms(given: Mapping[str, str], option: str, default: str) -> int:
    text = given.get(option.lower(), default).strip().lower()
    found = _DURATION.fullmatch(text)
    if found is None:
        raise bad_value(option, text, "it is not a duration such as 30s, 15m or 1h")
    return int(found[1]) * _UNITS_US[found[2]] // 1000
