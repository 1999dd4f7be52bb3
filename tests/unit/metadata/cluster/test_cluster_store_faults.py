"""Stores on one ZooKeeper, with faults by chance: whatever happens, after healing all have one image, and it is what
the nodes say.

Whoever believes to be the controller commits. Each of its commits has its epoch in it, so that the log tells whether
one of an older controller came after one of a newer.
"""

import json
from dataclasses import replace

import pytest

from headwater.base.coordination import Delete
from headwater.base.errors import ErrorCode
from headwater.base.ids import BrokerId, LeaderEpoch
from headwater.metadata.cluster.changes import decode_entry
from headwater.metadata.image import (
    BrokerConfigured,
    Change,
    PartitionChanged,
    PartitionsAdded,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from unit.metadata.cluster.cluster_store_support import Answer, Broker, Cluster, partition_change, topic_id

SEEDS = 200
STEPS = 30
PARTS = 4
NAMES = ("a", "b", "c")
EXPECTED = {
    ErrorCode.NONE,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.TOPIC_ALREADY_EXISTS,
    ErrorCode.UNKNOWN_TOPIC_ID,
}


class Chaos:
    def __init__(self, seed: int) -> None:
        self.cluster = Cluster(seed)
        self.random = self.cluster.random
        self.brokers = [self.cluster.broker(number) for number in range(3)]
        self.somebody = self.cluster.zookeeper.client(self.cluster.scheduler)
        self.somebody.start()
        self.answers: list[Answer] = []
        self.blocks: list[tuple[int, int]] = []
        self.accepted: set[tuple[bytes, int, int]] = set()
        self.marked = 0
        self.topics = 0

    def marks(self) -> list[tuple[int, int]]:
        """Epoch and number of the commits, as the log has them."""
        found = []
        for name in self.cluster.entries():
            for change in decode_entry(self.cluster.data(f"/headwater/changes/{name}")):
                if isinstance(change, BrokerConfigured):
                    found.append((int(change.config["epoch"]), int(change.config["mark"])))
        return found

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choice(
                (self.commit, self.commit, self.commit, self.propose, self.propose, self.reserve, self.fault)
            )()
            self.cluster.run(self.random.choice((0, 1, 5, 20, 100)))

    def fault(self) -> None:
        broker = self.random.choice(self.brokers)
        zookeeper = self.cluster.zookeeper
        match self.random.randrange(11):
            case 0:
                zookeeper.cut_off(broker.coordination)
            case 1 | 2:
                zookeeper.let_through(broker.coordination)
            case 3:
                zookeeper.disconnect(broker.coordination)
            case 4:
                zookeeper.expire(broker.coordination.session_id)
            case 5:
                zookeeper.stop()
                self.cluster.run(self.random.choice((1, 50, 3000)))
                zookeeper.resume()
            case 6:
                self.cluster.run(3000)
            case 7:
                self.replace(broker)
            case _:  # as people do who want another controller: the one that there is hears of it later
                self.somebody.write([Delete("/controller")], lambda _written, _error: None)

    def replace(self, broker: Broker) -> None:
        """The process dies, and another takes its place."""
        broker.die()
        self.cluster.zookeeper.let_through(broker.coordination)
        self.brokers[self.brokers.index(broker)] = self.cluster.broker(broker.broker_id)

    def commit(self) -> None:
        believers = [broker for broker in self.brokers if broker.is_active] or self.brokers
        broker = self.random.choice(believers)
        changes = self.changes(broker)
        self.marked += 1
        mark = {"epoch": str(broker.image.controller_epoch), "mark": str(self.marked)}
        self.answers.append(broker.commit(*changes, BrokerConfigured("", mark)))

    def changes(self, broker: Broker) -> list[Change]:
        image = broker.image
        name = self.random.choice(NAMES)
        if name not in image.ids_by_name:
            self.topics += 1
            replicas = tuple(self.random.sample(range(3), self.random.randint(1, 3)))
            count = self.random.randint(1, 3)
            return [TopicCreated(name, topic_id(self.topics), (replicas,) * count, {"by": str(broker.broker_id)})]
        known = image.topic(name)
        match self.random.randrange(6):
            case 0:
                return [TopicDeleted(known.topic_id)]
            case 1:
                return [PartitionsAdded(known.topic_id, ((self.random.randrange(3),),))]
            case 2:
                return [TopicConfigured(known.topic_id, {"n": str(self.random.randrange(9))})]
        changes: list[Change] = []
        for number in range(len(known.partitions)):
            change = partition_change(image, name, number)
            replicas = tuple(BrokerId(r) for r in self.random.sample(range(3), 2))
            epoch = LeaderEpoch(change.leader_epoch + 1)
            changes.append(
                replace(change, leader=replicas[0], leader_epoch=epoch, replicas=replicas, adding=replicas[1:])
            )
        return changes

    def propose(self) -> None:
        """Several in one turn, some of them for the same partition."""
        broker = self.random.choice(self.brokers)
        for _ in range(self.random.randint(1, 3)):
            if broker.image.ids_by_name:
                name = self.random.choice(list(broker.image.ids_by_name))
                number = self.random.randrange(len(broker.image.topic(name).partitions))
                change = partition_change(broker.image, name, number)
                if change.version >= 0:
                    self.propose_one(broker, replace(change, in_sync_replicas=change.replicas[:1], in_sync_epochs=(1,)))

    def propose_one(self, broker: Broker, change: PartitionChanged) -> None:
        answer = broker.propose(change)
        key = (change.topic_id, change.partition, change.version)

        def ready() -> None:
            if answer.error is None:
                assert key not in self.accepted, "two proposals over one version"
                self.accepted.add(key)
                topic = broker.image.topics.get(change.topic_id)
                assert topic is None or topic.partitions[change.partition].version > change.version

        answer.ready.append(ready)
        self.answers.append(answer)

    def reserve(self) -> None:
        count = self.random.randint(1, 9)
        answer = self.random.choice(self.brokers).reserve(count)
        answer.ready.append(lambda: self.blocks.append((answer.value, count)) if answer.error is None else None)

    def heal(self) -> None:
        for broker in self.brokers:
            self.cluster.zookeeper.let_through(broker.coordination)
        if self.random.random() < 0.3:
            self.brokers.pop().die()
        self.cluster.until(lambda: all(broker.store.is_connected for broker in self.brokers))
        self.cluster.until(lambda: any(broker.is_active for broker in self.brokers))
        self.cluster.run(1000)

    def check(self) -> None:
        fresh = self.cluster.broker(9)
        self.cluster.wait(fresh.join_answer)
        self.cluster.run(1000)
        for broker in self.cluster.brokers:
            assert broker.problems == []
            broker.image.deleted_topics.clear()
            assert broker.image == fresh.image
        assert [broker.is_active for broker in self.cluster.brokers].count(True) == 1
        assert self.cluster.controllers[max(self.cluster.controllers)].is_active
        assert fresh.image.controller_epoch == json.loads(self.cluster.data("/controller_epoch"))
        epochs = [epoch for epoch, _ in self.marks()]
        assert epochs == sorted(epochs), "an older controller wrote after a newer"
        ids = [number for first, count in self.blocks for number in range(first, first + count)]
        assert len(ids) == len(set(ids))
        assert {answer.code for answer in self.answers if answer.is_there} <= EXPECTED


@pytest.mark.parametrize("part", range(PARTS))
def test_after_healing_all_images_are_what_the_nodes_say(part: int) -> None:
    codes: set[ErrorCode] = set()
    for seed in range(part, SEEDS, PARTS):
        chaos = Chaos(seed)
        try:
            chaos.cluster.run(200)
            chaos.run(STEPS)
            chaos.heal()
            chaos.check()
        except AssertionError as problem:
            raise AssertionError(f"seed {seed}: {problem}") from problem
        codes |= {answer.code for answer in chaos.answers if answer.is_there}
    assert codes == EXPECTED  # it was not all faults, and not all peace
