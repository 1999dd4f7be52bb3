"""Every admin call of the issue, by the Java Admin client; the error names are those its users see."""

import time
from pathlib import Path
from typing import Any

import pytest

from compat.support.broker import BrokerProcess
from compat.support.clients.base import Message
from compat.support.clients.javaclient import JavaClient
from compat.support.java import Java, JavaError


@pytest.fixture
def admin(java: Java, broker_address: str) -> Any:
    def call(name: str, **arguments: Any) -> Any:
        return java.admin(broker_address, name, **arguments)

    return call


@pytest.fixture
def fails(admin: Any) -> Any:
    """Asserts that a call ends in the given exception, and gives its message."""

    def call(error: str, name: str, **arguments: Any) -> str:
        with pytest.raises(JavaError) as raised:
            admin(name, **arguments)
        assert raised.value.name == error, raised.value
        return raised.value.message

    return call


def test_create_describe_and_delete_topic(admin: Any, fails: Any, topic: str) -> None:
    created = admin("createTopic", topic=topic, partitions=3, replication=1, configs={"retention.ms": "12345"})
    assert (created["partitions"], created["replication"]) == (3, 1)
    assert created["configs"]["retention.ms"]["value"] == "12345"
    assert created["configs"]["cleanup.policy"]["value"] == "delete"

    described = admin("describeTopic", topic=topic)
    assert described == {
        "name": topic,
        "topicId": created["topicId"],
        "internal": False,
        "partitions": [{"partition": n, "leader": 0, "replicas": 1, "isr": 1} for n in range(3)],
    }
    assert admin("describeTopic", topicId=created["topicId"]) == described
    assert admin("listTopics")[topic] == created["topicId"]

    fails("TopicExistsException", "createTopic", topic=topic, partitions=1, replication=1)
    admin("deleteTopic", topic=topic)
    assert topic not in admin("listTopics")
    fails("UnknownTopicOrPartitionException", "describeTopic", topic=topic)
    fails("UnknownTopicOrPartitionException", "deleteTopic", topic=topic)


def test_delete_topic_by_id_and_create_it_again(admin: Any, fails: Any, topic: str) -> None:
    first = admin("createTopic", topic=topic, partitions=1, replication=1)
    admin("deleteTopic", topicId=first["topicId"])
    second = admin("createTopic", topic=topic, partitions=1, replication=1)
    assert second["topicId"] != first["topicId"]
    fails("UnknownTopicIdException", "describeTopic", topicId=first["topicId"])
    fails("UnknownTopicIdException", "deleteTopic", topicId=first["topicId"])


def test_create_topic_with_defaults_assignments_and_validation_only(admin: Any, fails: Any, topic: str) -> None:
    assert admin("createTopic", topic=topic, partitions=-1, replication=-1)["partitions"] == 1
    assigned = admin("createTopic", topic=f"{topic}.assigned", assignments={"0": [0], "1": [0]})
    assert (assigned["partitions"], assigned["replication"]) == (2, 1)
    admin("createTopic", topic=f"{topic}.only", partitions=2, replication=1, validateOnly=True)
    assert f"{topic}.only" not in admin("listTopics")
    fails("TopicExistsException", "createTopic", topic=topic, partitions=1, replication=1, validateOnly=True)


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        ("InvalidTopicException", {"topic": "no spaces"}),
        ("InvalidTopicException", {"topic": "."}),
        ("InvalidTopicException", {"topic": "x" * 250}),
        ("InvalidTopicException", {"topic": "slash/ed"}),
        ("InvalidPartitionsException", {"partitions": 0}),
        ("InvalidReplicationFactorException", {"replication": 3}),
        ("InvalidReplicationFactorException", {"replication": 0}),
        ("InvalidConfigurationException", {"configs": {"retention.ms": "soon"}}),
        ("InvalidConfigurationException", {"configs": {"no.such.config": "1"}}),
        ("InvalidConfigurationException", {"configs": {"cleanup.policy": "recycle"}}),
        ("InvalidConfigurationException", {"configs": {"segment.bytes": "-5"}}),
        ("InvalidReplicaAssignmentException", {"assignments": {"0": [7]}}),
        ("InvalidReplicaAssignmentException", {"assignments": {"1": [0]}}),
        ("InvalidReplicaAssignmentException", {"assignments": {"0": [0, 0]}}),
    ],
)
def test_create_topic_refuses(fails: Any, topic: str, error: str, arguments: dict[str, Any]) -> None:
    fails(error, "createTopic", **{"topic": topic, "partitions": 1, "replication": 1, **arguments})


def test_topic_names_that_collide_in_metrics(admin: Any, fails: Any, topic: str) -> None:
    admin("createTopic", topic=f"{topic}.a.b", partitions=1, replication=1)
    fails("InvalidTopicException", "createTopic", topic=f"{topic}.a_b", partitions=1, replication=1)


