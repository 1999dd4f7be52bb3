"""What Apache Kafka's tools write into ZooKeeper reaches every broker, in one order with what the controller commits."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.acls import Pattern
from headwater.base.coordination import Create, Delete, SetData
from headwater.base.errors import ErrorCode
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.foreign_changes import KEPT
from headwater.metadata.image import AclsSet, ClientConfigured, TopicConfigured, UserConfigured
from unit.metadata.cluster.cluster_store_support import Cluster, topic, topic_id

RULES = (("User:alice", "*", 3, 3),)
ACL = layout.encode_rules(RULES)


def config_of(**values: str) -> bytes:
    return layout.encode_config(values)


class Tool:
    """Somebody with a session of his own."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        broker = cluster.brokers[0]
        self.coordination = cluster.zookeeper.client(broker.scheduler, 60_000)
        self.coordination.on_state = lambda _state: None
        self.coordination.start()
        cluster.until(lambda: self.coordination.session_id != 0)

    def write(self, *writes: Create | SetData | Delete) -> None:
        for write in writes:
            answers: list[object] = []
            self.coordination.write([write], lambda _written, error, answers=answers: answers.append(error))  # type: ignore[misc]
            self._cluster.until(lambda answers=answers: bool(answers))  # type: ignore[misc]
            assert answers == [None], write

    def announce_config(self, entity_path: str) -> None:
        data = json.dumps({"version": 2, "entity_path": entity_path}).encode()
        self.write(Create("/config/changes/config_change_", data, sequential=True))

    def announce_rules(self, directory: str, data: bytes) -> None:
        self.write(Create(f"{directory}/acl_changes_", data, sequential=True))


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.joined(3)
    return cluster


@pytest.fixture
def tool(cluster: Cluster) -> Tool:
    return Tool(cluster)


def everywhere(cluster: Cluster) -> None:
    cluster.settle()
    for broker in cluster.brokers:
        assert broker.image == cluster.brokers[0].image
        assert broker.problems == []


def test_a_user_that_a_tool_has_made_is_known_to_all_and_can_be_changed(cluster: Cluster, tool: Tool) -> None:
    tool.write(Create("/config/users/alice", config_of(x="1")))
    tool.announce_config("users/alice")
    everywhere(cluster)
    assert cluster.brokers[2].image.user_configs == {"alice": {"x": "1"}}
    assert cluster.commit(UserConfigured("alice", {"x": "2"})).code == ErrorCode.NONE
    everywhere(cluster)
    assert cluster.data("/config/users/alice") == config_of(x="2")


def test_every_kind_of_config(cluster: Cluster, tool: Tool) -> None:
    cluster.commit(topic("orders", 1))
    tool.write(
        SetData("/config/topics/orders", config_of(a="1")),
        Create("/config/brokers/<default>", config_of(b="1")),
        Create("/config/groups/some", config_of(c="1")),
        Create("/config/ips/10.0.0.1", config_of(d="1")),
        Create("/config/clients/app%20one", config_of(e="1")),
        Create("/config/users/bob", config_of()),
        Create("/config/users/bob/clients"),
        Create("/config/users/bob/clients/<default>", config_of(f="1")),
    )
    for path in ("topics/orders", "brokers/<default>", "groups/some", "ips/10.0.0.1", "clients/app%20one"):
        tool.announce_config(path)
    tool.announce_config("users/bob/clients/<default>")
    everywhere(cluster)
    image = cluster.brokers[1].image
    assert image.topic("orders").config == {"a": "1"}
    assert image.broker_configs == {"": {"b": "1"}}
    assert image.group_configs == {"some": {"c": "1"}}
    assert image.address_configs == {"10.0.0.1": {"d": "1"}}
    assert image.client_configs == {(None, "app one"): {"e": "1"}, ("bob", ""): {"f": "1"}}
    assert cluster.commit(ClientConfigured("bob", "x", {"g": "1"})).code == ErrorCode.NONE


def test_rules_that_a_tool_has_written_and_taken_away(cluster: Cluster, tool: Tool) -> None:
    tool.write(Create("/kafka-acl/Topic/orders", ACL), Create("/kafka-acl-extended/prefixed/Group/team-", ACL))
    tool.announce_rules("/kafka-acl-changes", b"Topic:orders")  # as older ones spell it
    event = {"version": 1, "resourceType": "GROUP", "name": "team-", "patternType": "PREFIXED"}
    tool.announce_rules("/kafka-acl-extended-changes", json.dumps(event).encode())
    everywhere(cluster)
    assert set(cluster.brokers[0].image.acls) == {Pattern(2, 3, "orders"), Pattern(3, 4, "team-")}
    tool.write(Delete("/kafka-acl/Topic/orders"))
    tool.announce_rules("/kafka-acl-changes", b"TOPIC:orders")
    everywhere(cluster)
    assert set(cluster.brokers[2].image.acls) == {Pattern(3, 4, "team-")}
    assert cluster.commit(AclsSet(2, 3, "orders", RULES)).code == ErrorCode.NONE


