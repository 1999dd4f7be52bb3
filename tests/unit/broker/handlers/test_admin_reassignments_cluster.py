"""ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments where there is a controller."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.controller.controller import Controller
from headwater.metadata.image import TopicState
from headwater.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headwater.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from headwater.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from unit.controller.controller_support import TOPIC, FakeStore, live, partition

PREFERRED, UNCLEAN = 0, 1


@pytest.fixture(name="lab")
def lab_with_a_controller(lab: Any) -> Any:
    broker, image = lab.broker, lab.broker.image
    image.brokers.update(live(1, 2, 3))
    states = [partition(2, (1, 2)), partition(1, (1, 2)), partition(2, (1, 2), [2]), partition(-1, (3, 2), [4])]
    image.topics[TOPIC] = TopicState("t", TOPIC, states)
    image.ids_by_name["t"] = TOPIC
    store = FakeStore(image, lab.scheduler)
    controller = Controller(image, store, lab.scheduler, lab.clock, broker.config, broker.metrics.controller)
    store.on_applied = controller.on_changes
    broker.controller = controller
    controller.activate()
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


def test_the_controller_elects(lab: Any) -> None:
    answer = elect(lab, {"t": [1, 0, 2, 9], "none": [0]})
    assert answer.error_code == 0
    assert results(answer) == [
        ("t", 1, "ELECTION_NOT_NEEDED"),
        ("t", 0, "NONE"),
        ("t", 2, "PREFERRED_LEADER_NOT_AVAILABLE"),
        ("t", 9, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("none", 0, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]
    assert [state.leader for state in lab.broker.image.topics[TOPIC].partitions] == [1, 1, 2, -1]
    told = {each.partition_id: each.error_message for each in answer.replica_election_results[0].partition_result}
    assert told[0] is None
    assert told[2] == "The preferred leader was not available."


def test_of_all_topics_only_partitions_that_need_an_election_are_told(lab: Any) -> None:
    assert results(elect(lab, None)) == [
        ("t", 0, "NONE"),
        ("t", 2, "PREFERRED_LEADER_NOT_AVAILABLE"),
        ("t", 3, "PREFERRED_LEADER_NOT_AVAILABLE"),
    ]
    assert results(elect(lab, None, UNCLEAN)) == [("t", 3, "NONE")]
    assert lab.broker.metrics.controller.unclean_elections == 1


def test_an_election_of_an_unknown_kind_is_refused(lab: Any) -> None:
    assert elect(lab, {"t": [0]}, 2).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 1, 2])
def test_who_is_not_the_controller_elects_nobody(lab: Any, version: int) -> None:
    lab.broker.controller.deactivate()
    answer = elect(lab, {"t": [0]}, version=version)
    assert answer.error_code == (ErrorCode.NOT_CONTROLLER if version else 0)
    assert results(answer) == [("t", 0, "NOT_CONTROLLER")]


def test_the_connection_ends_where_the_answer_has_no_place_for_the_error(lab: Any) -> None:
    lab.broker.controller.deactivate()
    answer = lab.begin(ElectLeadersRequest(topic_partitions=None, timeout_ms=1000), 0)
    assert isinstance(answer.response, KafkaError)


def reassign(lab: Any, **moves: Any) -> Any:
    partitions = [ReassignablePartition(partition_index=int(name[1:]), replicas=moves[name]) for name in moves]
    topic = ReassignableTopic(name="t", partitions=partitions)
    return lab.ask(AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[topic]))


def outcomes(answer: Any) -> list[tuple[int, str]]:
    assert answer.error_code == 0
    (topic,) = answer.responses
    return [(each.partition_index, ErrorCode(each.error_code).name) for each in topic.partitions]


def listed(lab: Any, topics: Any = None) -> list[tuple[str, int, list[int], list[int], list[int]]]:
    answer = lab.ask(ListPartitionReassignmentsRequest(timeout_ms=1000, topics=topics))
    assert answer.error_code == 0
    return [
        (topic.name, each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in answer.topics
        for each in topic.partitions
    ]


def test_moves_begin_are_listed_and_are_cancelled(lab: Any) -> None:
    answer = reassign(lab, p1=[3, 1], p0=[9], p2=None)
    assert outcomes(answer) == [(1, "NONE"), (0, "INVALID_REPLICA_ASSIGNMENT"), (2, "NO_REASSIGNMENT_IN_PROGRESS")]
    assert answer.responses[0].partitions[1].error_message.endswith("broker 9, but no such broker is registered.")
    on_the_move = [("t", 1, [3, 1, 2], [3], [2])]
    assert listed(lab) == on_the_move
    assert listed(lab, [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0, 1, 77])]) == on_the_move
    assert listed(lab, [ListPartitionReassignmentsTopics(name="t", partition_indexes=[0])]) == []
    assert listed(lab, [ListPartitionReassignmentsTopics(name="none", partition_indexes=[1])]) == []
    assert outcomes(reassign(lab, p1=None)) == [(1, "NONE")]
    assert listed(lab) == []


def test_the_number_of_replicas_may_be_held(lab: Any) -> None:
    topic = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[1, 2, 3])])
    answer = lab.ask(
        AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[topic], allow_replication_factor_change=False)
    )
    assert outcomes(answer) == [(0, "INVALID_REPLICATION_FACTOR")]
    assert not answer.allow_replication_factor_change


def test_who_is_not_the_controller_moves_and_lists_nothing(lab: Any) -> None:
    lab.broker.controller.deactivate()
    assert reassign(lab, p0=[3]).error_code == ErrorCode.NOT_CONTROLLER
    answer = lab.ask(ListPartitionReassignmentsRequest(timeout_ms=1000, topics=None))
    assert (answer.error_code, answer.topics) == (ErrorCode.NOT_CONTROLLER, [])
