"""Static members: an instance id keeps its place while the process behind it changes."""

import pytest

from headwater.base.errors import ErrorCode
from unit.coordinator.groups.support.driver import GROUP, World, subscription


@pytest.fixture
def world() -> World:
    return World()


def static_group(world: World) -> tuple[str, str, int]:
    """(leader, instance "a"; follower, instance "b"; generation), stable."""
    calls = [world.join(instance_id="a", version=5), world.join(instance_id="b", version=5)]
    world.advance(6_000)
    leader, follower = (call.response.member_id for call in calls)
    generation = calls[0].response.generation_id
    world.sync(leader, generation, {leader: b"A", follower: b"B"}, instance_id="a")
    world.sync(follower, generation, instance_id="b")
    assert world.state() == "Stable"
    return leader, follower, generation


def test_a_static_member_needs_no_second_join_and_its_id_names_the_instance(world: World) -> None:
    call = world.join(instance_id="a", version=9)
    world.advance(3_000)
    assert call.code == 0
    assert call.response.member_id.startswith("a-")
    assert call.response.members[0].group_instance_id == "a"


def test_a_restarted_follower_keeps_its_assignment_without_a_rebalance(world: World) -> None:
    leader, follower, generation = static_group(world)
    call = world.join(instance_id="b", version=5)
    new_id = call.response.member_id
    assert new_id != follower
    assert (call.response.generation_id, call.response.leader) == (generation, leader)
    assert world.state() == "Stable"
    assert world.sync(new_id, generation, instance_id="b").response.assignment == b"B"
    for code in (
        world.heartbeat(follower, generation, instance_id="b"),
        world.sync(follower, generation, instance_id="b").code,
        world.join(follower, instance_id="b").code,
    ):
        assert code == ErrorCode.FENCED_INSTANCE_ID
    replayed = world.replayed().state.groups["readers"].describe()
    assert new_id in [member.member_id for member in replayed.members]


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_restarted_leader_is_told_to_skip_the_assignment_from_version_9_on(world: World, version: int) -> None:
    leader, _, _ = static_group(world)
    response = world.join(instance_id="a", version=version).response
    if version >= 9:
        assert response.leader == response.member_id
        assert response.skip_assignment
        assert len(response.members) == 2
    else:  # it must not think that it leads
        assert response.leader == leader
        assert not response.skip_assignment
        assert response.members == []
    assert world.state() == "Stable"


def test_a_restarted_member_with_another_protocol_sets_off_a_rebalance(world: World) -> None:
    calls = [
        world.join(instance_id="a", version=5, protocols={"range": b"", "sticky": b""}),
        world.join(instance_id="b", version=5, protocols={"range": b"", "sticky": b""}),
    ]
    world.advance(6_000)
    leader = calls[0].response.member_id
    world.sync(leader, 1, {}, instance_id="a")
    call = world.join(instance_id="b", version=5, protocols={"sticky": b""})
    assert call.response is None
    assert world.state() == "PreparingRebalance"


def test_an_instance_that_joins_again_fences_the_one_that_waits(world: World) -> None:
    first = world.join(instance_id="a", version=5)
    second = world.join(instance_id="a", version=5)
    assert first.code == ErrorCode.FENCED_INSTANCE_ID
    world.advance(6_000)
    assert second.code == 0
    assert len(second.response.members) == 1


def test_an_instance_that_joins_while_the_leader_assigns_begins_a_rebalance(world: World) -> None:
    calls = [world.join(instance_id="a", version=5), world.join(instance_id="b", version=5)]
    world.advance(6_000)
    leader, follower = (call.response.member_id for call in calls)
    waiting = world.sync(follower, 1, instance_id="b")
    restarted = world.join(instance_id="b", version=5)
    assert waiting.code == ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(leader, 1, {}, instance_id="a").code == ErrorCode.REBALANCE_IN_PROGRESS
    world.join(leader, instance_id="a", version=5)
    assert restarted.response.generation_id == 2


def test_static_members_that_do_not_rejoin_stay_until_their_session_ends(world: World) -> None:
    leader, follower, _ = static_group(world)
    call = world.join(leader, instance_id="a", version=5, protocols={"range": subscription("clicks")})
    for _ in range(3):  # a rebalance timeout, with the other one alive
        assert world.heartbeat(follower, 1, instance_id="b") == ErrorCode.REBALANCE_IN_PROGRESS
        world.advance(9_999)
    world.heartbeat(follower, 1, instance_id="b")
    world.advance(3)
    assert [member.member_id for member in call.response.members] == [leader, follower]


def test_an_unknown_instance_is_an_unknown_member(world: World) -> None:
    leader, _, generation = static_group(world)
    assert world.heartbeat(leader, generation, instance_id="c") == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_admin_removes_an_instance_by_its_name_alone(world: World) -> None:
    leader, _, generation = static_group(world)
    response = world.leave(instance_ids=("b", "zz"))
    assert [(each.group_instance_id, each.error_code) for each in response.members] == [
        ("b", 0),
        ("zz", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert world.heartbeat(leader, generation, instance_id="a") == ErrorCode.REBALANCE_IN_PROGRESS


def test_what_a_restarted_member_now_reads_counts_for_offset_deletion(world: World) -> None:
    static_group(world)
    world.join(instance_id="b", version=5, protocols={"range": subscription("clicks")})
    assert world.state() == "Stable"
    group = world.shard.state.groups["readers"]
    assert group.is_subscribed_to("clicks")
    assert world.replayed().state.groups["readers"].is_subscribed_to("clicks")


def test_static_members_that_do_not_come_and_have_no_time_to_are_not_looked_for_without_pause(world: World) -> None:
    """A rebalance timeout of nothing was over as soon as it began: the broker did nothing else until their sessions
    ended.
    """
    call = world.join(instance_id="a", version=5)
    world.advance(3_000)
    world.sync(call.response.member_id, 1, {call.response.member_id: b"A"}, instance_id="a")
    assert world.join(instance_id="a", version=5, rebalance_ms=0, session_ms=30_000).code == 0
    world.join(rebalance_ms=0)
    assert world.state() == "PreparingRebalance"
    new = next(member.member_id for member in world.shard.classic.group(GROUP).members.values() if not member.is_static)
    world.leave(new)
    timer = ("classic", "join", GROUP)
    del world.timers[timer]
    world.run(world.shard.on_timer(timer, world.now_ms))
    assert world.timers[timer] >= world.now_ms + 1_000
    world.advance(31_000)
    assert world.state() == "Empty"
