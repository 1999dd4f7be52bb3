"""kafka-python 3."""

import time
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

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


class KafkaPython(Client):
    name = "kafka-python"
    null_header_values = False

    def send(self, bootstrap: str, topic: str, messages: list[Message], options: Sending) -> list[int]:
        producer = KafkaProducer(
            bootstrap_servers=bootstrap,
            compression_type=None if options.codec == "none" else options.codec,
            acks="all" if options.acks == "all" else int(options.acks),
            enable_idempotence=options.idempotent,
            max_request_size=options.max_request_bytes,
            linger_ms=20,
            max_block_ms=TIMEOUT_S * 1000,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=message.value,
                    key=message.key,
                    headers=list(message.headers),
                    partition=options.partition,
                    timestamp_ms=message.timestamp,
                )
                for message in messages
            ]
            return [future.get(timeout=TIMEOUT_S).offset for future in futures]
        except KafkaError as error:
            raise ClientError(getattr(error, "errno", None), repr(error)) from error
        finally:
            producer.close(timeout=5)

    def read(self, bootstrap: str, topic: str, count: int, options: Reading) -> list[Received]:
        where = TopicPartition(topic, options.partition)
        consumer = _consumer(bootstrap, options.committed)
        received: list[Received] = []
        try:
            consumer.assign([where])
            _seek(consumer, where, options.start)
            deadline = time.monotonic() + TIMEOUT_S
            while len(received) < count and time.monotonic() < deadline:
                for record in consumer.poll(timeout_ms=200).get(where, ()):
                    received.append(_received(record))
        except KafkaError as error:
            raise ClientError(getattr(error, "errno", None), repr(error)) from error
        finally:
            consumer.close()
        return received

    def positions(self, bootstrap: str, topic: str, partition: int = 0) -> Positions:
        where = TopicPartition(topic, partition)
        consumer = _consumer(bootstrap, committed=False)
        try:
            return Positions(consumer.beginning_offsets([where])[where], consumer.end_offsets([where])[where])
        finally:
            consumer.close()


def _consumer(bootstrap: str, committed: bool) -> Any:
    return KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=None,
        auto_offset_reset="none",
        isolation_level="read_committed" if committed else "read_uncommitted",
    )


def _seek(consumer: Any, where: TopicPartition, start: Start) -> None:
    if start.kind == "beginning":
        consumer.seek_to_beginning(where)
    elif start.kind == "end":
        consumer.seek_to_end(where)
    elif start.kind == "tail":
        consumer.seek(where, consumer.end_offsets([where])[where] - start.value)
    elif start.kind == "timestamp":
        consumer.seek(where, consumer.offsets_for_times({where: start.value})[where].offset)
    else:
        consumer.seek(where, start.value)


def _received(record: Any) -> Received:
    return Received(
        offset=record.offset,
        value=record.value,
        key=record.key,
        headers=tuple((name, value) for name, value in record.headers),
        timestamp=record.timestamp,
        create=record.timestamp_type == 0,
        leader_epoch=getattr(record, "leader_epoch", None),
    )
