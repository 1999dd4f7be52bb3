"""What becomes of batches when brokers fail them: order, duplicates, pauses, time-outs, splits, new leaders."""

import itertools

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.producer.types import DeliveryTimedOut
from headwater.records.columns import Section
from headwater.records.pure.appending import BatchAppender
from headwater.wire.messages.metadata import MetadataRequest
from headwater.wire.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from unit.client.producer.producer_fakes import CLOSE, HOLD, Rig

RETRIABLE = ErrorCode.NOT_ENOUGH_REPLICAS


def _values(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def test_records_are_written_in_order_and_numbered() -> None:
    rig = Rig()
    deliveries = [rig.send(value) for value in _values(4)]
    rig.flush()
    assert rig.logs.values[0] == _values(4)
    assert [delivery.metadata().offset for delivery in deliveries] == [0, 1, 2, 3]
    assert [(each.producer_id, each.producer_epoch, each.base_sequence) for each in rig.logs.headers] == [
        (7, 0, number) for number in range(4)
    ]


def test_several_partitions_go_in_one_request() -> None:
    rig = Rig(partitions=3)
    for partition in range(3):
        rig.put(b"v", partition=partition)
    rig.flush()
    (request,) = rig.requests
    assert [data.index for data in request.topic_data[0].partition_data] == [0, 1, 2]


def test_a_request_is_no_larger_than_it_may_be() -> None:
    rig = Rig(partitions=3, **{"max.request.size": 400})
    for partition in range(3):
        rig.put(b"v" * 100, partition=partition)
    rig.flush()
    assert [len(request.topic_data[0].partition_data) for request in rig.requests] == [2, 1]


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    rig = Rig(**{"max.in.flight.requests.per.connection": 2})
    rig.send(b"first")
    rig.flush()
    rig.logs.next_answers = [HOLD, HOLD]
    for value in _values(4):
        rig.send(value)
    rig.world.pass_time(0.1)
    assert len(rig.broker.held) == 2
    assert len(rig.requests) == 3


@pytest.mark.parametrize("failing", list(itertools.product([0, RETRIABLE], repeat=3)))
def test_order_is_kept_whichever_attempts_fail(failing: tuple[int, ...]) -> None:
    rig = Rig()
    rig.logs.next_answers = list(failing)
    for value in _values(8):
        rig.send(value)
        rig.world.pass_time(0.0004)
    rig.flush()
    assert rig.logs.values[0] == _values(8)


def test_a_retry_of_what_was_written_is_not_written_twice() -> None:
    rig = Rig()
    rig.send(b"before")
    rig.flush()
    rig.logs.after_answers = [0, CLOSE]
    deliveries = [rig.send(value) for value in _values(6)]
    rig.flush()
    assert rig.logs.values[0] == [b"before", *_values(6)]
    assert [delivery.metadata().offset for delivery in deliveries] == [1, 2, 3, 4, 5, 6]


def test_a_broken_connection_loses_nothing() -> None:
    rig = Rig()
    rig.logs.next_answers = [0, CLOSE, CLOSE, HOLD]
    for value in _values(8):
        rig.send(value)
    rig.flush()
    assert rig.logs.values[0] == _values(8)


def test_without_idempotence_and_one_request_in_flight_order_is_kept() -> None:
    rig = Rig(acks=1, **{"max.in.flight.requests.per.connection": 1})
    rig.logs.next_answers = [RETRIABLE, 0, RETRIABLE]
    for value in _values(5):
        rig.send(value)
    rig.flush()
    assert rig.logs.values[0] == _values(5)
    assert rig.logs.headers[0].producer_id == -1


def test_pauses_grow_between_attempts() -> None:
    rig = Rig()
    rig.send(b"first")
    rig.flush()
    rig.logs.next_answers = [RETRIABLE] * 3
    started_at = rig.world.now
    rig.send(b"v")
    rig.flush()
    assert rig.world.now - started_at == pytest.approx(0.1 + 0.2 + 0.4, abs=0.02)
    assert rig.core.metrics()["record-retry-total"] == 3


def test_an_error_that_cannot_get_better_fails_its_batch_only() -> None:
    rig = Rig()
    first = rig.send(b"first")
    rig.flush()
    rig.logs.next_answers = [ErrorCode.INVALID_RECORD]
    bad = rig.send(b"bad")
    rig.flush()
    good = rig.send(b"good")
    rig.flush()
    assert first.exception() is None
    assert bad.exception() is not None
    assert bad.exception().code == ErrorCode.INVALID_RECORD  # type: ignore[union-attr]
    assert good.exception() is None
    assert rig.logs.values[0] == [b"first", b"good"]
    assert rig.logs.headers[-1].producer_epoch == 1  # the number of the bad one is never used again


def test_batches_behind_one_that_failed_are_written_under_a_new_epoch() -> None:
    rig = Rig()
    rig.send(b"first")
    rig.flush()
    rig.logs.next_answers = [ErrorCode.INVALID_RECORD]
    deliveries = [rig.send(value) for value in _values(5)]
    rig.flush()
    assert [delivery.exception() is None for delivery in deliveries] == [False, True, True, True, True]
    assert rig.logs.values[0] == [b"first", *_values(5)[1:]]


def test_other_partitions_go_on_under_their_epoch_until_they_are_idle() -> None:
    rig = Rig(partitions=2)
    rig.send(b"a", partition=0)
    rig.send(b"b", partition=1)
    rig.flush()
    rig.logs.next_answers = [ErrorCode.INVALID_RECORD]
    rig.send(b"bad", partition=0)
    rig.flush()
    rig.send(b"c", partition=0)
    rig.send(b"d", partition=1)
    rig.flush()
    assert rig.logs.values == {0: [b"a", b"c"], 1: [b"b", b"d"]}
    assert [(each.producer_epoch, each.base_sequence) for each in rig.logs.headers] == [(0, 0), (0, 0), (1, 0), (1, 0)]


def test_retries_are_limited_by_number() -> None:
    rig = Rig(retries=2)
    rig.logs.next_answers = [RETRIABLE] * 5
    delivery = rig.send(b"v")
    rig.flush()
    assert delivery.exception().code == RETRIABLE  # type: ignore[union-attr]
    assert len(rig.requests) == 3


def test_delivery_times_out_and_says_why() -> None:
    rig = Rig(**{"delivery.timeout.ms": 2000, "request.timeout.ms": 500})
    rig.logs.next_answers = [RETRIABLE] * 100
    started_at = rig.world.now
    delivery = rig.send(b"v")
    rig.core.sender.wake()
    rig.flush()
    error = delivery.exception()
    assert isinstance(error, DeliveryTimedOut)
    assert "NOT_ENOUGH_REPLICAS" in str(error)
    assert rig.world.now - started_at == pytest.approx(2.0, abs=0.1)


def test_what_is_on_the_wire_times_out_too_and_the_next_records_are_written_once() -> None:
    rig = Rig(**{"delivery.timeout.ms": 31_000})
    rig.send(b"first")
    rig.flush()
    rig.broker.on_key(0, lambda _: HOLD)
    late = rig.send(b"late")
    rig.core.sender.wake()
    rig.world.pass_time(31.1)
    assert isinstance(late.exception(), DeliveryTimedOut)
    rig.broker.on_key(0, rig.logs.produce)
    rig.send(b"next")
    rig.flush()
    assert rig.logs.values[0] == [b"first", b"next"]
    assert rig.core.accumulator.used_bytes == 0


def test_a_batch_that_is_too_large_is_split() -> None:
    rig = Rig()
    rig.logs.next_answers = [ErrorCode.MESSAGE_TOO_LARGE]
    deliveries = [rig.put(value) for value in _values(10)]
    rig.flush()
    assert rig.logs.values[0] == _values(10)
    assert [delivery.metadata().offset for delivery in deliveries] == list(range(10))
    assert len(rig.logs.headers) >= 2
    assert rig.core.metrics()["batch-split-total"] == 1
    assert rig.core.accumulator.used_bytes == 0


def test_a_split_keeps_order_with_what_is_in_flight() -> None:
    rig = Rig()
    rig.send(b"first")
    rig.flush()
    rig.logs.next_answers = [ErrorCode.MESSAGE_TOO_LARGE]
    for value in _values(6):
        rig.put(value)
    rig.send(b"6")
    rig.send(b"7")
    rig.flush()
    assert rig.logs.values[0] == [b"first", *_values(8)]


def test_one_record_that_is_too_large_fails() -> None:
    rig = Rig()
    rig.logs.next_answers = [ErrorCode.MESSAGE_TOO_LARGE]
    delivery = rig.send(b"v")
    rig.flush()
    assert delivery.exception().code == ErrorCode.MESSAGE_TOO_LARGE  # type: ignore[union-attr]


def test_a_lost_log_is_gone_on_with_under_a_new_epoch() -> None:
    """The broker forgot the producer's last batches: unclean shutdown. The producer goes on, with a gap in the log."""
    rig = Rig()
    for value in _values(3):
        rig.send(value)
    rig.flush()
    rig.logs._last[7, 0] = (0, 1)
    rig.logs._known.clear()
    rig.send(b"next")
    rig.flush()
    assert rig.logs.values[0][-1] == b"next"
    assert rig.logs.headers[-1].producer_epoch == 1


def test_a_new_leader_in_the_answer_is_followed_at_once() -> None:
    rig = Rig()
    rig.send(b"first")
    rig.flush()
    other = rig.world.broker(1)
    other.on_key(0, rig.logs.produce)
    answer = PartitionProduceResponse(
        index=0,
        error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER),
        current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=5),
    )

    def moved(request: object) -> ProduceResponse:
        topic = TopicProduceResponse(name="t", topic_id=rig.topic.topic_id, partition_responses=[answer])
        return ProduceResponse(
            responses=[topic],
            node_endpoints=[NodeEndpoint(node_id=1, host=other.address.host, port=other.address.port)],
        )

    rig.broker.on_key(0, moved)
    rig.world.topics["t"] = [1]
    rig.world.leader_epochs["t", 0] = 5
    started_at = rig.world.now
    rig.send(b"second")
    rig.flush()
    assert rig.logs.values[0] == [b"first", b"second"]
    assert rig.world.now - started_at < 0.05  # no pause, no metadata in between


