"""The consumer protocol that is embedded in classic groups: what a member wants (JoinGroup's metadata) and what it gets
(SyncGroup's assignment).

Both begin with their int16 version, 0 to 3. Later versions only add fields at the end: what is newer is read as 3, what
is behind the known fields is left alone. In order, and since which version:

    subscription: topics []string 0, user data bytes 0, owned partitions []{topic string, []int32} 1,
                  generation int32 2, rack string 3
    assignment:   partitions []{topic string, []int32} 0, user data bytes 0

`ValueError` says that the bytes are something else.
"""

from collections.abc import Iterable
from struct import Struct, error
from typing import Final, NamedTuple

from headwater.coordinator.groups.assignors.spec import Partition
from headwater.coordinator.groups.consumer.member import by_topic
from headwater.coordinator.groups.context import Topics

VERSION_MAX: Final = 3
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")


class Subscription(NamedTuple):
    version: int
    topics: list[str]
    owned: list[tuple[str, int]]
    rack_id: str | None


class Assigned(NamedTuple):
    partitions: list[tuple[str, int]]
    has_user_data: bool


def read_subscription(data: bytes) -> Subscription:
    reader = _Reader(data)
    version = reader.version()
    topics = [reader.string() or "" for _ in range(reader.count(_INT16.size))]
    reader.skip_bytes()
    owned = reader.partitions() if version >= 1 else []
    if version >= 2:
        reader.int32()
    return Subscription(version, topics, owned, (reader.string() or None) if version >= 3 else None)


def read_version(data: bytes) -> int:
    """That of a subscription, of which nothing else need be readable; the first where it is not even that."""
    return max(0, _INT16.unpack_from(data)[0]) if len(data) >= _INT16.size else 0


def read_assignment(data: bytes) -> Assigned:
    """No bytes at all: a member that was assigned nothing."""
    if not data:
        return Assigned([], has_user_data=False)
    reader = _Reader(data)
    reader.version()
    partitions = reader.partitions()
    return Assigned(partitions, has_user_data=reader.skip_bytes() > 0)


def write_assignment(partitions: Iterable[Partition], topics: Topics, version: int) -> bytes:
    """What is in topics that are gone is left out."""
    named = [
        (topics.names[topic_id].encode(), indexes)
        for topic_id, indexes in by_topic(partitions).items()
        if topic_id in topics.names
    ]
    parts = [_INT16.pack(min(version, VERSION_MAX)), _INT32.pack(len(named))]
    for name, indexes in named:
        parts += [_INT16.pack(len(name)), name, _INT32.pack(len(indexes)), *map(_INT32.pack, indexes)]
    parts.append(_INT32.pack(-1))
    return b"".join(parts)


def with_ids(partitions: Iterable[tuple[str, int]], topics: Topics) -> list[Partition]:
    return [(topics.ids[name], partition) for name, partition in partitions if name in topics.ids]


class _Reader:
    """A place in the bytes. Counts and lengths are checked against what is left."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def _take(self, layout: Struct) -> int:
        try:
            (value,) = layout.unpack_from(self._data, self._position)
        except error:
            raise ValueError("the embedded consumer protocol ends too early") from None
        self._position += layout.size
        return int(value)

    def version(self) -> int:
        version = self._take(_INT16)
        if version < 0:
            raise ValueError(f"no such version of the embedded consumer protocol: {version}")
        return version

    def int32(self) -> int:
        return self._take(_INT32)

    def count(self, element_size_bytes: int) -> int:
        count = self._take(_INT32)
        if count < 0 or count * element_size_bytes > len(self._data) - self._position:
            raise ValueError(f"the embedded consumer protocol cannot have {count} elements here")
        return count

    def string(self) -> str | None:
        length = self._take(_INT16)
        return None if length < 0 else self._bytes(length).decode()

    def skip_bytes(self) -> int:
        length = self._take(_INT32)
        self._bytes(max(length, 0))
        return length

    def partitions(self) -> list[tuple[str, int]]:
        found = []
        for _ in range(self.count(_INT16.size + _INT32.size)):
            topic = self.string() or ""
            found += [(topic, self.int32()) for _ in range(self.count(_INT32.size))]
        return found

    def _bytes(self, length: int) -> bytes:
        end = self._position + length
        if end > len(self._data):
            raise ValueError("the embedded consumer protocol ends too early")
        data = bytes(self._data[self._position : end])
        self._position = end
        return data
