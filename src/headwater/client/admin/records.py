"""Admin calls about what lies in partitions: the offsets by time, and dropping the oldest records. Asked of the
leaders. No state.
"""

from collections.abc import Mapping
from typing import Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin.call_routing import by_topic, of_leaders
from headwater.client.errors import error_for
from headwater.client.reactor.link import Link
from headwater.client.session import Session
from headwater.client.types import READ_UNCOMMITTED, OffsetAt
from headwater.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from headwater.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_SINCE: Final = {-3: 7, -4: 8, -5: 9, -6: 11}  # the version that knows each special timestamp


async def list_offsets(
    session: Session, wanted: Mapping[TopicPartition, int], *, isolation_level: int = READ_UNCOMMITTED
) -> dict[TopicPartition, OffsetAt | KafkaError]:
    """The first offset at or after each partition's timestamp in ms, or that of LATEST, EARLIEST, MAX_TIMESTAMP.

    With READ_COMMITTED, LATEST is the last stable offset: where a reader of committed records would stop.
    """

    async def ask(link: Link, partitions: list[TopicPartition]) -> dict[TopicPartition, OffsetAt | KafkaError]:
        topics = [
            ListOffsetsTopic(
                name=topic,
                partitions=[
                    ListOffsetsPartition(partition_index=index, timestamp=wanted[TopicPartition(topic, index)])
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(partitions).items()
        ]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=topics,
            timeout_ms=session.settings.request_timeout_ms,
        )
        needed = max((_SINCE.get(wanted[each], 0) for each in partitions), default=0)
        if link.version_for(request) < needed:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, "the broker cannot look for the largest timestamp or for tiered records"
            )
        response = await link.call(request, ListOffsetsResponse)
        return {
            TopicPartition(topic.name, each.partition_index): error_for(each.error_code)
            if each.error_code
            else OffsetAt(each.offset, each.timestamp, each.leader_epoch)
            for topic in response.topics
            for each in topic.partitions
        }

    return await of_leaders(session, wanted, ask)


async def delete_records(
    session: Session, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | KafkaError]:
    """Drops everything below the given offsets (-1: all that is committed). Gives each partition's new start."""

    async def ask(link: Link, partitions: list[TopicPartition]) -> dict[TopicPartition, int | KafkaError]:
        topics = [
            DeleteRecordsTopic(
                name=topic,
                partitions=[
                    DeleteRecordsPartition(partition_index=index, offset=before[TopicPartition(topic, index)])
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(partitions).items()
        ]
        request = DeleteRecordsRequest(topics=topics, timeout_ms=session.settings.request_timeout_ms)
        response = await link.call(request, DeleteRecordsResponse)
        return {
            TopicPartition(topic.name, each.partition_index): error_for(each.error_code)
            if each.error_code
            else each.low_watermark
            for topic in response.topics
            for each in topic.partitions
        }

    return await of_leaders(session, before, ask)