def test_create_partitions(admin: Any, fails: Any, topic: str) -> None:
    admin("createTopic", topic=topic, partitions=2, replication=1)
    admin("createPartitions", topic=topic, partitions=4, validateOnly=True)
    assert len(admin("describeTopic", topic=topic)["partitions"]) == 2
    admin("createPartitions", topic=topic, partitions=4)
    assert [p["partition"] for p in admin("describeTopic", topic=topic)["partitions"]] == [0, 1, 2, 3]
    fails("InvalidPartitionsException", "createPartitions", topic=topic, partitions=3)
    fails("InvalidPartitionsException", "createPartitions", topic=topic, partitions=4)
    fails("UnknownTopicOrPartitionException", "createPartitions", topic=f"{topic}.none", partitions=4)


def test_delete_records(admin: Any, fails: Any, java: Java, broker_address: str, topic: str) -> None:
    client = JavaClient(java)
    client.produce(broker_address, topic, [Message(value=b"%d" % n) for n in range(10)])
    assert admin("deleteRecords", topic=topic, partition=0, before=4)["lowWatermark"] == 4
    assert client.positions(broker_address, topic) == (4, 10)
    assert client.consume(broker_address, topic, 6)[0].offset == 4
    assert admin("deleteRecords", topic=topic, partition=0, before=2)["lowWatermark"] == 4
    fails("OffsetOutOfRangeException", "deleteRecords", topic=topic, partition=0, before=11)
    assert admin("deleteRecords", topic=topic, partition=0, before=-1)["lowWatermark"] == 10
    assert client.positions(broker_address, topic) == (10, 10)


def test_describe_topic_configs(admin: Any, fails: Any, topic: str) -> None:
    admin("createTopic", topic=topic, partitions=1, replication=1, configs={"max.message.bytes": "2000000"})
    configs = admin("describeConfigs", resourceType="TOPIC", resource=topic, synonyms=True, documentation=True)
    changed = configs["max.message.bytes"]
    assert (changed["value"], changed["source"], changed["type"]) == ("2000000", "DYNAMIC_TOPIC_CONFIG", "INT")
    assert changed["synonyms"] == ["DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"]
    default = configs["retention.ms"]
    assert (default["value"], default["source"], default["type"]) == ("604800000", "DEFAULT_CONFIG", "LONG")
    assert configs["cleanup.policy"]["type"] == "LIST"
    assert configs["compression.type"]["value"] == "producer"
    assert all(entry["documentation"] for entry in configs.values())
    assert not any(entry["readOnly"] or entry["sensitive"] for entry in configs.values())
    fails("UnknownTopicOrPartitionException", "describeConfigs", resourceType="TOPIC", resource=f"{topic}.none")


def test_describe_broker_configs(admin: Any, headwater_process: BrokerProcess) -> None:
    configs = admin("describeConfigs", resourceType="BROKER", resource="0", synonyms=True)
    assert configs["log.dirs"]["value"] == str(headwater_process.log_dir)
    assert (configs["log.dirs"]["source"], configs["log.dirs"]["readOnly"]) == ("STATIC_BROKER_CONFIG", True)
    assert (configs["num.partitions"]["value"], configs["num.partitions"]["source"]) == ("1", "DEFAULT_CONFIG")
    assert configs["message.max.bytes"]["value"] == "1048588"
    assert configs["message.max.bytes"]["readOnly"] is False
    assert configs["auto.create.topics.enable"]["type"] == "BOOLEAN"


def test_incremental_alter_topic_configs(admin: Any, fails: Any, topic: str) -> None:
    admin("createTopic", topic=topic, partitions=1, replication=1, configs={"retention.ms": "1000"})
    resource = {"resourceType": "TOPIC", "resource": topic}

    def value(name: str) -> tuple[str, str]:
        entry = admin("describeConfigs", **resource)[name]
        return entry["value"], entry["source"]

    changes = [["SET", "retention.ms", "2000"], ["SET", "segment.bytes", "2097152"]]
    admin("incrementalAlterConfigs", **resource, changes=changes, validateOnly=True)
    assert value("retention.ms") == ("1000", "DYNAMIC_TOPIC_CONFIG")
    admin("incrementalAlterConfigs", **resource, changes=changes)
    assert value("retention.ms") == ("2000", "DYNAMIC_TOPIC_CONFIG")
    assert value("segment.bytes") == ("2097152", "DYNAMIC_TOPIC_CONFIG")
    admin("incrementalAlterConfigs", **resource, changes=[["DELETE", "retention.ms", None]])
    assert value("retention.ms") == ("604800000", "DEFAULT_CONFIG")
    admin("incrementalAlterConfigs", **resource, changes=[["APPEND", "cleanup.policy", "compact"]])
    assert value("cleanup.policy")[0] == "delete,compact"
    admin("incrementalAlterConfigs", **resource, changes=[["SUBTRACT", "cleanup.policy", "delete"]])
    assert value("cleanup.policy")[0] == "compact"

    wrong = [
        [["SET", "retention.ms", "never"]],
        [["SET", "no.such.config", "1"]],
        [["APPEND", "retention.ms", "1"]],
    ]
    for changes in wrong:
        fails("InvalidConfigurationException", "incrementalAlterConfigs", **resource, changes=changes)
    fails(
        "UnknownTopicOrPartitionException",
        "incrementalAlterConfigs",
        resourceType="TOPIC",
        resource=f"{topic}.none",
        changes=[["SET", "retention.ms", "1"]],
    )
    assert value("segment.bytes") == ("2097152", "DYNAMIC_TOPIC_CONFIG")


