"""At least once: the offset is committed after the work, so what was done last may be done again after a crash."""

from collections.abc import Sequence

from totals import Totals, arguments, read_until_told

from headwater.client import Consumer, ConsumerRecord


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

    def work(records: Sequence[ConsumerRecord]) -> None:
        for record in records:
            totals.add([record])
        # A crash before this line's end repeats these records: the group has not gone past them yet.
        consumer.commit(records)

    read_until_told(consumer, work)


if __name__ == "__main__":
    main()
