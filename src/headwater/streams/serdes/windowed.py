"""Windowed keys in topics, in Kafka Streams' bytes.

    time window   key, start (8, big endian)
    session       key, end (8), start (8)

The end of a time window is not written: it follows from its start and the windows.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from headwater.streams.model.windows import Windowed
from headwater.streams.serdes.port import Serde, SerdeError

_LONG: Final = Struct(">q")
_TWO_LONGS: Final = Struct(">qq")


class WindowedSerde:
    """Around the serde of the keys. Records of a windowed key go to the partition of the key within."""

    __slots__ = ("_end_of", "inner", "name")

    def __init__(self, inner: Serde, end_of: Callable[[int], int]) -> None:
        self.inner = inner
        self._end_of = end_of
        self.name = f"windowed {inner.name}"

    def serialize(self, value: Any) -> bytes:
        return self.inner.serialize(value.key) + _LONG.pack(value.start)

    def deserialize(self, data: bytes) -> Windowed:
        if len(data) < 8:
            raise SerdeError(f"a windowed key has 8 bytes at least, and these are {len(data)}")
        start = _LONG.unpack_from(data, len(data) - 8)[0]
        return Windowed(self.inner.deserialize(data[:-8]), start, self._end_of(start))


class SessionWindowedSerde:
    """The same for sessions."""

    __slots__ = ("inner", "name")

    def __init__(self, inner: Serde) -> None:
        self.inner = inner
        self.name = f"session of {inner.name}"

    def serialize(self, value: Any) -> bytes:
        return self.inner.serialize(value.key) + _TWO_LONGS.pack(value.end, value.start)

    def deserialize(self, data: bytes) -> Windowed:
        if len(data) < 16:
            raise SerdeError(f"the key of a session has 16 bytes at least, and these are {len(data)}")
        end, start = _TWO_LONGS.unpack_from(data, len(data) - 16)
        return Windowed(self.inner.deserialize(data[:-16]), start, end)
