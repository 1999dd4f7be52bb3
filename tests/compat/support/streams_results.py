"""What goes into and comes out of the application of streams_counter.py."""

import struct
from collections.abc import Mapping

from headwater.client import Consumer, Producer, TopicPartition
from headwater.testing import Broker

PARTITIONS = 2


class Results:
    """What readers of committed records have seen: the counts of each word, in order."""

    def __init__(self, broker: Broker) -> None:
        self._consumer = Consumer(
            bootstrap_servers=broker.bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        self._consumer.assign([TopicPartition("counts", index) for index in range(PARTITIONS)])
        self.counts: dict[str, list[int]] = {}
        self.total = 0

    def until(self, total: int) -> None:
        while self.total < total:
            for record in self._consumer.poll(1.0):
                self.counts.setdefault(record.key.decode(), []).append(struct.unpack(">q", record.value)[0])
                self.total += 1

    def until_counted(self, words: Mapping[str, int]) -> None:
        """Until the last count of each word is there: with a record cache, not each one comes."""
        while {word: counts[-1] for word, counts in self.counts.items()} != words:
            self.until(self.total + 1)

    def close(self) -> None:
        self._consumer.close()


def send_words(broker: Broker, words: list[str]) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number, word in enumerate(words):
            producer.send("words", word.encode(), partition=number % PARTITIONS)
