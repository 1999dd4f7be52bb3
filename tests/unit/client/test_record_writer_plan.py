"""Records into batches per partition."""

import pytest

from headwater.base.errors import KafkaError
from headwater.client.partitioner import RoundRobin, Sticky, partition_for_key
from headwater.client.record_writer import BATCH_BYTES_MAX, plan
from headwater.client.types import OutgoingRecord, Partition, Topic


def _topic(leaders: list[int]) -> Topic:
    return Topic(
        "t", bytes(16), False, [Partition("t", at, leader, 0, [], [], []) for at, leader in enumerate(leaders)]
    )


def test_keys_and_named_partitions_decide_and_the_rest_takes_turns() -> None:
    records = [
        OutgoingRecord(b"a", key=b"k"),
        OutgoingRecord(b"b", partition=2),
        OutgoingRecord(b"c"),
        OutgoingRecord(b"d"),
    ]
    queues = plan(records, _topic([1, 1, 1]), RoundRobin(), 5)
    where = {index: partition for partition, queue in queues.items() for batch in queue for index in batch.indexes}
    assert where == {0: partition_for_key(b"k", 3), 1: 2, 2: 0, 3: 1}


def test_records_without_a_key_avoid_partitions_without_a_leader() -> None:
    queues = plan([OutgoingRecord(b"x")] * 4, _topic([-1, 1, -1]), RoundRobin(), 5)
    assert list(queues) == [1]


def test_batches_keep_order_and_their_limit() -> None:
    value = bytes(BATCH_BYTES_MAX // 3)
    queues = plan([OutgoingRecord(value, partition=0)] * 7, _topic([1]), RoundRobin(), 5)
    assert [batch.indexes for batch in queues[0]] == [[0, 1], [2, 3], [4, 5], [6]]
    assert [record.offset for record in queues[0][1].records] == [0, 1]


def test_a_record_above_the_limit_goes_alone() -> None:
    records = [OutgoingRecord(b"a", partition=0), OutgoingRecord(bytes(2 * BATCH_BYTES_MAX), partition=0)]
    assert [batch.indexes for batch in plan(records, _topic([1]), RoundRobin(), 5)[0]] == [[0], [1]]


def test_timestamps_are_now_unless_given() -> None:
    records = [OutgoingRecord(b"a", partition=0), OutgoingRecord(b"b", partition=0, timestamp_ms=7)]
    assert [record.timestamp for record in plan(records, _topic([1]), RoundRobin(), 5)[0][0].records] == [5, 7]


def test_sticky_moves_on_after_a_batch() -> None:
    partitioner = Sticky(below=lambda _: 0)
    first = plan([OutgoingRecord(b"a")] * 3, _topic([1, 1]), partitioner, 5)
    second = plan([OutgoingRecord(b"a")] * 3, _topic([1, 1]), partitioner, 5)
    assert (list(first), list(second)) == ([0], [1])


def test_a_partition_that_does_not_exist_is_refused() -> None:
    with pytest.raises(KafkaError, match="2 partitions, none with number 2"):
        plan([OutgoingRecord(b"a", partition=2)], _topic([1, 1]), RoundRobin(), 5)
