"""Two who change the same rules or the same config in ZooKeeper, a controller and a tool of Apache Kafka: no change is
lost, at whatever moment the tool writes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from headwater.base.acls import Pattern
from headwater.base.coordination import Coordination, Create, Delete, SetData, Write
from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.changes import TRIES_MAX, ChangeQueue
from headwater.metadata.cluster import layout
from headwater.metadata.image import AclsSet, Change, ClientConfigured, ClusterImage, TopicConfigured, UserConfigured
from headwater.sim.zookeeper_session import Session
from unit.metadata.cluster.cluster_store_support import Answer, Cluster, topic, topic_id

ORDERS = Pattern(2, 3, "orders")
FIRST, OURS, THEIRS = (("User:first", "*", 3, 3), ("User:ours", "*", 3, 3), ("User:theirs", "*", 3, 2))
PATH = "/kafka-acl/Topic/orders"


class Interrupted:
    """The controller's session, before whose request number `moment` somebody else writes."""

    def __init__(
        self, cluster: Cluster, moment: int, write: Callable[[], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.requests = 0
        self.has_happened = False
        self._moment, self._write = moment, write
        coordination: Coordination = cluster.controller().coordination
        for name in ("get", "write"):
            monkeypatch.setattr(coordination, name, self._wrapped(getattr(coordination, name)))

    def _wrapped(self, request: Callable[..., None]) -> Callable[..., None]:
        def interrupted(*arguments: Any, **named: Any) -> None:
            if self.requests == self._moment:
                self.has_happened = True
                self._write()
            self.requests += 1
            request(*arguments, **named)

        return interrupted


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.joined(2)
    return cluster


def at_once(cluster: Cluster, *writes: Write) -> None:
    """By somebody who is at ZooKeeper already. It is not announced, or not yet; other sessions may see it later."""
    zookeeper = cluster.zookeeper
    somebody = Session(-1, 0, zookeeper.tree.copy(), 0)
    _, error = zookeeper.write(somebody, writes)
    assert error is None, error


def changed(cluster: Cluster, plan: Callable[[ClusterImage], Sequence[Change]]) -> Answer:
    """As a request changes something: planned from the image, by the broker's queue."""
    answer, controller = Answer(), cluster.controller()
    ChangeQueue(controller.store).submit(lambda: plan(controller.image), answer)
    return answer


def add_our_rule(image: ClusterImage) -> Sequence[Change]:
    known = image.acls.get(ORDERS, ())
    return [] if OURS in known else [AclsSet(*ORDERS, (*known, OURS))]


def add_their_rule(cluster: Cluster) -> None:
    node = cluster.zookeeper.tree.get(PATH)
    if node is None:
        at_once(cluster, Create(PATH, layout.encode_rules((THEIRS,))))
    else:
        rules = (*layout.decode_rules(node.data), THEIRS)
        at_once(cluster, SetData(PATH, layout.encode_rules(rules), node.version))


@pytest.mark.parametrize("is_there", [True, False])
@pytest.mark.parametrize("moment", range(4))
def test_rules_that_two_change_at_once_are_the_rules_of_both(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, moment: int, is_there: bool
) -> None:
    if is_there:
        cluster.commit(AclsSet(*ORDERS, (FIRST,)))
    race = Interrupted(cluster, moment, lambda: add_their_rule(cluster), monkeypatch)
    assert cluster.wait(changed(cluster, add_our_rule)).code == ErrorCode.NONE
    if not race.has_happened:  # the change was complete before
        add_their_rule(cluster)
    assert race.requests >= 3, "a moment that is not tried is no moment of this test"
    rules = layout.decode_rules(cluster.data(PATH))
    assert set(rules) == {OURS, THEIRS} | ({FIRST} if is_there else set())
    if race.has_happened and moment < 2:  # it was seen before our change, so all brokers have learned of it
        cluster.settle()
        for broker in cluster.brokers:
            assert set(broker.image.acls[ORDERS]) == set(rules)
            assert broker.problems == []


def test_a_denial_that_a_tool_has_just_written_is_not_deleted_with_the_rest(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.commit(AclsSet(*ORDERS, (FIRST,)))
    Interrupted(cluster, 1, lambda: add_their_rule(cluster), monkeypatch)

    def delete_first(image: ClusterImage) -> Sequence[Change]:
        return [AclsSet(*ORDERS, tuple(rule for rule in image.acls[ORDERS] if rule != FIRST))]

    assert cluster.wait(changed(cluster, delete_first)).code == ErrorCode.NONE
    assert layout.decode_rules(cluster.data(PATH)) == (THEIRS,)


def test_a_users_quota_and_a_password_that_a_tool_sets_meanwhile(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.commit(UserConfigured("alice", {"old": "1"}))
    password = layout.encode_config({"old": "1", "SCRAM-SHA-256": "salt=..."})
    Interrupted(cluster, 1, lambda: at_once(cluster, SetData("/config/users/alice", password)), monkeypatch)

    def set_quota(image: ClusterImage) -> Sequence[Change]:
        return [UserConfigured("alice", {**image.user_configs["alice"], "producer_byte_rate": "1024"})]

    assert cluster.wait(changed(cluster, set_quota)).code == ErrorCode.NONE
    both = {"old": "1", "SCRAM-SHA-256": "salt=...", "producer_byte_rate": "1024"}
    assert layout.decode_config(cluster.data("/config/users/alice")) == both
    cluster.settle()
    assert [broker.image.user_configs for broker in cluster.brokers] == [{"alice": both}] * 2


def test_nodes_that_come_and_go_meanwhile(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.commit(topic("orders", 1))
    user, directory = Create("/config/users/bob", layout.encode_config({})), Create("/config/users/bob/clients")
    with monkeypatch.context() as context:
        Interrupted(cluster, 3, lambda: at_once(cluster, user, directory), context)
        change = ClientConfigured("bob", "c", {"x": "1"})
        assert cluster.wait(changed(cluster, lambda _image: [change])).code == ErrorCode.NONE
    with monkeypatch.context() as context:
        Interrupted(cluster, 1, lambda: at_once(cluster, Delete("/config/topics/orders")), context)
        configured = TopicConfigured(topic_id(1), {"x": "1"})
        assert cluster.wait(changed(cluster, lambda _image: [configured])).code == ErrorCode.NONE
    assert layout.decode_config(cluster.data("/config/users/bob/clients/c")) == {"x": "1"}
    assert layout.decode_config(cluster.data("/config/topics/orders")) == {"x": "1"}


def test_who_never_gets_his_turn_is_told_so(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.commit(AclsSet(*ORDERS, (FIRST,)))
    coordination, tries = cluster.controller().coordination, list[int]()
    write = coordination.write

    def late(writes: Sequence[Write], done: Any) -> None:
        if any(isinstance(each, SetData) and each.path == PATH for each in writes):
            tries.append(1)
            node = cluster.zookeeper.tree.get(PATH)
            assert node is not None
            at_once(cluster, SetData(PATH, node.data))  # the same again: only the version tells
        write(writes, done)

    monkeypatch.setattr(coordination, "write", late)
    answer = cluster.wait(changed(cluster, add_our_rule))
    assert isinstance(answer.error, KafkaError)
    assert answer.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(tries) == TRIES_MAX
    assert layout.decode_rules(cluster.data(PATH)) == (FIRST,)
