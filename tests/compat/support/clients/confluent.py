"""confluent-kafka: librdkafka, as new as the wheel."""

import time
from typing import Any

import confluent_kafka

from compat.support.clients.base import (
    TIMEOUT_S,
    Client,
    ClientError,
    Message,
    Positions,
    Reading,
    Received,
    Sending,
    Start,
)

OFFSET_TAIL_BASE = -2000  # librdkafka's RD_KAFKA_OFFSET_TAIL, which the Python package does not export


class Confluent(Client):
    name = "confluent"

    def send(self, bootstrap: str, topic: str, messages: list[Message], options: Sending) -> list[int]:
        config = {
            "bootstrap.servers": bootstrap,
            "compression.type": options.codec,
            "acks": options.acks,
            "enable.idempotence": options.idempotent,
            "message.max.bytes": options.max_request_bytes,
            "message.timeout.ms": TIMEOUT_S * 1000,
        }
        producer = confluent_kafka.Producer(config)
        answers: list[Any] = []
        for message in messages:
            arguments: dict[str, Any] = {"key": message.key, "headers": list(message.headers) or None}
            if options.partition is not None:
                arguments["partition"] = options.partition
            if message.timestamp is not None:
                arguments["timestamp"] = message.timestamp
            producer.produce(
                topic, message.value, on_delivery=lambda error, sent: answers.append((error, sent)), **arguments
            )
        producer.flush(TIMEOUT_S + 5)
        assert len(answers) == len(messages)
        for error, _ in answers:
            if error is not None:
                raise ClientError(error.code(), error.str())
        return [sent.offset() if sent.offset() is not None else -1 for _, sent in answers]

    def read(self, bootstrap: str, topic: str, count: int, options: Reading) -> list[Received]:
        consumer = _consumer(bootstrap, options.committed)
        received: list[Received] = []
        try:
            consumer.assign([_position(consumer, topic, options.partition, options.start)])
            deadline = time.monotonic() + TIMEOUT_S
            while len(received) < count and time.monotonic() < deadline:
                for message in consumer.consume(count - len(received), timeout=0.2):
                    if message.error() is not None:
                        raise ClientError(message.error().code(), message.error().str())
                    received.append(_received(message))
        finally:
            consumer.close()
        return received

    def positions(self, bootstrap: str, topic: str, partition: int = 0) -> Positions:
        consumer = _consumer(bootstrap, committed=False)
        try:
            return Positions(
                *consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, partition), TIMEOUT_S)
            )
        finally:
            consumer.close()


def _consumer(bootstrap: str, committed: bool) -> Any:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",  # librdkafka wants one even for assign
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
            "fetch.error.backoff.ms": 50,
        }
    )


def _position(consumer: Any, topic: str, partition: int, start: Start) -> Any:
    offset = start.value
    if start.kind == "beginning":
        offset = confluent_kafka.OFFSET_BEGINNING
    elif start.kind == "end":
        offset = confluent_kafka.OFFSET_END
    elif start.kind == "tail":
        offset = OFFSET_TAIL_BASE - start.value
    elif start.kind == "timestamp":
        wanted = confluent_kafka.TopicPartition(topic, partition, start.value)
        offset = consumer.offsets_for_times([wanted], TIMEOUT_S)[0].offset
    if start.epoch is not None:
        return confluent_kafka.TopicPartition(topic, partition, offset, leader_epoch=start.epoch)
    return confluent_kafka.TopicPartition(topic, partition, offset)


def _received(message: Any) -> Received:
    kind, timestamp = message.timestamp()
    return Received(
        offset=message.offset(),
        value=message.value(),
        key=message.key(),
        headers=tuple(message.headers() or ()),
        timestamp=timestamp,
        create=kind == confluent_kafka.TIMESTAMP_CREATE_TIME,
        leader_epoch=message.leader_epoch(),
    )
