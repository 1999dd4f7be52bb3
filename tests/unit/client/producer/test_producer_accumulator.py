"""How records gather: when a batch closes, where a record goes, what counts as memory."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.producer.accumulator import Accumulator
from headwater.client.producer.batch import ProducerBatch
from headwater.client.producer.queues import TopicQueues
from headwater.client.types import Partition, Topic
from headwater.records.codec import murmur2
from unit.client.producer.producer_fakes import Face

BATCH_BYTES = 300
VALUE = b"v" * 100


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def _accumulator(clock: Clock, *, buffer_bytes: int = 10_000, linger: float = 0.005) -> Accumulator:
    return Accumulator(
        Face(), clock, batch_bytes=BATCH_BYTES, buffer_bytes=buffer_bytes, record_bytes_max=1000, linger=linger
    )


def _topic(leaders: list[int], below: int = 0) -> TopicQueues:
    topic = TopicQueues("t", lambda n: min(below, n - 1))
    topic.apply(_metadata(leaders))
    return topic


def _metadata(leaders: list[int]) -> Topic:
    partitions = [Partition("t", at, leader, 0, [leader], [leader], []) for at, leader in enumerate(leaders)]
    return Topic("t", bytes(16), False, partitions)


def _batch(
    accumulator: Accumulator, topic: TopicQueues, partition: int | None, key: bytes | None = None
) -> ProducerBatch:
    delivery = accumulator.append(topic, partition, 1, key, VALUE)
    assert delivery is not None
    return delivery.current()


def test_records_share_a_batch_until_it_is_full() -> None:
    accumulator, topic = _accumulator(Clock()), _topic([0])
    batches = [_batch(accumulator, topic, 0) for _ in range(5)]
    assert batches[0] is batches[1]
    assert batches[1] is not batches[2]  # 61 bytes of header and two records of about 107
    assert [queue.partition for queue in accumulator.closed] == [0, 0]
    assert list(topic.queues[0].waiting) == [batches[0], batches[2]]
    assert topic.queues[0].open is batches[4]


def test_a_batch_lingers_and_then_closes() -> None:
    clock = Clock()
    accumulator, topic = _accumulator(clock), _topic([0, 0])
    _batch(accumulator, topic, 0)
    clock.now += 0.003
    _batch(accumulator, topic, 1)
    assert accumulator.next_due_at() == pytest.approx(50.005)
    accumulator.close_due(50.004)
    assert not accumulator.closed
    accumulator.close_due(50.0051)
    assert [queue.partition for queue in accumulator.closed] == [0]
    assert accumulator.next_due_at() == pytest.approx(50.008)


def test_close_all_leaves_nothing_open() -> None:
    accumulator, topic = _accumulator(Clock()), _topic([0, 0])
    _batch(accumulator, topic, 0)
    _batch(accumulator, topic, 1)
    accumulator.close_all()
    assert [queue.open for queue in topic.queues] == [None, None]
    assert accumulator.next_due_at() is None


def test_keys_go_where_java_puts_them() -> None:
    accumulator, topic = _accumulator(Clock(), buffer_bytes=1 << 20), _topic([0] * 7)
    for number in range(50):
        key = b"key-%d" % number
        assert _batch(accumulator, topic, None, key).queue.partition == (murmur2(key) & 0x7FFFFFFF) % 7


def test_without_a_key_a_partition_is_kept_for_one_batch() -> None:
    accumulator, topic = _accumulator(Clock(), buffer_bytes=1 << 20), _topic([0, 0, 0])
    partitions = [_batch(accumulator, topic, None).queue.partition for _ in range(6)]
    assert partitions[0] == partitions[1]
    assert partitions[1] != partitions[2]
    assert partitions[2] == partitions[3]
    assert partitions[3] != partitions[4]


def test_the_sticky_choice_avoids_long_queues_and_lost_leaders() -> None:
    accumulator, topic = _accumulator(Clock(), buffer_bytes=1 << 20), _topic([0, 0, 0])
    for _ in range(9):
        _batch(accumulator, topic, 1)
    topic.sticky = topic.queues[0]
    chosen = []
    for dice in range(6):  # weights: partition 1 has 4 waiting, so 1; partition 2 has none, so 5
        topic._below = lambda n, dice=dice: min(dice, n - 1)
        topic.sticky = topic.queues[0]
        chosen.append(topic.switch().partition)
    assert chosen == [1, 2, 2, 2, 2, 2]
    topic.apply(_metadata([0, -1, -1]))
    assert topic.switch().partition == 0


def test_memory_is_counted_until_a_batch_is_done() -> None:
    accumulator, topic = _accumulator(Clock(), buffer_bytes=200), _topic([0])
    batch = _batch(accumulator, topic, 0)
    assert accumulator.used_bytes == batch.size_bytes > 100
    _batch(accumulator, topic, 0)
    assert accumulator.append(topic, 0, 1, None, VALUE) is None
    accumulator.close_all()
    accumulator.finish(batch, 0, -1, None)
    assert accumulator.used_bytes == 0
    assert accumulator.append(topic, 0, 1, None, VALUE) is not None


def test_memory_of_a_batch_on_the_wire_is_not_free() -> None:
    accumulator, topic = _accumulator(Clock()), _topic([0])
    batch = _batch(accumulator, topic, 0)
    accumulator.close_all()
    batch.on_wire = True
    accumulator.finish(batch, -1, -1, KafkaError(ErrorCode.REQUEST_TIMED_OUT))
    assert accumulator.used_bytes == batch.size_bytes
    accumulator.release(batch)
    assert accumulator.used_bytes == 0


def test_a_record_larger_than_a_batch_goes_alone_and_one_larger_than_a_request_not_at_all() -> None:
    accumulator, topic = _accumulator(Clock()), _topic([0])
    first = _batch(accumulator, topic, 0)
    delivery = accumulator.append(topic, 0, 1, None, b"v" * 500)
    assert delivery is not None
    assert delivery.current() is not first
    with pytest.raises(KafkaError) as refused:
        accumulator.append(topic, 0, 1, None, b"v" * 1000)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert accumulator.used_bytes == sum(batch.size_bytes for batch in accumulator.incomplete())
    assert _batch(accumulator, topic, 0).count == 1


def test_deliveries_follow_the_parts_of_a_split_batch() -> None:
    accumulator, topic = _accumulator(Clock()), _topic([0])
    deliveries = [accumulator.append(topic, 0, stamp, None, b"v") for stamp in range(4)]
    called: list[int] = []
    whole = topic.queues[0].open
    assert whole is not None
    last = deliveries[3]
    assert last is not None
    assert accumulator.call_back(last, lambda delivery: called.append(delivery.metadata().offset))
    accumulator.close_all()
    parts = [ProducerBatch(topic.queues[0], 50.0, Face(), BATCH_BYTES) for _ in range(2)]
    for part in parts:
        part.count = 2
    accumulator.split(whole, parts)
    assert accumulator.incomplete() == parts
    for part, offset in zip(parts, (100, 200), strict=True):
        for delivery, callback in accumulator.finish(part, offset, -1, None):
            callback(delivery)
    assert [delivery.metadata()[2:] for delivery in deliveries if delivery] == [(100, 0), (101, 1), (200, 2), (201, 3)]
    assert called == [201]


def test_more_partitions_are_used_when_metadata_tells_of_them() -> None:
    accumulator, topic = _accumulator(Clock()), _topic([0])
    assert topic.apply(_metadata([0, 1])) == [topic.queues[1]]
    assert topic.count == 2
    assert _batch(accumulator, topic, 1).queue.leader == 1


def test_ignored_keys_are_spread_batch_by_batch() -> None:
    accumulator, topic = _accumulator(Clock(), buffer_bytes=1 << 20), _topic([0, 0, 0])
    partitions = []
    for _ in range(6):
        partition = accumulator.sticky_partition(topic, len(VALUE) + 7)
        partitions.append(_batch(accumulator, topic, partition, b"key").queue.partition)
    assert partitions[0] == partitions[1] != partitions[2] == partitions[3] != partitions[4]


def test_an_older_leader_is_not_believed_unless_the_topic_is_another() -> None:
    topic = _topic([0])
    topic.queues[0].leader, topic.queues[0].leader_epoch = 1, 5
    assert topic.apply(_metadata([0])) == []
    assert topic.queues[0].leader == 1
    assert topic.apply(_metadata([0])._replace(topic_id=b"x" * 16)) == [topic.queues[0]]
    assert (topic.queues[0].leader, topic.queues[0].leader_epoch) == (0, 0)
