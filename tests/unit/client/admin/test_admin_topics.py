"""Calls about topics, offsets, settings and directories: what is sent, and what becomes of the answers."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin import configs, log_dirs, records, topics
from headwater.client.admin.configs import ConfigChange, ConfigOperation
from headwater.client.admin.log_dirs import Replica
from headwater.client.admin.topics import NewPartitions, TopicPartitions
from headwater.client.errors import UnknownTopic
from headwater.client.types import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    READ_COMMITTED,
    ConfigResource,
    NewTopic,
    OffsetAt,
    ResourceType,
    Topic,
)
from headwater.wire.messages import alter_replica_log_dirs as alter_dirs_wire
from headwater.wire.messages import create_partitions as partitions_wire
from headwater.wire.messages import create_topics as create_wire
from headwater.wire.messages import delete_records as delete_records_wire
from headwater.wire.messages import delete_topics as delete_wire
from headwater.wire.messages import describe_configs as describe_configs_wire
from headwater.wire.messages import describe_log_dirs as dirs_wire
from headwater.wire.messages import describe_topic_partitions as pages_wire
from headwater.wire.messages import incremental_alter_configs as alter_wire
from headwater.wire.messages import list_config_resources as resources_wire
from headwater.wire.messages import list_offsets as offsets_wire
from unit.client.reactor.fakes import FakeBroker, FakeWorld, topic_id


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def broker(world: FakeWorld) -> FakeBroker:
    return world.broker(0)


def test_topics_are_described_and_those_that_are_not_there_named(world: FakeWorld, broker: FakeBroker) -> None:
    world.topic("orders", 2)
    outcome = world.run(topics.describe_topics(world.session(), ["nope", "orders"]))
    assert list(outcome) == ["nope", "orders"]
    found, missing = outcome["orders"], outcome["nope"]
    assert isinstance(found, Topic)
    assert len(found.partitions) == 2
    assert isinstance(missing, UnknownTopic)
    assert missing.known == ["orders"]
    assert world.run(topics.describe_topics(world.session(), [])) == {}


def _throttled(wait_ms: int, **codes: int) -> create_wire.CreateTopicsResponse:
    results = [create_wire.CreatableTopicResult(name=name, error_code=code) for name, code in codes.items()]
    return create_wire.CreateTopicsResponse(throttle_time_ms=wait_ms, topics=results)


def test_what_a_quota_puts_off_is_asked_for_again_alone_and_what_was_done_is_not(
    world: FakeWorld, broker: FakeBroker
) -> None:
    later = int(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    answers = iter([_throttled(5000, a=0, b=later, c=later), _throttled(2000, b=0, c=later), _throttled(0, c=0)])
    asked: list[tuple[float, list[str]]] = []

    def answer(request: create_wire.CreateTopicsRequest) -> create_wire.CreateTopicsResponse:
        asked.append((world.now, [each.name for each in request.topics]))
        return next(answers)

    broker.on(create_wire.CreateTopicsRequest, answer)
    made = world.run(topics.create_topics(world.session(), [NewTopic(name) for name in "abc"]))
    assert not [each for each in made.values() if isinstance(each, KafkaError)]
    begin = asked[0][0]
    assert [(round(at - begin), names) for at, names in asked] == [(0, ["a", "b", "c"]), (5, ["b", "c"]), (7, ["c"])]


def test_what_a_quota_puts_off_for_too_long_is_told_at_once_with_its_time(world: FakeWorld, broker: FakeBroker) -> None:
    later = int(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    broker.on(create_wire.CreateTopicsRequest, lambda _: _throttled(600_000, a=0, b=later))
    made = world.run(topics.create_topics(world.session(), [NewTopic("a"), NewTopic("b")]))
    assert not isinstance(made["a"], KafkaError)
    error = made["b"]
    assert isinstance(error, KafkaError)
    assert error.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert "in 600 s" in str(error)
    assert len(broker.received(create_wire.CreateTopicsRequest)) == 1


@pytest.mark.parametrize("by_id", [False, True])
def test_deletions_that_a_quota_puts_off_are_asked_for_again_alone(
    world: FakeWorld, broker: FakeBroker, by_id: bool
) -> None:
    world.topic("a", 1)
    world.topic("b", 1)
    ids = {name: topic_id(name) for name in "ab"}
    asked: list[list[bytes | str | None]] = []

    def answer(request: delete_wire.DeleteTopicsRequest) -> delete_wire.DeleteTopicsResponse:
        asked.append([bytes(each.topic_id) if by_id else each.name for each in request.topics])
        names = "ab" if len(asked) == 1 else "b"
        return delete_wire.DeleteTopicsResponse(
            throttle_time_ms=1000,
            responses=[
                delete_wire.DeletableTopicResult(
                    name=name, topic_id=ids[name], error_code=89 if len(asked) == 1 and name == "b" else 0
                )
                for name in names
            ],
        )

    broker.on(delete_wire.DeleteTopicsRequest, answer)
    session = world.session()
    if by_id:
        assert world.run(topics.delete_topics_by_id(session, ids.values())) == dict.fromkeys(ids.values())
        assert asked == [list(ids.values()), [ids["b"]]]
    else:
        assert world.run(topics.delete_topics(session, ids)) == {"a": None, "b": None}
        assert asked == [["a", "b"], ["b"]]


def test_a_topic_is_created_with_its_settings_and_replicas(world: FakeWorld, broker: FakeBroker) -> None:
    broker.on(create_wire.CreateTopicsRequest, lambda _: create_wire.CreateTopicsResponse())
    new = NewTopic("t", configs={"retention.ms": "5"}, assignments=[[0, 1], [1, 0]])
    world.run(topics.create_topics(world.session(), [new], validate_only=True))
    (request,) = broker.received(create_wire.CreateTopicsRequest)
    (sent,) = request.topics
    assert (request.validate_only, sent.num_partitions, sent.replication_factor) == (True, -1, -1)
    assert [(each.partition_index, each.broker_ids) for each in sent.assignments] == [(0, [0, 1]), (1, [1, 0])]
    assert [(each.name, each.value) for each in sent.configs] == [("retention.ms", "5")]


def test_topics_are_deleted_by_name_and_by_id(world: FakeWorld, broker: FakeBroker) -> None:
    gone = topic_id("gone")

    def answer(request: delete_wire.DeleteTopicsRequest) -> delete_wire.DeleteTopicsResponse:
        result = delete_wire.DeletableTopicResult
        if request.topics[0].name is not None:
            assert [(each.name, each.topic_id) for each in request.topics] == [("t", bytes(16))]
            return delete_wire.DeleteTopicsResponse(responses=[result(name="t", topic_id=topic_id("t"))])
        assert [each.topic_id for each in request.topics] == [gone]
        return delete_wire.DeleteTopicsResponse(responses=[result(name=None, topic_id=gone, error_code=100)])

    broker.on(delete_wire.DeleteTopicsRequest, answer)
    assert world.run(topics.delete_topics(world.session(), ["t"])) == {"t": None}
    error = world.run(topics.delete_topics_by_id(world.session(), [gone]))[gone]
    assert error is not None
    assert error.code == ErrorCode.UNKNOWN_TOPIC_ID
    broker.versions[20] = (1, 5)
    with pytest.raises(KafkaError, match="by name only"):
        world.run(topics.delete_topics_by_id(world.session(), [gone]))


def test_partitions_are_added_with_and_without_a_place(world: FakeWorld, broker: FakeBroker) -> None:
    broker.on(partitions_wire.CreatePartitionsRequest, lambda _: partitions_wire.CreatePartitionsResponse())
    world.run(topics.create_partitions(world.session(), {"a": 3, "b": NewPartitions(2, [[0]])}))
    (request,) = broker.received(partitions_wire.CreatePartitionsRequest)
    assert [(each.name, each.count) for each in request.topics] == [("a", 3), ("b", 2)]
    assert request.topics[0].assignments is None
    assert [each.broker_ids for each in request.topics[1].assignments or ()] == [[0]]


def test_pages_of_partitions_are_put_together(world: FakeWorld, broker: FakeBroker) -> None:
    def answer(request: pages_wire.DescribeTopicPartitionsRequest) -> pages_wire.DescribeTopicPartitionsResponse:
        at = request.cursor.partition_index if request.cursor else 0
        partition = pages_wire.DescribeTopicPartitionsResponsePartition(
            partition_index=at, leader_id=0, eligible_leader_replicas=[at]
        )
        topic = pages_wire.DescribeTopicPartitionsResponseTopic(name="t", partitions=[partition])
        following = pages_wire.Cursor(topic_name="t", partition_index=at + 1) if at < 2 else None
        return pages_wire.DescribeTopicPartitionsResponse(topics=[topic], next_cursor=following)

    broker.on(pages_wire.DescribeTopicPartitionsRequest, answer)
    found = world.run(topics.describe_topic_partitions(world.session(), ["t"], page_size=1))["t"]
    assert isinstance(found, TopicPartitions)
    assert [each.partition.partition for each in found.partitions] == [0, 1, 2]
    assert [each.eligible_leader_replicas for each in found.partitions] == [[0], [1], [2]]


def offsets_of(request: offsets_wire.ListOffsetsRequest) -> offsets_wire.ListOffsetsResponse:
    """Each partition's offset tells what it was asked for."""
    return offsets_wire.ListOffsetsResponse(
        topics=[
            offsets_wire.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    offsets_wire.ListOffsetsPartitionResponse(
                        partition_index=each.partition_index, offset=100 + each.timestamp, timestamp=-1, leader_epoch=0
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def test_offsets_are_asked_of_the_leaders(world: FakeWorld, broker: FakeBroker) -> None:
    other = world.broker(1)
    world.topic("t", 2)
    for each in (broker, other):
        each.on(offsets_wire.ListOffsetsRequest, offsets_of)
    wanted = {TopicPartition("t", 1): EARLIEST, TopicPartition("t", 0): LATEST}
    outcome = world.run(records.list_offsets(world.session(), wanted, isolation_level=READ_COMMITTED))
    assert outcome == {TopicPartition("t", 1): OffsetAt(98, -1, 0), TopicPartition("t", 0): OffsetAt(99, -1, 0)}
    assert [each.isolation_level for each in broker.received(offsets_wire.ListOffsetsRequest)] == [1]


def test_only_the_partition_that_failed_is_asked_about_again(world: FakeWorld, broker: FakeBroker) -> None:
    world.topic("t", 2)
    asked: list[list[int]] = []

    def answer(request: offsets_wire.ListOffsetsRequest) -> offsets_wire.ListOffsetsResponse:
        response = offsets_of(request)
        partitions = response.topics[0].partitions
        asked.append([each.partition_index for each in partitions])
        if len(asked) == 1:
            partitions[1].error_code = int(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return response

    broker.on(offsets_wire.ListOffsetsRequest, answer)
    wanted = {TopicPartition("t", 0): LATEST, TopicPartition("t", 1): LATEST}
    outcome = world.run(records.list_offsets(world.session(), wanted))
    assert [each.offset for each in outcome.values() if isinstance(each, OffsetAt)] == [99, 99]
    assert asked == [[0, 1], [1]]


def test_a_partition_that_is_not_there_says_how_many_there_are(world: FakeWorld, broker: FakeBroker) -> None:
    world.topic("t", 2)
    error = world.run(records.list_offsets(world.session(), {TopicPartition("t", 2): LATEST}))[TopicPartition("t", 2)]
    assert isinstance(error, KafkaError)
    assert "has 2 partitions, none with number 2" in (error.message or "")


def test_a_special_time_that_a_broker_does_not_know_is_not_asked_as_a_date(
    world: FakeWorld, broker: FakeBroker
) -> None:
    world.topic("t")
    broker.versions[2] = (1, 6)
    broker.on(offsets_wire.ListOffsetsRequest, offsets_of)
    with pytest.raises(KafkaError, match="largest timestamp"):
        world.run(records.list_offsets(world.session(), {TopicPartition("t", 0): MAX_TIMESTAMP}))
    assert broker.received(offsets_wire.ListOffsetsRequest) == []


def test_records_are_dropped_at_the_leader(world: FakeWorld, broker: FakeBroker) -> None:
    world.topic("t")

    def answer(request: delete_records_wire.DeleteRecordsRequest) -> delete_records_wire.DeleteRecordsResponse:
        assert request.topics[0].partitions[0].offset == 5
        result = delete_records_wire.DeleteRecordsPartitionResult(partition_index=0, low_watermark=5)
        topic = delete_records_wire.DeleteRecordsTopicResult(name="t", partitions=[result])
        return delete_records_wire.DeleteRecordsResponse(topics=[topic])

    broker.on(delete_records_wire.DeleteRecordsRequest, answer)
    assert world.run(records.delete_records(world.session(), {TopicPartition("t", 0): 5})) == {
        TopicPartition("t", 0): 5
    }


def described(request: describe_configs_wire.DescribeConfigsRequest) -> describe_configs_wire.DescribeConfigsResponse:
    entry = describe_configs_wire.DescribeConfigsResourceResult
    return describe_configs_wire.DescribeConfigsResponse(
        results=[
            describe_configs_wire.DescribeConfigsResult(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                configs=[
                    entry(name="b", value="1", config_source=1, config_type=3),
                    entry(name="a", value="2", config_source=5),
                ],
            )
            for each in request.resources
        ]
    )


def test_settings_of_brokers_are_asked_of_themselves(world: FakeWorld, broker: FakeBroker) -> None:
    other = world.broker(1)
    for each in (broker, other):
        each.on(describe_configs_wire.DescribeConfigsRequest, described)
    wanted = [
        ConfigResource(ResourceType.BROKER, "1"),
        ConfigResource(ResourceType.TOPIC, "t"),
        ConfigResource(ResourceType.BROKER, ""),
        ConfigResource(ResourceType.BROKER, "x"),
    ]
    session = world.session()
    world.run(session.link(0))  # any broker: the one that is connected
    outcome = world.run(configs.describe_configs(session, wanted))
    assert list(outcome) == wanted
    assert isinstance(outcome[wanted[3]], KafkaError)
    entries = outcome[wanted[0]]
    assert isinstance(entries, list)
    assert [(each.name, each.source, each.is_default) for each in entries] == [
        ("a", "default", True),
        ("b", "topic", False),
    ]
    asked = {
        each.id: [
            (one.resource_type, one.resource_name)
            for request in each.received(describe_configs_wire.DescribeConfigsRequest)
            for one in request.resources
        ]
        for each in (broker, other)
    }
    assert asked == {0: [(2, "t"), (4, "")], 1: [(4, "1")]}


def test_changes_of_settings(world: FakeWorld, broker: FakeBroker) -> None:
    resource = ConfigResource(ResourceType.TOPIC, "t")
    refusal = alter_wire.AlterConfigsResourceResponse(
        resource_type=2, resource_name="t", error_code=40, error_message="no such setting"
    )
    broker.on(
        alter_wire.IncrementalAlterConfigsRequest,
        lambda _: alter_wire.IncrementalAlterConfigsResponse(responses=[refusal]),
    )
    session = world.session()
    outcome = world.run(configs.alter_configs(session, {resource: {"a": "1", "b": None}}))
    error = outcome[resource]
    assert error is not None
    assert (error.code, error.message) == (ErrorCode.INVALID_CONFIG, "no such setting")
    world.run(configs.alter_configs(session, {resource: [ConfigChange("c", "x", ConfigOperation.APPEND)]}))
    sent = [
        (each.name, each.value, each.config_operation)
        for request in broker.received(alter_wire.IncrementalAlterConfigsRequest)
        for each in request.resources[0].configs
    ]
    assert sent == [("a", "1", 0), ("b", None, 1), ("c", "x", 2)]


def test_an_old_broker_lists_client_metrics_only(world: FakeWorld, broker: FakeBroker) -> None:
    broker.versions[74] = (0, 0)
    broker.on(
        resources_wire.ListConfigResourcesRequest,
        lambda _: resources_wire.ListConfigResourcesResponse(
            config_resources=[resources_wire.ConfigResource(resource_name="m")]
        ),
    )
    assert world.run(configs.list_client_metrics(world.session())) == ["m"]
    with pytest.raises(KafkaError, match="only list client metrics"):
        world.run(configs.list_config_resources(world.session()))


def test_directories_of_all_brokers_and_moves_between_them(world: FakeWorld, broker: FakeBroker) -> None:
    other = world.broker(1)

    def dirs(path: str) -> Any:
        return lambda _: dirs_wire.DescribeLogDirsResponse(results=[dirs_wire.DescribeLogDirsResult(log_dir=path)])

    broker.on(dirs_wire.DescribeLogDirsRequest, dirs("/a"))
    other.on(dirs_wire.DescribeLogDirsRequest, dirs("/b"))
    found = world.run(log_dirs.describe_log_dirs(world.session()))
    assert [(each.broker, each.path) for each in found] == [(0, "/a"), (1, "/b")]

    def moved(request: alter_dirs_wire.AlterReplicaLogDirsRequest) -> alter_dirs_wire.AlterReplicaLogDirsResponse:
        assert [(each.path, each.topics[0].partitions) for each in request.dirs] == [("/c", [0])]
        result = alter_dirs_wire.AlterReplicaLogDirPartitionResult(partition_index=0, error_code=57)
        topic = alter_dirs_wire.AlterReplicaLogDirTopicResult(topic_name="t", partitions=[result])
        return alter_dirs_wire.AlterReplicaLogDirsResponse(results=[topic])

    other.on(alter_dirs_wire.AlterReplicaLogDirsRequest, moved)
    broker.on(alter_dirs_wire.AlterReplicaLogDirsRequest, lambda _: alter_dirs_wire.AlterReplicaLogDirsResponse())
    moves = {Replica("t", 0, 1): "/c", Replica("t", 5, 0): "/d"}
    error = world.run(log_dirs.alter_replica_log_dirs(world.session(), moves))[Replica("t", 0, 1)]
    assert error is not None
    assert error.code == ErrorCode.LOG_DIR_NOT_FOUND
