"""Headwater's own client, in the same matrix as everybody else's."""

import time

from compat.support.clients.base import TIMEOUT_S, Client, ClientError, Message, Positions, Reading, Received, Sending
from headwater.client import Consumer, KafkaError, Producer, TimestampType, TopicPartition
from headwater.client.consumer.positions import OffsetAndMetadata


class Ours(Client):
    name = "headwater"

    def send(self, bootstrap: str, topic: str, messages: list[Message], options: Sending) -> list[int]:
        settings = {
            "bootstrap.servers": bootstrap,
            "compression.type": options.codec,
            "acks": options.acks,
            "enable.idempotence": options.idempotent,
            "max.request.size": options.max_request_bytes,
            "request.timeout.ms": TIMEOUT_S * 500,
            "delivery.timeout.ms": TIMEOUT_S * 1000,
        }
        try:
            with Producer(settings) as producer:
                sent = [
                    producer.send(
                        topic,
                        message.value,
                        key=message.key,
                        headers=message.headers,
                        partition=options.partition,
                        timestamp_ms=message.timestamp,
                    )
                    for message in messages
                ]
                return [delivery.result(TIMEOUT_S + 5).offset for delivery in sent]
        except KafkaError as error:
            raise ClientError(error.code, str(error)) from error

    def read(self, bootstrap: str, topic: str, count: int, options: Reading) -> list[Received]:
        partition = TopicPartition(topic, options.partition)
        received: list[Received] = []
        try:
            with _consumer(bootstrap, committed=options.committed) as consumer:
                consumer.assign([partition])
                _go_to(consumer, partition, options)
                deadline = time.monotonic() + TIMEOUT_S
                while len(received) < count and time.monotonic() < deadline:
                    for record in consumer.poll(0.2, max_records=count - len(received)):
                        received.append(
                            Received(
                                offset=record.offset,
                                value=record.value,
                                key=record.key,
                                headers=record.headers,
                                timestamp=record.timestamp_ms,
                                create=record.timestamp_type == TimestampType.CREATE_TIME,
                                leader_epoch=record.leader_epoch,
                            )
                        )
        except KafkaError as error:
            raise ClientError(error.code, str(error)) from error
        return received

    def positions(self, bootstrap: str, topic: str, partition: int = 0) -> Positions:
        wanted = TopicPartition(topic, partition)
        with _consumer(bootstrap, committed=False) as consumer:
            return Positions(consumer.beginning_offsets([wanted])[wanted], consumer.end_offsets([wanted])[wanted])


def _consumer(bootstrap: str, *, committed: bool) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "auto.offset.reset": "none",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )


def _go_to(consumer: Consumer, partition: TopicPartition, options: Reading) -> None:
    start = options.start
    if start.kind == "beginning":
        consumer.seek_to_beginning(partition)
        return
    if start.kind == "end":
        consumer.seek_to_end(partition)
        return
    offset = start.value
    if start.kind == "tail":
        offset = consumer.end_offsets([partition])[partition] - start.value
    elif start.kind == "timestamp":
        found = consumer.offsets_for_times({partition: start.value})[partition]
        if found is None:
            consumer.seek_to_end(partition)
            return
        offset = found.offset
    consumer.seek(partition, offset if start.epoch is None else OffsetAndMetadata(offset, leader_epoch=start.epoch))
