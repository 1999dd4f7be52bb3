"""Earlier batches of producers, found again in the tail of their log.

A snapshot has the last batch of each producer; Kafka's format has room for no more. But a client that lost its connection sends
everything again that was not answered, up to five batches, and those of them that were written must be known: otherwise they are
refused as out of order, and a client that believes so numbers them anew and writes them twice.

Only the tail is looked at: what was not answered before a stop stands there.
"""

from typing import TYPE_CHECKING, Final

from headwater.log.offset_index import ENTRY, ENTRY_BYTES
from headwater.log.producer_state import BATCHES_KEPT, SEQUENCES, Producer, ProducerStates
from headwater.log.scan import headers_from

if TYPE_CHECKING:
    from headwater.log.log import Log
    from headwater.log.segment import Segment

_SEGMENTS: Final = 2
_INDEX_ENTRIES: Final = 16  # some 64 KiB of small batches, or as many large ones

_Batch = tuple[int, int, int, int, int]


def remember_earlier_batches(log: "Log", states: ProducerStates, end_offset: int) -> None:
    """Adds to each producer what came right before the batches that are known of it. Raises OSError."""
    known = {
        producer.producer_id: producer
        for producer in states.producers.values()
        if 0 < len(producer.batches) < BATCHES_KEPT
    }
    if not known:
        return
    found: dict[int, list[_Batch]] = {}
    tail = [segment for segment in log.segments if segment.base_offset < end_offset and segment.size_bytes]
    for segment in tail[-_SEGMENTS:]:
        _collect(segment, known, found)
    for producer_id, batches in found.items():
        _prepend(known[producer_id], batches)


def _collect(segment: "Segment", known: dict[int, Producer], found: dict[int, list[_Batch]]) -> None:
    entries = segment.offset_index.entries
    at = len(entries) - _INDEX_ENTRIES * ENTRY_BYTES
    start = int(ENTRY.unpack_from(entries, at)[1]) if at >= 0 else 0
    for _, header in headers_from(segment.open_file(), start, segment.size_bytes):
        producer = known.get(header.producer_id)
        if (
            producer is not None
            and header.producer_epoch == producer.epoch
            and header.base_sequence >= 0
            and not header.is_control
            and header.last_offset < producer.batches[0][2]
        ):
            last_sequence = (header.base_sequence + header.last_offset_delta) % SEQUENCES
            found.setdefault(header.producer_id, []).append(
                (header.base_sequence, last_sequence, header.base_offset, header.last_offset, header.max_timestamp)
            )


def _prepend(producer: Producer, batches: list[_Batch]) -> None:
    """Those whose sequences lead up to the first that is known, without a gap."""
    for batch in reversed(batches):
        follows = (batch[1] + 1) % SEQUENCES == producer.batches[0][0]
        if not follows or len(producer.batches) == BATCHES_KEPT:
            return
        producer.batches.appendleft(batch)
