"""A batch that the broker found too large, in pieces. The pieces keep the numbers of its records."""

from headwater.client.producer.batch import ProducerBatch, following
from headwater.client.settings.producer import ProducerSettings
from headwater.records.batch import HEADER_BYTES, read_header
from headwater.records.codec import BatchAppender, read_records
from headwater.records.compression import decompress

_DECOMPRESSED_BYTES_MAX = (1 << 31) - 1


def split_batch(batch: ProducerBatch, settings: ProducerSettings) -> list[ProducerBatch]:
    """At least two, each about half as large, or as `batch.size` says if that is less."""
    assert batch.data is not None
    header = read_header(batch.data)
    payload = decompress(header.codec, memoryview(batch.data)[HEADER_BYTES:], _DECOMPRESSED_BYTES_MAX)
    limit_bytes = max(1, min(settings.batch_bytes, batch.size_bytes // 2 + 1))
    appender = BatchAppender(limit_bytes)
    sections = []
    for record in read_records(payload, header):
        if not appender.append(record.timestamp, record.key, record.value, record.headers):
            sections.append(appender.section())
            appender.append(record.timestamp, record.key, record.value, record.headers)
    sections.append(appender.section())
    parts = []
    sequence = batch.base_sequence
    for section in sections:
        part = ProducerBatch.of_section(batch.queue, batch.created_at, batch.owner, section)
        part.attempts = batch.attempts
        if batch.has_sequence:
            part.stamp(batch.producer_id, batch.producer_epoch, sequence)
            part.resequenced = batch.resequenced
            sequence = following(sequence, part.count)
        parts.append(part)
    return parts
