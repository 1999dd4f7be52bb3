"""Sending many records of one topic at once, given as lists of bytes: they are encoded in C, a slice at a time, as a
table's are, and without pyarrow.
"""

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate
from time import time_ns
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import Buffer
from headwater.client.producer.queues import TopicQueues
from headwater.client.producer.slices import batch_bytes, slice_bytes
from headwater.client.settings.producer import ProducerSettings
from headwater.records.batch import HEADER_BYTES
from headwater.records.codec import encode_columns, partition_keys
from headwater.records.columns import BinaryColumn, Section

_RECORD_OVERHEAD_MAX: Final = HEADER_BYTES + 48  # what a record alone in its batch has beside key and value


def binary_column(cells: Sequence[bytes]) -> BinaryColumn:
    """Of bytes alone: a None among them is a TypeError."""
    return BinaryColumn(None, array("q", accumulate(map(len, cells), initial=0)).tobytes(), b"".join(cells), 8, 0)


class ListSource:
    """`timestamps_ms`: one for all, one for each, or None for now. Checked as a whole before anything is sent."""

    def __init__(
        self,
        settings: ProducerSettings,
        values: Sequence[bytes],
        keys: Sequence[bytes] | None,
        timestamps_ms: int | Sequence[int] | None,
        partition: int | None,
    ) -> None:
        self._values, self._keys, self._partition = values, keys, partition
        self._timestamps_ms = time_ns() // 1_000_000 if timestamps_ms is None else timestamps_ms
        self._batch_bytes = batch_bytes(settings)
        largest = max(map(len, values), default=0) + (0 if keys is None else max(map(len, keys), default=0))
        if largest + _RECORD_OVERHEAD_MAX > settings.request_bytes_max:
            self._check_each(settings.request_bytes_max)
        most_bytes = slice_bytes(settings)
        self._step = max(1, most_bytes // (largest + 1))
        self.slice_bytes = min(most_bytes, (largest + _RECORD_OVERHEAD_MAX) * len(values))  # of the largest slice

    def sections(self, topic: TopicQueues) -> Iterator[list[Section]]:
        partition = 0 if topic.count == 1 and self._partition is None else self._partition
        if partition is not None and not 0 <= partition < topic.count:
            raise topic.no_partition(partition)
        for first in range(0, len(self._values), self._step):
            yield self._encoded(slice(first, first + self._step), topic.count, partition)

    def _encoded(self, rows: slice, partition_count: int, partition: int | None) -> list[Section]:
        values = self._values[rows]
        count = len(values)
        keys = None if self._keys is None else binary_column(self._keys[rows])
        if partition is not None:
            places: Buffer | None = (array("i", [partition]) * count).tobytes()
        else:
            places = None if keys is None else partition_keys(count, keys, partition_count)
        given = self._timestamps_ms
        times = given if isinstance(given, int) else array("q", given[rows]).tobytes()
        return encode_columns(
            count, keys, binary_column(values), None, times, places, partition_count, self._batch_bytes
        )

    def _check_each(self, limit_bytes: int) -> None:
        keys: Sequence[bytes] = self._keys if self._keys is not None else [b""] * len(self._values)
        for key, value in zip(keys, self._values, strict=True):
            size = len(key) + len(value) + _RECORD_OVERHEAD_MAX
            if size > limit_bytes:
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE, f"a record takes {size} bytes, max.request.size is {limit_bytes}"
                )
