"""At most once: the offset is committed before the work, so what was under way when the process died is skipped."""

from collections.abc import Sequence

from totals import Totals, arguments, read_until_told

from headwater.client import Consumer, ConsumerRecord


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

    def work(records: Sequence[ConsumerRecord]) -> None:
        consumer.commit(records)
        # A crash from here on loses these records: the group has gone past them.
        for record in records:
            totals.add([record])

    read_until_told(consumer, work)


if __name__ == "__main__":
    main()
