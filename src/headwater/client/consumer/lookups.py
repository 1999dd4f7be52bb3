"""Questions about the logs of partitions, asked of their leaders: offsets of times and ends, ends of leader epochs."""

from collections.abc import Mapping
from typing import NamedTuple

from headwater.base.errors import KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.errors import error_for
from headwater.client.reactor.link import Link
from headwater.client.session import Session
from headwater.client.types import OffsetAt
from headwater.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from headwater.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_CONSUMER: int = -1


class EndOfEpoch(NamedTuple):
    """Up to where the leader's log holds records of `epoch` or of those before. -1: it does not know."""

    epoch: int
    end_offset: int


async def list_offsets(
    session: Session, times: Mapping[TopicPartition, int], isolation_level: int, *, timeout_ms: int | None = None
) -> dict[TopicPartition, OffsetAt | KafkaError]:
    """The first offset whose timestamp is at least the given one; or of the ends, for EARLIEST and LATEST."""

    async def ask(link: Link, partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetAt | KafkaError]:
        topics: dict[str, ListOffsetsTopic] = {}
        for each in partitions:
            topic = topics.setdefault(each.topic, ListOffsetsTopic(name=each.topic, partitions=[]))
            topic.partitions.append(ListOffsetsPartition(partition_index=each.partition, timestamp=times[each]))
        request = ListOffsetsRequest(
            replica_id=_CONSUMER,
            isolation_level=isolation_level,
            topics=list(topics.values()),
            timeout_ms=session.settings.request_timeout_ms,
        )
        response = await link.call(request, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, each.partition_index): error_for(
                each.error_code, f"{topic.name}-{each.partition_index}"
            )
            if each.error_code
            else OffsetAt(each.offset, each.timestamp, each.leader_epoch)
            for topic in response.topics
            for each in topic.partitions
        }

    return await session.per_leader(times, ask, timeout_ms=timeout_ms)


async def ends_of_epochs(
    link: Link, epochs: Mapping[TopicPartition, tuple[int, int]]
) -> dict[TopicPartition, EndOfEpoch | KafkaError]:
    """`epochs`: the leader epoch of now, and the one asked about."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for each, (current, asked) in epochs.items():
        topic = topics.setdefault(each.topic, OffsetForLeaderTopic(topic=each.topic, partitions=[]))
        topic.partitions.append(
            OffsetForLeaderPartition(partition=each.partition, current_leader_epoch=current, leader_epoch=asked)
        )
    request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))
    response = await link.call(request, OffsetForLeaderEpochResponse)
    return {
        TopicPartition(topic.topic, each.partition): error_for(each.error_code, f"{topic.topic}-{each.partition}")
        if each.error_code
        else EndOfEpoch(each.leader_epoch, each.end_offset)
        for topic in response.topics
        for each in topic.partitions
    }
