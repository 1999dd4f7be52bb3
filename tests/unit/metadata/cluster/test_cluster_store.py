"""Brokers in a cluster: one joins, one is the controller, and all of them have the same image."""

from dataclasses import replace

import pytest

from headwater.base.acls import Pattern
from headwater.base.coordination import Create, Delete
from headwater.base.errors import ErrorCode
from headwater.base.ids import BrokerId, LeaderEpoch
from headwater.metadata.cluster import layout
from headwater.metadata.image import (
    NEW_DATA,
    AclsSet,
    AddressConfigured,
    BrokerConfigured,
    BrokerGone,
    BrokerRegistered,
    ClientConfigured,
    GroupConfigured,
    PartitionsAdded,
    TopicConfigured,
    TopicDeleted,
)
from unit.metadata.cluster.cluster_store_support import SESSION_MS, Cluster, partition_change, topic, topic_id


def test_brokers_that_join_see_each_other_and_one_of_them_is_the_controller() -> None:
    cluster = Cluster()
    brokers = cluster.joined(3)
    for broker in brokers:
        assert broker.join_answer.code == ErrorCode.NONE
        assert sorted(broker.image.brokers) == [0, 1, 2]
        assert broker.image.cluster_id == "new-cluster"
        assert broker.image.brokers[BrokerId(broker.broker_id)].epoch == broker.store.broker_epoch
        assert broker.store.is_connected
        assert broker.image == brokers[0].image
        assert broker.image.controller_id == cluster.controller().broker_id
        assert broker.image.controller_epoch == 1
        assert broker.problems == []
    assert [broker.is_active for broker in brokers].count(True) == 1


def test_a_commit_reaches_every_image_before_and_after() -> None:
    cluster = Cluster()
    brokers = cluster.joined(3)
    controller = cluster.controller()
    assert cluster.commit(topic("a", 1, [(0, 1), (2, 0)])).code == ErrorCode.NONE
    assert controller.image.topic("a").partitions[1].leader == 2  # applied here when it is answered
    cluster.settle()
    late = cluster.broker(3)
    cluster.wait(late.join_answer)
    assert late.image.topic("a") == controller.image.topic("a")
    state = late.image.topic("a").partitions[0]
    assert (state.leader, state.in_sync_replicas, state.version) == (0, [0, 1], 0)
    assert state.in_sync_epochs == [brokers[0].store.broker_epoch, brokers[1].store.broker_epoch]
    assert all(broker.image.topics == late.image.topics for broker in brokers)


def test_every_kind_of_change_comes_through_the_log_and_through_loading() -> None:
    cluster = Cluster()
    cluster.joined(3)
    controller = cluster.controller()
    cluster.commit(topic("a", 1), topic("b", 2), BrokerConfigured("", {"log.retention.ms": "7"}))
    moved = replace(
        partition_change(controller.image, "a"),
        leader=BrokerId(1),
        leader_epoch=LeaderEpoch(1),
        replicas=(1, 2, 0),
        adding=(1,),
        removing=(0,),
    )
    assert cluster.commit(moved, PartitionsAdded(topic_id(1), ((1,), (2,)))).code == ErrorCode.NONE
    cluster.commit(TopicDeleted(topic_id(2)), TopicConfigured(topic_id(1), {"retention.ms": "5"}))
    cluster.commit(BrokerConfigured("", {"log.retention.ms": "8"}), BrokerConfigured("1", {"x": "y"}))
    cluster.commit(GroupConfigured("a/b.c", {"x": "1"}), GroupConfigured(".", {"x": "2"}))
    rules = (("User:a", "*", 3, 3), ("User:CN=b,O=c", "10.0.0.1", 9, 2))
    cluster.commit(AclsSet(2, 3, "*", rules), AclsSet(3, 4, "team/", rules[:1]), AclsSet(4, 3, "kafka-cluster", rules))
    cluster.commit(AclsSet(4, 3, "kafka-cluster", ()))
    cluster.commit(ClientConfigured("u/v", "", {"x": "1"}), ClientConfigured(None, "c d", {"x": "2"}))
    cluster.commit(
        AddressConfigured("::1", {"x": "3"}), AddressConfigured("", {}), ClientConfigured("", "c", {"x": "4"})
    )
    cluster.settle()
    late = cluster.broker(3)
    cluster.wait(late.join_answer)
    cluster.settle()
    for broker in cluster.brokers:
        assert broker.problems == []
        broker.image.deleted_topics.clear()  # who was not there knows nothing of them
        assert broker.image == late.image
    state = late.image.topic("a").partitions[0]
    assert (state.leader, state.replicas, state.adding, state.removing, state.version) == (1, [1, 2, 0], [1], [0], 1)
    assert len(late.image.topic("a").partitions) == 3
    assert late.image.topic("a").config == {"retention.ms": "5"}
    assert list(late.image.ids_by_name) == ["a"]
    assert late.image.broker_configs == {"": {"log.retention.ms": "8"}, "1": {"x": "y"}}
    assert late.image.group_configs == {"a/b.c": {"x": "1"}, ".": {"x": "2"}}
    assert late.image.client_configs == {("u/v", ""): {"x": "1"}, (None, "c d"): {"x": "2"}, ("", "c"): {"x": "4"}}
    assert late.image.address_configs == {"::1": {"x": "3"}}
    assert late.image.client_directories == {"u/v", ""}
    assert late.image.acls == {(2, 3, "*"): rules, (3, 4, "team/"): rules[:1]}


