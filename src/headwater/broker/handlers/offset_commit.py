"""OffsetCommit (key 8), versions 2 to 10: where a group has got to. v5 drops the retention time, v7 has static members,
v10 topic ids.
"""

from typing import TYPE_CHECKING, Any

from headwater.base.errors import ErrorCode
from headwater.broker.context import RequestContext
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: OffsetCommitRequest) -> Any:
    def refused(code: ErrorCode) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=int(code))
                        for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return broker.groups.call(
        context,
        request.group_id,
        lambda shard, who, ticket, now_ms: shard.offset_commit(who, request, ticket, now_ms),
        refused,
    )
