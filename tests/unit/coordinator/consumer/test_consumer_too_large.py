"""A member of a consumer group that asks for more than the log takes at once: it hears of it, and the group is as it
was.
"""

from typing import Any

from headwater.base.errors import ErrorCode
from headwater.coordinator.groups.consumer.group import ConsumerGroup
from unit.coordinator.consumer.consumer_group_support import Shard, assigned

LIMIT = 3_000
MANY = [f"topic-{number:03}" for number in range(300)]
SOFT = {"topics_version_seen", "regexes_checked"}


def bounded(shard: Shard) -> Shard:
    shard.state.batch_bytes_max = lambda: LIMIT
    return shard


def content(group: ConsumerGroup) -> dict[str, Any]:
    return {
        name: value.copy() if hasattr(value, "copy") else value
        for name, value in vars(group).items()
        if name not in SOFT
    }


def test_a_new_member_is_refused_and_the_others_go_on() -> None:
    shard = bounded(Shard({"t": 4}))
    epoch = shard.beat("a").member_epoch
    before, log, timers = content(shard.group()), list(shard.log), dict(shard.timers)
    refused = shard.beat("b", topics=MANY)
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert content(shard.group()) == before
    assert shard.log == log
    assert shard.timers == timers
    assert shard.beat("a", epoch).error_code == 0
    joined = shard.beat("b")
    assert joined.error_code == 0
    assert content(shard.reloaded().group())["members"] == shard.group().members


def test_a_member_that_grows_too_large_keeps_what_it_has() -> None:
    shard = bounded(Shard({"t": 4}))
    joined = shard.beat("a")
    before = content(shard.group())
    assert shard.beat("a", joined.member_epoch, topics=MANY).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert content(shard.group()) == before
    assert shard.beat("a", joined.member_epoch, topics=["t"], owned=[], rebalance_timeout_ms=1).error_code == 0


def test_a_group_that_was_made_for_it_is_gone() -> None:
    shard = bounded(Shard({"t": 4}))
    assert shard.beat("a", topics=MANY).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert shard.state.groups == {}
    assert assigned(shard.beat("a")) == [0, 1, 2, 3]


def test_an_empty_classic_group_is_not_replaced() -> None:
    shard = Shard({"t": 4})
    shard.join("", ["t"], version=3)
    (member_id,) = shard.state.groups["g"].members  # type: ignore[attr-defined]
    shard.leave(member_id)
    classic = shard.state.groups["g"]
    assert classic.is_empty
    bounded(shard)
    assert shard.beat("a", topics=MANY).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert shard.state.groups == {"g": classic}


def test_a_static_member_that_comes_back_too_large_does_not_put_out_the_one_before() -> None:
    shard = bounded(Shard({"t": 4}))
    epoch = shard.beat("a", instance_id="one").member_epoch
    shard.beat("a", -2, instance_id="one")
    before = content(shard.group())
    assert shard.beat("b", instance_id="one", topics=MANY).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert content(shard.group()) == before
    back = shard.beat("b", instance_id="one")
    assert assigned(back) == [0, 1, 2, 3]
    assert back.member_epoch >= epoch


def test_topics_that_changed_are_looked_at_again_after_a_refusal() -> None:
    shard = bounded(Shard({"t": 2}))
    epoch = shard.beat("a").member_epoch
    shard.change_topics(t=2_000)
    assert shard.beat("a", epoch).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    shard.state.batch_bytes_max = lambda: 1 << 20
    grown = assigned(shard.beat("a", epoch))
    assert grown is not None
    assert len(grown) == 2_000


def test_a_classic_member_of_a_consumer_group_is_refused() -> None:
    shard = bounded(Shard({"t": 4}))
    epoch = shard.beat("a").member_epoch
    before = content(shard.group())
    assert shard.join("", MANY, version=3).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert content(shard.group()) == before
    assert shard.beat("a", epoch).error_code == 0