def test_rules_that_cannot_be_read_keep_a_broker_out() -> None:
    """To go on without them could let in whom they deny."""
    cluster = Cluster()
    (first,) = cluster.joined(1)
    path = layout.acl_path(Pattern(2, 3, "t"))
    first.coordination.write([Create(path, b'{"version":1,"acls":[{"operation":"Dance"}]}')], lambda _w, _e: None)
    cluster.settle()
    first.die()
    late = cluster.broker(1)
    cluster.settle()
    assert not late.join_answer.is_there


@pytest.mark.parametrize("data", [b"", b"{", layout.encode_config({})], ids=["nothing", "unreadable", "empty"])
def test_a_group_whose_node_says_nothing_can_be_configured(data: bytes) -> None:
    """Somebody else wrote it. Nobody counts it, and it is in nobody's way."""
    cluster = Cluster()
    (first,) = cluster.joined(1)
    path = layout.group_config_path("g")
    first.coordination.write([Create(path, data)], lambda _written, _error: None)
    cluster.settle()
    first.die()
    late = cluster.broker(1)
    cluster.wait(late.join_answer)
    cluster.until(lambda: late.is_active)
    assert late.image.group_configs == {}
    for number in ("1", "2"):
        assert cluster.wait(late.commit(GroupConfigured("g", {"x": number}))).code == ErrorCode.NONE
        assert late.image.group_configs == {"g": {"x": number}}
        assert layout.decode_config(cluster.data(path)) == {"x": number}
        assert cluster.wait(late.commit(GroupConfigured("g", {}))).code == ErrorCode.NONE
        assert cluster.zookeeper.tree.get(path) is None


def test_only_the_controller_commits() -> None:
    cluster = Cluster()
    brokers = cluster.joined(2)
    other = next(broker for broker in brokers if not broker.is_active)
    answer = other.commit(topic("a", 1))
    assert not answer.is_there  # never inside the call
    assert cluster.wait(answer).code == ErrorCode.NOT_CONTROLLER


def test_a_topic_that_is_there_is_not_made_again() -> None:
    cluster = Cluster()
    cluster.joined(1)
    controller = cluster.controller()
    first, second = controller.commit(topic("a", 1)), controller.commit(topic("a", 2))  # both planned from one image
    assert cluster.wait(first).code == ErrorCode.NONE
    assert cluster.wait(second).code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert controller.image.topic("a").topic_id == topic_id(1)


def test_a_commit_about_a_state_that_has_changed_is_refused_and_the_image_knows_why() -> None:
    cluster = Cluster()
    brokers = cluster.joined(3)
    controller = cluster.controller()
    cluster.commit(topic("a", 1))
    cluster.settle()
    other = next(broker for broker in brokers if broker is not controller)
    change = partition_change(other.image, "a")
    assert cluster.wait(other.propose(replace(change, in_sync_replicas=(0, 1)))).code == ErrorCode.NONE
    answer = cluster.wait(controller.commit(replace(change, in_sync_replicas=(0,))))
    assert answer.code == ErrorCode.INVALID_UPDATE_VERSION
    assert controller.image.topic("a").partitions[0].in_sync_replicas == [0, 1]
    assert controller.is_active


