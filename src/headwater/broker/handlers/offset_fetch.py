"""OffsetFetch (key 9), versions 1 to 10: the committed offsets of one group, from v8 on of several.

v2: no topics means all, and an error for the whole group. v7: `require_stable` waits for pending transactions. v9 has
member epochs, v10 topic ids. An unknown group is answered with -1 and no error. The shard answers in the shape of v8;
older ones are made from it here.
"""

from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.broker.coordinators.gather import gather
from headwater.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_FIRST_BATCHED: Final = 8
_FIRST_GROUP_ERROR: Final = 2


def handle(broker: "Broker", context: RequestContext, request: OffsetFetchRequest) -> Any:
    if context.api_version >= _FIRST_BATCHED:
        parts = [_fetch(broker, context, group, request.require_stable) for group in request.groups]
        return gather(parts, lambda groups: OffsetFetchResponse(groups=groups))
    topics = request.topics
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics],
    )
    part = _fetch(broker, context, group, request.require_stable)
    return gather([part], lambda groups: _old_shape(context.api_version, groups[0]))


def _fetch(broker: "Broker", context: RequestContext, group: OffsetFetchRequestGroup, require_stable: bool) -> Any:
    def refused(code: ErrorCode) -> OffsetFetchResponseGroup:
        return OffsetFetchResponseGroup(
            group_id=group.group_id,
            error_code=int(code),
            topics=[
                OffsetFetchResponseTopics(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetFetchResponsePartitions(
                            partition_index=index, committed_offset=-1, metadata="", error_code=int(code)
                        )
                        for index in topic.partition_indexes
                    ],
                )
                for topic in (group.topics or ())
            ]
            if context.api_version < _FIRST_GROUP_ERROR
            else [],
        )

    return broker.groups.call(
        context,
        group.group_id,
        lambda shard, who, ticket, now_ms: shard.offset_fetch(
            who, group, ticket, now_ms, require_stable=require_stable
        ),
        refused,
        may_write=False,
    )


def _old_shape(version: int, group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        error_code=group.error_code if version >= _FIRST_GROUP_ERROR else 0,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=part.partition_index,
                        committed_offset=part.committed_offset,
                        committed_leader_epoch=part.committed_leader_epoch,
                        metadata=part.metadata,
                        error_code=part.error_code,
                    )
                    for part in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
