"""Brokers on simulated disks, one beside the other: they ask each other through the codecs, and a script plays the
controller.

`truth` is what ZooKeeper would have. A change written over its version reaches every broker that lives, at once unless
the broker `is_deaf`; a proposal waits in `proposals` if `holds_proposals`. Requests may be cut off (`cut`) or lost on
either way (`lose`).
"""

import copy
import random
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from headwater.base.config.broker import BrokerConfig
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId, LeaderEpoch, PartitionKey, TopicId
from headwater.base.peers import Lane, Unreachable
from headwater.base.ports import FileSlice
from headwater.broker.broker import Broker
from headwater.broker.context import ConnectionContext, RequestContext
from headwater.broker.deferred import Deferred
from headwater.broker.registry import APIS
from headwater.log.config import LogConfig
from headwater.log.context import LogContext
from headwater.log.manager import LogManager
from headwater.metadata.image import (
    BrokerGone,
    BrokerRegistered,
    BrokerState,
    Change,
    ClusterImage,
    Endpoint,
    PartitionChanged,
    PartitionState,
    TopicCreated,
    TopicDeleted,
)
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.replication.partition import Partition
from headwater.sim.clock import SimClock
from headwater.sim.disk import SimDisk
from headwater.sim.scheduler import ProcessScheduler, SimRandom, SimScheduler
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOPIC = "orders"
TOPIC_ID = TopicId(bytes(range(16)))
KEY = PartitionKey(TOPIC_ID, 0)
Done = Callable[[KafkaError | None], None]


class LabPeers:
    def __init__(self, lab: "ClusterLab", me: int) -> None:
        self._lab = lab
        self._me = me

    def ask(
        self,
        broker: BrokerId,
        lane: Lane,
        request: Any,
        version: int,
        done: Any,
        *,
        timeout_ms: int,
        origin: str = "",
    ) -> None:
        self._lab.send(self._me, int(broker), request, version, done)

    def forget(self, broker: BrokerId) -> None:
        self._lab.forgotten.append((self._me, int(broker)))

    def close(self) -> None:
        pass


class LabStore:
    def __init__(self, lab: "ClusterLab") -> None:
        self._lab = lab

    def commit(self, changes: Sequence[Change], done: Done) -> None:
        raise AssertionError("the script is the controller")

    def propose(self, change: PartitionChanged, done: Done) -> None:
        self._lab.proposals.append((change, done))
        if not self._lab.holds_proposals:
            self._lab.scheduler.call_later(self._lab.delay_ms(), self._lab.settle_proposal)

    def confirm(self, topic_id: TopicId, partition: int, done: Done) -> None:
        raise AssertionError("there are no coordinators here")

    def reserve_producer_ids(self, count: int, done: Any) -> None:
        raise AssertionError("nobody asks for ids here")


class Node:
    def __init__(self, lab: "ClusterLab", node_id: int, properties: dict[str, str]) -> None:
        self.lab = lab
        self.node_id = node_id
        self.disk = SimDisk(seed=lab.seed * 7 + node_id)
        self.properties = properties
        self.broker: Broker | None = None
        self.is_deaf = False
        self.lives = 0

    def start(self) -> Broker:
        lab = self.lab
        self.lives += 1
        self.scheduler = ProcessScheduler(lab.clock, lab.scheduler)
        values = {"node.id": str(self.node_id), "log.dirs": "/data", "listeners": "PLAINTEXT://:0", **self.properties}
        config = BrokerConfig(values)
        randomness = SimRandom(lab.seed + 100 * self.node_id + self.lives)
        logs = LogManager(LogContext(self.disk, self.scheduler, randomness), ["/data"], lambda _topic: LogConfig())
        logs.lock()
        logs.claim("lab", self.node_id)
        logs.open(lambda: None)
        image = copy.deepcopy(lab.truth)
        self.broker = Broker(
            config, image, LabStore(lab), logs,
            clock=lab.clock, random=randomness, scheduler=self.scheduler, disk=self.disk,
            peers=LabPeers(lab, self.node_id),
        )  # fmt: skip
        logs.high_watermark_of = self.broker.high_watermark_of
        self.broker.open_partitions()
        return self.broker

    def die(self, *, power_loss: bool) -> None:
        self.scheduler.die()
        self.broker = None
        (self.disk.crash if power_loss else self.disk.kill)()


