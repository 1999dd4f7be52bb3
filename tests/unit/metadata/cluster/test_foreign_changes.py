"""What Apache Kafka's tools write into ZooKeeper reaches every broker,
in one order with what the controller commits.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from headwater.base.acls import Pattern
from headwater.base.coordination import Check, CoordinationError, Create, Delete, NotAuthorized, SetData, WrongVersion
from headwater.base.errors import ErrorCode
from headwater.metadata.cluster import layout
from headwater.metadata.cluster.foreign_changes import KEPT
from headwater.metadata.cluster.planning import BYTES_MAX
from headwater.metadata.image import AclsSet, ClientConfigured, TopicConfigured, UserConfigured
from unit.metadata.cluster.cluster_store_support import Answer, Broker, Cluster, topic, topic_id

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


def test_rules_that_the_controller_has_loaded_itself_reach_the_others(cluster: Cluster, tool: Tool) -> None:
    """Its connection was lost for a moment, its session was not: what is no news to it is news to them."""
    controller = cluster.controller()
    tool.write(Create("/kafka-acl/Topic/orders", ACL))
    cluster.zookeeper.disconnect(controller.coordination)
    tool.announce_rules("/kafka-acl-changes", b"Topic:orders")
    cluster.run(5000)
    assert cluster.controller() is controller
    everywhere(cluster)
    assert set(cluster.brokers[0].image.acls) == {Pattern(2, 3, "orders")}


def test_a_commit_behind_a_takeover_is_answered_when_the_term_is_over(
    cluster: Cluster, tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = cluster.controller()
    get, held = controller.coordination.get, list[Callable[[], None]]()

    def hold(path: str, *more: Any, **named: Any) -> None:
        if path == "/config/users/alice":
            held.append(lambda: get(path, *more, **named))
        else:
            get(path, *more, **named)

    monkeypatch.setattr(controller.coordination, "get", hold)
    tool.write(Create("/config/users/alice", config_of(x="1")))
    tool.announce_config("users/alice")
    cluster.until(lambda: bool(held))
    answer = controller.commit(UserConfigured("bob", {"x": "1"}))
    epoch = cluster.data("/controller_epoch")
    tool.write(Delete("/controller"))
    cluster.until(lambda: cluster.data("/controller_epoch") != epoch)
    monkeypatch.setattr(controller.coordination, "get", get)
    for read in held:
        read()
    assert cluster.wait(answer).code == ErrorCode.NOT_CONTROLLER
    cluster.controller()
    everywhere(cluster)
    assert cluster.brokers[0].image.user_configs == {"alice": {"x": "1"}}


def test_the_first_commit_of_a_new_controller_does_not_write_over_what_was_announced_before(cluster: Cluster) -> None:
    allowed, denied, added = (("User:a", "*", 3, 3), ("User:mallory", "*", 3, 2), ("User:c", "*", 3, 3))
    cluster.commit(AclsSet(2, 3, "orders", (allowed,)))
    cluster.controller().die()
    tool = Tool(cluster)
    tool.write(SetData("/kafka-acl/Topic/orders", layout.encode_rules((allowed, denied))))
    tool.announce_rules("/kafka-acl-changes", b"Topic:orders")
    answers: list[Answer] = []

    def commit_at_once(broker: Broker, told: Callable[[bool], None], is_controller: bool) -> None:
        told(is_controller)
        if is_controller:
            known = broker.image.acls[Pattern(2, 3, "orders")]
            answers.append(broker.commit(AclsSet(2, 3, "orders", (*known, added))))

    for broker in cluster.brokers:
        broker.store.on_controller = partial(commit_at_once, broker, broker.store.on_controller)
    cluster.until(lambda: bool(answers))
    assert cluster.wait(answers[0]).code == ErrorCode.NONE
    everywhere(cluster)
    assert layout.decode_rules(cluster.data("/kafka-acl/Topic/orders")) == (allowed, denied, added)


def test_what_cannot_be_read_is_not_logged(cluster: Cluster, tool: Tool, caplog: pytest.LogCaptureFixture) -> None:
    tool.write(Create("/config/users/alice", b'{"version":1,"config":{"SCRAM-SHA-256":"stored_key=SECRET\xff"}}'))
    tool.announce_config("users/alice")
    tool.write(Create("/config/changes/config_change_", b"SECRET\xff", sequential=True))
    everywhere(cluster)
    events = [record.getMessage() for record in caplog.records if "unreadable" in record.getMessage()]
    assert len(events) == 2
    assert "SECRET" not in caplog.text


def test_a_node_that_never_said_anything_can_be_configured(cluster: Cluster, tool: Tool) -> None:
    """Its announcement is no news, but a commit that makes the node would be refused for ever."""
    tool.write(Create("/config/users/bob", config_of()), Create("/kafka-acl/Topic/orders"))
    tool.announce_config("users/bob")
    tool.announce_rules("/kafka-acl-changes", b"Topic:orders")
    everywhere(cluster)
    assert cluster.commit(UserConfigured("bob", {"x": "1"})).code == ErrorCode.NONE
    assert cluster.commit(AclsSet(2, 3, "orders", RULES)).code == ErrorCode.NONE


def test_an_empty_node_that_was_loaded_stays_until_a_tool_takes_it_away(cluster: Cluster, tool: Tool) -> None:
    tool.write(*(Create(f"/config/users/{user}", config_of()) for user in ("alice", "bob")))
    tool.announce_config("users/alice")
    controller = cluster.controller()
    cluster.settle()
    tool.write(Create("/config/users/alice", config_of()))
    cluster.zookeeper.disconnect(controller.coordination)
    cluster.run(5000)
    controller = cluster.controller()
    assert {("alice", None, None), ("bob", None, None)} <= controller.image.empty_entity_nodes
    tool.announce_config("users/alice")
    tool.write(Delete("/config/users/bob"))
    tool.announce_config("users/bob")
    everywhere(cluster)
    assert cluster.zookeeper.tree.get("/config/users/alice") is not None
    for user in ("alice", "bob"):
        assert cluster.commit(UserConfigured(user, {"x": "1"})).code == ErrorCode.NONE


@pytest.mark.parametrize("data", [b'{"config":' + b"[" * 200_000, b'{"version":1,"config":[1]}', b"\xff"])
def test_a_node_that_cannot_be_read_holds_up_nobody(cluster: Cluster, tool: Tool, data: bytes) -> None:
    tool.write(Create("/config/users/alice", data))
    tool.announce_config("users/alice")
    everywhere(cluster)
    assert cluster.commit(UserConfigured("bob", {"x": "1"})).code == ErrorCode.NONE


@pytest.mark.parametrize("path", ["users/\ud800", "users/..", "users/.", "users/a\x00b"])
def test_what_can_be_no_path_is_not_asked_for(
    cluster: Cluster, tool: Tool, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    coordination = cluster.controller().coordination
    get = coordination.get

    def noted(path: str, *more: Any, **named: Any) -> None:
        read.append(path)
        get(path, *more, **named)

    monkeypatch.setattr(coordination, "get", noted)
    tool.announce_config(path)
    tool.write(Create("/config/users/alice", config_of(x="1")))
    tool.announce_config("users/alice")
    everywhere(cluster)
    assert "/config/users/alice" in read
    assert f"/config/{path}" not in read


def while_there_is_no_controller(cluster: Cluster, configs: dict[str, bytes]) -> None:
    """So that one takeover has all of them."""
    cluster.controller().die()
    tool = Tool(cluster)
    for user, data in configs.items():
        tool.write(Create(f"/config/users/{user}", data))
        tool.announce_config(f"users/{user}")
    assert not any(broker.is_active for broker in cluster.brokers)


def test_a_node_that_is_refused_keeps_no_other_from_being_taken_over(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    for broker in cluster.brokers:
        get, write = broker.coordination.get, broker.coordination.write
        soon = broker.scheduler.call_soon

        def guarded_get(path: str, done: Any, watch: Any = None, *, get: Any = get, soon: Any = soon) -> None:
            if path == "/config/users/hidden":
                soon(lambda: done(None, NotAuthorized(path)))
            else:
                get(path, done, watch=watch)

        def guarded_write(writes: Any, done: Any, *, write: Any = write, soon: Any = soon) -> None:
            restless = Check("/config/users/restless", 0)
            if restless in writes:
                error: CoordinationError = WrongVersion(restless.path)
                soon(lambda: done(None, error))
            else:
                write(writes, done)

        monkeypatch.setattr(broker.coordination, "get", guarded_get)
        monkeypatch.setattr(broker.coordination, "write", guarded_write)
    while_there_is_no_controller(cluster, {user: config_of(x="1") for user in ("alice", "hidden", "restless", "zoe")})
    cluster.controller()
    everywhere(cluster)
    assert cluster.brokers[0].image.user_configs == {"alice": {"x": "1"}, "zoe": {"x": "1"}}


def test_what_is_too_much_for_one_step_is_taken_over_in_several(cluster: Cluster) -> None:
    configs = {f"u{number}": config_of(x="x" * 150_000) for number in range(10)}
    while_there_is_no_controller(cluster, configs | {"huge": config_of(x="x" * (BYTES_MAX + 1))})
    before = len(cluster.entries())
    cluster.controller()
    everywhere(cluster)
    assert set(cluster.brokers[0].image.user_configs) == set(configs)
    entries = [len(cluster.data(f"/headwater/changes/{name}")) for name in cluster.entries()[before:]]
    assert len(entries) == 2
    assert max(entries) <= BYTES_MAX
