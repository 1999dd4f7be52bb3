"""AlterReplicaLogDirs, UpdateFeatures, UnregisterBroker, ListConfigResources, and features in ApiVersions."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import BrokerId, LeaderEpoch, TopicPartition
from headwater.broker import features
from headwater.metadata.image import PartitionState
from headwater.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from headwater.wire.messages.api_versions import ApiVersionsRequest
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from headwater.wire.messages.list_config_resources import ListConfigResourcesRequest
from headwater.wire.messages.unregister_broker import UnregisterBrokerRequest
from headwater.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE_DOWNGRADE = 1, 2


@pytest.fixture(name="lab")
def lab_with_two_directories(make_lab: Any) -> Any:
    lab = make_lab(log_dirs="/data,/more")
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1, assignments=[], configs=[])
    lab.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False))
    return lab


@pytest.mark.parametrize("version", [1, 2])
def test_replicas_move_to_another_directory(lab: Any, version: int) -> None:
    homes = {str(name): lab.broker.logs.directory_of(name) for name in lab.broker.logs.logs}
    assert set(homes.values()) == {"/data", "/more"}

    def move(path: str, topic: str, index: int) -> str:
        topics = [AlterReplicaLogDirTopic(name=topic, partitions=[index])]
        answer = lab.ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)]), version)
        (result,) = answer.results
        assert result.topic_name == topic
        return ErrorCode(result.partitions[0].error_code).name

    other = {"/data": "/more", "/more": "/data"}
    assert move(homes["t-0"], "t", 0) == "NONE"
    assert not lab.broker.logs.moves.under_way
    assert move("/nowhere", "t", 0) == "LOG_DIR_NOT_FOUND"
    assert move("/nowhere", "none", 0) == "LOG_DIR_NOT_FOUND"
    assert move("/data", "none", 0) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert move("/data", "t", 2) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert {str(name): lab.broker.logs.directory_of(name) for name in lab.broker.logs.logs} == homes

    assert move(other[homes["t-0"]], "t", 0) == "NONE"
    (there,) = [
        each for each in lab.ask(DescribeLogDirsRequest(topics=None), 4).results if each.log_dir == other[homes["t-0"]]
    ]
    shown = {(p.partition_index, p.is_future_key): p.offset_lag for topic in there.topics for p in topic.partitions}
    assert shown == {(0, True): 0, (1, False): 0}
    while lab.scheduler.run_due() + lab.disk.run():
        pass
    assert {lab.broker.logs.directory_of(name) for name in lab.broker.logs.logs} == {other[homes["t-0"]]}


def test_a_directory_that_failed_takes_nothing_and_gives_nothing(lab: Any) -> None:
    homes = {name.partition: lab.broker.logs.directory_of(name) for name in lab.broker.logs.logs}
    lab.broker.logs.logs[TopicPartition("t", 0)].fail(OSError(5, "Input/output error"))

    def move(path: str, index: int) -> str:
        directory = AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name="t", partitions=[index])])
        answer = lab.ask(AlterReplicaLogDirsRequest(dirs=[directory]))
        return ErrorCode(answer.results[0].partitions[0].error_code).name

    assert move(homes[1], 0) == "KAFKA_STORAGE_ERROR"
    assert move(homes[0], 1) == "KAFKA_STORAGE_ERROR"
    assert move(homes[1], 1) == "NONE"
    shown = {
        each.log_dir: (each.error_code, each.topics) for each in lab.ask(DescribeLogDirsRequest(topics=None)).results
    }
    assert shown[homes[0]] == (ErrorCode.KAFKA_STORAGE_ERROR, [])
    assert shown[homes[1]][0] == 0


def test_where_a_replica_shall_be_made_is_remembered(lab: Any) -> None:
    topic_id = lab.broker.image.ids_by_name["t"]
    lab.broker.image.topics[topic_id].partitions.append(PartitionState(BrokerId(9), LeaderEpoch(0), [BrokerId(9)], []))
    directory = AlterReplicaLogDir(path="/more", topics=[AlterReplicaLogDirTopic(name="t", partitions=[2])])
    answer = lab.ask(AlterReplicaLogDirsRequest(dirs=[directory]))
    assert answer.results[0].partitions[0].error_code == ErrorCode.REPLICA_NOT_AVAILABLE
    lab.broker.logs.create(TopicPartition("fills-up-the-other", 0), topic_id)
    lab.broker.logs.create(TopicPartition("t", 2), topic_id)
    assert lab.broker.logs.directory_of(TopicPartition("t", 2)) == "/more"


def test_partitions_of_a_topic_in_two_directories_are_answered_together(lab: Any) -> None:
    def directory(path: str, index: int) -> AlterReplicaLogDir:
        return AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name="t", partitions=[index])])

    answer = lab.ask(AlterReplicaLogDirsRequest(dirs=[directory("/no", 0), directory("/nein", 1)]))
    assert [(each.topic_name, [p.partition_index for p in each.partitions]) for each in answer.results] == [
        ("t", [0, 1])
    ]


def update(lab: Any, *updates: tuple[str, int, int], version: int = 2, **more: Any) -> Any:
    keys = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind, **more)
        for name, level, kind in updates
    ]
    return lab.ask(UpdateFeaturesRequest(timeout_ms=1000, feature_updates=keys), version)


@pytest.fixture
def three_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(features.FEATURES, "some.version", features.Feature(1, 3, 2))


@pytest.mark.usefixtures("three_levels")
@pytest.mark.parametrize(
    ("name", "level", "kind", "why"),
    [
        ("nope", 1, UPGRADE, "Local controller 1 does not support this feature."),
        ("nope", 0, SAFE_DOWNGRADE, "Feature nope not found."),
        ("some.version", 4, UPGRADE, "Local controller 1 only supports versions 1-3"),
        ("some.version", -1, UPGRADE, "A feature version cannot be less than 0."),
        ("some.version", 2, 0, "The controller does not support the given upgrade type."),
        ("some.version", 1, UPGRADE, "Can't downgrade the version of this feature without setting the upgrade type"),
        ("some.version", 1, SAFE_DOWNGRADE, "This broker holds it at 2."),
        ("some.version", 3, UPGRADE, "This broker holds it at 2."),
    ],
)
def test_levels_are_those_of_the_code(lab: Any, name: str, level: int, kind: int, why: str) -> None:
    answer = update(lab, ("some.version", 2, UPGRADE), (name, level, kind))
    assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert f"Invalid update version {level} for feature {name}. {why}" in answer.error_message


@pytest.mark.usefixtures("three_levels")
def test_a_level_that_holds_already_is_confirmed(lab: Any) -> None:
    for version in (0, 1, 2):
        answer = update(lab, ("some.version", 2, UPGRADE), version=version)
        assert (answer.error_code, answer.error_message) == (0, None)
        told = [(each.feature, each.error_code, each.error_message) for each in answer.results]
        assert told == ([] if version == 2 else [("some.version", 0, "NONE")])
    allowed = update(lab, ("some.version", 1, UPGRADE), version=0, allow_downgrade=True)
    assert "This broker holds it at 2." in allowed.error_message


@pytest.mark.usefixtures("three_levels")
def test_clients_are_told_the_features(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(features.FEATURES, "young.version", features.Feature(0, 1, 0))

    def told(version: int) -> tuple[list[tuple[str, int, int]], list[tuple[str, int]]]:
        asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
        answer = lab.ask(asked, version)
        return (
            [(each.name, each.min_version, each.max_version) for each in answer.supported_features],
            [(each.name, each.max_version_level) for each in answer.finalized_features],
        )

    # Levels that the code really has come beside these.
    supported, finalized = told(4)
    assert ("some.version", 1, 3) in supported
    assert ("young.version", 0, 1) in supported
    assert ("some.version", 2) in finalized
    assert "young.version" not in [name for name, _ in finalized]
    assert "young.version" not in [name for name, _, _ in told(3)[0]]


def test_a_broker_that_runs_is_not_unregistered(lab: Any) -> None:
    answer = lab.ask(UnregisterBrokerRequest(broker_id=9))
    assert answer.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
    assert answer.error_message == "Broker ID 9 is not currently registered"
    answer = lab.ask(UnregisterBrokerRequest(broker_id=1))
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert 1 in lab.broker.image.brokers


def resources(lab: Any, *types: int, version: int = 1) -> list[tuple[str, int]]:
    answer = lab.ask(ListConfigResourcesRequest(resource_types=list(types)), version)
    assert answer.error_code == 0
    return [(each.resource_name, each.resource_type) for each in answer.config_resources]


def test_what_has_configs(lab: Any) -> None:
    assert resources(lab) == [("1", 4), ("t", 2)]
    assert resources(lab, 2) == [("t", 2)]
    assert resources(lab, 4, 4) == [("1", 4)]
    assert resources(lab, 8, 16, 32) == []
    assert resources(lab, version=0) == []
    for unknown in (0, 99):
        answer = lab.ask(ListConfigResourcesRequest(resource_types=[2, unknown]))
        assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
