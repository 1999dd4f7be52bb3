"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments of a broker that is alone."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import BrokerId
from headwater.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headwater.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture(name="lab")
def lab_with_a_topic(make_lab: Any) -> Any:
    lab = make_lab()
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1, assignments=[], configs=[])
    lab.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False))
    return lab


def elect(lab: Any, wanted: dict[str, list[int]] | None, kind: int = PREFERRED, version: int = 2) -> Any:
    topics = None if wanted is None else [TopicPartitions(topic=name, partitions=wanted[name]) for name in wanted]
    return lab.ask(ElectLeadersRequest(election_type=kind, topic_partitions=topics, timeout_ms=1000), version)


def results(answer: Any) -> list[tuple[str, int, str]]:
    return [
        (topic.topic, each.partition_id, ErrorCode(each.error_code).name)
        for topic in answer.replica_election_results
        for each in topic.partition_result
    ]


@pytest.mark.parametrize(("kind", "version"), [(PREFERRED, 0), (PREFERRED, 1), (UNCLEAN, 1), (UNCLEAN, 2)])
def test_who_leads_needs_no_election(lab: Any, kind: int, version: int) -> None:
    answer = elect(lab, {"t": [0, 1, 2], "none": [0]}, kind, version)
    assert answer.error_code == 0
    assert results(answer) == [
        ("t", 0, "ELECTION_NOT_NEEDED"),
        ("t", 1, "ELECTION_NOT_NEEDED"),
        ("t", 2, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("none", 0, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]


def test_of_all_topics_only_partitions_that_need_one_are_told(lab: Any) -> None:
    answer = elect(lab, None)
    assert [topic.topic for topic in answer.replica_election_results] == ["t"]
    assert results(answer) == []
    lab.broker.image.topic("t").partitions[1].replicas.insert(0, BrokerId(7))
    assert results(elect(lab, None)) == [("t", 1, "PREFERRED_LEADER_NOT_AVAILABLE")]
    assert results(elect(lab, None, UNCLEAN)) == []
    lab.broker.image.topic("t").partitions[1].leader = BrokerId(-1)
    assert results(elect(lab, None, UNCLEAN)) == [("t", 1, "ELIGIBLE_LEADERS_NOT_AVAILABLE")]


def test_an_election_of_an_unknown_kind_is_refused(lab: Any) -> None:
    answer = elect(lab, {"t": [0]}, 2)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert results(answer) == [("t", 0, "INVALID_REQUEST")]
    assert elect(lab, None, 2).error_code == ErrorCode.INVALID_REQUEST
    assert elect(lab, {}, 2).error_code == 0


def reassign(lab: Any, topic: str, index: int, replicas: list[int] | None, **more: Any) -> tuple[str, str | None]:
    partitions = [ReassignablePartition(partition_index=index, replicas=replicas)]
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=1000, topics=[ReassignableTopic(name=topic, partitions=partitions)], **more
    )
    answer = lab.ask(request)
    assert answer.error_code == 0
    (result,) = answer.responses[0].partitions
    assert (answer.responses[0].name, result.partition_index) == (topic, index)
    return ErrorCode(result.error_code).name, result.error_message


def test_a_partition_may_stay_where_it_is(lab: Any) -> None:
    assert reassign(lab, "t", 0, [1]) == ("NONE", None)


@pytest.mark.parametrize(
    ("topic", "index", "replicas", "code", "message"),
    [
        ("t", 0, None, "NO_REASSIGNMENT_IN_PROGRESS", None),
        ("none", 0, [1], "UNKNOWN_TOPIC_OR_PARTITION", "Unable to find a topic named none."),
        ("t", 2, [1], "UNKNOWN_TOPIC_OR_PARTITION", "Unable to find partition t:2."),
        ("t", 0, [], "INVALID_REPLICA_ASSIGNMENT", "includes an empty replica list"),
        ("t", 0, [5], "INVALID_REPLICA_ASSIGNMENT", "includes broker 5, but no such broker is registered"),
        ("t", 0, [1, 1], "INVALID_REPLICA_ASSIGNMENT", "includes the broker 1 more than once"),
    ],
)
def test_what_cannot_be_reassigned(
    lab: Any, topic: str, index: int, replicas: list[int] | None, code: str, message: str | None
) -> None:
    answered, said = reassign(lab, topic, index, replicas)
    assert answered == code
    assert said is None if message is None else message in (said or "")


def test_the_number_of_replicas_may_be_held(lab: Any) -> None:
    lab.add_broker(2)
    code, message = reassign(lab, "t", 0, [1, 2], allow_replication_factor_change=False)
    assert (code, message) == ("INVALID_REPLICATION_FACTOR", "The replication factor is changed from 1 to 2")
    assert reassign(lab, "t", 0, [2])[0] == "INVALID_REPLICA_ASSIGNMENT"


def test_nothing_is_on_the_move(lab: Any) -> None:
    some = [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0])]
    for topics in (None, some):
        answer = lab.ask(ListPartitionReassignmentsRequest(timeout_ms=1000, topics=topics))
        assert (answer.error_code, answer.topics) == (0, [])
