"""Our admin client on groups, committed offsets and transactions: the same against Apache Kafka."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from compat.support.broker import BrokerProcess
from compat.support.members import until
from compat.support.topics import fill
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin import Admin, Committed, MemberToRemove
from headwater.client.outcomes import all_or_raise, only


@pytest.fixture
def admin(group_broker: BrokerProcess) -> Iterator[Admin]:
    with Admin(bootstrap_servers=group_broker.bootstrap) as made:
        yield made


def code_of(outcome: object) -> ErrorCode:
    assert isinstance(outcome, KafkaError), outcome
    return outcome.code


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_from_its_members_to_its_end(
    admin: Admin,
    group_broker: BrokerProcess,
    group_topic: Callable[..., str],
    join: Callable[..., Any],
    protocol: str,
) -> None:
    topic = group_topic(2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    fill(group_broker.bootstrap, topic, 2, 10)
    member = join("confluent", group=topic, topics=(topic,), protocol=protocol)
    until(lambda: len(member.received) == 20, lambda: member.errors)
    member.commit({(topic, 0): 10, (topic, 1): 4})

    assert topic in [each.group_id for each in admin.list_groups(states=["Stable"], types=[protocol])]
    other = "consumer" if protocol == "classic" else "classic"
    assert topic not in [each.group_id for each in admin.list_groups(types=[other])]
    described = admin.describe_groups([topic, "no.such.group"])
    assert code_of(described["no.such.group"]) == ErrorCode.GROUP_ID_NOT_FOUND
    found = admin.describe_group(topic)
    assert (found.type.lower(), found.state, found.coordinator.id) == (protocol, "Stable", 0)
    assert sorted(found.held_by()) == [first, second]
    assert {each: at.offset for each, at in admin.list_group_offsets(topic).items()} == {first: 10, second: 4}
    assert code_of(admin.delete_groups([topic])[topic]) == ErrorCode.NON_EMPTY_GROUP
    assert code_of(admin.alter_group_offsets(topic, {first: 1})[first]) == ErrorCode.UNKNOWN_MEMBER_ID
    assert code_of(admin.delete_group_offsets(topic, [first])[first]) == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

    member.close()
    until(lambda: admin.describe_group(topic).state == "Empty", lambda: admin.describe_group(topic))
    all_or_raise(admin.alter_group_offsets(topic, {first: 3, second: Committed(2, metadata="why")}))
    assert admin.list_group_offsets(topic, [second]) == {second: Committed(2, -1, "why")}
    all_or_raise(admin.delete_group_offsets(topic, [first]))
    assert list(admin.list_group_offsets(topic)) == [second]
    all_or_raise(admin.delete_groups([topic]))
    assert code_of(admin.delete_groups([topic])[topic]) == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_static_member_is_sent_away_at_once(
    admin: Admin, group_topic: Callable[..., str], join: Callable[..., Any]
) -> None:
    """A static member that goes leaves no word: its partitions would wait for its session to end."""
    topic = group_topic(1)
    member = join("confluent", group=topic, topics=(topic,), instance=f"{topic}-one", session_ms=60_000)
    until(lambda: bool(member.assignment), lambda: member.errors)
    unknown = MemberToRemove("somebody else")
    assert code_of(admin.remove_members(topic, [unknown])[unknown]) == ErrorCode.UNKNOWN_MEMBER_ID
    member.close()
    assert len(admin.describe_group(topic).members) == 1
    assert admin.remove_members(topic) == {MemberToRemove(f"{topic}-one"): None}
    assert admin.describe_group(topic).members == []


def test_offsets_of_a_group_that_nobody_joined(admin: Admin, group_topic: Callable[..., str]) -> None:
    topic = group_topic(1)
    assert admin.list_group_offsets(topic) == {}
    all_or_raise(admin.alter_group_offsets(topic, {TopicPartition(topic, 0): 0}))
    assert admin.describe_group(topic).state == "Empty"
    all_or_raise(admin.delete_groups([topic]))


def test_transactions_are_listed_described_and_fenced(
    admin: Admin, group_topic: Callable[..., str], transactional: Callable[..., Any]
) -> None:
    topic = group_topic(1)
    partition = TopicPartition(topic, 0)
    producer = transactional("confluent", topic)
    producer.begin()
    producer.send((topic, 0), "open")
    until(lambda: bool(only(admin.describe_producers([partition]))), lambda: None)
    (listed,) = admin.list_transactions(states=["Ongoing"], pattern=topic.replace(".", r"\."))
    assert (listed.transactional_id, listed.state) == (topic, "Ongoing")
    assert admin.list_transactions(running_longer_than_ms=3_600_000, pattern=topic.replace(".", r"\.")) == []
    described = only(admin.describe_transactions([topic]))
    assert (described.state, described.partitions) == ("Ongoing", [partition])
    (active,) = only(admin.describe_producers([partition]))
    assert (active.producer_id, active.transaction_start_offset) == (described.producer_id, 0)
    with pytest.raises(KafkaError) as missing:
        admin.describe_transaction("no such id")
    assert missing.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    fenced = only(admin.fence_producers([topic]))
    assert fenced.producer_epoch > described.producer_epoch or fenced.producer_id != described.producer_id
    until(
        lambda: only(admin.describe_producers([partition]))[0].transaction_start_offset == -1,
        lambda: admin.describe_producers([partition]),
    )
    assert admin.describe_transaction(topic).state in ("CompleteAbort", "Empty")


def test_a_marker_past_the_coordinator_ends_a_transaction(
    admin: Admin, group_topic: Callable[..., str], transactional: Callable[..., Any]
) -> None:
    topic = group_topic(1)
    partition = TopicPartition(topic, 0)
    producer = transactional("confluent", topic)
    producer.begin()
    producer.send((topic, 0), "open")
    until(lambda: bool(only(admin.describe_producers([partition]))), lambda: None)
    (active,) = only(admin.describe_producers([partition]))
    admin.abort_transaction(partition, active.producer_id, active.producer_epoch, active.coordinator_epoch)
    (after,) = only(admin.describe_producers([partition]))
    assert after.transaction_start_offset == -1
