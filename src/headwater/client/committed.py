"""The committed offsets of a group: read, set, removed. All by the group's coordinator. No state.

Topics go by name, which OffsetFetch and OffsetCommit know up to version 9: offsets of a topic that is gone have no id.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.cluster import Cluster
from headwater.client.connection import Connection
from headwater.client.coordinators import KeyType, ask_coordinator
from headwater.client.errors import error_for, raise_for
from headwater.wire.messages import offset_commit as commit
from headwater.wire.messages import offset_delete as delete
from headwater.wire.messages import offset_fetch as fetch

_BY_NAME_MAX: Final = 9  # from version 10 on, topics are known by their ids
_GROUPS_SINCE: Final = 8
NO_OFFSET: Final = -1


class Committed(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str


def committed_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Committed]:
    """What the group has committed, of these partitions or of all; a partition without an offset is not among them."""
    wanted = None if partitions is None else _by_topic(partitions)
    request = fetch.OffsetFetchRequest(
        group_id=group_id,
        topics=None
        if wanted is None
        else [fetch.OffsetFetchRequestTopic(name=name, partition_indexes=wanted[name]) for name in wanted],
        groups=[
            fetch.OffsetFetchRequestGroup(
                group_id=group_id,
                topics=None
                if wanted is None
                else [fetch.OffsetFetchRequestTopics(name=name, partition_indexes=wanted[name]) for name in wanted],
            )
        ],
        require_stable=False,
    )

    def ask(connection: Connection) -> fetch.OffsetFetchResponse | fetch.OffsetFetchResponseGroup:
        response = connection.call(request, fetch.OffsetFetchResponse, at_most=_BY_NAME_MAX)
        return response.groups[0] if connection.version_for(request) >= _GROUPS_SINCE else response

    answer = ask_coordinator(cluster, group_id, KeyType.GROUP, ask, lambda answer: answer.error_code)
    raise_for(answer.error_code, f"group {group_id!r}")
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            raise_for(each.error_code, f"{topic.name}-{each.partition_index}")
            if each.committed_offset != NO_OFFSET:
                found[TopicPartition(topic.name, each.partition_index)] = Committed(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
    return found


def commit_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, KafkaError | None]:
    """Sets the offsets of a group that has no members, or of a consumer that never joined one."""
    topics = [
        commit.OffsetCommitRequestTopic(
            name=name,
            partitions=[
                commit.OffsetCommitRequestPartition(
                    partition_index=index, committed_offset=offsets[TopicPartition(name, index)], committed_metadata=""
                )
                for index in indexes
            ],
        )
        for name, indexes in _by_topic(offsets).items()
    ]
    request = commit.OffsetCommitRequest(group_id=group_id, member_id="", topics=topics)
    response = ask_coordinator(
        cluster,
        group_id,
        KeyType.GROUP,
        lambda connection: connection.call(request, commit.OffsetCommitResponse, at_most=_BY_NAME_MAX),
        lambda answer: next((each.error_code for topic in answer.topics for each in topic.partitions), 0),
    )
    return {
        TopicPartition(topic.name, each.partition_index): error_for(each.error_code) if each.error_code else None
        for topic in response.topics
        for each in topic.partitions
    }


def delete_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    """Forgets committed offsets. Raises what concerns the whole group."""
    topics = [
        delete.OffsetDeleteRequestTopic(
            name=name, partitions=[delete.OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for name, indexes in _by_topic(partitions).items()
    ]
    request = delete.OffsetDeleteRequest(group_id=group_id, topics=topics)
    response = ask_coordinator(
        cluster,
        group_id,
        KeyType.GROUP,
        lambda connection: connection.call(request, delete.OffsetDeleteResponse),
        lambda answer: answer.error_code,
    )
    raise_for(response.error_code, f"group {group_id!r}")
    return {
        TopicPartition(topic.name, each.partition_index): error_for(each.error_code) if each.error_code else None
        for topic in response.topics
        for each in topic.partitions
    }


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for each in sorted(partitions):
        grouped.setdefault(each.topic, []).append(each.partition)
    return grouped
