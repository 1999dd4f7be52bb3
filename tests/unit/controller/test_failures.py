"""Which partitions a look finds."""

import pytest

from headwater.base.ids import PartitionKey
from headwater.controller.failures import is_well, look_at_all, repaired, state_of, well_epochs
from headwater.metadata.image import BrokerState, ClusterImage, PartitionState, TopicState
from unit.controller.controller_support import TOPIC, broker, live, outline, partition

ALL = (1, 2, 3)


def image_of(partitions: list[PartitionState], *some: int | BrokerState) -> ClusterImage:
    image = ClusterImage("cluster", brokers=live(*some))
    image.topics[TOPIC] = TopicState("t", TOPIC, partitions)
    return image


@pytest.mark.parametrize(
    ("state", "well"),
    [
        (partition(1, ALL), True),
        (partition(1, ALL, [2, 1]), True),
        (partition(-1, ALL, [2]), False),
        (partition(1, ALL, [2, 3]), False),
        (partition(1, (1, 4), [1, 4]), False),
        (partition(1, ALL, epochs=[10, 20]), False),
        (partition(1, ALL, epochs=[10, 20, 31]), False),
        (partition(1, ALL, [1], adding=[3]), False),
        (partition(1, ALL, [1], removing=[3]), False),
    ],
)
def test_what_is_well(state: PartitionState, well: bool) -> None:
    assert is_well(state, well_epochs(live(1, 2, 3))) is well


def test_who_is_in_sync_on_a_stopping_broker_is_not_well() -> None:
    assert not is_well(partition(1, ALL), well_epochs(live(1, broker(2, stopping=True), 3)))


def test_a_look_finds_what_is_not_well_and_first_what_has_no_leader() -> None:
    states = [partition(1, ALL), partition(1, (1, 2)), partition(3, ALL), partition(-1, ALL, [4])]
    look = look_at_all(image_of(states, 1, 2), live(1, 2))
    assert [key.partition for key in look.unwell] == [2, 3, 0]
    assert look.offline == {PartitionKey(TOPIC, 2), PartitionKey(TOPIC, 3)}


def test_a_partition_that_no_store_has_written_is_left_alone() -> None:
    image = image_of([partition(1, ALL, version=-1), partition(1, ALL, version=0)], 1)
    assert [state_of(image, PartitionKey(TOPIC, index)) for index in range(3)] == [
        None,
        image.topics[TOPIC].partitions[1],
        None,
    ]


def test_a_repair_ends_a_move_that_can_end() -> None:
    state = partition(3, (1, 2, 3), adding=[1], removing=[3])
    outcome = repaired(state, live(1, 2, 3), unclean=False)
    assert outline(outcome.state) == (1, 6, [1, 2], [10, 20])
    assert repaired(state, live(2, 3), unclean=False).state == partition(3, (1, 2, 3), [2, 3], adding=[1], removing=[3])


def test_the_leader_epoch_grows_once_when_the_leader_dies_as_the_move_ends() -> None:
    state = partition(2, (1, 4, 2, 3), [2, 3, 1, 4], adding=[1, 4], removing=[2, 3])
    assert outline(repaired(state, live(1, 3, 4), unclean=False).state) == (1, 6, [1, 4], [10, 40])


def test_an_unclean_election_is_told_even_when_it_ends_a_move() -> None:
    state = partition(2, (1, 2), [2], adding=[1], removing=[2])
    outcome = repaired(state, live(1), unclean=True)
    assert outcome.is_unclean
    assert (outline(outcome.state), outcome.state.replicas) == ((1, 6, [1], [10]), [1])
