"""The figures that only a broker of a cluster has."""

from headwater.base.ids import BrokerId
from headwater.server.exposition import cluster_lines
from unit.replication.cluster_lab import TOPIC, TOPIC_ID, ClusterLab


def figures(lab: ClusterLab, node_id: int) -> dict[str, str]:
    lines = cluster_lines(lab.broker(node_id), 7, True)
    return dict(line.split(" ") for line in lines if not line.startswith("#"))


def test_leaders_count_what_lacks_replicas() -> None:
    lab = ClusterLab(3)
    lab.create(TOPIC, TOPIC_ID, (1, 2, 3), (2, 3, 1), min_insync_replicas="2")
    lab.run(600)
    well = figures(lab, 1)
    assert well["headwater_leader_partitions"] == well["headwater_follower_partitions"] == "1"
    assert well["headwater_under_replicated_partitions"] == well["headwater_under_min_in_sync_partitions"] == "0"
    assert well["headwater_in_sync_shrinks_total"] == well["headwater_in_sync_expands_total"] == "0"

    lab.cut = {(3, 1), (3, 2)}
    lab.run(600)
    lab.produce(1)
    lab.run(50_000)
    lagging = figures(lab, 1)
    assert lagging["headwater_under_replicated_partitions"] == lagging["headwater_in_sync_shrinks_total"] == "1"
    assert lagging["headwater_under_min_in_sync_partitions"] == "0"
    assert figures(lab, 3)["headwater_under_replicated_partitions"] == "0", "its leader counts it"

    lab.change(in_sync_replicas=(BrokerId(1),), in_sync_epochs=(lab.epoch_of(1),))
    assert figures(lab, 1)["headwater_under_min_in_sync_partitions"] == "1"

    lab.cut = set()
    lab.run(5000)
    healed = figures(lab, 1)
    assert healed["headwater_under_replicated_partitions"] == "0"
    assert int(healed["headwater_in_sync_expands_total"]) > 0


def test_the_controller_and_the_session_show() -> None:
    lab = ClusterLab(1)
    told = figures(lab, 1)
    assert told["headwater_controller_active"] == "0"
    assert told["headwater_broker_epoch"] == "7"
    assert told["headwater_zookeeper_connected"] == "1"
    controller = lab.broker(1).metrics.controller
    controller.is_active, controller.offline_partitions, controller.unclean_elections = True, 3, 2
    told = figures(lab, 1)
    assert told["headwater_controller_active"] == "1"
    assert told["headwater_controller_offline_partitions"] == "3"
    assert told["headwater_controller_unclean_elections_total"] == "2"
