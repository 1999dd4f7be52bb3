"""JoinGroup of classic groups: who gets in, under which id, and when the answer comes."""

import pytest

from headwater.base.errors import ErrorCode
from headwater.coordinator.groups.context import GroupSettings
from unit.coordinator.groups.support.driver import GROUP, World, subscription


@pytest.fixture
def world() -> World:
    return World()


# The first rebalance


def test_the_first_member_waits_the_initial_delay_and_leads(world: World) -> None:
    call = world.join()
    world.advance(2_999)
    assert call.response is None
    assert world.state() == "PreparingRebalance"
    world.advance(1)
    response = call.response
    assert (response.error_code, response.generation_id, response.protocol_name) == (0, 1, "range")
    assert response.protocol_type == "consumer"
    assert response.leader == response.member_id
    assert [member.member_id for member in response.members] == [response.member_id]
    assert world.state() == "CompletingRebalance"


def test_a_second_member_prolongs_the_initial_delay_and_only_the_leader_gets_all_members(world: World) -> None:
    first = world.join()
    world.advance(2_000)
    second = world.join()
    world.advance(1_000)
    assert first.response is None
    world.advance(3_000)
    assert len(first.response.members) == 2
    assert second.response.members == []
    assert second.response.leader == first.response.member_id


def test_the_initial_delay_ends_with_the_rebalance_timeout(world: World) -> None:
    calls = [world.join(rebalance_ms=5_000)]
    for _ in range(8):
        world.advance(1_000)
        if calls[0].response is not None:
            break
        calls.append(world.join(rebalance_ms=5_000))
    # 3 s, and 2 s that the rebalance timeout leaves: the remainder then is max(2 - 3, 0).
    assert world.now_ms == 1_005_000


def test_without_an_initial_delay_a_timer_of_zero_completes_the_join() -> None:
    world = World(GroupSettings(initial_rebalance_delay_ms=0))
    call = world.join()
    world.advance(0)
    assert call.code == 0


# Who may join


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_what_makes_no_group(world: World, options: dict[str, object], code: ErrorCode) -> None:
    call = world.join(**options)  # type: ignore[arg-type]
    assert call.code == code
    assert world.shard.list_groups() == []
    assert world.log == []


def test_a_new_group_is_written_at_once(world: World) -> None:
    world.join(version=4)
    assert [group.group_id for group in world.replayed().list_groups()] == [GROUP]


def test_a_member_without_a_common_protocol_is_refused(world: World) -> None:
    world.stable_group(1, protocols={"range": b"", "sticky": b""})
    assert world.join(protocols={"roundrobin": b""}).code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocol_type="connect").code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.state() == "Stable"


def test_the_protocol_is_the_one_with_most_votes_among_those_that_all_have(world: World) -> None:
    calls = [
        world.join(protocols={"a": b"", "b": b"", "c": b""}),
        world.join(protocols={"b": b"", "a": b"", "c": b""}),
        world.join(protocols={"d": b"", "b": b"", "a": b""}),
    ]
    world.advance(6_000)
    assert {call.response.protocol_name for call in calls} == {"b"}


@pytest.mark.parametrize("version", [4, 5, 9])
def test_a_new_dynamic_member_is_given_an_id_first(world: World, version: int) -> None:
    call = world.join(version=version, client_id="app")
    assert call.code == ErrorCode.MEMBER_ID_REQUIRED
    assert call.response.generation_id == -1
    member_id = call.response.member_id
    prefix, _, uuid = member_id.partition("-")
    assert prefix == "app"
    assert len(uuid) == 36
    assert uuid[14] == "4"  # a random UUID
    assert world.state() == "Empty"
    second = world.join(member_id, version=version)
    world.advance(3_000)
    assert second.code == 0
    assert second.response.member_id == member_id


def test_the_id_of_a_member_with_a_huge_client_id_fits_into_the_answer(world: World) -> None:
    """Its client id and a UUID were longer than a string may be, and the answer could not be encoded."""
    call = world.join(version=4, client_id="ö" * 16_000)
    assert call.code == ErrorCode.MEMBER_ID_REQUIRED
    assert len(call.response.member_id.encode()) < 1000


def test_an_id_that_is_not_used_expires_with_the_session(world: World) -> None:
    member_id = world.join(version=4, session_ms=6_000).response.member_id
    world.advance(6_000)
    assert world.join(member_id, version=4).code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_waits_for_an_id_that_was_given_out(world: World) -> None:
    (leader, follower), generation = world.stable_group()
    pending = world.join(version=4, session_ms=6_000).response.member_id
    calls = [world.join(leader), world.join(follower)]
    assert calls[0].response is None
    assert world.heartbeat(leader, generation) == ErrorCode.REBALANCE_IN_PROGRESS
    world.advance(6_000)  # the id expires
    assert calls[0].response.generation_id == generation + 1
    assert pending not in [member.member_id for member in calls[0].response.members]