def test_when_the_controller_dies_another_takes_over_and_knows_that_it_is_gone() -> None:
    cluster = Cluster()
    cluster.joined(3)
    first = cluster.controller()
    first.die()
    second = cluster.controller()
    assert first.broker_id not in second.image.brokers
    assert second.image.controller_epoch == 2
    cluster.settle()
    assert {broker.image.controller_id for broker in cluster.brokers} == {second.broker_id}
    gone = [change for changes in second.told for change in changes if isinstance(change, BrokerGone)]
    assert gone == [BrokerGone(BrokerId(first.broker_id))]


def test_a_controller_that_is_cut_off_ceases_at_once_and_what_it_commits_fails() -> None:
    cluster = Cluster()
    cluster.joined(3)
    first = cluster.controller()
    cluster.zookeeper.cut_off(first.coordination)
    under_way = first.commit(topic("a", 1))
    cluster.until(lambda: not first.is_active)
    assert under_way.code == ErrorCode.REQUEST_TIMED_OUT
    assert cluster.wait(first.commit(topic("b", 2))).code == ErrorCode.REQUEST_TIMED_OUT
    assert not first.store.is_connected
    cluster.until(lambda: any(broker.is_active for broker in cluster.brokers if broker is not first))
    cluster.zookeeper.let_through(first.coordination)
    cluster.until(lambda: first.store.is_connected)
    cluster.settle()
    assert not first.is_active
    assert first.problems == []


def test_a_broker_whose_session_ran_out_comes_back_with_a_new_epoch_and_says_that_it_lost_nothing() -> None:
    cluster = Cluster()
    brokers = cluster.joined(3)
    lost = next(broker for broker in brokers if not broker.is_active)
    before = lost.store.broker_epoch
    other = cluster.controller()
    other.told.clear()
    cluster.zookeeper.expire(lost.coordination.session_id)
    cluster.until(lambda: lost.store.broker_epoch > before)
    cluster.settle()
    registered = other.image.brokers[BrokerId(lost.broker_id)]
    assert registered.epoch == lost.store.broker_epoch
    assert registered.previous_epoch == before
    news = [change for changes in other.told for change in changes]
    assert news == [BrokerGone(BrokerId(lost.broker_id)), BrokerRegistered(registered)]


def test_a_short_break_of_the_connection_leaves_the_session_the_epoch_and_the_controller() -> None:
    cluster = Cluster()
    brokers = cluster.joined(3)
    before = [broker.store.broker_epoch for broker in brokers]
    controller = cluster.controller()
    for broker in brokers:
        cluster.zookeeper.disconnect(broker.coordination)
    cluster.until(lambda: not controller.is_active)
    cluster.until(lambda: all(broker.store.is_connected for broker in brokers))
    cluster.settle()
    assert [broker.store.broker_epoch for broker in brokers] == before
    assert controller.is_active
    assert {broker.image.controller_epoch for broker in brokers} == {1}


def test_data_that_was_new_is_as_old_as_the_first_registration() -> None:
    cluster = Cluster()
    (other,) = cluster.joined(1)
    broker = cluster.broker(7, data_since=NEW_DATA)
    cluster.wait(broker.join_answer)
    first = broker.store.broker_epoch
    cluster.settle()
    assert other.image.brokers[BrokerId(7)].data_since == first
    cluster.zookeeper.expire(broker.coordination.session_id)
    cluster.until(lambda: broker.store.broker_epoch > first)
    cluster.settle()
    assert other.image.brokers[BrokerId(7)].data_since == first


def test_a_broker_that_stops_says_so_and_says_so_again_in_a_new_session() -> None:
    cluster = Cluster()
    brokers = cluster.joined(2)
    stopping = next(broker for broker in brokers if not broker.is_active)
    other = cluster.controller()
    assert cluster.wait(stopping.stop_leading()).code == ErrorCode.NONE
    cluster.settle()
    before = other.image.brokers[BrokerId(stopping.broker_id)]
    assert before.is_stopping
    assert before.epoch == stopping.store.broker_epoch
    cluster.zookeeper.expire(stopping.coordination.session_id)
    cluster.until(lambda: stopping.store.broker_epoch > before.epoch)
    cluster.settle()
    after = other.image.brokers[BrokerId(stopping.broker_id)]
    assert after.is_stopping
    assert after.previous_epoch == before.epoch


