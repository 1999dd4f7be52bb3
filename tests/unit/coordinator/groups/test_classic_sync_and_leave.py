"""SyncGroup, Heartbeat, LeaveGroup and the end of sessions."""

import pytest

from headwater.base.errors import ErrorCode
from unit.coordinator.groups.support.driver import World


@pytest.fixture
def world() -> World:
    return World()


def joined(world: World, size: int = 2, **options: object) -> list[str]:
    """Members of a group that waits for its assignment, generation 1."""
    calls = [world.join(**options) for _ in range(size)]  # type: ignore[arg-type]
    world.advance(6_000)
    return [call.response.member_id for call in calls]


# SyncGroup


def test_followers_wait_for_the_leader_and_each_gets_its_part(world: World) -> None:
    leader, follower, third = joined(world, 3)
    waiting = world.sync(follower, 1)
    assert waiting.response is None
    assert world.sync(leader, 1, {leader: b"L", follower: b"F"}).response.assignment == b"L"
    assert (waiting.response.assignment, waiting.response.protocol_name) == (b"F", "range")
    assert world.sync(third, 1).response.assignment == b""  # the leader forgot it
    assert world.state() == "Stable"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE),
        ({"group_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
    ],
)
@pytest.mark.parametrize("state", ["CompletingRebalance", "Stable"])
def test_what_a_sync_is_checked_for(world: World, options: dict[str, object], code: ErrorCode, state: str) -> None:
    (leader,) = joined(world, 1)
    if state == "Stable":
        world.sync(leader, 1, {})
    assert world.state() == state
    call = world.sync(**({"member_id": leader, "generation": 1} | options))  # type: ignore[arg-type]
    assert call.code == code


def test_who_gets_its_part_again_has_a_whole_session_from_there_on(world: World) -> None:
    """It thinks so, and was put out with partitions in its hands: it had come back late in a session, after a restart
    of the broker.
    """
    members, generation = world.stable_group()
    for _ in range(3):
        world.advance(9_000)
        for member in members:
            assert world.sync(member, generation).code == ErrorCode.NONE
    assert world.state() == "Stable"


def test_a_sync_while_others_join_is_sent_back(world: World) -> None:
    (leader, _), generation = world.stable_group()
    world.join()
    assert world.sync(leader, generation).code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_new_member_sends_those_who_wait_for_the_assignment_back_to_join(world: World) -> None:
    _, follower = joined(world)
    waiting = world.sync(follower, 1)
    world.join()
    assert waiting.code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_sent_twice_leaves_nobody_without_an_answer(world: World) -> None:
    leader, follower = joined(world)
    first, second = world.sync(follower, 1), world.sync(follower, 1)
    assert first.code == ErrorCode.REBALANCE_IN_PROGRESS
    world.sync(leader, 1, {follower: b"F"})
    assert second.response.assignment == b"F"


