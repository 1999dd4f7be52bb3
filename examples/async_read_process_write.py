"""`read_process_write.py` for asyncio, in a group: start as many as there are partitions, each with an id of its own.

    python examples/async_read_process_write.py SOURCE TARGET TRANSACTIONAL_ID [BOOTSTRAP]

Runs until Ctrl-C or SIGTERM; kill any of them at any moment. Whose partitions went to another process while it worked
is refused when it commits: it aborts, and reads on where the group is.
"""

import asyncio
import contextlib
import signal
import sys

from headwater.client import AsyncConsumer, AsyncProducer, TopicPartition, TransactionFailed


async def copy(consumer: AsyncConsumer, producer: AsyncProducer, target: str) -> None:
    records = await consumer.poll(0.2)
    if not records:
        return
    try:
        async with producer.transaction():
            for record in records:
                await producer.send(target, record.value.upper(), key=record.key)
            offsets = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
            await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    except TransactionFailed as error:
        print(f"Aborted: {error}")
        for partition, committed in (await consumer.committed(*consumer.assignment())).items():
            if committed is not None:
                consumer.seek(partition, committed)
            else:
                consumer.seek_to_beginning(partition)


async def main() -> None:
    if len(sys.argv) not in (4, 5):
        sys.exit(f"usage: {sys.argv[0]} SOURCE TARGET TRANSACTIONAL_ID [BOOTSTRAP]")
    source, target, transactional_id = sys.argv[1:4]
    bootstrap = sys.argv[4] if len(sys.argv) == 5 else "localhost:9092"
    loop, work = asyncio.get_running_loop(), asyncio.current_task()
    assert work is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, work.cancel)
    async with (
        AsyncConsumer(
            bootstrap_servers=bootstrap,
            group_id="async-read-process-write",
            session_timeout_ms=6000,  # after so long without a sign of life, the others have its partitions
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer,
        AsyncProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id) as producer,
    ):
        await producer.init_transactions()
        consumer.subscribe([source])
        with contextlib.suppress(asyncio.CancelledError):
            while True:
                await copy(consumer, producer, target)
        print("Told to stop")


if __name__ == "__main__":
    asyncio.run(main())
