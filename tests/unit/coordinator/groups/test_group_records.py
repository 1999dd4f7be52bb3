"""Records of classic groups and offsets: the very bytes that Apache Kafka 4.3 writes, and all versions that it may have
left behind.
"""

import pytest

from headwater.coordinator.effects import CoordinatorRecord
from headwater.coordinator.records import group_records
from headwater.coordinator.records.group_records import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from headwater.wire.errors import DecodeError


def test_an_offset_commit_has_kafkas_bytes() -> None:
    value = OffsetCommitValue(offset=5, leader_epoch=2, metadata="m", commit_timestamp=9, topic_id=bytes(range(16)))
    record = group_records.offset_commit_record("g", "t", 3, value)
    assert record.key == bytes.fromhex("0001 0001 67 0001 74 00000003")
    assert record.value == bytes.fromhex(
        "0004 0000000000000005 00000002 02 6d 0000000000000009 01 00 10 000102030405060708090a0b0c0d0e0f"
    )


@pytest.mark.parametrize("metadata", ["", "m", "ü" * 63, "x" * 125, "x" * 126, "x" * 127, "x" * 128, "ü" * 200])
@pytest.mark.parametrize("topic_id", [bytes(16), bytes(range(16))])
def test_what_is_written_by_hand_is_what_the_general_encoder_writes(metadata: str, topic_id: bytes) -> None:
    value = OffsetCommitValue(
        offset=1 << 40, leader_epoch=-1, metadata=metadata, commit_timestamp=1 << 41, topic_id=topic_id
    )
    record = group_records.offset_commit_record("grüppe", "t", 1 << 20, value)
    key = group_records.OffsetCommitKey(group="grüppe", topic="t", partition=1 << 20)
    assert record.key == b"\0\1" + b"".join(key.encode(0))
    assert record.value == b"\0\4" + b"".join(value.encode(4))


def test_an_offset_commit_with_its_own_retention_is_written_as_version_1() -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9, expire_timestamp=12)
    record = group_records.offset_commit_record("g", "t", 3, value)
    assert record.value == bytes.fromhex("0001 0000000000000005 0001 6d 0000000000000009 000000000000000c")


def test_group_metadata_has_kafkas_bytes() -> None:
    member = MemberMetadata(
        member_id="m",
        group_instance_id="i",
        client_id="c",
        client_host="/h",
        rebalance_timeout=3,
        session_timeout=4,
        subscription=b"s",
        assignment=b"a",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="m",
        current_state_timestamp=8,
        members=[member],
    )
    record = group_records.group_metadata_record("g", value)
    assert record.key == bytes.fromhex("0002 0001 67")
    assert record.value == (
        bytes.fromhex("0003 0008")
        + b"consumer"
        + bytes.fromhex("00000007 0005")
        + b"range"
        + bytes.fromhex("0001 6d 0000000000000008 00000001 0001 6d 0001 69 0001 63 0002 2f68 00000003 00000004")
        + bytes.fromhex("00000001 73 00000001 61")
    )


@pytest.mark.parametrize("version", range(5))
def test_all_versions_of_offset_commits_are_read(version: int) -> None:
    value = OffsetCommitValue(offset=5, metadata="m", commit_timestamp=9)
    raw = version.to_bytes(2, "big") + b"".join(value.encode(version))
    for key_type in (0, 1):
        key = key_type.to_bytes(2, "big") + bytes.fromhex("0001 67 0001 74 00000003")
        read = group_records.read_record(CoordinatorRecord(key, raw))
        assert isinstance(read, group_records.OffsetCommitRecord)
        assert (read.key.group, read.key.topic, read.key.partition) == ("g", "t", 3)
        assert read.value == value


@pytest.mark.parametrize("version", range(5))
def test_all_versions_of_group_metadata_are_read(version: int) -> None:
    value = GroupMetadataValue(protocol_type="consumer", generation=7, members=[MemberMetadata(member_id="m")])
    raw = version.to_bytes(2, "big") + b"".join(value.encode(version))
    read = group_records.read_record(CoordinatorRecord(bytes.fromhex("0002 0001 67"), raw))
    assert isinstance(read, group_records.GroupMetadataRecord)
    assert read.value == value


def test_tombstones_have_no_value() -> None:
    for record in (group_records.offset_commit_tombstone("g", "t", 3), group_records.group_metadata_tombstone("g")):
        read = group_records.read_record(record)
        assert read is not None
        assert read.value is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"\0\x0b\0\x01g", b"\0\0"),  # a share group's
        (b"", None),
        (b"\0", None),
        (b"\0\x02\0\x01g", b"\0\x05new"),  # a version from the future
    ],
)
def test_what_is_not_ours_is_passed_over(key: bytes, value: bytes | None) -> None:
    assert group_records.read_record(CoordinatorRecord(key, value)) is None


def test_garbage_is_told_apart_from_what_is_not_ours() -> None:
    with pytest.raises(DecodeError):
        group_records.read_record(CoordinatorRecord(b"\0\x02\0\x01g", b"\0\x03\0\x10short"))
