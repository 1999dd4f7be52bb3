"""Leaderships that go back."""

from headwater.controller.preferred import imbalanced
from headwater.metadata.image import BrokerState, ClusterImage, PartitionState, TopicState
from unit.controller.controller_support import TOPIC, broker, live, partition


def found(partitions: list[PartitionState], percentage: int, *some: int | BrokerState) -> list[int]:
    image = ClusterImage("cluster", brokers=live(*some))
    image.topics[TOPIC] = TopicState("t", TOPIC, partitions)
    return [key.partition for key in imbalanced(image, image.brokers, percentage)]


def test_leaderships_go_back_only_beyond_the_percentage() -> None:
    states = [partition(2, (1, 2)), *[partition(1, (1, 2)) for _ in range(9)]]
    assert found(states, 10, 1, 2) == []
    assert found(states, 9, 1, 2) == [0]


def test_each_broker_is_asked_on_its_own() -> None:
    states = [
        partition(2, (1, 2)),
        partition(1, (1, 2)),
        partition(1, (2, 1)),
        partition(2, (2, 1)),
        partition(2, (2, 1)),
    ]
    assert found(states, 40, 1, 2) == [0]
    assert found(states, 33, 1, 2) == [0, 2]


def test_what_cannot_go_back_stays() -> None:
    out_of_sync, dead = partition(2, (1, 2), [2]), partition(2, (4, 2))
    on_the_move, unwritten = partition(2, (1, 2, 3), adding=[1], removing=[3]), partition(2, (1, 2), version=-1)
    crashed, last = partition(2, (5, 2)), partition(-1, (5, 2), [5])
    states = [out_of_sync, dead, on_the_move, unwritten, crashed, last]
    assert found(states, 0, 1, 2, 3, broker(5, 55)) == [5]


def test_nothing_goes_back_to_a_stopping_broker() -> None:
    assert found([partition(2, (1, 2))], 0, broker(1, stopping=True), 2) == []
