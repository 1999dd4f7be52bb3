"""The checkers of a cluster on histories made by hand: each must see what it is there for, and nothing where nothing
is.
"""

import json
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.base.coordination import Create, Delete, SetData
from headwater.base.ids import PartitionKey, TopicId
from headwater.log.checkpoint import format_topic_id
from headwater.sim.cluster_checks import ClusterChecks
from headwater.sim.cluster_history import ClusterHistory
from headwater.sim.cluster_state import StateOfCluster
from headwater.sim.trace import Violation
from headwater.sim.zookeeper_tree import Tree
from sim.scene import Scene

TOPIC_ID = TopicId(bytes(range(16)))
STATE = "/brokers/topics/clicks/partitions/0/state"


def _state(
    leader: int, epoch: int, in_sync: list[int], epochs: list[int] | None = None, controller_epoch: int = 1
) -> bytes:
    return json.dumps(
        {
            "leader": leader,
            "leader_epoch": epoch,
            "isr": in_sync,
            "isr_epochs": epochs or [50 + node_id for node_id in in_sync],
            "controller_epoch": controller_epoch,
        }
    ).encode()


class ClusterOnPaper:
    """A tree with one partition on three brokers, which registered in transactions 51, 52 and 53, and replicas with
    given ends.
    """

    def __init__(self, ends: dict[int, int]) -> None:
        self.tree = Tree()
        about = {"topic_id": format_topic_id(TOPIC_ID), "partitions": {"0": [1, 2, 3]}}
        for path in ("/brokers", "/brokers/ids", "/brokers/topics"):
            self.tree.apply(1, 0, [Create(path)])
        self.tree.apply(2, 0, [Create("/brokers/topics/clicks", json.dumps(about).encode())])
        for path in ("/brokers/topics/clicks/partitions", "/brokers/topics/clicks/partitions/0"):
            self.tree.apply(3, 0, [Create(path)])
        self.tree.apply(4, 0, [Create(STATE, _state(1, 3, [1, 2, 3]))])
        for node_id in (1, 2, 3):
            registration = json.dumps({"previous_epoch": -1}).encode()
            self.tree.apply(50 + node_id, 0, [Create(f"/brokers/ids/{node_id}", registration)])
        self.state = StateOfCluster(self.tree)
        self.replicas = {node_id: self._replica(end) for node_id, end in ends.items()}
        key = PartitionKey(TOPIC_ID, 0)
        self.nodes: list[Any] = [
            SimpleNamespace(
                node_id=node_id, is_serving=True, broker=SimpleNamespace(partitions={key: self.replicas[node_id]})
            )
            for node_id in ends
        ]
        self.checks = ClusterChecks(self.nodes, self.state)

    def _replica(self, end: int) -> Any:
        log = SimpleNamespace(log_end_offset=end, failed=None)
        return SimpleNamespace(log=log, is_leader=False, leader_epoch=3, high_watermark=0)

    def lead(self, node_id: int, epoch: int, high_watermark: int) -> None:
        replica = self.replicas[node_id]
        replica.is_leader, replica.leader_epoch, replica.high_watermark = True, epoch, high_watermark

    def write(self, *args: Any) -> None:
        self.tree.apply(100, 0, [SetData(STATE, _state(*args))])
        self.look()

    def look(self) -> None:
        self.state.look()
        self.checks.look()


@pytest.fixture(name="cluster")
def cluster_fixture() -> ClusterOnPaper:
    cluster = ClusterOnPaper({1: 10, 2: 10, 3: 8})
    cluster.lead(1, 3, 8)
    cluster.look()
    return cluster


def test_what_is_in_order_is_let_pass(cluster: ClusterOnPaper) -> None:
    cluster.write(1, 3, [1, 2])
    cluster.replicas[1].high_watermark = 10
    cluster.look()
    cluster.write(2, 4, [2])
    cluster.checks.committed(TOPIC_ID, 0, 10)


def test_i8_a_high_watermark_beyond_what_an_in_sync_replica_has(cluster: ClusterOnPaper) -> None:
    cluster.replicas[1].high_watermark = 9
    with pytest.raises(Violation, match=r"I8: a leader's high watermark in clicks-0 is 9, and 3 .* has 8"):
        cluster.look()


def test_i8_an_acknowledgement_before_every_in_sync_replica_has_it(cluster: ClusterOnPaper) -> None:
    cluster.checks.committed(TOPIC_ID, 0, 8)
    with pytest.raises(Violation, match="I8: what was acknowledged"):
        cluster.checks.committed(TOPIC_ID, 0, 10)


def test_i8_does_not_count_who_was_in_sync_in_an_earlier_life(cluster: ClusterOnPaper) -> None:
    cluster.write(1, 3, [1, 2, 3], [51, 52, 49])
    cluster.checks.committed(TOPIC_ID, 0, 10)


def test_i9_a_leader_that_is_not_in_sync(cluster: ClusterOnPaper) -> None:
    with pytest.raises(Violation, match="I9: clicks-0 is led by 3"):
        cluster.write(3, 4, [1, 2])


def test_i9_a_high_watermark_that_goes_back(cluster: ClusterOnPaper) -> None:
    cluster.replicas[1].high_watermark = 7
    with pytest.raises(Violation, match="I9: the high watermark of clicks-0 on 1 in epoch 3 went back from 8 to 7"):
        cluster.look()


def test_i10_a_leader_epoch_that_goes_back(cluster: ClusterOnPaper) -> None:
    with pytest.raises(Violation, match="I10: the leader epoch of clicks-0 went from 3 to 2"):
        cluster.write(1, 2, [1, 2])


def test_i10_another_leader_in_the_same_epoch(cluster: ClusterOnPaper) -> None:
    with pytest.raises(Violation, match="I10: clicks-0 has two leaders in epoch 3: 1, 2"):
        cluster.write(2, 3, [1, 2])


