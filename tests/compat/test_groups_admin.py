"""Groups through every admin client and Kafka's own tools: list, describe, offsets, delete."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import confluent_kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient, OffsetAndMetadata, TopicPartition

from compat.support.broker import BrokerProcess
from compat.support.java import Java, JavaError
from compat.support.members import until
from compat.support.topics import fill

GROUPS_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, GROUP_SUBSCRIBED_TO_TOPIC = 69, 68, 86


@pytest.fixture
def living(group_broker: BrokerProcess, group_topic: Callable[..., str], join: Callable[..., Any]) -> Any:
    """A group of one member that has read ten records of each of two partitions and committed 10 and 4."""
    topic = group_topic(2)
    fill(group_broker.bootstrap, topic, 2, 10)
    member = join("confluent", group=topic, topics=(topic,))
    until(lambda: len(member.received) == 20, lambda: member.errors)
    member.commit({(topic, 0): 10, (topic, 1): 4})
    return member


def test_confluent(group_broker: BrokerProcess, living: Any) -> None:
    topic = living.joining.group
    admin = AdminClient({"bootstrap.servers": group_broker.bootstrap})
    listed = {one.group_id: one for one in admin.list_consumer_groups().result(60).valid}
    assert (listed[topic].state.name, listed[topic].type.name) == ("STABLE", "CLASSIC")
    assert not listed[topic].is_simple_consumer_group
    described = admin.describe_consumer_groups([topic])[topic].result(60)
    assert (described.state.name, described.partition_assignor, described.coordinator.id) == ("STABLE", "range", 0)
    (member,) = described.members
    assert member.client_id == "rdkafka"
    assert [(one.topic, one.partition) for one in member.assignment.topic_partitions] == [(topic, 0), (topic, 1)]
    wanted = confluent_kafka.ConsumerGroupTopicPartitions(topic)
    found = admin.list_consumer_group_offsets([wanted])[topic].result(60).topic_partitions
    assert {one.partition: one.offset for one in found} == {0: 10, 1: 4}
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        admin.delete_consumer_groups([topic])[topic].result(60)
    assert refused.value.args[0].code() == NON_EMPTY_GROUP
    living.close()
    altered = confluent_kafka.ConsumerGroupTopicPartitions(topic, [confluent_kafka.TopicPartition(topic, 1, 2)])
    admin.alter_consumer_group_offsets([altered])[topic].result(60)
    found = admin.list_consumer_group_offsets([wanted])[topic].result(60).topic_partitions
    assert {one.partition: one.offset for one in found} == {0: 10, 1: 2}
    admin.delete_consumer_groups([topic])[topic].result(60)
    assert topic not in {one.group_id for one in admin.list_consumer_groups().result(60).valid}
    with pytest.raises(confluent_kafka.KafkaException) as gone:
        admin.delete_consumer_groups([topic])[topic].result(60)
    assert gone.value.args[0].code() == GROUP_ID_NOT_FOUND


def test_java(group_broker: BrokerProcess, living: Any, group_java: Java) -> None:
    topic = living.joining.group

    def admin(call: str, **arguments: Any) -> Any:
        return group_java.group_admin(group_broker.bootstrap, call, **arguments)

    def code(call: str, **arguments: Any) -> int:
        with pytest.raises(JavaError) as refused:
            admin(call, **arguments)
        return refused.value.code

    assert admin("listGroups")[topic] == {"type": "Classic", "protocol": "consumer", "state": "Stable"}
    described = admin("describeGroup", group=topic)
    assert (described["state"], described["assignor"]) == ("Stable", "range")
    (member,) = described["members"]
    assert (member["clientId"], member["host"]) == ("rdkafka", "/127.0.0.1")
    assert sorted(member["assignment"]) == [[topic, 0], [topic, 1]]
    assert sorted(admin("offsets", group=topic)["offsets"]) == [[topic, 0, 10], [topic, 1, 4]]
    assert code("deleteGroup", group=topic) == NON_EMPTY_GROUP
    assert code("deleteOffsets", group=topic, places=[[topic, 0]]) == GROUP_SUBSCRIBED_TO_TOPIC
    living.close()
    assert admin("describeGroup", group=topic)["state"] == "Empty"
    admin("deleteOffsets", group=topic, places=[[topic, 0]])
    assert admin("offsets", group=topic)["offsets"] == [[topic, 1, 4]]
    admin("alterOffsets", group=topic, offsets=[[topic, 0, 3]])
    assert sorted(admin("offsets", group=topic)["offsets"]) == [[topic, 0, 3], [topic, 1, 4]]
    admin("deleteGroup", group=topic)
    assert topic not in admin("listGroups")
    assert code("deleteGroup", group=topic) == GROUP_ID_NOT_FOUND
    assert code("describeGroup", group=topic) == GROUP_ID_NOT_FOUND
    assert admin("offsets", group=topic)["offsets"] == []


def test_kafka_python(group_broker: BrokerProcess, living: Any) -> None:
    topic = living.joining.group
    admin = KafkaAdminClient(bootstrap_servers=group_broker.bootstrap)
    try:
        assert topic in str(admin.list_groups())
        described = admin.describe_groups([topic])
        assert "Stable" in str(described)
        one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
        found = admin.list_group_offsets({topic: None})[topic]
        assert {place: offset.offset for place, offset in found.items()} == {one: 10, two: 4}
        assert "NonEmptyGroup" in str(admin.delete_groups([topic]))
        living.close()
        admin.alter_group_offsets(topic, {one: OffsetAndMetadata(3, "", -1)})
        admin.delete_group_offsets(topic, [two])
        found = admin.list_group_offsets({topic: None})[topic]
        assert {place: offset.offset for place, offset in found.items()} == {one: 3}
        admin.delete_groups([topic])
        assert topic not in str(admin.list_groups())
    finally:
        admin.close()


def test_aiokafka(group_broker: BrokerProcess, living: Any) -> None:
    topic = living.joining.group

    async def run() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=group_broker.bootstrap)
        await admin.start()
        try:
            assert (topic, "consumer") in await admin.list_consumer_groups()
            (described,) = await admin.describe_consumer_groups([topic])
            assert "Stable" in str(described)
            found = await admin.list_consumer_group_offsets(topic)
            assert {place.partition: offset.offset for place, offset in found.items()} == {0: 10, 1: 4}
            assert await admin.find_coordinator(topic) == 0
        finally:
            await admin.close()

    asyncio.run(run())


def test_kafka_consumer_groups(group_broker: BrokerProcess, living: Any, group_java: Java) -> None:
    topic = living.joining.group

    def tool(*arguments: str, status: int = 0) -> str:
        answer = group_java.tool(GROUPS_TOOL, "--bootstrap-server", group_broker.bootstrap, *arguments)
        assert answer.status == status, answer
        return answer.stdout

    assert topic in tool("--list").split()
    assert re.search(rf"{re.escape(topic)} +Stable", tool("--list", "--state"))
    lines = tool("--describe", "--group", topic).splitlines()
    header = next(line for line in lines if line.startswith("GROUP"))
    assert header.split()[:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    rows = {line.split()[2]: line.split()[3:6] for line in lines if line.startswith(topic)}
    assert rows == {"0": ["10", "10", "0"], "1": ["4", "10", "6"]}
    assert re.search(rf"{re.escape(topic)} .*\(0\) +range +Stable +1", tool("--describe", "--group", topic, "--state"))
    assert "rdkafka" in tool("--describe", "--group", topic, "--members", "--verbose")
    living.close()
    reset = ["--reset-offsets", "--group", topic, "--topic", topic, "--to-earliest"]
    tool(*reset, "--dry-run")
    rows = _offsets(tool("--describe", "--group", topic), topic)
    assert rows == {"0": "10", "1": "4"}
    tool(*reset, "--execute")
    assert _offsets(tool("--describe", "--group", topic), topic) == {"0": "0", "1": "0"}
    assert "Successful" in tool("--delete-offsets", "--group", topic, "--topic", f"{topic}:0")
    assert _offsets(tool("--describe", "--group", topic), topic).keys() == {"1"}
    assert "successful" in tool("--delete", "--group", topic)
    assert topic not in tool("--list").split()


def _offsets(described: str, group: str) -> dict[str, str]:
    return {line.split()[2]: line.split()[3] for line in described.splitlines() if line.startswith(group)}
