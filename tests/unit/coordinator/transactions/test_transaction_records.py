"""Records of `__transaction_state`: the bytes that Apache Kafka 4.3 itself makes of the same values
(TransactionLog).
"""

import pytest

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.coordinator.effects import CoordinatorRecord
from headwater.coordinator.records.transaction_records import (
    TransactionLogValue,
    from_schema,
    packed_partitions,
    packed_value,
    read_transaction_record,
    to_schema,
    transaction_key,
    transaction_record,
)

KEY = bytes.fromhex("0000000574782dc3a9")
PREPARE_COMMIT = {  # by the version of the value
    0: "000000000000000003e87fff0000ea6002000000010001740000000200000000000000010000018bcfe5687b0000018bcfe56800",
    1: "000100000000000003e87fff0000ea6002020274030000000000000001000000018bcfe5687b0000018bcfe568000300080000000"
    "0000003e7010800000000000003e902020002",
}
EMPTY = "0001000000000000000700000000000100000000000000000005ffffffffffffffff0100080000000000000007"


def prepare_commit() -> TransactionLogValue:
    return TransactionLogValue(
        producer_id=1000,
        previous_producer_id=999,
        next_producer_id=1001,
        producer_epoch=32767,
        transaction_timeout_ms=60000,
        transaction_status=2,
        transaction_partitions=to_schema({TopicPartition("t", 1), TopicPartition("t", 0)}),
        transaction_last_update_timestamp_ms=1700000000123,
        transaction_start_timestamp_ms=1700000000000,
        client_transaction_version=2,
    )


@pytest.mark.parametrize("version", [0, 1])
def test_a_transaction_in_kafkas_bytes(version: int) -> None:
    record = transaction_record("tx-é", prepare_commit(), version)
    assert record.key == KEY
    assert record.value == bytes.fromhex(PREPARE_COMMIT[version])


PARTITIONS = [
    None,
    set(),
    {TopicPartition("t", 1), TopicPartition("t", 0), TopicPartition("ü" * 100, 5)},
    {TopicPartition(f"topic-{index % 200}", index) for index in range(900)},
]


@pytest.mark.parametrize("partitions", PARTITIONS, ids=["null", "none", "two topics", "many"])
@pytest.mark.parametrize("tags", [(-1, -1, 0), (999, -1, 0), (-1, 1001, 2), (999, 1001, 2)])
def test_what_is_packed_by_hand_is_what_the_general_encoder_writes(
    partitions: set[TopicPartition] | None, tags: tuple[int, int, int]
) -> None:
    previous_producer_id, next_producer_id, client_transaction_version = tags
    packed = packed_value(
        producer_id=1 << 40,
        previous_producer_id=previous_producer_id,
        next_producer_id=next_producer_id,
        producer_epoch=-1,
        timeout_ms=60000,
        status=4,
        partitions=None if partitions is None else packed_partitions(frozenset(partitions)),
        last_update_ms=1700000000123,
        start_ms=-1,
        client_transaction_version=client_transaction_version,
    )
    value = TransactionLogValue(
        producer_id=1 << 40,
        previous_producer_id=previous_producer_id,
        next_producer_id=next_producer_id,
        producer_epoch=-1,
        transaction_timeout_ms=60000,
        transaction_status=4,
        transaction_partitions=None if partitions is None else to_schema(partitions),
        transaction_last_update_timestamp_ms=1700000000123,
        transaction_start_timestamp_ms=-1,
        client_transaction_version=client_transaction_version,
    )
    assert CoordinatorRecord(transaction_key("tx-é"), packed) == transaction_record("tx-é", value)


def test_version_1_brings_everything_back_and_version_0_what_it_has() -> None:
    for version in (0, 1):
        record = read_transaction_record(transaction_record("tx-é", prepare_commit(), version))
        assert record is not None
        assert record.transactional_id == "tx-é"
        expected = prepare_commit()
        if version == 0:
            expected.previous_producer_id = expected.next_producer_id = -1
            expected.client_transaction_version = 0
        assert record.value == expected


def test_an_id_without_transaction_has_no_list_of_partitions() -> None:
    value = TransactionLogValue(
        producer_id=7,
        previous_producer_id=7,
        transaction_timeout_ms=1,
        transaction_last_update_timestamp_ms=5,
        transaction_start_timestamp_ms=-1,
    )
    assert transaction_record("x", value).value == bytes.fromhex(EMPTY)
    assert from_schema(value.transaction_partitions) == set()


def test_a_tombstone_has_only_its_key() -> None:
    record = transaction_record("tx-é", None)
    assert record == CoordinatorRecord(KEY, None)
    read = read_transaction_record(record)
    assert read is not None
    assert read.value is None


def test_versions_of_the_future_are_left_alone() -> None:
    assert read_transaction_record(CoordinatorRecord(b"\0\1" + KEY[2:], None)) is None
    assert read_transaction_record(CoordinatorRecord(KEY, b"\0\2" + bytes(40))) is None


@pytest.mark.parametrize(
    "record",
    [
        CoordinatorRecord(b"", None),
        CoordinatorRecord(KEY, b"\0"),
        CoordinatorRecord(KEY[:-1], None),
        CoordinatorRecord(KEY, bytes.fromhex(EMPTY)[:-1]),
    ],
)
def test_half_a_record_is_refused(record: CoordinatorRecord) -> None:
    with pytest.raises(KafkaError):
        read_transaction_record(record)
