"""Records of consumer groups against the bytes that Apache Kafka 4.3.0's own classes write."""

import pytest

from headwater.coordinator.effects import CoordinatorRecord
from headwater.coordinator.records.consumer_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerRecord,
    CurrentMemberAssignmentValue,
    CurrentTopicPartitions,
    GroupMetadataValue,
    MemberMetadataValue,
    PartitionMetadataValue,
    RecordType,
    RegularExpressionValue,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
    TargetTopicPartition,
    TopicMetadata,
    decode,
)

TOPIC_1 = (1).to_bytes(8, "big") + (2).to_bytes(8, "big")
TOPIC_2 = (-3).to_bytes(8, "big", signed=True) + (4).to_bytes(8, "big")

VECTORS = {
    "group": (
        ConsumerRecord(RecordType.GROUP_METADATA, "g", "", GroupMetadataValue(epoch=7, metadata_hash=-5)),
        "0003000167",
        "000000000007010008fffffffffffffffb",
    ),
    "group without a hash": (
        ConsumerRecord(RecordType.GROUP_METADATA, "g", "", GroupMetadataValue(epoch=7)),
        "0003000167",
        "00000000000700",
    ),
    "partition metadata, of Kafka before 4.1": (
        ConsumerRecord(
            RecordType.PARTITION_METADATA,
            "g",
            "",
            PartitionMetadataValue(topics=[TopicMetadata(topic_id=TOPIC_1, topic_name="a", num_partitions=3)]),
        ),
        "0004000167",
        "00000200000000000000010000000000000002026100000003010000",
    ),
    "member": (
        ConsumerRecord(
            RecordType.MEMBER_METADATA,
            "g",
            "m",
            MemberMetadataValue(
                instance_id="i",
                client_id="c",
                client_host="/h",
                subscribed_topic_names=["a", "b"],
                subscribed_topic_regex="x.*",
                rebalance_timeout_ms=9,
                server_assignor="range",
            ),
        ),
        "000500016700016d",
        # the last four bytes say that there is no classic metadata: Kafka's default is an empty one
        "00000269000263032f68030261026204782e2a000000090672616e676501000100",
    ),
    "member of the classic protocol": (
        ConsumerRecord(
            RecordType.MEMBER_METADATA,
            "g",
            "m",
            MemberMetadataValue(
                rack_id="r",
                client_id="c",
                client_host="/h",
                subscribed_topic_regex="",
                classic_member_metadata=ClassicMemberMetadata(
                    session_timeout_ms=45, supported_protocols=[ClassicProtocol(name="range", metadata=b"\1\2\3")]
                ),
            ),
        ),
        "000500016700016d",
        "00000002720263032f680101ffffffff00010012010000002d020672616e6765040102030000",
    ),
    "target assignment": (
        ConsumerRecord(
            RecordType.TARGET_ASSIGNMENT_METADATA,
            "g",
            "",
            TargetAssignmentMetadataValue(assignment_epoch=8, assignment_timestamp=1000),
        ),
        "0006000167",
        "00000000000801000800000000000003e8",
    ),
    "target assignment of a member": (
        ConsumerRecord(
            RecordType.TARGET_ASSIGNMENT_MEMBER,
            "g",
            "m",
            TargetAssignmentMemberValue(
                topic_partitions=[TargetTopicPartition(topic_id=TOPIC_1, partitions=[0, 2])],
            ),
        ),
        "000700016700016d",
        "000002000000000000000100000000000000020300000000000000020000",
    ),
    "current assignment of a member": (
        ConsumerRecord(
            RecordType.CURRENT_MEMBER_ASSIGNMENT,
            "g",
            "m",
            CurrentMemberAssignmentValue(
                member_epoch=5,
                previous_member_epoch=4,
                state=1,
                assigned_partitions=[
                    CurrentTopicPartitions(topic_id=TOPIC_2, partitions=[1, 3], assignment_epochs=[4, 5])
                ],
                partitions_pending_revocation=[CurrentTopicPartitions(topic_id=TOPIC_1, partitions=[0])],
            ),
        ),
        "000800016700016d",
        "000000000005000000040102fffffffffffffffd0000000000000004030000000100000003010009030000000400000005"
        "020000000000000001000000000000000202000000000000",
    ),
    "regular expression": (
        ConsumerRecord(
            RecordType.REGULAR_EXPRESSION,
            "g",
            "x.*",
            RegularExpressionValue(topics=["x1"], version=10, timestamp=11),
        ),
        "00100001670003782e2a",
        "000002037831000000000000000a000000000000000b00",
    ),
    "tombstone": (ConsumerRecord(RecordType.REGULAR_EXPRESSION, "g", "x.*", None), "00100001670003782e2a", None),
}


@pytest.mark.parametrize(("record", "key", "value"), VECTORS.values(), ids=VECTORS)
def test_bytes_are_kafkas(record: ConsumerRecord, key: str, value: str | None) -> None:
    encoded = CoordinatorRecord(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    assert record.encode() == encoded
    assert decode(encoded) == record


def test_records_of_other_groups_are_left_to_others() -> None:
    assert decode(CoordinatorRecord(bytes.fromhex("0002000167"), None)) is None


def test_a_value_of_a_later_version_is_not_guessed() -> None:
    assert decode(CoordinatorRecord(bytes.fromhex("0003000167"), bytes.fromhex("000100000007"))) is None


def test_a_member_that_apache_kafka_wrote_was_cut_short() -> None:
    """It has a null struct behind a tag, written as 0; the whole coordinator did not load because of it."""
    value = b"\0\0\0\0\x02c\x0b/127.0.0.1\x02\x07source\x01\0\x04\x93\xe0\0\x01\0\x01\0"
    decoded = decode(CoordinatorRecord(bytes.fromhex("000500016700016d"), value))
    assert decoded is not None
    assert isinstance(decoded.value, MemberMetadataValue)
    assert decoded.value.classic_member_metadata is None
    assert decoded.value.subscribed_topic_names == ["source"]
    assert decoded.encode().value == value
