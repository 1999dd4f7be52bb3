"""The records of a fetched stretch that a reader gets to see, in the client's own type (rules:
`records/visible.py`).
"""

from operator import itemgetter
from typing import Any, Final

from headwater.base.ids import TopicPartition
from headwater.base.ports import Buffer
from headwater.client.types import FetchedRecord, Header
from headwater.records.batch import BatchHeader
from headwater.records.columns import layout_of
from headwater.records.visible import Visible, VisibleBatches
from headwater.records.visible import visible_records as _visible_records
from headwater.wire.messages.fetch import PartitionData

FETCHED_RECORD: Final = layout_of(FetchedRecord, Header)


def aborted_in(data: PartitionData) -> list[tuple[int, int]]:
    """(producer id, first offset) in offset order: brokers may list them by where their markers are."""
    listed = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
    return sorted(listed, key=itemgetter(1))


def visible_records(
    partition: TopicPartition,
    data: Buffer,
    position: int,
    aborted: list[tuple[int, int]] | None,
    limit_bytes: int,
    stop: int | None = None,
) -> Visible:
    """`aborted`: (producer id, first offset), None when everything is wanted. Nothing from `stop` on is given."""

    def template_of(header: BatchHeader) -> tuple[Any, ...]:
        return FetchedRecord(
            topic=partition.topic,
            partition=partition.partition,
            offset=0,
            timestamp_ms=0,
            log_append_time=header.is_log_append_time,
            key=None,
            value=None,
            headers=(),
            leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            attributes=header.attributes,
        )

    batches = VisibleBatches(data, position, aborted, limit_bytes, stop)
    return _visible_records(batches, FETCHED_RECORD, template_of)
