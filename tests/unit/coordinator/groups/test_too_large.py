"""What a client asks for and the log would refuse for its size: the client hears of it, and nothing is changed."""

import pytest

from headwater.base.errors import ErrorCode
from headwater.broker.coordinators.batches import build_decision
from headwater.coordinator.effects import CoordinatorRecord, Producer
from headwater.coordinator.groups import sizes
from unit.coordinator.groups.support.driver import GROUP, FakeTopics, World, subscription

PRODUCER = Producer(7, 0)
ORDERS = ("orders", 0)
LIMIT = 2_000


@pytest.fixture
def world() -> World:
    world = World(topics=FakeTopics({"orders": 100}))
    world.shard.state.batch_bytes_max = lambda: LIMIT
    return world


@pytest.mark.parametrize(
    "records",
    [
        [CoordinatorRecord(b"", None)],
        [CoordinatorRecord(b"k" * 63, b"v" * 64)] * 65,
        [CoordinatorRecord(b"k" * 64, b"")] * 64,
        [CoordinatorRecord(b"k", b"v" * length) for length in (0, 63, 64, 8_191, 8_192, 1_048_575, 1_048_576)],
        [CoordinatorRecord(b"k" * 20, None)] * 9_000,
    ],
)
def test_the_size_is_that_of_the_batch(records: list[CoordinatorRecord]) -> None:
    size = len(build_decision(records, 1, None))
    assert sizes.batch_bytes(records) == size
    assert sizes.fit(records, size)
    assert not sizes.fit(records, size - 1)


def test_a_commit_is_refused_as_a_whole(world: World) -> None:
    assert world.commit({ORDERS: 1}) == {ORDERS: 0}
    large = {("orders", index): 2 for index in range(50)}
    assert set(world.commit(large, metadata="m" * 40).values()) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert world.offsets() == {ORDERS: 1}
    assert world.commit({ORDERS: 3}) == {ORDERS: 0}
    assert world.replayed().offsets.durable() == world.shard.offsets.durable()


def test_a_commit_that_is_refused_makes_no_group(world: World) -> None:
    codes = world.commit({("orders", index): 2 for index in range(50)}, metadata="m" * 40)
    assert set(codes.values()) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert world.shard.list_groups() == []


def test_a_commit_in_a_transaction_is_refused_and_leaves_nothing_open(world: World) -> None:
    codes = world.txn_commit({("orders", index): 2 for index in range(50)}, PRODUCER)
    assert set(codes) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert not world.shard.offsets.has_open_transactions(GROUP)


def test_a_commit_that_just_fits_is_taken(world: World) -> None:
    large = {("orders", index): 2 for index in range(20)}
    effects_before = len(world.log)
    world.shard.state.batch_bytes_max = lambda: 1 << 30
    world.commit(large)
    size = sizes.batch_bytes([entry[0] for entry in world.log[effects_before:]])  # type: ignore[misc]
    world.shard.state.batch_bytes_max = lambda: size
    assert set(world.commit(large).values()) == {0}
    world.shard.state.batch_bytes_max = lambda: size - 1
    assert set(world.commit(large).values()) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}


def test_a_group_with_more_offsets_than_can_be_deleted_at_once_stays_whole(world: World) -> None:
    for index in range(50):
        world.commit({("orders", index): 1})
    world.shard.state.batch_bytes_max = lambda: 1_000
    assert world.delete() == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(world.offsets()) == 50
    world.shard.state.batch_bytes_max = lambda: 1 << 30
    assert world.delete() == 0
    assert world.replayed().list_groups() == []


# Classic members


def test_a_member_that_is_larger_than_a_record_is_not_let_in(world: World) -> None:
    members, generation = world.stable_group(1)
    refused = world.join(protocols={"range": b"m" * (LIMIT + 1)})
    assert refused.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.heartbeat(members[0], generation) == 0
    assert world.state() == "Stable"
    assert world.join(protocols={"range": b"m" * (LIMIT + 1)}, group_id="new").code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert [group.group_id for group in world.shard.list_groups()] == [GROUP]


def test_an_assignment_that_is_too_large_is_told_to_all_and_they_may_join_again(world: World) -> None:
    first, second = world.join(), world.join()
    world.advance(6_000)
    leader, follower = first.response.member_id, second.response.member_id
    generation = first.response.generation_id
    waiting = world.sync(follower, generation)
    written = len(world.log)
    leading = world.sync(leader, generation, {leader: b"a" * LIMIT, follower: b""})
    assert leading.code == waiting.code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(world.log) == written
    assert world.state() == "PreparingRebalance"
    assert world.heartbeat(follower, generation) == ErrorCode.REBALANCE_IN_PROGRESS

    again = world.join(leader), world.join(follower)
    generation = again[0].response.generation_id
    leading = world.sync(leader, generation, {leader: b"a", follower: b"b"})
    assert leading.response.assignment == b"a"
    assert world.sync(follower, generation).response.assignment == b"b"
    assert world.state() == "Stable"
    assert world.replayed().list_groups() == world.shard.list_groups()


def test_a_static_member_that_comes_back_too_large_for_the_others_sets_off_a_rebalance(world: World) -> None:
    joining = world.join(instance_id="one", protocols={"range": subscription("orders")})
    world.advance(6_000)
    member_id, generation = joining.response.member_id, joining.response.generation_id
    assert world.sync(member_id, generation, {member_id: b"a" * 1_000}, instance_id="one").code == 0
    written = len(world.log)
    back = world.join(instance_id="one", protocols={"range": b"m" * 1_500})
    assert len(world.log) == written
    assert back.code == 0
    assert back.response.generation_id == generation + 1
    assert world.state() == "CompletingRebalance"
