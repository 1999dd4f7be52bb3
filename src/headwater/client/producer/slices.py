"""How much of a table, or of a list, becomes one batch, and how much of it is encoded at a time."""

from typing import Final

from headwater.client.settings.producer import ProducerSettings

_BATCH_BYTES: Final = 900_000  # below the 1 MB that brokers take by default; a table need not wait for small batches
_SLICE_BYTES_MAX: Final = 8 << 20


def batch_bytes(settings: ProducerSettings) -> int:
    return min(max(_BATCH_BYTES, settings.batch_bytes), settings.request_bytes_max)


def slice_bytes(settings: ProducerSettings) -> int:
    return min(_SLICE_BYTES_MAX, max(settings.buffer_bytes // 4, 1))
