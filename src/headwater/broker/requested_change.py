"""A request that changes the cluster, on its way through the queue of changes (`changes.py`): planned in its turn,
answered when it is done.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headwater.base.errors import KafkaError
from headwater.broker.context import RequestContext
from headwater.broker.deferred import Deferred
from headwater.metadata.image import Change

if TYPE_CHECKING:
    from headwater.broker.broker import Broker
    from headwater.broker.quotas.mutations import MutationQuota


class RequestedChange(ABC):
    """One request. What its plan finds about single resources it keeps, until `done` tells them all."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self.deferred = Deferred()

    def submit(self) -> Deferred:
        self._broker.changes.submit(self.plan, self.done)
        return self.deferred

    @abstractmethod
    def plan(self) -> Sequence[Change]:
        """The changes, made from the image of this moment."""

    @abstractmethod
    def done(self, error: KafkaError | None) -> None:
        """They are applied, or were refused as a whole: completes `deferred`."""


class CountedChange(RequestedChange):
    """One whose partitions count for a quota: of whoever sends the request of `context`. None: of nobody."""

    def __init__(self, broker: "Broker", context: RequestContext | None) -> None:
        super().__init__(broker)
        self._quota: MutationQuota | None = None
        if broker.quotas is not None and context is not None:
            from headwater.broker.quotas.mutations import mutation_quota  # not where there are no quotas

            self._quota = mutation_quota(broker, broker.quotas, context)

    def count(self, partitions: int) -> None:
        """For the plan, when nothing else speaks against making or deleting so many.
        Raises THROTTLING_QUOTA_EXCEEDED.
        """
        if self._quota is not None:
            self._quota.take(partitions)

    def answer(self, response: Any, error: KafkaError | None) -> None:
        """For `done`: completes `deferred`, with how long to wait."""
        if self._quota is not None:
            if error is not None:
                self._quota.give_back()
            response.throttle_time_ms = self._quota.throttle_ms()
        self.deferred.complete(response)


class Result(Protocol):
    error_code: int
    error_message: str | None


def refuse(result: Result, problem: KafkaError) -> None:
    result.error_code, result.error_message = int(problem.code), problem.message


def refuse_rest(results: Iterable[Result], problem: KafkaError) -> None:
    """Those that have no error of their own."""
    for result in results:
        if result.error_code == 0:
            refuse(result, problem)
