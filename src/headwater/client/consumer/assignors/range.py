"""The range assignor: of each topic, each member gets a run of neighbouring partitions.

Topics with as many partitions as each other are so divided alike, and records with one key of several topics meet at
one member. The first members get one more where the division leaves a rest. Racks do not count.
"""

from collections.abc import Mapping, Sequence

from headwater.base.ids import TopicPartition
from headwater.client.consumer.assignors.spec import MemberSubscription, subscribers


class RangeAssignor:
    name = "range"
    cooperative = False

    def user_data(
        self, topics: Sequence[str], previous: Sequence[TopicPartition], previous_generation: int
    ) -> bytes | None:
        del topics, previous, previous_generation
        return None

    def assign(
        self, partition_counts: Mapping[str, int], members: Mapping[str, MemberSubscription]
    ) -> dict[str, list[TopicPartition]]:
        assignment: dict[str, list[TopicPartition]] = {member_id: [] for member_id in members}
        by_topic = subscribers(members)
        for topic in sorted(by_topic):
            takers = by_topic[topic]
            each, rest = divmod(partition_counts.get(topic, 0), len(takers))
            start = 0
            for at, member_id in enumerate(takers):
                end = start + each + (at < rest)
                assignment[member_id] += [TopicPartition(topic, index) for index in range(start, end)]
                start = end
        return assignment
