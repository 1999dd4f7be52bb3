"""What topics need: DESCRIBE to be seen, CREATE, DELETE and ALTER for themselves. A topic that one may not describe is
refused by name whether it exists or not, and is absent from lists.
"""

from typing import TYPE_CHECKING, Any

from headwater.base.acls import Operation, ResourceType
from headwater.base.errors import ErrorCode
from headwater.base.ids import NO_TOPIC_ID
from headwater.broker.rights.authorizer import Caller
from headwater.broker.rights.outcome import TOPIC_DENIED, Narrowed, Outcome, divide
from headwater.broker.rights.records import name_of
from headwater.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from headwater.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from headwater.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from headwater.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from headwater.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from headwater.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_DENIED = "Authorization failed."
_NO_TOPIC = "This server does not host this topic-partition."
_FIRST_BY_ID = 6  # of DeleteTopics
_METADATA_BY_ID = 12
_UNKNOWN = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def metadata(broker: "Broker", caller: Caller, request: MetadataRequest, version: int) -> Outcome:
    denied: list[MetadataResponseTopic] = []
    wants_all = request.topics is None or (version == 0 and not request.topics)
    if not wants_all:
        assert request.topics is not None
        creates = request.allow_auto_topic_creation and broker.config.bool("auto.create.topics.enable")
        may_create_all = not creates or caller.may_cluster(Operation.CREATE)

        def is_allowed(topic: Any) -> bool:
            has_id = topic.topic_id != NO_TOPIC_ID
            if has_id and version < _METADATA_BY_ID:
                return True  # the handler refuses it
            name = (
                name_of(broker, topic.topic_id) if has_id else topic.name
            )  # an id counts, whatever name stands beside it
            if name is None:
                return True  # an id that nobody knows, or nothing at all: the handler says so
            if not caller.may_topic(Operation.DESCRIBE, name):
                return False
            return may_create_all or name in broker.image.ids_by_name or caller.may_topic(Operation.CREATE, name)

        request.topics, refused = divide(request.topics, is_allowed)
        denied = [
            MetadataResponseTopic(
                error_code=TOPIC_DENIED,
                name=topic.name if topic.topic_id == NO_TOPIC_ID else None,
                topic_id=topic.topic_id,
                partitions=[],
            )
            for topic in refused
        ]
        if version == 0 and not request.topics:  # nothing left would mean all
            request.topics = None
            wants_all = False
    nothing_left = not wants_all and request.topics is None

    def complete(response: MetadataResponse) -> MetadataResponse:
        if nothing_left:
            response.topics = []
        elif wants_all:
            response.topics = [
                topic for topic in response.topics if topic.name and caller.may_topic(Operation.DESCRIBE, topic.name)
            ]
        if request.include_topic_authorized_operations:
            for topic in response.topics:
                if topic.error_code in (0, _UNKNOWN) and topic.name:  # rules may be about what there is not yet
                    topic.topic_authorized_operations = caller.operations(ResourceType.TOPIC, topic.name)
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = cluster_operations(caller)
        response.topics += denied
        return response

    return Narrowed(complete)


def cluster_operations(caller: Caller) -> int:
    from headwater.base.acls import CLUSTER_NAME

    if not caller.may_cluster(Operation.DESCRIBE):
        return 0
    return caller.operations(ResourceType.CLUSTER, CLUSTER_NAME)


def describe_cluster(_broker: "Broker", caller: Caller, request: DescribeClusterRequest, _version: int) -> Outcome:
    if not request.include_cluster_authorized_operations:
        return None

    def complete(response: DescribeClusterResponse) -> DescribeClusterResponse:
        response.cluster_authorized_operations = cluster_operations(caller)
        return response

    return Narrowed(complete)


