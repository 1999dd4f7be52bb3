"""The bytes that members of a classic group of consumers exchange: Kafka's consumer protocol, versions 0 to 3.

    subscription: int16 version, [string] topics, bytes? user data,
                  v1: [owned: string topic, [int32] partitions], v2: int32 generation (-1: none), v3: string? rack
    assignment:   int16 version, [string topic, [int32] partitions], bytes? user data

Lengths of strings are int16, of arrays and bytes int32, -1 is null. A newer version has more at its end, which is not
read. Members are others' programs: what is cut short or lies about a length is a `KafkaError`.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.assignors.spec import NO_GENERATION, MemberSubscription

VERSION: Final = 3
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")


class Reader:
    """Reads from the front; a value that does not fit into what is left is an error."""

    def __init__(self, data: bytes) -> None:
        self._data = bytes(data)
        self._at = 0

    @property
    def left_bytes(self) -> int:
        return len(self._data) - self._at

    def int16(self) -> int:
        return int(_INT16.unpack(self._take(2))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self._take(4))[0])

    def string(self) -> str:
        found = self.nullable_string()
        if found is None:
            raise _malformed("a name is null")
        return found

    def nullable_string(self) -> str | None:
        length = self.int16()
        try:
            return None if length < 0 else self._take(length).decode()
        except UnicodeDecodeError:
            raise _malformed("a name is not UTF-8") from None

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self._take(length)

    def count(self, entry_bytes_min: int) -> int:
        """The length of an array, whose entries must fit into what is left."""
        count = self.int32()
        if count * entry_bytes_min > self.left_bytes:
            raise _malformed(f"an array claims {count} entries")
        return max(0, count)

    def partitions(self) -> tuple[TopicPartition, ...]:
        found: list[TopicPartition] = []
        for _ in range(self.count(6)):
            topic = self.string()
            found += [TopicPartition(topic, self.int32()) for _ in range(self.count(4))]
        return tuple(found)

    def _take(self, size_bytes: int) -> bytes:
        if size_bytes > self.left_bytes:
            raise _malformed("it ends too early")
        taken = self._data[self._at : self._at + size_bytes]
        self._at += size_bytes
        return taken


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    parts = [_INT32.pack(len(by_topic))]
    for topic, indexes in by_topic.items():
        parts += [_string(topic), _INT32.pack(len(indexes)), *map(_INT32.pack, indexes)]
    return b"".join(parts)


def encode_int32(value: int) -> bytes:
    return _INT32.pack(value)


def encode_subscription(subscription: MemberSubscription) -> bytes:
    return b"".join(
        (
            _INT16.pack(VERSION),
            _INT32.pack(len(subscription.topics)),
            *map(_string, subscription.topics),
            _bytes(subscription.user_data),
            encode_partitions(subscription.owned),
            _INT32.pack(subscription.generation),
            _string(subscription.rack_id),
        )
    )


def decode_subscription(data: bytes, group_instance_id: str | None = None) -> MemberSubscription:
    reader = Reader(data)
    version = reader.int16()
    if version < 0:
        raise _malformed(f"its version is {version}")
    topics = tuple(reader.string() for _ in range(reader.count(2)))
    user_data = reader.nullable_bytes()
    return MemberSubscription(
        topics=topics,
        user_data=user_data,
        owned=reader.partitions() if version >= 1 else (),
        generation=reader.int32() if version >= 2 else NO_GENERATION,
        rack_id=reader.nullable_string() if version >= 3 else None,
        group_instance_id=group_instance_id,
    )


def encode_assignment(partitions: Iterable[TopicPartition], user_data: bytes | None = None) -> bytes:
    return _INT16.pack(VERSION) + encode_partitions(partitions) + _bytes(user_data)


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Empty bytes come from leaders that have nothing to say to a member."""
    if not data:
        return ()
    reader = Reader(data)
    if reader.int16() < 0:
        raise _malformed("its version is negative")
    return reader.partitions()


def _string(text: str | None) -> bytes:
    if text is None:
        return _INT16.pack(-1)
    data = text.encode()
    return _INT16.pack(len(data)) + data


def _bytes(data: bytes | None) -> bytes:
    return _INT32.pack(-1) if data is None else _INT32.pack(len(data)) + data


def _malformed(why: str) -> KafkaError:
    return KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"what another member wrote cannot be read: {why}")
