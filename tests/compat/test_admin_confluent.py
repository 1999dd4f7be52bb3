"""Admin calls by librdkafka, which asks for other versions than Java and still uses AlterConfigs."""

from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from compat.support.clients.base import Message
from compat.support.clients.confluent import Confluent
from compat.support.raw import wait_until

TIMEOUT_S = 45


@pytest.fixture
def admin(broker_address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker_address})


def result(futures: dict[Any, Any]) -> Any:
    (future,) = futures.values()
    return future.result(TIMEOUT_S)


def code(futures: dict[Any, Any]) -> int:
    with pytest.raises(KafkaException) as raised:
        result(futures)
    number: int = raised.value.args[0].code()
    return number


def create(admin: AdminClient, new: NewTopic) -> None:
    """Waits until the topic is known, too: Apache Kafka answers a little earlier."""
    result(admin.create_topics([new]))
    wait_until(lambda: new.topic in admin.list_topics(timeout=TIMEOUT_S).topics, "known")


def test_create_describe_and_delete_topic(admin: AdminClient, topic: str) -> None:
    create(admin, NewTopic(topic, 2, 1))
    assert code(admin.create_topics([NewTopic(topic, 2, 1)])) == 36
    described = result(admin.describe_topics(TopicCollection([topic])))
    assert (described.name, described.is_internal, len(described.partitions)) == (topic, False, 2)
    assert [partition.leader.id for partition in described.partitions] == [0, 0]
    assert str(described.topic_id)
    listed = admin.list_topics(timeout=TIMEOUT_S)
    assert sorted(listed.topics[topic].partitions) == [0, 1]
    assert listed.controller_id == 0
    result(admin.delete_topics([topic]))
    assert code(admin.delete_topics([topic])) == 3
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_create_topic_refuses(admin: AdminClient, topic: str) -> None:
    assert code(admin.create_topics([NewTopic("not allowed!", 1, 1)])) == 17
    assert code(admin.create_topics([NewTopic(topic, 1, 9)])) == 38
    assert code(admin.create_topics([NewTopic(topic, 1, 1, config={"retention.ms": "x"})])) == 40
    result(admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True))
    assert topic not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_several_topics_in_one_request_fail_one_by_one(admin: AdminClient, topic: str) -> None:
    futures = admin.create_topics([NewTopic(topic, 1, 1), NewTopic("bad name", 1, 1), NewTopic(f"{topic}.too", 1, 1)])
    futures[topic].result(TIMEOUT_S)
    futures[f"{topic}.too"].result(TIMEOUT_S)
    with pytest.raises(KafkaException):
        futures["bad name"].result(TIMEOUT_S)


def test_create_partitions(admin: AdminClient, topic: str) -> None:
    create(admin, NewTopic(topic, 1, 1))
    result(admin.create_partitions([NewPartitions(topic, 3)]))
    assert len(result(admin.describe_topics(TopicCollection([topic]))).partitions) == 3
    assert code(admin.create_partitions([NewPartitions(topic, 2)])) == 37


def test_delete_records(admin: AdminClient, broker_address: str, topic: str) -> None:
    client = Confluent(None)
    client.produce(broker_address, topic, [Message(value=b"v")] * 10)
    assert result(admin.delete_records([TopicPartition(topic, 0, 7)])).low_watermark == 7
    assert client.positions(broker_address, topic) == (7, 10)
    assert code(admin.delete_records([TopicPartition(topic, 0, 99)])) == 1


@pytest.mark.filterwarnings("ignore:alter_configs has been deprecated")
def test_describe_and_alter_configs(admin: AdminClient, topic: str) -> None:
    create(admin, NewTopic(topic, 1, 1, config={"retention.ms": "1000", "flush.ms": "77"}))

    def entry(name: str) -> tuple[str, int]:
        found = result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))[name]
        return found.value, found.source

    assert entry("retention.ms") == ("1000", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    assert entry("segment.bytes") == ("1073741824", ConfigSource.DEFAULT_CONFIG.value)
    # AlterConfigs replaces all that was set: flush.ms goes back to its default
    result(admin.alter_configs([ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "2000"})]))
    assert entry("retention.ms") == ("2000", ConfigSource.DYNAMIC_TOPIC_CONFIG.value)
    assert entry("flush.ms")[1] == ConfigSource.DEFAULT_CONFIG.value
    wrong = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "x"})
    assert code(admin.alter_configs([wrong])) == 40


