"""Subscriptions by regular expression: resolved when they come, looked at again when topics change, dropped with their
last member.
"""

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.coordinator.groups.consumer.subscriptions import compile_regex, metadata_hash
from unit.coordinator.consumer.consumer_group_support import Shard, assigned, durable


@pytest.fixture
def shard() -> Shard:
    return Shard({"orders": 2, "orders-old": 1, "other": 3})


def test_the_whole_name_must_match(shard: Shard) -> None:
    response = shard.beat("a", subscribed_topic_regex="orders")
    assert (assigned(response, "orders"), assigned(response, "orders-old")) == ([0, 1], [])


def test_names_and_expressions_add_up(shard: Shard) -> None:
    response = shard.beat("a", topics=["other"], subscribed_topic_regex="orders-.*")
    assert (assigned(response, "other"), assigned(response, "orders-old")) == ([0, 1, 2], [0])


def test_a_new_topic_is_found_but_not_every_moment(shard: Shard) -> None:
    shard.beat("a", subscribed_topic_regex="o.*")
    shard.change_topics(orders=2, other=3, ordinary=1)
    shard.advance(10_000)
    assert shard.beat("a", 2).assignment is not None  # a topic is gone
    epoch = shard.group().members["a"].member_epoch
    shard.advance(1)
    response = shard.beat("a", epoch, owned=[])
    assert assigned(response, "ordinary") == [0]


def test_what_changed_nothing_is_not_written(shard: Shard) -> None:
    shard.beat("a", subscribed_topic_regex="orders")
    shard.change_topics(orders=2, other=3)
    shard.advance(20_000)
    shard.beat("a", 2)
    assert shard.last_records == []


def test_it_goes_with_its_last_member(shard: Shard) -> None:
    shard.beat("a", subscribed_topic_regex="orders.*")
    shard.beat("b", subscribed_topic_regex="orders.*")
    shard.beat("a", -1)
    assert set(shard.group().regexes) == {"orders.*"}
    shard.beat("b", shard.group().members["b"].member_epoch, subscribed_topic_regex="other", owned=[])
    assert set(shard.group().regexes) == {"other"}
    shard.beat("b", -1)
    assert shard.group().regexes == {}
    assert durable(shard.reloaded()) == durable(shard)


def test_an_empty_expression_ends_the_subscription(shard: Shard) -> None:
    shard.beat("a", subscribed_topic_regex="orders")
    response = shard.beat("a", 2, subscribed_topic_regex="", owned=[])
    assert assigned(response, "orders") == []


def test_an_expression_of_many_alternatives_stays_cheap() -> None:
    """Python's `re` needs exponential time for this one."""
    assert compile_regex("(a+)+$").fullmatch("a" * 200 + "b") is None


@pytest.mark.parametrize("pattern", ["[", "*", "a{1001}", r"(a)\1", "x" * 10_001, "((a{100}){100}){100}"])
def test_refused(pattern: str) -> None:
    with pytest.raises(KafkaError) as refused:
        compile_regex(pattern)
    assert refused.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


def test_the_hash_sees_topics_that_exist_and_their_partitions(shard: Shard) -> None:
    topics = shard.state.topics
    first = metadata_hash(["orders", "other"], topics)
    assert first == metadata_hash(["other", "orders", "none"], topics)
    assert first != metadata_hash(["orders"], topics)
    assert metadata_hash(["none"], topics) == 0
    shard.change_topics(orders=3, other=3)
    assert first != metadata_hash(["orders", "other"], shard.state.topics)
