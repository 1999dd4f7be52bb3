"""Whether the leader takes a batch, and in which form it goes into the log.

The append path of `log.Log` accepts what is certainly fine with a few comparisons; whatever is not ends up here, where
the checks stand one by one with their errors. The header is checked always; the batch is opened only where it must be:
a compacted topic needs keys, a topic with its own codec recompresses what came in another. Decompression is bounded. No
state.

A batch is refused as a whole. Where single records are why, `RecordsRefused` names them (KIP-467), so that a producer
can tell those records from the others that only shared the batch with them. A refusal that the header alone tells stays
cheap: only a small batch is opened to name its records, because whoever is refused pays nothing and can ask again at
once.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.log.config import KEEP_PRODUCERS_CODEC, LogConfig
from headwater.records.batch import (
    ATTRIBUTES_AT,
    CRC_AT,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    MAX_TIMESTAMP_AT,
    NO_TIMESTAMP,
    BatchHeader,
    crc_of,
    read_header,
)
from headwater.records.builder import build_batch
from headwater.records.compression import CODEC_NAMES
from headwater.records.reader import Record, read_records

DECOMPRESSED_BYTES_MAX: Final = 128 << 20  # what one batch may grow to when the broker itself must open it
RECORD_ERRORS_MAX: Final = 10_000  # named in one answer; librdkafka's largest batch has as many records
NAMED_BATCH_BYTES_MAX: Final = 4 << 20  # what a batch may grow to that is opened only to name its records
_MAGIC_AT: Final = 16


class RecordError(NamedTuple):
    batch_index: int
    message: str


class RecordsRefused(KafkaError):
    """Refused because of single records of the batch, of which there is one at least. No more are taken than are
    named.
    """

    def __init__(self, code: ErrorCode, what: str, records: Iterable[RecordError]) -> None:
        self.records = list(islice(records, RECORD_ERRORS_MAX))
        or_more = " or more" if len(self.records) == RECORD_ERRORS_MAX else ""
        super().__init__(code, f"{what} ({len(self.records)}{or_more} of the batch's records)")


def check_batch(batch: memoryview, config: LogConfig, now_ms: int, *, from_client: bool) -> BatchHeader:
    """The header of the one batch in `batch`; raises what its sender must be told."""
    header = _check_frame(batch, config, from_client=from_client)
    if int(crc_of(batch)) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the CRC of the batch is wrong")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise _invalid(f"{header.record_count} records and a last offset delta of {header.last_offset_delta}")
    if header.codec not in CODEC_NAMES:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"there is no codec {header.codec}")
    if from_client:
        _check_client_fields(header)
    if not config.log_append_time:
        _check_timestamps(batch, header, config, now_ms)
    return header


def _check_frame(batch: memoryview, config: LogConfig, *, from_client: bool) -> BatchHeader:
    """Exactly one batch of our format, not too large. `max.message.bytes` is about what clients and coordinators write:
    a marker that it kept out would leave its transaction open for ever.
    """
    size = len(batch)
    if size > _MAGIC_AT and batch[_MAGIC_AT] != MAGIC:
        raise _invalid(f"message format {batch[_MAGIC_AT]}; only {MAGIC} is served")
    if size < HEADER_BYTES:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes are too few for a batch")
    header = read_header(batch)
    if header.batch_length < HEADER_BYTES - LENGTH_PREFIX_BYTES or header.size_bytes > size:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch length of {header.batch_length} in {size} bytes")
    if header.size_bytes < size:
        raise _invalid("more than one batch for a partition")
    if size > config.max_message_bytes and (from_client or not header.is_control):
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes; max.message.bytes is {config.max_message_bytes}"
        )
    if size > config.segment_bytes:
        raise KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"a batch of {size} bytes; segment.bytes is {config.segment_bytes}"
        )
    return header


def _check_client_fields(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid("clients cannot write control batches")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise _invalid(
            f"producer {header.producer_id} with epoch {header.producer_epoch} and sequence {header.base_sequence}"
        )
    if header.is_transactional and header.producer_id < 0:
        raise _invalid("a transactional batch without a producer id")


def _check_timestamps(batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> None:
    if header.is_log_append_time:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "a producer cannot set log-append time")
    earliest, latest = now_ms - config.timestamp_before_max_ms, now_ms + config.timestamp_after_max_ms
    for timestamp in (header.base_timestamp, header.max_timestamp):
        if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            raise _refused_timestamps(batch, header, timestamp, earliest, latest)


def _refused_timestamps(
    batch: memoryview, header: BatchHeader, timestamp: int, earliest: int, latest: int
) -> KafkaError:
    """Names the records if the batch is small. A header that says what no record does names none."""
    what = f"timestamp {timestamp} is outside [{earliest}, {latest}]"
    plain = KafkaError(ErrorCode.INVALID_TIMESTAMP, what)
    if header.record_count > RECORD_ERRORS_MAX:
        return plain
    try:
        records = read_records(batch, NAMED_BATCH_BYTES_MAX)
    except KafkaError:
        return plain  # too large to be opened for this, or damaged
    refused = [
        RecordError(index, f"timestamp {record.timestamp} is out of range")
        for index, record in enumerate(records)
        if record.timestamp != NO_TIMESTAMP and not earliest <= record.timestamp <= latest
    ]
    return RecordsRefused(ErrorCode.INVALID_TIMESTAMP, what, refused) if refused else plain


def final_form(batch: memoryview, header: BatchHeader, config: LogConfig, now_ms: int) -> memoryview:
    """The batch as the topic keeps it: recompressed or stamped if need be, else the very same bytes."""
    recompress = config.codec not in (KEEP_PRODUCERS_CODEC, header.codec) and not header.is_control
    if recompress or (config.cleanup_compact and not header.is_control):
        records = read_records(batch, DECOMPRESSED_BYTES_MAX)
        if [record.offset for record in records] != list(range(header.base_offset, header.last_offset + 1)):
            raise _invalid("offsets of records that do not follow one another")
        if config.cleanup_compact:
            _check_keys(records)
        if recompress:
            batch = memoryview(
                build_batch(
                    records,
                    base_offset=header.base_offset,
                    codec=config.codec,
                    level=config.codec_level,
                    producer_id=header.producer_id,
                    producer_epoch=header.producer_epoch,
                    base_sequence=header.base_sequence,
                    transactional=header.is_transactional,
                    last_offset_delta=header.last_offset_delta,
                )
            )
            _check_frame(batch, config, from_client=False)
    if config.log_append_time:
        stamp_append_time(batch, now_ms)
    return batch


def _check_keys(records: Sequence[Record]) -> None:
    what = "a record without a key on a compacted topic"
    if any(record.key is None for record in records):
        keyless = (RecordError(index, what) for index, record in enumerate(records) if record.key is None)
        raise RecordsRefused(ErrorCode.INVALID_RECORD, what, keyless)


def stamp_append_time(batch: memoryview, now_ms: int) -> None:
    """Marks every record of the batch as written now, without opening it."""
    attributes = int.from_bytes(batch[ATTRIBUTES_AT : ATTRIBUTES_AT + 2], "big") | LOG_APPEND_TIME
    batch[ATTRIBUTES_AT : ATTRIBUTES_AT + 2] = attributes.to_bytes(2, "big")
    batch[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8] = now_ms.to_bytes(8, "big")
    batch[CRC_AT : CRC_AT + 4] = crc_of(batch).to_bytes(4, "big")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
