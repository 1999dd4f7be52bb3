"""Which records of a fetched stretch of log a reader gets to see, and where it goes on. Pure.

A stretch begins with the batch that holds the offset asked for, so records before it come along and are dropped. Control
batches are never shown. Read committed, the batches of aborted transactions are dropped too: the response lists them by
producer and first offset, in offset order, and each ends at its producer's abort marker.
"""

from typing import NamedTuple

from headwater.base.ids import TopicPartition
from headwater.base.ports import Buffer
from headwater.client.types import FetchedRecord, Header
from headwater.records.batch import BatchHeader
from headwater.records.control import ABORT, control_type
from headwater.records.reader import Record, read_batches, read_records


class Visible(NamedTuple):
    records: list[FetchedRecord]
    next_offset: int


def visible_records(
    partition: TopicPartition,
    data: Buffer,
    position: int,
    aborted: list[tuple[int, int]] | None,
    limit_bytes: int,
    stop: int | None = None,
) -> Visible:
    """`aborted`: (producer id, first offset), None when everything is wanted. Nothing from `stop` on is given."""
    records: list[FetchedRecord] = []
    waiting = list(aborted or ())
    aborting: set[int] = set()
    view = memoryview(data)
    for at, header in read_batches(view, partial_tail=True):
        if stop is not None and header.base_offset >= stop:
            break
        while waiting and waiting[0][1] <= header.last_offset:
            aborting.add(waiting.pop(0)[0])
        if header.last_offset < position:
            continue
        batch = view[at : at + header.size_bytes]
        if header.is_control:
            if any(control_type(record) == ABORT for record in read_records(batch, limit_bytes)):
                aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            records += [
                _fetched(partition, header, record)
                for record in read_records(batch, limit_bytes)
                if record.offset >= position and (stop is None or record.offset < stop)
            ]
        position = header.last_offset + 1
    return Visible(records, position if stop is None else min(position, max(stop, 0)))


def _fetched(partition: TopicPartition, header: BatchHeader, record: Record) -> FetchedRecord:
    return FetchedRecord(
        topic=partition.topic,
        partition=partition.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        log_append_time=header.is_log_append_time,
        key=record.key,
        value=record.value,
        headers=tuple([Header(key, value) for key, value in record.headers]) if record.headers else (),
        leader_epoch=header.partition_leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        attributes=header.attributes,
    )
