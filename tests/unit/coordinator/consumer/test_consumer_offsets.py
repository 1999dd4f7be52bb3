"""Who may commit and fetch offsets of a consumer group, and what else can be asked of it."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.coordinator.groups.consumer.group import ConsumerGroup
from headwater.coordinator.groups.context import GroupContext
from unit.coordinator.consumer.consumer_group_support import Shard, names, topic_id

V9 = GroupContext(9)


@pytest.fixture
def shard() -> Shard:
    shard = Shard({"t": 4})
    shard.beat("a")
    shard.beat("b")
    shard.beat("a", 2, owned=names([0, 1, 2, 3]))
    shard.beat("a", 2, owned=names([0, 1]))
    shard.beat("b", 3)
    return shard  # a has 0 and 1 since epoch 2, b has 2 and 3 since epoch 3; both are in 3


COMMITS = {
    "of its epoch": (("a", 3), None),
    "of an unknown member": (("x", 3), ErrorCode.UNKNOWN_MEMBER_ID),
    "of nobody, while there are members": (("", -1), ErrorCode.UNKNOWN_MEMBER_ID),
    "of a later epoch": (("a", 4), ErrorCode.STALE_MEMBER_EPOCH),
}


@pytest.mark.parametrize(("who", "code"), COMMITS.values(), ids=COMMITS)
def test_commit(shard: Shard, who: tuple[str, int], code: ErrorCode | None) -> None:
    assert _code(lambda: shard.group().validate_offset_commit(V9, who[0], None, who[1], transactional=False)) == code


def test_a_commit_of_an_older_epoch_counts_for_what_the_member_has_had_since(shard: Shard) -> None:
    allowed = shard.group().validate_offset_commit(V9, "a", None, 2, transactional=False)
    assert allowed is not None
    assert _code(lambda: allowed("t", topic_id("t"), 0)) is None
    assert _code(lambda: allowed("t", topic_id("t"), 2)) == ErrorCode.STALE_MEMBER_EPOCH  # b has it now
    too_old = shard.group().validate_offset_commit(V9, "b", None, 2, transactional=False)
    assert too_old is not None
    assert _code(lambda: too_old("t", topic_id("t"), 2)) == ErrorCode.STALE_MEMBER_EPOCH  # it had it since 3 only


def test_what_is_to_be_given_up_can_still_be_committed() -> None:
    shard = Shard({"t": 2})
    shard.beat("a")
    shard.beat("b")
    shard.beat("a", 2, owned=names([0, 1]))
    assert shard.group().validate_offset_commit(V9, "a", None, 2, transactional=False) is None


def test_a_commit_of_an_old_version_is_refused(shard: Shard) -> None:
    group = shard.group()
    code = _code(lambda: group.validate_offset_commit(GroupContext(8), "a", None, 3, transactional=False))
    assert code == ErrorCode.UNSUPPORTED_VERSION
    assert _code(lambda: group.validate_offset_commit(GroupContext(3), "a", None, 3, transactional=True)) is None


def test_a_producer_that_names_no_member_may_commit(shard: Shard) -> None:
    assert shard.group().validate_offset_commit(V9, "", None, -1, transactional=True) is None


def test_an_admin_may_commit_to_an_empty_group() -> None:
    assert ConsumerGroup("g").validate_offset_commit(V9, "", None, -1, transactional=False) is None


FETCHES = {
    "an admin": ((None, -1), None),
    "a member": (("a", 3), None),
    "an old epoch": (("a", 2), ErrorCode.STALE_MEMBER_EPOCH),
    "an unknown member": (("x", 3), ErrorCode.UNKNOWN_MEMBER_ID),
}


@pytest.mark.parametrize(("who", "code"), FETCHES.values(), ids=FETCHES)
def test_fetch(shard: Shard, who: tuple[str | None, int], code: ErrorCode | None) -> None:
    assert _code(lambda: shard.group().validate_offset_fetch(*who)) == code


def test_listed_described_deleted(shard: Shard) -> None:
    group = shard.group()
    listed = group.listed()
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "g",
        "consumer",
        "Stable",
        "consumer",
    )
    assert _code(group.describe) == ErrorCode.GROUP_ID_NOT_FOUND
    assert _code(group.validate_delete) == ErrorCode.NON_EMPTY_GROUP
    assert (group.is_subscribed_to("t"), group.is_subscribed_to("u")) == (True, False)
    shard.beat("a", -1)
    shard.beat("b", -1)
    assert _code(group.validate_delete) is None


def test_its_tombstones_leave_nothing(shard: Shard) -> None:
    shard.beat("c", subscribed_topic_regex="t.*")
    log = [*shard.log, *shard.group().tombstones()]
    assert shard.reloaded(log).state.groups == {}
    assert set(shard.timers) <= set(shard.group().timer_keys())


def test_an_owner_stays_known_when_the_record_that_made_room_for_it_is_gone(shard: Shard) -> None:
    """First a has everything, last it has half, and b came between:
    as if what a gave up had been compacted away alone.
    """
    current = [record for record in shard.log if record.key[:2] == b"\0\x08"]
    first, last_of_a = current[0], [record for record in current if record.key == current[0].key][-1]
    last_of_b = [record for record in current if record.key != first.key][-1]
    group = shard.reloaded([first, last_of_b, last_of_a]).group()
    assert {partition: owner for (_, partition), owner in group.owners.items()} == {0: "a", 1: "a", 2: "b", 3: "b"}


def _code(action) -> ErrorCode | None:
    try:
        action()
    except KafkaError as error:
        return error.code
    return None
