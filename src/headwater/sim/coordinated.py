"""What worlds of groups and transactions have, with one broker or several: their histories, and the topics that they
are about.
"""

from typing import Final

from headwater.sim.catalog import Topic
from headwater.sim.groups import GroupHistory
from headwater.sim.stage import Stage
from headwater.sim.trace import Violation
from headwater.sim.transaction_history import TransactionHistory


class CoordinatedStage(Stage):
    """`may_be_stale`: a broker that does not know yet that another one coordinates in its place answers what it
    knows.
    """

    transactional_ids: Final = ("alpha", "beta")
    group_ids: Final = ("classic", "modern", "mixed")
    first_fetch_version = 4
    transactions: TransactionHistory
    groups: GroupHistory
    _stable_ends: dict[tuple[bytes, int], int]

    @property
    def may_be_stale(self) -> bool:
        return False

    # The topics

    @property
    def topic_names(self) -> tuple[str, str]:
        raise NotImplementedError

    @property
    def is_set_up(self) -> bool:
        return len(self._named(0)) == len(self._named(1)) == 1

    def _named(self, which: int) -> list[Topic]:
        return [topic for topic in self.catalog.topics.values() if topic.name == self.topic_names[which]]

    def inputs(self) -> list[tuple[Topic, int]]:
        """What groups commit offsets of."""
        (topic,) = self._named(0)
        return [(topic, index) for index in range(len(topic.partitions))]

    def outputs(self) -> list[tuple[Topic, int]]:
        """What transactions write to."""
        (topic,) = self._named(1)
        return [(topic, index) for index in range(len(topic.partitions))]

    # Last stable offsets

    def stable_end(self, topic: Topic, index: int) -> int:
        return self._stable_ends.get((topic.topic_id, index), 0)

    def told_stable_end(self, topic: Topic, index: int, offset: int, high_watermark: int, least: int) -> None:
        name = topic.partitions[index].name
        if offset > high_watermark:
            raise Violation(
                f"I15: {name} has a last stable offset of {offset} and a high watermark of {high_watermark}"
            )
        if offset < least and not self.may_be_stale:
            raise Violation(f"I15: the last stable offset of {name} went back from {least} to {offset}")
        self._stable_ends[topic.topic_id, index] = max(offset, self.stable_end(topic, index))

    # Answers of coordinators

    def must_be_replicated(self, offset: int) -> None:
        """A commit was acknowledged: it may not stand only where no in-sync follower has it."""
