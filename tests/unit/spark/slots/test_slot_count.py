"""How many slots there are while executors come, die and are replaced."""

import pytest

from headwater.base.errors import UserError
from headwater.spark.slots.slot_count import LOST_S, SlotCount, attempts_of, is_worn_out, slots_for


def test_a_cluster_that_has_grown_has_more_slots_at_the_second_look() -> None:
    count = SlotCount(1)
    assert not count.look(2, 0.0)
    assert not count.look(4, 1.0)
    assert count.look(4, 2.0)
    assert count.slots == 3
    assert not count.look(4, 3.0)


def test_executors_that_come_one_after_the_other_end_leases_once() -> None:
    count = SlotCount(1)
    assert [count.look(cores, float(cores)) for cores in (4, 6, 6, 6)] == [False, False, True, False]
    assert count.slots == 5
    assert not count.look(8, 7.0)
    assert not count.look(6, 8.0), "it was gone again"
    assert not count.look(8, 9.0)
    assert count.look(8, 10.0)


def test_slots_of_an_executor_that_is_replaced_stay_as_many_as_they_were() -> None:
    count = SlotCount(3)
    assert not count.look(2, 5.0)
    assert not count.look(2, 5.0 + LOST_S - 1)
    assert not count.look(4, 5.0 + LOST_S)
    assert not count.look(2, 5.0 + 2 * LOST_S), "the time before does not count"
    assert count.slots == 3


def test_cores_that_stay_away_take_their_slots_with_them() -> None:
    count = SlotCount(3)
    assert not count.look(2, 5.0)
    assert not count.look(3, 10.0)
    assert count.look(3, 5.0 + LOST_S)
    assert count.slots == 2
    assert not count.look(2, 100.0)
    assert not count.look(2, 100.0 + LOST_S - 1)
    assert count.look(1, 100.0 + LOST_S)
    assert count.slots == 1, "the last one stays, however few cores there are"
    assert not count.look(0, 1000.0 + LOST_S)


@pytest.mark.parametrize(("wanted", "cores"), [(2, 2), (None, 1), (0, 4)])
def test_slots_that_leave_no_core_free_are_refused(wanted: int | None, cores: int) -> None:
    with pytest.raises(UserError, match=r"core|There cannot be 0 slots"):
        slots_for(wanted, cores, "local[2]")
    assert slots_for(None, 4, "local[4]") == slots_for(3, 4, "local[4]") == 3


@pytest.mark.parametrize(
    ("master", "setting", "attempts"),
    [
        ("local[3]", None, 1),
        ("local[3]", "7", 1),  # what Spark does
        ("local[*,4]", None, 4),
        ("local[2, 1000]", None, 1000),
        ("local-cluster[2,2,512]", None, 4),
        ("spark://host:7077", "7", 7),
    ],
)
def test_how_often_spark_tries(master: str, setting: str | None, attempts: int) -> None:
    assert attempts_of(master, setting) == attempts


def test_slots_are_renewed_before_the_loss_that_ends_them_all() -> None:
    assert [is_worn_out(losses, attempts=4) for losses in (0, 1, 2, 3)] == [False, False, True, True]
    assert [is_worn_out(losses, attempts=2) for losses in (0, 1)] == [False, True]
    assert not is_worn_out(1, attempts=1), "where Spark does not try again, the query has ended"
