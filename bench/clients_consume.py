"""Reading a topic from beginning to end: our `poll` and `poll_arrow` beside confluent-kafka, aiokafka and kafka-python.

Each function reads `count` records of all partitions of a topic by assignment, without a group, and gives the seconds
from the first poll to the last record; connecting and the look-up of the offsets are in it for all. Each is meant to
run in a process of its own (`python -m bench.clients_consume READER BOOTSTRAP TOPIC PARTITIONS COUNT`), which prints
records/s. Every reader touches each value (its length is summed), so that none gets away with handing out promises.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any

TIMEOUT_S = 60.0


def poll(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    from headwater.client import Consumer, TopicPartition

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        began, seen, size_bytes = time.perf_counter(), 0, 0
        while seen < count:
            records = consumer.poll(TIMEOUT_S)
            assert records, "nothing came"
            for record in records:
                size_bytes += len(record.value)
            seen += len(records)
        return time.perf_counter() - began


def poll_async(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    from headwater.client import AsyncConsumer, TopicPartition

    async def main() -> float:
        async with AsyncConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
            began, seen, size_bytes = time.perf_counter(), 0, 0
            while seen < count:
                records = await consumer.poll(TIMEOUT_S)
                assert records, "nothing came"
                for record in records:
                    size_bytes += len(record.value)
                seen += len(records)
            return time.perf_counter() - began

    return asyncio.run(main())


def poll_arrow(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    import pyarrow.compute as pc

    from headwater.client import Consumer, TopicPartition

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        began, seen, size_bytes = time.perf_counter(), 0, 0
        while seen < count:
            batch = consumer.poll_arrow(TIMEOUT_S)
            assert batch.num_rows, "nothing came"
            size_bytes += pc.sum(pc.binary_length(batch.column("value"))).as_py()
            seen += batch.num_rows
        return time.perf_counter() - began


def confluent(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    """`consume` in large lots, and a queue that does not pause: its quickest way."""
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            # By default the client stops fetching for a second whenever 100,000 records are waiting.
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 5,
        }
    )
    places = [
        confluent_kafka.TopicPartition(topic, number, confluent_kafka.OFFSET_BEGINNING) for number in range(partitions)
    ]
    consumer.assign(places)
    began, seen, size_bytes = time.perf_counter(), 0, 0
    while seen < count:
        messages = consumer.consume(min(10_000, count - seen), TIMEOUT_S)
        assert messages, "nothing came"
        for message in messages:
            size_bytes += len(message.value())
        seen += len(messages)
    taken = time.perf_counter() - began
    consumer.close()
    return taken


def kafka_python(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    import kafka

    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", group_id=None)
    consumer.assign([kafka.TopicPartition(topic, number) for number in range(partitions)])
    began, seen, size_bytes = time.perf_counter(), 0, 0
    while seen < count:
        found = consumer.poll(timeout_ms=round(TIMEOUT_S * 1000), max_records=500)
        assert found, "nothing came"
        for records in found.values():
            for record in records:
                size_bytes += len(record.value)
            seen += len(records)
    taken = time.perf_counter() - began
    consumer.close()
    return taken


def aiokafka(bootstrap: str, topic: str, partitions: int, count: int) -> float:
    import aiokafka as library

    async def main() -> float:
        consumer = library.AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([library.TopicPartition(topic, number) for number in range(partitions)])
        began, seen, size_bytes = time.perf_counter(), 0, 0
        while seen < count:
            found = await consumer.getmany(timeout_ms=round(TIMEOUT_S * 1000), max_records=500)
            assert found, "nothing came"
            for records in found.values():
                for record in records:
                    size_bytes += len(record.value)
                seen += len(records)
        taken = time.perf_counter() - began
        await consumer.stop()
        return taken

    return asyncio.run(main())


READERS: dict[str, Callable[[str, str, int, int], float]] = {
    "poll": poll,
    "poll (asyncio)": poll_async,
    "poll_arrow": poll_arrow,
    "confluent-kafka": confluent,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
}


def main(arguments: list[str]) -> Any:
    reader, bootstrap, topic, partitions, count = arguments
    seconds = READERS[reader](bootstrap, topic, int(partitions), int(count))
    print(round(int(count) / seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
