"""The body of a call that sets offsets, as KIP-875 has it: partitions and offsets, checked before anybody is asked.
Pure.

What is refused, and in which words, is what Kafka Connect's worker answers; numbers are its: whole, of 32 and 64 bits,
as JSON numbers or texts.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from headwater.base.ids import TopicPartition
from headwater.connect.errors import ConnectError
from headwater.connect.runtime.refusals import has_half_character

SourcePair = tuple[Mapping[str, Any], Mapping[str, Any] | None]
TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,19}")


class BadOffsets(ConnectError):
    """400: offsets that are not of the right form."""


def pairs_of(body: Any) -> list[SourcePair]:
    """An offset that is missing is null, as it is there: its partition is forgotten."""
    offsets = body.get("offsets") if isinstance(body, dict) else None
    if not isinstance(offsets, list) or not offsets:
        raise BadOffsets("Partitions / offsets need to be provided for an alter offsets request")
    _refuse_unknown(body, "offsets")
    if has_half_character(offsets):
        raise BadOffsets("The offsets have half a character in them, which no text in UTF-8 can have")
    pairs: list[SourcePair] = []
    for each in offsets:
        if not isinstance(each, dict):
            raise BadOffsets("Each of the offsets is an object with a partition and an offset")
        _refuse_unknown(each, "partition", "offset")
        partition, offset = each.get("partition"), each.get("offset")
        if not isinstance(partition, dict):
            raise BadOffsets("The partition for a connector offset cannot be null or missing")
        if not (offset is None or isinstance(offset, dict)):
            raise BadOffsets("The offset for a connector partition is an object, or null")
        pairs.append((partition, offset))
    return pairs


def sink_offsets(pairs: list[SourcePair]) -> dict[TopicPartition, int | None]:
    return {_sink_partition(partition): _sink_offset(offset) for partition, offset in pairs}


def _refuse_unknown(document: Mapping[str, Any], *known: str) -> None:
    for name in document:
        if name not in known:
            raise BadOffsets(f"Unrecognized field {name!r}: there are {', '.join(known)}")


def _sink_partition(partition: Mapping[str, Any]) -> TopicPartition:
    if TOPIC not in partition or PARTITION not in partition:
        raise BadOffsets(f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'")
    topic, number = partition[TOPIC], partition[PARTITION]
    if topic is None:
        raise BadOffsets("Kafka topic names must be valid strings and may not be null")
    if number is None:
        raise BadOffsets("Kafka partitions must be valid numbers and may not be null")
    found = _whole(number, 32)
    if found is None:
        raise BadOffsets(
            f"Failed to parse the following Kafka partition value in the provided offsets: '{_shown(number)}'. "
            "Partition values for sink connectors need to be integers."
        )
    return TopicPartition(str(topic), found)


def _sink_offset(offset: Mapping[str, Any] | None) -> int | None:
    if offset is None:
        return None
    if OFFSET not in offset:
        raise BadOffsets(f"The offset for a sink connector should either be null or contain the key '{OFFSET}'")
    given = offset[OFFSET]
    found = _whole(given, 64)
    if found is None:
        raise BadOffsets(
            f"Failed to parse the following Kafka offset value in the provided offsets: '{_shown(given)}'. "
            "Offset values for sink connectors need to be integers."
        )
    if found < 0:  # before a connector changes its target
        raise BadOffsets(f"The Kafka offset {found} is negative")
    return found


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _whole(value: Any, bits: int) -> int | None:
    """None: no whole number of so many bits."""
    if isinstance(value, bool) or not isinstance(value, int | str) or not _WHOLE.fullmatch(str(value)):
        return None
    number = int(value)
    return number if -(1 << bits - 1) <= number < 1 << bits - 1 else None
