"""What the three examples share: the totals in SQLite, and a loop that ends on SIGTERM. Not an example by itself."""

import signal
import sqlite3
import sys
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaException, Message

BATCH_RECORDS = 100


class Totals:
    """The running total of each account. A record is "account" as its key and an amount as its value."""

    def __init__(self, path: str) -> None:
        self.database = sqlite3.connect(path, isolation_level=None)  # transactions are begun by hand
        self.database.execute("CREATE TABLE IF NOT EXISTS totals (account TEXT PRIMARY KEY, total INTEGER NOT NULL)")

    def add(self, messages: Sequence[Message]) -> None:
        self.database.executemany(
            "INSERT INTO totals VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET total = total + excluded.total",
            [(message.key().decode(), int(message.value())) for message in messages],
        )


def arguments() -> tuple[str, str, str]:
    """TOPIC DATABASE [BOOTSTRAP]"""
    if len(sys.argv) not in (3, 4):
        sys.exit(f"usage: {sys.argv[0]} TOPIC DATABASE [BOOTSTRAP]")
    return sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) == 4 else "localhost:9092"


def read_until_told(consumer: Consumer, work: Callable[[Sequence[Message]], None]) -> None:
    """Hands over what was read, batch by batch, and leaves the group at the end."""
    told: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _frame: told.append(received))
    try:
        while not told:
            messages = consumer.consume(BATCH_RECORDS, timeout=0.5)
            for message in messages:
                if message.error() is not None:
                    raise KafkaException(message.error())
            if messages:
                work(messages)
    finally:
        consumer.close()
