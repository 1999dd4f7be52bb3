"""The records of one growing batch, for a producer."""

from collections.abc import Sequence

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import Buffer
from headwater.records.batch import HEADER_BYTES, NO_TIMESTAMP
from headwater.records.columns import ANY_PARTITION, DATA_BYTES_MAX, Section
from headwater.records.varint import put_content, put_varint

_INT64_MIN = -(1 << 63)
_INT64_MAX = (1 << 63) - 1


class BatchAppender:
    """Owned by whoever made it; after `section` it is empty and may be used again."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._clear()

    def _clear(self) -> None:
        self._batch = bytearray(HEADER_BYTES)
        self.count = 0
        self.base_timestamp = NO_TIMESTAMP
        self.max_timestamp = NO_TIMESTAMP

    @property
    def size_bytes(self) -> int:
        return len(self._batch)

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str, Buffer | None]] = (),
        /,
    ) -> int:
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise OverflowError("a timestamp that does not fit into 64 bits")
        delta = timestamp - self.base_timestamp if self.count else 0
        if not _INT64_MIN <= delta <= _INT64_MAX:
            raise ValueError(f"timestamp {timestamp} is too far from {self.base_timestamp}")
        body = bytearray(1)  # attributes: unused so far
        put_varint(body, delta)
        put_varint(body, self.count)
        put_content(body, key, value, headers)
        prefix = bytearray()
        put_varint(prefix, len(body))
        size_bytes = len(self._batch) + len(prefix) + len(body)
        if size_bytes > self._limit_bytes and self.count:
            return 0
        if size_bytes > DATA_BYTES_MAX:
            raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"a record of {len(body)} bytes")
        self._batch += prefix
        self._batch += body
        if self.count == 0:
            self.base_timestamp = self.max_timestamp = timestamp
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self.count += 1
        return size_bytes

    def section(self, partition: int = ANY_PARTITION, /) -> Section:
        section = Section(partition, self.count, self.base_timestamp, self.max_timestamp, self._batch)
        self._clear()
        return section
