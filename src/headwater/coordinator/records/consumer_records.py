"""The records of consumer groups (KIP-848) in `__consumer_offsets`, byte for byte as Apache Kafka 4.3 writes them.

A key is the int16 number of its type, then the group id, then the member id or the regular expression where the type
has one. A value is the int16 version 0, then a flexible body. No value is a tombstone. In the order of their numbers:

    3   the group: its epoch, and a hash of the topics that it is subscribed to
    4   the partitions of those topics: written before Kafka 4.1 only; we know it as something to delete
    5   a member: who it is and what it is subscribed to
    6   the target assignment of the whole group: its epoch, and when it was computed
    7   the target assignment of one member
    8   what a member has now: its epoch, its partitions, and those that it must give up
    16  a regular expression: the topics that it stood for when it was last resolved

`ConsumerRecord` is one such record, decoded. This module owns no state.
"""

from enum import IntEnum
from struct import Struct as Layout
from typing import Final, NamedTuple, TypeAlias

from headwater.coordinator.effects import CoordinatorRecord
from headwater.wire.schema import BYTES, INT8, INT32, INT64, STRING, UUID, Array, Message, Struct, field

_INT16: Final = Layout(">h")
_VALUE_VERSION: Final = 0


class RecordType(IntEnum):
    GROUP_METADATA = 3
    PARTITION_METADATA = 4
    MEMBER_METADATA = 5
    TARGET_ASSIGNMENT_METADATA = 6
    TARGET_ASSIGNMENT_MEMBER = 7
    CURRENT_MEMBER_ASSIGNMENT = 8
    REGULAR_EXPRESSION = 16


class GroupMetadataValue(Message, key=3, versions=(0, 0), flexible_since=0):
    epoch: int = field(INT32)
    metadata_hash: int = field(INT64, tag=0)


class PartitionRacks(Struct):
    partition: int = field(INT32)
    racks: list[str] = field(Array(STRING))


class TopicMetadata(Struct):
    topic_id: bytes = field(UUID)
    topic_name: str = field(STRING)
    num_partitions: int = field(INT32)
    partition_metadata: list[PartitionRacks] = field(Array(PartitionRacks))


class PartitionMetadataValue(Message, key=4, versions=(0, 0), flexible_since=0):
    topics: list[TopicMetadata] = field(Array(TopicMetadata))


class ClassicProtocol(Struct):
    name: str = field(STRING)
    metadata: bytes = field(BYTES)


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = field(INT32)
    supported_protocols: list[ClassicProtocol] = field(Array(ClassicProtocol))


class MemberMetadataValue(Message, key=5, versions=(0, 0), flexible_since=0):
    instance_id: str | None = field(STRING, nullable_since=0)
    rack_id: str | None = field(STRING, nullable_since=0)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(Array(STRING))
    subscribed_topic_regex: str | None = field(STRING, nullable_since=0)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    server_assignor: str | None = field(STRING, nullable_since=0)
    # only for a member that speaks the classic protocol
    classic_member_metadata: ClassicMemberMetadata | None = field(ClassicMemberMetadata, nullable_since=0, tag=0)


class TargetAssignmentMetadataValue(Message, key=6, versions=(0, 0), flexible_since=0):
    assignment_epoch: int = field(INT32)
    assignment_timestamp: int = field(INT64, tag=0)


class TargetTopicPartition(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[int] = field(Array(INT32))


class TargetAssignmentMemberValue(Message, key=7, versions=(0, 0), flexible_since=0):
    topic_partitions: list[TargetTopicPartition] = field(Array(TargetTopicPartition))


class CurrentTopicPartitions(Struct):
    topic_id: bytes = field(UUID)
    partitions: list[int] = field(Array(INT32))
    # since when the member has each of them, in the same order; None in logs of Kafka before 4.3
    assignment_epochs: list[int] | None = field(Array(INT32), nullable_since=0, tag=0)


class CurrentMemberAssignmentValue(Message, key=8, versions=(0, 0), flexible_since=0):
    member_epoch: int = field(INT32)
    previous_member_epoch: int = field(INT32)
    state: int = field(INT8)
    assigned_partitions: list[CurrentTopicPartitions] = field(Array(CurrentTopicPartitions))
    partitions_pending_revocation: list[CurrentTopicPartitions] = field(Array(CurrentTopicPartitions))


class RegularExpressionValue(Message, key=16, versions=(0, 0), flexible_since=0):
    topics: list[str] = field(Array(STRING))
    version: int = field(INT64)
    timestamp: int = field(INT64)


Value: TypeAlias = (
    GroupMetadataValue
    | PartitionMetadataValue
    | MemberMetadataValue
    | TargetAssignmentMetadataValue
    | TargetAssignmentMemberValue
    | CurrentMemberAssignmentValue
    | RegularExpressionValue
)

_VALUES: Final[dict[RecordType, type[Message]]] = {
    RecordType.GROUP_METADATA: GroupMetadataValue,
    RecordType.PARTITION_METADATA: PartitionMetadataValue,
    RecordType.MEMBER_METADATA: MemberMetadataValue,
    RecordType.TARGET_ASSIGNMENT_METADATA: TargetAssignmentMetadataValue,
    RecordType.TARGET_ASSIGNMENT_MEMBER: TargetAssignmentMemberValue,
    RecordType.CURRENT_MEMBER_ASSIGNMENT: CurrentMemberAssignmentValue,
    RecordType.REGULAR_EXPRESSION: RegularExpressionValue,
}
_NAMED: Final = frozenset(
    {
        RecordType.MEMBER_METADATA,
        RecordType.TARGET_ASSIGNMENT_MEMBER,
        RecordType.CURRENT_MEMBER_ASSIGNMENT,
        RecordType.REGULAR_EXPRESSION,
    }
)


class ConsumerRecord(NamedTuple):
    """One change of a consumer group. `name` is the member id or the regular expression, empty where the type has
    neither.
    """

    type: RecordType
    group_id: str
    name: str
    value: Value | None

    def encode(self) -> CoordinatorRecord:
        key = _INT16.pack(self.type) + _string(self.group_id)
        if self.type in _NAMED:
            key += _string(self.name)
        if self.value is None:
            return CoordinatorRecord(key, None)
        return CoordinatorRecord(key, _INT16.pack(_VALUE_VERSION) + b"".join(self.value.encode(_VALUE_VERSION)))


def decode(record: CoordinatorRecord) -> ConsumerRecord | None:
    """None for a record of another kind of group, or of a value version that is not known."""
    (number,) = _INT16.unpack_from(record.key)
    if number not in _VALUES:
        return None
    type_ = RecordType(number)
    group_id, position = _read_string(record.key, _INT16.size)
    name = ""
    if type_ in _NAMED:
        name, position = _read_string(record.key, position)
    if record.value is None:
        return ConsumerRecord(type_, group_id, name, None)
    (version,) = _INT16.unpack_from(record.value)
    if version != _VALUE_VERSION:
        return None
    value: Value = _VALUES[type_].decode(record.value, _INT16.size, version)  # type: ignore[assignment]
    return ConsumerRecord(type_, group_id, name, value)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return _INT16.pack(len(encoded)) + encoded


def _read_string(key: bytes, position: int) -> tuple[str, int]:
    (length,) = _INT16.unpack_from(key, position)
    start = position + _INT16.size
    return bytes(key[start : start + length]).decode(), start + length
