"""`copier.py` with our own client, blocking or asyncio: a process to be killed.

    python copier_ours.py blocking|asyncio BOOTSTRAP GROUP TRANSACTIONAL_ID SOURCE TARGET PROTOCOL

After an error that aborts, it reads again from what is committed; after any other it ends, and whoever started it
starts it again.
"""

import asyncio
import random
import sys
from collections.abc import Iterable
from typing import Any

from headwater.client import (
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    ConsumerRecord,
    Producer,
    TopicPartition,
    TransactionFailed,
)


class OnPurpose(Exception):
    """An abort at random."""


def _settings(bootstrap: str, group: str, transactional_id: str, protocol: str) -> tuple[dict[str, Any], ...]:
    common = {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 300}
    session = {"session.timeout.ms": 2000, "heartbeat.interval.ms": 200} if protocol == "classic" else {}
    consumer = {
        **common,
        **session,
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
    }
    return consumer, {**common, "transactional.id": transactional_id, "transaction.timeout.ms": 8000, "linger.ms": 1}


def _behind(records: Iterable[ConsumerRecord]) -> dict[TopicPartition, int]:
    return {record.topic_partition: record.offset + 1 for record in records}


def _maybe_abort() -> None:
    if random.random() < 0.1:
        raise OnPurpose


def blocking(bootstrap: str, group: str, transactional_id: str, source: str, target: str, protocol: str) -> None:
    reading, writing = _settings(bootstrap, group, transactional_id, protocol)
    with Consumer(reading) as consumer, Producer(writing) as producer:
        producer.init_transactions()
        consumer.subscribe([source])
        while True:
            records = consumer.poll(0.2, max_records=random.randint(1, 40))
            if not records:
                continue
            try:
                with producer.transaction():
                    for record in records:
                        producer.send(target, b"copy of " + record.value, partition=record.partition)
                    _maybe_abort()
                    producer.send_offsets_to_transaction(_behind(records), consumer.group_metadata())
            except (OnPurpose, TransactionFailed):
                for partition, known in consumer.committed(*consumer.assignment()).items():
                    consumer.seek(partition, known or 0)


async def in_asyncio(
    bootstrap: str, group: str, transactional_id: str, source: str, target: str, protocol: str
) -> None:
    reading, writing = _settings(bootstrap, group, transactional_id, protocol)
    async with AsyncConsumer(reading) as consumer, AsyncProducer(writing) as producer:
        await producer.init_transactions()
        consumer.subscribe([source])
        while True:
            records = await consumer.poll(0.2, max_records=random.randint(1, 40))
            if not records:
                continue
            try:
                async with producer.transaction():
                    for record in records:
                        await producer.send(target, b"copy of " + record.value, partition=record.partition)
                    _maybe_abort()
                    await producer.send_offsets_to_transaction(_behind(records), consumer.group_metadata())
            except (OnPurpose, TransactionFailed):
                for partition, known in (await consumer.committed(*consumer.assignment())).items():
                    consumer.seek(partition, known or 0)


if __name__ == "__main__":
    if sys.argv[1] == "asyncio":
        asyncio.run(in_asyncio(*sys.argv[2:]))
    else:
        blocking(*sys.argv[2:])
