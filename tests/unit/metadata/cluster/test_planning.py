"""The controller's changes as writes: what stands in the nodes afterwards, under which guards, and in which pieces."""

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from headwater.base.coordination import Check, Create, Delete, SetData, Write, WrongVersion
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import BrokerId, LeaderEpoch
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.changes import apply_news, decode_entry
from headwater.metadata.cluster.planning import BYTES_MAX, Piece
from headwater.metadata.cluster.writing import WRITES_MAX, new_partition, proposal
from headwater.metadata.image import (
    AclsSet,
    AddressConfigured,
    BrokerConfigured,
    BrokerRegistered,
    Change,
    ClientConfigured,
    ClusterImage,
    ControllerElected,
    GroupConfigured,
    PartitionsAdded,
    ProducerIdsReserved,
    TopicConfigured,
    TopicDeleted,
    UserConfigured,
)
from headwater.sim.zookeeper_tree import Tree
from unit.metadata.cluster.cluster_store_support import me, partition_change, planned, topic, topic_id


class Nodes:
    """A tree that pieces are written to, and an image that follows their entries."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.image = ClusterImage("x")
        self.transactions = 0
        for number in range(3):
            self.image.apply(BrokerRegistered(replace(me(number), epoch=100 + number)))
        self.image.apply(ControllerElected(BrokerId(0), 4))
        for path, data in layout.BASE_NODES:
            self.write([Create(path, data)])

    def write(self, writes: Sequence[Write]) -> None:
        self.transactions += 1
        self.tree.apply(self.transactions, 1, writes)

    def plan(self, *changes: Change) -> list[Piece]:
        return planned(changes, self.image, self.tree)

    def commit(self, *changes: Change) -> list[Piece]:
        pieces = self.plan(*changes)
        for piece in pieces:
            self.write(piece.writes)
            entry = piece.writes[-1]
            assert isinstance(entry, Create)
            assert entry.sequential
            apply_news(decode_entry(entry.data), self.image)
        return pieces

    def json(self, path: str) -> object:
        node = self.tree.get(path)
        assert node is not None, path
        return json.loads(node.data)


def test_a_new_topic_has_its_nodes_and_its_states_and_all_in_one_step() -> None:
    nodes = Nodes()
    assert len(nodes.commit(replace(topic("a", 1, [(2, 0), (1, 7)]), config={"k": "v"}))) == 1
    assert nodes.json("/brokers/topics/a") == {
        "version": 3,
        "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "partitions": {"0": [2, 0], "1": [1, 7]},
        "adding_replicas": {},
        "removing_replicas": {},
    }
    assert nodes.json("/config/topics/a") == {"version": 1, "config": {"k": "v"}}
    expected = {"controller_epoch": 4, "leader": 2, "version": 1, "leader_epoch": 0, "isr": [2, 0]}
    assert nodes.json("/brokers/topics/a/partitions/0/state") == {**expected, "isr_epochs": [102, 100]}
    state = nodes.image.topic("a").partitions[1]
    assert (state.leader, state.in_sync_replicas, state.in_sync_epochs, state.version) == (1, [1], [101], 0)
    assert nodes.tree.get("/headwater/topics/AAAAAAAAAAAAAAAAAAAAAQ") is not None


def test_who_leads_a_new_partition() -> None:
    image = Nodes().image
    assert new_partition((7, 1, 2), image).leader == 1  # the first that lives
    image.brokers[BrokerId(1)].is_stopping = True
    assert new_partition((1, 2), image).in_sync_replicas == [2]
    assert new_partition((1,), image).leader == 1  # better than nobody
    nobody = new_partition((7, 8), image)
    assert (nobody.leader, nobody.in_sync_replicas, nobody.in_sync_epochs) == (-1, [7], [-1])


def test_every_piece_is_guarded_by_the_epoch_of_controllers() -> None:
    nodes = Nodes()
    pieces = nodes.plan(*[topic(f"t{n}", n, [(0,)] * 150) for n in range(1, 5)])
    assert len(pieces) > 1
    assert all(piece.writes[0] == Check("/controller_epoch", 0) for piece in pieces)
    nodes.write([SetData("/controller_epoch", b"1", 0)])
    with pytest.raises(WrongVersion, match="/controller_epoch"):
        nodes.write(pieces[0].writes)


def test_a_changed_partition_is_written_over_the_version_it_was_decided_from() -> None:
    nodes = Nodes()
    nodes.commit(topic("a", 1))
    change = replace(partition_change(nodes.image, "a"), leader=BrokerId(1), leader_epoch=LeaderEpoch(1))
    (piece,) = nodes.commit(change)
    assert len(piece.writes) == 3  # the guard, the state, the entry: the topic's own node stays
    assert nodes.image.topic("a").partitions[0].version == 1
    with pytest.raises(WrongVersion, match="/brokers/topics/a/partitions/0/state"):
        nodes.write(nodes.plan(change)[0].writes)


def test_replicas_that_move_are_written_to_the_topics_node_once_in_a_piece() -> None:
    nodes = Nodes()
    nodes.commit(topic("a", 1, [(0, 1)] * 3))
    moved = [
        replace(partition_change(nodes.image, "a", number), replicas=(2, 0, 1), adding=(2,), removing=(0,))
        for number in (0, 2)
    ]
    (piece,) = nodes.commit(*moved)
    assert [write.path for write in piece.writes].count("/brokers/topics/a") == 1
    node = layout.decode_topic(nodes.tree.get("/brokers/topics/a").data)  # type: ignore[union-attr]
    assert node.replicas == [[2, 0, 1], [0, 1], [2, 0, 1]]
    assert node.adding == {0: [2], 2: [2]}
    nodes.commit(replace(partition_change(nodes.image, "a", 0), replicas=(2, 1), adding=(), removing=()))
    node = layout.decode_topic(nodes.tree.get("/brokers/topics/a").data)  # type: ignore[union-attr]
    assert (node.replicas[0], node.adding, node.removing) == ([2, 1], {2: [2]}, {2: [0]})


def test_configs_are_made_once_and_then_changed() -> None:
    nodes = Nodes()
    nodes.commit(topic("a", 1))
    nodes.commit(BrokerConfigured("", {"x": "1"}), BrokerConfigured("", {"x": "2"}), BrokerConfigured("1", {"y": "1"}))
    nodes.commit(BrokerConfigured("", {"x": "3"}), TopicConfigured(topic_id(1), {"z": "1"}))
    assert nodes.json("/config/brokers/<default>") == {"version": 1, "config": {"x": "3"}}
    assert nodes.json("/config/brokers/1") == {"version": 1, "config": {"y": "1"}}
    nodes.commit(GroupConfigured("a/b", {"x": "1"}), GroupConfigured("..", {"x": "2"}), GroupConfigured("a/b", {}))
    nodes.commit(GroupConfigured("a/b", {"x": "3"}))
    assert nodes.json("/config/groups/a%2Fb") == {"version": 1, "config": {"x": "3"}}
    assert nodes.json("/config/groups/%2E%2E") == {"version": 1, "config": {"x": "2"}}
    assert nodes.json("/config/topics/a") == {"version": 1, "config": {"z": "1"}}
    assert nodes.image.topic("a").config == {"z": "1"}


def test_quotas_stand_where_kafka_has_them_and_as_it_writes_them() -> None:
    nodes = Nodes()
    nodes.commit(UserConfigured("alice", {"producer_byte_rate": "1024"}), ClientConfigured("alice", "a b", {"x": "1"}))
    nodes.commit(ClientConfigured("bob", "", {"x": "2"}), ClientConfigured("", "c/d", {"x": "3"}))
    nodes.commit(ClientConfigured("bob", "other", {"x": "4"}), UserConfigured("bob", {"x": "5"}))
    nodes.commit(ClientConfigured(None, "", {"x": "6"}), ClientConfigured(None, "..", {"x": "7"}))
    nodes.commit(AddressConfigured("10.0.0.1", {"x": "8"}), AddressConfigured("", {"x": "9"}))
    nodes.commit(ClientConfigured(None, "", {}), AddressConfigured("", {"x": "10"}))
    found = {
        "/config/users/alice": {"producer_byte_rate": "1024"},
        "/config/users/alice/clients/a%20b": {"x": "1"},
        "/config/users/bob": {"x": "5"},
        "/config/users/bob/clients/<default>": {"x": "2"},
        "/config/users/bob/clients/other": {"x": "4"},
        "/config/users/<default>": {},
        "/config/users/<default>/clients/c%2Fd": {"x": "3"},
        "/config/clients/%2E%2E": {"x": "7"},
        "/config/ips/10.0.0.1": {"x": "8"},
        "/config/ips/<default>": {"x": "10"},
    }
    assert {path: nodes.json(path) for path in found} == {
        path: {"version": 1, "config": config} for path, config in found.items()
    }
    assert nodes.image.user_configs == {"alice": {"producer_byte_rate": "1024"}, "bob": {"x": "5"}}
    assert nodes.image.client_configs["bob", ""] == {"x": "2"}
    nodes.commit(UserConfigured("a~b c*", {"x": "1"}), ClientConfigured("a~b c*", "d~", {"x": "2"}))
    assert nodes.json("/config/users/a%7Eb%20c%2A/clients/d%7E") == {"version": 1, "config": {"x": "2"}}


def test_entities_without_quotas_leave_no_node() -> None:
    nodes = Nodes()
    nodes.commit(
        UserConfigured("a", {"x": "1"}), UserConfigured("b", {"x": "1"}), ClientConfigured("b", "c", {"x": "1"})
    )
    nodes.commit(ClientConfigured(None, "c", {"x": "1"}), AddressConfigured("::1", {"x": "1"}))
    for _ in range(2):
        nodes.commit(UserConfigured("a", {}), UserConfigured("b", {}), ClientConfigured("b", "c", {}))
        nodes.commit(ClientConfigured(None, "c", {}), AddressConfigured("::1", {}))
    image = nodes.image
    assert (image.user_configs, image.client_configs, image.address_configs) == ({}, {}, {})
    for path in ("/config/users/a", "/config/users/b/clients/c", "/config/clients/c", "/config/ips/::1"):
        assert nodes.tree.get(path) is None
    assert nodes.json("/config/users/b") == {"version": 1, "config": {}}, "others may stand below it"
    nodes.commit(
        UserConfigured("a", {"x": "2"}), UserConfigured("b", {"x": "2"}), ClientConfigured("b", "c", {"x": "2"})
    )
    nodes.commit(ClientConfigured(None, "c", {"x": "2"}), AddressConfigured("::1", {"x": "2"}))
    for path in (
        "/config/users/a",
        "/config/users/b",
        "/config/users/b/clients/c",
        "/config/clients/c",
        "/config/ips/::1",
    ):
        assert nodes.json(path) == {"version": 1, "config": {"x": "2"}}


def test_access_rules_stand_where_kafkas_authorizer_has_them_and_as_it_writes_them() -> None:
    nodes = Nodes()
    rules = (("User:alice", "*", 3, 3), ("User:bob", "10.0.0.1", 10, 2))
    nodes.commit(AclsSet(2, 3, "orders", rules), AclsSet(2, 3, "*", rules[:1]), AclsSet(5, 4, "app-", rules[:1]))
    alice = {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"}
    bob = {"principal": "User:bob", "permissionType": "Deny", "operation": "DescribeConfigs", "host": "10.0.0.1"}
    assert nodes.json("/kafka-acl/Topic/orders") == {"version": 1, "acls": [alice, bob]}
    assert nodes.json("/kafka-acl/Topic/*") == {"version": 1, "acls": [alice]}
    assert nodes.json("/kafka-acl-extended/prefixed/TransactionalId/app-") == {"version": 1, "acls": [alice]}
    nodes.commit(AclsSet(2, 3, "orders", rules[1:]), AclsSet(2, 3, "*", ()))
    assert nodes.json("/kafka-acl/Topic/orders") == {"version": 1, "acls": [bob]}
    assert nodes.tree.get("/kafka-acl/Topic/*") is None
    assert nodes.image.acls == {(2, 3, "orders"): rules[1:], (5, 4, "app-"): rules[:1]}


def test_a_group_without_configs_has_no_node() -> None:
    """The nodes of groups that are long gone stayed for ever."""
    nodes = Nodes()
    path = "/config/groups/g"
    nodes.commit(GroupConfigured("g", {"x": "1"}))
    (piece,) = nodes.commit(GroupConfigured("g", {}))
    assert [type(write) for write in piece.writes if write.path == path] == [Delete]
    assert (nodes.tree.get(path), nodes.image.group_configs) == (None, {})
    assert nodes.commit(GroupConfigured("g", {})) == []
    nodes.commit(GroupConfigured("g", {"x": "2"}), GroupConfigured("g", {}), GroupConfigured("g", {"x": "3"}))
    assert nodes.json(path) == {"version": 1, "config": {"x": "3"}}
    nodes.commit(GroupConfigured("g", {}), GroupConfigured("g", {"x": "4"}))
    assert nodes.json(path) == {"version": 1, "config": {"x": "4"}}
    assert nodes.image.group_configs == {"g": {"x": "4"}}


def test_a_deleted_topic_leaves_nothing_behind_and_can_be_made_again_in_the_same_commit() -> None:
    nodes = Nodes()
    before = nodes.tree.paths()
    nodes.commit(topic("a", 1, [(0,), (1,)]))
    nodes.commit(TopicDeleted(topic_id(1)))
    assert [path for path in nodes.tree.paths() if not path.startswith("/headwater/changes/")] == before
    nodes.commit(topic("a", 2))
    nodes.commit(PartitionsAdded(topic_id(2), ((1,),)), TopicDeleted(topic_id(2)), topic("a", 3))
    assert nodes.image.topic("a").topic_id == topic_id(3)
    assert len(nodes.image.topic("a").partitions) == 1


def test_partitions_are_added_behind_those_that_are_there_also_twice_in_a_commit() -> None:
    nodes = Nodes()
    nodes.commit(topic("a", 1))
    nodes.commit(PartitionsAdded(topic_id(1), ((1,), (2,))), PartitionsAdded(topic_id(1), ((0,),)))
    assert [state.leader for state in nodes.image.topic("a").partitions] == [0, 1, 2, 0]
    assert layout.decode_topic(nodes.tree.get("/brokers/topics/a").data).replicas == [[0, 1, 2], [1], [2], [0]]  # type: ignore[union-attr]


def test_pieces_keep_to_the_limits_and_the_topic_node_never_says_more_than_its_piece() -> None:
    nodes = Nodes()
    pieces = nodes.commit(topic("a", 1, [(0, 1, 2)] * 1100))
    pieces += nodes.commit(
        *(replace(partition_change(nodes.image, "a", n), replicas=(2, 1, 0)) for n in range(1100)),
    )
    assert len(pieces) > 6
    for piece in pieces:
        assert len(piece.writes) <= WRITES_MAX
        assert sum(len(getattr(write, "data", b"")) + len(write.path) for write in piece.writes) <= BYTES_MAX
    assert len(nodes.image.topic("a").partitions) == 1100
    assert all(state.replicas == [2, 1, 0] and state.version == 1 for state in nodes.image.topic("a").partitions)
    first = nodes.plan(topic("b", 2, [(0,)] * 500))[0]
    made = layout.decode_topic(next(w.data for w in first.writes if isinstance(w, Create) and w.path.endswith("/b")))
    states = [write for write in first.writes if write.path.endswith("/state")]
    assert len(made.replicas) == len(states)


def test_long_configs_make_pieces_by_their_bytes() -> None:
    nodes = Nodes()
    changes = [BrokerConfigured(str(number), {"x": "y" * 100_000}) for number in range(12)]
    pieces = nodes.commit(*changes)
    assert len(pieces) > 2
    for piece in pieces:
        assert sum(len(getattr(write, "data", b"")) for write in piece.writes) <= BYTES_MAX
    assert len(nodes.image.broker_configs) == 12


def test_a_topic_too_large_to_go_in_one_step_is_marked_first() -> None:
    nodes = Nodes()
    nodes.commit(topic("a", 1, [(0,)] * 300))
    (piece,) = nodes.commit(TopicDeleted(topic_id(1)))
    assert piece.doomed == "a"
    assert layout.decode_topic(nodes.tree.get("/brokers/topics/a").data).is_doomed  # type: ignore[union-attr]
    assert nodes.image.topics == {}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (TopicDeleted(topic_id(9)), ErrorCode.UNKNOWN_TOPIC_ID),
        (PartitionsAdded(topic_id(9), ((1,),)), ErrorCode.UNKNOWN_TOPIC_ID),
        (TopicConfigured(topic_id(9), {}), ErrorCode.UNKNOWN_TOPIC_ID),
        (ProducerIdsReserved(5), ErrorCode.INVALID_REQUEST),
        (ControllerElected(BrokerId(1), 5), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_committed(change: Change, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        Nodes().plan(change)
    assert refused.value.code == code


def test_a_state_whose_version_nobody_knows_is_not_written_over_any_version() -> None:
    nodes = Nodes()
    nodes.commit(topic("a", 1))
    for change, code in (
        (replace(partition_change(nodes.image, "a"), version=-1), ErrorCode.INVALID_UPDATE_VERSION),
        (replace(partition_change(nodes.image, "a"), partition=5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        with pytest.raises(KafkaError) as refused:
            nodes.plan(change)
        assert refused.value.code == code


def test_a_proposal_checks_that_the_topic_is_still_the_same() -> None:
    nodes = Nodes()
    nodes.commit(topic("a", 1, [(0, 1), (0, 1)]))
    changes = [partition_change(nodes.image, "a", number) for number in (0, 1)]
    writes = proposal(changes, nodes.image)
    assert writes[0] == Check("/headwater/topics/AAAAAAAAAAAAAAAAAAAAAQ", 0)
    assert [write.path for write in writes[1:3]] == [layout.state_path("a", number) for number in (0, 1)]
    assert isinstance(writes[-1], Create)
    assert decode_entry(writes[-1].data) == [replace(change, version=1) for change in changes]
    assert len(writes) == 4


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (TopicConfigured(topic_id(1), {"x": "2"}), "/config/topics/a"),
        (BrokerConfigured("1", {"x": "2"}), "/config/brokers/1"),
        (GroupConfigured("g", {"x": "2"}), "/config/groups/g"),
        (UserConfigured("u", {"x": "2"}), "/config/users/u"),
        (ClientConfigured("u", "c", {"x": "2"}), "/config/users/u/clients/c"),
        (ClientConfigured(None, "c", {"x": "2"}), "/config/clients/c"),
        (AddressConfigured("::1", {"x": "2"}), "/config/ips/::1"),
        (AclsSet(2, 3, "a", (("User:b", "*", 3, 3),)), "/kafka-acl/Topic/a"),
    ],
)
def test_what_others_write_too_is_written_over_the_version_that_was_read(change: Change, path: str) -> None:
    nodes = Nodes()
    nodes.commit(topic("a", 1))
    if nodes.tree.get(path) is None:  # who makes it is the only one who makes it
        (made,) = nodes.commit(change)
        assert Create in [type(write) for write in made.writes if write.path == path]
    node = nodes.tree.get(path)
    assert node is not None
    (late,) = nodes.plan(change)
    nodes.write([SetData(path, b"of somebody else", node.version)])
    with pytest.raises(WrongVersion, match=path):
        nodes.write(late.writes)


def test_a_node_that_goes_is_the_one_that_was_read() -> None:
    nodes = Nodes()
    nodes.commit(AclsSet(2, 3, "a", (("User:b", "*", 3, 3),)))
    (late,) = nodes.plan(AclsSet(2, 3, "a", ()))
    nodes.write([SetData("/kafka-acl/Topic/a", b"of somebody else", 0)])
    with pytest.raises(WrongVersion, match="/kafka-acl/Topic/a"):
        nodes.write(late.writes)


def test_a_node_that_is_changed_twice_in_a_commit_has_the_version_of_the_first_change() -> None:
    nodes = Nodes()
    nodes.commit(UserConfigured("u", {"x": "1"}))
    nodes.commit(UserConfigured("u", {"x": "2"}), UserConfigured("u", {}), UserConfigured("u", {"x": "3"}))
    nodes.commit(topic("a", 1), TopicConfigured(topic_id(1), {"x": "1"}), TopicConfigured(topic_id(1), {"x": "2"}))
    assert nodes.json("/config/users/u") == {"version": 1, "config": {"x": "3"}}
    assert nodes.json("/config/topics/a") == {"version": 1, "config": {"x": "2"}}
