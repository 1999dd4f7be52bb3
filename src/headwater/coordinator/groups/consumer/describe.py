"""ConsumerGroupDescribe: one group as it is. Topics that are gone are left out."""

from collections.abc import Iterable

from headwater.coordinator.groups.assignors.spec import NO_PARTITIONS, Partition
from headwater.coordinator.groups.consumer.group import ConsumerGroup
from headwater.coordinator.groups.consumer.member import Member, by_topic
from headwater.coordinator.groups.consumer.target import preferred_assignor
from headwater.coordinator.groups.context import GroupSettings, Topics
from headwater.wire.messages.consumer_group_describe import Assignment, DescribedGroup, TopicPartitions
from headwater.wire.messages.consumer_group_describe import Member as DescribedMember

CLASSIC_MEMBER = 0
CONSUMER_MEMBER = 1


def described(group: ConsumerGroup, topics: Topics, settings: GroupSettings) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group, settings),
        members=[_member(group, member, topics) for member in group.members.values()],
    )


def _member(group: ConsumerGroup, member: Member, topics: Topics) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.regex,
        assignment=_assignment(member.owned, topics),
        target_assignment=_assignment(group.target.get(member.member_id, NO_PARTITIONS), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Iterable[Partition], topics: Topics) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topics.names[topic_id], partitions=indexes)
            for topic_id, indexes in by_topic(partitions).items()
            if topic_id in topics.names
        ]
    )