def describe_topic_partitions(
    _broker: "Broker", caller: Caller, request: DescribeTopicPartitionsRequest, _version: int
) -> Outcome:
    wants_all = not request.topics
    allowed, denied = divide(request.topics, lambda topic: caller.may_topic(Operation.DESCRIBE, topic.name))
    nothing_left = bool(denied) and not allowed
    if not nothing_left:
        request.topics = allowed

    def complete(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        if nothing_left:
            response.topics, response.next_cursor = [], None
        elif wants_all:
            response.topics = [
                topic for topic in response.topics if topic.name and caller.may_topic(Operation.DESCRIBE, topic.name)
            ]
            cursor = response.next_cursor
            if cursor is not None and not caller.may_topic(Operation.DESCRIBE, cursor.topic_name):
                cursor.topic_name = _next_visible(_broker, caller, cursor.topic_name)
                cursor.partition_index = 0
                if not cursor.topic_name:
                    response.next_cursor = None
        for topic in response.topics:
            if topic.error_code in (0, _UNKNOWN) and topic.name:  # rules may be about what there is not yet
                topic.topic_authorized_operations = caller.operations(ResourceType.TOPIC, topic.name)
        response.topics += [
            DescribeTopicPartitionsResponseTopic(
                error_code=TOPIC_DENIED, name=topic.name, topic_id=NO_TOPIC_ID, partitions=[]
            )
            for topic in denied
        ]
        return response

    return Narrowed(complete)


def _next_visible(broker: "Broker", caller: Caller, after: str) -> str:
    """The first topic behind `after` that the caller may describe; the empty string if there is none."""
    behind = (name for name in sorted(broker.image.ids_by_name) if name > after)
    return next((name for name in behind if caller.may_topic(Operation.DESCRIBE, name)), "")


def create_topics(_broker: "Broker", caller: Caller, request: CreateTopicsRequest, _version: int) -> Outcome:
    """Who may make a topic sees its configs only with DESCRIBE_CONFIGS."""
    denied: list[Any] = []
    if not caller.may_cluster(Operation.CREATE):
        request.topics, denied = divide(request.topics, lambda topic: caller.may_topic(Operation.CREATE, topic.name))

    def complete(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for topic in response.topics:
            if not topic.error_code and not caller.may_topic(Operation.DESCRIBE_CONFIGS, topic.name):
                topic.topic_config_error_code = TOPIC_DENIED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = None
        response.topics += [
            CreatableTopicResult(name=topic.name, error_code=TOPIC_DENIED, error_message=_DENIED, configs=[])
            for topic in denied
        ]
        return response

    return Narrowed(complete)


def delete_topics(broker: "Broker", caller: Caller, request: DeleteTopicsRequest, version: int) -> Outcome:
    """DELETE on the topic, or on the cluster. To who may describe a topic it is no secret that there is none."""
    if caller.may_cluster(Operation.DELETE):
        return None
    results: list[DeletableTopicResult] = []

    def refuse(name: str | None, topic_id: bytes, known: str | None) -> None:
        is_told = known is not None and known not in broker.image.ids_by_name
        is_told = is_told and caller.may_topic(Operation.DESCRIBE, known or "")
        code, message = (_UNKNOWN, _NO_TOPIC) if is_told else (TOPIC_DENIED, _DENIED)
        results.append(DeletableTopicResult(name=name, topic_id=topic_id, error_code=code, error_message=message))

    if version < _FIRST_BY_ID:
        request.topic_names, denied = divide(request.topic_names, lambda name: caller.may_topic(Operation.DELETE, name))
        for name in denied:
            refuse(name, NO_TOPIC_ID, name)
    else:

        def may_delete(topic: Any) -> bool:
            name = topic.name if topic.name is not None else name_of(broker, topic.topic_id)
            return name is None or caller.may_topic(Operation.DELETE, name)

        request.topics, denied = divide(request.topics, may_delete)
        for topic in denied:
            name = topic.name
            known = name if name is not None else name_of(broker, topic.topic_id)
            if name is None and known is not None and caller.may_topic(Operation.DESCRIBE, known):
                name = known
            refuse(name, topic.topic_id, known)

    def complete(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        response.responses += results
        return response

    return Narrowed(complete) if results else None


def create_partitions(_broker: "Broker", caller: Caller, request: CreatePartitionsRequest, _version: int) -> Outcome:
    request.topics, denied = divide(request.topics, lambda topic: caller.may_topic(Operation.ALTER, topic.name))

    def complete(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
        response.results += [
            CreatePartitionsTopicResult(name=topic.name, error_code=TOPIC_DENIED, error_message=None)
            for topic in denied
        ]
        return response

    return Narrowed(complete) if denied else None
