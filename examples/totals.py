"""What the three examples share: the totals in SQLite, and a loop that ends on SIGTERM. Not an example by itself."""

import signal
import sqlite3
import sys
from collections.abc import Callable, Sequence

from headwater.client import Consumer, ConsumerRecord, WakeupError

BATCH_RECORDS = 100


class Totals:
    """The running total of each account. A record is "account" as its key and an amount as its value."""

    def __init__(self, path: str) -> None:
        self.database = sqlite3.connect(path, isolation_level=None)  # transactions are begun by hand
        self.database.execute("CREATE TABLE IF NOT EXISTS totals (account TEXT PRIMARY KEY, total INTEGER NOT NULL)")

    def add(self, records: Sequence[ConsumerRecord]) -> None:
        self.database.executemany(
            "INSERT INTO totals VALUES (?, ?) ON CONFLICT (account) DO UPDATE SET total = total + excluded.total",
            [(record.key.decode(), int(record.value)) for record in records],
        )


def arguments() -> tuple[str, str, str]:
    """TOPIC DATABASE [BOOTSTRAP]"""
    if len(sys.argv) not in (3, 4):
        sys.exit(f"usage: {sys.argv[0]} TOPIC DATABASE [BOOTSTRAP]")
    return sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) == 4 else "localhost:9092"


def read_until_told(consumer: Consumer, work: Callable[[Sequence[ConsumerRecord]], None]) -> None:
    """Hands over what was read, batch by batch, and leaves the group at the end."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: consumer.wakeup())
    try:
        while True:
            work(consumer.poll(max_records=BATCH_RECORDS))
    except WakeupError:
        pass  # somebody told it to end: `poll` is left, `close` leaves the group
    finally:
        consumer.close()
