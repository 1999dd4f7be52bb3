"""OffsetCommit, OffsetFetch, OffsetDelete and TxnOffsetCommit."""

import pytest

from headwater.base.errors import ErrorCode
from headwater.coordinator.effects import Producer
from headwater.coordinator.groups.context import GroupContext, GroupSettings
from headwater.coordinator.records.group_records import OffsetCommitRecord, read_record
from headwater.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from unit.coordinator.groups.support.driver import GROUP, Call, FakeTopics, World, subscription

ORDERS = ("orders", 0)
PRODUCER = Producer(7, 0)


@pytest.fixture
def world() -> World:
    return World()


def delete(world: World, topic: str, partition: int, group_id: str = GROUP) -> Call:
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=partition)])
        ],
    )
    call = Call()
    world.run(world.shard.offset_delete(GroupContext(0), request, call, world.now_ms))
    return call


def fetched(world: World, **options: object) -> tuple[int, str, int]:
    part = world.fetch([ORDERS], **options).topics[0].partitions[0]  # type: ignore[arg-type]
    return part.committed_offset, part.metadata, part.error_code


# Who may commit


def test_a_consumer_without_a_group_commits_and_makes_a_simple_group(world: World) -> None:
    assert world.commit({ORDERS: 5}, metadata="here") == {ORDERS: 0}
    assert fetched(world) == (5, "here", 0)
    listed = world.shard.list_groups()[0]
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        GROUP,
        "",
        "Empty",
        "classic",
    )