def test_a_topic_that_is_made_again_while_a_request_is_on_its_way_gets_the_records() -> None:
    """The answer names the id that the request had; it was looked for by the new one, and the records were given up."""
    rig = Rig()
    rig.send(b"first")
    rig.flush()
    answer = PartitionProduceResponse(index=0, error_code=int(ErrorCode.UNKNOWN_TOPIC_ID))

    def gone(request: ProduceRequest) -> ProduceResponse:
        (sent,) = request.topic_data
        rig.topic.topic_id = b"made again......"  # metadata came
        rig.broker.on_key(0, rig.logs.produce)
        return ProduceResponse(responses=[TopicProduceResponse(topic_id=sent.topic_id, partition_responses=[answer])])

    rig.broker.on_key(0, gone)
    delivery = rig.send(b"second")
    rig.flush()
    assert delivery.exception() is None
    assert rig.logs.values[0] == [b"first", b"second"]


def test_a_new_leader_is_found_by_metadata() -> None:
    rig = Rig()
    rig.send(b"first")
    rig.flush()
    other = rig.world.broker(1)
    other.on_key(0, rig.logs.produce)
    rig.world.topics["t"] = [1]
    rig.world.leader_epochs["t", 0] = 1
    rig.logs.next_answers = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    rig.send(b"second")
    rig.flush()
    assert rig.logs.values[0] == [b"first", b"second"]
    assert other.requests


