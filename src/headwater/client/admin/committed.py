"""Admin calls about the committed offsets of a group: read, set, removed. All by the group's coordinator. No state.

Topics go by name, which OffsetFetch and OffsetCommit know up to version 9: offsets of a topic that is gone have no id.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin.call_routing import by_topic, failure, of_coordinator
from headwater.client.errors import raise_for
from headwater.client.session import KeyType, Session
from headwater.client.types import NO_OFFSET
from headwater.wire.messages import offset_commit as commit
from headwater.wire.messages import offset_delete as delete
from headwater.wire.messages import offset_fetch as fetch

_BY_NAME_MAX: Final = 9  # from version 10 on, topics are known by their ids


class Committed(NamedTuple):
    offset: int
    leader_epoch: int = -1
    metadata: str = ""


async def list_group_offsets(
    session: Session,
    group_id: str,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    require_stable: bool = False,
) -> dict[TopicPartition, Committed]:
    """What the group has committed, of these partitions or of all; a partition without an offset is not among them.

    With `require_stable`, an offset that a transaction is about to commit is UNSTABLE_OFFSET_COMMIT, raised at once: it
    is for the caller to ask again.
    """
    wanted = None if partitions is None else by_topic(sorted(set(partitions)))
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
        require_stable=require_stable,
    )
    response = await of_coordinator(
        session,
        group_id,
        KeyType.GROUP,
        request,
        fetch.OffsetFetchResponse,
        lambda answer: _of_group(answer).error_code,
        at_most=_BY_NAME_MAX,
    )
    answer = _of_group(response)
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


def _of_group(response: fetch.OffsetFetchResponse) -> fetch.OffsetFetchResponse | fetch.OffsetFetchResponseGroup:
    """From version 8 on, a response speaks of groups."""
    return response.groups[0] if response.groups else response


async def alter_group_offsets(
    session: Session, group_id: str, offsets: Mapping[TopicPartition, int | Committed]
) -> dict[TopicPartition, KafkaError | None]:
    """Sets the offsets of a group that has no members, or of a consumer that never joined one."""
    wanted = {each: Committed(at) if isinstance(at, int) else at for each, at in offsets.items()}
    topics = [
        commit.OffsetCommitRequestTopic(
            name=name, partitions=[_to_commit(index, wanted[TopicPartition(name, index)]) for index in indexes]
        )
        for name, indexes in by_topic(sorted(wanted)).items()
    ]
    response = await of_coordinator(
        session,
        group_id,
        KeyType.GROUP,
        commit.OffsetCommitRequest(group_id=group_id, member_id="", topics=topics),
        commit.OffsetCommitResponse,
        lambda answer: next((each.error_code for topic in answer.topics for each in topic.partitions), 0),
        at_most=_BY_NAME_MAX,
    )
    return {
        TopicPartition(topic.name, each.partition_index): failure(each.error_code)
        for topic in response.topics
        for each in topic.partitions
    }


def _to_commit(index: int, committed: Committed) -> commit.OffsetCommitRequestPartition:
    return commit.OffsetCommitRequestPartition(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        committed_metadata=committed.metadata,
    )


async def delete_group_offsets(
    session: Session, group_id: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, KafkaError | None]:
    """Forgets committed offsets. Raises what concerns the whole group."""
    topics = [
        delete.OffsetDeleteRequestTopic(
            name=name, partitions=[delete.OffsetDeleteRequestPartition(partition_index=index) for index in indexes]
        )
        for name, indexes in by_topic(sorted(set(partitions))).items()
    ]
    response = await of_coordinator(
        session,
        group_id,
        KeyType.GROUP,
        delete.OffsetDeleteRequest(group_id=group_id, topics=topics),
        delete.OffsetDeleteResponse,
        lambda answer: answer.error_code,
    )
    raise_for(response.error_code, f"group {group_id!r}")
    return {
        TopicPartition(topic.name, each.partition_index): failure(each.error_code)
        for topic in response.topics
        for each in topic.partitions
    }
