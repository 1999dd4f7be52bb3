"""The quota of changes that the controller makes for a client (KIP-599): partitions made and deleted, by a bucket of
tokens.

It is kept where the change is made: by the controller, also for requests that other brokers send on, which count for
whoever asked there. A topic that comes when the bucket is overdrawn is refused with
THROTTLING_QUOTA_EXCEEDED in the versions that know it; older ones are served and told to wait, and so is Metadata,
which makes topics that somebody asks for. What was refused for another reason costs nothing.
"""

from collections.abc import Callable, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode
from headwater.base.ids import NO_TOPIC_ID, TopicId
from headwater.broker.deferred import Deferred
from headwater.broker.origins import Origin, origin_in
from headwater.broker.quotas.client_quotas import BucketLimit, ClientQuotas
from headwater.broker.quotas.exemptions import is_between_brokers
from headwater.wire.messages.create_partitions import CreatePartitionsTopicResult
from headwater.wire.messages.create_topics import CreatableTopicResult
from headwater.wire.messages.delete_topics import DeletableTopicResult

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.context import RequestContext

_CREATE_TOPICS, _DELETE_TOPICS, _CREATE_PARTITIONS = 19, 20, 37
STRICT_SINCE: Final = {_CREATE_TOPICS: 6, _DELETE_TOPICS: 5, _CREATE_PARTITIONS: 3}
_FIRST_DELETED_BY_ID: Final = 6
_EXCEEDED: Final = int(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
_WHY: Final = "The throttling quota has been exceeded."


def charged(
    broker: "Broker",
    quotas: ClientQuotas,
    context: "RequestContext",
    request: Any,
    serve: Callable[[Any], Deferred],
) -> Deferred:
    """The answer, later. `serve` gets what the sender's quota allows of the request; the request stays as it is, for
    another attempt.
    """
    limit = None if getattr(request, "validate_only", False) else _limit(broker, quotas, context, request)
    if limit is None:
        return serve(request)
    work = _Charged(broker, context, copy(request), limit)
    work.narrow()
    answer = serve(work.request)
    outer = Deferred(answer.cancel, holds_order=answer.holds_order)
    answer.listen(lambda told: outer.complete(told if isinstance(told, BaseException) else work.complete(told)))
    return outer


def _limit(broker: "Broker", quotas: ClientQuotas, context: "RequestContext", request: Any) -> BucketLimit | None:
    """Of whoever asked first. What a broker asks for itself does not count; a client that says it were one is none."""
    asked = Origin(context.connection.principal, context.client_id or "")
    if is_between_brokers(broker, context, request):
        told = origin_in(context.client_id)
        if told is None:
            return None
        asked = told
    limits = quotas.limits(asked.principal.partition(":")[2], asked.client_id)
    return None if limits is None else limits.mutation


class AutoCreation:
    """Topics that Metadata makes at a broker alone because somebody asks for them: made in any case, and whoever has
    asked for too many waits. In a cluster the controller says so (`forwarding.create_topics`).
    """

    def __init__(self, broker: "Broker", context: "RequestContext", names: Sequence[str]) -> None:
        meter = context.connection.meter
        limits = None if meter is None else meter.limits(context.client_id)
        self._limit = None if limits is None else limits.mutation
        self._broker = broker
        self._names = names
        self._each = broker.config.int("num.partitions")
        if self._limit is not None:
            self._limit.used.take(self._each * len(names), self._limit.bound, broker.clock.monotonic_ms())

    def complete(self) -> int:
        """How long to wait. What was not made costs nothing."""
        if self._limit is None:
            return 0
        used, rate = self._limit
        now_ms = self._broker.clock.monotonic_ms()
        missing = sum(name not in self._broker.image.ids_by_name for name in self._names)
        used.take(-self._each * missing, rate, now_ms)
        throttle_ms = used.throttle_ms(rate, now_ms)
        if throttle_ms:
            used.throttled(throttle_ms, now_ms)
        return throttle_ms


class _Charged:
    def __init__(self, broker: "Broker", context: "RequestContext", request: Any, limit: BucketLimit) -> None:
        self._broker = broker
        self._key, self._version = context.api_key, context.api_version
        self._is_strict = self._version >= STRICT_SINCE[self._key]
        self.request = request
        self._limit = limit
        self._taken: dict[tuple[str | None, bytes], int] = {}  # by name and id
        self._refused: list[Any] = []

    def narrow(self) -> None:
        request = self.request
        if self._key == _DELETE_TOPICS and self._version < _FIRST_DELETED_BY_ID:
            request.topic_names = [name for name in request.topic_names if self._takes(name, name, NO_TOPIC_ID)]
        elif self._key == _DELETE_TOPICS:
            request.topics = [topic for topic in request.topics if self._takes(topic, topic.name, topic.topic_id)]
        else:
            request.topics = [topic for topic in request.topics if self._takes(topic, topic.name, NO_TOPIC_ID)]

    def _takes(self, topic: Any, name: str | None, topic_id: bytes) -> bool:
        used, rate = self._limit
        now_ms = self._broker.clock.monotonic_ms()
        if self._is_strict and used.throttle_ms(rate, now_ms):
            self._refused.append(self._refusal(name, topic_id))
            return False
        count = self._partitions(topic, name, topic_id)
        used.take(count, rate, now_ms)
        known = self._taken.get((name, bytes(topic_id)), 0)
        self._taken[name, bytes(topic_id)] = known + count  # one that stands there twice is refused once, for both
        return True

    def _partitions(self, topic: Any, name: str | None, topic_id: bytes) -> int:
        """How many are made or deleted, if it comes to that."""
        if self._key == _CREATE_TOPICS:
            if topic.assignments:
                return len(topic.assignments)
            return int(topic.num_partitions) if topic.num_partitions > 0 else self._broker.config.int("num.partitions")
        image = self._broker.image
        found_id = TopicId(bytes(topic_id)) if name is None else image.ids_by_name.get(name)
        known = None if found_id is None else image.topics.get(found_id)
        existing = 0 if known is None else len(known.partitions)
        return existing if self._key == _DELETE_TOPICS else max(0, int(topic.count) - existing)

    def _refusal(self, name: str | None, topic_id: bytes) -> Any:
        if self._key == _CREATE_TOPICS:
            return CreatableTopicResult(
                name=name or "",
                error_code=_EXCEEDED,
                error_message=_WHY,
                configs=[],
                num_partitions=-1,
                replication_factor=-1,
            )
        if self._key == _DELETE_TOPICS:
            return DeletableTopicResult(name=name, topic_id=topic_id, error_code=_EXCEEDED, error_message=_WHY)
        return CreatePartitionsTopicResult(name=name or "", error_code=_EXCEEDED, error_message=_WHY)

    def complete(self, response: Any) -> Any:
        used, rate = self._limit
        now_ms = self._broker.clock.monotonic_ms()
        results = response.results if self._key == _CREATE_PARTITIONS else self._results_of(response)
        for result in results:
            if result.error_code:
                used.take(-self._given_back(result), rate, now_ms)
        if self._refused or not self._is_strict:
            throttle_ms = used.throttle_ms(rate, now_ms)
            if throttle_ms:
                used.throttled(throttle_ms, now_ms)
            response.throttle_time_ms = max(response.throttle_time_ms, throttle_ms)
        results += self._refused
        return response

    def _results_of(self, response: Any) -> Any:
        return response.topics if self._key == _CREATE_TOPICS else response.responses

    def _given_back(self, result: Any) -> int:
        topic_id = bytes(result.topic_id) if self._key == _DELETE_TOPICS else NO_TOPIC_ID
        by_name = self._taken.pop((result.name, NO_TOPIC_ID), 0)
        return by_name + self._taken.pop((None, topic_id), 0)
