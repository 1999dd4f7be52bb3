"""At most once: the offset is committed before the work, so what was under way when the process died is skipped."""

from collections.abc import Sequence

from confluent_kafka import Consumer, Message, TopicPartition
from totals import Totals, arguments, read_until_told


def main() -> None:
    topic, path, bootstrap = arguments()
    totals = Totals(path)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "at-most-once",
            "group.instance.id": "at-most-once-1",  # a restart goes on at once, and not after the session of the dead
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])

    def work(messages: Sequence[Message]) -> None:
        ends = {(one.topic(), one.partition()): one.offset() + 1 for one in messages}
        consumer.commit(offsets=[TopicPartition(*place, end) for place, end in ends.items()], asynchronous=False)
        # A crash from here on loses these records: the group has gone past them.
        for message in messages:
            totals.add([message])

    read_until_told(consumer, work)


if __name__ == "__main__":
    main()
