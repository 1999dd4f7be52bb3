"""Partitioners of our own: a row of a windowed table goes where its key goes."""

from typing import Any

from headwater.streams.serdes.windowed import SessionWindowedSerde, WindowedSerde


class ByInnerKey:
    """Windows of one key are in one partition."""

    def __init__(self, serde: WindowedSerde | SessionWindowedSerde) -> None:
        self._write = serde.inner.serialize

    def __call__(self, topic: str, key: Any, value: Any, count: int) -> int | None:  # noqa: ARG002
        if key is None or count == 1:
            return None if key is None else 0
        from headwater.client.partitioner import partition_for_key

        return partition_for_key(self._write(key.key), count)
