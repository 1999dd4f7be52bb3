"""What memberships of both protocols have in common: their tasks, the queue of events, the watch over the polls.

The tasks of a membership live from `start` to `leave`. They wait for conditions over its state (`_until`) and are told
of changes by `_changed`.
"""

import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.consumer.membership.event_queue import EventQueue
from headwater.client.consumer.membership.port import Departure, MembershipHost, RebalanceEvent
from headwater.client.consumer.membership.settings import MembershipSettings
from headwater.client.reactor.kernel import Signal, Task, TimedOut
from headwater.client.session import GROUP_CHANNEL, KeyType
from headwater.wire.schema import Message

logger = logging.getLogger("headwater.client")

R = TypeVar("R", bound=Message)
TaskMaker = Callable[[], Coroutine[Any, Any, None]]

_GOODBYE_TIMEOUT_MS: Final = 5_000


class MembershipBase:
    def __init__(self, host: MembershipHost, settings: MembershipSettings) -> None:
        self.group_id = settings.group_id
        self.group_instance_id = settings.group_instance_id
        self._host = host
        self._settings = settings
        self._session = host.session
        self._changed = Signal()
        self._desk = EventQueue(self._acknowledged, host.wake)
        self._round: Task[None] | None = None
        self._others: list[Task[None]] = []
        self._polled = False  # since the start, or since polls were missed
        self._polled_at = 0.0

    # The port

    @property
    def error(self) -> KafkaError | None:
        raise NotImplementedError

    def poll_heartbeat(self, now: float) -> None:
        self._polled_at = max(now, self._polled_at)
        if not self._polled:
            self._polled = True
            self._changed.notify()

    def next_event(self) -> RebalanceEvent | None:
        return self._desk.next()

    def acknowledge(self, event: RebalanceEvent) -> None:
        self._desk.acknowledge(event)

    def raise_error(self) -> None:
        error = self.error
        if error is not None:
            self._error_told()
            self._changed.notify()
            raise error

    # For the two kinds to fill in

    def _acknowledged(self, event: RebalanceEvent) -> None:
        raise NotImplementedError

    def _error_told(self) -> None:
        raise NotImplementedError

    def _is_member(self) -> bool:
        raise NotImplementedError

    def _poll_expired(self) -> None:
        raise NotImplementedError

    # Tasks

    def _begin(self, makers: list[TaskMaker]) -> None:
        """The first is the one that rebalances."""
        assert self._round is None, "the membership has started already"
        self._polled = False
        self._polled_at = self._session.kernel.clock()
        self._round, *self._others = [self._spawn(maker(), f"membership {maker.__name__}") for maker in makers]

    def _spawn(self, coroutine: Coroutine[Any, Any, None], name: str) -> Task[None]:
        task = self._session.kernel.spawn(coroutine, name)
        task.when_done(lambda done: self._task_ended(name, done.error))
        return task

    def _task_ended(self, name: str, error: BaseException | None) -> None:
        if isinstance(error, Exception):  # an error of ours, or of a custom assignor
            logger.error("group=%s the task %r ended", self.group_id, name, exc_info=error)
            self._broken(error)
            self._host.wake()

    def _broken(self, error: Exception) -> None:
        """A task ended with what it should not have: the user is told."""
        raise NotImplementedError

    def _restart(self, maker: TaskMaker) -> None:
        """The round begins anew, with the next poll."""
        self._polled = False
        if self._round is not None:
            self._round.cancel()
            self._round = self._spawn(maker(), f"membership {maker.__name__}")

    def _end_rebalancing(self) -> None:
        if self._round is not None:
            self._round.cancel()
            self._round = None
        self._desk.settle()

    def _end_tasks(self) -> None:
        for task in self._others:
            task.cancel()
        self._others = []

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            await self._changed.wait()

    async def _watch_polls(self) -> None:
        """An application that does not poll for `max.poll.interval.ms` does not work: others shall have its
        partitions.
        """
        kernel = self._session.kernel
        interval = self._settings.max_poll_interval_ms / 1000
        while True:
            await self._until(self._is_member)
            left = self._polled_at + interval - kernel.clock()
            if left > 0:
                await kernel.sleep(left)
                continue
            logger.warning(
                "group=%s no poll for max.poll.interval.ms=%d: the consumer leaves the group. Poll more often, or fetch less "
                "with max.poll.records",
                self.group_id,
                self._settings.max_poll_interval_ms,
            )
            self._poll_expired()

    # Leaving

    def _says_goodbye(self, departure: Departure) -> bool:
        if departure is Departure.DEFAULT:
            return self.group_instance_id is None
        return departure is Departure.LEAVE

    async def _abandon_requests(self) -> None:
        """A request that the broker holds back would hold up all that follow it."""
        try:
            coordinator = await self._session.coordinator(self.group_id, timeout_ms=_GOODBYE_TIMEOUT_MS)
        except KafkaError:
            return
        self._session.close_link(coordinator, GROUP_CHANNEL)

    async def _last_request(self, request: Message, response_type: type[R], timeout_ms: int | None) -> None:
        """A coordinator that does not hear it finds out by itself, when the session ends."""
        limit_ms = _GOODBYE_TIMEOUT_MS if timeout_ms is None else timeout_ms
        call = self._session.kernel.spawn(
            self._session.call_coordinator(
                self.group_id, KeyType.GROUP, request, response_type, _error_code, timeout_ms=max(1, limit_ms)
            ),
            "goodbye",
        )
        try:
            await self._session.kernel.within(limit_ms / 1000, call)
        except (KafkaError, TimedOut) as error:
            logger.info("group=%s the coordinator could not be told: %s", self.group_id, error)
        finally:
            call.cancel()


def _error_code(response: Any) -> int:
    return int(response.error_code)


def told_as(error: Exception) -> KafkaError:
    if isinstance(error, KafkaError):
        return error
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the membership ended: {type(error).__name__}: {error}")