@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ErrorCode.ILLEGAL_GENERATION), (8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_generation_of_a_group_that_is_not_there(world: World, version: int, code: ErrorCode) -> None:
    assert world.commit({ORDERS: 5}, generation=3, member_id="m", version=version) == {ORDERS: code}
    assert world.shard.list_groups() == []


@pytest.mark.parametrize(
    ("who", "generation", "code"),
    [
        ("member", 0, ErrorCode.NONE),
        ("member", -1, ErrorCode.ILLEGAL_GENERATION),  # a stale one
        ("member", 1, ErrorCode.ILLEGAL_GENERATION),
        ("stranger", 0, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, ErrorCode.UNKNOWN_MEMBER_ID),  # without a group, while the group has members
        ("stranger", None, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_commit_to_a_stable_group(world: World, who: str, generation: int | None, code: ErrorCode) -> None:
    members, current = world.stable_group()
    member_id = members[1] if who == "member" else who
    number = -1 if generation is None else current + generation
    assert world.commit({ORDERS: 5}, member_id=member_id, generation=number) == {ORDERS: code}
    assert world.offsets() == ({ORDERS: 5} if code == 0 else {})


def test_commits_while_a_rebalance_runs(world: World) -> None:
    (leader, follower), generation = world.stable_group()
    call = world.join(leader)
    assert world.commit({ORDERS: 5}, member_id=follower, generation=generation) == {ORDERS: 0}  # so nothing is lost
    world.join(follower)
    generation = call.response.generation_id
    refused = world.commit({ORDERS: 6}, member_id=follower, generation=generation)
    assert refused == {ORDERS: ErrorCode.REBALANCE_IN_PROGRESS}
    assert world.offsets() == {ORDERS: 5}


def test_a_fenced_instance_does_not_commit(world: World) -> None:
    call = world.join(instance_id="a", version=5)
    world.advance(3_000)
    old = call.response.member_id
    world.sync(old, 1, {}, instance_id="a")
    world.join(instance_id="a", version=5)
    codes = world.commit({ORDERS: 5}, member_id=old, generation=1, instance_id="a")
    assert codes == {ORDERS: ErrorCode.FENCED_INSTANCE_ID}


def test_an_empty_group_takes_commits_of_an_admin(world: World) -> None:
    members, _ = world.stable_group()
    world.leave(*members)
    assert world.commit({ORDERS: 1}) == {ORDERS: 0}


def test_a_commit_keeps_the_session_alive(world: World) -> None:
    (member,), generation = world.stable_group(1)
    for _ in range(3):
        world.advance(9_000)
        assert world.commit({ORDERS: 5}, member_id=member, generation=generation) == {ORDERS: 0}
    assert world.heartbeat(member, generation) == ErrorCode.NONE


# What may be committed


def test_what_the_cluster_does_not_have_is_refused_part_by_part(world: World) -> None:
    codes = world.commit({ORDERS: 1, ("orders", 4): 1, ("orders", -1): 1, ("nothing", 0): 1})
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {ORDERS: 0, ("orders", 4): unknown, ("orders", -1): unknown, ("nothing", 0): unknown}
    assert world.offsets() == {ORDERS: 1}


def test_metadata_that_is_too_long_fails_for_its_partition(world: World) -> None:
    assert world.commit({ORDERS: 1}, metadata="x" * 4_097) == {ORDERS: ErrorCode.OFFSET_METADATA_TOO_LARGE}
    assert world.shard.list_groups() == []  # and makes no group
    assert world.commit({ORDERS: 1}, metadata="x" * 4_096) == {ORDERS: 0}
    assert world.commit({ORDERS: 2}, metadata=None) == {ORDERS: 0}
    assert fetched(world) == (2, "", 0)


def test_topics_by_id(world: World) -> None:
    codes = world.commit({ORDERS: 4, ("nothing", 0): 1}, version=10)
    assert codes == {ORDERS: 0, ("nothing", 0): ErrorCode.UNKNOWN_TOPIC_ID}
    orders, nothing = world.fetch([ORDERS, ("nothing", 0)], version=10).topics
    assert (orders.topic_id, orders.partitions[0].committed_offset) == (world.topics.ids["orders"], 4)
    assert (nothing.partitions[0].committed_offset, nothing.partitions[0].error_code) == (
        -1,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )


def test_offsets_of_an_earlier_topic_of_that_name_do_not_count(world: World) -> None:
    world.commit({ORDERS: 4})
    again = FakeTopics({"other": 1, "orders": 4})
    world.topics = again
    world.run(world.shard.on_metadata_changed(again, world.now_ms))
    assert fetched(world, version=10)[0] == -1


def test_the_leader_epoch_comes_back(world: World) -> None:
    world.commit({ORDERS: 4}, leader_epoch=3)
    assert world.fetch([ORDERS]).topics[0].partitions[0].committed_leader_epoch == 3


# OffsetFetch


def test_what_is_not_there_is_minus_one_without_an_error(world: World) -> None:
    assert fetched(world) == (-1, "", 0)
    assert world.fetch().topics == []
    world.commit({("clicks", 1): 3})
    assert fetched(world) == (-1, "", 0)


def test_all_topics(world: World) -> None:
    world.commit({ORDERS: 1, ("orders", 2): 2, ("clicks", 1): 3})
    assert world.offsets() == {ORDERS: 1, ("orders", 2): 2, ("clicks", 1): 3}
    by_id = world.fetch(version=10).topics
    assert {topic.topic_id for topic in by_id} == set(world.topics.ids.values())


def test_all_topics_by_id_leave_out_those_that_are_gone(world: World) -> None:
    world.commit({ORDERS: 1, ("clicks", 1): 3})
    del world.topics.ids["clicks"]
    assert [topic.name for topic in world.fetch(version=10).topics] == ["orders"]
    assert [topic.name for topic in world.fetch(version=9).topics] == ["orders", "clicks"]


# Transactions


def test_transactional_offsets_count_when_the_transaction_does(world: World) -> None:
    world.commit({ORDERS: 1})
    assert world.txn_commit({ORDERS: 9}, PRODUCER) == [0]
    assert fetched(world) == (1, "", 0)
    assert fetched(world, require_stable=True) == (-1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert world.fetch(require_stable=True).topics[0].partitions[0].error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    world.end(PRODUCER, committed=True)
    assert fetched(world, require_stable=True) == (9, "", 0)


def test_transactional_offsets_of_an_aborted_transaction_are_gone(world: World) -> None:
    world.commit({ORDERS: 1})
    world.txn_commit({ORDERS: 9}, PRODUCER)
    world.end(PRODUCER, committed=False)
    assert fetched(world, require_stable=True) == (1, "", 0)


def test_a_plain_commit_after_a_transactional_one_stays(world: World) -> None:
    world.txn_commit({ORDERS: 9}, PRODUCER)
    world.commit({ORDERS: 12})
    world.end(PRODUCER, committed=True)
    assert fetched(world) == (12, "", 0)


def test_a_marker_ends_only_its_own_producers_offsets(world: World) -> None:
    other = Producer(8, 0)
    world.txn_commit({ORDERS: 9}, PRODUCER)
    world.txn_commit({ORDERS: 10}, other)
    world.end(PRODUCER, committed=True)
    assert fetched(world) == (9, "", 0)
    assert fetched(world, require_stable=True)[2] == ErrorCode.UNSTABLE_OFFSET_COMMIT
    world.end(other, committed=True)
    assert fetched(world, require_stable=True) == (10, "", 0)


def test_records_of_a_transaction_name_their_producer(world: World) -> None:
    world.txn_commit({ORDERS: 9}, PRODUCER)
    assert world.log[-1][1] == PRODUCER
    world.txn_commit({("nothing", 0): 9}, PRODUCER)
    assert len(world.log) == 1


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"generation": 1, "member_id": "m"}, ErrorCode.ILLEGAL_GENERATION),
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
    ],
)
def test_who_may_not_commit_in_a_transaction(world: World, options: dict[str, object], code: ErrorCode) -> None:
    assert world.txn_commit({ORDERS: 9}, PRODUCER, **options) == [code]  # type: ignore[arg-type]


def test_a_group_checks_transactional_commits_too(world: World) -> None:
    (leader, follower), generation = world.stable_group()
    assert world.txn_commit({ORDERS: 1}, PRODUCER) == [0]  # old producers name no member
    assert world.txn_commit({ORDERS: 1}, PRODUCER, member_id=leader, generation=generation) == [0]
    stale = world.txn_commit({ORDERS: 1}, PRODUCER, member_id=leader, generation=generation - 1)
    assert stale == [ErrorCode.ILLEGAL_GENERATION]
    call = world.join(leader)
    world.join(follower)
    assert call.code == 0  # waits for assignments now, which does not matter here
    assert world.txn_commit({ORDERS: 1}, PRODUCER, member_id=leader, generation=generation + 1) == [0]


# OffsetDelete


def test_offsets_are_deleted_unless_the_group_reads_the_topic(world: World) -> None:
    members, generation = world.stable_group(protocols={"range": subscription("orders")})
    world.commit({ORDERS: 1, ("clicks", 1): 2}, member_id=members[0], generation=generation)
    refused = delete(world, "orders", 0).response
    assert (refused.error_code, refused.topics[0].partitions[0].error_code) == (0, ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
    assert delete(world, "clicks", 1).response.topics[0].partitions[0].error_code == 0
    assert world.offsets() == {ORDERS: 1}
    assert world.replayed().offsets.durable() == world.shard.offsets.durable()


def test_deleting_what_is_pending_keeps_it_from_coming_back(world: World) -> None:
    world.txn_commit({ORDERS: 9}, PRODUCER)
    delete(world, "orders", 0)
    world.end(PRODUCER, committed=True)
    assert world.offsets() == {}


def test_what_an_offset_delete_is_checked_for(world: World) -> None:
    assert delete(world, "orders", 0).code == ErrorCode.GROUP_ID_NOT_FOUND
    assert delete(world, "orders", 0, group_id="").code == ErrorCode.INVALID_GROUP_ID
    world.stable_group(protocol_type="connect")
    assert delete(world, "orders", 0).code == ErrorCode.NON_EMPTY_GROUP


def test_of_a_group_whose_subscription_cannot_be_read_nothing_is_deleted(world: World) -> None:
    members, generation = world.stable_group(protocols={"range": b"\0"})
    world.commit({ORDERS: 1}, member_id=members[0], generation=generation)
    call = delete(world, "orders", 0)
    assert call.response.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


# Retention


def test_a_client_may_keep_its_offsets_for_as_long_as_a_record_can_say() -> None:
    """Longer than that broke the handler, and with it the connection."""
    world = World()
    assert world.commit({ORDERS: 1}, version=4, retention_ms=(1 << 63) - 1) == {ORDERS: ErrorCode.NONE}


def test_a_retention_of_the_clients_own_counts_from_the_commit() -> None:
    world = World(GroupSettings(offsets_retention_check_interval_ms=1_000))
    world.commit({ORDERS: 1}, version=4, retention_ms=5_000)
    record = read_record(world.log[-1][0])  # type: ignore[arg-type]
    assert isinstance(record, OffsetCommitRecord)
    assert record.value is not None
    assert record.value.expire_timestamp == world.now_ms + 5_000
    world.advance(4_000)
    assert world.offsets() == {ORDERS: 1}
    world.advance(2_000)
    assert world.offsets() == {}


# What is not there


@pytest.mark.parametrize("place", [("orders", 4), ("orders", -1), ("unknown", 0)])
def test_an_offset_delete_for_what_the_cluster_does_not_have(world: World, place: tuple[str, int]) -> None:
    world.commit({ORDERS: 1})
    call = delete(world, *place)
    assert call.code == 0
    assert call.response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.offsets() == {ORDERS: 1}