def test_a_new_process_waits_for_the_session_of_the_last_one_to_run_out() -> None:
    cluster = Cluster()
    brokers = cluster.joined(2)
    old = next(broker for broker in brokers if not broker.is_active)
    old.die()
    new = cluster.broker(old.broker_id, previous_epoch=7)
    cluster.settle()
    assert not new.join_answer.is_there
    cluster.wait(new.join_answer)
    assert new.join_answer.code == ErrorCode.NONE
    assert new.store.broker_epoch > old.store.broker_epoch
    assert new.image.brokers[BrokerId(old.broker_id)].previous_epoch == 7


def test_an_id_that_another_process_has_is_refused() -> None:
    cluster = Cluster()
    cluster.joined(2)
    same = cluster.broker(1)
    assert cluster.wait(same.join_answer).code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.run(10_000)
    assert not same.store.is_connected


def test_a_process_that_stood_still_looks_again_before_it_says_that_its_id_is_taken() -> None:
    """The node goes and the time is over while it stands still: its timer comes before it has had an answer."""
    cluster = Cluster()
    brokers = cluster.joined(2)
    old = next(broker for broker in brokers if not broker.is_active)
    new = cluster.broker(old.broker_id)
    cluster.run(2 * SESSION_MS - 100)
    assert not new.join_answer.is_there
    new.scheduler.pause()
    session_id = old.coordination.session_id
    old.die()
    cluster.zookeeper.expire(session_id)
    cluster.run(400)
    new.scheduler.resume()
    assert cluster.wait(new.join_answer).code == ErrorCode.NONE
    assert new.store.broker_epoch > old.store.broker_epoch


def test_closing_frees_the_id_and_the_controller_at_once() -> None:
    cluster = Cluster()
    cluster.joined(2)
    first = cluster.controller()
    first.store.close()
    first.die()
    cluster.settle()
    second = cluster.controller()
    assert sorted(second.image.brokers) == [second.broker_id]


def test_a_zookeeper_that_has_lost_its_data_is_not_believed() -> None:
    """Otherwise every broker would take its topics for deleted."""
    cluster = Cluster()
    (broker,) = cluster.joined(1)
    cluster.commit(topic("a", 1, [(0,)]))
    tree = cluster.zookeeper.tree
    for path in reversed([path for path in tree.paths() if path.startswith(("/brokers/topics/", "/cluster/id"))]):
        cluster.zookeeper.tree._nodes.pop(path)
        tree._nodes[path.rpartition("/")[0]].children.discard(path.rpartition("/")[2])
    cluster.zookeeper.expire(broker.coordination.session_id)
    cluster.run(10_000)
    assert list(broker.image.ids_by_name) == ["a"]
    assert not broker.store.is_connected


def test_a_broker_that_could_not_say_that_it_stops_says_so_when_it_is_back_in_the_same_session() -> None:
    cluster = Cluster()
    brokers = cluster.joined(2)
    stopping = next(broker for broker in brokers if not broker.is_active)
    before = stopping.store.broker_epoch
    cluster.zookeeper.disconnect(stopping.coordination)
    cluster.until(lambda: not stopping.store.is_connected)
    assert cluster.wait(stopping.stop_leading()).code == ErrorCode.REQUEST_TIMED_OUT
    cluster.until(lambda: stopping.store.is_connected)
    cluster.settle()
    for broker in brokers:
        told = broker.image.brokers[BrokerId(stopping.broker_id)]
        assert told.is_stopping
        assert (told.epoch, told.previous_epoch) == (before, -1)


def test_a_broker_whose_registration_somebody_deleted_registers_again() -> None:
    cluster = Cluster()
    brokers = cluster.joined(2)
    before = brokers[1].store.broker_epoch
    brokers[0].coordination.write([Delete("/brokers/ids/1")], lambda _written, _error: None)
    cluster.until(lambda: brokers[1].store.broker_epoch > before)
    cluster.run(1000)
    assert brokers[0].image.brokers[BrokerId(1)].epoch == brokers[1].store.broker_epoch
    assert brokers[1].store.is_connected


