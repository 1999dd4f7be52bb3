"""Dead letters read back: what went wrong, with which record, and that record again, as it was. Pure.

A dead letter is the record as it was read, with `__streams.errors.*` headers behind its own (KIP-1034), whoever wrote
it: these applications, or Kafka Streams. Failures without a record (a punctuator, a result that brokers refuse) have no
topic in their headers, and cannot be replayed. Nor can those of changes from a record cache: their headers say which
record made the change, but the letter has neither its key nor its value.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headwater.streams.model.record import Headers, OutputRecord

PREFIX: Final = "__streams.errors."


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """`partition` and `offset` are where the letter stands; `source_...` where the record was read from."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers  # the record's own
    exception: str
    message: str
    stacktrace: str
    source_topic: str | None
    source_partition: int
    source_offset: int

    @property
    def can_be_replayed(self) -> bool:
        has_record = self.key is not None or self.value is not None
        return has_record and self.source_topic is not None and self.source_partition >= 0


def read_letter(
    partition: int,
    offset: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]],
) -> DeadLetter:
    """A record of a dead letter topic. Of headers that come twice (a letter of a letter), the last one is its own."""
    own: list[tuple[str, bytes | None]] = []
    told: dict[str, bytes | None] = {}
    for name, data in headers:
        if name.startswith(PREFIX):
            if name in told:  # the letter was read from a dead letter topic: the first ones belong to its record
                own.append((name, told[name]))
            told[name] = data
        else:
            own.append((name, data))

    def text(name: str) -> str:
        return (told.get(PREFIX + name) or b"").decode("utf-8", "replace")

    return DeadLetter(
        partition,
        offset,
        timestamp,
        key,
        value,
        tuple(own),
        text("exception"),
        text("message"),
        text("stacktrace"),
        text("topic") or None,
        _number(text("partition")),
        _number(text("offset")),
    )


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return -1


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which letters: all that fit everything that was said."""

    places: frozenset[tuple[int, int | None]] = frozenset()  # partition, and offset or all of it
    topic: str | None = None  # where the record was read
    exception: str | None = None  # a part of its name
    message: str | None = None  # a part of it
    key: bytes | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def takes(self, letter: DeadLetter) -> bool:
        place = not self.places or bool({(letter.partition, letter.offset), (letter.partition, None)} & self.places)
        return (
            place
            and (self.topic is None or letter.source_topic == self.topic)
            and (self.exception is None or self.exception in letter.exception)
            and (self.message is None or self.message in letter.message)
            and (self.key is None or letter.key == self.key)
            and (self.since_ms is None or letter.timestamp >= self.since_ms)
            and (self.until_ms is None or letter.timestamp < self.until_ms)
        )


def replayed(letter: DeadLetter) -> OutputRecord:
    """The record again, for where it came from: the same partition, key, value, headers and timestamp."""
    assert letter.source_topic is not None
    return OutputRecord(
        letter.source_topic, letter.source_partition, letter.key, letter.value, letter.timestamp, letter.headers
    )
