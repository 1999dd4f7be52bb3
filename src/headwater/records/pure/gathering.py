"""Gathers the records of many batches into columns."""

from array import array

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import Buffer
from headwater.records.batch import BatchHeader
from headwater.records.columns import DATA_BYTES_MAX, Columns, HeaderColumns
from headwater.records.pure.reading import check_header, read_records

_INT64_MIN = -(1 << 63)
_INT64_MAX = (1 << 63) - 1


class _Binary:
    """One binary column that grows."""

    def __init__(self) -> None:
        self.offsets = array("i", [0])
        self.data = bytearray()
        self.valid: list[bool] = []

    def append(self, cell: bytes | None) -> None:
        self.data += cell or b""
        self.valid.append(cell is not None)
        self.offsets.append(len(self.data))

    def columns(self) -> tuple[int, Buffer | None, Buffer, Buffer]:
        """Null count, validity, offsets, data."""
        null_count = self.valid.count(False)
        return null_count, _bitmap(self.valid) if null_count else None, self.offsets.tobytes(), bytes(self.data)


class ColumnBuilder:
    """Owned by whoever made it; after `finish` it is empty and may be used again."""

    def __init__(self, headers: bool = True) -> None:
        self._wants_headers = headers
        self._clear()

    def _clear(self) -> None:
        self._keys, self._values, self._topics = _Binary(), _Binary(), _Binary()
        self._partitions, self._offsets = array("i"), array("q")
        self._timestamps, self._timestamp_types = array("q"), array("i")
        self._header_ends = array("i", [0])
        self._header_keys, self._header_values = _Binary(), _Binary()
        self._taken_bytes = 0

    @property
    def row_count(self) -> int:
        return len(self._offsets)

    @property
    def data_bytes(self) -> int:
        return len(self._keys.data) + len(self._values.data)

    def append_batch(
        self,
        payload: Buffer,
        header: BatchHeader,
        topic: bytes,
        partition: int,
        from_offset: int,
        stop_offset: int,
        /,
    ) -> int:
        check_header(payload, header)
        topic_bytes = len(topic) * (self.row_count + header.record_count)
        if self._taken_bytes + len(payload) > DATA_BYTES_MAX or topic_bytes > DATA_BYTES_MAX:
            if self.row_count == 0:
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {len(payload)} bytes does not fit into one column"
                )
            return -1
        rows_before = self.row_count
        log_append_time = int(header.is_log_append_time)
        for offset, timestamp, key, value, headers in read_records(payload, header):
            if not from_offset <= offset < stop_offset:
                continue
            self._keys.append(key)
            self._values.append(value)
            self._topics.append(topic)
            self._partitions.append(partition)
            self._offsets.append(offset)
            self._timestamps.append(min(max(timestamp * 1000, _INT64_MIN), _INT64_MAX))
            self._timestamp_types.append(log_append_time)
            for header_key, header_value in headers if self._wants_headers else ():
                self._header_keys.append(header_key.encode())
                self._header_values.append(header_value)
            self._header_ends.append(len(self._header_keys.valid))
        added = self.row_count - rows_before
        self._taken_bytes += len(payload) if added else 0
        return added

    def finish(self) -> Columns:
        _, _, topic_offsets, topic_data = self._topics.columns()
        columns = Columns(
            self.row_count,
            *self._keys.columns(),
            *self._values.columns(),
            topic_offsets,
            topic_data,
            self._partitions.tobytes(),
            self._offsets.tobytes(),
            self._timestamps.tobytes(),
            self._timestamp_types.tobytes(),
            self._header_columns(),
        )
        self._clear()
        return columns

    def _header_columns(self) -> HeaderColumns | None:
        if not self._header_keys.valid:
            return None
        has_some = [begin < end for begin, end in zip(self._header_ends, self._header_ends[1:], strict=False)]
        _, _, key_offsets, key_data = self._header_keys.columns()
        return HeaderColumns(
            has_some.count(False),
            _bitmap(has_some),
            self._header_ends.tobytes(),
            len(self._header_keys.valid),
            key_offsets,
            key_data,
            *self._header_values.columns(),
        )


def _bitmap(valid: list[bool]) -> bytes:
    bits = sum(1 << at for at, each in enumerate(valid) if each)
    return bits.to_bytes((len(valid) + 7) // 8, "little")
