"""Who should have what: the assignor that most members ask for, given members, topics and the target until now. Pure."""

from typing import Final

from headwater.coordinator.groups.assignors import range as range_assignor
from headwater.coordinator.groups.assignors import uniform
from headwater.coordinator.groups.assignors.spec import NO_PARTITIONS, Assignment, Assignor, GroupSpec, MemberSpec
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
    members = {
        member.member_id: MemberSpec(
            member.instance_id,
            subscribed_ids(member, group.regexes, topics),
            group.target.get(member.member_id, NO_PARTITIONS),
        )
        for member in group.members.values()
    }
    subscribed = frozenset[bytes]().union(*(member.topics for member in members.values()))
    counts = {topic_id: topics.partition_count(topics.names[topic_id]) or 0 for topic_id in subscribed}
    return ASSIGNORS[preferred_assignor(group, settings)](GroupSpec(members, counts))
