"""How long a broker that leaves its cluster waits for others to take over, and what it does once it has joined."""

import random
from collections.abc import Callable

import pytest

from headwater.base.config.broker import BrokerConfig
from headwater.base.coordination import Create
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.broker.broker import Broker
from headwater.metadata.cluster import layout
from headwater.metadata.image import ClusterImage, TopicDeleted, TopicState
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.server.assembly import Assembly
from headwater.server.membership import Membership
from headwater.sim.clock import SimClock
from headwater.sim.disk import SimDisk
from headwater.sim.scheduler import SimRandom, SimScheduler
from headwater.sim.zookeeper import SimZooKeeper
from unit.broker.fake_peers import FakePeers
from unit.controller.controller_support import TOPIC, broker, live, partition


class AnnouncingStore:
    def __init__(self) -> None:
        self.is_connected = True
        self.refusal: KafkaError | None = None

    def stop_leading(self, done: Callable[[KafkaError | None], None]) -> None:
        done(self.refusal)


class Leaving:
    """Broker 1 leads a partition whose in-sync replicas are 1 and 2."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.scheduler = SimScheduler(self.clock)
        self.image = ClusterImage("c", topics={TOPIC: TopicState("orders", TOPIC, [partition(1, (1, 2))])})
        self.image.brokers = live(broker(1, stopping=True), 2)
        config = BrokerConfig({"node.id": "1", "log.dirs": "/data", "listeners": "PLAINTEXT://:0"})
        coordination = SimZooKeeper(self.scheduler, random.Random(1)).client(self.scheduler)
        self.membership = Membership(config, self.image, coordination, self.scheduler, SimDisk(seed=1))
        self.store = AnnouncingStore()
        self.membership.store = self.store  # type: ignore[assignment]
        self.left: list[int] = []

    def leave(self) -> None:
        self.membership.leave(lambda: self.left.append(self.clock.monotonic_ms()))

    def run(self, duration_ms: int) -> None:
        for _ in range(duration_ms // 10):
            self.clock.advance(10)
            self.scheduler.run_due()


@pytest.fixture(name="leaving")
def leaving_fixture() -> Leaving:
    leaving = Leaving()
    leaving.leave()
    leaving.run(5000)
    assert leaving.left == [], "the other one could lead"
    return leaving


def test_it_leaves_when_another_leads(leaving: Leaving) -> None:
    leaving.image.topics[TOPIC].partitions[0] = partition(2, (1, 2))
    leaving.run(40)
    assert len(leaving.left) == 1


@pytest.mark.parametrize("other", [None, broker(2, stopping=True), broker(2, 25)])
def test_it_leaves_when_nobody_could(leaving: Leaving, other: object) -> None:
    """Who is gone, leaves as well, or came back after a crash."""
    leaving.image.brokers = live(broker(1, stopping=True), *([] if other is None else [other]))  # type: ignore[list-item]
    leaving.run(40)
    assert len(leaving.left) == 1


def test_without_zookeeper_it_does_not_wait_for_long(leaving: Leaving) -> None:
    """All were told to stop, ZooKeeper too: nobody heard any more that the others were leaving,
    and the stop took 15 s.
    """
    leaving.store.is_connected = False
    leaving.run(500)
    assert leaving.left == []
    leaving.run(1000)
    assert len(leaving.left) == 1


def test_a_zookeeper_that_is_back_soon_is_waited_for(leaving: Leaving) -> None:
    for _ in range(5):
        leaving.store.is_connected = False
        leaving.run(600)
        leaving.store.is_connected = True
        leaving.run(600)
    assert leaving.left == []


def test_if_it_cannot_be_announced_it_leaves_at_once() -> None:
    leaving = Leaving()
    leaving.store.refusal = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "gone")
    leaving.leave()
    assert len(leaving.left) == 1


class Joining:
    """A broker of a cluster, from its start on."""

    def __init__(self) -> None:
        self.clock = SimClock()
        self.scheduler = SimScheduler(self.clock)
        self.disk = SimDisk(seed=1)
        self.coordination = SimZooKeeper(self.scheduler, random.Random(1)).client(self.scheduler)
        self.assembly = Assembly(
            BrokerConfig({"node.id": "1", "log.dirs": "/data", "listeners": "PLAINTEXT://:0"}),
            disk=self.disk,
            clock=self.clock,
            random=SimRandom(7),
            scheduler=self.scheduler,
            coordination=self.coordination,
            peers=FakePeers(),
        )
        opened: list[Broker] = []
        self.assembly.open(opened.append)
        self.run(1000)
        (self.broker,) = opened

    def join(self) -> None:
        joined: list[KafkaError | None] = []
        self.assembly.join(self.broker, [], joined.append)
        self.run(1000)
        assert joined == [None]

    def run(self, duration_ms: int) -> None:
        for _ in range(duration_ms // 10):
            self.clock.advance(10)
            while self.disk.run() + self.scheduler.run_due():
                pass


def test_logs_have_their_topics_configs_once_the_broker_has_joined() -> None:
    joining = Joining()
    assert not joining.broker.logs.topics_are_known
    joining.join()
    assert joining.broker.logs.topics_are_known


def test_the_controller_hears_of_changes_that_this_broker_cannot_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    joining = Joining()
    joining.join()
    controller = joining.broker.controller
    assert controller is not None
    heard: list[object] = []
    monkeypatch.setattr(controller, "on_changes", heard.append)
    monkeypatch.setattr(joining.broker, "apply", lambda _changes: 1 // 0)
    assert joining.assembly.membership is not None
    change = TopicDeleted(TOPIC)
    joining.assembly.membership.store.applied([change])
    assert heard == [[change]]


def test_a_stray_that_cannot_be_set_aside_leaves_the_others_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    joining = Joining()
    logs = joining.broker.logs
    for index in range(3):
        logs.create(TopicPartition("gone", index), TOPIC)
    set_aside = logs.set_aside

    def fail_at_first(partition: TopicPartition) -> None:
        if partition.partition == 0:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        set_aside(partition)

    monkeypatch.setattr(logs, "set_aside", fail_at_first)
    joining.join()
    assert [partition.partition for partition in logs.logs] == [0]
    assert logs.topics_are_known


def test_gaps_are_judged_by_the_policy_that_all_brokers_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of compacted topics were cut away, since the broker's own file said nothing of compaction."""
    joining = Joining()
    assert joining.assembly.membership is not None
    config = layout.encode_config({"log.cleanup.policy": "compact"})
    path = layout.broker_config_path("")
    joining.coordination.write([Create(path, config)], lambda _written, _error: None)
    found: list[bool] = []
    topic = TopicState("orders", TOPIC, [])
    cut_at_gaps = joining.broker.logs.cut_at_gaps

    def judge() -> None:
        found.append(joining.broker.log_config(topic).cleanup_compact)
        cut_at_gaps()

    monkeypatch.setattr(joining.broker.logs, "cut_at_gaps", judge)
    joining.join()
    assert found == [True]


def test_what_a_killed_process_left_in_the_page_cache_counts_once_it_is_on_the_device_if_the_topic_asks_for_that() -> (
    None
):
    """The topic was not known when its log was opened: its records were committed, and a power loss took them."""
    joining = Joining()
    log = joining.broker.logs.create(TopicPartition("orders", 0), TOPIC)
    log.append_as_leader(memoryview(build_batch([Record(0, 1, b"k", b"v")])), 0, 1)
    topic = TopicState("orders", TOPIC, [partition(1, (1, 2))], {"flush.messages": "1"})
    assert joining.broker.open_log(topic, 0, joining.broker.log_config(topic), is_new=False) is log
    assert log.committable_offset == 0
    joining.run(10)
    assert log.committable_offset == log.recovery_point == 1
