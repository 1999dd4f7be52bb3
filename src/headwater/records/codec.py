"""The codec of records: from the bytes of a batch to objects or columns, and back. Compiled, with a twin in Python.

The compiled one (`native/`, built at install) makes no Python object that it does not give out and takes about a tenth
of a microsecond per record; the twin (`pure/`) does the same twenty to fifty times slower. Without the compiled one,
with an older build that lacks something, or with HEADWATER_PURE=1 in the environment, the twin serves; `COMPILED` says
which it is. Both give the same outcome for the same input, an error included.

Reading takes the `payload` of one batch, which is its records, decompressed, and the batch's header. CRC and
compression are dealt with before (`visible.py`, `reader.py`). All records are checked, also those left out. Damage is a
KafkaError, CORRUPT_MESSAGE.

    read_records(payload, header) -> list[Record]

    build_records(payload, header, from_offset, stop_offset, layout, template) -> list
        Records of the caller's own type (see `Layout`), of the offsets in [from_offset, stop_offset). `template` is a
        tuple with what is the same in the whole batch.

    schema_frames(payload, header, of_key) -> (list of bytes, int32 column)
        What the records name their schemas by: up to 5 bytes at the beginning of each value (or key), 17 where the
        first is 1, or those of the header `__value_schema_id` (`__key_schema_id`). Each once, at most 128 of them, and
        for each record which of them it has: -1 if its value is null, -2 if it has one that was not kept. The GIL is
        let go of meanwhile.

    ColumnBuilder(headers=True)
        .append_batch(payload, header, topic, partition, from_offset, stop_offset) -> rows added
            `topic` in UTF-8. -1: nothing was taken, because int32 offsets would not reach; finish first. A batch that
            is damaged adds nothing.
        .row_count, .data_bytes (of keys and values)
        .finish() -> Columns; the builder is empty then

Writing makes `Section`s, which `finish_section` and `BatchAppender.finish` turn into batches. A wrong argument is a
ValueError, a record of 2 GiB a KafkaError, MESSAGE_TOO_LARGE.

    encode_columns(row_count, keys, values, headers, timestamps, partitions, partition_count, limit_bytes)
        -> list[Section]
        Rows keep their order within a partition. `timestamps` is one number or an int64 column, in milliseconds.
        `partitions` is an int32 column; ANY_PARTITION in it, or None instead of it, leaves the choice to the producer,
        section by section. A batch is `limit_bytes` long at most, uncompressed and with its header, unless one
        record alone is longer. Keys, values and headers may be None: null in all rows.

    partition_keys(row_count, keys, partition_count) -> int32 column, writable
        murmur2 modulo `partition_count`, as Java has it; ANY_PARTITION where the key is null

    murmur2(data) -> int
        the 32 bits, unsigned

    BatchAppender(limit_bytes)
        .append(timestamp, key, value, headers=()) -> int
            The size of the batch so far; 0 if the record was not taken, because it would go past `limit_bytes` (the
            first record always fits).
        .count, .size_bytes, .base_timestamp, .max_timestamp
        .section(partition=ANY_PARTITION) -> Section; the appender is empty then
        .finish(...) -> the batch, as `finish_section` makes it; the appender is empty then

Scanning goes over the whole batches of a segment file, piece by piece, after a crash: the bytes may be anything.

    BatchScanner(base_offset, check_from_offset, index_interval_bytes, least_epoch)
        A batch is good if its header makes sense, its offsets follow on and it ends inside the file. If it reaches to
        `check_from_offset`, its leader epoch must not go back either (`least_epoch` is that of what came before) and
        its CRC must be right; the CRC of a control batch always. Other batches may end behind the piece.
        .feed(piece, bytes_left) -> (verdict, places)
            `piece` is what the file has at `valid_bytes`, `bytes_left` how much it has from there on. The verdict
            (`verdict.py`) is GO_ON if the next piece may come, which is a longer one if none of this was taken; or else
            what is wrong with the batch at `valid_bytes`. `places` are positions in the piece, in their order: the
            batches that begin a leader epoch, and those of producers, but for the ones that leave no trace in a
            producer's state, because five more follow.
        .valid_bytes, .next_offset, .latest_epoch, .max_timestamp, .max_timestamp_offset: of what was good so far
        .finish() -> (offset index, time index), as they stand in their files (docs/formats)
        An offset that no index could hold (2^31 past the segment's first) is damage: BAD_HEADER.

Nothing here locks: an object belongs to one thread at a time. No state in the module.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headwater.base.compiled import is_pure_wanted
from headwater.records.batch import NO_SEQUENCE
from headwater.records.builder import finish_section

_NAMES: Final = (
    "BatchAppender",
    "BatchScanner",
    "ColumnBuilder",
    "build_records",
    "encode_columns",
    "murmur2",
    "partition_keys",
    "read_records",
)

if TYPE_CHECKING:
    from headwater.records import pure as _chosen
else:
    _chosen = None
    if not is_pure_wanted():
        with suppress(ImportError):
            from headwater.records import _codec as _chosen
        if _chosen is not None and not all(hasattr(_chosen, name) for name in _NAMES):
            _chosen = None  # an old build beside newer Python
    if _chosen is None:
        from headwater.records import pure as _chosen

COMPILED: Final[bool] = _chosen.__name__.endswith("._codec")

BatchScanner = _chosen.BatchScanner
ColumnBuilder = _chosen.ColumnBuilder
build_records = _chosen.build_records
encode_columns = _chosen.encode_columns
murmur2 = _chosen.murmur2
partition_keys = _chosen.partition_keys
read_records = _chosen.read_records
if hasattr(_chosen, "schema_frames"):
    schema_frames = _chosen.schema_frames
else:  # built before there was one: the rest of that build serves
    from headwater.records.pure import framing

    schema_frames = framing.schema_frames


class BatchAppender(_chosen.BatchAppender):
    """The records of one growing batch. Producer facts come last, so that a batch need not know them before it goes."""

    __slots__ = ()

    def finish(
        self,
        *,
        codec: int = 0,
        level: int | None = None,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = NO_SEQUENCE,
        transactional: bool = False,
    ) -> bytearray:
        """The whole batch, with header and CRC."""
        return finish_section(
            self.section(),
            codec=codec,
            level=level,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            transactional=transactional,
        )