def test_a_node_that_says_nothing_any_more_can_be_made_again(cluster: Cluster, tool: Tool) -> None:
    cluster.commit(UserConfigured("alice", {"x": "1"}), ClientConfigured("bob", "c", {"x": "1"}))
    cluster.commit(UserConfigured("bob", {"x": "1"}))
    for user in ("alice", "bob"):
        tool.write(SetData(f"/config/users/{user}", config_of()))
        tool.announce_config(f"users/{user}")
    everywhere(cluster)
    assert cluster.brokers[0].image.user_configs == {}
    for user in ("alice", "bob"):
        assert cluster.commit(UserConfigured(user, {"x": "2"})).code == ErrorCode.NONE


def test_what_was_announced_while_there_was_no_controller(cluster: Cluster, tool: Tool) -> None:
    controller = cluster.controller()
    controller.die()
    broker = cluster.brokers[0]
    tool = Tool(cluster)
    tool.write(Create("/config/users/alice", config_of(x="1")))
    tool.announce_config("users/alice")
    assert broker.image.user_configs == {}
    cluster.until(lambda: any(each.is_active for each in cluster.brokers))
    cluster.until(lambda: all(each.image.user_configs == {"alice": {"x": "1"}} for each in cluster.brokers))
    everywhere(cluster)


def test_it_stands_in_one_order_with_commits(cluster: Cluster, tool: Tool) -> None:
    """Many are written from both sides; at the end, every image has what the nodes say."""
    for number in range(30):
        answer = cluster.controller().commit(UserConfigured("u", {"x": str(number)}))
        if number % 3 == 0:
            name = "u" if number else "v"
            path = f"/config/users/{name}"
            exists = cluster.zookeeper.tree.get(path) is not None
            tool.write(SetData(path, config_of(y=str(number))) if exists else Create(path, config_of(y="0")))
            tool.announce_config(f"users/{name}")
        cluster.wait(answer)
    everywhere(cluster)
    said = layout.decode_config(cluster.data("/config/users/u"))
    assert cluster.brokers[0].image.user_configs["u"] == said


@pytest.mark.parametrize("data", [b"", b"no json", b"[]", b'{"version":2}', b'{"version":2,"entity_path":"users//x"}'])
def test_what_cannot_be_read_changes_nothing(cluster: Cluster, tool: Tool, data: bytes) -> None:
    before = len(cluster.entries())
    for directory in ("/kafka-acl-changes", "/kafka-acl-extended-changes"):
        tool.announce_rules(directory, data)
    tool.write(Create("/config/changes/config_change_", data, sequential=True), Create("/config/changes/else"))
    tool.write(Create("/kafka-acl/Topic/orders", b"no rules"))
    tool.announce_rules("/kafka-acl-changes", b"Topic:orders")
    tool.announce_config("topics/nobodys")
    everywhere(cluster)
    assert len(cluster.entries()) == before
    assert cluster.commit(UserConfigured("alice", {"x": "1"})).code == ErrorCode.NONE


def test_nothing_is_committed_while_nodes_are_compared(cluster: Cluster) -> None:
    """A node that is missing has no version: a commit that made it meanwhile would be undone in the images."""
    attempt = cluster.controller().store._attempt
    assert attempt is not None
    assert attempt.committing is not None
    ends: list[Callable[[], None]] = []
    attempt.committing.exclusively(ends.append)
    answer = cluster.controller().commit(UserConfigured("alice", {"x": "1"}))
    cluster.settle()
    assert not answer.is_there
    assert cluster.zookeeper.tree.get("/config/users/alice") is None
    ends[0]()
    assert cluster.wait(answer).code == ErrorCode.NONE


def test_what_the_controller_commits_is_announced_and_not_taken_over(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    coordination = cluster.controller().coordination
    read: list[str] = []
    get = coordination.get

    def noted(path: str, *more: Any, **named: Any) -> None:
        read.append(path)
        get(path, *more, **named)

    monkeypatch.setattr(coordination, "get", noted)
    cluster.commit(topic("orders", 1))
    cluster.commit(TopicConfigured(topic_id(1), {"x": "1"}), UserConfigured("a b", {"x": "1"}))
    cluster.commit(AclsSet(2, 3, "orders", RULES), AclsSet(5, 4, "t-", RULES))
    everywhere(cluster)
    tree = cluster.zookeeper.tree
    said = [json.loads(cluster.data(f"/config/changes/{name}")) for name in tree.children("/config/changes") or ()]
    assert said == [
        {"version": 2, "entity_path": "topics/orders"},
        {"version": 2, "entity_path": "users/a%20b"},
    ]
    assert cluster.data("/kafka-acl-changes/acl_changes_0000000000") == b"TOPIC:orders"
    assert json.loads(cluster.data("/kafka-acl-extended-changes/acl_changes_0000000000")) == {
        "version": 1,
        "resourceType": "TRANSACTIONAL_ID",
        "name": "t-",
        "patternType": "PREFIXED",
    }
    entries = len(cluster.entries())
    cluster.settle()
    assert len(cluster.entries()) == entries == 3
    assert not [path for path in read if "changes/" in path and not path.startswith("/headwater")]


def test_old_announcements_go(cluster: Cluster) -> None:
    for number in range(2 * KEPT + 5):
        cluster.commit(UserConfigured("u", {"x": str(number)}))
    everywhere(cluster)
    assert KEPT <= len(cluster.zookeeper.tree.children("/config/changes") or ()) < 2 * KEPT
