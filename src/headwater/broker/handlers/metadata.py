"""Metadata (key 3), versions 0 to 13: brokers, topics, leaders. Any broker answers for the whole cluster.

v0: no topics means all; from v1 on null means all and an empty list none. v4: the client may forbid automatic creation.
v10 has topic ids, v12 asks by them. An unknown topic is made when `auto.create.topics.enable` is on, the client does
not forbid it, and the name is valid; unlike Kafka, which answers LEADER_NOT_AVAILABLE and lets the client ask again,
the answer waits until the topic is there. In a cluster the controller makes it, and the answer waits a few seconds at
most.

A partition whose leader cannot be reached over the client's listener has none (LEADER_NOT_AVAILABLE, or from v6 on
LISTENER_NOT_FOUND if the leader is alive without it), and replicas that cannot be reached are offline.
"""

from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import NO_BROKER, NO_TOPIC_ID, BrokerId, TopicId
from headwater.base.names import INTERNAL_TOPICS, colliding_topic, is_legal_topic_name, validate_topic_name
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.forwarding import create_topics
from headwater.broker.requested_change import CountedChange
from headwater.broker.topics import PARTITIONS_PER_REQUEST_MAX, plan_topic
from headwater.metadata.image import Change, PartitionState, TopicCreated, TopicState
from headwater.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_FIRST_BY_ID: Final = 12
_FIRST_WITH_LISTENER_ERROR: Final = 6
_CREATION_MS: Final = 3000
_NOT_TOLD: Final = frozenset((ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT))  # it is just not there
_KRAFT_LOG: Final = "__cluster_metadata"

# Without an authorizer a client may do everything: bits of the ACL operations that apply.
CLUSTER_OPERATIONS: Final = sum(
    1 << bit for bit in (5, 7, 8, 9, 10, 11, 12)
)  # create alter describe cluster-action ...
TOPIC_OPERATIONS: Final = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))  # read write create delete alter ...


def handle(broker: "Broker", context: RequestContext, request: MetadataRequest) -> MetadataResponse | Deferred:
    missing = _to_create(broker, request)
    if not missing:
        return _respond(broker, context, request, {})
    if broker.peers is not None:
        return _create_in_cluster(broker, context, request, missing)
    return _Creation(broker, context, request, missing).submit()


class _Creation(CountedChange):
    """Topics on their way through the queue of changes, and the request that waits for them."""

    def __init__(self, broker: "Broker", context: RequestContext, request: MetadataRequest, names: list[str]) -> None:
        super().__init__(broker, context)
        self._context = context
        self._request = request
        self._names = names
        self._problems: dict[str, KafkaError] = {}

    def plan(self) -> list[Change]:
        changes: list[TopicCreated] = []
        partitions = 0
        for name in self._names:
            if name in self._broker.image.ids_by_name or colliding_topic(name, [change.name for change in changes]):
                continue  # made since, or about to be under another name
            try:
                change = plan_topic(self._broker, name, -1, -1, {})
                partitions += len(change.assignments)
                if partitions > PARTITIONS_PER_REQUEST_MAX:
                    raise KafkaError(ErrorCode.POLICY_VIOLATION)
                self.count(len(change.assignments))
            except KafkaError as problem:
                if problem.code != ErrorCode.INVALID_TOPIC_EXCEPTION:  # for a collision Kafka says that it is not there
                    self._problems[name] = problem
            else:
                changes.append(change)
        return list(changes)

    def done(self, error: KafkaError | None) -> None:
        """With an error the topics are simply not there, and clients ask again."""
        self.answer(_respond(self._broker, self._context, self._request, self._problems), error)


def _create_in_cluster(
    broker: "Broker", context: RequestContext, request: MetadataRequest, names: list[str]
) -> Deferred:
    from headwater.wire.messages.create_topics import CreatableTopic  # not for a broker alone

    deferred = Deferred()
    config = broker.config
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=config.int("num.partitions"),
            replication_factor=config.int("default.replication.factor"),
            assignments=[],
            configs=[],
        )
        for name in names
    ]

    def told(problems: dict[str, KafkaError], throttle_ms: int) -> None:
        told = {name: problem for name, problem in problems.items() if problem.code not in _NOT_TOLD}
        response = _respond(broker, context, request, told)
        response.throttle_time_ms = throttle_ms
        deferred.complete(response)

    create_topics(broker, topics, _CREATION_MS, told, context)
    return deferred


