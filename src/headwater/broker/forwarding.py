"""What only the controller may do, asked at any broker of a cluster: sent on to it, and its answer given back.

A request goes on in the version in which it came, so that the answer fits. While nobody is the controller, or it cannot
be reached, it is tried again until the request's own time is over; as in Apache Kafka, what was done before a
connection broke may then be refused as done already. A broker that was asked in a client's name says NOT_CONTROLLER
rather than send the request round in circles.

Topics that make themselves, on first use or for coordinators, go the same way as a CreateTopics of this broker's own.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.peers import Lane, Unreachable
from headwater.base.ports import Timer
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.origins import FORWARDED_CLIENT
from headwater.broker.origins import told as origin_told

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.wire.messages.create_topics import CreatableTopic

_CREATE_TOPICS_VERSION: Final = 5  # the last in which nobody is refused for a quota: whoever asked is told to wait
_COUNTED: Final = frozenset(
    (19, 20, 37)
)  # by the controller, for whoever asked: CreateTopics, Delete-, CreatePartitions
_TRY_AGAIN_MS: Final = 50
_LOOK_AGAIN_MS: Final = 10
_KNOWN_MS: Final = 1000
_LEAST_TIME_MS: Final = 1000
_MOST_TIME_MS: Final = 300_000
_LEAST_PATIENCE_MS: Final = 5000  # with the controller: an answer that is late ends the connection, for others too


def is_controller(broker: "Broker") -> bool:
    return broker.image.controller_id == broker.broker_id


def forward(
    broker: "Broker", context: RequestContext, request: Any, serve: Callable[["Broker", RequestContext, Any], Any]
) -> Any:
    """For a broker of a cluster: the answer, now or later. `serve` is the handler, for the controller itself.

    A broker that was elected a moment ago refuses as if it were not, until it has loaded what the last one left: that
    too is waited for.
    """
    from headwater.broker.refusals import refusal  # a broker alone never needs it

    if (context.client_id or "").startswith(FORWARDED_CLIENT):
        if is_controller(broker):
            return serve(broker, context, request)
        return refusal(request, context.api_version, KafkaError(ErrorCode.NOT_CONTROLLER))
    request, refused = _without_own_that_fails(broker, request, context.api_version)
    if refused is not None and not request.resources:
        return refused
    asking = AskController(
        broker,
        request,
        context.api_version,
        getattr(request, "timeout_ms", None) or broker.config.int("request.timeout.ms"),
        lambda: serve(broker, context, request),
        origin_told(context) if context.api_key in _COUNTED else "",
    )
    deferred = Deferred(asking.cancel)

    def told(response: Any, problem: KafkaError | None) -> None:
        if problem is not None:
            try:
                response = refusal(request, context.api_version, problem)
            except KafkaError as no_place:
                response = no_place
        if refused is not None:
            response.responses = [*response.responses, *refused.responses]
        _when(broker, lambda: _is_known(broker, request, response), _KNOWN_MS, lambda: deferred.complete(response))

    asking.begin(told)
    return deferred


def _without_own_that_fails(broker: "Broker", request: Any, version: int) -> tuple[Any, Any]:
    """Of key stores and logins only this broker can tell whether they work here. The controller checks the rest: the
    request that goes to it, and the response about what this broker refuses, or None.
    """
    from headwater.broker.config_changes import problem_with_own
    from headwater.broker.config_requests import operations_of, replacements_of
    from headwater.broker.refusals import refusal
    from headwater.wire.messages.alter_configs import AlterConfigsRequest
    from headwater.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

    if isinstance(request, IncrementalAlterConfigsRequest):
        found = problem_with_own(broker, operations_of(request))
    elif isinstance(request, AlterConfigsRequest):
        found = problem_with_own(broker, replacements_of(request))
    else:
        return request, None
    if found is None:
        return request, None
    at, problem = found
    own, others = request.resources[at : at + 1], request.resources[:at] + request.resources[at + 1 :]

    def of(resources: list[Any]) -> Any:
        return type(request)(resources=resources, validate_only=request.validate_only)

    return of(others), refusal(of(own), version, problem)


def _is_known(broker: "Broker", request: Any, response: Any) -> bool:
    """Whether this broker has heard of the topics that were made: its client will ask for them next."""
    from headwater.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

    if not isinstance(request, CreateTopicsRequest) or not isinstance(response, CreateTopicsResponse):
        return True
    made = [result.name for result in response.topics if result.error_code == ErrorCode.NONE]
    return request.validate_only or all(name in broker.image.ids_by_name for name in made)


def _when(broker: "Broker", is_so: Callable[[], bool], within_ms: int, then: Callable[[], None]) -> None:
    """Calls `then` as soon as it is so, and in any case when the time is over."""
    until_ms = broker.clock.monotonic_ms() + within_ms

    def look() -> None:
        if is_so() or broker.clock.monotonic_ms() >= until_ms:
            then()
        else:
            broker.scheduler.call_later(_LOOK_AGAIN_MS, look)

    look()


class AskController:
    """One request on its way to whoever is the controller. `serve` does it here, should that be this broker by then.
    `origin`: in whose name.
    """

    def __init__(
        self,
        broker: "Broker",
        request: Any,
        version: int,
        timeout_ms: int,
        serve: Callable[[], Any],
        origin: str = "",
    ) -> None:
        self._broker = broker
        self._request = request
        self._version = version
        self._serve = serve
        self._origin = origin
        self._until_ms = broker.clock.monotonic_ms() + min(max(timeout_ms, _LEAST_TIME_MS), _MOST_TIME_MS)
        self._done: Callable[[Any, KafkaError | None], None] | None = None
        self._timer: Timer | None = None  # while the controller is asked

    def begin(self, done: Callable[[Any, KafkaError | None], None]) -> None:
        """`done` gets the response, or REQUEST_TIMED_OUT."""
        self._done = done
        self._try()

    def cancel(self) -> None:
        """Nobody waits any more."""
        self._done = None
        self._stop_timer()

    def _try(self) -> None:
        broker = self._broker
        if self._done is None:
            return
        left_ms = self._until_ms - broker.clock.monotonic_ms()
        controller = broker.image.controller_id
        if left_ms <= 0:
            self._expired()
        elif is_controller(broker):
            self._served(self._serve())
        elif controller in broker.image.brokers:
            assert broker.peers is not None
            self._timer = broker.scheduler.call_later(left_ms, self._expired)
            patience_ms = max(left_ms, _LEAST_PATIENCE_MS)
            broker.peers.ask(
                controller,
                Lane.CONTROL,
                self._request,
                self._version,
                self._answered,
                timeout_ms=patience_ms,
                origin=self._origin,
            )
        else:
            self._try_later()

    def _expired(self) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(None, KafkaError(ErrorCode.REQUEST_TIMED_OUT, "No controller answered in time."))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _try_later(self) -> None:
        self._broker.scheduler.call_later(_TRY_AGAIN_MS, self._try_again)

    def _try_again(self) -> None:
        try:
            self._try()
        except KafkaError as problem:  # of `serve`: at the first attempt it is the caller's
            done, self._done = self._done, None
            if done is not None:
                done(None, problem)

    def _served(self, answer: Any) -> None:
        if isinstance(answer, Deferred):
            answer.listen(lambda response: self._answered(response, None))
        else:
            self._answered(answer, None)

    def _answered(self, response: Any, problem: Unreachable | None) -> None:
        from headwater.broker.refusals import is_from_no_controller

        self._stop_timer()
        if self._done is None:
            return
        if problem is not None or is_from_no_controller(response):
            self._try_later()
        else:
            done, self._done = self._done, None
            done(response, None)


# Topics that make themselves


def create_topics(
    broker: "Broker",
    topics: "Sequence[CreatableTopic]",
    timeout_ms: int,
    done: Callable[[dict[str, KafkaError], int], None],
    context: RequestContext | None = None,
) -> None:
    """In a cluster: `done` gets what went wrong with each, when this broker knows the others too, and for how long
    whoever asked for them has to wait. `context`: of the request that needs them, if they count for its sender's quota.
    """
    from headwater.broker.topic_creation import create
    from headwater.wire.messages.create_topics import CreateTopicsRequest

    until_ms = broker.clock.monotonic_ms() + timeout_ms
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms)
    names = [topic.name for topic in topics]

    def told(response: Any, problem: KafkaError | None) -> None:
        if problem is not None:
            done(dict.fromkeys(names, problem), 0)
            return
        problems = {
            result.name: KafkaError(ErrorCode(result.error_code), result.error_message)
            for result in response.topics
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        }
        made = [name for name in names if name not in problems]
        left_ms = until_ms - broker.clock.monotonic_ms()
        _when(
            broker,
            lambda: all(name in broker.image.ids_by_name for name in made),
            left_ms,
            lambda: done(problems, response.throttle_time_ms),
        )

    asked = context and RequestContext(context.connection, request.KEY, _CREATE_TOPICS_VERSION, context.client_id)
    AskController(
        broker,
        request,
        _CREATE_TOPICS_VERSION,
        timeout_ms,
        lambda: create(broker, request, asked),
        "" if asked is None else origin_told(asked),
    ).begin(told)
