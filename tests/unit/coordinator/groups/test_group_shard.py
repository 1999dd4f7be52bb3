"""Groups as a whole: listing, describing, deleting, expiry, deleted topics, loading."""

import pytest

from headwater.base.errors import ErrorCode
from headwater.coordinator.effects import CoordinatorRecord, Producer
from headwater.coordinator.groups import expiry
from headwater.coordinator.groups.context import GroupSettings
from unit.coordinator.groups.support.driver import GROUP, FakeTopics, World, subscription

ORDERS = ("orders", 0)
CLICKS = ("clicks", 0)
PRODUCER = Producer(7, 0)


@pytest.fixture
def world() -> World:
    return World()


# Listing and describing


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ((), (), {"simple", GROUP}),
        (("Stable",), (), {GROUP}),
        ((" sTABLE ",), (), {GROUP}),
        (("Empty", "Stable"), ("Classic",), {"simple", GROUP}),
        ((), ("consumer",), set()),
        (("Dead",), (), set()),
        ((), ("nonsense",), set()),
    ],
)
def test_filters_of_a_listing(
    world: World, states: tuple[str, ...], types: tuple[str, ...], expected: set[str]
) -> None:
    world.stable_group()
    world.commit({ORDERS: 1}, group_id="simple")
    assert {group.group_id for group in world.shard.list_groups(states, types)} == expected


def test_a_stable_group_described(world: World) -> None:
    members, _ = world.stable_group(1, client_id="app")
    described = world.describe()
    assert (described.error_code, described.group_state) == (0, "Stable")
    assert (described.protocol_type, described.protocol_data) == ("consumer", "range")
    (member,) = described.members
    assert (member.member_id, member.client_id, member.client_host) == (members[0], "app", "/127.0.0.1")
    assert member.member_metadata == subscription("orders")
    assert member.member_assignment == b"to " + members[0].encode()


def test_outside_of_stable_there_is_no_metadata(world: World) -> None:
    members, _ = world.stable_group()
    world.join(members[0])
    described = world.describe()
    assert (described.group_state, described.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_metadata for member in described.members] == [b"", b""]


