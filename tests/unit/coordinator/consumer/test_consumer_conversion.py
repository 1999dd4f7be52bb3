"""The two protocols in one group: classic members served by a consumer group, and groups that change their type with
their members.
"""

import pytest

from headwater.base.errors import ErrorCode
from headwater.coordinator.groups.classic.group import ClassicGroup
from headwater.coordinator.groups.consumer import embedded
from headwater.coordinator.records.group_records import GroupMetadataRecord, read_record
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headwater.wire.messages.sync_group import SyncGroupRequestAssignment
from unit.coordinator.consumer.consumer_group_support import (
    Shard,
    assigned,
    classic_assignment,
    durable,
    names,
    subscription,
)


def classic_group(shard: Shard, partitions: list[int]) -> str:
    """One member of a classic group that has these partitions of t. Gives its id."""
    member_id = shard.join("", ["t"], version=3).member_id
    data = embedded.write_assignment(
        [(shard.state.topics.ids["t"], each) for each in partitions], shard.state.topics, 1
    )
    shard.sync(member_id, 1, assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=data)])
    return member_id


@pytest.fixture
def shard() -> Shard:
    return Shard({"t": 4, "u": 1})


def test_a_classic_group_becomes_a_consumer_group_and_its_member_keeps_its_partitions(shard: Shard) -> None:
    old = classic_group(shard, [0, 1, 2, 3])
    joined = shard.beat("new")
    assert (joined.error_code, joined.member_epoch, assigned(joined)) == (0, 2, [])
    assert shard.group().members[old].classic is not None
    assert shard.classic_beat(old, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = shard.join(old, ["t"], owned=names([0, 1, 2, 3]))
    assert (again.error_code, again.generation_id, again.protocol_name) == (0, 1, "range")
    half = classic_assignment(shard.sync(old, 1).assignment)
    assert len(half) == 2
    assert shard.classic_beat(old, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS  # it has something to give up
    assert shard.join(old, ["t"], owned=half).generation_id == 2
    assert classic_assignment(shard.sync(old, 2).assignment) == half
    assert shard.classic_beat(old, 2).error_code == 0
    got = assigned(shard.beat("new", 2))
    assert sorted([*got, *(partition for _, partition in half)]) == [0, 1, 2, 3]
    assert shard.group().state_name == "Stable"
    assert durable(shard.reloaded()) == durable(shard)


def test_who_waits_in_the_classic_group_is_sent_to_join_again(shard: Shard) -> None:
    shard.state.settings = shard.state.settings.__class__(initial_rebalance_delay_ms=3_000)
    assert shard.join("", ["t"], version=3) is None
    waiting = shard.waiting
    assert shard.beat("new").error_code == 0
    assert shard.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert not [key for key in shard.timers if key[0] == "classic"]


def test_when_the_last_of_the_consumer_protocol_leaves_the_group_is_a_classic_one(shard: Shard) -> None:
    old = classic_group(shard, [0, 1, 2, 3])
    shard.beat("new")
    assert shard.beat("new", -1).error_code == 0
    group = shard.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.state_name, group.generation, list(group.members)) == ("PreparingRebalance", 2, [old])
    assert not [key for key in shard.timers if key[0] == "consumer"]
    reloaded = shard.reloaded().state.groups["g"]
    assert isinstance(reloaded, ClassicGroup)
    assert list(reloaded.members) == [old]
    assert shard.join(old, ["t"]).generation_id == 3


def test_what_a_classic_member_has_not_given_up_yet_is_given_to_nobody_in_a_group_that_goes_there_and_back(
    shard: Shard,
) -> None:
    """It was to give half of it to a member that left again. The next one got that half at once, and both had it."""
    old = classic_group(shard, [0, 1, 2, 3])
    shard.beat("new")
    shard.beat("new", -1)
    assert isinstance(shard.state.groups["g"], ClassicGroup)
    again = shard.beat("newer")
    assert (again.error_code, assigned(again)) == (0, [])
    assert len(shard.group().members[old].assigned) == 4


def test_so_it_is_when_its_session_ends(shard: Shard) -> None:
    old = classic_group(shard, [0])
    shard.beat("new")
    for _ in range(9):
        shard.advance(5_000)
        member = shard.state.groups["g"].members[old]
        epoch = getattr(member, "member_epoch", 0)
        shard.classic_beat(old, epoch)
    assert isinstance(shard.state.groups["g"], ClassicGroup)


POLICIES = {"disabled": (False, False), "upgrade": (True, False), "downgrade": (False, True)}


@pytest.mark.parametrize(("policy", "allowed"), POLICIES.items(), ids=POLICIES)
def test_the_policy_says_what_may_happen(policy: str, allowed: tuple[bool, bool]) -> None:
    up, down = allowed
    shard = Shard({"t": 4}, consumer_migration_policy=policy)
    classic_group(shard, [0, 1, 2, 3])
    assert shard.beat("new").error_code == (0 if up else ErrorCode.GROUP_ID_NOT_FOUND)
    other = Shard({"t": 4}, consumer_migration_policy=policy)
    other.beat("a")
    other.join("b", ["t"])
    other.beat("a", -1)
    assert isinstance(other.state.groups["g"], ClassicGroup) == down


def test_a_group_of_another_kind_is_left_alone(shard: Shard) -> None:
    shard.join("", ["t"], version=3, protocol_type="connect")
    before = durable(shard)
    assert shard.beat("new").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert durable(shard) == before


def test_custom_assignors_are_not_taken_over(shard: Shard) -> None:
    member_id = shard.join("", ["t"], version=3).member_id
    data = b"\0\1" + b"\0\0\0\0" + b"\0\0\0\1x"
    shard.sync(member_id, 1, assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=data)])
    response = shard.beat("new")
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "custom assignor" in (response.error_message or "")


