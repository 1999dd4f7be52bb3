"""Requests of the next transaction that come while the markers of the last are being written: they wait a moment, and
are decided then.

A producer of transaction version 2 goes on as soon as the end of its transaction is decided, and its next request often
finds the coordinator still busy with the markers. Apache Kafka answers CONCURRENT_TRANSACTIONS at once, but for
Produce, which it holds for up to 100 ms; clients try again. Here each of them waits, no longer than that, and is
answered CONCURRENT_TRANSACTIONS only then.

At the coordinator the end of the transaction is an event (`MarkerWaits`). A broker that has to ask it asks again after
a while (`Patience`): 2 ms, then twice as long each time.
"""

from collections.abc import Callable
from typing import Any, Final

from headwater.base.errors import ErrorCode
from headwater.base.ports import Timer
from headwater.broker.coordinators.host import CoordinatorHost
from headwater.broker.deferred import Deferred

WAIT_MS: Final = 100
_FIRST_REST_MS: Final = 2

Ask = Callable[[], Any]
"""Decides about a request: a response, or a Deferred of one."""


class Patience:
    """Of one request that was told CONCURRENT_TRANSACTIONS by another broker."""

    __slots__ = ("_broker", "_rest_ms", "_until_ms")

    def __init__(self, broker: CoordinatorHost) -> None:
        self._broker = broker
        self._rest_ms = _FIRST_REST_MS
        self._until_ms = broker.clock.monotonic_ms() + WAIT_MS

    def asks_again(self, ask: Callable[[], None]) -> bool:
        """Whether there is time for it: `ask` is called after a while then."""
        left_ms = self._until_ms - self._broker.clock.monotonic_ms()
        if left_ms <= 0:
            return False
        self._broker.scheduler.call_later(min(self._rest_ms, left_ms), ask)
        self._rest_ms *= 2
        return True


class MarkerWaits:
    """Who waits at this coordinator, by transactional id. Owned by `Transactions`."""

    def __init__(self, broker: CoordinatorHost) -> None:
        self._broker = broker
        self._waiting: dict[str, list[_Wait]] = {}

    def ask(self, transactional_id: str, ask: Ask, code_of: Callable[[Any], int]) -> Any:
        """What `ask` comes to, as soon as that is not CONCURRENT_TRANSACTIONS or the time is over."""
        wait = _Wait(self, self._broker, transactional_id, ask, code_of)
        self._waiting.setdefault(transactional_id, []).append(wait)
        wait.decide()
        return wait.deferred.response if wait.deferred.done else wait.deferred

    def completed(self, transactional_id: str) -> None:
        """The markers are written."""
        for wait in tuple(self._waiting.get(transactional_id, ())):
            wait.completed()

    def remove(self, transactional_id: str, wait: "_Wait") -> None:
        waiting = self._waiting.get(transactional_id, [])
        if wait in waiting:
            waiting.remove(wait)
            if not waiting:
                del self._waiting[transactional_id]


class _Wait:
    """One request. It is decided once, and if it was held, once more."""

    __slots__ = ("_ask", "_broker", "_code_of", "_has_completed", "_id", "_is_last", "_timer", "_waits", "deferred")

    def __init__(
        self,
        waits: MarkerWaits,
        broker: CoordinatorHost,
        transactional_id: str,
        ask: Ask,
        code_of: Callable[[Any], int],
    ) -> None:
        self._waits = waits
        self._broker = broker
        self._id = transactional_id
        self._ask = ask
        self._code_of = code_of
        self._has_completed = False  # since it was decided
        self._is_last = False
        self._timer: Timer | None = None  # while it is held
        self.deferred = Deferred(self._leave)

    def decide(self) -> None:
        answer = self._ask()
        if isinstance(answer, Deferred):
            answer.listen(self._answered)
        else:
            self._answered(answer)

    def _answered(self, response: Any) -> None:
        if self.deferred.done:
            return
        is_held = not self._is_last and not isinstance(response, BaseException)
        if is_held and self._code_of(response) == ErrorCode.CONCURRENT_TRANSACTIONS:
            rest_ms = 0 if self._has_completed else WAIT_MS
            self._timer = self._broker.scheduler.call_later(rest_ms, self._again)
        else:
            self._leave()
            self.deferred.complete(response)

    def completed(self) -> None:
        self._has_completed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._broker.scheduler.call_later(0, self._again)

    def _again(self) -> None:
        self._leave()
        self._is_last = True
        self.decide()

    def _leave(self) -> None:
        """It is answered, decided for the last time, or its connection is gone."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waits.remove(self._id, self)
