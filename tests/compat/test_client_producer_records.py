"""Our producer, read back by others' clients: codecs, acks, partitions as Java's, many threads, tables, asyncio."""

import asyncio
import base64
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest

from compat.support.everything import read_all
from compat.support.java import Java
from compat.support.topics import make_topic
from headwater.client import AsyncProducer, KafkaError, Producer, ProducerRecord, UserError
from headwater.records.codec import murmur2

TIMEOUT_S = 45
PARTITIONS = 7


def test_partitions_are_javas_for_10_000_keys(broker_address: str, topic: str, java: Java) -> None:
    make_topic(broker_address, topic, PARTITIONS)
    keys = [b"%x" % (number * 7919) * (number % 5 + 1) for number in range(10_000)]
    encoded = [base64.b64encode(key).decode() for key in keys]
    answer = java.call(
        "produce",
        config={"bootstrap.servers": broker_address, "linger.ms": 20},
        topic=topic,
        partition=None,
        records=[{"key": key, "value": None, "headers": []} for key in encoded],
    )
    theirs = [sent["partition"] for sent in answer["sent"]]
    with Producer(bootstrap_servers=broker_address) as producer:
        deliveries = [producer.send(topic, None, key=key) for key in keys]
        producer.flush(TIMEOUT_S)
        ours = [delivery.result(0).partition for delivery in deliveries]
    assert ours == theirs
    assert Counter(ours).keys() == set(range(PARTITIONS))


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(broker_address: str, topic: str, acks: str, idempotent: bool) -> None:
    if idempotent and acks != "all":
        with pytest.raises(UserError):
            Producer(bootstrap_servers=broker_address, acks=acks, enable_idempotence=True)
        return
    make_topic(broker_address, topic)
    with Producer(bootstrap_servers=broker_address, acks=acks, enable_idempotence=idempotent) as producer:
        deliveries = [producer.send(topic, b"%d" % number) for number in range(500)]
        producer.flush(TIMEOUT_S)
    assert [message.value() for message in read_all(broker_address, topic, 500)] == [b"%d" % n for n in range(500)]
    offsets = [delivery.result().offset for delivery in deliveries]
    assert offsets == ([-1] * 500 if acks == "0" else list(range(500)))


def test_a_record_with_everything(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 3)
    now_ms = int(time.time() * 1000)
    told: list[Any] = []
    with Producer({"bootstrap.servers": broker_address, "compression.type": "zstd"}) as producer:
        record = ProducerRecord(topic, "välue", "key", 2, [("a", b"1"), ("none", None), ("a", b"2")], now_ms - 5000)
        metadata = producer.send(record, on_delivery=lambda error, where: told.append((error, where))).result(TIMEOUT_S)
        assert metadata == (topic, 2, 0, now_ms - 5000)
        assert told == [(None, metadata)]
        producer.send(topic, None, key=b"key", partition=2).result(TIMEOUT_S)
        assert len(producer.partitions_for(topic)) == 3
        with pytest.raises(KafkaError):
            producer.send(topic, b"v", partition=3)
        with pytest.raises(UserError):
            producer.send(topic, 5)
    with pytest.raises(KafkaError):
        producer.send(topic, b"late")
    first, tombstone = read_all(broker_address, topic, 2)
    assert (first.key(), first.value()) == (b"key", "välue".encode())
    assert first.headers() == [("a", b"1"), ("none", None), ("a", b"2")]
    assert first.timestamp() == (confluent_kafka.TIMESTAMP_CREATE_TIME, now_ms - 5000)
    assert tombstone.value() is None


def test_many_threads_keep_their_own_order(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 3)
    threads, each = 8, 2000
    failed: list[BaseException] = []
    with Producer(bootstrap_servers=broker_address, batch_size=4000, buffer_memory=200_000) as producer:

        def work(name: int) -> None:
            try:
                for number in range(each):
                    delivery = producer.send(topic, b"%d" % number, key=b"%d" % name)
                    if number % 500 == 0:
                        delivery.result(TIMEOUT_S)
            except BaseException as error:  # noqa: BLE001 (the test tells it)
                failed.append(error)

        workers = [threading.Thread(target=work, args=(name,)) for name in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        producer.flush(TIMEOUT_S)
        assert producer.metrics()["record-send-total"] == threads * each
        assert producer.metrics()["buffer-available-bytes"] == 200_000
    assert not failed
    by_thread: dict[bytes, list[int]] = {}
    for message in read_all(broker_address, topic, threads * each):
        by_thread.setdefault(message.key(), []).append(int(message.value()))
    assert by_thread == {b"%d" % name: list(range(each)) for name in range(threads)}


def test_callbacks_may_send_but_not_wait(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)
    refused: list[UserError] = []
    done = threading.Event()
    with Producer(bootstrap_servers=broker_address) as producer:

        def again(_error: KafkaError | None, _where: object) -> None:
            producer.send(topic, b"from the callback")
            try:
                producer.flush()
            except UserError as error:
                refused.append(error)
            done.set()

        producer.send(topic, b"first", on_delivery=again)
        assert done.wait(TIMEOUT_S)  # the caretaker takes the answer: nobody waits for it here
    assert len(refused) == 1
    assert [message.value() for message in read_all(broker_address, topic, 2)] == [b"first", b"from the callback"]


def test_a_topic_that_is_not_there(broker_address: str, topic: str) -> None:
    producer = Producer(bootstrap_servers=broker_address, max_block_ms=700, allow_auto_create_topics=False)
    began = time.monotonic()
    with producer, pytest.raises(KafkaError) as refused:
        producer.send(topic, b"v")
    assert topic in str(refused.value)
    assert "max.block.ms" in str(refused.value)
    assert time.monotonic() - began < 60  # max.block.ms by default


def test_a_topic_made_on_demand(broker_address: str, topic: str) -> None:
    with Producer(bootstrap_servers=broker_address) as producer:
        assert producer.send(topic, b"v").result(TIMEOUT_S).offset == 0


def test_a_batch_that_the_topic_finds_too_large_is_split(
    broker_address: str, topic: str, create_topic: Callable[..., None]
) -> None:
    create_topic(topic, {"max.message.bytes": "2000"})
    with Producer(bootstrap_servers=broker_address, linger_ms=50) as producer:
        deliveries = [producer.send(topic, b"%04d" % number * 50) for number in range(100)]
        producer.flush(TIMEOUT_S)
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(100))
        assert producer.metrics()["batch-split-total"] >= 1
        with pytest.raises(KafkaError):
            producer.send(topic, b"v" * 3000).result(TIMEOUT_S)
        assert producer.send(topic, b"after it").result(TIMEOUT_S).offset == 100
    values = [message.value()[:4] for message in read_all(broker_address, topic, 101)]
    assert values[:100] == [b"%04d" % number for number in range(100)]