def test_a_broker_that_comes_back_gets_what_waited() -> None:
    rig = Rig()
    rig.send(b"first")
    rig.flush()
    rig.broker.stop()
    for value in _values(3):
        rig.send(value)
    rig.world.pass_time(5)
    rig.broker.start()
    rig.flush()
    assert rig.logs.values[0] == [b"first", *_values(3)]


IDLE_S = 3600


def _section(value: bytes) -> Section:
    appender = BatchAppender(1000)
    appender.append(1, None, value)
    return appender.section(0)


def _topics_asked_for(rig: Rig) -> list[str | None]:
    return [topic.name for request in rig.broker.received(MetadataRequest) for topic in request.topics or ()]


def test_a_topic_that_was_idle_keeps_its_sequence_numbers() -> None:
    """They began at 0 again, and the broker took the next batch for the first one: acknowledged, and never written."""
    rig = Rig()
    for value in _values(3):
        rig.topic = rig.world.run(rig.core.topic("t"))  # as each send does
        rig.send(value)
        rig.flush()
        rig.world.pass_time(IDLE_S)
    assert rig.logs.values[0] == _values(3)
    assert [header.base_sequence for header in rig.logs.headers] == [0, 1, 2]


def test_metadata_of_an_idle_topic_is_not_asked_for_until_it_is_used_again() -> None:
    rig = Rig()
    rig.send(b"first")
    rig.flush()
    rig.world.pass_time(IDLE_S)
    asked = len(_topics_asked_for(rig))
    rig.world.pass_time(IDLE_S)
    assert len(_topics_asked_for(rig)) == asked
    rig.send(b"second")
    rig.flush()
    rig.world.pass_time(400)  # metadata.max.age.ms is 300 s
    assert len(_topics_asked_for(rig)) > asked


def test_a_topic_that_gets_whole_batches_only_is_in_use() -> None:
    rig = Rig()
    for number in range(10):
        before = len(_topics_asked_for(rig))
        (batch,) = rig.core.accumulator.add_sections(rig.topic, [_section(b"%d" % number)])
        rig.core.sender.flush()
        rig.flush()
        assert batch.error is None
        rig.world.pass_time(290)
        if number > 1:
            assert len(_topics_asked_for(rig)) > before
    assert rig.logs.values[0] == _values(10)


def test_acks_0_is_done_when_it_is_sent() -> None:
    rig = Rig(acks=0)
    delivery = rig.send(b"v")
    rig.flush()
    assert delivery.metadata().offset == -1
    rig.world.pass_time(0.1)
    assert rig.logs.values[0] == [b"v"]


def test_callbacks_are_told_and_may_fail() -> None:
    rig = Rig()
    told: list[object] = []

    def tell(error: KafkaError | None, metadata: object) -> None:
        told.append((error, metadata))
        raise RuntimeError("of the user")

    rig.send(b"v", on_delivery=tell)
    rig.flush()
    assert [(error, metadata[2]) for error, metadata in told] == [(None, 0)]  # type: ignore[misc,index]
