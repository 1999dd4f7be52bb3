"""Producer and consumer of librdkafka at a steady rate, a process each: how long a record takes from one to the other.

python -m bench.latency_client consume BOOTSTRAP TOPIC PARTITIONS RATE SECONDS     (starts the producer by itself)
python -m bench.latency_client produce BOOTSTRAP TOPIC PARTITIONS RATE SECONDS

A value begins with the time at which it was given to the producer, by the clock that all processes of a machine share.
The records of the first second are not counted: connections are made, and leaders found. One JSON object on stdout.
"""

import json
import struct
import subprocess
import sys
import time

from confluent_kafka import OFFSET_END, Consumer, KafkaException, Producer, TopicPartition

from bench.client import value_of

STALL_S = 60
VALUE_BYTES = 100
WARM_S = 1
STAMP = struct.Struct(">qi")  # nanoseconds, number


def produce(bootstrap: str, topic: str, partitions: int, rate: int, seconds: int) -> None:
    client = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
    rest = value_of(VALUE_BYTES - STAMP.size)
    began = time.perf_counter()
    for number in range(rate * (WARM_S + seconds)):
        due = began + number / rate
        while (left := due - time.perf_counter()) > 0:
            client.poll(min(left, 0.001))
        stamp = STAMP.pack(time.perf_counter_ns(), number)
        client.produce(topic, stamp + rest, partition=number % partitions)
    if client.flush(STALL_S):
        raise SystemExit("records are not delivered")


def consume(bootstrap: str, topic: str, partitions: int, rate: int, seconds: int) -> dict[str, float]:
    client = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "bench", "log_level": 0, "fetch.error.backoff.ms": 5}
    )
    ends = [TopicPartition(topic, number, OFFSET_END) for number in range(partitions)]
    for end in ends:
        end.offset = client.get_watermark_offsets(end, timeout=STALL_S)[1]
    client.assign(ends)
    arguments = [bootstrap, topic, *map(str, (partitions, rate, seconds))]
    producer = subprocess.Popen([sys.executable, "-m", "bench.latency_client", "produce", *arguments])
    try:
        taken = received(client, rate * WARM_S, rate * (WARM_S + seconds))
    finally:
        producer.kill()
        producer.wait()
        client.close()
    taken.sort()
    return {"p50_ms": taken[len(taken) // 2] / 1e6, "p99_ms": taken[len(taken) * 99 // 100] / 1e6}


def received(client: Consumer, first: int, count: int) -> list[int]:
    """Nanoseconds that each record took, from number `first` on."""
    taken: list[int] = []
    for _ in range(count):
        message = client.poll(STALL_S)
        now = time.perf_counter_ns()
        if message is None or message.error():
            raise KafkaException("no record came" if message is None else message.error())
        stamp, number = STAMP.unpack_from(message.value() or b"")
        if number >= first:
            taken.append(now - stamp)
    return taken


def main(arguments: list[str]) -> None:
    what, bootstrap, topic, *rest = arguments
    partitions, rate, seconds = map(int, rest)
    if what == "produce":
        produce(bootstrap, topic, partitions, rate, seconds)
    else:
        print(json.dumps(consume(bootstrap, topic, partitions, rate, seconds)))


if __name__ == "__main__":
    main(sys.argv[1:])
