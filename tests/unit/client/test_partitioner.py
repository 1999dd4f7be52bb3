"""Partitions are chosen as Java's client chooses them: checked against kafka-python's own port of murmur2."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as their_murmur2

from headwater.client.partitioner import RoundRobin, Sticky, murmur2, partition_for_key


@given(st.binary(max_size=200))
def test_murmur2_is_that_of_kafka_python(data: bytes) -> None:
    assert murmur2(data) == their_murmur2(data) & 0xFFFFFFFF


@pytest.mark.parametrize(
    ("key", "signed_hash"),
    [  # from Apache Kafka's own UtilsTest
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_javas_values(key: bytes, signed_hash: int) -> None:
    assert murmur2(key) == signed_hash & 0xFFFFFFFF


@given(st.binary(), st.integers(1, 1000))
def test_a_key_always_goes_to_the_same_partition(key: bytes, count: int) -> None:
    assert partition_for_key(key, count) == (their_murmur2(key) & 0x7FFFFFFF) % count


def test_round_robin_takes_turns() -> None:
    partitioner = RoundRobin()
    assert [partitioner.choose([0, 2, 3]) for _ in range(5)] == [0, 2, 3, 0, 2]


def test_sticky_stays_until_the_batch_is_sent_and_then_goes_elsewhere() -> None:
    partitioner = Sticky(below=lambda _: 0)
    assert [partitioner.choose([0, 1, 2]) for _ in range(3)] == [0, 0, 0]
    partitioner.batch_done()
    assert [partitioner.choose([0, 1, 2]) for _ in range(2)] == [1, 1]


def test_sticky_leaves_a_partition_that_lost_its_leader() -> None:
    partitioner = Sticky(below=lambda _: 0)
    assert partitioner.choose([0, 1]) == 0
    assert partitioner.choose([1]) == 1


def test_sticky_with_one_partition_has_no_choice() -> None:
    partitioner = Sticky()
    partitioner.choose([0])
    partitioner.batch_done()
    assert partitioner.choose([0]) == 0
