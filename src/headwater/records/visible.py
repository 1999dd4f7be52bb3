"""Which batches of a fetched stretch of log a reader gets to see, and where it goes on.

A stretch begins with the batch that holds the offset asked for, so records before it come along and are dropped.
Control batches are never shown. Read committed, the batches of aborted transactions are dropped too: the response lists
them by producer and first offset, in offset order, and each ends at its producer's abort marker.

A batch that cannot be read is a `CorruptBatch`, which says where it ends. What comes before it is given first. The
walker stays in front of it, so the same error comes again, until `skip` goes past it.

`VisibleBatches` belongs to whoever made it; the rest has no state.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ports import Buffer
from headwater.records.batch import HEADER_BYTES, MAGIC, MAGIC_AT, BatchHeader, read_header
from headwater.records.codec import build_records, read_records
from headwater.records.columns import NO_STOP, Layout
from headwater.records.control import ABORT, control_type
from headwater.records.reader import header_at, open_batch
from headwater.records.record import CorruptBatch

_BATCH_ERRORS = frozenset(
    {ErrorCode.CORRUPT_MESSAGE, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}
)

TemplateOf = Callable[[BatchHeader], tuple[Any, ...]]


class VisibleBatches:
    """Walks the batches of one fetched stretch of one partition, one at a time.

    `next_offset` is where a reader goes on that has taken all batches given so far. Records outside of
    [`from_offset`, `stop_offset`) are to be left out of what `next` gave: a batch may begin before and end after.
    """

    __slots__ = ("_aborting", "_at", "_data", "_limit_bytes", "_waiting", "from_offset", "next_offset", "stop_offset")

    def __init__(
        self,
        data: Buffer,
        position: int,
        aborted: Sequence[tuple[int, int]] | None,
        limit_bytes: int,
        stop: int | None = None,
    ) -> None:
        """`aborted`: (producer id, first offset), None when everything is wanted. Nothing from `stop` on is given.

        `limit_bytes` is what one batch may have when decompressed.
        """
        self._data = memoryview(data)
        self._at = 0
        self._waiting = list(aborted or ())
        self._aborting: set[int] = set()
        self._limit_bytes = limit_bytes
        self.from_offset = position
        self.next_offset = position
        self.stop_offset = NO_STOP if stop is None else max(stop, 0)

    def next(self) -> tuple[BatchHeader, Buffer] | None:
        """The next batch with something to show: its header and its records, decompressed. None at the end.

        Once it was given, `next_offset` is past it; `from_offset` is where it was before.
        """
        while True:
            header = self._header()
            if header is None or header.base_offset >= self.stop_offset:
                return None
            while self._waiting and self._waiting[0][1] <= header.last_offset:
                self._aborting.add(self._waiting.pop(0)[0])
            payload = None if header.last_offset < self.next_offset else self._open(header)
            self._at += header.size_bytes
            if header.last_offset < self.next_offset:
                continue
            self.from_offset = self.next_offset
            self.next_offset = min(header.last_offset + 1, self.stop_offset)
            if payload is not None:
                return header, payload

    def put_back(self, header: BatchHeader) -> None:
        """The batch that `next` just gave was not taken after all: it comes again."""
        self._at -= header.size_bytes
        self.next_offset = self.from_offset

    def corrupt(self, header: BatchHeader, error: KafkaError) -> CorruptBatch:
        """The content of the batch that `next` just gave turned out bad: puts it back and gives the error to raise."""
        self.put_back(header)
        return self._corrupt(header, error)

    def skip(self) -> None:
        """Goes past the batch that cannot be read."""
        header = self._header()
        if header is not None:
            self.next_offset = max(self.next_offset, self._last_offset(header) + 1)
            self._at += header.size_bytes

    def _header(self) -> BatchHeader | None:
        """None at the end, also when the data ends inside a batch: it comes whole with the next fetch."""
        if self._at >= len(self._data):
            return None
        try:
            header = header_at(self._data, self._at)
        except KafkaError as error:
            if error.code not in _BATCH_ERRORS:
                raise
            raise CorruptBatch(error.code, error.message, self.next_offset, self.next_offset) from None
        if header is None or self._at + header.size_bytes > len(self._data):
            return None
        return header

    def _open(self, header: BatchHeader) -> Buffer | None:
        """The records of the batch; None if they are not for the reader."""
        batch = self._data[self._at : self._at + header.size_bytes]
        aborting = self._aborting
        if header.is_transactional and not header.is_control and header.producer_id in aborting:
            return None
        try:
            payload = open_batch(batch, header, self._limit_bytes)
            if not header.is_control:
                return payload
            if aborting and any(control_type(record) == ABORT for record in read_records(payload, header)):
                aborting.discard(header.producer_id)
        except KafkaError as error:
            raise self._corrupt(header, error) from None
        return None

    def _corrupt(self, header: BatchHeader, error: KafkaError) -> CorruptBatch:
        return CorruptBatch(error.code, error.message, header.base_offset, self._last_offset(header))

    def _last_offset(self, header: BatchHeader) -> int:
        """A damaged header may say anything; where the next batch begins is believed before it."""
        after = self._at + header.size_bytes
        if len(self._data) - after >= HEADER_BYTES and self._data[after + MAGIC_AT] == MAGIC:
            following = read_header(self._data, after).base_offset
            if header.base_offset < following <= header.last_offset:
                return following - 1
        return header.last_offset


class Visible(NamedTuple):
    records: list[Any]
    next_offset: int


def visible_records(
    batches: VisibleBatches, layout: Layout, template_of: TemplateOf, max_records: int | None = None
) -> Visible:
    """Records of the caller's type (`Layout`) from `batches`, until those end or `max_records` are reached.

    Whole batches are given, so there may be more than `max_records`. `template_of(header)` gives the fields that are
    the same in a whole batch. An error is raised only if no record comes before it.
    """
    made: list[Any] = []
    while max_records is None or len(made) < max_records:
        try:
            found = batches.next()
            if found is None:
                break
            header, payload = found
            try:
                made += build_records(
                    payload, header, batches.from_offset, batches.stop_offset, layout, template_of(header)
                )
            except KafkaError as error:
                raise batches.corrupt(header, error) from None
        except CorruptBatch:
            if made:
                break
            raise
    return Visible(made, batches.next_offset)