def test_an_owner_that_breaks_does_not_stop_the_store() -> None:
    cluster = Cluster()
    (broker,) = cluster.joined(1)

    def breaks(_changes: object) -> None:
        raise RuntimeError("not followed")

    broker.store.on_applied = breaks
    assert cluster.commit(topic("a", 1)).code == ErrorCode.NONE
    assert cluster.commit(topic("b", 2)).code == ErrorCode.NONE
    assert sorted(broker.image.ids_by_name) == ["a", "b"]


def test_nobody_is_told_anything_after_closing() -> None:
    cluster = Cluster()
    (broker,) = cluster.joined(1)
    under_way = [broker.commit(topic("a", 1)), broker.reserve(5)]
    told = len(broker.told)
    broker.store.close()
    under_way.append(broker.commit(topic("b", 2)))
    cluster.run(10_000)
    assert not any(answer.is_there for answer in under_way)
    assert len(broker.told) == told
    assert broker.is_active  # not even that it is no controller any more


def test_the_cluster_keeps_the_id_that_the_first_broker_gave_it() -> None:
    cluster = Cluster()
    cluster.joined(1)
    late = cluster.broker(1)
    late.image.cluster_id = "another"  # what it would call a new cluster
    cluster.wait(late.join_answer)
    assert late.image.cluster_id == "new-cluster"


@pytest.mark.parametrize("seed", range(30))
def test_the_controller_can_ask_who_is_registered_now_however_far_its_server_lags(seed: int) -> None:
    cluster = Cluster(seed)
    brokers = cluster.joined(3)
    controller = cluster.controller()
    other = next(broker for broker in brokers if broker is not controller)
    cluster.zookeeper.expire(other.coordination.session_id)
    told: list[bool] = []
    controller.store.read_members(lambda: told.append(BrokerId(other.broker_id) in controller.image.brokers))
    assert told == [], "never inside the call"
    cluster.until(lambda: bool(told))
    assert told == [False]


def test_who_is_not_the_controller_or_is_it_no_more_is_not_told_who_is_registered() -> None:
    cluster = Cluster()
    brokers = cluster.joined(3)
    controller = cluster.controller()
    told: list[int] = []
    for broker in brokers:
        if broker is not controller:
            broker.store.read_members(lambda: told.append(1))
    cluster.zookeeper.expire(controller.coordination.session_id)
    controller.store.read_members(lambda: told.append(2))
    cluster.settle()
    assert told == []
    assert all(broker.problems == [] for broker in brokers)


def test_a_broker_can_make_sure_that_it_knows_the_present_state_of_a_partition() -> None:
    cluster = Cluster()
    brokers = cluster.joined(3)
    cluster.commit(topic("a", 1))
    cluster.settle()
    assert all(cluster.wait(broker.confirm("a")).code == ErrorCode.NONE for broker in brokers)
    other = next(broker for broker in brokers if broker is not cluster.controller())
    change = partition_change(cluster.controller().image, "a")
    other.scheduler.pause()  # it stands still, and somebody else leads meanwhile
    moved = replace(change, leader=BrokerId(2), leader_epoch=LeaderEpoch(change.leader_epoch + 1))
    assert cluster.commit(moved).code == ErrorCode.NONE
    stale = other.image.topic("a").partitions[0].version
    answer = other.confirm("a")
    other.scheduler.resume()
    assert cluster.wait(answer).code == ErrorCode.INVALID_UPDATE_VERSION
    cluster.settle()
    assert other.image.topic("a").partitions[0].version == stale + 1
    assert cluster.wait(other.confirm("a")).code == ErrorCode.NONE


def test_without_zookeeper_nobody_can_be_sure() -> None:
    cluster = Cluster()
    (broker,) = cluster.joined(1)
    cluster.commit(topic("a", 1, [(0,)]))
    answer = broker.confirm("a")
    cluster.zookeeper.stop()
    assert cluster.wait(answer).code == ErrorCode.REQUEST_TIMED_OUT