def test_a_refused_member_does_not_convert_the_group(shard: Shard) -> None:
    classic_group(shard, [0])
    before = durable(shard)
    assert shard.beat("new", subscribed_topic_regex="(").error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert durable(shard) == before
    assert isinstance(shard.state.groups["g"], ClassicGroup)


def test_an_empty_classic_group_is_replaced(shard: Shard) -> None:
    member_id = classic_group(shard, [0])
    shard.leave(member_id)
    assert shard.state.groups["g"].is_empty
    assert shard.beat("new").error_code == 0
    first = read_record(shard.last_records[0])
    assert isinstance(first, GroupMetadataRecord)
    assert first.value is None
    assert durable(shard.reloaded()) == durable(shard)


def test_a_dynamic_member_is_first_given_an_id(shard: Shard) -> None:
    shard.beat("a")
    response = shard.join("", ["t"], version=4)
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert shard.join(response.member_id, ["t"], version=4).error_code == 0


JOINS = {
    "another protocol type": ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    "no protocol in common": ({"protocols": ["sticky"]}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    "no protocols": ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    "an unknown instance with an id": ({"group_instance_id": "x"}, ErrorCode.UNKNOWN_MEMBER_ID),
}


@pytest.mark.parametrize(("fields", "code"), JOINS.values(), ids=JOINS)
def test_refused_joins(shard: Shard, fields: dict, code: ErrorCode) -> None:
    shard.beat("a")
    shard.join("b", ["t"])
    before = durable(shard)
    assert shard.join("c", ["t"], **fields).error_code == code
    assert durable(shard) == before


def test_a_full_group_refuses_classic_members_too() -> None:
    shard = Shard({"t": 1}, consumer_group_size_max=1)
    shard.beat("a")
    assert shard.join("b", ["t"]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_what_sync_and_heartbeat_refuse(shard: Shard) -> None:
    shard.beat("a")
    generation = shard.join("b", ["t"]).generation_id
    assert shard.sync("b", generation + 1).error_code == ErrorCode.ILLEGAL_GENERATION
    assert shard.sync("x", generation).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.sync("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert shard.sync("b", generation, protocol_name="x").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shard.classic_beat("b", generation - 1).error_code == ErrorCode.ILLEGAL_GENERATION
    assert shard.classic_beat("a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    shard.beat("c")
    assert shard.sync("b", generation).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_who_does_not_come_back_to_join_is_put_out(shard: Shard) -> None:
    shard.beat("a", topics=["u"])
    generation = shard.join("b", ["t"], rebalance_timeout_ms=20_000).generation_id
    shard.sync("b", generation)
    shard.beat("c", topics=["u"])
    for _ in range(4):
        assert shard.classic_beat("b", generation).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        shard.advance(5_000)
    assert shard.classic_beat("b", generation).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_who_does_not_sync_in_time_is_put_out(shard: Shard) -> None:
    shard.beat("a")
    generation = shard.join("b", ["t"], rebalance_timeout_ms=10_000).generation_id
    shard.advance(9_999)
    assert shard.classic_beat("b", generation).error_code == 0
    shard.advance(1)
    assert shard.classic_beat("b", generation).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_leave_group_answers_for_each(shard: Shard) -> None:
    shard.beat("a")
    shard.join("b", ["t"])
    response = shard.leave("b", "x")
    assert [member.error_code for member in response.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert sorted(shard.group().members) == ["a"]


def test_a_static_member_that_comes_back_with_the_classic_protocol_ends_the_consumer_group(shard: Shard) -> None:
    shard.beat("a", instance_id="i")
    shard.beat("a", -2, instance_id="i")
    joined = shard.join("", ["t"], group_instance_id="i")
    assert joined.error_code == 0
    group = shard.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert (group.state_name, group.generation, list(group.members)) == ("Stable", 2, [joined.member_id])
    synced = shard.sync(joined.member_id, joined.generation_id, group_instance_id="i")
    assert classic_assignment(synced.assignment) == names([0, 1, 2, 3])


def test_with_another_subscription_it_goes_through_a_rebalance(shard: Shard) -> None:
    shard.beat("a", instance_id="i")
    shard.beat("a", -2, instance_id="i")
    joined = shard.join("", ["u"], group_instance_id="i")
    group = shard.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.state_name == "PreparingRebalance"
    assert shard.join(joined.member_id, ["u"], group_instance_id="i").error_code == 0


MALFORMED = [b"", b"\0", b"\xff\xff\0\0\0\0", b"\0\0\x7f\xff\xff\xff", b"\0\0\0\0\0\1\0\5ab", b"\0\0\0\0\0\1\0\1a"]


@pytest.mark.parametrize("data", MALFORMED)
def test_malformed_subscriptions_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        embedded.read_subscription(data)


def test_a_later_version_of_the_subscription_is_read_as_the_last_known() -> None:
    data = b"\0\7" + b"\0\0\0\1\0\1t" + b"\xff\xff\xff\xff" + b"\0\0\0\0" + b"\0\0\0\5" + b"\0\1r" + b"more"
    assert embedded.read_subscription(data) == embedded.Subscription(7, ["t"], [], "r")


@pytest.mark.parametrize("metadata", [b"", b"\1", b"\xff\xff", b"\0\1garbage"])
def test_a_second_protocol_that_nobody_can_read_does_not_keep_the_group_from_becoming_classic(
    shard: Shard, metadata: bytes
) -> None:
    """The first one alone was looked at. The last member of the consumer protocol could neither leave nor be put
    out.
    """
    shard.beat("new")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[
            JoinGroupRequestProtocol(name="range", metadata=subscription(["t"])),
            JoinGroupRequestProtocol(name="sticky", metadata=metadata),
        ],
    )
    assert shard._classic("join_group", request, 3).error_code == 0
    assert shard.join("", ["t"], version=3, protocols=["sticky"]).error_code == 0
    assert shard.beat("new", -1).error_code == 0
    group = shard.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert group.protocol_name == "sticky"


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, -1])
def test_the_session_of_a_classic_member_is_as_long_as_in_a_classic_group(shard: Shard, session_ms: int) -> None:
    shard.beat("new")
    refused = shard.join("", ["t"], version=3, session_timeout_ms=session_ms)
    assert refused.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert list(shard.group().members) == ["new"]
