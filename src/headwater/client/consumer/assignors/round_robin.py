"""The round-robin assignor: all partitions of all topics are dealt out like cards, to those who subscribe to the
topic.
"""

from collections.abc import Mapping, Sequence

from headwater.base.ids import TopicPartition
from headwater.client.consumer.assignors.spec import MemberSubscription, in_order, partitions_of, subscribers


class RoundRobinAssignor:
    name = "roundrobin"
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
        order = in_order(members)
        wanted = {member_id: frozenset(members[member_id].topics) for member_id in order}
        turn = 0
        for partition in partitions_of(subscribers(members), partition_counts):
            while partition.topic not in wanted[order[turn]]:
                turn = (turn + 1) % len(order)
            assignment[order[turn]].append(partition)
            turn = (turn + 1) % len(order)
        return assignment
