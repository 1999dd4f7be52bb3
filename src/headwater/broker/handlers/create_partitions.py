"""CreatePartitions (key 37), versions 0 to 3: a topic gets more partitions, never fewer. `count` is the total
afterwards.

New partitions have as many replicas as the first one, placed on from where the topic ends, or assigned by hand.
"""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.assignments import check_replicas, check_same_factor
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.requested_change import CountedChange, refuse, refuse_rest
from headwater.broker.topics import PARTITIONS_PER_REQUEST_MAX, place
from headwater.metadata.image import PartitionsAdded, TopicState
from headwater.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: "Broker", context: RequestContext, request: CreatePartitionsRequest) -> Deferred:
    return _Addition(broker, None if request.validate_only else context, request).submit()


class _Addition(CountedChange):
    def __init__(self, broker: "Broker", context: RequestContext | None, request: CreatePartitionsRequest) -> None:
        super().__init__(broker, context)
        self._request = request
        self._results: list[CreatePartitionsTopicResult] = []

    def plan(self) -> Sequence[PartitionsAdded]:
        changes = []
        counts = Counter(topic.name for topic in self._request.topics)
        for asked in self._request.topics:
            count = counts.pop(asked.name, 0)
            if count == 0:
                continue
            result = CreatePartitionsTopicResult(name=asked.name, error_code=0)
            self._results.append(result)
            try:
                if count > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                change = _plan_one(self._broker, asked)
                self.count(len(change.assignments))
            except KafkaError as problem:
                refuse(result, problem)
            else:
                changes.append(change)
        return [] if self._request.validate_only else changes

    def done(self, error: KafkaError | None) -> None:
        if error is not None:
            refuse_rest(self._results, error)
        self.answer(CreatePartitionsResponse(results=self._results), error)


def _plan_one(broker: "Broker", asked: CreatePartitionsTopic) -> PartitionsAdded:
    topic = broker.image.topic(asked.name)
    existing = len(topic.partitions)
    if asked.count == existing:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {existing} partition(s).")
    if asked.count < existing:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {asked.name} currently has {existing} partition(s); {asked.count} would not be an increase.",
        )
    added = asked.count - existing
    if added > PARTITIONS_PER_REQUEST_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")
    return PartitionsAdded(topic.topic_id, _assignments(broker, asked, topic, added))


def _assignments(
    broker: "Broker", asked: CreatePartitionsTopic, topic: TopicState, added: int
) -> tuple[tuple[int, ...], ...]:
    like = topic.partitions[0].replicas
    factor = len(like)
    if asked.assignments is None:
        placed = place(broker, added, factor, first=len(topic.partitions), like=like)
        return tuple(tuple(replicas) for replicas in placed)
    by_hand = [assignment.broker_ids for assignment in asked.assignments]
    if len(by_hand) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(by_hand)} assignment(s) were specified.",
        )
    for replicas in by_hand:
        check_replicas(replicas, broker.image.brokers)
    check_same_factor(by_hand, factor)
    return tuple(tuple(replicas) for replicas in by_hand)
