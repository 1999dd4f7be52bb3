"""Partitions and brokers in few words, and a store that writes over versions only, as ZooKeeper does."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId, LeaderEpoch, PartitionKey, TopicId
from headwater.base.metrics import ControllerMetrics
from headwater.controller.controller import Controller
from headwater.controller.failure_detector import FailureDetector
from headwater.metadata.image import (
    BrokerGone,
    BrokerRegistered,
    BrokerState,
    Change,
    ClusterImage,
    PartitionChanged,
    PartitionState,
    TopicConfigured,
    TopicState,
)
from headwater.sim.clock import SimClock
from headwater.sim.scheduler import SimScheduler

TOPIC = TopicId(bytes(range(16)))


def broker(
    broker_id: int,
    epoch: int = -2,
    previous: int = -1,
    *,
    stopping: bool = False,
    rack: str | None = None,
    free: int = -1,
    since: int = -1,
) -> BrokerState:
    """Its epoch is ten times its id, unless another is named."""
    return BrokerState(
        BrokerId(broker_id), [], rack, broker_id * 10 if epoch == -2 else epoch, previous, stopping, free, since
    )


def live(*some: int | BrokerState) -> dict[BrokerId, BrokerState]:
    states = [each if isinstance(each, BrokerState) else broker(each) for each in some]
    return {state.broker_id: state for state in states}


def partition(
    leader: int,
    replicas: Iterable[int],
    in_sync: Iterable[int] | None = None,
    *,
    epochs: Iterable[int] | None = None,
    adding: Iterable[int] = (),
    removing: Iterable[int] = (),
    leader_epoch: int = 5,
    version: int = 7,
) -> PartitionState:
    """In sync are all replicas, in the first lives of their brokers, unless something else is said."""
    members = ids(replicas if in_sync is None else in_sync)
    return PartitionState(
        BrokerId(leader),
        LeaderEpoch(leader_epoch),
        ids(replicas),
        members,
        [member * 10 for member in members] if epochs is None else list(epochs),
        ids(adding),
        ids(removing),
        version,
    )


def ids(numbers: Iterable[int]) -> list[BrokerId]:
    return [BrokerId(number) for number in numbers]


def outline(state: PartitionState | PartitionChanged) -> tuple[int, int, list[int], list[int]]:
    """Leader, leader epoch, in-sync replicas and their epochs."""
    return state.leader, state.leader_epoch, list(state.in_sync_replicas), list(state.in_sync_epochs)


class FakeStore:
    """Holds the truth about partitions. Each write takes a turn of the loop, and the image may be told later still."""

    def __init__(self, image: ClusterImage, scheduler: SimScheduler) -> None:
        self.image = image
        self.on_applied: Callable[[Sequence[Change]], None] = lambda changes: None
        self.on_written: Callable[[PartitionChanged, bool], None] = lambda change, by_controller: None
        self.is_controller = True
        self.term = 0  # commits of an earlier one are refused
        self.is_held = False  # what is written is not told yet
        self.is_slow = False  # what is committed is not even written yet
        self.fails_with: ErrorCode | None = None
        self.commits: list[list[PartitionChanged]] = []  # that were carried out
        self.tries = 0
        self._scheduler = scheduler
        self._truth: dict[PartitionKey, int] = {}
        self._untold: deque[tuple[list[Change], Callable[[], None]]] = deque()
        self._unwritten: deque[Callable[[], None]] = deque()

    def commit(self, changes: Sequence[Change], done: Callable[[KafkaError | None], None]) -> None:
        self.tries += 1
        term = self.term

        def write() -> None:
            if term == self.term:
                self._write(list(changes), done, by_controller=True)
            else:
                done(KafkaError(ErrorCode.NOT_CONTROLLER))

        if self.is_slow:
            self._unwritten.append(write)
        else:
            self._scheduler.call_soon(write)

    def write_next(self) -> None:
        """The first of the commits that were slow."""
        self._unwritten.popleft()()

    def propose(self, change: PartitionChanged, done: Callable[[KafkaError | None], None]) -> None:
        self._scheduler.call_soon(lambda: self._write([change], done, by_controller=False))

    def confirm(self, topic_id: TopicId, partition: int, done: Callable[[KafkaError | None], None]) -> None:
        raise AssertionError("the controller knows")

    def reserve_producer_ids(self, count: int, done: Callable[[int, KafkaError | None], None]) -> None:
        raise AssertionError("the controller reserves none")

    def announce(self, *changes: Change) -> None:
        """What others wrote."""
        self._tell(list(changes), lambda: None)

    def release(self) -> None:
        """Tells what was held."""
        self.is_held = False
        while self._untold:
            changes, done = self._untold.popleft()
            self._apply(changes, done)

    def version_of(self, key: PartitionKey) -> int:
        return self._truth.get(key, self.image.topics[key.topic_id].partitions[key.partition].version)

    def _write(self, changes: list[Any], done: Callable[[KafkaError | None], None], *, by_controller: bool) -> None:
        error = self._refusal(changes, by_controller)
        if error is not None:
            done(KafkaError(error))
            return
        written: list[Change] = []
        for change in changes:
            assert isinstance(change, PartitionChanged)
            self.on_written(change, by_controller)
            self._truth[PartitionKey(change.topic_id, change.partition)] = change.version + 1
            written.append(replace(change, version=change.version + 1))
        if by_controller:
            self.commits.append(changes)
        self._tell(written, lambda: done(None))

    def _refusal(self, changes: list[Any], by_controller: bool) -> ErrorCode | None:
        keys = [PartitionKey(change.topic_id, change.partition) for change in changes]
        assert len(set(keys)) == len(keys), "two states over one version"
        if by_controller and not self.is_controller:
            return ErrorCode.NOT_CONTROLLER
        if by_controller and self.fails_with is not None:
            return self.fails_with
        if any(self.version_of(key) != change.version for key, change in zip(keys, changes, strict=True)):
            return ErrorCode.INVALID_UPDATE_VERSION
        return None

    def _tell(self, changes: list[Change], done: Callable[[], None]) -> None:
        if self.is_held:
            self._untold.append((changes, done))
        else:
            self._apply(changes, done)

    def _apply(self, changes: list[Change], done: Callable[[], None]) -> None:
        for change in changes:
            self.image.apply(change)
        self.on_applied(changes)
        done()


class Harness:
    """A controller over one topic `t`, with everything that it needs."""

    def __init__(
        self,
        partitions: Sequence[PartitionState],
        *some: int | BrokerState,
        topic: Any = (),
        failure_detector: Callable[[ClusterImage], FailureDetector] = FailureDetector,
        **properties: Any,
    ) -> None:
        self.clock = SimClock()
        self.scheduler = SimScheduler(self.clock)
        self.image = ClusterImage("cluster", brokers=live(*some))
        self.image.topics[TOPIC] = TopicState("t", TOPIC, list(partitions), dict(topic))
        self.image.ids_by_name["t"] = TOPIC
        self.store = FakeStore(self.image, self.scheduler)
        self.metrics = ControllerMetrics()
        config = BrokerConfig({name.replace("_", "."): str(value) for name, value in properties.items()})
        self.controller = Controller(
            self.image, self.store, self.scheduler, self.clock, config, self.metrics, failure_detector(self.image)
        )
        self.store.on_applied = self.controller.on_changes

    @property
    def partitions(self) -> list[PartitionState]:
        return self.image.topics[TOPIC].partitions

    def active(self) -> "Harness":
        self.controller.activate()
        self.settle()
        return self

    def settle(self) -> None:
        self.scheduler.run_due()

    def wait(self, delay_ms: int) -> None:
        self.clock.advance(delay_ms)
        self.settle()

    def gone(self, *broker_ids: int) -> None:
        self.store.announce(*(BrokerGone(BrokerId(broker_id)) for broker_id in broker_ids))
        self.settle()

    def came(self, *some: int | BrokerState) -> None:
        self.store.announce(*(BrokerRegistered(state) for state in live(*some).values()))
        self.settle()

    def configured(self, **config: str) -> None:
        named = {name.replace("_", "."): value for name, value in config.items()}
        self.store.announce(TopicConfigured(TOPIC, named))
        self.settle()

    def proposed(self, index: int, in_sync: Iterable[int], over: int | None = None) -> list[KafkaError | None]:
        """The leader asks for other in-sync replicas: new ones in the lives that their brokers have now, the others as
        they were.
        """
        state = self.partitions[index]
        members = ids(in_sync)
        known = dict(zip(state.in_sync_replicas, state.in_sync_epochs, strict=True))
        errors: list[KafkaError | None] = []
        change = PartitionChanged(
            TOPIC,
            index,
            state.leader,
            state.leader_epoch,
            tuple(state.replicas),
            tuple(members),
            tuple(known[member] if member in known else self.image.brokers[member].epoch for member in members),
            tuple(state.adding),
            tuple(state.removing),
            state.version if over is None else over,
        )
        self.store.propose(change, errors.append)
        return errors
