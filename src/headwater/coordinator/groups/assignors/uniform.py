"""`uniform`, the default: as even as the subscriptions allow, and nobody loses a partition without need.

When all members are subscribed to the same topics, each gets the total divided by their number, and the first with room
for it one more. A member keeps what it had up to that quota. What is left over, in the order of topics and partitions,
fills the members below their quota. Members with different subscriptions are a harder problem: `uniform_heterogeneous`.
"""

from headwater.coordinator.groups.assignors import uniform_heterogeneous
from headwater.coordinator.groups.assignors.spec import (
    NO_PARTITIONS,
    Assignment,
    GroupSpec,
    MemberSpec,
    Partition,
    Partitions,
    in_partition_order,
    in_topic_order,
)


def assign(group: GroupSpec) -> Assignment:
    if not group.homogeneous:
        return uniform_heterogeneous.assign(group)
    return _assign_homogeneous(group)


def _assign_homogeneous(group: GroupSpec) -> Assignment:
    member_ids = sorted(group.members)
    topics = group.members[member_ids[0]].topics if member_ids else frozenset()
    if not topics:
        return dict.fromkeys(member_ids, NO_PARTITIONS)
    total = sum(group.partition_counts[topic] for topic in topics)
    quota, extra = divmod(total, len(member_ids))
    assigned_before = {partition for member in group.members.values() for partition in member.assigned}
    free = [
        (topic, partition)
        for topic in in_topic_order(topics)
        for partition in range(group.partition_counts[topic])
        if (topic, partition) not in assigned_before
    ]
    result: Assignment = {}
    room: dict[str, int] = {}
    for place, member_id in enumerate(member_ids):
        kept, revoked = _keep(group.members[member_id], topics, quota + (extra > 0))
        result[member_id] = kept
        free += revoked
        missing = quota + (extra > 0) - len(kept)
        takes_extra = extra > 0
        # Only as many members are given one more as there are extra partitions,
        # and those that hold one more already come first.
        if takes_extra and missing > 0 and len(member_ids) - place > extra:
            missing -= 1
            takes_extra = False
        if takes_extra:
            extra -= 1
        if missing > 0:
            room[member_id] = missing
    _fill(result, room, free)
    return result


def _keep(member: MemberSpec, topics: frozenset[bytes], limit: int) -> tuple[Partitions, list[Partition]]:
    """What the member keeps of what it had, and what it must give up. What it is no longer subscribed to goes to
    nobody.
    """
    had = [partition for partition in member.assigned if partition[0] in topics]
    if len(had) == len(member.assigned) <= limit:
        return member.assigned, []
    ordered = in_partition_order(had)
    return frozenset(ordered[:limit]), ordered[limit:]


def _fill(result: Assignment, room: dict[str, int], free: list[Partition]) -> None:
    start = 0
    for member_id, missing in room.items():
        result[member_id] |= frozenset(free[start : start + missing])
        start += missing
    assert start >= len(free), "partitions were left unassigned"
