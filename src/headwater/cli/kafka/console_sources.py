"""Where the console consumer gets its records from: chosen partitions, or what a group gives it as one of its members.

A member commits what was printed: its consumer does, with the polls and when it is closed. Records that were taken and
could not be printed are handed back first, so another member, or the next run, prints them.
"""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headwater.base.ids import TopicPartition
    from headwater.client import Consumer
    from headwater.client.consumer.record import ConsumerRecord
    from headwater.client.record_reader import RecordReader
    from headwater.client.types import FetchedRecord


class Source(Protocol):
    def poll(self, most: int | None) -> "list[FetchedRecord]":
        """Records, up to `most` of them; none if none came for a while."""

    def is_reading(self) -> bool:
        """False while nobody has said yet what is to be read."""

    def give_back(self, records: "Sequence[FetchedRecord]") -> None:
        """These were not printed."""

    def close(self) -> None: ...


class ChosenPartitions:
    """Reads partitions that were named, outside of any group."""

    def __init__(self, reader: "RecordReader") -> None:
        self._reader = reader

    def poll(self, most: int | None) -> "list[FetchedRecord]":
        return self._reader.poll()[:most]

    def is_reading(self) -> bool:
        return True

    def give_back(self, records: "Sequence[FetchedRecord]") -> None: ...

    def close(self) -> None: ...


class GroupMember:
    """Reads what its group assigns to it."""

    def __init__(self, consumer: "Consumer", wanted: "list[str] | re.Pattern[str]", wait_s: float) -> None:
        self._consumer = consumer
        self._wait_s = wait_s
        self._assigned = False
        consumer.subscribe(wanted, on_assigned=self._on_assigned)

    def _on_assigned(self, _: "Sequence[TopicPartition]") -> None:
        self._assigned = True

    def poll(self, most: int | None) -> "list[FetchedRecord]":
        records = self._consumer.poll(self._wait_s, max_records=most)
        return [as_fetched(record) for record in records]

    def is_reading(self) -> bool:
        return self._assigned

    def give_back(self, records: "Sequence[FetchedRecord]") -> None:
        from headwater.base.ids import TopicPartition

        first: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
        for partition, offset in first.items():
            if partition in self._consumer.assignment():
                self._consumer.seek(partition, offset)

    def close(self) -> None:
        self._consumer.close()


def member_settings(
    bootstrap: str, group: str, properties: Mapping[str, str], *, from_beginning: bool, isolation: str | None
) -> dict[str, str]:
    """What the consumer of a group is made with; keys and values are read by the formatter. Settings that no consumer
    of ours has are left out with a warning, as Kafka's tool does: files of settings often have some for other
    programs.
    """
    from headwater.client.consumer.consumer_settings import CONSUMER, OLD_NAMES

    settings = {"client.id": "console-consumer"}
    for name, value in properties.items():
        if name in ("key.deserializer", "value.deserializer"):
            continue
        if name in CONSUMER or name in OLD_NAMES:
            settings[name] = value
        else:
            sys.stderr.write(f"Warning: there is no setting {name!r} of consumers. It has no effect.\n")
    if from_beginning:
        settings["auto.offset.reset"] = "earliest"
    if isolation is not None:
        settings["isolation.level"] = isolation
    return settings | {"bootstrap.servers": bootstrap, "group.id": group}


def as_fetched(record: "ConsumerRecord") -> "FetchedRecord":
    """As the formatters take it; of its producer a consumer tells nothing."""
    from headwater.client.types import FetchedRecord, Header

    return FetchedRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.timestamp_type == 1,
        record.key,
        record.value,
        tuple(Header(name, value) for name, value in record.headers),
        record.leader_epoch,
        producer_id=-1,
        producer_epoch=-1,
        attributes=0,
    )
