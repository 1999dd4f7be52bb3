"""The active controller: sees to it that the partitions of the image are as they ought to be.

It is told of changes and looks at the partitions that they touch, or at all of them when brokers came or went. What is
due is planned from the image as it is then and committed; when that is done or refused, it looks again. One commit is
under way at a time, and meanwhile changes are only noted. What is noted can be found again by a look at the whole
image, so the next controller needs nothing from this one.

Owned by the broker's loop. The store calls `activate`, `deactivate` and `on_changes`, the handlers the rest.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Sequence
from functools import partial
from typing import Final

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import PartitionKey, TopicPartition
from headwater.base.metrics import ControllerMetrics
from headwater.base.ports import Clock, Scheduler, Timer
from headwater.controller.failure_detector import FailureDetector
from headwater.controller.failures import look_at_all, state_of
from headwater.controller.lost_data import LostData
from headwater.controller.planning import Election, Planned, Planner
from headwater.controller.preferred import imbalanced
from headwater.controller.reasons import reason
from headwater.controller.reassignment import Move, Moving, moving
from headwater.controller.requests import Answer, Request, election, not_controller, reassignment
from headwater.controller.unclean import UncleanElections
from headwater.metadata.image import (
    BrokerConfigured,
    BrokerGone,
    BrokerRegistered,
    Change,
    ClusterImage,
    MetadataStore,
    PartitionChanged,
    PartitionsAdded,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)

logger = logging.getLogger("headwater.controller")

BATCH_MAX: Final = 1000  # partitions of one commit: some 20 ms of planning
RETRY_MS: Final = 100  # after a refused commit, if no change comes before
REQUESTS_MAX: Final = 1000
BALANCE_TIMEOUT_MS: Final = 60_000


class Controller:
    def __init__(
        self,
        image: ClusterImage,
        store: MetadataStore,
        scheduler: Scheduler,
        clock: Clock,
        config: BrokerConfig,
        metrics: ControllerMetrics,
        failure_detector: FailureDetector | None = None,
    ) -> None:
        self.is_active = False
        self._image = image
        self._store = store
        self._scheduler = scheduler
        self._clock = clock
        self._config = config
        self._metrics = metrics
        self._failure_detector = failure_detector or FailureDetector(image)
        self._failure_detector.on_change = self.reconcile
        self._planner = Planner(image, config, self._failure_detector)
        self._term = 0  # callbacks of an earlier term are void
        self._touched: OrderedDict[PartitionKey, None] = OrderedDict()
        self._must_look_at_all = False
        self._offline: set[PartitionKey] = set()
        self._unclean = UncleanElections(image, metrics)
        self._lost_data = LostData(image)
        self._requests: deque[Request] = deque()
        self._repairs_are_next = True
        self._batch = BATCH_MAX
        self._is_committing = False
        self._is_scheduled = False
        self._rest: Timer | None = None
        self._balance_timer: Timer | None = None

    def activate(self) -> None:
        """From now on this broker decides. The image must be whole."""
        if self.is_active:
            return
        self.is_active = True
        self._metrics.is_active = True
        self._await_balance()
        self._failure_detector.begin()
        self.reconcile()

    def deactivate(self) -> None:
        """From now on another one decides: nothing is committed any more, and who waits is told so."""
        if not self.is_active:
            return
        self.is_active = False
        self._term += 1
        self._failure_detector.end()
        self._is_committing = self._is_scheduled = self._must_look_at_all = False
        for timer in (self._rest, self._balance_timer):
            if timer is not None:
                timer.cancel()
        self._rest = self._balance_timer = None
        self._batch = BATCH_MAX
        self._touched.clear()
        self._offline.clear()
        self._metrics.is_active = False
        self._metrics.offline_partitions = 0
        waiting, self._requests = self._requests, deque()
        for request in waiting:
            request.answer(not_controller())

    def on_changes(self, changes: Sequence[Change]) -> None:
        """After the image has applied them."""
        for change in changes:
            if isinstance(change, PartitionChanged):
                self._unclean.applied(change)
        if not self.is_active:
            return
        self._failure_detector.on_changes(changes)
        noted = [self._note(change) for change in changes]
        if any(noted):
            self._metrics.offline_partitions = len(self._offline)
            self._stop_resting()
            self._schedule()

    def reconcile(self) -> None:
        """Looks at everything, soon."""
        if self.is_active:
            self._must_look_at_all = True
            self._schedule()

    # What clients ask for

    def elect(self, partitions: Sequence[TopicPartition], kind: Election, timeout_ms: int, answer: Answer) -> None:
        self._submit(election(partitions, kind, self._clock.monotonic_ms() + timeout_ms, answer))

    def reassign(self, moves: Sequence[Move], may_change_factor: bool, timeout_ms: int, answer: Answer) -> None:
        self._submit(reassignment(moves, may_change_factor, self._clock.monotonic_ms() + timeout_ms, answer))

    def listing(self) -> list[Moving]:
        """The partitions on the move."""
        return moving(self._image)

    def _submit(self, request: Request) -> None:
        if not self.is_active:
            request.answer(not_controller())
        elif len(self._requests) >= REQUESTS_MAX:
            request.answer(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "Too many requests wait for the controller."))
        else:
            self._requests.append(request)
            self._schedule()

    # What changes touch

    def _note(self, change: Change) -> bool:
        """Whether there is something to look at."""
        match change:
            case PartitionChanged(topic_id=topic_id, partition=partition):
                self._touch(PartitionKey(topic_id, partition))
            case (
                TopicCreated(topic_id=topic_id)
                | PartitionsAdded(topic_id=topic_id)
                | TopicConfigured(topic_id=topic_id)
            ):
                topic = self._image.topics.get(topic_id)
                for index in range(len(topic.partitions) if topic is not None else 0):
                    self._touch(PartitionKey(topic_id, index))
            case TopicDeleted() | BrokerRegistered() | BrokerGone() | BrokerConfigured():
                self._must_look_at_all = True
            case _:
                return False
        return True

    def _touch(self, key: PartitionKey) -> None:
        state = state_of(self._image, key)
        if state is None or state.leader in self._image.brokers:
            self._offline.discard(key)
        else:
            self._offline.add(key)
        self._touched[key] = None

    def _look_at_all(self) -> None:
        self._must_look_at_all = False
        look = look_at_all(self._image, self._failure_detector.brokers)
        self._touched = OrderedDict.fromkeys(look.unwell)
        self._offline = look.offline
        self._metrics.offline_partitions = len(look.offline)
        self._lost_data.look(look.unwell)

    # Plan, commit, look again

    def _schedule(self) -> None:
        if not self._is_scheduled and not self._is_committing and self._rest is None:
            self._is_scheduled = True
            self._scheduler.call_soon(partial(self._run, self._term))

    def _run(self, term: int) -> None:
        if term != self._term:
            return
        self._is_scheduled = False
        while not self._is_committing and self._rest is None and self.is_active:
            if self._must_look_at_all:
                self._look_at_all()
            request = self._next_request()
            if request is None and not self._touched:
                return
            self._repairs_are_next = request is not None
            if request is None:
                planned = self._planner.repairs(self._touched, self._batch)
            else:
                planned = request.plan(self._planner, self._batch)
            if planned:
                self._commit(request, planned)
            elif request is not None:
                self._advance(request)

    def _next_request(self) -> Request | None:
        """Requests and repairs take turns, so that neither can starve the other."""
        if not self._requests or (self._touched and self._repairs_are_next):
            return None
        return self._requests[0]

    def _commit(self, request: Request | None, planned: list[Planned]) -> None:
        self._is_committing = True
        for each in planned:
            if each.is_unclean:
                self._unclean.plan(each)
        if logger.isEnabledFor(logging.DEBUG):
            self._explain(planned)
        changes = [each.change for each in planned]
        self._store.commit(changes, partial(self._committed, self._term, request, [each.key for each in planned]))

    def _explain(self, planned: list[Planned]) -> None:
        for each in planned:
            change, state = each.change, state_of(self._image, each.key)
            if state is not None:
                logger.debug(
                    "event=planned partition=%s-%d leader=%d epoch=%d in_sync=%s reason=%r",
                    self._image.topics[change.topic_id].name, change.partition, change.leader, change.leader_epoch,
                    list(change.in_sync_replicas), reason(state, change, self._failure_detector.brokers, is_unclean=each.is_unclean),
                )  # fmt: skip

    def _committed(
        self, term: int, request: Request | None, keys: list[PartitionKey], error: KafkaError | None
    ) -> None:
        if term != self._term:
            return
        self._is_committing = False
        if error is None:
            self._batch = min(BATCH_MAX, self._batch * 2)
            if request is not None:
                self._advance(request)
        elif error.code == ErrorCode.NOT_CONTROLLER:
            self.deactivate()
            return
        else:
            self._refused(request, keys, error)
        self._schedule()

    def _advance(self, request: Request) -> None:
        request.piece_committed()
        if request.is_complete:
            self._requests.popleft()
            request.answer()

    def _refused(self, request: Request | None, keys: list[PartitionKey], error: KafkaError) -> None:
        """A leader was faster, or ZooKeeper is away: planned anew, in smaller pieces, so that one race does not hold up
        all.
        """
        logger.info("event=commit-refused partitions=%d reason=%s", len(keys), error.code.name)
        self._batch = max(1, self._batch // 4)
        self._rest = self._scheduler.call_later(RETRY_MS, partial(self._rested, self._term))
        if request is None:
            self._touched.update(OrderedDict.fromkeys(keys))
        elif error.code != ErrorCode.INVALID_UPDATE_VERSION:
            self._requests.popleft().answer(error)
        elif self._clock.monotonic_ms() >= request.deadline_ms:
            self._requests.popleft().answer(
                KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The partitions changed again and again.")
            )

    def _rested(self, term: int) -> None:
        if term == self._term:
            self._rest = None
            self._schedule()

    def _stop_resting(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    # Preferred leaders

    def _await_balance(self) -> None:
        if self._config.bool("auto.leader.rebalance.enable"):
            interval_ms = self._config.int("leader.imbalance.check.interval.seconds") * 1000
            self._balance_timer = self._scheduler.call_later(interval_ms, partial(self._balance, self._term))

    def _balance(self, term: int) -> None:
        if term != self._term:
            return
        percentage = self._config.int("leader.imbalance.per.broker.percentage")
        keys = imbalanced(self._image, self._failure_detector.brokers, percentage)
        if keys:
            logger.info("event=leaders-imbalanced partitions=%d", len(keys))
            names = [TopicPartition(self._image.topics[key.topic_id].name, key.partition) for key in keys]
            self.elect(names, Election.PREFERRED, BALANCE_TIMEOUT_MS, lambda _error, _results: None)
        self._await_balance()
