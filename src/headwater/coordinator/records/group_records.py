"""Records of `__consumer_offsets` that classic groups and committed offsets are kept in: Kafka's bytes, as Apache Kafka
4.3 writes them.

A key is an int16 record type and its fields; a value is an int16 version and its fields; no value deletes. The types:

    0  OffsetCommit, as very old brokers wrote it     read only
    1  OffsetCommit: (group, topic, partition) -> offset, leader epoch, metadata, times, topic id
    2  GroupMetadata: group -> generation, protocol, leader, members with subscription and assignment

Values have versions 0 to 4. We write OffsetCommit as 4, or as 1 when the client named its own retention (only version 1
has room for an expiry); GroupMetadata as 3. All other types belong to other modules: `read_record` answers None for
them, and for what it cannot understand of a newer version.
"""

from struct import Struct as Layout
from typing import Final, NamedTuple

from headwater.base.ids import NO_TOPIC_ID
from headwater.coordinator.effects import CoordinatorRecord
from headwater.wire.errors import DecodeError
from headwater.wire.schema import BYTES, INT32, INT64, STRING, UUID, Array, Message, Struct, field

LEGACY_OFFSET_COMMIT: Final = 0
OFFSET_COMMIT: Final = 1
GROUP_METADATA: Final = 2

_OFFSET_COMMIT_VERSION: Final = 4
_OFFSET_COMMIT_VERSION_WITH_EXPIRY: Final = 1
_GROUP_METADATA_VERSION: Final = 3
_VALUE_VERSION_MAX: Final = 4

_INT16: Final = Layout(">h")
_TWO_INT16: Final = Layout(">hh")
_INT32: Final = Layout(">i")
_TIMESTAMP: Final = Layout(">q")
_OFFSET_COMMIT_START: Final = Layout(">hqiB")  # version, offset, leader epoch, length of the metadata and one
_ONE_BYTE_VARINT_MAX: Final = 0x7F
_NO_TAGS: Final = b"\0"
_TOPIC_ID_TAG: Final = b"\1\0\x10"  # one tagged field: tag 0, 16 bytes


class OffsetCommitKey(Message, key=OFFSET_COMMIT, versions=(0, 0)):
    group: str = field(STRING)
    topic: str = field(STRING)
    partition: int = field(INT32)


class OffsetCommitValue(Message, key=OFFSET_COMMIT, versions=(0, 4), flexible_since=4):
    offset: int = field(INT64)
    leader_epoch: int = field(INT32, since=3, default=-1)
    metadata: str = field(STRING)
    commit_timestamp: int = field(INT64)
    expire_timestamp: int = field(INT64, since=1, until=1, default=-1)
    topic_id: bytes = field(UUID, since=4, tag=0)


class GroupMetadataKey(Message, key=GROUP_METADATA, versions=(0, 0)):
    group: str = field(STRING)


class MemberMetadata(Struct):
    member_id: str = field(STRING)
    group_instance_id: str | None = field(STRING, since=3, nullable_since=3)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    rebalance_timeout: int = field(INT32, since=1, default=-1)
    session_timeout: int = field(INT32)
    subscription: bytes = field(BYTES)
    assignment: bytes = field(BYTES)


class GroupMetadataValue(Message, key=GROUP_METADATA, versions=(0, 4), flexible_since=4):
    protocol_type: str = field(STRING)
    generation: int = field(INT32)
    protocol: str | None = field(STRING, nullable_since=0)
    leader: str | None = field(STRING, nullable_since=0)
    current_state_timestamp: int = field(INT64, since=2, default=-1)
    members: list[MemberMetadata] = field(Array(MemberMetadata))


class OffsetCommitRecord(NamedTuple):
    key: OffsetCommitKey
    value: OffsetCommitValue | None


class GroupMetadataRecord(NamedTuple):
    key: GroupMetadataKey
    value: GroupMetadataValue | None


def record_type(key: bytes) -> int:
    """-1 for a key that is too short to have one."""
    return int(_INT16.unpack_from(key)[0]) if len(key) >= _INT16.size else -1


def read_record(record: CoordinatorRecord) -> OffsetCommitRecord | GroupMetadataRecord | None:
    """None for the types of others, and for versions from the future. Bytes that are no such record raise
    DecodeError.
    """
    kind = record_type(record.key)
    if kind not in (LEGACY_OFFSET_COMMIT, OFFSET_COMMIT, GROUP_METADATA):
        return None
    version = -1
    if record.value is not None:
        if len(record.value) < _INT16.size:
            raise DecodeError("the value of a group record has no version")
        version = _INT16.unpack_from(record.value)[0]
        if not 0 <= version <= _VALUE_VERSION_MAX:
            return None
    if kind == GROUP_METADATA:
        group = GroupMetadataKey.decode(record.key, _INT16.size, 0)
        if record.value is None:
            return GroupMetadataRecord(group, None)
        return GroupMetadataRecord(group, GroupMetadataValue.decode(record.value, _INT16.size, version))
    offset = OffsetCommitKey.decode(record.key, _INT16.size, 0)
    if record.value is None:
        return OffsetCommitRecord(offset, None)
    return OffsetCommitRecord(offset, OffsetCommitValue.decode(record.value, _INT16.size, version))


def offset_commit_record(group: str, topic: str, partition: int, value: OffsetCommitValue) -> CoordinatorRecord:
    if value.expire_timestamp >= 0:
        return CoordinatorRecord(
            _offset_commit_key(group, topic, partition), _versioned(value, _OFFSET_COMMIT_VERSION_WITH_EXPIRY)
        )
    metadata = value.metadata.encode()
    if len(metadata) >= _ONE_BYTE_VARINT_MAX:
        return CoordinatorRecord(_offset_commit_key(group, topic, partition), _versioned(value, _OFFSET_COMMIT_VERSION))
    # By hand, what the general encoder would make of it: this is written for every commit of every consumer.
    start = _OFFSET_COMMIT_START.pack(_OFFSET_COMMIT_VERSION, value.offset, value.leader_epoch, len(metadata) + 1)
    end = _TIMESTAMP.pack(value.commit_timestamp)
    tags = _NO_TAGS if value.topic_id == NO_TOPIC_ID else _TOPIC_ID_TAG + value.topic_id
    return CoordinatorRecord(_offset_commit_key(group, topic, partition), start + metadata + end + tags)


def offset_commit_tombstone(group: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(_offset_commit_key(group, topic, partition), None)


def group_metadata_record(group: str, value: GroupMetadataValue) -> CoordinatorRecord:
    return CoordinatorRecord(_group_metadata_key(group), _versioned(value, _GROUP_METADATA_VERSION))


def group_metadata_tombstone(group: str) -> CoordinatorRecord:
    return CoordinatorRecord(_group_metadata_key(group), None)


def _offset_commit_key(group: str, topic: str, partition: int) -> bytes:
    group_bytes, topic_bytes = group.encode(), topic.encode()
    return b"%b%b%b%b%b" % (
        _TWO_INT16.pack(OFFSET_COMMIT, len(group_bytes)),
        group_bytes,
        _INT16.pack(len(topic_bytes)),
        topic_bytes,
        _INT32.pack(partition),
    )


def _group_metadata_key(group: str) -> bytes:
    return _INT16.pack(GROUP_METADATA) + b"".join(GroupMetadataKey(group=group).encode(0))


def _versioned(value: Message, version: int) -> bytes:
    return _INT16.pack(version) + b"".join(value.encode(version))
