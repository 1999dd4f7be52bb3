"""CreatePartitions: more of them, never fewer."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import BrokerId
from headwater.controller import placement
from headwater.metadata.image import BrokerState
from headwater.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from headwater.wire.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest


@pytest.fixture(name="lab")
def lab_with_a_topic(make_lab: Any) -> Any:
    lab = make_lab()
    topic = CreatableTopic(name="clicks", num_partitions=3, replication_factor=1, assignments=[], configs=[])
    lab.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False))
    return lab


def request(*topics: tuple[str, int, list[list[int]] | None], validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=None
                if by_hand is None
                else [CreatePartitionsAssignment(broker_ids=ids) for ids in by_hand],
            )
            for name, count, by_hand in topics
        ],
        timeout_ms=1000,
        validate_only=validate_only,
    )


def outcome(result: Any) -> tuple[str, str, str | None]:
    return result.name, ErrorCode(result.error_code).name, result.error_message


@pytest.mark.parametrize("version", range(4))
def test_adds_partitions_that_can_be_written_at_once(lab: Any, version: int) -> None:
    (result,) = lab.ask(request(("clicks", 5, None)), version).results
    assert outcome(result) == ("clicks", "NONE", None)
    assert len(lab.broker.image.topic("clicks").partitions) == 5
    lab.append("clicks", 4, 1)
    assert lab.broker.partition("clicks", 4).high_watermark == 1


def test_survives_a_restart(lab: Any) -> None:
    lab.ask(request(("clicks", 5, None)))
    assert len(lab.restarted().broker.image.topic("clicks").partitions) == 5


@pytest.mark.parametrize(
    ("count", "by_hand", "code", "message"),
    [
        (3, None, "INVALID_PARTITIONS", "Topic already has 3 partition(s)."),
        (2, None, "INVALID_PARTITIONS", "The topic clicks currently has 3 partition(s); 2 would not be an increase."),
        (-1, None, "INVALID_PARTITIONS", "The topic clicks currently has 3 partition(s); -1 would not be an increase."),
        (2**31 - 1, None, "POLICY_VIOLATION", "Excessively large number of partitions per request."),
        (5, [[1]], "INVALID_REPLICA_ASSIGNMENT", "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."),
        (4, [], "INVALID_REPLICA_ASSIGNMENT", "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified."),
        (4, [[9]], "INVALID_REPLICA_ASSIGNMENT", "The manual partition assignment includes broker 9, but no such broker is registered."),
        (4, [[]], "INVALID_REPLICA_ASSIGNMENT", "The manual partition assignment includes an empty replica list."),
        (4, [[1, 1]], "INVALID_REPLICA_ASSIGNMENT", "The manual partition assignment includes the broker 1 more than once."),
        (4, [[1, 2]], "INVALID_REPLICA_ASSIGNMENT", "The manual partition assignment includes a partition with 2 replica(s), but this is not consistent with previous partitions, which have 1 replica(s)."),
    ],
)  # fmt: skip
def test_what_is_refused_and_how(
    lab: Any, count: int, by_hand: list[list[int]] | None, code: str, message: str
) -> None:
    lab.add_broker(2)
    (result,) = lab.ask(request(("clicks", count, by_hand))).results
    assert outcome(result) == ("clicks", code, message)
    assert len(lab.broker.image.topic("clicks").partitions) == 3


def test_an_unknown_topic_and_a_repeated_one(lab: Any) -> None:
    (result,) = lab.ask(request(("nope", 3, None))).results
    assert outcome(result)[1] == "UNKNOWN_TOPIC_OR_PARTITION"
    (result,) = lab.ask(request(("clicks", 4, None), ("clicks", 5, None))).results
    assert outcome(result) == ("clicks", "INVALID_REQUEST", "Duplicate topic name.")


def test_validate_only_adds_nothing(lab: Any) -> None:
    (result,) = lab.ask(request(("clicks", 4, [[1]]), validate_only=True)).results
    assert outcome(result)[1] == "NONE"
    assert len(lab.broker.image.topic("clicks").partitions) == 3


def test_two_clients_that_add_at_once_do_not_add_twice(lab: Any) -> None:
    first, second = lab.begin(request(("clicks", 5, None))), lab.begin(request(("clicks", 5, None)))
    lab.settle()
    assert outcome(first.response.results[0])[1] == "NONE"
    assert outcome(second.response.results[0])[2] == "Topic already has 5 partition(s)."
    assert len(lab.broker.image.topic("clicks").partitions) == 5


def test_the_topic_goes_while_its_partitions_wait_for_their_turn(lab: Any) -> None:
    from headwater.wire.messages.delete_topics import DeleteTopicsRequest

    gone = lab.begin(DeleteTopicsRequest(topic_names=["clicks"], timeout_ms=1), 5)
    late = lab.begin(request(("clicks", 5, None)))
    lab.settle()
    assert gone.response.responses[0].error_code == 0
    assert outcome(late.response.results[0])[1] == "UNKNOWN_TOPIC_OR_PARTITION"


def test_new_partitions_go_on_where_the_topic_ends(make_lab: Any) -> None:
    lab = make_lab()
    for broker_id in (2, 3, 4):
        lab.broker.image.brokers[BrokerId(broker_id)] = BrokerState(BrokerId(broker_id), [])
    whole = placement.place(lab.broker.image.brokers, 9, 2, 0, lab.broker.random)
    topic = CreatableTopic(
        name="spread",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=ids) for i, ids in enumerate(whole[:3])],
        configs=[],
    )
    lab.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False))
    lab.ask(request(("spread", 9, None)))
    assert [state.replicas for state in lab.broker.image.topic("spread").partitions] == whole
