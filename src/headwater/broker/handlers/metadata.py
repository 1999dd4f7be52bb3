"""Metadata (key 3), versions 0 to 13: brokers, topics, leaders. Any broker answers for the whole cluster.

v0: no topics means all; from v1 on null means all and an empty list none. v4: the client may forbid automatic creation. v10
has topic ids, v12 asks by them. An unknown topic is made when `auto.create.topics.enable` is on, the client does not forbid
it, and the name is valid; unlike Kafka, which answers LEADER_NOT_AVAILABLE and lets the client ask again, the answer waits
until the topic is there.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import NO_TOPIC_ID, TopicId
from headwater.base.names import validate_topic_name
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.topics import plan_topic
from headwater.metadata.image import Change, TopicState
from headwater.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

# Without an authorizer a client may do everything: bits of the ACL operations that apply.
CLUSTER_OPERATIONS: Final = sum(
    1 << bit for bit in (5, 7, 8, 9, 10, 11, 12)
)  # create alter describe cluster-action ...
TOPIC_OPERATIONS: Final = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))  # read write create delete alter ...


def handle(broker: "Broker", context: RequestContext, request: MetadataRequest) -> MetadataResponse | Deferred:
    missing = _to_create(broker, request)
    if not missing:
        return _respond(broker, context, request)
    deferred = Deferred()
    broker.changes.submit(
        lambda: _plan(broker, missing), lambda _error: deferred.complete(_respond(broker, context, request))
    )
    return deferred


def _plan(broker: "Broker", names: list[str]) -> list[Change]:
    changes: list[Change] = []
    for name in names:
        try:
            changes.append(plan_topic(broker, name, -1, -1, {}))
        except KafkaError:
            continue  # `_respond` says what is wrong with it
    return changes


def _to_create(broker: "Broker", request: MetadataRequest) -> list[str]:
    if (
        not request.topics
        or not request.allow_auto_topic_creation
        or not broker.config.bool("auto.create.topics.enable")
    ):
        return []
    names = []
    for topic in request.topics:
        if topic.name and topic.name not in broker.image.ids_by_name and topic.name not in names:
            try:
                validate_topic_name(topic.name)
            except KafkaError:
                continue
            names.append(topic.name)
    return names


def _respond(broker: "Broker", context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    image = broker.image
    version = context.api_version
    with_operations = request.include_topic_authorized_operations
    wants_all = request.topics is None or (version == 0 and not request.topics)
    if wants_all:
        topics = [_describe(topic, with_operations) for topic in image.topics.values()]
    else:
        topics = [
            _describe_asked(broker, asked.name, TopicId(asked.topic_id), with_operations)
            for asked in request.topics or ()
        ]
    response = MetadataResponse(
        brokers=brokers_for(broker, context.connection.listener),
        cluster_id=image.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = CLUSTER_OPERATIONS
    return response


def brokers_for(broker: "Broker", listener: str) -> list[MetadataResponseBroker]:
    """Every broker that a client of this listener can reach, by the address advertised for it."""
    return [
        MetadataResponseBroker(node_id=state.broker_id, host=endpoint.host, port=endpoint.port, rack=state.rack)
        for state in broker.image.brokers.values()
        for endpoint in state.endpoints
        if endpoint.listener == listener
    ]


def _describe_asked(
    broker: "Broker", name: str | None, topic_id: TopicId, with_operations: bool
) -> MetadataResponseTopic:
    try:
        if topic_id != NO_TOPIC_ID:
            name = None  # the Java client sends an empty one beside the id
            topic = broker.image.topic_by_id(topic_id)
        elif not name:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        else:
            validate_topic_name(name)
            topic = broker.image.topic(name)
    except KafkaError as problem:
        return MetadataResponseTopic(error_code=int(problem.code), name=name, topic_id=topic_id, partitions=[])
    return _describe(topic, with_operations)


def _describe(topic: TopicState, with_operations: bool) -> MetadataResponseTopic:
    answer = MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[
            MetadataResponsePartition(
                error_code=0,
                partition_index=index,
                leader_id=partition.leader,
                leader_epoch=partition.leader_epoch,
                replica_nodes=list(partition.replicas),
                isr_nodes=list(partition.in_sync_replicas),
            )
            for index, partition in enumerate(topic.partitions)
        ],
    )
    if with_operations:
        answer.topic_authorized_operations = TOPIC_OPERATIONS
    return answer
