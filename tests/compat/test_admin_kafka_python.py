"""Admin calls by kafka-python 3, which speaks the newest versions of most, and AlterConfigs when told to."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kafka.errors
import pytest
from kafka import KafkaAdminClient, OffsetSpec, TopicPartition
from kafka.admin import AlterConfigOp, ConfigResource, ConfigResourceType

from compat.support.broker import BrokerProcess
from compat.support.clients.base import Message
from compat.support.clients.kafka_python import KafkaPython


@pytest.fixture
def admin(broker_address: str) -> Iterator[KafkaAdminClient]:
    client = KafkaAdminClient(bootstrap_servers=broker_address)
    yield client
    client.close()


def _configs(admin: KafkaAdminClient, topic: str, **options: Any) -> dict[str, Any]:
    described = admin.describe_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all", **options
    )
    found: dict[str, Any] = described["topic"][topic]
    return found


def test_create_describe_and_delete_topic(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics({topic: {"num_partitions": 3, "replication_factor": 1, "configs": {"flush.ms": "99"}}})
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        admin.create_topics({topic: {}})
    assert topic in admin.list_topics()
    (described,) = admin.describe_topics([topic])
    assert (described["name"], len(described["partitions"])) == (topic, 3)
    assert described["topic_id"] is not None
    admin.delete_topics([topic])
    assert topic not in admin.list_topics()
    with pytest.raises(kafka.errors.UnknownTopicOrPartitionError):
        admin.delete_topics([topic])


def test_create_topic_refuses(admin: KafkaAdminClient, topic: str) -> None:
    with pytest.raises(kafka.errors.InvalidTopicError):
        admin.create_topics({"tabs\tare": {}})
    with pytest.raises(kafka.errors.InvalidReplicationFactorError):
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 4}})
    with pytest.raises(kafka.errors.InvalidConfigurationError):
        admin.create_topics({topic: {"configs": {"min.cleanable.dirty.ratio": "7"}}})
    admin.create_topics({topic: {}}, validate_only=True)
    assert topic not in admin.list_topics()


def test_describe_topic_partitions_page_by_page(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics({topic: {"num_partitions": 5, "replication_factor": 1}})
    first = admin.describe_topic_partitions([topic], response_partition_limit=2)
    (page,) = first["topics"]
    assert [partition["partition_index"] for partition in page["partitions"]] == [0, 1]
    cursor = first["next_cursor"]
    assert (cursor["topic_name"], cursor["partition_index"]) == (topic, 2)
    second = admin.describe_topic_partitions([topic], cursor=cursor)
    assert [partition["partition_index"] for partition in second["topics"][0]["partitions"]] == [2, 3, 4]
    assert second["next_cursor"] is None
    assert all(partition["leader_id"] == 0 for partition in second["topics"][0]["partitions"])


def test_create_partitions(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
    admin.create_partitions({topic: 4})
    assert len(admin.describe_topics([topic])[0]["partitions"]) == 4
    with pytest.raises(kafka.errors.InvalidPartitionsError):
        admin.create_partitions({topic: 1})
    with pytest.raises(kafka.errors.InvalidReplicationAssignmentError):
        admin.create_partitions({topic: {"count": 5, "assignments": [[44]]}})


def test_delete_records(admin: KafkaAdminClient, broker_address: str, topic: str) -> None:
    client = KafkaPython(None)
    client.produce(broker_address, topic, [Message(value=b"v")] * 5)
    where = TopicPartition(topic, 0)
    assert admin.delete_records({where: 3})[where]["low_watermark"] == 3
    assert client.positions(broker_address, topic) == (3, 5)
    with pytest.raises(kafka.errors.OffsetOutOfRangeError):
        admin.delete_records({where: 6})


@pytest.mark.parametrize("incremental", [True, False])
def test_alter_and_reset_configs(admin: KafkaAdminClient, topic: str, incremental: bool) -> None:
    admin.create_topics({topic: {"configs": {"flush.ms": "99"}}})
    change = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "5000"})
    admin.alter_configs([change], validate_only=True, incremental=incremental)
    assert _configs(admin, topic)["retention.ms"]["value"] == "604800000"
    admin.alter_configs([change], incremental=incremental)
    configs = _configs(admin, topic, include_synonyms=True)
    assert configs["retention.ms"]["value"] == "5000"
    assert configs["flush.ms"]["value"] == "99"
    reset = ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": None})
    admin.reset_configs([reset], incremental=incremental)
    assert _configs(admin, topic)["retention.ms"]["value"] == "604800000"


def test_append_to_a_list_config(admin: KafkaAdminClient, topic: str) -> None:
    admin.create_topics({topic: {}})
    change = ConfigResource(
        ConfigResourceType.TOPIC, topic, configs={"cleanup.policy": (AlterConfigOp.APPEND, "compact")}
    )
    admin.alter_configs([change])
    assert _configs(admin, topic)["cleanup.policy"]["value"] == "delete,compact"


def test_describe_cluster_and_log_dirs(
    admin: KafkaAdminClient, headwater_process: BrokerProcess, broker_address: str, topic: str
) -> None:
    cluster = admin.describe_cluster()
    (broker,) = cluster["brokers"]
    assert f"{broker['host']}:{broker['port']}" == broker_address
    assert cluster["controller_id"] == 0
    KafkaPython(None).produce(broker_address, topic, [Message(value=b"v")])
    (answer,) = admin.describe_log_dirs({topic: [0]})
    (directory,) = answer["log_dirs"]
    (found,) = directory["topics"]
    size = Path(headwater_process.log_dir, f"{topic}-0", "00000000000000000000.log").stat().st_size
    assert (found["name"], found["partitions"][0]["partition_size"]) == (topic, size)


def test_list_partition_offsets(admin: KafkaAdminClient, broker_address: str, topic: str) -> None:
    times = [1_700_000_000_000, 1_700_000_009_000, 1_700_000_005_000]
    KafkaPython(None).produce(broker_address, topic, [Message(value=b"v", timestamp=sent) for sent in times])
    where = TopicPartition(topic, 0)

    def offset(spec: Any) -> tuple[int, int]:
        found = admin.list_partition_offsets({where: spec})[where]
        return found.offset, found.timestamp

    assert offset(OffsetSpec.EARLIEST)[0] == 0
    assert offset(OffsetSpec.LATEST)[0] == 3
    assert offset(OffsetSpec.MAX_TIMESTAMP) == (1, times[1])
    assert offset(times[0] + 1) == (1, times[1])