def test_version_0_uses_the_session_timeout_for_rebalances(world: World) -> None:
    (leader, _), _ = world.stable_group(version=0, session_ms=6_000, rebalance_ms=-1)
    call = world.join(leader, version=0, session_ms=6_000)
    world.advance(5_999)
    assert call.response is None
    world.advance(1)
    assert len(call.response.members) == 1


# Rebalances


def test_members_that_do_not_rejoin_in_time_are_put_out(world: World) -> None:
    (leader, follower), generation = world.stable_group(session_ms=60_000, rebalance_ms=20_000)
    call = world.join(leader, session_ms=60_000, rebalance_ms=20_000)
    world.advance(19_999)
    assert call.response is None
    world.advance(1)
    assert call.response.generation_id == generation + 1
    assert world.heartbeat(follower, generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert ("classic", "session", GROUP, follower) not in world.timers


def test_a_leader_that_does_not_rejoin_is_replaced(world: World) -> None:
    (leader, follower), _ = world.stable_group(session_ms=60_000)
    call = world.join(follower, protocols={"range": subscription("clicks")}, session_ms=60_000)
    world.advance(30_000)
    assert call.response.leader == follower
    assert leader not in [member.member_id for member in call.response.members]


def test_a_follower_that_asks_without_need_hears_the_current_generation(world: World) -> None:
    (leader, follower), generation = world.stable_group()
    call = world.join(follower)
    assert (call.response.generation_id, call.response.leader, call.response.members) == (generation, leader, [])
    assert world.state() == "Stable"


@pytest.mark.parametrize("who", [0, 1])
def test_who_sets_off_a_rebalance_of_a_stable_group(world: World, who: int) -> None:
    members, generation = world.stable_group()
    # The leader always does, a follower when its metadata changed.
    protocols = {"range": subscription("orders" if who == 0 else "clicks")}
    assert world.join(members[who], protocols=protocols).response is None
    assert world.state() == "PreparingRebalance"
    assert world.heartbeat(members[1 - who], generation) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_join_repeated_while_the_group_waits_for_assignments_is_answered_at_once(world: World) -> None:
    first = world.join()
    world.advance(3_000)
    again = world.join(first.response.member_id)
    assert again.response == first.response
    changed = world.join(first.response.member_id, protocols={"range": subscription("clicks")})
    assert changed.response.generation_id == first.response.generation_id + 1  # alone, so complete at once


def test_a_join_sent_twice_leaves_nobody_without_an_answer(world: World) -> None:
    (leader, follower), _ = world.stable_group()
    first = world.join(leader)
    second = world.join(leader)
    assert first.code == ErrorCode.REBALANCE_IN_PROGRESS
    world.join(follower)
    assert second.code == 0


def test_a_new_member_that_waits_too_long_for_its_first_answer_is_forgotten(world: World) -> None:
    (leader, _), _ = world.stable_group(session_ms=1_800_000, rebalance_ms=1_800_000)
    late = world.join(session_ms=1_800_000, rebalance_ms=1_800_000)
    world.advance(5 * 60_000 - 1)
    assert late.response is None
    world.advance(1)
    assert late.code == ErrorCode.UNKNOWN_MEMBER_ID
    assert late.response.member_id == ""
    assert world.heartbeat(leader, 1) == ErrorCode.REBALANCE_IN_PROGRESS


# The size of a group


def test_a_full_group_takes_no_more() -> None:
    world = World(GroupSettings(group_size_max=2))
    members, _ = world.stable_group(2)
    assert world.join().code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join(members[0]).response is None  # who is in may rejoin


def test_while_a_rebalance_runs_the_size_counts_who_has_joined() -> None:
    world = World(GroupSettings(group_size_max=2))
    calls = [world.join(), world.join()]
    assert world.join().code == ErrorCode.GROUP_MAX_SIZE_REACHED
    world.advance(6_000)
    assert [call.code for call in calls] == [0, 0]


def test_after_the_limit_was_lowered_the_last_to_rejoin_does_not_get_in() -> None:
    world = World()
    members, _ = world.stable_group(3)
    world.settings = GroupSettings(group_size_max=2)
    world.reload()
    assert world.state() == "PreparingRebalance"
    calls = [world.join(member) for member in members]
    assert [call.response is None for call in calls] == [True, True, False]
    assert calls[2].code == ErrorCode.GROUP_MAX_SIZE_REACHED
    world.advance(30_000)
    assert [call.code for call in calls[:2]] == [0, 0]


def test_who_never_used_its_id_does_not_cut_the_first_wait_short() -> None:
    """Members that come one after the other make it longer than a session."""
    world = World()
    world.join(version=4, session_ms=6_000)  # is told to come again, and does not
    first = world.join(rebalance_ms=60_000)
    world.advance(2_000)
    second = world.join(rebalance_ms=60_000)
    world.advance(2_500)
    third = world.join(rebalance_ms=60_000)
    world.advance(1_500)  # the session of who did not come is over
    assert [call.response for call in (first, second, third)] == [None] * 3
    world.advance(3_000)
    assert [call.code for call in (first, second, third)] == [0] * 3
