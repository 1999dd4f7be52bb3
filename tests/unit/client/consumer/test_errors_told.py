"""What poll raises: each error once, however often it was met before, and none of what is not read any more."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition
from headwater.wire.messages import fetch
from headwater.wire.messages.list_offsets import ListOffsetsRequest
from headwater.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from unit.client.consumer.fake_log import FakeConsumer, FakeLogs, one_broker
from unit.client.reactor.fakes import FakeWorld

P0 = TopicPartition("orders", 0)
P1 = TopicPartition("orders", 1)
DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def reading() -> tuple[FakeWorld, FakeLogs, FakeConsumer]:
    world, logs = one_broker(2)
    for each in (P0, P1):
        logs.append(each, [b"%d" % each.partition])
    return world, logs, FakeConsumer(world, auto_offset_reset="earliest")


def deny(logs: FakeLogs, partition: TopicPartition, times: int) -> None:
    logs.errors[partition] = [
        fetch.PartitionData(partition_index=partition.partition, error_code=int(DENIED), high_watermark=-1)
        for _ in range(times)
    ]


def test_an_error_that_was_met_again_and_again_while_nobody_polled_is_raised_once() -> None:
    """A minute of work on the records of one poll, and sixty polls failed, long after the permission was there."""
    world, logs, consumer = reading()
    deny(logs, P0, 10)
    consumer.assign(P0)
    world.pass_time(60)
    assert not logs.errors[P0]
    with pytest.raises(KafkaError, match="orders-0") as raised:
        consumer.poll()
    assert raised.value.code is DENIED
    assert [record.value for record in consumer.poll()] == [b"0"]


def test_the_errors_of_two_partitions_are_both_raised() -> None:
    world, logs, consumer = reading()
    for each in (P0, P1):
        deny(logs, each, 2)
    consumer.assign(P0, P1)
    world.pass_time(60)
    told = set()
    for _ in range(2):
        with pytest.raises(KafkaError) as raised:
            consumer.poll()
        told.add(raised.value.message)
    assert told == {"orders-0", "orders-1"}
    assert {record.value for record in consumer.read(2)} == {b"0", b"1"}


def test_the_error_of_a_partition_that_was_given_up_is_not_raised() -> None:
    world, logs, consumer = reading()
    deny(logs, P0, 3)
    consumer.assign(P0)
    world.pass_time(60)
    consumer.assign(P1)
    assert [record.value for record in consumer.poll()] == [b"1"]


def test_an_error_about_positions_that_each_seek_met_is_raised_once() -> None:
    world, logs, consumer = reading()
    answer = logs.broker._answers[ListOffsetsRequest.KEY]

    def denied(request: ListOffsetsRequest) -> object:
        response = answer(request)
        response.topics[0].partitions[0].error_code = int(DENIED)
        return response

    logs.broker.on(ListOffsetsRequest, denied)
    consumer.assign(P0)
    for _ in range(5):
        world.pass_time(1)
        consumer.do(lambda: consumer.core.seek_to_time([P0], -2))
    world.pass_time(1)
    logs.broker.on(ListOffsetsRequest, answer)
    with pytest.raises(KafkaError):
        consumer.poll()
    assert [record.value for record in consumer.poll()] == [b"0"]


def refuse_metadata(logs: FakeLogs, code: ErrorCode) -> None:
    answer = logs.broker._answers[MetadataRequest.KEY]

    def refused(request: MetadataRequest) -> MetadataResponse:
        response: MetadataResponse = answer(request)
        response.topics = [MetadataResponseTopic(error_code=int(code), name=each.name) for each in response.topics]
        return response

    logs.broker.on(MetadataRequest, refused)


@pytest.mark.parametrize("code", [DENIED, ErrorCode.INVALID_TOPIC_EXCEPTION])
def test_a_topic_that_may_not_be_seen_is_an_error_and_not_silence(code: ErrorCode) -> None:
    world, logs, consumer = reading()
    answer = logs.broker._answers[MetadataRequest.KEY]
    refuse_metadata(logs, code)
    consumer.assign(P0)
    consumer.do(lambda: consumer.core.seek(P0, 0))
    world.pass_time(60)
    with pytest.raises(KafkaError, match="orders") as raised:
        consumer.poll()
    assert raised.value.code is code
    logs.broker.on(MetadataRequest, answer)
    assert [record.value for record in consumer.read(1, 60)] == [b"0"]


def test_a_topic_that_is_not_there_yet_is_none() -> None:
    _, logs, consumer = reading()
    refuse_metadata(logs, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    consumer.assign(P0)
    consumer.do(lambda: consumer.core.seek(P0, 0))
    assert consumer.poll() == []
