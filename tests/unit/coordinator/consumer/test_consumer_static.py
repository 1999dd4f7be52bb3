"""Static members: they leave for a while, come back under another id, and nobody else can be them."""

import pytest

from headwater.base.errors import ErrorCode
from unit.coordinator.consumer.consumer_group_support import Shard, assigned, durable, names


@pytest.fixture
def shard() -> Shard:
    shard = Shard({"t": 4})
    shard.beat("a", instance_id="i")
    shard.beat("b", instance_id="j")
    shard.beat("a", 2, instance_id="i", owned=names([0, 1, 2, 3]))
    shard.beat("a", 2, instance_id="i", owned=names([0, 1]))
    shard.beat("b", 3, instance_id="j")
    return shard


def test_an_instance_that_is_here_is_not_given_away(shard: Shard) -> None:
    before = durable(shard)
    assert shard.beat("c", instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert durable(shard) == before


def test_who_leaves_for_a_while_keeps_its_partitions_and_comes_back_to_them(shard: Shard) -> None:
    response = shard.beat("a", -2, instance_id="i")
    assert (response.error_code, response.member_epoch) == (0, -2)
    assert shard.beat("b", 3, instance_id="j").assignment is None
    back = shard.beat("a2", instance_id="i")
    assert (back.member_epoch, assigned(back)) == (3, [0, 1])
    assert sorted(shard.group().members) == ["a2", "b"]
    assert shard.group().group_epoch == 3  # nothing to assign anew
    assert durable(shard.reloaded()) == durable(shard)


def test_the_former_self_is_fenced(shard: Shard) -> None:
    shard.beat("a", -2, instance_id="i")
    shard.beat("a2", instance_id="i")
    assert shard.beat("a", 3, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert shard.beat("a", -1, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert shard.beat("a", -2, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert shard.beat("a", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_stays_away_longer_than_its_session_loses_its_place(shard: Shard) -> None:
    shard.beat("a", -2, instance_id="i")
    for _ in range(9):
        shard.advance(5_000)
        shard.beat("b", shard.group().members["b"].member_epoch, instance_id="j")
    assert sorted(shard.group().members) == ["b"]
    assert len(shard.group().members["b"].assigned) == 4


def test_leaving_for_good_frees_the_instance(shard: Shard) -> None:
    assert shard.beat("a", -1, instance_id="i").member_epoch == -1
    assert shard.group().static_members == {"j": "b"}


def test_the_old_timers_do_not_put_the_new_self_out(shard: Shard) -> None:
    shard.advance(40_000)
    shard.beat("b", 3, instance_id="j")
    shard.beat("a", -2, instance_id="i")
    shard.beat("a2", instance_id="i")
    shard.advance(10_000)
    assert "a2" in shard.group().members


def test_who_takes_an_instance_over_under_an_id_that_had_another_one_leaves_no_trace_of_that() -> None:
    """The instance led to a member that was gone: whoever came with it was told nothing but an error, for ever."""
    shard = Shard({"t": 4})
    shard.beat("a", instance_id="one")
    shard.beat("b", instance_id="two")
    shard.beat("a", -2, instance_id="one")
    assert shard.beat("b", instance_id="one").error_code == 0
    assert shard.group().static_members == {"one": "b"}
    shard.beat("b", -1)
    for each in (shard, shard.reloaded()):
        assert each.beat("c", instance_id="two").error_code == 0
        assert each.group().static_members == {"two": "c"}