def test_incremental_alter_configs(admin: AdminClient, topic: str) -> None:
    create(admin, NewTopic(topic, 1, 1, config={"flush.ms": "77"}))
    changes = [
        ConfigEntry("retention.ms", "3000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
        ConfigEntry("flush.ms", None, incremental_operation=AlterConfigOpType.DELETE),
    ]
    result(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)]))
    found = result(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    assert found["retention.ms"].value == "3000"
    assert found["cleanup.policy"].value == "delete,compact"
    assert found["flush.ms"].source == ConfigSource.DEFAULT_CONFIG.value


def test_configs_of_one_listener_are_told_but_for_passwords(admin: AdminClient) -> None:
    """Kafka tells `listener.name.external.ssl.keystore.location` as it was set, as read-only, and knows its type."""
    prefix = "listener.name.external."
    names = [prefix + name for name in ("ssl.keystore.location", "ssl.keystore.type", "own.setting")]
    changes = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in zip(names, ("/tmp/a.pem", "PEM", "x"), strict=True)
    ]

    def told() -> dict[str, ConfigEntry]:
        return result(admin.describe_configs([ConfigResource(ResourceType.BROKER, "0")]))

    result(admin.incremental_alter_configs([ConfigResource(ResourceType.BROKER, "0", incremental_configs=changes)]))
    try:
        wait_until(
            lambda: names[0] in told(), "the config is there"
        )  # Apache Kafka's controller tells its broker later
        found = [told()[name] for name in names]
    finally:
        gone = [ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE) for name in names]
        result(admin.incremental_alter_configs([ConfigResource(ResourceType.BROKER, "0", incremental_configs=gone)]))
    dynamic = ConfigSource.DYNAMIC_BROKER_CONFIG.value
    assert [(each.value, each.source, each.is_sensitive, each.is_read_only) for each in found] == [
        ("/tmp/a.pem", dynamic, False, True),
        ("PEM", dynamic, False, True),
        (None, dynamic, True, True),
    ]
    synonyms = [(each.name, each.value) for each in found[1].synonyms.values()]
    assert synonyms == [(names[1], "PEM"), ("ssl.keystore.type", "JKS")]


def test_describe_broker_configs_and_cluster(admin: AdminClient, broker_address: str) -> None:
    configs = result(admin.describe_configs([ConfigResource(ResourceType.BROKER, "0")]))
    assert configs["num.partitions"].value == "1"
    assert configs["log.dirs"].is_read_only
    cluster = admin.describe_cluster().result(TIMEOUT_S)
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [broker_address]
    assert cluster.cluster_id
    assert cluster.controller.id == 0


def test_list_offsets(admin: AdminClient, broker_address: str, topic: str) -> None:
    times = [1_700_000_000_000, 1_700_000_009_000, 1_700_000_005_000]
    Confluent(None).produce(broker_address, topic, [Message(value=b"v", timestamp=sent) for sent in times])

    def offset(spec: OffsetSpec) -> int:
        return int(result(admin.list_offsets({TopicPartition(topic, 0): spec})).offset)

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 3
    assert offset(OffsetSpec.max_timestamp()) == 1
    assert offset(OffsetSpec.for_timestamp(times[0] + 1)) == 1
    assert offset(OffsetSpec.for_timestamp(times[1] + 1)) == -1
    assert code(admin.list_offsets({TopicPartition(f"{topic}.none", 0): OffsetSpec.latest()})) != 0


def test_bytes_behind_metadata_for_all_topics_closed_the_connection(admin: AdminClient, topic: str) -> None:
    """librdkafka 2.16 leaves three zeros behind this request; Apache Kafka does not look at them."""
    create(admin, NewTopic(topic, 1, 1))
    assert topic in admin.list_topics(timeout=TIMEOUT_S).topics
