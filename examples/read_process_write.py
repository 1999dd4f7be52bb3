"""From one topic to another, each record exactly once: what was read and what was written commit together.

    python examples/read_process_write.py SOURCE TARGET [BOOTSTRAP]

Runs until Ctrl-C or SIGTERM; kill it at any moment and start it again. Readers of TARGET with read_committed never see
a record twice, nor one of a transaction that was not finished. A second process with the same transactional id takes
over.
"""

import signal
import sys

from headwater.client import Consumer, OffsetAndMetadata, Producer, TopicPartition, WakeupError


def main() -> None:
    if len(sys.argv) not in (3, 4):
        sys.exit(f"usage: {sys.argv[0]} SOURCE TARGET [BOOTSTRAP]")
    source, target = sys.argv[1:3]
    bootstrap = sys.argv[3] if len(sys.argv) == 4 else "localhost:9092"
    with (
        Consumer(
            bootstrap_servers=bootstrap,
            group_id="read-process-write",
            group_instance_id=f"{source}-to-{target}",  # after a kill the next one has its partitions at once
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer,
        Producer(bootstrap_servers=bootstrap, transactional_id=f"{source}-to-{target}") as producer,
    ):
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda _number, _frame: consumer.wakeup())
        producer.init_transactions()
        consumer.subscribe([source])
        try:
            while True:
                records = consumer.poll(0.2)
                if not records:
                    continue
                with producer.transaction():
                    for record in records:
                        producer.send(target, record.value.upper(), key=record.key)
                    offsets = {
                        TopicPartition(record.topic, record.partition): OffsetAndMetadata(record.offset + 1)
                        for record in records
                    }
                    producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        except WakeupError:
            print("Told to stop")


if __name__ == "__main__":
    main()
