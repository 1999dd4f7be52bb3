"""Walks over the batches of a segment file (format: `batch.py`), and over nothing but their headers where nothing is
checked.
"""

from struct import Struct
from typing import Final

from headwater.base.ports import Buffer
from headwater.records.batch import (
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    BatchHeader,
    crc_of,
    read_header,
)
from headwater.records.verdict import BAD_CRC, BAD_EPOCH, BAD_HEADER, GO_ON

_BATCHES_KEPT: Final = 5  # of a producer: log/producer_state.py
_PRODUCERS: Final = 1024
_DROPPED: Final = -1
_OFFSET_MAX: Final = (1 << 63) - 2
_RELATIVE_MAX: Final = (1 << 31) - 1
_OFFSET_ENTRY: Final = Struct(">ii")  # last offset, relative to the segment's; position
_TIME_ENTRY: Final = Struct(">qi")  # timestamp; relative offset


class _ProducerRun:
    """Batches of one producer in the present piece, of which the first and the last five tell everything."""

    __slots__ = ("producer_id", "recent", "transactional")

    def __init__(self, producer_id: int, transactional: bool) -> None:
        self.producer_id = producer_id
        self.transactional = transactional  # whether one of them is
        self.recent: list[int] = []  # places in the list of marks


class BatchScanner:
    def __init__(
        self, base_offset: int, check_from_offset: int, index_interval_bytes: int, least_epoch: int, /
    ) -> None:
        if base_offset < 0:
            raise ValueError("an offset below 0")
        self._base_offset = base_offset
        self._check_from_offset = check_from_offset
        self._index_interval_bytes = index_interval_bytes
        self.valid_bytes = 0
        self.next_offset = base_offset
        self.latest_epoch = least_epoch
        self.max_timestamp = -1
        self.max_timestamp_offset = base_offset
        self._bytes_since_index = 0
        self._last_time_entry = -1
        self._offset_entries = bytearray()
        self._time_entries = bytearray()
        self._marks: list[int] = []
        self._runs: dict[int, _ProducerRun] = {}

    def feed(self, data: Buffer, bytes_left: int, /) -> tuple[int, list[int]]:
        view = memoryview(data)
        if len(view) > bytes_left:
            raise ValueError("more bytes than are left")
        self._marks, self._runs = [], {}
        verdict = self._walk(view, bytes_left)
        return verdict, [at for at in self._marks if at != _DROPPED]

    def _walk(self, data: memoryview, bytes_left: int) -> int:
        at = 0
        while len(data) - at >= HEADER_BYTES:
            header = read_header(data, at)
            if not self._makes_sense(header, bytes_left - at):
                return BAD_HEADER
            checked = header.last_offset >= self._check_from_offset
            if checked and header.partition_leader_epoch < self.latest_epoch:
                return BAD_EPOCH
            if checked or header.is_control:
                if header.size_bytes > len(data) - at:
                    return GO_ON
                if crc_of(data[at : at + header.size_bytes]) != header.crc:
                    return BAD_CRC
            new_epoch = header.partition_leader_epoch > self.latest_epoch
            self.latest_epoch = max(self.latest_epoch, header.partition_leader_epoch)
            self._take(header)
            self._mark_what_matters(header, at, new_epoch)
            at += header.size_bytes
        return GO_ON

    def _makes_sense(self, header: BatchHeader, bytes_left: int) -> bool:
        return (
            header.magic == MAGIC
            and header.batch_length >= HEADER_BYTES - LENGTH_PREFIX_BYTES
            and header.base_offset >= self.next_offset
            and header.last_offset_delta >= 0
            and header.size_bytes <= bytes_left
            and header.last_offset <= _OFFSET_MAX
            and header.last_offset - self._base_offset <= _RELATIVE_MAX  # or no index could hold it
        )

    def _take(self, header: BatchHeader) -> None:
        position = self.valid_bytes
        self.next_offset = header.last_offset + 1
        self.valid_bytes += header.size_bytes
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = header.last_offset
        if self._bytes_since_index > self._index_interval_bytes:
            self._offset_entries += _OFFSET_ENTRY.pack(self._relative(header.last_offset), _fitting(position))
            self._add_time_entry()
            self._bytes_since_index = 0
        self._bytes_since_index += header.size_bytes

    def _relative(self, offset: int) -> int:
        return _fitting(offset - self._base_offset)

    def _add_time_entry(self) -> None:
        """Adds the largest timestamp so far, unless it stands there already."""
        if self.max_timestamp > self._last_time_entry:
            self._time_entries += _TIME_ENTRY.pack(self.max_timestamp, self._relative(self.max_timestamp_offset))
            self._last_time_entry = self.max_timestamp

    def _mark_what_matters(self, header: BatchHeader, at: int, new_epoch: bool) -> None:
        """Marks the batch if it begins an epoch or says something about a producer.

        Takes back the mark of one that it makes superfluous: five later ones are known, so no trace of it stays in the
        producer's state. That is so whatever their epochs are, if they have sequences, no marker stands between them,
        and it does not begin a transaction.
        """
        marks, producer_id = self._marks, header.producer_id
        if producer_id < 0:
            if new_epoch:
                marks.append(at)
            return
        run = self._runs.get(producer_id % _PRODUCERS)
        if run is not None and run.producer_id != producer_id:
            run = None
        marks.append(at)
        if header.is_control:
            if run is not None:
                del self._runs[producer_id % _PRODUCERS]
            return
        transactional = header.is_transactional
        if run is None or new_epoch or header.base_sequence < 0 or (transactional and not run.transactional):
            transactional = transactional or (run is not None and run.transactional)
            self._runs[producer_id % _PRODUCERS] = _ProducerRun(producer_id, transactional)
            return
        run.recent.append(len(marks) - 1)
        if len(run.recent) > _BATCHES_KEPT:
            marks[run.recent.pop(0)] = _DROPPED

    def finish(self) -> tuple[bytearray, bytearray]:
        self._add_time_entry()
        return bytearray(self._offset_entries), bytearray(self._time_entries)


def _fitting(number: int) -> int:
    if number > _RELATIVE_MAX:
        raise ValueError("an offset or a position that an index cannot hold")
    return number
