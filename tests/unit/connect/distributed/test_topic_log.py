"""The thread that follows a storage topic: it lives as long as the worker, whatever is in the topic. The consumer is in
memory.
"""

from typing import Any

from headwater.base.ids import TopicPartition
from headwater.client import ConsumerRecord
from headwater.connect.distributed.topic_log import TopicLog

PARTITION = TopicPartition("t", 0)


class Consumer:
    def __init__(self, *batches: list[ConsumerRecord]) -> None:
        self._batches = list(batches)
        self._position = 0

    def poll(self, _timeout: float) -> list[ConsumerRecord]:
        found = self._batches.pop(0)
        self._position += len(found)
        return found

    def position(self, _partition: TopicPartition) -> int:
        return self._position


def record(offset: int, value: bytes) -> ConsumerRecord:
    return ConsumerRecord(*PARTITION, offset, 0, 0, b"k", value, (), 0)


def test_a_record_that_nobody_has_foreseen_hides_none_behind_it(caplog: Any) -> None:
    """The thread ended, and the worker with it knew nothing new, for ever."""
    read: list[bytes | None] = []

    def take(each: ConsumerRecord) -> None:
        if each.value == b"odd":
            raise OverflowError("cannot convert float infinity to integer")
        read.append(each.value)

    def news() -> None:
        raise RuntimeError("unforeseen")

    nobody: Any = None
    log = TopicLog("t", {}, nobody, take, news)
    log._next = {PARTITION: 0}
    consumer: Any = Consumer([record(0, b"a"), record(1, b"odd"), record(2, b"b")], [record(3, b"c")])
    log._follow(consumer)
    log._follow(consumer)
    assert read == [b"a", b"b", b"c"]
    assert log._next == {PARTITION: 4}
    assert "event=storage-record-unread topic=t partition=0 offset=1" in caplog.text