def test_i11_two_that_believe_to_lead_in_one_epoch(cluster: ClusterOnPaper) -> None:
    cluster.lead(2, 3, 8)
    with pytest.raises(Violation, match="I11: 1 and 2 lead clicks-0 in epoch 3"):
        cluster.look()


def test_i11_an_election_by_a_controller_that_was_deposed(cluster: ClusterOnPaper) -> None:
    cluster.tree.apply(60, 0, [Create("/controller_epoch", b"7")])
    cluster.write(2, 4, [1, 2], None, 7)
    with pytest.raises(Violation, match="I11: the controller of epoch 6 elects a leader of clicks-0 in 7"):
        cluster.write(1, 5, [1, 2], None, 6)


def _under_another_controller() -> ClusterOnPaper:
    """Broker 1 leads, and is registered under session 11; it was the controller in epoch 5, others were in 6 and 7, and
    that of epoch 1 made it lead.
    """
    cluster = ClusterOnPaper({1: 10, 2: 10, 3: 8})
    cluster.tree.apply(54, 0, [Delete("/brokers/ids/1")])
    cluster.tree.apply(51, 11, [Create("/brokers/ids/1", b'{"previous_epoch": -1}', ephemeral=True)])
    cluster.lead(1, 3, 8)
    cluster.tree.apply(57, 12, [Create("/controller_epoch", b"1")])
    cluster.look()
    for transaction, session, epoch in ((58, 11, b"5"), (59, 13, b"6"), (60, 12, b"7")):
        cluster.tree.apply(transaction, session, [SetData("/controller_epoch", epoch)])
        cluster.look()
    return cluster


@pytest.mark.parametrize("heard_of", [1, 6])
def test_i11_lets_a_leader_name_its_successor_whoever_is_controller_meanwhile(heard_of: int) -> None:
    """It writes the epoch of the last controller that it has heard of: seed 4055653733 of cluster."""
    cluster = _under_another_controller()
    cluster.tree.apply(61, 11, [SetData(STATE, _state(2, 4, [1, 2, 3], None, heard_of))])
    cluster.look()


@pytest.mark.parametrize(
    ("session", "state"),
    [
        pytest.param(13, _state(2, 4, [1, 2, 3]), id="by somebody else"),
        pytest.param(11, _state(1, 4, [1, 2, 3]), id="itself"),
        pytest.param(11, _state(2, 5, [1, 2, 3]), id="two epochs on"),
        pytest.param(11, _state(2, 4, [1, 2, 3], None, 5), id="as controller"),
        pytest.param(11, _state(2, 4, [1, 2, 3], None, 3), id="as nobody"),
        pytest.param(11, _state(2, 4, [1, 2, 3], None, 0), id="as one before the last who wrote"),
    ],
)
def test_i11_lets_nobody_else_elect_and_no_leader_more_than_that(session: int, state: bytes) -> None:
    cluster = _under_another_controller()
    cluster.tree.apply(61, session, [SetData(STATE, state)])
    with pytest.raises(Violation, match=r"I11: the controller of epoch \d elects a leader of clicks-0 in 7"):
        cluster.look()


def test_i12_a_leader_that_was_not_in_sync(cluster: ClusterOnPaper) -> None:
    cluster.write(1, 3, [1, 2])
    with pytest.raises(Violation, match="I12: 3 leads clicks-0"):
        cluster.write(3, 4, [3])


def test_i16_a_broker_that_has_not_heard_yet_what_was_moved_away_or_deleted() -> None:
    """Seed 1806984123 of cluster: a move came to its end with the world, and nobody had told the broker. A world waits
    for that, and fails if it never happens.
    """
    scene = Scene(0)
    scene.until(lambda: not scene.world.checks.unsettled())
    leader, stranger = scene.leader.broker, scene.world.node(6 - scene.leader.node_id - scene.follower.node_id).broker
    assert leader is not None
    assert stranger is not None
    stranger.partitions[scene.key] = leader.partitions[scene.key]
    assert scene.world.checks.unsettled().endswith(f"keeps {scene.state.name}, and is no replica")
    del stranger.partitions[scene.key]
    assert not scene.world.checks.unsettled()
    for key in [key for key in scene.world.state.partitions if key.topic_id == scene.key.topic_id]:
        del scene.world.state.partitions[key]
    assert scene.world.checks.unsettled() == "node 1 knows other topics than there are"


def test_i1_i2_and_i3_of_what_clients_were_told() -> None:
    committed: list[int] = []
    history = ClusterHistory("clicks-0", False, committed.append)
    for value in (b"a", b"b"):
        history.sent(value)
    history.acknowledged(0, [b"a", b"b"])
    assert committed == [2]
    history.audited(0, 2)
    with pytest.raises(Violation, match="I1: clicks-0 ends at 1"):
        history.audited(0, 1)
    with pytest.raises(Violation, match="I2"):
        history.seen(1, b"a")
    with pytest.raises(Violation, match="I3"):
        history.seen(2, b"a")


def test_i12_and_i8_are_not_asked_of_a_topic_that_allows_unclean_elections_which_are_counted(
    cluster: ClusterOnPaper,
) -> None:
    allowed = json.dumps({"version": 1, "config": {"unclean.leader.election.enable": "true"}}).encode()
    for path, data in (("/config", b""), ("/config/topics", b""), ("/config/topics/clicks", allowed)):
        cluster.tree.apply(90, 0, [Create(path, data)])
    cluster.write(1, 3, [1, 2])
    cluster.replicas[1].high_watermark = 10
    cluster.write(3, 4, [3])
    assert cluster.state.unclean_elections == 1
    cluster.checks.committed(TOPIC_ID, 0, 10)
