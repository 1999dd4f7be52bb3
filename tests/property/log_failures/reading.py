"""All that a reader gets from a log, and what that says of producers and their transactions."""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from headwater.log.log import Log
from headwater.records.batch import BatchHeader
from headwater.records.control import read_end_transaction_marker
from headwater.records.reader import read_batches, read_records

_LIMIT_BYTES: Final = 1 << 20


class Entry(NamedTuple):
    """A batch; each has one record."""

    offset: int
    epoch: int
    value: str


@dataclass(slots=True)
class Contents:
    entries: list[Entry] = field(default_factory=list)
    ongoing: dict[int, int] = field(default_factory=dict)  # by producer, where its transaction begins
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # (producer, first offset, last offset)
    sequences: dict[int, int] = field(default_factory=dict)  # by producer, the one after its last

    def add(self, header: BatchHeader, batch: bytes) -> None:
        (record,) = read_records(batch, _LIMIT_BYTES)  # checks the CRC
        producer_id = header.producer_id
        if header.is_control:
            marker = read_end_transaction_marker(record)
            committed = marker is not None and marker.committed
            value = marker_value(producer_id, committed)
            first = self.ongoing.pop(producer_id, None)
            if first is not None and not committed:
                self.aborted.append((producer_id, first, header.base_offset))
        else:
            value = (record.value or b"").decode()
            if header.is_transactional:
                self.ongoing.setdefault(producer_id, header.base_offset)
            elif header.base_sequence >= 0:
                self.sequences[producer_id] = header.base_sequence + 1
        self.entries.append(Entry(header.base_offset, header.partition_leader_epoch, value))


def marker_value(producer_id: int, committed: bool) -> str:
    return f"{'commit' if committed else 'abort'} of {producer_id}"


def read_contents(log: Log) -> Contents:
    """From the beginning to the end; every offset is there, and none twice."""
    contents = Contents()
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        piece = log.read(offset, _LIMIT_BYTES, log.log_end_offset, min_one_batch=True)
        assert piece is not None, f"nothing can be read at {offset}, the log ends at {log.log_end_offset}"
        data = piece.read()
        piece.release()
        for at, header in read_batches(data):
            assert header.base_offset == offset, f"at {offset} there is a batch of offset {header.base_offset}"
            contents.add(header, bytes(data[at : at + header.size_bytes]))
            offset = header.last_offset + 1
    return contents