def _to_create(broker: "Broker", request: MetadataRequest) -> list[str]:
    if (
        not request.topics
        or not request.allow_auto_topic_creation
        or not broker.config.bool("auto.create.topics.enable")
    ):
        return []
    names = {topic.name: None for topic in request.topics if topic.name and topic.topic_id == NO_TOPIC_ID}
    return [name for name in names if name not in broker.image.ids_by_name and _is_for_everybody(name)]


def _is_for_everybody(name: str) -> bool:
    """Internal topics have counts and configs of their own: the coordinators make them."""
    return is_legal_topic_name(name) and name not in INTERNAL_TOPICS and name != _KRAFT_LOG


def _respond(
    broker: "Broker", context: RequestContext, request: MetadataRequest, problems: dict[str, KafkaError]
) -> MetadataResponse:
    image = broker.image
    version = context.api_version
    with_operations = request.include_topic_authorized_operations
    view = ListenerView(broker, context.connection.listener)
    view.tells_listener = version >= _FIRST_WITH_LISTENER_ERROR
    wants_all = request.topics is None or (version == 0 and not request.topics)
    if wants_all:
        topics = [_describe(view, topic, with_operations) for topic in image.topics.values()]
    elif version < _FIRST_BY_ID and any(t.name is None or t.topic_id != NO_TOPIC_ID for t in request.topics or ()):
        code = int(ErrorCode.INVALID_REQUEST)
        topics = [
            MetadataResponseTopic(error_code=code, name=t.name or "", partitions=[]) for t in request.topics or ()
        ]
    else:
        asked = dict.fromkeys((topic.name, topic.topic_id) for topic in request.topics or ())  # each once
        topics = [
            _describe_asked(broker, view, name, TopicId(topic_id), with_operations, problems)
            for name, topic_id in asked
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


class ListenerView:
    """The cluster as clients of one listener see it: brokers that they cannot reach lead nothing and are offline."""

    def __init__(self, broker: "Broker", listener: str) -> None:
        self._brokers = broker.image.brokers
        self._reachable = {
            state.broker_id
            for state in self._brokers.values()
            if any(endpoint.listener == listener for endpoint in state.endpoints)
        }
        self.tells_listener = False  # whether clients know LISTENER_NOT_FOUND

    def leader(self, state: PartitionState) -> tuple[BrokerId, ErrorCode]:
        if state.leader in self._reachable:
            return state.leader, ErrorCode.NONE
        if self.tells_listener and state.leader in self._brokers:
            return NO_BROKER, ErrorCode.LISTENER_NOT_FOUND
        return NO_BROKER, ErrorCode.LEADER_NOT_AVAILABLE

    def offline(self, state: PartitionState) -> list[int]:
        return [replica for replica in state.replicas if replica not in self._reachable]


def _describe_asked(
    broker: "Broker",
    view: ListenerView,
    name: str | None,
    topic_id: TopicId,
    with_operations: bool,
    problems: dict[str, KafkaError],
) -> MetadataResponseTopic:
    try:
        if topic_id != NO_TOPIC_ID:
            name = None  # the Java client sends an empty one beside the id
            topic = broker.image.topic_by_id(topic_id)
        elif not name:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        else:
            validate_topic_name(name)
            if name in problems and name not in broker.image.ids_by_name:
                raise problems[name]
            topic = broker.image.topic(name)
    except KafkaError as problem:
        answer = MetadataResponseTopic(error_code=int(problem.code), name=name, topic_id=topic_id, partitions=[])
        if with_operations and problem.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            answer.topic_authorized_operations = TOPIC_OPERATIONS  # as in Apache Kafka: of what there is not yet, too
        return answer
    return _describe(view, topic, with_operations)


def _describe(view: ListenerView, topic: TopicState, with_operations: bool) -> MetadataResponseTopic:
    answer = MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_describe_partition(view, index, state) for index, state in enumerate(topic.partitions)],
    )
    if with_operations:
        answer.topic_authorized_operations = TOPIC_OPERATIONS
    return answer


def _describe_partition(view: ListenerView, index: int, state: PartitionState) -> MetadataResponsePartition:
    leader, code = view.leader(state)
    return MetadataResponsePartition(
        error_code=int(code),
        partition_index=index,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.in_sync_replicas),
        offline_replicas=view.offline(state),
    )
