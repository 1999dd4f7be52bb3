"""What the controller says of partitions whose last in-sync replica came back empty."""

import logging

import pytest

from headwater.base.ids import PartitionKey
from headwater.controller.lost_data import LostData
from headwater.metadata.image import ClusterImage, TopicState
from unit.controller.controller_support import TOPIC, broker, live, partition

KEYS = [PartitionKey(TOPIC, index) for index in range(3)]


def test_it_is_said_once_for_each_life_of_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    states = [partition(2, (1, 2), [1]), partition(2, (1, 2), [2]), partition(-1, (2, 1), [2])]
    image = ClusterImage("c", topics={TOPIC: TopicState("orders", TOPIC, states)})
    lost = LostData(image)
    image.brokers = live(1, broker(2, 25, since=25))
    with caplog.at_level(logging.ERROR, "headwater.controller"):
        lost.look(KEYS)
        lost.look(KEYS)
        assert len(caplog.messages) == 1
        assert "event=data-gone broker=2 partitions=2 first=orders:1" in caplog.messages[0]
        assert "headwater cluster elect --unclean orders:1" in caplog.messages[0]
        image.brokers = live(1, broker(2, 29, 25, since=25))
        lost.look(KEYS)
        assert len(caplog.messages) == 2


def test_nothing_is_said_of_who_is_away_or_has_its_data(caplog: pytest.LogCaptureFixture) -> None:
    image = ClusterImage("c", topics={TOPIC: TopicState("orders", TOPIC, [partition(2, (1, 2), [2])])})
    lost = LostData(image)
    for brokers in (live(1), live(1, broker(2, 25, since=20)), live(1, broker(2, 25))):
        image.brokers = brokers
        lost.look([*KEYS])
    assert caplog.messages == []
