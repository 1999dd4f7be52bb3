"""Earlier batches of a producer, found again in its log.

A snapshot has the last batch of each producer; Kafka's format has room for no more. But a client that lost its
connection sends everything again that was not answered, up to five batches, and those of them that were written must be
known: otherwise they are refused as out of order, and a client that believes so numbers them anew and writes them
twice.

A start reads no segment for it. It is looked up when a producer, of which a snapshot told, sends something that does
not follow on.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from headwater.log.offset_index import ENTRY, ENTRY_BYTES
from headwater.log.producer_state import BATCHES_KEPT, SEQUENCES, Producer
from headwater.log.scan import headers_from
from headwater.records.batch import BatchHeader

if TYPE_CHECKING:
    from headwater.log.log import Log
    from headwater.log.segment import Segment

_INDEX_ENTRIES: Final = 16  # some 64 KiB of small batches, or as many large ones


def recall_earlier_batches(log: "Log", producer: Producer) -> None:
    """Adds what came right before the batches that are known of the producer. Once. Raises OSError."""
    if not producer.batches:
        producer.has_forgotten = False
        return
    before = producer.batches[0][2]
    at = bisect_right(log.base_offsets, before) - 1
    found = [
        header
        for segment in log.segments[max(0, at - 1) : at + 1]
        for header in _headers_before(segment, before)
        if header.producer_id == producer.producer_id
        and header.producer_epoch == producer.epoch
        and header.base_sequence >= 0
        and not header.is_control
    ]
    producer.has_forgotten = False  # not before: what could not be read now may be read when the client tries again
    for header in reversed(found):
        last_sequence = (header.base_sequence + header.last_offset_delta) % SEQUENCES
        follows = (last_sequence + 1) % SEQUENCES == producer.batches[0][0]
        if not follows or len(producer.batches) == BATCHES_KEPT:
            return
        producer.batches.appendleft(
            (header.base_sequence, last_sequence, header.base_offset, header.last_offset, header.max_timestamp)
        )


def _headers_before(segment: "Segment", offset: int) -> Iterator[BatchHeader]:
    """Of the batches in a stretch of the segment that ends at `offset`."""
    if not segment.size_bytes:
        return
    entries, relative = segment.offset_index.entries, offset - segment.base_offset
    at = len(entries) - ENTRY_BYTES
    while at >= 0 and ENTRY.unpack_from(entries, at)[0] >= relative:
        at -= ENTRY_BYTES
    at -= (_INDEX_ENTRIES - 1) * ENTRY_BYTES
    start = int(ENTRY.unpack_from(entries, at)[1]) if at >= 0 else 0
    for _, header in headers_from(segment.open_file(), start, segment.size_bytes):
        if header.base_offset >= offset:
            return
        yield header
