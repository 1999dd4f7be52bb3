"""What `poll` gives: a record as a named tuple. Made in C by the codec, so it has no `__new__` of its own."""

from enum import IntEnum
from typing import Any, Final, NamedTuple

from headwater.base.ids import TopicPartition
from headwater.records.columns import Layout, layout_of


class TimestampType(IntEnum):
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class ConsumerRecord(NamedTuple):
    """Key and value are bytes, or what the deserializers made of them. Headers are pairs of name and bytes."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int  # a `TimestampType`, as a number
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int
    serialized_sizes: tuple[int, int] | None = None  # of key and value, where a deserializer changed them

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def serialized_key_size(self) -> int:
        """In bytes; -1 for null."""
        if self.serialized_sizes is not None:
            return self.serialized_sizes[0]
        return -1 if self.key is None else len(self.key)

    @property
    def serialized_value_size(self) -> int:
        if self.serialized_sizes is not None:
            return self.serialized_sizes[1]
        return -1 if self.value is None else len(self.value)

    def header(self, name: str) -> bytes | None:
        """The value of the last header of this name; None if there is none, or if it is null."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


LAYOUT: Final[Layout] = layout_of(ConsumerRecord)
TIMESTAMP_TYPES: Final = (0, 1)  # plain numbers: a record of these alone costs the garbage collector nothing
