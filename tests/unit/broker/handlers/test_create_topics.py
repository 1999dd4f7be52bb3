"""CreateTopics. The codes and sentences are those that an Apache Kafka 4.3 broker gave to the same requests."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import NO_TOPIC_ID
from headwater.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)

VERSIONS = range(2, 8)


def topic(
    name: str,
    count: int = 1,
    factor: int = 1,
    configs: dict[str, str | None] | None = None,
    assignments: list[tuple[int, list[int]]] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=count,
        replication_factor=factor,
        assignments=[CreatableReplicaAssignment(partition_index=p, broker_ids=ids) for p, ids in assignments or []],
        configs=[CreatableTopicConfig(name=n, value=v) for n, v in (configs or {}).items()],
    )


def request(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), timeout_ms=1000, validate_only=validate_only)


def outcome(result: Any) -> tuple[str, str, str | None]:
    return result.name, ErrorCode(result.error_code).name, result.error_message


@pytest.mark.parametrize("version", VERSIONS)
def test_makes_a_topic_in_every_version(lab: Any, version: int) -> None:
    (result,) = lab.ask(request(topic("clicks", 3)), version).topics
    assert outcome(result) == ("clicks", "NONE", None)
    made = lab.broker.image.topic("clicks")
    assert [p.replicas for p in made.partitions] == [[1], [1], [1]]
    assert lab.broker.partition("clicks", 2).log.log_end_offset == 0
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
    if version >= 7:
        assert result.topic_id == made.topic_id


def test_minus_one_takes_the_brokers_defaults(make_lab: Any) -> None:
    lab = make_lab(num_partitions="4")
    (result,) = lab.ask(request(topic("clicks", -1, -1))).topics
    assert (result.num_partitions, result.replication_factor) == (4, 1)


def test_answers_the_configs_with_their_sources(lab: Any) -> None:
    (result,) = lab.ask(request(topic("clicks", configs={"cleanup.policy": "compact, delete"}))).topics
    configs = {config.name: config for config in result.configs}
    assert len(configs) == 33
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == ("compact, delete", 1)
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("604800000", 5)
    assert lab.broker.image.topic("clicks").config == {"cleanup.policy": "compact, delete"}
    assert lab.broker.partition("clicks", 0).log.config.cleanup_compact


def test_a_topic_and_its_config_survive_a_restart(lab: Any) -> None:
    lab.ask(request(topic("clicks", 2, configs={"retention.ms": "5"})))
    topic_id = lab.broker.image.topic("clicks").topic_id
    again = lab.restarted()
    assert again.broker.image.topic("clicks").topic_id == topic_id
    assert again.broker.partition("clicks", 1).log.config.retention_ms == 5


def test_validate_only_checks_and_makes_nothing(lab: Any) -> None:
    good, bad = lab.ask(request(topic("clicks", 2), topic("views", 0), validate_only=True)).topics
    assert outcome(good) == ("clicks", "NONE", None)
    assert good.num_partitions == 2
    assert outcome(bad)[1] == "INVALID_PARTITIONS"
    assert lab.broker.image.ids_by_name == {}
    assert lab.disk.file_size("/data/headwater.metadata") == 0


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        (topic("bad name"), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: 'bad name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        (topic(""), "INVALID_TOPIC_EXCEPTION", "Topic name is invalid: the empty string is not allowed"),
        (topic("taken"), "TOPIC_ALREADY_EXISTS", "Topic 'taken' already exists."),
        (topic("a_b"), "INVALID_TOPIC_EXCEPTION", "Topic 'a_b' collides with existing topic: a.b"),
        (topic("x", 0), "INVALID_PARTITIONS", "Number of partitions was set to an invalid non-positive value."),
        (topic("x", -2), "INVALID_PARTITIONS", "Number of partitions was set to an invalid non-positive value."),
        (topic("x", 1, 0), "INVALID_REPLICATION_FACTOR", "Replication factor must be larger than 0, or -1 to use the default value."),
        (topic("x", 1, 2), "INVALID_REPLICATION_FACTOR", "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because only 1 broker(s) are registered."),
        (topic("x", 2**31 - 1), "POLICY_VIOLATION", "Excessively large number of partitions per request."),
        (topic("x", configs={"nope": "1"}), "INVALID_CONFIG", "Unknown topic config name: nope"),
        (topic("x", configs={"retention.ms": "abc"}), "INVALID_CONFIG", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        (topic("x", configs={"retention.ms": None}), "INVALID_CONFIG", "Null value not supported for topic configs: retention.ms"),
        (topic("__cluster_metadata"), "INVALID_REQUEST", "Creation of internal topic __cluster_metadata is prohibited."),
        (topic("x", 2, -1, assignments=[(0, [1])]), "INVALID_REQUEST", "A manual partition assignment was specified, but numPartitions was not set to -1."),
        (topic("x", -1, 1, assignments=[(0, [1])]), "INVALID_REQUEST", "A manual partition assignment was specified, but replication factor was not set to -1."),
        (topic("x", -1, -1, assignments=[(0, [1]), (2, [1])]), "INVALID_REPLICA_ASSIGNMENT", "partitions should be a consecutive 0-based integer sequence"),
        (topic("x", -1, -1, assignments=[(0, [1]), (0, [1])]), "INVALID_REPLICA_ASSIGNMENT", "Found multiple manual partition assignments for partition 0"),
        (topic("x", -1, -1, assignments=[(0, [1, 1])]), "INVALID_REPLICA_ASSIGNMENT", "The manual partition assignment includes the broker 1 more than once."),
        (topic("x", -1, -1, assignments=[(0, [9])]), "INVALID_REPLICA_ASSIGNMENT", "The manual partition assignment includes broker 9, but no such broker is registered."),
        (topic("x", -1, -1, assignments=[(0, [])]), "INVALID_REPLICA_ASSIGNMENT", "The manual partition assignment includes an empty replica list."),
    ],
)  # fmt: skip
def test_what_is_refused_and_how(lab: Any, asked: CreatableTopic, code: str, message: str) -> None:
    lab.ask(request(topic("taken"), topic("a.b")))
    (result,) = lab.ask(request(asked)).topics
    assert outcome(result) == (asked.name, code, message)
    assert (result.num_partitions, result.replication_factor, result.configs) == (-1, -1, [])
    assert result.topic_id == NO_TOPIC_ID
    assert set(lab.broker.image.ids_by_name) == {"taken", "a.b"}


def test_replicas_by_hand(lab: Any) -> None:
    lab.add_broker(2)
    (result,) = lab.ask(request(topic("clicks", -1, -1, assignments=[(1, [2, 1]), (0, [1, 2])]))).topics
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    states = lab.broker.image.topic("clicks").partitions
    assert [state.replicas for state in states] == [[1, 2], [2, 1]]
    (result,) = lab.ask(request(topic("x", -1, -1, assignments=[(0, [1]), (1, [1, 2])]))).topics
    assert outcome(result)[1] == "INVALID_REPLICA_ASSIGNMENT"


def test_one_failure_does_not_stop_the_others(lab: Any) -> None:
    results = lab.ask(request(topic("a"), topic("bad name"), topic("b"))).topics
    assert [outcome(result)[1] for result in results] == ["NONE", "INVALID_TOPIC_EXCEPTION", "NONE"]
    assert set(lab.broker.image.ids_by_name) == {"a", "b"}


def test_a_name_that_stands_in_the_request_twice_is_refused_once(lab: Any) -> None:
    results = lab.ask(request(topic("dup"), topic("dup"), topic("other"))).topics
    assert [outcome(result) for result in results] == [
        ("other", "NONE", None),
        ("dup", "INVALID_REQUEST", "Duplicate topic name."),
    ]
    assert set(lab.broker.image.ids_by_name) == {"other"}


def test_two_names_of_one_request_that_collide(lab: Any) -> None:
    results = lab.ask(request(topic("c.d"), topic("c_d"))).topics
    assert [outcome(result)[1] for result in results] == ["NONE", "INVALID_TOPIC_EXCEPTION"]


def test_two_clients_that_make_the_same_topic_at_once_get_one_topic(lab: Any) -> None:
    """The second is planned while the first is still being synced."""
    first, second = lab.begin(request(topic("clicks"))), lab.begin(request(topic("clicks")))
    assert not first.done
    lab.settle()
    assert outcome(first.response.topics[0])[1] == "NONE"
    assert outcome(second.response.topics[0])[1] == "TOPIC_ALREADY_EXISTS"


def test_a_change_that_cannot_be_stored_is_no_topic(lab: Any) -> None:
    lab.disk.faults.syncs_to_fail = 1
    good, bad = lab.ask(request(topic("clicks"), topic("bad name"))).topics
    assert outcome(good)[1] == "KAFKA_STORAGE_ERROR"
    assert outcome(bad)[1] == "INVALID_TOPIC_EXCEPTION"
    assert lab.broker.image.ids_by_name == {}


def test_an_empty_request_has_an_empty_answer(lab: Any) -> None:
    assert lab.ask(request()).topics == []
