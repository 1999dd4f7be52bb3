"""Records that poll has given to an iteration, and the iteration not yet to the application.

They count as not given: commits and positions stay in front of them, and the next poll gives them first. Owned by the
core, used by the application's thread only.
"""

from collections import deque
from collections.abc import Iterable

from headwater.base.ids import TopicPartition
from headwater.client.consumer.positions import OffsetAndMetadata
from headwater.client.consumer.record import ConsumerRecord


class IterationBuffer(deque[ConsumerRecord]):
    def take(self, limit: int) -> list[ConsumerRecord]:
        return [self.popleft() for _ in range(min(limit, len(self)))]

    def drop(self, partitions: Iterable[TopicPartition]) -> None:
        if self:
            gone = set(partitions)
            kept = [record for record in self if record.topic_partition not in gone]
            self.clear()
            self.extend(kept)

    def positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Of the first record of each partition."""
        return {
            record.topic_partition: OffsetAndMetadata(record.offset, "", record.leader_epoch)
            for record in reversed(self)
        }
