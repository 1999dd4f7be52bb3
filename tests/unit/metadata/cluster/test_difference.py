"""From what was read to changes: the image becomes what the nodes say, and only what differs is told."""

from dataclasses import replace

from headwater.base.ids import BrokerId, LeaderEpoch
from headwater.metadata.cluster.difference import Snapshot, difference, members_difference
from headwater.metadata.image import (
    AddressConfigured,
    BrokerConfigured,
    BrokerGone,
    BrokerRegistered,
    ClientConfigured,
    ClusterImage,
    PartitionState,
    TopicConfigured,
    TopicDeleted,
    TopicState,
    UserConfigured,
)
from unit.metadata.cluster.cluster_store_support import me, topic_id


def partition(version: int, leader: int = 0) -> PartitionState:
    replicas = [BrokerId(0), BrokerId(1)]
    return PartitionState(BrokerId(leader), LeaderEpoch(version), replicas, replicas, [5, 6], version=version)


def snapshot(*topics: TopicState) -> Snapshot:
    return Snapshot("x", {topic.name: topic for topic in topics}, set(), {"1": {"a": "b"}})


def follow(image: ClusterImage, seen: Snapshot) -> None:
    for change in difference(seen, image):
        image.apply(change)
    assert {topic.name: topic for topic in image.topics.values()} == seen.topics
    assert difference(seen, image) == []


def test_the_image_becomes_what_was_read() -> None:
    image = ClusterImage("x")
    follow(image, snapshot(TopicState("a", topic_id(1), [partition(3)], {"k": "v"})))
    follow(image, snapshot(TopicState("a", topic_id(1), [partition(4), partition(0)], {"k": "w"})))
    follow(image, snapshot(TopicState("a", topic_id(2), [partition(0)]), TopicState("b", topic_id(3), [])))
    assert list(image.deleted_topics) == [topic_id(1)]
    assert image.broker_configs == {"1": {"a": "b"}}


def test_only_what_differs_is_told() -> None:
    image = ClusterImage("x")
    follow(image, snapshot(TopicState("a", topic_id(1), [partition(3), partition(3)])))
    seen = snapshot(TopicState("a", topic_id(1), [partition(2, leader=1), partition(3)], {"k": "w"}))
    seen.broker_configs = {"1": {"a": "b"}, "2": {}}
    assert difference(seen, image) == [TopicConfigured(topic_id(1), {"k": "w"}), BrokerConfigured("2", {})]


def test_a_topic_that_could_not_be_read_is_not_taken_for_deleted() -> None:
    image = ClusterImage("x")
    follow(image, snapshot(TopicState("a", topic_id(1), [partition(3)]), TopicState("b", topic_id(2), [])))
    seen = snapshot()
    seen.unreadable.add("a")
    assert difference(seen, image) == [TopicDeleted(topic_id(2))]


def test_a_config_that_is_gone_is_empty() -> None:
    image = ClusterImage("x")
    follow(image, snapshot())
    seen = Snapshot("x")
    assert difference(seen, image) == [BrokerConfigured("1", {})]
    image.apply(BrokerConfigured("1", {}))
    assert difference(seen, image) == []


def test_a_broker_with_another_epoch_is_told_as_gone_and_come() -> None:
    image = ClusterImage("x")
    one, two = replace(me(1), epoch=5), replace(me(2), epoch=6)
    members = {BrokerId(1): one, BrokerId(2): two}
    for change in members_difference(members, image):
        image.apply(change)
    assert members_difference(members, image) == []
    again = replace(one, epoch=9)
    assert members_difference({BrokerId(1): again}, image) == [
        BrokerGone(BrokerId(1)),
        BrokerGone(BrokerId(2)),
        BrokerRegistered(again),
    ]


def test_within_a_life_nobody_stops_stopping() -> None:
    """The log may have told it before the registration was read again."""
    image = ClusterImage("x")
    one = replace(me(1), epoch=5)
    image.apply(BrokerRegistered(replace(one, is_stopping=True)))
    assert members_difference({BrokerId(1): one}, image) == []
    assert image.brokers[BrokerId(1)].is_stopping
    back = replace(one, epoch=7)
    assert members_difference({BrokerId(1): back}, image) == [BrokerGone(BrokerId(1)), BrokerRegistered(back)]


def test_entities_whose_nodes_are_gone_are_not_known_any_more() -> None:
    """A node that somebody had deleted stayed known, and the next quota was set on a node that is not there."""
    image = ClusterImage("x")
    for change in (
        UserConfigured("u", {"x": "1"}),
        ClientConfigured("u", "c", {"x": "1"}),
        AddressConfigured("", {"x": "1"}),
    ):
        image.apply(change)
    seen = Snapshot("x", user_configs={"empty": {}})
    follow(image, seen)
    assert (image.user_configs, image.client_configs, image.address_configs) == ({}, {}, {})
    assert difference(seen, image) == []
    assert seen.empty_entities() == {("empty", None, None)}
