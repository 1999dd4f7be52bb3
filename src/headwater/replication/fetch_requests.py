"""The requests of a fetcher, and the settings that go into them. No state."""

from dataclasses import dataclass
from typing import Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId
from headwater.replication.partition import Partition
from headwater.wire.messages.fetch import FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from headwater.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

_EARLIEST: Final = -2


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    max_wait_ms: int = 500
    min_bytes: int = 1
    partition_bytes_max: int = 1 << 20
    response_bytes_max: int = 10 << 20
    rest_max_ms: int = 1_000
    timeout_ms: int = 30_000


def fetch_request(
    replica: tuple[BrokerId, int],
    settings: FetcherSettings,
    session_id: int,
    session_epoch: int,
    topics: list[FetchTopic],
    forgotten: list[ForgottenTopic],
) -> FetchRequest:
    return FetchRequest(
        replica_state=ReplicaState(replica_id=replica[0], replica_epoch=replica[1]),
        max_wait_ms=settings.max_wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.response_bytes_max,
        isolation_level=0,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten,
        rack_id="",
    )


def start_request(replica: BrokerId, partition: Partition) -> ListOffsetsRequest:
    """Where does the leader's log begin?"""
    asked = ListOffsetsPartition(
        partition_index=partition.index, current_leader_epoch=partition.leader_epoch, timestamp=_EARLIEST
    )
    topics = [ListOffsetsTopic(name=partition.topic, partitions=[asked])]
    return ListOffsetsRequest(replica_id=replica, isolation_level=0, topics=topics)


def start_of(response: Any | None) -> int:
    """The answer to that; raises KafkaError."""
    if response is None:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the leader does not say where its log begins")
    assert isinstance(response, ListOffsetsResponse)
    (found,) = response.topics[0].partitions
    if found.error_code:
        raise KafkaError(ErrorCode(found.error_code))
    return found.offset
