"""The batches of one partition, and the partitions of one topic: where a producer's records wait.

`PartitionQueue.open` and `TopicQueues.sticky` belong to whoever holds the accumulator's lock; the rest of a partition's
state belongs to the owner of the kernel (`waiting` is a deque, which takes from both ends at once).
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.types import Topic
from headwater.records.batch import NO_SEQUENCE

if TYPE_CHECKING:
    from headwater.client.producer.batch import ProducerBatch

NO_LEADER: Final = -1


class PartitionQueue:
    __slots__ = (
        "in_transaction",
        "known_id",
        "last_acked_offset",
        "last_acked_sequence",
        "leader",
        "leader_epoch",
        "needs_new_epoch",
        "next_sequence",
        "not_before",
        "open",
        "partition",
        "producer_epoch",
        "producer_id",
        "topic",
        "unresolved",
        "waiting",
        "wire",
    )

    def __init__(self, topic: "TopicQueues", partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.open: ProducerBatch | None = None
        self.waiting: deque[ProducerBatch] = deque()  # closed batches, oldest first; retries are in front
        self.wire: list[ProducerBatch] = []  # sent and not answered, in the order they were sent
        self.not_before = 0.0  # a retry waits until then
        self.leader = NO_LEADER
        self.leader_epoch = -1
        # Of the idempotent producer (`sequences`):
        self.producer_id = -1
        self.producer_epoch = -1
        self.known_id = -1  # the producer id of the last batch that was written: its leader knows that one
        self.next_sequence = 0
        self.last_acked_sequence = NO_SEQUENCE
        self.last_acked_offset = -1
        self.unresolved = False  # a batch was given up that may have been written
        self.needs_new_epoch = False
        self.in_transaction = False  # the coordinator knows that the open transaction writes here

    def __repr__(self) -> str:
        return f"<{self.topic.name}-{self.partition}: {len(self.waiting)} waiting, {len(self.wire)} on the wire>"


class TopicQueues:
    """`below(n)` gives a random number below n."""

    def __init__(self, name: str, below: Callable[[int], int], adaptive: bool = True) -> None:
        self.name = name
        self.topic_id = bytes(16)
        self.queues: list[PartitionQueue] = []
        self.count = 0
        self.available: list[PartitionQueue] = []
        self.sticky: PartitionQueue | None = None
        self.used_at = 0.0
        self._below = below
        self._adaptive = adaptive

    def no_partition(self, number: int) -> KafkaError:
        return KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {self.name!r} has {self.count} partitions, none with number {number}",
        )

    def apply(self, topic: Topic) -> list[PartitionQueue]:
        """Takes metadata in; gives the queues whose leader has changed. Partitions never become fewer but by
        re-creation.
        """
        recreated, self.topic_id = topic.topic_id != self.topic_id, topic.topic_id
        changed = []
        for partition in topic.partitions:
            while partition.partition >= len(self.queues):
                self.queues.append(PartitionQueue(self, len(self.queues)))
            queue = self.queues[partition.partition]
            if partition.leader_epoch < queue.leader_epoch and not recreated:
                continue  # an answer to a batch told of a newer leader
            if partition.leader != queue.leader:
                changed.append(queue)
            queue.leader, queue.leader_epoch = partition.leader, partition.leader_epoch
        self.count = len(topic.partitions)
        led = [queue for queue in self.queues[: self.count] if queue.leader != NO_LEADER]
        self.available = led or self.queues[: self.count]
        if self.sticky is None or self.sticky not in self.available:
            self.switch()
        return changed

    def switch(self) -> "PartitionQueue":
        """Another partition for records without a key. The longer a queue, the less likely it is."""
        choices = [queue for queue in self.available if queue is not self.sticky] or self.available
        chosen = None
        if self._adaptive and len(choices) > 1:
            longest = max(len(queue.waiting) for queue in choices)
            if longest:
                dice = self._below(sum(longest + 1 - len(queue.waiting) for queue in choices))
                for queue in choices:
                    dice -= longest + 1 - len(queue.waiting)
                    if dice < 0:
                        chosen = queue
                        break
        if chosen is None:
            chosen = choices[self._below(len(choices))]
        self.sticky = chosen
        return chosen