def test_a_changed_topic_config_works_at_once(admin: Any, java: Java, broker_address: str, topic: str) -> None:
    client = JavaClient(java)
    admin("createTopic", topic=topic, partitions=1, replication=1)
    large = [Message(value=b"x" * 1_200_000)]
    changes = [["SET", "max.message.bytes", "3000000"]]
    admin("incrementalAlterConfigs", resourceType="TOPIC", resource=topic, changes=changes)
    assert client.produce(broker_address, topic, large, max_request_bytes=2_000_000) == [0]


def test_describe_cluster(admin: Any, headwater_process: BrokerProcess) -> None:
    cluster = admin("describeCluster")
    assert cluster["nodes"] == [{"id": 0, "host": "127.0.0.1", "port": headwater_process.port}]
    assert cluster["controller"] == 0
    assert len(cluster["clusterId"]) == 22


def test_describe_log_dirs(admin: Any, java: Java, headwater_process: BrokerProcess, topic: str) -> None:
    JavaClient(java).produce(headwater_process.bootstrap, topic, [Message(value=b"x" * 1000)])
    directories = admin("describeLogDirs")
    directory = directories[str(headwater_process.log_dir)]
    size = sum(path.stat().st_size for path in Path(headwater_process.log_dir, f"{topic}-0").glob("*.log"))
    assert directory["replicas"][f"{topic}-0"] == size > 1000
    assert 0 < directory["usableBytes"] <= directory["totalBytes"]


def test_list_offsets(admin: Any, fails: Any, java: Java, broker_address: str, topic: str) -> None:
    now = int(time.time() * 1000)
    times = [now - 4000, now - 1000, now - 3000, now - 2000]
    client = JavaClient(java)
    for sent in times:
        client.produce(broker_address, topic, [Message(value=b"v", timestamp=sent)])

    def offset(spec: Any) -> tuple[int, int]:
        answer = admin("listOffsets", topic=topic, partition=0, spec=spec)
        return answer["offset"], answer["timestamp"]

    assert offset("earliest") == (0, -1)
    assert offset("latest") == (4, -1)
    assert offset("maxTimestamp") == (1, now - 1000)
    assert offset("earliestLocal") == (0, -1)
    assert offset("latestTiered") == (-1, -1)
    assert offset(now - 3500) == (1, now - 1000)
    assert offset(now) == (-1, -1)
    assert admin("listOffsets", topic=topic, partition=0, spec="latest")["leaderEpoch"] >= 0


def test_max_timestamp_within_a_compressed_batch(admin: Any, java: Java, broker_address: str, topic: str) -> None:
    now = int(time.time() * 1000)
    messages = [Message(value=b"v", timestamp=now - back) for back in (50, 10, 30, 10, 20)]
    JavaClient(java).produce(broker_address, topic, messages, codec="lz4")
    answer = admin("listOffsets", topic=topic, partition=0, spec="maxTimestamp")
    assert (answer["offset"], answer["timestamp"]) == (1, now - 10)


def test_offsets_of_an_empty_partition(admin: Any, topic: str) -> None:
    admin("createTopic", topic=topic, partitions=1, replication=1)
    for spec, offset in [("earliest", 0), ("latest", 0), ("maxTimestamp", -1), (0, -1)]:
        assert admin("listOffsets", topic=topic, partition=0, spec=spec)["offset"] == offset, spec


def test_features_have_an_epoch(admin: Any) -> None:
    """Without one, clients never use what features gate."""
    assert admin("describeFeatures")["epoch"] >= 0


def test_describe_by_topic_id_with_an_empty_name_beside_it_was_unknown(admin: Any, topic: str) -> None:
    """The Java client asks Metadata with the id and an empty name, not null: the id counts."""
    created = admin("createTopic", topic=topic, partitions=1, replication=1)
    assert admin("describeTopic", topicId=created["topicId"])["name"] == topic
