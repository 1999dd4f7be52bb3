"""All records of a topic, by confluent-kafka: for tests that wrote them with something else."""

import time

import confluent_kafka

TIMEOUT_S = 90


def read_all(bootstrap: str, topic: str, count: int) -> list[confluent_kafka.Message]:
    """So many records, and no more, by confluent-kafka; those of a partition in their order."""
    reading = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 0}
    consumer = confluent_kafka.Consumer({**reading, "auto.offset.reset": "earliest", "enable.partition.eof": True})
    found: list[confluent_kafka.Message] = []
    try:
        partitions = consumer.list_topics(topic, TIMEOUT_S).topics[topic].partitions
        consumer.assign([confluent_kafka.TopicPartition(topic, each, 0) for each in partitions])
        at_end: set[int] = set()
        deadline = time.monotonic() + TIMEOUT_S
        while len(at_end) < len(partitions):
            assert time.monotonic() < deadline, f"{len(found)} of {count}"
            message = consumer.poll(1)
            if message is None:
                continue
            if message.error():
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                at_end.add(message.partition())
            else:
                found.append(message)
    finally:
        consumer.close()
    assert len(found) == count, f"{len(found)} of {count}"
    return found
