"""Questions about offsets, to brokers that do not answer."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.client.consumer.cluster_queries import ClusterQueries
from headwater.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from unit.client.reactor.fakes import HOLD, FakeBroker, FakeWorld

P0 = TopicPartition("orders", 0)


def silent_world() -> tuple[FakeWorld, FakeBroker]:
    world = FakeWorld()
    broker = world.broker(1)
    world.topic("orders")
    broker.on(ListOffsetsRequest, lambda _: HOLD)
    return world, broker


def test_a_timeout_ends_an_attempt_that_has_no_answer() -> None:
    """It was looked at between attempts only, and each may take as long as a request: 30 s."""
    world, _ = silent_world()
    session = world.session()
    began = session.kernel.clock()
    with pytest.raises(KafkaError, match="offsets of orders-0 within 1500 ms") as raised:
        world.run(ClusterQueries(session, 0, False).ends([P0], 1500, earliest=False))
    assert raised.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert session.kernel.clock() - began == pytest.approx(1.5)


def test_without_a_timeout_the_setting_holds() -> None:
    world, _ = silent_world()
    session = world.session(api_timeout_ms=4000)
    began = session.kernel.clock()
    with pytest.raises(KafkaError, match="within 4000 ms"):
        world.run(ClusterQueries(session, 0, False).offsets_for_times({P0: 17}, None))
    assert session.kernel.clock() - began == pytest.approx(4.0)


def test_the_connection_serves_the_next_question_after_one_that_was_given_up() -> None:
    world, broker = silent_world()
    session = world.session()
    queries = ClusterQueries(session, 0, False)
    with pytest.raises(KafkaError):
        world.run(queries.ends([P0], 500, earliest=False))
    answer = ListOffsetsPartitionResponse(partition_index=0, offset=7)
    response = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="orders", partitions=[answer])])
    broker.answer_held(response)
    broker.on(ListOffsetsRequest, lambda _: response)
    assert world.run(queries.ends([P0], 500, earliest=False)) == {P0: 7}