class ClusterLab:
    def __init__(self, count: int = 3, *, seed: int = 1, replicas: int | None = None, **properties: str) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.clock = SimClock()
        self.scheduler = SimScheduler(self.clock)
        self.truth = ClusterImage("lab")
        self.proposals: list[tuple[PartitionChanged, Done]] = []
        self.holds_proposals = False
        self.delay_max_ms = 0
        self.lose = 0.0
        self.cut: set[tuple[int, int]] = set()
        self.forgotten: list[tuple[int, int]] = []
        self.asked: list[tuple[int, int, Any]] = []
        self._last_epoch = 0
        settings = {name.replace("_", "."): value for name, value in properties.items()}
        self.nodes = {node: Node(self, node, settings) for node in range(1, count + 1)}
        for node in self.nodes.values():
            self._register(node)
            node.start()
        if replicas is not None:
            self.create(TOPIC, TOPIC_ID, tuple(range(1, replicas + 1)))

    # The cluster's state

    def _register(self, node: Node) -> None:
        self._last_epoch += 10
        state = BrokerState(BrokerId(node.node_id), [Endpoint("PLAINTEXT", f"host{node.node_id}", 9092)])
        state.epoch = self._last_epoch
        state.rack = node.properties.get("broker.rack") or f"rack{node.node_id}"
        self.spread([BrokerRegistered(state)])

    def create(self, name: str, topic_id: TopicId, *assignments: tuple[int, ...], **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        changes: list[Change] = [TopicCreated(name, topic_id, assignments, settings)]
        for index, assigned in enumerate(assignments):
            replicas = tuple(BrokerId(replica) for replica in assigned)
            epochs = tuple(self.epoch_of(replica) for replica in replicas)
            changes.append(
                PartitionChanged(topic_id, index, replicas[0], LeaderEpoch(0), replicas, replicas, epochs, version=0)
            )
        self.spread(changes)

    def delete(self, topic_id: TopicId) -> None:
        self.spread([TopicDeleted(topic_id)])

    def epoch_of(self, broker: int) -> int:
        registered = self.truth.brokers.get(BrokerId(broker))
        return -1 if registered is None else registered.epoch

    def state(self, key: PartitionKey = KEY) -> PartitionState:
        return self.truth.topics[key.topic_id].partitions[key.partition]

    def elect(self, leader: int, *, in_sync: Sequence[int] | None = None, key: PartitionKey = KEY) -> None:
        """A controller's decision: another leader, under a new epoch."""
        state = self.state(key)
        members = [member for member in state.in_sync_replicas if in_sync is None or member in in_sync]
        known = dict(zip(state.in_sync_replicas, state.in_sync_epochs, strict=True))
        self.change(
            key,
            leader=BrokerId(leader),
            leader_epoch=LeaderEpoch(state.leader_epoch + 1),
            in_sync_replicas=tuple(members),
            in_sync_epochs=tuple(known[member] for member in members),
        )

    def change(self, key: PartitionKey = KEY, **fields: Any) -> None:
        state = self.state(key)
        now: dict[str, Any] = {
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "replicas": tuple(state.replicas),
            "in_sync_replicas": tuple(state.in_sync_replicas),
            "in_sync_epochs": tuple(state.in_sync_epochs),
            "adding": tuple(state.adding),
            "removing": tuple(state.removing),
        }
        self.spread([PartitionChanged(key.topic_id, key.partition, **{**now, **fields}, version=state.version + 1)])

    def spread(self, changes: Sequence[Change]) -> None:
        for change in changes:
            self.truth.apply(copy.deepcopy(change))
        for node in self.nodes.values():
            if not node.is_deaf:
                self.tell(node, changes)

    def tell(self, node: Node, changes: Sequence[Change]) -> None:
        if node.broker is not None:
            for change in changes:
                node.broker.image.apply(copy.deepcopy(change))
            node.broker.apply(changes)

    def hear(self, node_id: int) -> None:
        """A deaf broker reads what it has missed."""
        node = self.nodes[node_id]
        node.is_deaf = False
        self.tell(node, [BrokerRegistered(broker) for broker in self.truth.brokers.values()])
        for topic in self.truth.topics.values():
            self.tell(node, [_whole(topic.topic_id, index, state) for index, state in enumerate(topic.partitions)])

    def settle_proposal(self, error: ErrorCode | None = None) -> None:
        """The oldest proposal is written, if it was decided upon the state as it is now."""
        if not self.proposals:
            return
        change, done = self.proposals.pop(0)
        topic = self.truth.topics.get(change.topic_id)
        if error is None and (topic is None or topic.partitions[change.partition].version != change.version):
            error = ErrorCode.INVALID_UPDATE_VERSION
        if error is None:
            fields = {name: getattr(change, name) for name in change.__slots__ if name != "version"}
            self.spread([PartitionChanged(**fields, version=change.version + 1)])
        done(None if error is None else KafkaError(error))

    # Life and death

    def kill(self, node_id: int, *, power_loss: bool = False) -> None:
        self.nodes[node_id].die(power_loss=power_loss)
        self.spread([BrokerGone(BrokerId(node_id))])

    def restart(self, node_id: int) -> None:
        self._register(self.nodes[node_id])
        self.nodes[node_id].start()

    # Requests between brokers

    def delay_ms(self) -> int:
        return self.chance.randint(0, self.delay_max_ms)

    def send(self, origin: int, target: int, request: Any, version: int, done: Any) -> None:
        self.asked.append((origin, target, request))
        life = self.nodes[origin].lives
        data = bytearray(b"".join(request.encode(version)))
        is_lost = self.chance.random() < self.lose

        def tell(response: Any, problem: Unreachable | None) -> None:
            node = self.nodes[origin]
            if node.broker is not None and node.lives == life:
                done(response, problem)

        def unreachable() -> None:
            tell(None, Unreachable("nobody answers"))

        def answered(response: Any) -> None:
            encoded = _bytes_of(response, version)
            if is_lost and self.chance.random() < 0.5:
                self.scheduler.call_later(50, unreachable)
                return
            decoded = type(response).decode(bytearray(encoded), 0, version)
            self.scheduler.call_later(self.delay_ms(), lambda: tell(decoded, None))

        def arrive() -> None:
            broker = self.nodes[target].broker
            if broker is None or (origin, target) in self.cut:
                self.scheduler.call_later(10, unreachable)
                return
            if is_lost and self.chance.random() < 0.5:
                self.scheduler.call_later(50, unreachable)
                return
            answer = self.handle(target, type(request).decode(data, 0, version), version)
            if isinstance(answer, Deferred):
                target_life = self.nodes[target].lives
                self.scheduler.call_later(2000, lambda: self._give_up(answer, target, target_life, unreachable))
                answer.listen(answered)
            else:
                answered(answer)

        self.scheduler.call_later(self.delay_ms(), arrive)

    def _give_up(self, answer: Deferred, target: int, life: int, unreachable: Callable[[], None]) -> None:
        if not answer.done and (self.nodes[target].broker is None or self.nodes[target].lives != life):
            answer.cancel()
            unreachable()

    def handle(self, target: int, request: Any, version: int) -> Any:
        api = APIS[request.KEY]
        context = RequestContext(ConnectionContext("127.0.0.1", 5000, "PLAINTEXT"), api.key, version, "lab")
        return import_module(f"headwater.broker.handlers.{api.name}").handle(
            self.nodes[target].broker, context, request
        )

    # Time

    def run(self, duration_ms: int = 0) -> None:
        """Lets everything happen that is due within that time."""
        until = self.clock.monotonic_ms() + duration_ms
        while True:
            ran = sum(node.disk.run() for node in self.nodes.values()) + self.scheduler.run_due()
            if ran:
                continue
            due_in_ms = self.scheduler.due_in_ms()
            now_ms = self.clock.monotonic_ms()
            if due_in_ms is None or now_ms + due_in_ms > until:
                self.clock.advance(max(0, until - now_ms))
                return
            self.clock.advance(due_in_ms)

    # What tests look at

    def broker(self, node_id: int) -> Broker:
        found = self.nodes[node_id].broker
        assert found is not None
        return found

    def replica(self, node_id: int, key: PartitionKey = KEY) -> Partition:
        return self.broker(node_id).partitions[key]

    def produce(
        self,
        node_id: int,
        value: bytes = b"value",
        *,
        acks: int = -1,
        topic: str = TOPIC,
        index: int = 0,
        count: int = 1,
    ) -> Any:
        """One batch. A response, or a Deferred."""
        records = [Record(at, self.clock.now_ms(), b"key", value) for at in range(count)]
        batch = bytearray(build_batch(records))
        data = [
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=index, records=memoryview(batch))])
        ]
        request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=1500, topic_data=data)
        return self.handle(node_id, request, 9)

    def content(self, node_id: int, upper: int | None = None, key: PartitionKey = KEY) -> bytes:
        """The bytes of the log below `upper`, which is a batch border."""
        log = self.replica(node_id, key).log
        end = log.log_end_offset if upper is None else upper
        found, offset = b"", log.log_start_offset
        while offset < end:
            piece = log.read(offset, 1 << 30, end, min_one_batch=True)
            assert piece is not None
            data = piece.read()
            piece.release()
            found += data
            offset = _next_offset(data)
        return found


def error_of(answer: Any) -> ErrorCode:
    """Of a produce: of its only partition."""
    if isinstance(answer, Deferred):
        assert answer.done, "it still waits"
        answer = answer.response
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def _next_offset(data: bytes) -> int:
    from headwater.records.reader import read_batches

    return max(header.last_offset for _, header in read_batches(data)) + 1


def _bytes_of(response: Any, version: int) -> bytes:
    chunks = []
    for chunk in response.encode(version):
        if isinstance(chunk, FileSlice):
            chunks.append(chunk.read())
            chunk.release()
        else:
            chunks.append(bytes(chunk))
    return b"".join(chunks)


def _whole(topic_id: TopicId, index: int, state: PartitionState) -> PartitionChanged:
    return PartitionChanged(
        topic_id, index, state.leader, state.leader_epoch, tuple(state.replicas), tuple(state.in_sync_replicas),
        tuple(state.in_sync_epochs), tuple(state.adding), tuple(state.removing), state.version,
    )  # fmt: skip
