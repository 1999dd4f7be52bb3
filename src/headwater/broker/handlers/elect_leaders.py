"""ElectLeaders (key 43), versions 0 to 2: makes preferred replicas lead, or replicas out of sync where nobody leads.

In a cluster the controller decides and commits. A broker alone leads all that it has, so no election is needed. v0
knows preferred elections only. A request about all topics (null) lists them without the partitions that need no
election, as in Apache Kafka.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.controller.controller import Controller

PREFERRED: Final = 0
UNCLEAN: Final = 1


def handle(
    broker: "Broker",
    context: RequestContext,
    request: ElectLeadersRequest,
) -> ElectLeadersResponse | Deferred:
    known_type = request.election_type in (PREFERRED, UNCLEAN)
    if broker.controller is not None and known_type:
        return _by_controller(broker, broker.controller, context, request)
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


def _by_controller(
    broker: "Broker", controller: "Controller", context: RequestContext, request: ElectLeadersRequest
) -> Deferred:
    from headwater.broker.refusals import refusal  # a broker alone needs none of it
    from headwater.controller.planning import Election

    asked = _asked(broker, request)
    partitions = [TopicPartition(topic, index) for topic, indexes in asked for index in indexes]
    deferred = Deferred()

    def answer(error: KafkaError | None, results: list[KafkaError | None]) -> None:
        if error is None:
            deferred.complete(_elected(asked, results, is_every_topic=request.topic_partitions is None))
            return
        try:
            deferred.complete(refusal(request, context.api_version, error))
        except KafkaError as no_place:
            deferred.complete(no_place)

    controller.elect(partitions, Election(request.election_type), request.timeout_ms, answer)
    return deferred


def _asked(broker: "Broker", request: ElectLeadersRequest) -> list[tuple[str, Sequence[int]]]:
    if request.topic_partitions is not None:
        return [(topic.topic, topic.partitions) for topic in request.topic_partitions]
    return [(topic.name, range(len(topic.partitions))) for topic in broker.image.topics.values()]


def _elected(
    asked: list[tuple[str, Sequence[int]]], results: list[KafkaError | None], *, is_every_topic: bool
) -> ElectLeadersResponse:
    answered = iter(results)
    topics = []
    for topic, indexes in asked:
        partitions = [_told(index, next(answered)) for index in indexes]
        if is_every_topic:
            partitions = [each for each in partitions if each.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        topics.append(ReplicaElectionResult(topic=topic, partition_result=partitions))
    return ElectLeadersResponse(error_code=0, replica_election_results=topics)


def _told(index: int, problem: KafkaError | None) -> PartitionResult:
    if problem is None:
        return PartitionResult(partition_id=index, error_code=0, error_message=None)
    return PartitionResult(partition_id=index, error_code=int(problem.code), error_message=problem.message)


# A broker that is alone


def _every_topic(broker: "Broker", election_type: int) -> list[ReplicaElectionResult]:
    results = []
    for topic in broker.image.topics.values():
        partitions = [_result(broker, topic.name, index, election_type) for index in range(len(topic.partitions))]
        needed = [each for each in partitions if each.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(topic=topic.name, partition_result=needed))
    return results


def _result(broker: "Broker", topic: str, index: int, election_type: int) -> PartitionResult:
    return _told(index, _elect(broker, topic, index, election_type))


def _elect(broker: "Broker", topic: str, index: int, election_type: int) -> KafkaError:
    """Why there is no election."""
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
