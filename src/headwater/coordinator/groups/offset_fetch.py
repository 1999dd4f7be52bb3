"""OffsetFetch: what one group has committed, in the shape of version 8 and up.

An unknown group, topic or partition is -1 without an error. With `require_stable`, a partition that an open transaction
may still change is answered UNSTABLE_OFFSET_COMMIT, and the client asks again. An offset that was committed to another
topic of the same name does not count.
"""

from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import NO_TOPIC_ID
from headwater.coordinator.groups.context import GroupContext, ShardState
from headwater.coordinator.groups.offsets import CommittedOffset, Offsets
from headwater.wire.messages.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

FETCH_BY_ID_SINCE: Final = 10
NO_OFFSET: Final = -1


def fetch(
    state: ShardState,
    offsets: Offsets,
    context: GroupContext,
    request: OffsetFetchRequestGroup,
    *,
    require_stable: bool,
) -> OffsetFetchResponseGroup:
    group = state.groups.get(request.group_id)
    response = OffsetFetchResponseGroup(group_id=request.group_id)
    try:
        if group is not None:
            group.validate_offset_fetch(request.member_id, request.member_epoch)
    except KafkaError as error:
        response.error_code = error.code
        return response
    by_id = context.api_version >= FETCH_BY_ID_SINCE
    wanted = request.topics
    if wanted is None:
        wanted = _all_topics(state, offsets, request.group_id, by_id=by_id)
    for topic in wanted:
        name = state.topics.names.get(topic.topic_id) if by_id else topic.name
        answer = OffsetFetchResponseTopics(name=name or "", topic_id=topic.topic_id)
        for partition in topic.partition_indexes:
            if name is None:
                answer.partitions.append(_partition(partition, None, ErrorCode.UNKNOWN_TOPIC_ID))
            elif require_stable and offsets.is_pending(request.group_id, name, partition):
                answer.partitions.append(_partition(partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT))
            else:
                offset = offsets.get(request.group_id, name, partition)
                if offset is not None and by_id and offset.topic_id not in (NO_TOPIC_ID, topic.topic_id):
                    offset = None
                answer.partitions.append(_partition(partition, offset, ErrorCode.NONE))
        response.topics.append(answer)
    return response


def _all_topics(state: ShardState, offsets: Offsets, group_id: str, *, by_id: bool) -> list[OffsetFetchRequestTopics]:
    """What has a committed offset; asked by id, only topics that are still there."""
    topics = []
    for name, partitions in offsets.of_group(group_id).items():
        topic_id = state.topics.ids.get(name)
        if topic_id is None and by_id:
            continue
        topics.append(
            OffsetFetchRequestTopics(name=name, topic_id=topic_id or NO_TOPIC_ID, partition_indexes=list(partitions))
        )
    return topics


def _partition(index: int, offset: CommittedOffset | None, code: ErrorCode) -> OffsetFetchResponsePartitions:
    if offset is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )
