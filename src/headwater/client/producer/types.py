"""What goes into a producer and comes out of it, and how it fails."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError


class ProducerRecord(NamedTuple):
    """A record as one object, for `send(record)`. Key and value are as the serializers take them."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None  # None: by key, or by the partitioner
    headers: Iterable[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None  # None: now


class RecordMetadata(NamedTuple):
    """Where a record went. The offset is -1 if nobody knows: with acks=0, or for a retry that the broker knew long
    ago.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class DeliveryTimedOut(KafkaError):
    def __init__(self, topic: str, partition: int, seconds: float, last: KafkaError | None) -> None:
        why = f"; the last attempt failed with {last}" if last is not None else ""
        super().__init__(
            ErrorCode.REQUEST_TIMED_OUT,
            f"a batch for {topic}-{partition} could not be delivered within {seconds:g} s (delivery.timeout.ms){why}",
        )


class BufferFull(KafkaError):
    def __init__(self, buffer_bytes: int, seconds: float) -> None:
        super().__init__(
            ErrorCode.REQUEST_TIMED_OUT,
            f"no room for the record within {seconds:g} s (max.block.ms): all of the {buffer_bytes} bytes of "
            f"buffer.memory are waiting to be sent",
        )


class ProducerClosed(KafkaError):
    def __init__(self, message: str = "the producer was closed before the record was sent") -> None:
        super().__init__(ErrorCode.OPERATION_NOT_ATTEMPTED, message)


class ProducerFenced(KafkaError):
    """Another producer with the same transactional id has taken over. This one is of no more use."""

    def __init__(self, transactional_id: str | None, code: ErrorCode = ErrorCode.PRODUCER_FENCED) -> None:
        super().__init__(
            code,
            f"another producer with the transactional id {transactional_id!r} has taken over, or this one's transaction "
            f"went past transaction.timeout.ms; close this producer",
        )


class TransactionAborted(KafkaError):
    """A record that was dropped because its transaction was aborted before the record was sent."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.OPERATION_NOT_ATTEMPTED, "the transaction was aborted before the record was sent")


class TransactionFailed(KafkaError):
    """Something in the open transaction went wrong: it can only be aborted. `__cause__` says what."""

    def __init__(self, cause: KafkaError) -> None:
        super().__init__(cause.code, f"the transaction can only be aborted: {cause}")
        self.__cause__ = cause
