"""Where new partitions go."""

from collections import Counter

import pytest

from headwater.base.errors import KafkaError
from headwater.base.ids import BrokerId
from headwater.controller.placement import check_replicas, is_very_unequal, place, racks_of, ring
from headwater.metadata.image import BrokerState
from headwater.sim.scheduler import SimRandom
from unit.controller.controller_support import broker, live


class Fixed:
    """Chance that always says the same."""

    def __init__(self, *numbers: int) -> None:
        self._numbers = list(numbers)

    def bytes(self, count: int) -> bytes:
        raise AssertionError

    def below(self, limit: int) -> int:
        number = self._numbers.pop(0)
        assert number < limit
        return number


def loads(placed: list[list[int]]) -> tuple[Counter[int], Counter[int]]:
    """Leaderships and replicas by broker."""
    return Counter(replicas[0] for replicas in placed), Counter(each for replicas in placed for each in replicas)


def test_one_broker_has_everything_and_chance_is_not_asked() -> None:
    assert place(live(7), 3, 1, 0, Fixed()) == [[7], [7], [7]]


def test_leaders_go_round_and_followers_shift_with_every_round() -> None:
    assert place(live(1, 2, 3), 7, 2, 0, Fixed(0, 0)) == [[1, 2], [2, 3], [3, 1], [1, 3], [2, 1], [3, 2], [1, 2]]


def test_chance_says_where_to_begin() -> None:
    assert place(live(1, 2, 3), 3, 2, 0, Fixed(2, 1)) == [[3, 2], [1, 3], [2, 1]]


def test_added_partitions_go_on_where_the_others_end() -> None:
    whole = place(live(1, 2, 3, 4), 11, 3, 0, Fixed(1, 2))
    assert place(live(1, 2, 3, 4), 6, 3, 5, Fixed(1, 2)) == whole[5:]
    assert place(live(1, 2, 3, 4), 6, 3, 5, Fixed(), whole[0]) == whole[5:], "the first partition tells it all"


def test_of_one_replica_the_leaders_go_on_round_the_brokers() -> None:
    assert place(live(1, 2, 3), 3, 1, 2, Fixed(1), [3]) == [[2], [3], [1]]


@pytest.mark.parametrize(("like", "chance"), [([9, 1], (2, 1)), ([3, 9], (1,)), ([], (2, 1))])
def test_chance_says_what_brokers_that_are_gone_cannot_tell(like: list[int], chance: tuple[int, ...]) -> None:
    assert place(live(1, 2, 3), 3, 2, 3, Fixed(*chance), like) == [[3, 1], [1, 2], [2, 3]]


@pytest.mark.parametrize("seed", range(5))
def test_leaders_and_replicas_are_spread_evenly(seed: int) -> None:
    leaders, replicas = loads(place(live(*range(1, 6)), 40, 3, 0, SimRandom(seed)))
    assert set(leaders.values()) == {8}
    assert set(replicas.values()) == {24}


def test_topics_of_one_partition_do_not_all_begin_at_one_broker() -> None:
    random = SimRandom(1)
    firsts = Counter(place(live(1, 2, 3), 1, 1, 0, random)[0][0] for _ in range(300))
    assert min(firsts[each] for each in (1, 2, 3)) > 60


def test_stopping_brokers_get_nothing() -> None:
    placed = place(live(1, broker(2, stopping=True), 3), 10, 2, 0, SimRandom(1))
    assert all(sorted(replicas) == [1, 3] for replicas in placed)


def test_there_must_be_as_many_brokers_as_replicas() -> None:
    with pytest.raises(
        KafkaError, match=r"Unable to replicate the partition 2 time\(s\).* only 1 broker\(s\) are"
    ) as error:
        place(live(1, broker(2, stopping=True)), 1, 2, 0, Fixed())
    assert error.value.code.name == "INVALID_REPLICATION_FACTOR"
    with pytest.raises(KafkaError, match="only 0 broker"):
        place({}, 1, 1, 0, Fixed())


def racked(*racks: str) -> list[BrokerState]:
    return [broker(index, rack=rack) for index, rack in enumerate(racks, 1)]


def test_the_racks_take_turns() -> None:
    brokers = racked("a", "a", "b", "c", "b")
    assert ring([each.broker_id for each in brokers], racks_of(brokers)) == [1, 3, 4, 2, 5]


def test_racks_count_only_if_all_brokers_name_one() -> None:
    assert racks_of(racked("a", "b")) == {1: "a", 2: "b"}
    assert racks_of([*racked("a", "b"), broker(3)]) == {}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("factor", [2, 3])
def test_no_rack_has_two_replicas_while_there_are_enough(seed: int, factor: int) -> None:
    brokers = live(*racked("a", "a", "a", "b", "b", "c"))
    placed = place(brokers, 24, factor, 0, SimRandom(seed))
    for replicas in placed:
        assert len({brokers[BrokerId(each)].rack for each in replicas}) == factor
    leaders, _ = loads(placed)
    assert set(leaders.values()) == {4}


def test_more_replicas_than_racks_are_spread_over_them_evenly() -> None:
    brokers = live(*racked("a", "a", "a", "b", "b", "b"))
    for replicas in place(brokers, 30, 4, 0, SimRandom(3)):
        assert Counter(brokers[BrokerId(each)].rack for each in replicas) == {"a": 2, "b": 2}
    lopsided = live(*racked("a", "a", "a", "b"))
    assert all(sorted(each) == [1, 2, 3, 4] for each in place(lopsided, 5, 4, 0, SimRandom(3)))


def test_what_very_unequal_is() -> None:
    assert is_very_unequal([201, 100])
    assert not is_very_unequal([200, 100])
    assert not is_very_unequal([1000, -1])
    assert is_very_unequal([1, 0])
    assert not is_very_unequal([0, 0])


@pytest.mark.parametrize("seed", range(5))
def test_replicas_and_leaders_follow_the_room_where_it_is_very_unequal(seed: int) -> None:
    brokers = live(broker(1, free=400), broker(2, free=300), broker(3, free=200), broker(4, free=100))
    leaders, replicas = loads(place(brokers, 500, 2, 0, SimRandom(seed)))
    for broker_id, share in ((1, 0.4), (2, 0.3), (3, 0.2), (4, 0.1)):
        assert abs(replicas[broker_id] - share * 1000) <= 3
        assert abs(leaders[broker_id] - share * 500) <= 15


def test_room_does_not_bring_two_replicas_into_one_rack() -> None:
    brokers = live(broker(1, rack="a", free=900), broker(2, rack="a", free=900), broker(3, rack="b", free=10))
    assert all(3 in replicas for replicas in place(brokers, 20, 2, 0, SimRandom(1)))


def test_a_full_broker_is_used_where_there_is_no_other() -> None:
    brokers = live(broker(1, free=900), broker(2, free=0))
    assert all(sorted(replicas) == [1, 2] for replicas in place(brokers, 5, 2, 0, SimRandom(1)))
    assert place(brokers, 1, 1, 0, Fixed(0, 65535, 0, 0))[0] in ([1], [2])


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        ([], "includes an empty replica list"),
        ([1, 9], "includes broker 9, but no such broker is registered"),
        ([1, 2, 1], "includes the broker 1 more than once"),
    ],
)
def test_replicas_by_hand_that_are_refused(replicas: list[int], message: str) -> None:
    with pytest.raises(KafkaError, match=message) as error:
        check_replicas(replicas, live(1, 2))
    assert error.value.code.name == "INVALID_REPLICA_ASSIGNMENT"


def test_replicas_by_hand_that_are_not_refused() -> None:
    check_replicas([2, 1], live(1, 2, 3))