def test_partitioners(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 4)
    with Producer(bootstrap_servers=broker_address, partitioner_class="round_robin") as producer:
        found = [producer.send(topic, b"v", key=b"k").result(TIMEOUT_S).partition for _ in range(8)]
        assert sorted(found) == [0, 0, 1, 1, 2, 2, 3, 3]

    def last(topic: str, key_bytes: Any, key: Any, value_bytes: Any, value: Any, count: int) -> int:
        return count - 1 if key == "Banana" else murmur2(key_bytes) % (count - 1)

    with Producer(bootstrap_servers=broker_address, partitioner_class=last) as producer:
        assert producer.send(topic, b"v", key="Banana").result(TIMEOUT_S).partition == 3
        assert producer.send(topic, b"v", key="Apple").result(TIMEOUT_S).partition < 3
    slip = Producer(bootstrap_servers=broker_address, partitioner_class=lambda *_: 4)
    with slip, pytest.raises(UserError, match="numbered from 0 to 3"):
        slip.send(topic, b"v", key="Banana")
    with Producer(bootstrap_servers=broker_address, batch_size=500, linger_ms=0) as producer:
        sticky = {producer.send(topic, b"v" * 100).result(TIMEOUT_S).partition for _ in range(40)}
        assert sticky == {0, 1, 2, 3}


def test_serializers(broker_address: str, topic: str) -> None:
    class Upper:
        def serialize(self, topic: str, data: str, headers: list[Any]) -> bytes:
            headers.append(("form", b"upper"))
            return data.upper().encode()

    with Producer(bootstrap_servers=broker_address, value_serializer=json.dumps, key_serializer=Upper()) as producer:
        with pytest.raises(UserError):
            producer.send(topic, {1, 2}, key="k")
        # json.dumps gives text; text is taken in UTF-8
        producer.send(topic, {"a": 1}, key="k").result(TIMEOUT_S)
    (message,) = read_all(broker_address, topic, 1)
    assert (message.key(), json.loads(message.value()), message.headers()) == (b"K", {"a": 1}, [("form", b"upper")])


def test_asyncio(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic, 2)

    async def work() -> None:
        async with AsyncProducer(bootstrap_servers=broker_address) as producer:
            assert len(await producer.partitions_for(topic)) == 2
            deliveries = [await producer.send(topic, b"%d" % number, partition=0) for number in range(1000)]
            found = await asyncio.gather(*deliveries)
            assert [metadata.offset for metadata in found] == list(range(1000))
            for number in range(20):
                assert (await (await producer.send(topic, b"%d" % number, partition=1))).offset == number
            await producer.flush(TIMEOUT_S)
            assert producer.metrics()["record-send-total"] == 1020

    asyncio.run(work())
    assert len(read_all(broker_address, topic, 1020)) == 1020


def test_a_delivery_of_the_synchronous_producer_is_awaitable(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)

    async def work(producer: Producer) -> int:
        return (await producer.send(topic, b"v")).offset

    with Producer(bootstrap_servers=broker_address, linger_ms=600_000, delivery_timeout_ms=1_200_000) as producer:
        assert asyncio.run(asyncio.wait_for(work(producer), 2 * TIMEOUT_S)) == 0  # somebody waits: it does not linger


def test_close_sends_what_is_left_and_fails_the_rest(broker_address: str, topic: str) -> None:
    make_topic(broker_address, topic)
    producer = Producer(bootstrap_servers=broker_address, linger_ms=60_000, delivery_timeout_ms=120_000)
    delivery = producer.send(topic, b"v")
    producer.close()
    assert delivery.result(0).offset == 0
    producer.close()


def test_a_closed_producer_says_so_about_transactions_too() -> None:
    producer = Producer(bootstrap_servers="localhost:1", transactional_id="t")
    producer.close()
    for call in (producer.init_transactions, producer.commit_transaction, producer.abort_transaction):
        with pytest.raises(KafkaError, match="the producer is closed"):
            call()
