"""Commits every 1000 records, without waiting, and before partitions go to another member.

    python examples/commit_as_you_go.py [BOOTSTRAP [TOPIC]]

An asynchronous commit that fails may be tried again by the client, but never so that it would overwrite a newer one:
each has a number, and one that is not the newest any more is given up. So `commit_async` needs no bookkeeping here.
"""

import signal
import sys

from headwater.client import Consumer, KafkaError, OffsetAndMetadata, RebalanceListener, TopicPartition, WakeupError

EVERY_RECORDS = 1000


class CommitFirst(RebalanceListener):
    """What was done, but not yet committed, is committed while the partitions are still ours."""

    def __init__(self, consumer: Consumer, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self._consumer = consumer
        self._offsets = offsets

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        print(f"lost {len(partitions)} partitions; committing {len(self._offsets)} offsets", flush=True)
        self._consumer.commit(self._offsets)
        self._offsets.clear()

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> None:
        del partitions  # others have them already: they read some records again
        self._offsets.clear()


def told(offsets: dict[TopicPartition, OffsetAndMetadata], error: KafkaError | None) -> None:
    if error is not None:
        print(f"commit of {offsets} failed: {error}", file=sys.stderr)


def main() -> None:
    bootstrap = sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"
    topic = sys.argv[2] if len(sys.argv) > 2 else "customerCountries"
    consumer = Consumer(
        bootstrap_servers=bootstrap,
        group_id="commit-as-you-go",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        key_deserializer="string",
        value_deserializer="string",
    )
    current: dict[TopicPartition, OffsetAndMetadata] = {}
    consumer.subscribe([topic], CommitFirst(consumer, current))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: consumer.wakeup())

    count = 0
    try:
        while True:
            for record in consumer.poll(0.1):
                print(f"{record.topic_partition} {record.offset}: {record.key} {record.value}", flush=True)
                current[record.topic_partition] = OffsetAndMetadata(record.offset + 1, "no metadata")
                count += 1
                if count % EVERY_RECORDS == 0:
                    consumer.commit_async(dict(current), told)
    except WakeupError:
        pass
    finally:
        consumer.close()  # the listener hears of it, and commits


if __name__ == "__main__":
    main()