def test_an_unknown_group_is_dead_and_from_version_6_on_an_error(world: World) -> None:
    old, new = world.describe("none", version=5), world.describe("none", version=6)
    assert (old.error_code, old.group_state) == (0, "Dead")
    assert (new.error_code, new.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert new.error_message == "Group none not found."


# Deleting


def test_only_empty_groups_are_deleted(world: World) -> None:
    members, generation = world.stable_group()
    world.commit({ORDERS: 1}, member_id=members[0], generation=generation)
    assert world.delete() == ErrorCode.NON_EMPTY_GROUP
    world.leave(*members)
    world.txn_commit({CLICKS: 1}, PRODUCER)
    assert world.delete() == 0
    assert world.delete() == ErrorCode.GROUP_ID_NOT_FOUND
    world.end(PRODUCER, committed=True)
    assert world.offsets() == {}
    replayed = world.replayed()
    assert (replayed.list_groups(), replayed.offsets.durable()) == ([], ({}, {}))


def test_the_timers_of_a_deleted_group_go_with_it(world: World) -> None:
    world.join(version=4)
    assert world.delete() == 0
    assert set(world.timers) == {expiry.EXPIRY_TIMER}


# Expiry


def small_retention() -> World:
    return World(GroupSettings(offsets_retention_ms=60_000, offsets_retention_check_interval_ms=1_000))


def test_offsets_of_a_simple_group_expire_from_their_commit_and_the_group_with_the_last() -> None:
    world = small_retention()
    world.commit({ORDERS: 1})
    world.advance(30_000)
    world.commit({CLICKS: 1})
    world.advance(30_000)
    assert world.offsets() == {CLICKS: 1}
    world.advance(30_000)
    assert world.shard.list_groups() == []
    assert world.replayed().list_groups() == []


def test_offsets_of_a_group_that_had_members_expire_from_when_it_became_empty() -> None:
    world = small_retention()
    members, generation = world.stable_group(1, session_ms=1_800_000)
    world.commit({ORDERS: 1}, member_id=members[0], generation=generation)
    world.advance(59_000)
    world.leave(members[0])
    world.advance(59_000)
    assert world.offsets() == {ORDERS: 1}
    world.advance(1_000)
    assert world.shard.list_groups() == []


def test_in_a_stable_group_only_what_nobody_reads_expires() -> None:
    world = small_retention()
    members, generation = world.stable_group(1, session_ms=1_800_000)
    world.commit({ORDERS: 1, CLICKS: 1}, member_id=members[0], generation=generation)
    world.advance(60_000)
    assert world.offsets() == {ORDERS: 1}
    assert world.state() == "Stable"


@pytest.mark.parametrize("protocols", [{"range": b"unreadable"}])
def test_what_a_group_reads_unknown_to_us_does_not_expire(protocols: dict[str, bytes]) -> None:
    world = small_retention()
    members, generation = world.stable_group(1, session_ms=1_800_000, protocols=protocols)
    world.commit({ORDERS: 1}, member_id=members[0], generation=generation)
    world.advance(120_000)
    assert world.offsets() == {ORDERS: 1}


def test_an_open_transaction_keeps_its_partition_and_its_group() -> None:
    world = small_retention()
    world.commit({ORDERS: 1, CLICKS: 2})
    world.txn_commit({ORDERS: 3}, PRODUCER)
    world.advance(120_000)
    assert world.offsets() == {ORDERS: 1}
    world.end(PRODUCER, committed=False)
    world.advance(1_000)
    assert world.shard.list_groups() == []


def test_a_large_expiry_goes_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "LOOKS_PER_TURN", 3)
    world = World(
        GroupSettings(offsets_retention_ms=60_000, offsets_retention_check_interval_ms=60_000),
        FakeTopics({"orders": 10}),
    )
    world.commit({("orders", partition): 1 for partition in range(10)})
    effects = world.run(world.shard.on_timer(expiry.EXPIRY_TIMER, world.now_ms + 60_000))
    assert len(effects.records) == 3
    assert effects.timers[expiry.EXPIRY_TIMER] == 0
    world.advance(60_000)
    assert world.shard.list_groups() == []


# Deleted topics


def test_the_offsets_of_a_deleted_topic_go_with_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "LOOKS_PER_TURN", 1)
    world.commit({ORDERS: 1, ("orders", 1): 1, CLICKS: 2})
    world.txn_commit({("orders", 2): 3}, PRODUCER)
    world.run(world.shard.topic_deleted("orders", world.topics.ids["orders"], world.now_ms))
    world.advance(0)
    world.end(PRODUCER, committed=True)
    assert world.offsets() == {CLICKS: 2}
    assert world.replayed().offsets.durable() == world.shard.offsets.durable()


def test_the_offsets_of_a_new_topic_of_the_same_name_stay(world: World) -> None:
    world.commit({ORDERS: 1})
    world.run(world.shard.topic_deleted("orders", b"e" * 16, world.now_ms))
    assert world.offsets() == {ORDERS: 1}


# Loading


def test_records_of_unknown_types_are_passed_over(world: World) -> None:
    world.shard.replay(CoordinatorRecord(b"\0\x0b\0\x01g", b"\0\0anything"))
    world.shard.replay(CoordinatorRecord(b"\0\x63", None))
    assert world.shard.list_groups() == []


def test_a_tombstone_for_a_group_that_is_not_there_does_no_harm(world: World) -> None:
    world.commit({ORDERS: 1})
    world.delete()
    log, world.log = world.log, []
    for entry in log[1:]:  # compaction took the commit
        world.shard.replay(entry[0])  # type: ignore[arg-type]
    assert world.shard.list_groups() == []
