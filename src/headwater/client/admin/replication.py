"""Admin calls about replicas: which broker leads, and on which brokers partitions lie. Asked of the controller. No
state.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin.call_routing import by_topic, failure, of_controller
from headwater.client.errors import raise_for
from headwater.client.session import Session
from headwater.wire.messages import alter_partition_reassignments as alter_wire
from headwater.wire.messages import elect_leaders as elect_wire
from headwater.wire.messages import list_partition_reassignments as list_wire


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1  # also a replica that is not in sync: records may be lost


class Reassignment(NamedTuple):
    """A move under way: the replicas there are, those that come, and those that go."""

    replicas: list[int]
    adding: list[int]
    removing: list[int]


async def elect_leaders(
    session: Session,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    election_type: ElectionType = ElectionType.PREFERRED,
) -> dict[TopicPartition, KafkaError | None]:
    """Lets leaders be elected, of these partitions or of all. ELECTION_NOT_NEEDED: the right one leads already.

    For all, only those partitions are among the outcome for which there was something to do.
    """
    wanted = None
    if partitions is not None:
        wanted = [elect_wire.TopicPartitions(topic=topic, partitions=at) for topic, at in by_topic(partitions).items()]
    request = elect_wire.ElectLeadersRequest(
        election_type=election_type, topic_partitions=wanted, timeout_ms=session.settings.request_timeout_ms
    )
    response = await of_controller(
        session, request, elect_wire.ElectLeadersResponse, lambda answer: [answer.error_code]
    )
    raise_for(response.error_code, "no leaders could be elected")
    outcome = {
        TopicPartition(topic.topic, each.partition_id): failure(each.error_code, each.error_message)
        for topic in response.replica_election_results
        for each in topic.partition_result
    }
    if partitions is None:
        return {
            each: error
            for each, error in outcome.items()
            if error is None or error.code != ErrorCode.ELECTION_NOT_NEEDED
        }
    return outcome


async def alter_partition_reassignments(
    session: Session,
    replicas: Mapping[TopicPartition, Sequence[int] | None],
    *,
    allow_replication_factor_change: bool = True,
) -> dict[TopicPartition, KafkaError | None]:
    """Moves partitions to these brokers, the first of which is the preferred leader. None: a move under way is called
    off.
    """
    topics = [
        alter_wire.ReassignableTopic(
            name=topic,
            partitions=[
                alter_wire.ReassignablePartition(
                    partition_index=index, replicas=_list(replicas[TopicPartition(topic, index)])
                )
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(replicas).items()
    ]
    request = alter_wire.AlterPartitionReassignmentsRequest(
        timeout_ms=session.settings.request_timeout_ms,
        allow_replication_factor_change=allow_replication_factor_change,
        topics=topics,
    )
    response = await of_controller(
        session, request, alter_wire.AlterPartitionReassignmentsResponse, lambda answer: [answer.error_code]
    )
    raise_for(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): failure(each.error_code, each.error_message)
        for topic in response.responses
        for each in topic.partitions
    }


async def list_partition_reassignments(
    session: Session, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, Reassignment]:
    """The moves under way, of these partitions or of all."""
    topics = None
    if partitions is not None:
        topics = [
            list_wire.ListPartitionReassignmentsTopics(name=topic, partition_indexes=at)
            for topic, at in by_topic(partitions).items()
        ]
    request = list_wire.ListPartitionReassignmentsRequest(timeout_ms=session.settings.request_timeout_ms, topics=topics)
    response = await of_controller(
        session, request, list_wire.ListPartitionReassignmentsResponse, lambda answer: [answer.error_code]
    )
    raise_for(response.error_code, response.error_message)
    return {
        TopicPartition(topic.name, each.partition_index): Reassignment(
            list(each.replicas), list(each.adding_replicas), list(each.removing_replicas)
        )
        for topic in response.topics
        for each in topic.partitions
    }


def _list(replicas: Sequence[int] | None) -> list[int] | None:
    return None if replicas is None else list(replicas)
