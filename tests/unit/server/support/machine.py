"""A simulated disk that outlives its brokers: starts, what they find there, and what they make."""

from typing import Any, Generic, TypeVar

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import KafkaError
from headwater.base.ids import BrokerId
from headwater.broker.broker import Broker
from headwater.broker.topics import plan_topic
from headwater.metadata.image import BrokerState, TopicDeleted
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.server.assembly import Assembly
from headwater.sim.clock import SimClock
from headwater.sim.disk import SimDisk
from headwater.sim.scheduler import SimRandom, SimScheduler

D = TypeVar("D", bound=SimDisk)


class Machine(Generic[D]):
    """One broker at a time."""

    def __init__(self, disk: D, log_dirs: str) -> None:
        self.disk = disk
        self._log_dirs = log_dirs

    def start(self, **properties: str) -> Broker:
        self.clock = SimClock()
        self.scheduler = SimScheduler(self.clock)
        named = {name.replace("_", "."): value for name, value in properties.items()}
        self.assembly = Assembly(
            BrokerConfig({"node.id": "1", "log.dirs": self._log_dirs, "listeners": "PLAINTEXT://:0", **named}),
            disk=self.disk,
            clock=self.clock,
            random=SimRandom(7),
            scheduler=self.scheduler,
        )
        opened: list[Broker] = []
        self.assembly.open(opened.append)
        self.settle()
        (broker,) = opened
        broker.image.brokers[BrokerId(1)] = BrokerState(BrokerId(1), [])
        return broker

    def settle(self) -> None:
        while self.disk.run() + self.scheduler.run_due():
            pass

    def tick(self) -> None:
        self.clock.advance(1000)
        self.settle()

    def commit(self, broker: Broker, change: Any) -> None:
        errors: list[KafkaError | None] = []
        broker.store.commit([change], errors.append)
        self.settle()
        assert errors == [None]

    def create(self, broker: Broker, topic: str, partitions: int = 1) -> None:
        self.commit(broker, plan_topic(broker, topic, partitions, 1, {}))

    def delete(self, broker: Broker, topic: str) -> None:
        broker.store.commit([TopicDeleted(broker.image.topic(topic).topic_id)], lambda _error: None)
        self.settle()

    def append(self, broker: Broker, topic: str, count: int = 1) -> None:
        records = build_batch([Record(n, self.clock.now_ms(), b"key", b"value") for n in range(count)])
        broker.partition(topic, 0).append(memoryview(records), self.clock.now_ms())

    def files(self, under: str) -> dict[str, bytes]:
        return {
            name: self.disk.read_file(f"{under}/{name}")
            for name in self.disk.list_directory(under)
            if not self.disk.is_directory(f"{under}/{name}")
        }
