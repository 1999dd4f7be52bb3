"""Several brokers' stores on one simulated ZooKeeper, and what must hold of them whatever happens."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId, TopicId
from headwater.metadata.cluster.difference import changed
from headwater.metadata.cluster.planning import Piece, plan, shared_paths
from headwater.metadata.cluster.store import ClusterStore
from headwater.metadata.image import (
    BrokerState,
    Change,
    ClusterImage,
    Endpoint,
    PartitionChanged,
    TopicCreated,
)
from headwater.sim.clock import SimClock
from headwater.sim.scheduler import ProcessScheduler, SimScheduler
from headwater.sim.zookeeper import SimZooKeeper
from headwater.sim.zookeeper_tree import Tree

SESSION_MS = 1500


def topic_id(number: int) -> TopicId:
    return TopicId(number.to_bytes(16, "big"))


def me(broker_id: int) -> BrokerState:
    return BrokerState(BrokerId(broker_id), [Endpoint("PLAINTEXT", f"host{broker_id}", 9092)], rack=f"r{broker_id}")


def topic(name: str, number: int, assignments: Sequence[tuple[int, ...]] = ((0, 1, 2),)) -> TopicCreated:
    return TopicCreated(name, topic_id(number), tuple(assignments), {})


def partition_change(image: ClusterImage, name: str, partition: int = 0) -> PartitionChanged:
    """The partition as it is, to be changed by `replace`."""
    found = image.topic(name)
    return changed(found.topic_id, partition, found.partitions[partition])


def planned(changes: Sequence[Change], image: ClusterImage, tree: Tree) -> list[Piece]:
    """As a controller plans them whose guard has the version 0."""
    nodes = {path: tree.get(path) for change in changes for path in shared_paths(change, image)}
    return plan(changes, image, 0, {path: None if node is None else node.version for path, node in nodes.items()})


class Answer:
    """What came of something that was asked."""

    def __init__(self) -> None:
        self.is_there = False
        self.error: KafkaError | None = None
        self.value: int = -1
        self.ready: list[Callable[[], None]] = []

    def __call__(self, error: KafkaError | None) -> None:
        assert not self.is_there, "answered twice"
        self.is_there = True
        self.error = error
        for ready in self.ready:
            ready()

    def ids(self, first: int, error: KafkaError | None) -> None:
        self.value = first
        self(error)

    @property
    def code(self) -> ErrorCode:
        assert self.is_there
        return ErrorCode.NONE if self.error is None else self.error.code


class Cluster:
    def __init__(self, seed: int = 0, delay_ms_max: int = 5) -> None:
        self.random = random.Random(seed)
        self.clock = SimClock()
        self.scheduler = SimScheduler(self.clock)
        self.zookeeper = SimZooKeeper(self.scheduler, self.random, delay_ms_max=delay_ms_max)
        self.controllers: dict[int, Broker] = {}  # by epoch
        self.brokers: list[Broker] = []

    def broker(self, broker_id: int, **about: object) -> "Broker":
        """One that joins."""
        broker = Broker(self, broker_id, **about)
        self.brokers.append(broker)
        return broker

    def joined(self, count: int) -> list["Broker"]:
        brokers = [self.broker(number) for number in range(count)]
        self.until(lambda: all(broker.join_answer.is_there for broker in brokers))
        self.until(lambda: any(broker.is_active for broker in brokers))
        self.settle()
        return brokers

    def controller(self) -> "Broker":
        self.until(lambda: any(broker.is_active for broker in self.brokers))
        return next(broker for broker in self.brokers if broker.is_active)

    def run(self, duration_ms: int) -> None:
        self._run(lambda: False, duration_ms)

    def until(self, condition: Callable[[], bool], limit_ms: int = 60_000) -> None:
        assert self._run(condition, limit_ms), "it never happened"

    def settle(self) -> None:
        """Long enough for all that is under way, not for a session to run out."""
        self.run(300)

    def _run(self, condition: Callable[[], bool], duration_ms: int) -> bool:
        end = self.clock.monotonic_ms() + duration_ms
        while not condition():
            due = self.scheduler.due_in_ms()
            left = end - self.clock.monotonic_ms()
            if due is None or due > left:
                self.clock.advance(left)
                return condition()
            if due:
                self.clock.advance(due)
            self.scheduler.run_one()
        return True

    def commit(self, *changes: Change) -> Answer:
        """By the controller; waited for."""
        return self.wait(self.controller().commit(*changes))

    def wait(self, answer: Answer) -> Answer:
        self.until(lambda: answer.is_there)
        return answer

    def data(self, path: str) -> bytes:
        node = self.zookeeper.tree.get(path)
        assert node is not None, path
        return node.data

    def entries(self) -> list[str]:
        return self.zookeeper.tree.children("/headwater/changes") or []


class Broker:
    """A store, and what it told. What is told, applied to another image, gives the same image."""

    def __init__(self, cluster: Cluster, broker_id: int, **about: object) -> None:
        self.cluster = cluster
        self.broker_id = broker_id
        self.scheduler = ProcessScheduler(cluster.clock, cluster.scheduler)
        self.coordination = cluster.zookeeper.client(self.scheduler, SESSION_MS)
        self.image = ClusterImage("new-cluster")
        self.shadow = ClusterImage("new-cluster")
        self.store = ClusterStore(self.coordination, self.image, self.scheduler, broker_id, SESSION_MS)
        self.store.on_applied = self._applied
        self.store.on_controller = self._controls
        self.told: list[list[Change]] = []
        self.is_active = False
        self.join_answer = Answer()
        self.about = replace(me(broker_id), **about)  # type: ignore[arg-type]
        self.problems: list[str] = []
        self.store.connect(self._connected)

    def _connected(self, cluster_id: str) -> None:
        self.shadow.cluster_id = cluster_id
        self.store.join(self.about, self.join_answer)

    def commit(self, *changes: Change) -> Answer:
        answer = Answer()
        self.store.commit(changes, answer)
        return answer

    def propose(self, change: PartitionChanged) -> Answer:
        answer = Answer()
        self.store.propose(change, answer)
        return answer

    def confirm(self, name: str, partition: int = 0) -> Answer:
        answer = Answer()
        self.store.confirm(self.image.topic(name).topic_id, partition, answer)
        return answer

    def reserve(self, count: int) -> Answer:
        answer = Answer()
        self.store.reserve_producer_ids(count, answer.ids)
        return answer

    def stop_leading(self) -> Answer:
        answer = Answer()
        self.store.stop_leading(answer)
        return answer

    def die(self) -> None:
        """The process is gone; its session runs out."""
        self.scheduler.die()
        self.is_active = False
        self.cluster.brokers.remove(self)

    def _applied(self, changes: Sequence[Change]) -> None:
        self.told.append(list(changes))
        epoch = self.shadow.controller_epoch
        for change in changes:
            if isinstance(change, PartitionChanged):
                self._expect(self._is_newer(change), f"an older state was told: {change}")
            self.shadow.apply(change)
        self._expect(self.shadow.controller_epoch >= epoch, "the controller's epoch went back")
        self._expect(self.shadow == self.image, "what was told does not make the image")

    def _is_newer(self, change: PartitionChanged) -> bool:
        known = self.shadow.topics[change.topic_id].partitions[change.partition]
        return change.version > known.version and change.leader_epoch >= known.leader_epoch

    def _controls(self, is_controller: bool) -> None:
        self._expect(is_controller != self.is_active, "the same was told twice")
        self.is_active = is_controller
        if is_controller:
            epoch = self.image.controller_epoch
            self._expect(self.image.controller_id == self.broker_id, "its image names another controller")
            same = self.cluster.controllers.setdefault(epoch, self)
            self._expect(same is self, f"two controllers with the epoch {epoch}")
            self._expect(epoch == max(self.cluster.controllers), f"epoch {epoch} began after a later one")

    def _expect(self, condition: bool, problem: str) -> None:
        """The store goes on when its owner breaks: so this is looked at by the test."""
        if not condition:
            self.problems.append(problem)
