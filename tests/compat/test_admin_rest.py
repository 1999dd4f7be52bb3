"""The admin calls that one broker alone answers in a sentence: rules, elections, reassignments, features, producers."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from compat.support.clients.base import Message
from compat.support.clients.javaclient import JavaClient
from compat.support.java import Java, Tool

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
SECURITY_DISABLED = 54
ELECTION_NOT_NEEDED = 84


@pytest.fixture
def tool(java: Java, broker_address: str) -> Callable[..., Tool]:
    def run(main: str, *arguments: str, status: int = 0) -> Tool:
        answer = java.tool(main, "--bootstrap-server", broker_address, *arguments)
        assert answer.status == status, answer
        return answer

    return run


@pytest.fixture
def confluent(broker_address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker_address})


def test_rules_by_confluent(confluent: AdminClient) -> None:
    any_rule = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    rule = AclBinding(
        ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermissionType.ALLOW
    )
    assert confluent.describe_acls(any_rule).result(60) == []  # librdkafka does not look at the code
    for future in (confluent.create_acls([rule])[rule], confluent.delete_acls([any_rule])[any_rule]):
        with pytest.raises(KafkaException) as raised:
            future.result(60)
        assert raised.value.args[0].code() == SECURITY_DISABLED
        assert "No Authorizer is configured" in raised.value.args[0].str()


def test_rules_by_kafka_acls(tool: Callable[..., Tool]) -> None:
    listed = tool("AclCommand", "--list", status=1)
    assert "SecurityDisabledException" in listed.stdout + listed.stderr


def test_elections_by_confluent(confluent: AdminClient, create_topic: Callable[..., None], topic: str) -> None:
    create_topic(topic, partitions=2)
    for kind in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        outcome = confluent.elect_leaders(kind, [TopicPartition(topic, 0), TopicPartition(topic, 1)]).result(60)
        assert [error.code() for error in outcome.values()] == [ELECTION_NOT_NEEDED, ELECTION_NOT_NEEDED]


def test_kafka_leader_election(tool: Callable[..., Tool], create_topic: Callable[..., None], topic: str) -> None:
    create_topic(topic)
    said = tool("LeaderElectionCommand", "--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert f"Valid replica already elected for partitions {topic}-0" in said.stdout
    tool("LeaderElectionCommand", "--election-type", "preferred", "--all-topic-partitions")


def test_kafka_reassign_partitions(
    tool: Callable[..., Tool], create_topic: Callable[..., None], topic: str, tmp_path: Path
) -> None:
    create_topic(topic)
    plan = tmp_path / "plan.json"
    partition = {"topic": topic, "partition": 0, "replicas": [0]}
    plan.write_text(json.dumps({"version": 1, "partitions": [partition]}))
    options = ["--reassignment-json-file", str(plan)]
    done = tool(REASSIGN, *options, "--execute")
    assert "Successfully started partition reassignment" in done.stdout
    assert "is completed" in tool(REASSIGN, *options, "--verify").stdout
    assert "No partition reassignments found." in tool(REASSIGN, "--list").stdout
    cancelled = tool(REASSIGN, *options, "--cancel")
    assert "None of the specified partition reassignments are active." in cancelled.stdout
    plan.write_text(json.dumps({"version": 1, "partitions": [{**partition, "replicas": [7]}]}))
    refused = tool(REASSIGN, *options, "--execute", status=1)
    assert "7" in refused.stdout + refused.stderr


def test_kafka_features(tool: Callable[..., Tool]) -> None:
    refused = tool("FeatureCommand", "upgrade", "--feature", "no.such=1", status=1)
    assert "no.such" in refused.stdout + refused.stderr
    tool("FeatureCommand", "describe")


def test_unregister_a_broker_that_is_not_there(java: Java, broker_address: str) -> None:
    answer = java.tool("ClusterTool", "unregister", "--bootstrap-server", broker_address, "--id", "77")
    assert "Broker ID 77 is not currently registered" in answer.stdout + answer.stderr, answer


def test_producers_of_a_partition(tool: Callable[..., Tool], java: Java, broker_address: str, topic: str) -> None:
    JavaClient(java).produce(broker_address, topic, [Message(value=b"v") for _ in range(3)], idempotent=True)
    printed = tool("TransactionsCommand", "describe-producers", "--topic", topic, "--partition", "0").stdout
    header, row = printed.splitlines()
    assert header.split() == [
        *("ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp"),
        "CurrentTransactionStartOffset",
    ]
    assert re.fullmatch(r"\d+\t0\t-1\t2\t\d+\tNone", re.sub(r"[ \t]+", "\t", row.strip())), row


def test_what_has_configs(tool: Callable[..., Tool], create_topic: Callable[..., None], topic: str) -> None:
    """`kafka-configs --describe` without a name lists them by ListConfigResources or Metadata."""
    create_topic(topic, {"retention.ms": "5000"})
    printed = tool("kafka.admin.ConfigCommand", "--describe", "--entity-type", "topics").stdout
    assert f"Dynamic configs for topic {topic} are:" in printed
