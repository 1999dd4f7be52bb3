"""At least once: the offset is committed after the work, so what was done last may be done again after a crash."""

from collections.abc import Sequence

from confluent_kafka import Consumer, Message, TopicPartition
from totals import Totals, arguments, read_until_told


def main() -> None:
    topic, path, bootstrap = arguments()
    totals = Totals(path)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "at-least-once",
            "group.instance.id": "at-least-once-1",  # a restart goes on at once, and not after the session of the dead
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([topic])

    def work(messages: Sequence[Message]) -> None:
        for message in messages:
            totals.add([message])
        # A crash before this line's end repeats these records: the group has not gone past them yet.
        ends = {(one.topic(), one.partition()): one.offset() + 1 for one in messages}
        consumer.commit(offsets=[TopicPartition(*place, end) for place, end in ends.items()], asynchronous=False)

    read_until_told(consumer, work)


if __name__ == "__main__":
    main()
