"""Writing a topic: our `send` and `send_arrow` beside confluent-kafka, aiokafka and kafka-python.

Each function writes `count` records of `size` bytes without a key, with acks=all and its library's own defaults, and
gives the seconds from the first record to the answer to the last one; connecting and the topic's metadata are before
that for all (a first record, which is counted). Each is meant to run in a process of its own (`python -m
bench.clients_produce WRITER BOOTSTRAP TOPIC PARTITIONS COUNT SIZE`), which prints records/s. Values are made before:
bytes for those that take bytes, a column for the one that takes columns. librdkafka and kafka-python are told to take
as many records into their buffers as they hold, so that they do not stop for that.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.client import value_of

TIMEOUT_S = 60.0


def send(bootstrap: str, topic: str, count: int, size: int) -> float:
    from headwater.client import Producer

    value = value_of(size)
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, value).result(TIMEOUT_S)
        began = time.perf_counter()
        for _ in range(count - 1):
            producer.send(topic, value)
        producer.flush(TIMEOUT_S)
        taken = time.perf_counter() - began
        assert producer.metrics()["record-send-total"] == count
        return taken


def send_async(bootstrap: str, topic: str, count: int, size: int) -> float:
    from headwater.client import AsyncProducer

    async def main() -> float:
        value = value_of(size)
        async with AsyncProducer(bootstrap_servers=bootstrap) as producer:
            await (await producer.send(topic, value))
            began = time.perf_counter()
            for _ in range(count - 1):
                await producer.send(topic, value)
            await producer.flush(TIMEOUT_S)
            return time.perf_counter() - began

    return asyncio.run(main())


def send_arrow(bootstrap: str, topic: str, count: int, size: int) -> float:
    import pyarrow as pa

    from headwater.client import Producer

    value = value_of(size)
    table = pa.table({"value": pa.array([value] * (count - 1), pa.binary())})
    with Producer(bootstrap_servers=bootstrap) as producer:
        producer.send(topic, value).result(TIMEOUT_S)
        began = time.perf_counter()
        written = producer.send_arrow(table, topic).result(TIMEOUT_S)
        taken = time.perf_counter() - began
        assert written.record_count == count - 1
        return taken


def confluent(bootstrap: str, topic: str, count: int, size: int) -> float:
    import confluent_kafka

    value = value_of(size)
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 1_000_000})
    producer.produce(topic, value)
    assert producer.flush(TIMEOUT_S) == 0
    began = time.perf_counter()
    for number in range(count - 1):
        while True:
            try:
                producer.produce(topic, value)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    return time.perf_counter() - began


def kafka_python(bootstrap: str, topic: str, count: int, size: int) -> float:
    import kafka

    value = value_of(size)
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
    producer.send(topic, value).get(TIMEOUT_S)
    began = time.perf_counter()
    for _ in range(count - 1):
        producer.send(topic, value)
    producer.flush(TIMEOUT_S)
    taken = time.perf_counter() - began
    producer.close()
    return taken


def aiokafka(bootstrap: str, topic: str, count: int, size: int) -> float:
    import aiokafka as library

    async def main() -> float:
        value = value_of(size)
        producer = library.AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", linger_ms=5)
        await producer.start()
        await producer.send_and_wait(topic, value)
        began = time.perf_counter()
        for _ in range(count - 1):
            await producer.send(topic, value)
        await producer.flush()
        taken = time.perf_counter() - began
        await producer.stop()
        return taken

    return asyncio.run(main())


WRITERS: dict[str, Callable[[str, str, int, int], float]] = {
    "send": send,
    "send (asyncio)": send_async,
    "send_arrow": send_arrow,
    "confluent-kafka": confluent,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
}


def main(arguments: list[str]) -> Any:
    writer, bootstrap, topic, _partitions, count, size = arguments
    seconds = WRITERS[writer](bootstrap, topic, int(count), int(size))
    print(round(int(count) / seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
