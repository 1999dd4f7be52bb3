"""Bootstrap, routing and retries, against brokers that are Python objects and a clock that jumps when slept on."""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.addresses import Address
from headwater.client.cluster import Cluster, all_or_raise
from headwater.client.errors import BootstrapFailed, ConnectionFailed, UnknownTopic
from headwater.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

A, B = Address("a", 1), Address("b", 2)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class World:
    """Two brokers, 1 at `a` and 2 at `b`; one topic `t` whose leaders the test sets."""

    def __init__(self) -> None:
        self.leaders = {0: 1, 1: 2}
        self.down: set[Address] = set()
        self.now = 0.0
        self.slept: list[float] = []
        self.opened: list[Address] = []
        self.metadata_calls = 0

    def cluster(self, *bootstrap: Address, **options: Any) -> Cluster:
        return Cluster(
            list(bootstrap or [A]),
            open_connection=self.open,  # type: ignore[arg-type]
            sleep=self.sleep,
            monotonic=lambda: self.now,
            chance=lambda: 0.5,
            **options,
        )

    def open(self, address: Address, **_: Any) -> "FakeConnection":
        self.opened.append(address)
        if address in self.down:
            raise ConnectionFailed(address, "connection refused: nothing listens there", refused=True)
        return FakeConnection(self, address)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def metadata(self, request: MetadataRequest) -> MetadataResponse:
        self.metadata_calls += 1
        names = ["t"] if request.topics is None else [topic.name for topic in request.topics]
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=1, host="a", port=1),
                MetadataResponseBroker(node_id=2, host="b", port=2),
            ],
            controller_id=2,
            topics=[self._topic(name or "") for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name != "t":
            return MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = [
            MetadataResponsePartition(partition_index=index, leader_id=leader) for index, leader in self.leaders.items()
        ]
        return MetadataResponseTopic(name=name, partitions=partitions)


class FakeConnection:
    def __init__(self, world: World, address: Address) -> None:
        self.world = world
        self.address = address
        self.is_open = True

    def call(self, request: Any, _response_type: Any) -> Any:
        if self.address in self.world.down:
            self.close()
            raise ConnectionFailed(self.address, "the connection broke")
        return self.world.metadata(request)

    def close(self) -> None:
        self.is_open = False


Answers = dict[TopicPartition, str | KafkaError]


def _said(answer: str | KafkaError) -> Callable[[Any, list[TopicPartition]], Answers]:
    return lambda _connection, partitions: dict.fromkeys(partitions, answer)


def test_bootstrap_goes_on_to_the_next_address() -> None:
    world = World()
    world.down = {A}
    with world.cluster(A, B) as cluster:
        assert [broker.id for broker in cluster.info().brokers] == [1, 2]
    assert world.opened == [A, B]


def test_when_no_address_answers_the_error_names_each() -> None:
    world = World()
    world.down = {A, B}
    with pytest.raises(BootstrapFailed) as caught:
        world.cluster(A, B).refresh()
    assert "a:1: connection refused" in str(caught.value)
    assert "b:2: connection refused" in str(caught.value)
    assert len(caught.value.attempts) == 2


def test_each_leader_is_asked_once_about_its_partitions() -> None:
    asked: list[tuple[Address, list[TopicPartition]]] = []

    def send(connection: Any, partitions: list[TopicPartition]) -> Answers:
        asked.append((connection.address, partitions))
        return dict.fromkeys(partitions, "yes")

    assert World().cluster().per_leader([T1, T0], send) == {T1: "yes", T0: "yes"}
    assert asked == [(B, [T1]), (A, [T0])]


def test_a_moved_leader_is_found_with_fresh_metadata() -> None:
    world = World()
    asked: list[Address] = []

    def send(connection: Any, partitions: list[TopicPartition]) -> Answers:
        asked.append(connection.address)
        if connection.address == A:
            world.leaders[0] = 2  # it has moved by the time the error arrives
            return dict.fromkeys(partitions, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        return dict.fromkeys(partitions, "yes")

    assert world.cluster().per_leader([T0], send) == {T0: "yes"}
    assert asked == [A, B]
    assert world.slept == [0.1]


def test_a_broken_connection_is_tried_again_with_growing_pauses() -> None:
    world = World()
    cluster = world.cluster()
    cluster.refresh(["t"])
    world.down = {A, B}

    def send(_connection: Any, partitions: list[TopicPartition]) -> Answers:
        return dict.fromkeys(partitions, "yes")

    outcome = cluster.per_leader([T1], send, timeout_ms=1000)
    assert isinstance(outcome[T1], ConnectionFailed)
    assert world.slept == [0.1, 0.2, 0.4]

    world.down = set()
    assert cluster.per_leader([T1], send) == {T1: "yes"}


def test_an_error_that_cannot_get_better_is_not_tried_again() -> None:
    world = World()
    outcome = world.cluster().per_leader([T0], _said(KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    assert world.slept == []
    with pytest.raises(KafkaError, match="t-0") as caught:
        all_or_raise(outcome)
    assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_one_partition_failing_does_not_repeat_the_others() -> None:
    world = World()
    rounds: list[list[TopicPartition]] = []

    def send(_connection: Any, partitions: list[TopicPartition]) -> Answers:
        rounds.append(partitions)
        failed: str | KafkaError = KafkaError(ErrorCode.LEADER_NOT_AVAILABLE) if len(rounds) < 3 else "yes"
        return {each: failed if each == T1 else "yes" for each in partitions}

    assert world.cluster().per_leader([T0, T1], send) == {T0: "yes", T1: "yes"}
    assert rounds == [[T0], [T1], [T1]]


def test_an_unknown_topic_gets_a_moment_to_appear_and_then_the_known_ones_are_named() -> None:
    world = World()
    with pytest.raises(UnknownTopic) as caught:
        world.cluster().topic("tt")
    assert caught.value.known == ["t"]
    assert len(world.slept) == 2
    assert world.now < 1


def test_a_partition_that_does_not_exist_says_how_many_there_are() -> None:
    world = World()
    outcome = world.cluster().per_leader([TopicPartition("t", 7)], _said("yes"))
    assert world.now < 1
    with pytest.raises(KafkaError, match="has 2 partitions, none with number 7"):
        all_or_raise(outcome)


def test_a_topic_without_a_leader_is_waited_for_until_the_time_is_up() -> None:
    world = World()
    world.leaders[0] = -1
    outcome = world.cluster().per_leader([T0], _said("yes"), timeout_ms=2000)
    assert isinstance(outcome[T0], KafkaError)
    assert outcome[T0].code == ErrorCode.LEADER_NOT_AVAILABLE
    assert 1 < world.now <= 2


def test_a_broker_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(KafkaError, match="no broker 9; it has 1, 2"):
        World().cluster().broker(9)


def test_closing_closes_every_connection() -> None:
    world = World()
    cluster = world.cluster(A)
    first, second = cluster.connection_to(A), cluster.connection_to(B)
    assert cluster.connection_to(A) is first
    cluster.close()
    assert not first.is_open
    assert not second.is_open
