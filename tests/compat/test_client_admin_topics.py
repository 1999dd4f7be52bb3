"""Our admin client on topics, records, settings, replicas and the cluster: the same against Apache Kafka."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat.support.broker import BrokerProcess
from compat.support.clients import CLIENTS, Message
from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin import (
    Admin,
    AsyncAdmin,
    ConfigChange,
    ConfigOperation,
    NewPartitions,
    Replica,
    TopicPartitions,
)
from headwater.client.errors import BootstrapFailed, UnknownTopic
from headwater.client.outcomes import all_or_raise, only
from headwater.client.types import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    READ_COMMITTED,
    ConfigResource,
    NewTopic,
    ResourceType,
    Topic,
)


@pytest.fixture
def admin(broker_address: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=broker_address) as made:
        yield made


def code_of(outcome: object) -> ErrorCode:
    assert isinstance(outcome, KafkaError), outcome
    return outcome.code


def test_topics_from_making_to_deleting(admin: Admin, topic: str) -> None:
    new = NewTopic(topic, 2, 1, {"retention.ms": "5000"})
    assert only(admin.create_topics([new], validate_only=True)).partitions == 2
    created = only(admin.create_topics([new]))
    assert (created.partitions, created.replication_factor) == (2, 1)
    assert code_of(admin.create_topics([new])[topic]) == ErrorCode.TOPIC_ALREADY_EXISTS
    found = admin.describe_topics([topic, "no.such.topic"])
    described = found[topic]
    assert isinstance(described, Topic)
    assert described.topic_id == created.topic_id
    assert [each.partition for each in described.partitions] == [0, 1]
    assert isinstance(found["no.such.topic"], UnknownTopic)
    assert topic in [each.name for each in admin.list_topics()]
    all_or_raise(admin.create_partitions({topic: 3}))
    assert code_of(admin.create_partitions({topic: 2})[topic]) == ErrorCode.INVALID_PARTITIONS
    broker = admin.describe_cluster().brokers[0].id
    all_or_raise(admin.create_partitions({topic: NewPartitions(4, [[broker]])}))
    pages = admin.describe_topic_partitions([topic], page_size=2)[topic]
    assert isinstance(pages, TopicPartitions)
    assert [each.partition.partition for each in pages.partitions] == [0, 1, 2, 3]
    outcome = admin.delete_topics([topic, "no.such.topic"])
    assert outcome[topic] is None
    assert code_of(outcome["no.such.topic"]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_with_its_replicas_placed_by_hand_is_deleted_by_its_id(admin: Admin, topic: str) -> None:
    broker = admin.describe_cluster().brokers[0].id
    created = only(admin.create_topics([NewTopic(topic, assignments=[[broker], [broker]])]))
    assert created.partitions == 2
    other = bytes([7]) * 16
    outcome = admin.delete_topics_by_id([created.topic_id, other])
    assert outcome[created.topic_id] is None
    assert code_of(outcome[other]) == ErrorCode.UNKNOWN_TOPIC_ID
    with pytest.raises(UnknownTopic):
        admin.describe_topic(topic)


def test_offsets_by_time_and_the_end_of_old_records(admin: Admin, broker_address: str, topic: str) -> None:
    all_or_raise(admin.create_topics([NewTopic(topic, 1, 1)]))
    sent = [Message(value=b"v", timestamp=stamp) for stamp in (1000, 3000, 2000)]
    CLIENTS["confluent"](None).produce(broker_address, topic, sent)
    partition = TopicPartition(topic, 0)

    def offset(timestamp: int, isolation_level: int = 0) -> int:
        return only(admin.list_offsets({partition: timestamp}, isolation_level=isolation_level)).offset

    assert (offset(EARLIEST), offset(LATEST), offset(LATEST, READ_COMMITTED)) == (0, 3, 3)
    assert (offset(1500), offset(MAX_TIMESTAMP), offset(99_999)) == (1, 1, -1)
    assert only(admin.delete_records({partition: 2})) == 2
    assert offset(EARLIEST) == 2
    assert code_of(admin.delete_records({partition: 50})[partition]) == ErrorCode.OFFSET_OUT_OF_RANGE
    missing = TopicPartition("no.such.topic", 0)
    assert code_of(admin.list_offsets({missing: LATEST})[missing]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_settings_are_read_changed_and_taken_away(admin: Admin, topic: str) -> None:
    all_or_raise(admin.create_topics([NewTopic(topic, 1, 1)]))
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def value(name: str) -> tuple[str | None, bool]:
        (entry,) = only(admin.describe_configs([resource], keys=[name]))
        return entry.value, entry.is_default

    assert value("cleanup.policy") == ("delete", True)
    append = ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND)
    all_or_raise(admin.alter_configs({resource: [append, ConfigChange("retention.ms", "5000")]}))
    assert value("cleanup.policy") == ("delete,compact", False)
    subtract = ConfigChange("cleanup.policy", "delete", ConfigOperation.SUBTRACT)
    all_or_raise(admin.alter_configs({resource: [subtract]}))
    assert value("cleanup.policy") == ("compact", False)
    assert code_of(admin.alter_configs({resource: {"retention.ms": "soon"}})[resource]) == ErrorCode.INVALID_CONFIG
    all_or_raise(admin.alter_configs({resource: {"retention.ms": "6000"}}, validate_only=True))
    assert value("retention.ms") == ("5000", False)
    all_or_raise(admin.alter_configs({resource: {"cleanup.policy": None}}))
    assert value("cleanup.policy") == ("delete", True)
    all_or_raise(admin.replace_configs({resource: {"max.message.bytes": "2000"}}))
    assert value("max.message.bytes") == ("2000", False)
    assert value("retention.ms")[1]
    missing = ConfigResource(ResourceType.TOPIC, "no.such.topic")
    assert code_of(admin.describe_configs([missing])[missing]) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_settings_of_a_broker_and_what_has_settings(admin: Admin, topic: str) -> None:
    all_or_raise(admin.create_topics([NewTopic(topic, 1, 1)]))
    broker = ConfigResource(ResourceType.BROKER, str(admin.describe_cluster().brokers[0].id))
    found = all_or_raise(admin.describe_configs([broker, ConfigResource(ResourceType.TOPIC, topic)], synonyms=True))
    entries = {entry.name: entry for entry in found[broker]}
    assert entries["log.retention.check.interval.ms"].source == "static-broker"
    assert any(each.synonyms for each in entries.values())
    nobody = ConfigResource(ResourceType.BROKER, "77")
    assert code_of(admin.describe_configs([nobody])[nobody]) == ErrorCode.BROKER_NOT_AVAILABLE
    assert ConfigResource(ResourceType.TOPIC, topic) in admin.list_config_resources([ResourceType.TOPIC])
    assert admin.list_client_metrics() == []


def test_the_cluster_its_features_and_its_directories(admin: Admin, topic: str) -> None:
    all_or_raise(admin.create_topics([NewTopic(topic, 1, 1)]))
    cluster = admin.describe_cluster(include_fenced=True)
    assert [(each.id, each.fenced) for each in cluster.brokers] == [(cluster.controller_id, False)]
    assert cluster._replace(brokers=[]) == admin.describe_cluster()._replace(brokers=[])
    ((broker, versions),) = all_or_raise(admin.describe_api_versions()).items()
    assert broker.id == cluster.brokers[0].id
    assert versions[18].highest >= 4
    features = admin.describe_features()
    assert features.finalized["transaction.version"].highest == 2
    assert features.supported["group.version"].highest >= 1
    with pytest.raises(KafkaError):
        all_or_raise(admin.update_features({"group.version": 99}, validate_only=True))
    (directory,) = admin.describe_log_dirs(partitions=[TopicPartition(topic, 0)])
    assert [(each.topic, each.partition) for each in directory.replicas] == [(topic, 0)]
    replica = Replica(topic, 0, broker.id)
    assert code_of(admin.alter_replica_log_dirs({replica: "/no/such/directory"})[replica]) in (
        ErrorCode.LOG_DIR_NOT_FOUND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    )


def test_leaders_and_moves_of_a_single_broker(admin: Admin, topic: str) -> None:
    all_or_raise(admin.create_topics([NewTopic(topic, 1, 1)]))
    partition = TopicPartition(topic, 0)
    assert code_of(admin.elect_leaders([partition])[partition]) == ErrorCode.ELECTION_NOT_NEEDED
    assert admin.elect_leaders() == {}
    assert admin.list_partition_reassignments() == {}
    called_off = admin.alter_partition_reassignments({partition: None})
    assert code_of(called_off[partition]) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    nowhere = admin.alter_partition_reassignments({partition: [77]})
    assert code_of(nowhere[partition]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_the_same_calls_under_asyncio(broker_address: str, topic: str) -> None:
    async def main() -> None:
        async with AsyncAdmin(bootstrap_servers=broker_address) as admin:
            names = [f"{topic}-{at}" for at in range(5)]
            made = await asyncio.gather(*(admin.create_topics([NewTopic(name, 1, 1)]) for name in names))
            assert not any(isinstance(answer, KafkaError) for outcome in made for answer in outcome.values())
            assert set(names) <= {each.name for each in await admin.list_topics()}
            with pytest.raises(UnknownTopic):
                await admin.describe_topic("no.such.topic")
            all_or_raise(await admin.delete_topics(names))

    asyncio.run(main())


def test_a_call_goes_on_when_the_broker_comes_back(
    broker_factory: Callable[..., BrokerProcess], tmp_path: Path, topic: str
) -> None:
    broker = broker_factory(tmp_path)
    with Admin(bootstrap_servers=broker.bootstrap) as admin:
        all_or_raise(admin.create_topics([NewTopic(topic, 1, 1)]))
        broker.kill()
        broker.start()
        assert admin.describe_topic(topic).name == topic


def test_a_cluster_that_is_not_there_is_an_error_at_once() -> None:
    started = time.monotonic()
    with (
        Admin(bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=600_000) as admin,
        pytest.raises(BootstrapFailed, match="refused"),
    ):
        admin.list_topics()
    assert time.monotonic() - started < 240  # on a machine that is busy; no part of the ten minutes is waited
