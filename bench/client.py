"""A plain loop around librdkafka's Python client, run as a process of its own, so that its cost can be told apart.

    python -m bench.client produce PORT TOPIC RECORDS VALUE_BYTES CODEC
    python -m bench.client fill PORT TOPIC RECORDS VALUE_BYTES CODEC PARTITIONS
    python -m bench.client consume PORT TOPIC RECORDS PARTITIONS

BENCH_CLIENT may hold more settings of librdkafka, as a JSON object.

Prints one JSON object: records, bytes, seconds, and the CPU seconds of the busiest thread. A thread cannot be busier
than all the time, so records / busiest is what this client would reach with a broker that answered at once: its limit.
"""

import json
import os
import sys
import time
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

STALL_S = 30
MORE_SETTINGS = json.loads(os.environ.get("BENCH_CLIENT", "{}"))
FILL_BYTES = 250_000


def value_of(size: int) -> bytes:
    """Text that compresses about as JSON events do."""
    rows = (
        f'{{"id":{index * 7919 % 100003},"user":"u{index * 31 % 997}","amount":{index * 17 % 4001}}},'
        for index in range(999)
    )
    return "".join(rows).encode()[:size]


def thread_seconds() -> dict[str, float]:
    """CPU time of each thread of this process so far."""
    tasks = Path("/proc/self/task").iterdir()
    return {task.name: int((task / "schedstat").read_text().split()[0]) / 1e9 for task in tasks}


def busiest(before: dict[str, float]) -> float:
    return max(seconds - before.get(thread, 0.0) for thread, seconds in thread_seconds().items())


def produce(
    port: int, topic: str, records: int, size: int, codec: str, partitions: int | None = None
) -> dict[str, float]:
    """With `partitions`, in batches of the same size, whatever the broker: what is read then is the same for each."""
    per_batch = FILL_BYTES // size
    settings = {} if partitions is None else {"linger.ms": 10_000, "batch.num.messages": per_batch}
    failures: list[object] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "compression.type": codec,
            "queue.buffering.max.messages": 1_000_000,
            "delivery.report.only.error": True,
            "on_delivery": delivered,
            **settings,
            **MORE_SETTINGS,
        }
    )

    def where(index: int) -> dict[str, int]:
        return {} if partitions is None else {"partition": index // per_batch % partitions}

    value = value_of(size)
    before = thread_seconds()
    began = time.perf_counter()
    for index in range(records):
        while True:
            try:
                producer.produce(topic, value, **where(index))
                break
            except BufferError:
                producer.poll(0.01)
        if index % 10_000 == 0:
            producer.poll(0)
    left = producer.flush(STALL_S)
    seconds = time.perf_counter() - began
    if left or failures:
        raise KafkaException(f"{left} records were not delivered; errors: {failures[:1]}")
    return {"records": records, "bytes": records * size, "seconds": seconds, "busiest": busiest(before)}


def consume(port: int, topic: str, records: int, partitions: int) -> dict[str, float]:
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "group.id": "bench",
            "enable.auto.commit": False,
            # By default the client stops fetching for a second whenever 100,000 records are waiting.
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 5,
            **MORE_SETTINGS,
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    got = size = 0
    first = consumer.consume(1, STALL_S)  # the connection is up: from here on it is about speed
    began = time.perf_counter()
    before = thread_seconds()
    deadline = began + STALL_S
    for message in first:
        got, size = got + 1, size + len(message.value() or b"")
    while got < records and time.perf_counter() < deadline:
        for message in consumer.consume(min(10_000, records - got), 1.0):
            if message.error():
                raise KafkaException(message.error())
            got += 1
            size += len(message.value() or b"")
    seconds = time.perf_counter() - began
    busy_seconds = busiest(before)
    consumer.close()
    if got < records:
        raise KafkaException(f"{got} of {records} records came")
    return {"records": got, "bytes": size, "seconds": seconds, "busiest": busy_seconds}


def main(arguments: list[str]) -> None:
    if arguments[0] == "produce":
        port, topic, records, size, codec = arguments[1:]
        figures = produce(int(port), topic, int(records), int(size), codec)
    elif arguments[0] == "fill":
        port, topic, records, size, codec, partitions = arguments[1:]
        figures = produce(int(port), topic, int(records), int(size), codec, int(partitions))
    else:
        port, topic, records, partitions = arguments[1:]
        figures = consume(int(port), topic, int(records), int(partitions))
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[1:])
