"""What a test wrote and what was told of it, against what can be read: for brokers that may refuse."""

import time
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

PATIENCE_S = 60


class Ledger:
    """Values of one topic, by partition and offset, as far as they were acknowledged."""

    def __init__(self, bootstrap: str, topic: str, **settings: Any) -> None:
        self.bootstrap = bootstrap
        self.topic = topic
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.errors: list[int] = []
        self._count = 0
        self._settings = settings

    def write(self, count: int, size: int = 100, partition: int = 0) -> list[int]:
        """Each in a request of its own and tried once; the error codes of those that were refused."""
        common = {"bootstrap.servers": self.bootstrap, "acks": "all", "retries": 0, "log_level": 0}
        limits = {"message.timeout.ms": PATIENCE_S * 1000, "batch.num.messages": 1, "linger.ms": 0}
        producer = Producer({**common, **limits, **self._settings})
        errors: list[int] = []

        def told(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self.acknowledged[message.partition(), message.offset()] = message.value()
            else:
                errors.append(error.code())

        for _ in range(count):
            value = b"%d " % self._count
            self._count += 1
            producer.produce(self.topic, value.ljust(size, b"."), partition=partition, on_delivery=told)
        assert producer.flush(2 * PATIENCE_S) == 0
        self.errors += errors
        return errors

    def check(self, partition: int = 0) -> None:
        """Everything that was acknowledged is read at its offset."""
        expected = {offset: value for (number, offset), value in self.acknowledged.items() if number == partition}
        found = read_all(self.bootstrap, self.topic, partition)
        missing = {offset: value[:20] for offset, value in expected.items() if found.get(offset) != value}
        assert not missing, f"acknowledged, and missing or other: {missing}; there are {len(found)}"


def read_all(bootstrap: str, topic: str, partition: int = 0, **settings: Any) -> dict[int, bytes]:
    """By offset, to the end as it is now, of what is committed unless the settings say otherwise. CRCs are checked."""
    common = {"group.id": "reader", "enable.auto.commit": False, "check.crcs": True, "log_level": 0}
    consumer = Consumer({"bootstrap.servers": bootstrap, "enable.partition.eof": True, **common, **settings})
    found: dict[int, bytes] = {}
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for message in consumer.consume(1000, 0.5):
                error = message.error()
                if error is None:
                    found[message.offset()] = message.value()
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
                else:
                    raise AssertionError(f"{topic}-{partition} cannot be read: {error}")
    finally:
        consumer.close()
    raise AssertionError(f"{topic}-{partition} was not read to its end")
