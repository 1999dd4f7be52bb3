"""Lists of records through our producer, read back by confluent-kafka."""

import pytest

from compat.support.everything import read_all
from compat.support.topics import make_topic
from headwater.base.errors import KafkaError
from headwater.client import Producer, UserError
from headwater.records.codec import murmur2

TIMEOUT_S = 60
COUNT = 3000


def test_lists_arrive_in_order_where_their_keys_belong(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 3)
    keys = [b"key-%d" % (number % 97) for number in range(COUNT)]
    values = [b"%d" % number for number in range(COUNT)]
    with Producer(bootstrap_servers=broker_address, transactional_id=topic) as producer:
        producer.init_transactions()
        for end in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            delivery = producer.send_many(topic, values, keys=keys, timestamps_ms=list(range(COUNT)))
            assert delivery.result(TIMEOUT_S).record_count == COUNT
            end()
    messages = read_all(broker_address, topic, COUNT)
    assert sorted(int(message.value()) for message in messages) == list(range(COUNT))
    newest = dict.fromkeys(range(3), -1)
    for message in messages:
        number = int(message.value())
        assert message.key() == keys[number]
        assert message.timestamp()[1] == number
        assert message.partition() == (murmur2(message.key()) & 0x7FFFFFFF) % 3
        assert number > newest[message.partition()]
        newest[message.partition()] = number


def test_sends_before_and_after_a_list_keep_their_order(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 1)
    with Producer(bootstrap_servers=broker_address, linger_ms=10_000) as producer:
        producer.send(topic, b"0")
        producer.send_many(topic, [b"1", b"2"])
        producer.send(topic, b"3")
        producer.flush()
    assert [message.value() for message in read_all(broker_address, topic, 4)] == [b"0", b"1", b"2", b"3"]


def test_a_record_that_is_too_large_is_refused_before_any_is_sent(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 1)
    with Producer(bootstrap_servers=broker_address, max_request_size=100_000) as producer:
        with pytest.raises(KafkaError, match=r"max\.request\.size"):
            producer.send_many(topic, [b"small", b"x" * 200_000])
        producer.send_many(topic, [b"x" * 50_000] * 5).result(TIMEOUT_S)
        with pytest.raises(KafkaError, match="none with number 1"):
            producer.send_many(topic, [b"a"], partition=1)
    with Producer(bootstrap_servers=broker_address, value_serializer="string") as producer:
        assert not producer.takes_many
        with pytest.raises(UserError, match="bytes as they are"):
            producer.send_many(topic, [b"a"])
    assert len(read_all(broker_address, topic, 5)) == 5
