"""What clients are told of a cluster: leaders and replicas that they can reach,
and topics that the controller makes.
"""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import NO_BROKER, BrokerId
from headwater.metadata.image import BrokerState, Endpoint
from headwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.wire.messages.describe_cluster import DescribeClusterRequest
from headwater.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from unit.broker.fake_peers import FakePeers


@pytest.fixture(name="lab")
def lab_fixture(make_lab: Any) -> Any:
    """Brokers 1 and 2 on the clients' listener, 3 on another; broker 4 is gone. One topic, led by 2."""
    lab = make_lab(num_partitions="3", default_replication_factor="2")
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]))
    image = lab.broker.image
    image.brokers[BrokerId(2)] = BrokerState(BrokerId(2), [Endpoint("PLAINTEXT", "host2", 9092)], rack="east")
    image.brokers[BrokerId(3)] = BrokerState(BrokerId(3), [Endpoint("INTERNAL", "host3", 9092)])
    state = image.topic("orders").partitions[0]
    state.replicas = [BrokerId(each) for each in (2, 1, 3, 4)]
    state.in_sync_replicas = [BrokerId(2), BrokerId(1)]
    state.leader = BrokerId(2)
    return lab


def described(lab: Any, version: int = 13) -> Any:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="orders")])
    return lab.ask(request, version).topics[0].partitions[0]


def described_newly(lab: Any) -> Any:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")], response_partition_limit=10)
    return lab.ask(request).topics[0].partitions[0]


@pytest.mark.parametrize("describe", [described, described_newly])
def test_a_leader_that_can_be_reached(lab: Any, describe: Any) -> None:
    part = describe(lab)
    assert (part.error_code, part.leader_id) == (0, 2)
    assert (part.replica_nodes, part.isr_nodes, part.offline_replicas) == ([2, 1, 3, 4], [2, 1], [3, 4])


@pytest.mark.parametrize("describe", [described, described_newly])
@pytest.mark.parametrize("leader", [NO_BROKER, BrokerId(4)])
def test_a_leader_that_is_gone(lab: Any, describe: Any, leader: BrokerId) -> None:
    lab.broker.image.topic("orders").partitions[0].leader = leader
    part = describe(lab)
    assert (ErrorCode(part.error_code), part.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert part.isr_nodes == [2, 1]


def test_a_leader_on_another_listener(lab: Any) -> None:
    lab.broker.image.topic("orders").partitions[0].leader = BrokerId(3)
    assert ErrorCode(described(lab, 6).error_code) is ErrorCode.LISTENER_NOT_FOUND
    assert ErrorCode(described(lab, 5).error_code) is ErrorCode.LEADER_NOT_AVAILABLE
    assert described(lab, 6).leader_id == described(lab, 5).leader_id == -1


def test_brokers_and_controller(lab: Any) -> None:
    lab.broker.image.controller_id = BrokerId(2)
    metadata = lab.ask(MetadataRequest(topics=[]), 13)
    cluster = lab.ask(DescribeClusterRequest(endpoint_type=1))
    assert metadata.controller_id == cluster.controller_id == 2
    assert [(each.node_id, each.host, each.rack) for each in metadata.brokers] == [
        (1, "host1", None),
        (2, "host2", "east"),
    ]
    assert [(each.broker_id, each.rack) for each in cluster.brokers] == [(1, None), (2, "east")]


def test_a_coordinator_is_where_its_partition_is_led(lab: Any) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
    lab.ask(request)
    for state in lab.broker.image.topic("__consumer_offsets").partitions:
        state.leader = BrokerId(2)
    (found,) = lab.ask(request).coordinators
    assert (found.node_id, found.host, found.error_code) == (2, "host2", 0)
    for state in lab.broker.image.topic("__consumer_offsets").partitions:
        state.leader = BrokerId(4)
    (lost,) = lab.ask(request).coordinators
    assert (lost.node_id, ErrorCode(lost.error_code)) == (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)


# Topics that make themselves


def ask_for(lab: Any, *names: str) -> tuple[Any, FakePeers]:
    lab.broker.peers = FakePeers()
    lab.broker.image.controller_id = BrokerId(2)
    answer = lab.begin(MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names]), 9)
    return answer, lab.broker.peers


def outcome(response: Any) -> list[tuple[str, ErrorCode]]:
    return [(topic.name, ErrorCode(topic.error_code)) for topic in response.topics]


def answered(**codes: ErrorCode) -> CreateTopicsResponse:
    results = [CreatableTopicResult(name=name, error_code=int(code), configs=[]) for name, code in codes.items()]
    return CreateTopicsResponse(topics=results)


def pass_ms(lab: Any, milliseconds: int) -> None:
    for _ in range(milliseconds // 10):
        lab.clock.advance(10)
        lab.settle()


def test_the_controller_makes_what_is_missing_and_the_answer_waits_for_it(lab: Any) -> None:
    answer, peers = ask_for(lab, "orders", "clicks")
    asked = peers.take()
    assert asked.broker == 2
    assert [(t.name, t.num_partitions, t.replication_factor) for t in asked.request.topics] == [("clicks", 3, 2)]
    asked.answer(answered(clicks=ErrorCode.NONE))
    pass_ms(lab, 100)
    assert not answer.done
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="clicks", num_partitions=3, replication_factor=1)]))
    pass_ms(lab, 20)
    assert outcome(answer.response) == [("orders", ErrorCode.NONE), ("clicks", ErrorCode.NONE)]


def test_what_the_controller_refuses_is_told(lab: Any) -> None:
    answer, peers = ask_for(lab, "clicks", "or.ders")
    peers.take().answer(
        answered(**{"clicks": ErrorCode.INVALID_REPLICATION_FACTOR, "or.ders": ErrorCode.INVALID_TOPIC_EXCEPTION})
    )
    assert outcome(answer.response) == [
        ("clicks", ErrorCode.INVALID_REPLICATION_FACTOR),
        ("or.ders", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),  # it collides: Kafka says that it is not there
    ]


def test_without_a_controller_the_topic_is_not_there_yet(lab: Any) -> None:
    answer, peers = ask_for(lab, "clicks")
    peers.take().fail()
    lab.broker.image.controller_id = NO_BROKER
    pass_ms(lab, 3200)
    assert outcome(answer.response) == [("clicks", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
