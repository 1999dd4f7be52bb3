"""aiokafka: speaks no flexible versions, so the old encodings."""

import asyncio
import time
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

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


class Aiokafka(Client):
    name = "aiokafka"

    def send(self, bootstrap: str, topic: str, messages: list[Message], options: Sending) -> list[int]:
        async def run() -> list[int]:
            producer = AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if options.codec == "none" else options.codec,
                acks="all" if options.acks == "all" else int(options.acks),
                enable_idempotence=options.idempotent,
                max_request_size=options.max_request_bytes,
                linger_ms=20,
                request_timeout_ms=TIMEOUT_S * 1000,
            )
            await producer.start()
            try:
                futures = [
                    await producer.send(
                        topic,
                        value=message.value,
                        key=message.key,
                        headers=list(message.headers),
                        partition=options.partition,
                        timestamp_ms=message.timestamp,
                    )
                    for message in messages
                ]
                answers = await asyncio.wait_for(asyncio.gather(*futures), TIMEOUT_S)
                return [-1 if answer is None else answer.offset for answer in answers]
            finally:
                await producer.stop()

        return _run(run())

    def read(self, bootstrap: str, topic: str, count: int, options: Reading) -> list[Received]:
        async def run() -> list[Received]:
            where = TopicPartition(topic, options.partition)
            consumer = _consumer(bootstrap, options.committed)
            await consumer.start()
            try:
                consumer.assign([where])
                await _seek(consumer, where, options.start)
                received: list[Received] = []
                deadline = time.monotonic() + TIMEOUT_S
                while len(received) < count and time.monotonic() < deadline:
                    for records in (await consumer.getmany(where, timeout_ms=200)).values():
                        received += [_received(record) for record in records]
                return received
            finally:
                await consumer.stop()

        return _run(run())

    def positions(self, bootstrap: str, topic: str, partition: int = 0) -> Positions:
        async def run() -> Positions:
            where = TopicPartition(topic, partition)
            consumer = _consumer(bootstrap, committed=False)
            await consumer.start()
            try:
                beginning = await consumer.beginning_offsets([where])
                end = await consumer.end_offsets([where])
                return Positions(beginning[where], end[where])
            finally:
                await consumer.stop()

        return _run(run())


def _run(coroutine: Any) -> Any:
    try:
        return asyncio.run(coroutine)
    except KafkaError as error:
        raise ClientError(getattr(error, "errno", None), repr(error)) from error


def _consumer(bootstrap: str, committed: bool) -> Any:
    return AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="none",
        isolation_level="read_committed" if committed else "read_uncommitted",
    )


async def _seek(consumer: Any, where: TopicPartition, start: Start) -> None:
    if start.kind == "beginning":
        await consumer.seek_to_beginning(where)
    elif start.kind == "end":
        await consumer.seek_to_end(where)
    elif start.kind == "tail":
        consumer.seek(where, (await consumer.end_offsets([where]))[where] - start.value)
    elif start.kind == "timestamp":
        consumer.seek(where, (await consumer.offsets_for_times({where: start.value}))[where].offset)
    else:
        consumer.seek(where, start.value)


def _received(record: Any) -> Received:
    return Received(
        offset=record.offset,
        value=record.value,
        key=record.key,
        headers=tuple(record.headers),
        timestamp=record.timestamp,
        create=record.timestamp_type == 0,
    )
