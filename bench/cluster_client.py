"""The clients of the rows about clusters, in a process of their own: librdkafka produces, and tells when what was
acknowledged.

python -m bench.cluster_client throughput BOOTSTRAP TOPIC PARTITIONS RECORDS SIZE ACKS
python -m bench.cluster_client latency BOOTSTRAP TOPIC PARTITIONS RATE SECONDS ACKS
python -m bench.cluster_client watch BOOTSTRAP TOPIC PARTITION     (a line per acknowledged record, until it is ended)
"""

import json
import sys
import time

from confluent_kafka import KafkaError, Message, Producer

from bench.client import value_of
from headwater.client import Producer as HeadwaterProducer

STALL_S = 60
LATENCY_VALUE_BYTES = 100
QUICK = {
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 20,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 20,
    "linger.ms": 0,
}


def producer(bootstrap: str, acks: str, **more: object) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "acks": acks, "log_level": 0, **more})


def throughput(bootstrap: str, topic: str, partitions: int, records: int, size: int, acks: str) -> dict[str, float]:
    client = producer(bootstrap, acks, **{"linger.ms": 5, "queue.buffering.max.messages": 500_000})
    value = value_of(size)
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    for partition in range(partitions):  # leaders and connections are known
        client.produce(topic, value, partition=partition, on_delivery=delivered)
    client.flush(STALL_S)
    began = time.perf_counter()
    for number in range(records):
        while True:
            try:
                client.produce(topic, value, partition=number % partitions, on_delivery=delivered)
                break
            except BufferError:
                client.poll(0.01)
        if number % 1000 == 0:
            client.poll(0)
    left = client.flush(STALL_S)
    seconds = time.perf_counter() - began
    if left or failed:
        raise SystemExit(f"{left} records are not delivered, {len(failed)} failed: {failed[:1]}")
    return {"records_s": records / seconds, "mb_s": records * size / seconds / 1e6}


def latency(bootstrap: str, topic: str, partitions: int, rate: int, seconds: int, acks: str) -> dict[str, float]:
    client = producer(bootstrap, acks, **{"linger.ms": 0})
    value = value_of(LATENCY_VALUE_BYTES)
    taken: list[float] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise SystemExit(str(error))
        taken.append(message.latency())

    for partition in range(partitions):
        client.produce(topic, value, partition=partition)
    client.flush(STALL_S)
    began = time.perf_counter()
    for number in range(rate * seconds):
        due = began + number / rate
        while (left := due - time.perf_counter()) > 0:
            client.poll(min(left, 0.001))
        client.produce(topic, value, partition=number % partitions, on_delivery=delivered)
    if client.flush(STALL_S):
        raise SystemExit("records are not delivered")
    taken.sort()
    return {"p50_ms": taken[len(taken) // 2] * 1e3, "p99_ms": taken[len(taken) * 99 // 100] * 1e3}


def watch(bootstrap: str, topic: str, partition: int) -> None:
    """One record after the other: each acknowledgement is a line with its time. Headwater's client, for both brokers:
    librdkafka takes a second or two of its own to notice that a leader has changed."""
    with HeadwaterProducer({"bootstrap.servers": bootstrap, "acks": "all", **QUICK}) as client:
        while True:
            offset = client.send(topic, b"x", partition=partition).result(STALL_S).offset
            sys.stdout.write(f"{time.time():.4f} {offset}\n")
            sys.stdout.flush()
            time.sleep(0.002)


def main(arguments: list[str]) -> None:
    what, bootstrap, topic, *rest = arguments
    if what == "watch":
        watch(bootstrap, topic, int(rest[0]))
    elif what == "throughput":
        *numbers, acks = rest
        print(json.dumps(throughput(bootstrap, topic, *map(int, numbers), acks)))
    else:
        *numbers, acks = rest
        print(json.dumps(latency(bootstrap, topic, *map(int, numbers), acks)))


if __name__ == "__main__":
    main(sys.argv[1:])
