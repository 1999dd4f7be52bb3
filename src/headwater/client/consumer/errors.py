"""What `poll` raises, beside errors of the brokers. All but `WakeupError` are `KafkaError`s with Kafka's code."""

from collections.abc import Iterable

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition


class WakeupError(Exception):
    """Somebody called `wakeup`: the poll under way, or the next one, ends with this. The consumer can be used
    further.
    """


class RecordDeserializationError(KafkaError):
    """A record, or a whole batch, that cannot be read. Everything before it was given.

    `consumer.seek(error.topic_partition, error.next_offset)` goes past it. `key`, `value` and `headers` are the bytes
    of the record, if it was a deserializer that failed; the cause of that is `__cause__`.
    """

    def __init__(
        self,
        partition: TopicPartition,
        offset: int,
        next_offset: int,
        reason: str,
        *,
        code: ErrorCode = ErrorCode.CORRUPT_MESSAGE,
        origin: str = "batch",
        key: bytes | None = None,
        value: bytes | None = None,
        headers: tuple[tuple[str, bytes | None], ...] = (),
        timestamp_ms: int = -1,
    ) -> None:
        super().__init__(
            code,
            f"{partition} offset {offset}: {reason}. "
            f"To go on behind it: consumer.seek(TopicPartition({partition.topic!r}, {partition.partition}), {next_offset})",
        )
        self.topic = partition.topic
        self.partition = partition.partition
        self.offset = offset
        self.next_offset = next_offset
        self.reason = reason
        self.origin = origin  # key, value or batch
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp_ms = timestamp_ms

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class NoOffsetForPartition(KafkaError):
    """`auto.offset.reset` is none, and the group has no offset of these partitions."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = list(partitions)
        names = ", ".join(str(each) for each in self.partitions)
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE, f"no offset is known of {names}, and auto.offset.reset is none: seek first"
        )


class OffsetOutOfRange(KafkaError):
    """`auto.offset.reset` is none, and the log does not hold the position."""

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition} holds no offset {offset} any more, or not yet, and auto.offset.reset is none: seek first",
        )
        self.topic_partition = partition
        self.offset = offset


class LogTruncationError(KafkaError):
    """The log was cut below the position: records that were read are gone, others may stand at their offsets now.

    `divergent_offset` is where the logs part; None if the leader cannot tell.
    """

    def __init__(self, partition: TopicPartition, offset: int, divergent_offset: int | None) -> None:
        where = "somewhere before" if divergent_offset is None else f"from offset {divergent_offset} on"
        super().__init__(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{partition} was truncated {where}; the position was {offset}, and auto.offset.reset is none: seek first",
        )
        self.topic_partition = partition
        self.offset = offset
        self.divergent_offset = divergent_offset


class CommitFailed(KafkaError):
    """Offsets were not committed. `superseded`: it could have been tried again, but a newer commit was on its way."""

    def __init__(self, code: ErrorCode, message: str | None, *, superseded: bool = False) -> None:
        super().__init__(code, message)
        self.superseded = superseded
