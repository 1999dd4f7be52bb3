"""Keys and values of `__transaction_state`, byte for byte as Apache Kafka writes them.

    key    int16 version = 0;  string transactional id
    value  int16 version;  v0 plain, v1 flexible with the fields of KIP-890 as tags (0 previous producer id,
           1 next producer id, 2 the client's transaction version, 3 next producer epoch). No value: the id has expired

One record holds the whole state of a transactional id, so the last one is all that counts, and compaction may drop the
others. Key and value versions that we do not know are left alone when the topic is loaded: somebody newer wrote them.
"""

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from functools import lru_cache
from struct import Struct as PackedStruct
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.coordinator.effects import CoordinatorRecord
from headwater.wire.primitives import encode_uvarint
from headwater.wire.schema import INT8, INT16, INT32, INT64, STRING, Array, Message, Struct, field

KEY_VERSION: Final = 0
VALUE_VERSION_MAX: Final = 1

_VERSION: Final = PackedStruct(">h")
_TWO_INT16: Final = PackedStruct(">hh")
_INT32: Final = PackedStruct(">i")
_START: Final = PackedStruct(">hqhib")  # version, producer id and epoch, timeout, status
_TIMES: Final = PackedStruct(">qq")
_ID_TAG: Final = PackedStruct(">BBq")  # tag, size, value
_VERSION_TAG: Final = PackedStruct(">BBh")
_NO_PARTITIONS: Final = b"\0"  # null
_FEW_PARTITIONS: Final = 8


class TransactionLogKey(Message, key=0, versions=(0, 0)):
    transactional_id: str = field(STRING)


class PartitionsSchema(Struct):
    topic: str = field(STRING)
    partition_ids: list[int] = field(Array(INT32))


class TransactionLogValue(Message, key=0, versions=(0, 1), flexible_since=1):
    producer_id: int = field(INT64)
    previous_producer_id: int = field(INT64, since=1, tag=0, default=-1)
    next_producer_id: int = field(INT64, since=1, tag=1, default=-1)
    producer_epoch: int = field(INT16)
    next_producer_epoch: int = field(INT16, since=1, tag=3, default=-1)
    transaction_timeout_ms: int = field(INT32)
    transaction_status: int = field(INT8)
    transaction_partitions: list[PartitionsSchema] | None = field(Array(PartitionsSchema), nullable_since=0)
    transaction_last_update_timestamp_ms: int = field(INT64)
    transaction_start_timestamp_ms: int = field(INT64)
    client_transaction_version: int = field(INT16, since=1, tag=2, default=0)


class TransactionRecord(NamedTuple):
    """What a record says. No value: the transactional id is gone."""

    transactional_id: str
    value: TransactionLogValue | None


def transaction_record(
    transactional_id: str, value: TransactionLogValue | None, version: int = VALUE_VERSION_MAX
) -> CoordinatorRecord:
    key = _VERSION.pack(KEY_VERSION) + b"".join(TransactionLogKey(transactional_id=transactional_id).encode(0))
    if value is None:
        return CoordinatorRecord(key, None)
    return CoordinatorRecord(key, _VERSION.pack(version) + b"".join(value.encode(version)))


def transaction_key(transactional_id: str) -> bytes:
    id_bytes = transactional_id.encode()
    return _TWO_INT16.pack(KEY_VERSION, len(id_bytes)) + id_bytes


def packed_value(
    producer_id: int,
    previous_producer_id: int,
    next_producer_id: int,
    producer_epoch: int,
    timeout_ms: int,
    status: int,
    partitions: bytes | None,
    last_update_ms: int,
    start_ms: int,
    client_transaction_version: int,
) -> bytes:
    """What `transaction_record` makes of a value of version 1, by hand: three of them are written for each transaction.

    `partitions`: as `packed_partitions` gives them.
    """
    return (
        _START.pack(1, producer_id, producer_epoch, timeout_ms, status)
        + (_NO_PARTITIONS if partitions is None else partitions)
        + _TIMES.pack(last_update_ms, start_ms)
        + _packed_tags(previous_producer_id, next_producer_id, client_transaction_version)
    )


def packed_partitions(partitions: AbstractSet[TopicPartition]) -> bytes:
    if len(partitions) <= _FEW_PARTITIONS:  # as nearly always, and the same in all records of a transaction
        return _packed_few(partitions)
    return _pack_partitions(partitions)


@lru_cache(maxsize=1024)
def _packed_few(partitions: frozenset[TopicPartition]) -> bytes:
    return _pack_partitions(partitions)


def _pack_partitions(partitions: Collection[TopicPartition]) -> bytes:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    out = bytearray()
    out += encode_uvarint(len(topics) + 1)
    for topic, indexes in topics.items():
        topic_bytes = topic.encode()
        out += encode_uvarint(len(topic_bytes) + 1)
        out += topic_bytes
        out += encode_uvarint(len(indexes) + 1)
        for index in indexes:
            out += _INT32.pack(index)
        out.append(0)  # no tags
    return bytes(out)


@lru_cache(maxsize=1024)
def _packed_tags(previous_producer_id: int, next_producer_id: int, client_transaction_version: int) -> bytes:
    tags = [
        _ID_TAG.pack(tag, 8, tagged)
        for tag, tagged in ((0, previous_producer_id), (1, next_producer_id))
        if tagged != -1
    ]
    if client_transaction_version:
        tags.append(_VERSION_TAG.pack(2, 2, client_transaction_version))
    return b"%c%b" % (len(tags), b"".join(tags))


def read_transaction_record(record: CoordinatorRecord) -> TransactionRecord | None:
    """None for versions that we do not know. Raises CORRUPT_MESSAGE or DecodeError for what is none at all."""
    if len(record.key) < _VERSION.size or (record.value is not None and len(record.value) < _VERSION.size):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a record of a transaction without its version")
    if _VERSION.unpack_from(record.key)[0] != KEY_VERSION:
        return None
    transactional_id = TransactionLogKey.decode(record.key, _VERSION.size, 0).transactional_id
    if record.value is None:
        return TransactionRecord(transactional_id, None)
    (version,) = _VERSION.unpack_from(record.value)
    if not 0 <= version <= VALUE_VERSION_MAX:
        return None
    return TransactionRecord(transactional_id, TransactionLogValue.decode(record.value, _VERSION.size, version))


def to_schema(partitions: AbstractSet[TopicPartition]) -> list[PartitionsSchema]:
    """Grouped by topic, in order: the same set gives the same bytes."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [PartitionsSchema(topic=topic, partition_ids=ids) for topic, ids in topics.items()]


def from_schema(topics: list[PartitionsSchema] | None) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(entry.topic, partition) for entry in topics or () for partition in entry.partition_ids
    )
