"""Numbers of batches while others of the producer fail: nothing is written twice, nothing stands still."""

from typing import Any

from headwater.base.errors import ErrorCode
from headwater.client.producer.sequences import EPOCH_MAX
from headwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from unit.client.producer.producer_fakes import CLOSE, HOLD, Rig

RETRIABLE = ErrorCode.NOT_ENOUGH_REPLICAS


def test_a_batch_behind_one_whose_retries_are_over_is_not_written_twice() -> None:
    """Both were written, and the connection broke before the answer: the second came again in a new epoch."""
    rig = Rig(retries=1)
    rig.send(b"first")
    rig.flush()
    rig.logs.next_answers = [RETRIABLE]
    given_up = rig.send(b"second")
    rig.world.pass_time(0.01)
    rig.logs.after_answers = [CLOSE, CLOSE]
    delivery = rig.send(b"third")  # goes behind the retry, when its pause is over
    rig.flush()
    assert given_up.exception() is not None
    assert delivery.exception() is None
    last = rig.send(b"fourth")
    rig.flush()
    assert last.exception() is None
    assert rig.logs.values[0] == [b"first", b"second", b"third", b"fourth"]


def test_a_retry_before_a_batch_that_is_refused_is_not_written_twice() -> None:
    """It was written, and not replicated in time; the new epoch that the refused one asked for gave it a new number."""
    rig = Rig()
    rig.send(b"first")
    rig.flush()
    late = PartitionProduceResponse(index=0, error_code=int(ErrorCode.REQUEST_TIMED_OUT))
    topic = TopicProduceResponse(name="t", topic_id=rig.topic.topic_id, partition_responses=[late])
    rig.logs.next_answers = [0, ErrorCode.INVALID_RECORD]
    rig.logs.after_answers = [ProduceResponse(responses=[topic])]
    second, refused, third = [rig.send(value) for value in (b"second", b"refused", b"third")]
    rig.flush()
    assert refused.exception() is not None
    assert (second.exception(), third.exception()) == (None, None)
    rig.send(b"fourth")
    rig.flush()
    assert rig.logs.values[0] == [b"first", b"second", b"third", b"fourth"]


def _at_the_last_epoch(partitions: int) -> Rig:
    rig = Rig(partitions)
    ids = iter([7, 8])
    rig.broker.on(
        InitProducerIdRequest,
        lambda _: InitProducerIdResponse(
            producer_id=(taken := next(ids)), producer_epoch=EPOCH_MAX if taken == 7 else 0
        ),
    )
    for partition in range(partitions):
        rig.send(b"first", partition=partition)
    rig.flush()
    return rig


def test_batches_that_wait_for_a_new_id_after_the_last_epoch_do_not_wait_for_another_send() -> None:
    rig = _at_the_last_epoch(1)
    rig.logs.next_answers = [ErrorCode.INVALID_RECORD]
    begun = rig.world.now
    refused, *rest = [rig.send(value) for value in (b"refused", b"second", b"third")]
    rig.flush()
    assert rig.world.now - begun < 5
    assert refused.exception() is not None
    assert [each.exception() for each in rest] == [None, None]
    assert rig.logs.values[0] == [b"first", b"second", b"third"]
    assert [(each.producer_id, each.base_sequence) for each in rig.logs.headers] == [(7, 0), (8, 0), (8, 1)]


def test_a_retry_keeps_its_number_when_another_partition_needs_a_new_id() -> None:
    """It was written, and only its answer was lost: under the new id it was written again."""
    rig = _at_the_last_epoch(2)
    rig.logs.after_answers = [CLOSE]
    delivery = rig.send(b"second", partition=1)
    rig.world.pass_time(0.01)
    rig.logs.next_answers = [ErrorCode.INVALID_RECORD]
    rig.send(b"refused", partition=0)
    rig.world.pass_time(0.01)
    rig.send(b"third", partition=0)
    rig.flush()
    assert delivery.exception() is None
    assert rig.logs.values == {0: [b"first", b"third"], 1: [b"first", b"second"]}


def test_no_batch_is_sent_without_an_id_while_a_new_one_is_asked_for() -> None:
    rig = _at_the_last_epoch(2)
    rig.logs.next_answers = [ErrorCode.INVALID_RECORD]
    rig.send(b"refused", partition=0)
    rig.world.pass_time(0.01)
    answer: Any = rig.broker._answers[InitProducerIdRequest.KEY]
    rig.broker.on(InitProducerIdRequest, lambda _: HOLD)
    for partition in (0, 1):
        rig.put(b"second", partition=partition)
    rig.core.sender.flush()
    rig.world.pass_time(0.1)
    (held,) = rig.broker.held
    rig.broker.answer_held(answer(held.request))
    rig.flush()
    assert rig.logs.values == {0: [b"first", b"second"], 1: [b"first", b"second"]}
    assert {each.producer_id for each in rig.logs.headers} == {7, 8}