def test_members_that_never_sync_are_put_out_after_a_rebalance_timeout(world: World) -> None:
    leader, follower = joined(world, session_ms=60_000)
    world.sync(leader, 1, {})
    world.advance(29_999)
    assert world.state() == "Stable"
    world.advance(1)
    assert world.state() == "PreparingRebalance"
    assert world.heartbeat(follower, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_assigns_is_put_out(world: World) -> None:
    leader, follower = joined(world, session_ms=60_000)
    waiting = world.sync(follower, 1)
    world.advance(30_000)
    assert waiting.code == ErrorCode.REBALANCE_IN_PROGRESS
    rejoined = world.join(follower)
    assert rejoined.response.leader == follower
    assert world.heartbeat(leader, 1) == ErrorCode.UNKNOWN_MEMBER_ID


# Heartbeat


def test_heartbeats_in_each_state(world: World) -> None:
    leader, follower = joined(world)
    assert world.heartbeat(leader, 1) == ErrorCode.NONE  # CompletingRebalance
    assert world.heartbeat(leader, 0) == ErrorCode.ILLEGAL_GENERATION
    world.sync(leader, 1, {})
    assert world.heartbeat(leader, 1) == ErrorCode.NONE  # Stable
    world.join(leader)
    assert world.heartbeat(follower, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    world.leave(leader, follower)
    assert world.state() == "Empty"
    assert world.heartbeat(leader, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(leader, 1, group_id="other") == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(leader, 1, group_id="") == ErrorCode.INVALID_GROUP_ID


def test_a_member_without_heartbeats_is_put_out(world: World) -> None:
    (leader, follower), generation = world.stable_group(session_ms=6_000)
    world.advance(5_000)
    assert world.heartbeat(leader, generation) == ErrorCode.NONE
    world.advance(1_000)
    assert world.heartbeat(follower, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat(leader, generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_who_waits_for_a_join_or_a_sync_does_not_expire(world: World) -> None:
    (leader, follower), generation = world.stable_group(session_ms=6_000, rebalance_ms=60_000)
    call = world.join(leader, session_ms=6_000, rebalance_ms=60_000)
    for _ in range(4):
        assert world.heartbeat(follower, generation) == ErrorCode.REBALANCE_IN_PROGRESS
        world.advance(5_000)
    world.join(follower, session_ms=6_000, rebalance_ms=60_000)
    assert call.code == 0


def test_when_the_last_session_ends_the_group_is_empty_and_that_is_written(world: World) -> None:
    world.stable_group()
    world.advance(20_000)
    assert world.state() == "Empty"
    assert world.replayed().state.groups["readers"].state_name == "Empty"


# LeaveGroup


@pytest.mark.parametrize("version", range(6))
def test_leaving_in_all_versions(world: World, version: int) -> None:
    (leader, follower), generation = world.stable_group()
    response = world.leave(follower, version=version)
    assert response.error_code == 0
    assert [(each.member_id, each.error_code) for each in response.members] == ([(follower, 0)] if version > 2 else [])
    assert world.heartbeat(leader, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    again = world.leave(follower, version=version)
    if version > 2:
        assert (again.error_code, again.members[0].error_code) == (0, ErrorCode.UNKNOWN_MEMBER_ID)
    else:
        assert again.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_leaving_a_group_that_is_not_there(world: World) -> None:
    assert world.leave("m", version=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave("m", version=3).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave("m", group_id="").error_code == ErrorCode.INVALID_GROUP_ID


def test_when_all_leave_the_group_is_empty_at_once(world: World) -> None:
    members, generation = world.stable_group(3)
    world.leave(*members)
    described = world.describe()
    assert (described.group_state, described.protocol_type, described.members) == ("Empty", "consumer", [])
    assert world.shard.classic.group("readers").generation == generation + 1  # type: ignore[union-attr]


def test_who_leaves_while_it_waits_gets_its_answer(world: World) -> None:
    leader, follower = joined(world)
    waiting = world.sync(follower, 1)
    world.leave(follower)
    assert waiting.code == ErrorCode.UNKNOWN_MEMBER_ID
    rejoining = world.join(leader)
    assert rejoining.response.generation_id == 2


def test_an_id_that_was_given_out_can_leave(world: World) -> None:
    member_id = world.join(version=4).response.member_id
    assert world.leave(member_id).members[0].error_code == 0
    assert world.join(member_id, version=4).code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_departure_of_the_last_one_waited_for_completes_a_rebalance(world: World) -> None:
    (leader, follower), _ = world.stable_group()
    call = world.join(leader)
    world.leave(follower)
    assert call.response.generation_id == 2


# A reload


def test_members_go_on_after_a_reload_and_expire_if_they_do_not(world: World) -> None:
    (leader, follower), generation = world.stable_group()
    world.reload()
    assert world.state() == "Stable"
    assert world.heartbeat(leader, generation) == ErrorCode.NONE
    assert world.sync(follower, generation).response.assignment == b"to " + follower.encode()
    world.advance(10_000)
    assert world.heartbeat(leader, generation) == ErrorCode.UNKNOWN_MEMBER_ID


def test_all_who_wait_can_be_told_an_error(world: World) -> None:
    _leader, follower = joined(world)
    syncing = world.sync(follower, 1)
    joining = world.join(group_id="other")
    parked = world.shard.parked()
    assert {id(ticket) for ticket, _ in parked} == {id(syncing), id(joining)}
    for ticket, make in parked:
        response = make(ErrorCode.NOT_COORDINATOR)
        assert response.error_code == ErrorCode.NOT_COORDINATOR
        assert type(response).__name__ == ("SyncGroupResponse" if ticket is syncing else "JoinGroupResponse")
