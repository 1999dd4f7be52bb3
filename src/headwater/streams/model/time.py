"""Event time: which timestamp a record has.

An extractor takes the decoded record, what it was read from, and the partition time (the largest timestamp of the
partition so far, -1 if unknown), and returns milliseconds. A negative one leaves the record out. The stock ones are
Kafka Streams'.
"""

from collections.abc import Callable
from operator import index
from typing import Any

from headwater.base.errors import UserError
from headwater.streams.model.record import InputRecord, Record

TimestampExtractor = Callable[[Record, InputRecord, int], int]


def fail_on_invalid_timestamp(record: Record, raw: InputRecord, partition_time: int) -> int:  # noqa: ARG001
    """The record's own timestamp; a negative one fails. The default."""
    if record.timestamp < 0:
        raise UserError(
            f"The record at {raw.topic}-{raw.partition} offset {raw.offset} has no valid timestamp ({record.timestamp})",
            "it may have been written by a producer from before Kafka 0.10",
            "take another extractor: log_and_skip_on_invalid_timestamp, use_partition_time_on_invalid_timestamp, or your own",
        )
    return record.timestamp


def log_and_skip_on_invalid_timestamp(record: Record, raw: InputRecord, partition_time: int) -> int:  # noqa: ARG001
    """The record's own timestamp; a record with a negative one is left out and counted."""
    return record.timestamp


def use_partition_time_on_invalid_timestamp(record: Record, raw: InputRecord, partition_time: int) -> int:
    """The record's own timestamp, or else the largest of its partition so far."""
    if record.timestamp >= 0:
        return record.timestamp
    if partition_time < 0:
        raise UserError(
            f"The record at {raw.topic}-{raw.partition} offset {raw.offset} has no valid timestamp ({record.timestamp})",
            "and nothing before it in its partition had one",
        )
    return partition_time


def wallclock_timestamp(record: Record, raw: InputRecord, partition_time: int) -> int:  # noqa: ARG001
    """Processing time: a task puts its own clock in the place of this function."""
    raise AssertionError("a task replaces it")


processing_time = wallclock_timestamp  # as applications call it


def whole(number: Any) -> int | None:
    """Of milliseconds that somebody gives: whole ones of any type (1e3, numpy's); None for anything else."""
    if isinstance(number, float):
        return int(number) if number.is_integer() else None
    try:
        return None if isinstance(number, bool) else index(number)
    except TypeError:
        return None
