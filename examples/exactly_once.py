"""Exactly once: results and offsets are written in one transaction of the database, which says where to go on."""

from collections.abc import Sequence

from totals import Totals, arguments, read_until_told

from headwater.client import Consumer, ConsumerRecord, TopicPartition


class TotalsAndOffsets(Totals):
    """The totals, and up to where each partition is in them."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.database.execute(
            "CREATE TABLE IF NOT EXISTS offsets (topic TEXT, partition INTEGER, next INTEGER NOT NULL,"
            " PRIMARY KEY (topic, partition))"
        )

    def add_once(self, records: Sequence[ConsumerRecord]) -> None:
        """All of it or nothing. IMMEDIATE: nobody else writes between what is read here and what is written."""
        self.database.execute("BEGIN IMMEDIATE")
        try:
            # A partition may have been given to another process meanwhile: what that one has counted is left out.
            new = [record for record in records if record.offset >= self.position(record.topic, record.partition)]
            self.add(new)
            self.database.executemany(
                "INSERT INTO offsets VALUES (?, ?, ?) ON CONFLICT (topic, partition) DO UPDATE SET next = excluded.next",
                [(record.topic, record.partition, record.offset + 1) for record in new],
            )
            self.database.execute("COMMIT")
        except BaseException:
            self.database.execute("ROLLBACK")
            raise

    def position(self, topic: str, partition: int) -> int:
        query = "SELECT next FROM offsets WHERE topic = ? AND partition = ?"
        found = self.database.execute(query, (topic, partition)).fetchone()
        return int(found[0]) if found else 0


def main() -> None:
    topic, path, bootstrap = arguments()
    totals = TotalsAndOffsets(path)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "exactly-once",
            "group.instance.id": "exactly-once-1",  # a restart goes on at once, and not after the session of the dead
            "auto.offset.reset": "earliest",  # where the log begins later than the database says
            "enable.auto.commit": False,
        }
    )

    def seek(partitions: list[TopicPartition]) -> None:
        """The database knows where to go on, not the group."""
        for one in partitions:
            consumer.seek(one, totals.position(one.topic, one.partition))

    consumer.subscribe([topic], on_assigned=seek)
    read_until_told(consumer, totals.add_once)


if __name__ == "__main__":
    main()
