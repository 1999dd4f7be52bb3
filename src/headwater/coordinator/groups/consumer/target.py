"""Who should have what: the assignor that most members ask for, given members, topics and the target until now.
Pure.
"""

from collections.abc import Mapping
from typing import Final

from headwater.coordinator.groups.assignors import range as range_assignor
from headwater.coordinator.groups.assignors import uniform
from headwater.coordinator.groups.assignors.spec import (
    NO_PARTITIONS,
    Assignment,
    Assignor,
    GroupSpec,
    MemberSpec,
    Partitions,
)
from headwater.coordinator.groups.consumer.group import ConsumerGroup
from headwater.coordinator.groups.consumer.subscriptions import subscribed_ids
from headwater.coordinator.groups.context import GroupSettings, Topics

ASSIGNORS: Final[dict[str, Assignor]] = {"uniform": uniform.assign, "range": range_assignor.assign}


def preferred_assignor(group: ConsumerGroup, settings: GroupSettings) -> str:
    """The one with most votes, of equals the one that the broker names first; its first one if nobody voted."""
    votes = dict.fromkeys(settings.consumer_assignors, 0)
    for member in group.members.values():
        if member.server_assignor in votes:
            votes[member.server_assignor] += 1
    return max(votes, key=lambda name: votes[name])


def new_targets(group: ConsumerGroup, topics: Topics, settings: GroupSettings) -> Assignment:
    wanted = {member.member_id: subscribed_ids(member, group.regexes, topics) for member in group.members.values()}
    subscribed = frozenset[bytes]().union(*wanted.values())
    counts = {topic_id: topics.partition_count(topics.names[topic_id]) or 0 for topic_id in subscribed}
    members = {
        member_id: MemberSpec(group.members[member_id].instance_id, ids, _known(group.target.get(member_id), counts))
        for member_id, ids in wanted.items()
    }
    return ASSIGNORS[preferred_assignor(group, settings)](GroupSpec(members, counts))


def _known(target: Partitions | None, counts: Mapping[bytes, int]) -> Partitions:
    """Without partitions that this broker has not heard of yet, although the coordinator before it had given them
    out.
    """
    if target is None:
        return NO_PARTITIONS
    unknown = [each for each in target if each[1] >= counts.get(each[0], each[1] + 1)]
    return target.difference(unknown) if unknown else target
