"""The heart of both sticky assignors: as balanced as subscriptions allow, and as few moves as balance allows.

Three steps. Each partition has at most one rightful owner among those who claim it: the one of the latest generation.
Then partitions without owner go to those who have least. Then partitions move from those who have more to those who
have less, as long as that helps: until nobody who could take a partition has two fewer than the one who holds it.

Where all members subscribe to the same topics, each one's share is known beforehand, and only what exceeds it is given
up.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headwater.base.ids import TopicPartition
from headwater.client.consumer.assignors.spec import MemberSubscription, in_order, partitions_of, subscribers

Assignment = dict[str, list[TopicPartition]]


class Claim(NamedTuple):
    """What a member says that it had, and in which generation it was given it."""

    partitions: Sequence[TopicPartition]
    generation: int


def assign_sticky(
    partition_counts: Mapping[str, int], members: Mapping[str, MemberSubscription], claims: Mapping[str, Claim]
) -> Assignment:
    kept = _rightful(partition_counts, members, claims)
    if len({frozenset(each.topics) for each in members.values()}) == 1:
        _trim(kept, members, len(partitions_of(subscribers(members), partition_counts)))
        return _placed(partition_counts, members, kept)
    assignment = _placed(partition_counts, members, kept)
    _level(assignment, members, kept)
    return assignment


def _rightful(
    partition_counts: Mapping[str, int], members: Mapping[str, MemberSubscription], claims: Mapping[str, Claim]
) -> Assignment:
    """What each member may keep: it exists, it is still wanted, and nobody has a claim as good as this one."""
    owners: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id in in_order(members):
        topics = frozenset(members[member_id].topics)
        claim = claims.get(member_id, Claim((), -1))
        for partition in set(claim.partitions):
            if partition.topic not in topics or not 0 <= partition.partition < partition_counts.get(partition.topic, 0):
                continue
            generation, _ = owners.get(partition, (-2, None))
            if claim.generation > generation:
                owners[partition] = (claim.generation, member_id)
            elif claim.generation == generation:
                owners[partition] = (generation, None)  # both were told so; neither can be believed
    kept: Assignment = {member_id: [] for member_id in members}
    for partition in sorted(owners):
        owner = owners[partition][1]
        if owner is not None:
            kept[owner].append(partition)
    return kept


def _trim(kept: Assignment, members: Mapping[str, MemberSubscription], partition_count: int) -> None:
    """Leaves nobody more than its share. Those who have most get the larger shares."""
    each, rest = divmod(partition_count, len(members))
    for at, member_id in enumerate(sorted(in_order(members), key=lambda member_id: -len(kept[member_id]))):
        del kept[member_id][each + (at < rest) :]


def _placed(
    partition_counts: Mapping[str, int], members: Mapping[str, MemberSubscription], kept: Assignment
) -> Assignment:
    """Gives the partitions that nobody keeps to those who have least, beginning with those that few can take."""
    assignment = {member_id: list(partitions) for member_id, partitions in kept.items()}
    takers = {topic: tuple(found) for topic, found in subscribers(members).items()}
    taken = {partition for partitions in kept.values() for partition in partitions}
    open_ones = [each for each in partitions_of(takers, partition_counts) if each not in taken]
    open_ones.sort(key=lambda partition: len(takers[partition.topic]))
    heaps: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    for partition in open_ones:
        candidates = takers[partition.topic]
        heap = heaps.get(candidates)
        if heap is None:
            heap = [(len(assignment[member_id]), at) for at, member_id in enumerate(candidates)]
            heapq.heapify(heap)
            heaps[candidates] = heap
        while heap[0][0] != len(assignment[candidates[heap[0][1]]]):  # it got more through another topic meanwhile
            at = heap[0][1]
            heapq.heapreplace(heap, (len(assignment[candidates[at]]), at))
        at = heap[0][1]
        assignment[candidates[at]].append(partition)
        heapq.heapreplace(heap, (len(assignment[candidates[at]]), at))
    return assignment


def _level(assignment: Assignment, members: Mapping[str, MemberSubscription], kept: Assignment) -> None:
    """Each move makes the sum of the squares of the loads smaller, so it ends."""
    order = in_order(members)
    topics = {member_id: frozenset(members[member_id].topics) for member_id in order}
    stuck = {member_id: frozenset(partitions) for member_id, partitions in kept.items()}
    while _move_one(assignment, sorted(order, key=lambda member_id: len(assignment[member_id])), topics, stuck):
        pass


def _move_one(
    assignment: Assignment,
    by_load: list[str],
    topics: Mapping[str, frozenset[str]],
    stuck: Mapping[str, frozenset[TopicPartition]],
) -> bool:
    for target in by_load:
        for source in reversed(by_load):
            if len(assignment[source]) - len(assignment[target]) < 2:
                break
            movable = [each for each in assignment[source] if each.topic in topics[target]]
            if movable:
                # back to whom it was before, else one that is new to its holder too
                chosen = min(movable, key=lambda each: (each not in stuck[target], each in stuck[source], each))
                assignment[source].remove(chosen)
                assignment[target].append(chosen)
                return True
    return False
