"""ElectLeaders (key 43), versions 0 to 2: makes preferred replicas lead, or replicas out of sync where nobody leads.

A broker alone leads all that it has, so no election is needed. v0 knows preferred elections only. A request about all
topics (null) lists them without their partitions: those that need no election are left out, as in Apache Kafka.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.context import RequestContext
from headwater.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

PREFERRED: Final = 0
UNCLEAN: Final = 1


def handle(
    broker: "Broker",
    context: RequestContext,  # noqa: ARG001
    request: ElectLeadersRequest,
) -> ElectLeadersResponse:
    known_type = request.election_type in (PREFERRED, UNCLEAN)
    if request.topic_partitions is None:
        return ElectLeadersResponse(
            error_code=0 if known_type else int(ErrorCode.INVALID_REQUEST),
            replica_election_results=_every_topic(broker, request.election_type) if known_type else [],
        )
    results = [
        ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[_result(broker, topic.topic, index, request.election_type) for index in topic.partitions],
        )
        for topic in request.topic_partitions
    ]
    refused = bool(results) and not known_type
    return ElectLeadersResponse(
        error_code=int(ErrorCode.INVALID_REQUEST) if refused else 0, replica_election_results=results
    )


def _every_topic(broker: "Broker", election_type: int) -> list[ReplicaElectionResult]:
    results = []
    for topic in broker.image.topics.values():
        partitions = [_result(broker, topic.name, index, election_type) for index in range(len(topic.partitions))]
        needed = [each for each in partitions if each.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(topic=topic.name, partition_result=needed))
    return results


def _result(broker: "Broker", topic: str, index: int, election_type: int) -> PartitionResult:
    problem = _elect(broker, topic, index, election_type)
    return PartitionResult(partition_id=index, error_code=int(problem.code), error_message=problem.message)


def _elect(broker: "Broker", topic: str, index: int, election_type: int) -> KafkaError:
    """Why there is no election. Another broker that could lead would have to confirm records, and none does yet."""
    if election_type not in (PREFERRED, UNCLEAN):
        return KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}")
    topic_id = broker.image.ids_by_name.get(topic)
    if topic_id is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}")
    partitions = broker.image.topics[topic_id].partitions
    if not 0 <= index < len(partitions):
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}")
    state = partitions[index]
    if state.leader == state.replicas[0] or (election_type == UNCLEAN and state.leader >= 0):
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    if election_type == PREFERRED:
        return KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    return KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")
