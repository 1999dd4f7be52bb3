"""`range`: every topic is cut into contiguous ranges, one for each of its subscribers, in the order of the members.

Topics with the same number of partitions and the same subscribers are cut alike: partition 3 of one and of the other go
to the same member (co-partitioning, for joins). Static members stand first, by their instance id, so that they keep
their ranges over a restart.
"""

from headwater.coordinator.groups.assignors.spec import Assignment, GroupSpec, Partition


def assign(group: GroupSpec) -> Assignment:
    order = sorted(group.members, key=lambda member_id: _place(group, member_id))
    chosen: dict[str, list[Partition]] = {member_id: [] for member_id in order}
    for topic, count in group.partition_counts.items():
        subscribers = [member_id for member_id in order if topic in group.members[member_id].topics]
        if not subscribers:
            continue
        each, extra = divmod(count, len(subscribers))
        start = 0
        for place, member_id in enumerate(subscribers):
            end = start + each + (place < extra)
            chosen[member_id] += [(topic, partition) for partition in range(start, end)]
            start = end
    return {member_id: frozenset(partitions) for member_id, partitions in chosen.items()}


def _place(group: GroupSpec, member_id: str) -> tuple[bool, str]:
    instance_id = group.members[member_id].instance_id
    return (True, member_id) if instance_id is None else (False, instance_id)
