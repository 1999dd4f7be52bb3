"""Where admin calls go, how often they are tried, and when they give up: against a cluster that is not there."""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.admin.call_routing import each_of, of_any
from headwater.client.admin.cluster import describe_api_versions, describe_cluster, describe_features, unregister_broker
from headwater.client.admin.records import list_offsets
from headwater.client.admin.topics import create_topics, describe_topic, list_topics
from headwater.client.errors import BootstrapFailed, ConnectionFailed, RequestTimedOut
from headwater.client.outcomes import all_or_raise
from headwater.client.session import Session
from headwater.client.types import NewTopic
from headwater.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from headwater.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from headwater.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from headwater.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from headwater.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from unit.client.reactor.fakes import CLOSE, HOLD, FakeWorld


def created(code: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=code, num_partitions=1)])


def test_the_controller_is_asked_again_while_it_says_that_it_is_not() -> None:
    world = FakeWorld()
    world.broker(1)
    controller = world.broker(0)
    codes = [int(ErrorCode.NOT_CONTROLLER), 0]
    controller.on(CreateTopicsRequest, lambda _: created(codes.pop(0)))
    outcome = world.run(create_topics(world.session(), [NewTopic("t")]))
    assert all_or_raise(outcome)["t"].partitions == 1
    assert codes == []


def test_a_connection_that_breaks_is_made_again() -> None:
    world = FakeWorld()
    broker = world.broker(0)
    answers = [CLOSE, created(0)]
    broker.on(CreateTopicsRequest, lambda _: answers.pop(0))
    session = world.session()
    world.run(session.refresh())
    assert not isinstance(world.run(create_topics(session, [NewTopic("t")]))["t"], KafkaError)
    assert len(world.dialled) == 2


def test_a_broker_that_restarts_is_waited_for() -> None:
    world = FakeWorld()
    broker = world.broker(0)
    session = world.session()
    world.run(session.refresh())
    world.topic("t")
    broker.on(ListOffsetsRequest, lambda _: ListOffsetsResponse())
    calls: list[Callable[[Session], Coroutine[Any, Any, object]]] = [
        describe_cluster,
        list_topics,
        lambda session: describe_topic(session, "t"),
        lambda session: list_offsets(session, {TopicPartition("new", 0): -1}),
    ]
    for call in calls:
        broker.stop()
        world.later(broker.start, 5.0)
        started = world.now
        world.run(call(session))
        assert 5 <= world.now - started < 10


def test_a_cluster_that_stays_away_is_given_up_after_the_api_timeout() -> None:
    world = FakeWorld()
    broker = world.broker(0)
    session = world.session(api_timeout_ms=20_000)
    world.run(session.refresh())
    broker.stop()
    started = world.now
    with pytest.raises((BootstrapFailed, ConnectionFailed)):
        world.run(describe_cluster(session))
    assert 10 < world.now - started <= 21


def test_a_cluster_that_was_never_reached_is_an_error_at_once() -> None:
    world = FakeWorld()
    world.broker(0).stop()
    started = world.now
    with pytest.raises(BootstrapFailed):
        world.run(create_topics(world.session(), [NewTopic("t")]))
    assert world.now - started < 1


def test_a_broker_that_does_not_answer_is_asked_anew_until_the_time_is_up() -> None:
    world = FakeWorld()
    broker = world.broker(0)
    broker.on(ListGroupsRequest, lambda _: HOLD)
    session = world.session(request_timeout_ms=1000, api_timeout_ms=5000)
    world.run(session.refresh())
    with pytest.raises((RequestTimedOut, BootstrapFailed)):
        world.run(of_any(session, ListGroupsRequest(), ListGroupsResponse))
    assert len(broker.received(ListGroupsRequest)) >= 3


def test_what_a_broker_does_not_offer_is_said_in_words() -> None:
    world = FakeWorld()
    broker = world.broker(0)
    del broker.versions[UnregisterBrokerRequest.KEY]
    with pytest.raises(KafkaError, match="does not offer UnregisterBroker") as raised:
        world.run(unregister_broker(world.session(), 5))
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_a_refusal_of_one_thing_is_raised() -> None:
    world = FakeWorld()
    world.broker(0).on(UnregisterBrokerRequest, lambda _: UnregisterBrokerResponse(error_code=31, error_message="no"))
    with pytest.raises(KafkaError, match="no") as raised:
        world.run(unregister_broker(world.session(), 5))
    assert raised.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_fenced_brokers_are_listed_when_they_are_asked_for() -> None:
    world = FakeWorld()
    broker = world.broker(0)
    fenced = DescribeClusterBroker(broker_id=7, host="h", port=1, is_fenced=True)
    broker.on(DescribeClusterRequest, lambda _: DescribeClusterResponse(cluster_id="fake", brokers=[fenced]))
    assert [each.fenced for each in world.run(describe_cluster(world.session())).brokers] == [False]
    assert [each.fenced for each in world.run(describe_cluster(world.session(), include_fenced=True)).brokers] == [True]
    broker.versions[DescribeClusterRequest.KEY] = (0, 1)
    with pytest.raises(KafkaError, match="fenced"):
        world.run(describe_cluster(world.session(), include_fenced=True))


def test_versions_of_each_broker_and_features_of_the_cluster() -> None:
    world = FakeWorld()
    world.broker(0).finalized_features = {"group.version": 1}
    world.broker(1).stop()
    session = world.session(api_timeout_ms=1000)
    outcome = world.run(describe_api_versions(session))
    by_id = {broker.id: answer for broker, answer in outcome.items()}
    assert isinstance(by_id[0], dict)
    assert by_id[0][18].highest >= 3
    assert isinstance(by_id[1], KafkaError)
    features = world.run(describe_features(session))
    assert features.finalized["group.version"].highest == 1


def test_many_things_are_asked_about_side_by_side_but_not_all_at_once() -> None:
    world = FakeWorld()
    world.broker(0)
    session = world.session()
    running = peak = 0

    async def one(at: int) -> int:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await session.kernel.sleep(0.01)
        running -= 1
        if at == 7:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        return at

    outcome = world.run(each_of(session, range(120), one))
    assert list(outcome) == list(range(120))
    assert isinstance(outcome[7], KafkaError)
    assert 10 < peak <= 50


def test_an_outcome_with_an_error_is_raised_with_what_it_is_about() -> None:
    with pytest.raises(KafkaError, match="orders: too many"):
        all_or_raise({"fine": 1, "orders": KafkaError(ErrorCode.INVALID_PARTITIONS, "too many")})
    assert all_or_raise({"a": None, "b": None}) == {"a": None, "b": None}
