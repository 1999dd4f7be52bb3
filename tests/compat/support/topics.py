"""Topics and records for tests whose point they are not: by confluent-kafka, waited for."""

import time

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

TIMEOUT_S = 60


def make_topic(bootstrap: str, topic: str, partitions: int = 1) -> None:
    """Comes back when the topic has leaders: Apache Kafka answers before that."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(TIMEOUT_S)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        found = admin.list_topics(topic, TIMEOUT_S).topics[topic]
        if len(found.partitions) == partitions and all(one.leader >= 0 for one in found.partitions.values()):
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.02)


def add_partitions(bootstrap: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_partitions([NewPartitions(topic, partitions)]).values():
        future.result(TIMEOUT_S)


def fill(bootstrap: str, topic: str, partitions: int, each: int, start: int = 0) -> list[bytes]:
    """`each` records in each partition, from `start` on: their values, "partition/number"."""
    settings = {"linger.ms": 5, "message.timeout.ms": TIMEOUT_S * 1000, "enable.idempotence": True}
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    sent: list[bytes] = []
    failed: list[object] = []
    for number in range(start, start + each):
        for partition in range(partitions):
            value = f"{partition}/{number}".encode()
            producer.produce(
                topic, value, partition=partition, on_delivery=lambda e, _: failed.append(e) if e else None
            )
            sent.append(value)
    assert producer.flush(TIMEOUT_S) == 0
    if failed:
        raise KafkaException(failed[0])
    return sent
