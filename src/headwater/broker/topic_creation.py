"""Makes the topics of a CreateTopics request: each is checked and planned on its own, then all that are good are made
in one change.

For the request itself (`handlers/create_topics.py`) and for topics that make themselves (`forwarding.create_topics`).
No state.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headwater.base.config.alter import checked_topic_configs
from headwater.base.config.describe import describe_topic
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.names import colliding_topic
from headwater.broker.assignments import checked_new_topic
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.requested_change import CountedChange
from headwater.broker.topics import PARTITIONS_PER_REQUEST_MAX, plan_topic
from headwater.metadata.image import TopicCreated
from headwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_KRAFT_LOG: Final = "__cluster_metadata"


def create(broker: "Broker", request: CreateTopicsRequest, context: RequestContext | None = None) -> Deferred:
    """`context`: of whoever's quota it counts for, if it does."""
    return _Creation(broker, None if request.validate_only else context, request).submit()


class _Creation(CountedChange):
    def __init__(self, broker: "Broker", context: RequestContext | None, request: CreateTopicsRequest) -> None:
        super().__init__(broker, context)
        self._request = request
        self._results: list[CreatableTopicResult] = []
        self._made: list[CreatableTopicResult] = []

    def plan(self) -> Sequence[TopicCreated]:
        changes: list[TopicCreated] = []
        counts = Counter(topic.name for topic in self._request.topics)
        partitions = 0
        for topic in self._request.topics:
            if counts[topic.name] > 1:
                continue
            try:
                change = _plan_one(self._broker, topic, changes)
                partitions += len(change.assignments)
                if partitions > PARTITIONS_PER_REQUEST_MAX:
                    raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
                self.count(len(change.assignments))
            except KafkaError as problem:
                self._results.append(_refused(topic.name, problem))
                continue
            result = _created(self._broker, change)
            self._results.append(result)
            self._made.append(result)
            changes.append(change)
        duplicate = KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        self._results += [_refused(name, duplicate) for name, count in counts.items() if count > 1]
        return [] if self._request.validate_only else changes

    def done(self, error: KafkaError | None) -> None:
        if error is not None:
            made = {result.name for result in self._made}
            self._results = [_refused(r.name, error) if r.name in made else r for r in self._results]
        self.answer(CreateTopicsResponse(topics=self._results), error)


def _plan_one(broker: "Broker", topic: CreatableTopic, planned: Sequence[TopicCreated]) -> TopicCreated:
    if topic.name == _KRAFT_LOG:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {_KRAFT_LOG} is prohibited.")
    collision = colliding_topic(topic.name, [change.name for change in planned])
    if collision is not None:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{topic.name}' collides with existing topic: {collision}"
        )
    config = checked_topic_configs((config.name, config.value) for config in topic.configs)
    count, factor, assignments = topic.num_partitions, topic.replication_factor, None
    if topic.assignments:
        for value, what in ((count, "numPartitions"), (factor, "replication factor")):
            if value != -1:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"A manual partition assignment was specified, but {what} was not set to -1.",
                )
        assignments = checked_new_topic(
            [(a.partition_index, a.broker_ids) for a in topic.assignments], broker.image.brokers
        )
    elif count > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    return plan_topic(broker, topic.name, count, factor, config, assignments)


def _created(broker: "Broker", change: TopicCreated) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=change.name,
        topic_id=change.topic_id,
        error_code=0,
        num_partitions=len(change.assignments),
        replication_factor=len(change.assignments[0]),
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=change.config.get(entry.name, entry.value),
                read_only=entry.read_only,
                config_source=int(entry.source),
                is_sensitive=entry.definition.is_sensitive,
            )
            for entry in describe_topic(broker.config, change.config)
        ],
    )


def _refused(name: str, problem: KafkaError) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        error_code=int(problem.code),
        error_message=problem.message,
        configs=[],
        num_partitions=-1,
        replication_factor=-1,
    )
