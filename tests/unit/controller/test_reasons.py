"""Why the controller changes a partition, in words."""

import pytest

from headwater.base.ids import NO_BROKER, BrokerId, LeaderEpoch, TopicId
from headwater.controller.reasons import reason
from headwater.metadata.image import BrokerState, PartitionChanged, PartitionState


def brokers(*states: BrokerState) -> dict[BrokerId, BrokerState]:
    return {state.broker_id: state for state in states}


def broker(number: int, epoch: int | None = None, **fields: object) -> BrokerState:
    return BrokerState(BrokerId(number), [], epoch=10 * number if epoch is None else epoch, **fields)  # type: ignore[arg-type]


def before(leader: int = 1) -> PartitionState:
    ids = [BrokerId(1), BrokerId(2), BrokerId(3)]
    return PartitionState(BrokerId(leader), LeaderEpoch(4), ids, list(ids), in_sync_epochs=[10, 20, 30], version=7)


def change(leader: int, in_sync: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionChanged:
    members = tuple(BrokerId(number) for number in in_sync)
    every = tuple(BrokerId(number) for number in replicas)
    return PartitionChanged(TopicId(bytes(16)), 0, BrokerId(leader), LeaderEpoch(5), every, members, version=7)


@pytest.mark.parametrize(
    ("leader", "in_sync", "known", "expected"),
    [
        (2, (2, 3), brokers(broker(2), broker(3)), "1 is gone"),
        (2, (2, 3), brokers(broker(1, 11), broker(2), broker(3)), "1 came back after a crash"),
        (2, (2, 3), brokers(broker(1, 99, data_since=50), broker(2), broker(3)), "1 came back without its data"),
        (
            2,
            (2, 3),
            brokers(broker(1, is_stopping=True), broker(2), broker(3)),
            "1 is stopping, or refuses connections",
        ),
        (NO_BROKER, (1,), brokers(), "1 is gone; 2 is gone; 3 is gone; nobody who is in sync can lead"),
        (1, (1, 2), brokers(broker(1), broker(2)), "3 is gone"),
    ],
)
def test_who_is_left_out_and_why(
    leader: int, in_sync: tuple[int, ...], known: dict[BrokerId, BrokerState], expected: str
) -> None:
    assert reason(before(), change(leader, in_sync), known) == expected


def test_the_preferred_leader_takes_over() -> None:
    known = brokers(broker(1), broker(2), broker(3))
    assert reason(before(leader=2), change(1, (1, 2, 3)), known) == "2 is well; 1 is the preferred leader"


def test_a_move_ends() -> None:
    known = brokers(broker(1), broker(2), broker(3))
    said = reason(before(leader=2), change(2, (2, 3), (2, 3)), known)
    assert said == "1 is no replica any more; replicas were [1, 2, 3]"


def test_an_unclean_election_is_called_one() -> None:
    said = reason(before(), change(3, (3,)), brokers(broker(3)), is_unclean=True)
    assert said.startswith("3 was not in sync, and the topic allows it to lead; 1 is gone")
