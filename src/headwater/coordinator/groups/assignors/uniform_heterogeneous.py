"""`uniform` for members with different subscriptions: everything is assigned first, then moved until no move helps.

1. A member keeps what it had, of the topics that it is still subscribed to.
2. What nobody has goes, topic by topic, to the subscriber with the fewest partitions. The topics with the most
   partitions for each subscriber come first: the later ones, with more choice, even out what they leave behind.
3. Topic by topic, partitions move from its fullest subscribers to its emptiest, until they differ by at most one or the
   fullest have none of this topic left. This is repeated, because a move in one topic can make room for one in another:
   until a whole round moved nothing, 16 rounds at the most.
"""

from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from headwater.coordinator.groups.assignors.spec import Assignment, GroupSpec, in_topic_order, topic_order

ROUNDS_MAX: Final = 16
_NOBODY: Final = -1


def assign(group: GroupSpec) -> Assignment:
    return _Board(group).assign()


class _Board:
    """The assignment under construction. Members are known by their place in the order of ids."""

    def __init__(self, group: GroupSpec) -> None:
        self.member_ids = sorted(group.members)
        self.sizes = [0] * len(self.member_ids)
        self.subscribers: dict[bytes, list[int]] = {}
        for place, member_id in enumerate(self.member_ids):
            for topic in group.members[member_id].topics:
                self.subscribers.setdefault(topic, []).append(place)
        self.owners = {topic: [_NOBODY] * group.partition_counts[topic] for topic in self.subscribers}
        for place, member_id in enumerate(self.member_ids):
            member = group.members[member_id]
            for topic, partition in member.assigned:
                if topic in member.topics and self.owners[topic][partition] == _NOBODY:
                    self._give(topic, partition, place)

    def assign(self) -> Assignment:
        topics = sorted(in_topic_order(self.subscribers), key=self._urgency)
        for topic in topics:
            self._assign_free(topic)
        self._balance([topic for topic in topics if len(self.subscribers[topic]) > 1])
        result: dict[str, set[tuple[bytes, int]]] = {member_id: set() for member_id in self.member_ids}
        for topic, owners in self.owners.items():
            for partition, place in enumerate(owners):
                result[self.member_ids[place]].add((topic, partition))
        return {member_id: frozenset(partitions) for member_id, partitions in result.items()}

    def _urgency(self, topic: bytes) -> tuple[float, int, tuple[int, int]]:
        subscribers = len(self.subscribers[topic])
        return -len(self.owners[topic]) / subscribers, subscribers, topic_order(topic)

    def _give(self, topic: bytes, partition: int, place: int) -> None:
        owners = self.owners[topic]
        if owners[partition] != _NOBODY:
            self.sizes[owners[partition]] -= 1
        owners[partition] = place
        self.sizes[place] += 1

    def _ranked(self, topic: bytes) -> list[int]:
        """Its subscribers, the emptiest first. This order breaks ties for as long as the topic has its turn."""
        return sorted(self.subscribers[topic], key=lambda place: (self.sizes[place], place))

    def _assign_free(self, topic: bytes) -> None:
        emptiest = [(self.sizes[place], rank, place) for rank, place in enumerate(self._ranked(topic))]
        for partition, owner in enumerate(self.owners[topic]):
            if owner == _NOBODY:
                size, rank, place = emptiest[0]
                self._give(topic, partition, place)
                heapreplace(emptiest, (size + 1, rank, place))

    def _balance(self, topics: list[bytes]) -> None:
        last_moved = -1  # the place of the topic since whose turn nothing has moved
        for _ in range(ROUNDS_MAX):
            for place, topic in enumerate(topics):
                if place == last_moved:
                    return
                if self._balance_topic(topic) or last_moved == -1:
                    last_moved = place

    def _balance_topic(self, topic: bytes) -> bool:
        """Whether any partition moved. Each move pushes both members again: an entry with an old size is passed
        over.
        """
        ranked = self._ranked(topic)
        if self.sizes[ranked[-1]] - self.sizes[ranked[0]] <= 1:
            return False
        movable: dict[int, list[int]] = {}
        for partition, owner in enumerate(self.owners[topic]):
            movable.setdefault(owner, []).append(partition)
        emptiest = [(self.sizes[place], rank, place) for rank, place in enumerate(ranked)]
        fullest = [(-size, -rank, place) for size, rank, place in emptiest if place in movable]
        heapify(fullest)
        moved = False
        while fullest:
            negative_size, negative_rank, giver = heappop(fullest)
            if -negative_size != self.sizes[giver] or not movable[giver]:
                continue
            while emptiest[0][0] != self.sizes[emptiest[0][2]]:
                heappop(emptiest)
            size, rank, taker = emptiest[0]
            if self.sizes[giver] - size <= 1:
                break
            self._give(topic, movable[giver].pop(), taker)
            moved = True
            heapreplace(emptiest, (size + 1, rank, taker))
            heappush(emptiest, (self.sizes[giver], -negative_rank, giver))
            heappush(fullest, (-self.sizes[giver], negative_rank, giver))
            if taker in movable:
                heappush(fullest, (-self.sizes[taker], -rank, taker))
        return moved
