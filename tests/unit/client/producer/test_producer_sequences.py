"""The rules of numbers, one by one: who may go, what an answer means, when an epoch is taken on."""

import pytest

from headwater.base.errors import ErrorCode
from headwater.client.producer.batch import ProducerBatch
from headwater.client.producer.queues import PartitionQueue, TopicQueues
from headwater.client.producer.sequences import EPOCH_MAX, Sequences, Verdict
from headwater.records.columns import Section
from unit.client.producer.producer_fakes import Face, Rig


def _sequences(*, transactional: bool = False, retries: int = 10) -> Sequences:
    made = Sequences(idempotent=True, transactional=transactional, retries=retries)
    made.begin(7, 0)
    return made


def _queue() -> PartitionQueue:
    queue = PartitionQueue(TopicQueues("t", lambda n: n - 1), 0)
    queue.known_id = 7
    return queue


def _batch(queue: PartitionQueue, count: int = 2) -> ProducerBatch:
    batch = ProducerBatch.of_section(queue, 0.0, Face(), Section(0, count, 0, 0, bytearray(61)))
    queue.waiting.append(batch)
    return batch


def _go(sequences: Sequences, queue: PartitionQueue) -> ProducerBatch:
    """Puts the first waiting batch on the wire, as the sender does."""
    assert sequences.may_go(queue)
    batch = queue.waiting.popleft()
    sequences.stamp(queue, batch)
    batch.attempts += 1
    batch.on_wire = True
    queue.wire.append(batch)
    return batch


def _back(sequences: Sequences, queue: PartitionQueue, batch: ProducerBatch, code: ErrorCode) -> Verdict:
    queue.wire.remove(batch)
    batch.on_wire = False
    verdict = sequences.judge(queue, batch, code)
    if verdict is Verdict.RETRY:
        sequences.put_back(queue, batch)
    elif verdict is Verdict.WRITTEN:
        sequences.written(queue, batch, 0)
    return verdict


def test_a_retried_batch_waits_for_those_before_it() -> None:
    sequences, queue = _sequences(), _queue()
    for _ in range(3):
        _batch(queue)
    first, second, third = (_go(sequences, queue) for _ in range(3))
    assert [each.base_sequence for each in (first, second, third)] == [0, 2, 4]
    assert _back(sequences, queue, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is Verdict.RETRY
    assert not sequences.may_go(queue)  # the first is not answered yet
    assert _back(sequences, queue, third, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is Verdict.RETRY
    assert list(queue.waiting) == [second, third]
    assert _back(sequences, queue, first, ErrorCode.NONE) is Verdict.WRITTEN
    assert _go(sequences, queue) is second
    assert second.base_sequence == 2
    assert not sequences.may_go(queue)


def test_a_number_that_is_next_and_refused_means_a_lost_log() -> None:
    sequences, queue = _sequences(), _queue()
    _batch(queue)
    _batch(queue)
    assert _back(sequences, queue, _go(sequences, queue), ErrorCode.NONE) is Verdict.WRITTEN
    batch = _go(sequences, queue)
    assert _back(sequences, queue, batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is Verdict.RETRY
    assert _go(sequences, queue) is batch
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)
    assert batch.resequenced
    assert _back(sequences, queue, batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is Verdict.RETRY
    assert sequences.producer_epoch == 1  # no epoch for every answer


def test_within_a_transaction_it_is_an_error() -> None:
    sequences, queue = _sequences(transactional=True), _queue()
    _batch(queue)
    batch = _go(sequences, queue)
    assert _back(sequences, queue, batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is Verdict.FAIL


def test_a_new_epoch_waits_until_nothing_is_on_the_wire() -> None:
    sequences, queue = _sequences(), _queue()
    for _ in range(3):
        _batch(queue)
    first, second = _go(sequences, queue), _go(sequences, queue)
    assert _back(sequences, queue, first, ErrorCode.INVALID_RECORD) is Verdict.FAIL
    sequences.failed(queue, first, ErrorCode.INVALID_RECORD)
    assert not sequences.may_go(queue)
    assert (second.producer_epoch, second.base_sequence) == (0, 2)  # what is in flight does not change
    assert _back(sequences, queue, second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is Verdict.RETRY
    assert _go(sequences, queue) is second
    assert (second.producer_epoch, second.base_sequence) == (1, 0)
    assert _go(sequences, queue).base_sequence == 2


def test_after_the_last_epoch_comes_a_new_id() -> None:
    sequences, queue = _sequences(), _queue()
    sequences.begin(7, EPOCH_MAX)
    _batch(queue)
    _batch(queue)
    batch = _go(sequences, queue)
    _back(sequences, queue, batch, ErrorCode.INVALID_RECORD)
    sequences.failed(queue, batch, ErrorCode.INVALID_RECORD)
    assert not sequences.may_go(queue)
    assert not sequences.ready
    sequences.begin(8, 0)
    following = _go(sequences, queue)
    assert (following.producer_id, following.producer_epoch, following.base_sequence) == (8, 0, 0)


def test_the_first_batch_goes_alone() -> None:
    sequences, queue = _sequences(), _queue()
    queue.known_id = -1
    _batch(queue)
    _batch(queue)
    first = _go(sequences, queue)
    assert not sequences.may_go(queue)
    assert _back(sequences, queue, first, ErrorCode.NONE) is Verdict.WRITTEN
    assert sequences.may_go(queue)


def test_numbers_wrap() -> None:
    sequences, queue = _sequences(), _queue()
    queue.producer_id, queue.producer_epoch = 7, 0
    queue.next_sequence, queue.last_acked_sequence = 0x7FFFFFFE, 0x7FFFFFFD
    for _ in range(2):
        _batch(queue, 3)
    first, second = _go(sequences, queue), _go(sequences, queue)
    assert (first.base_sequence, second.base_sequence) == (0x7FFFFFFE, 1)
    assert _back(sequences, queue, second, ErrorCode.NOT_LEADER_OR_FOLLOWER) is Verdict.RETRY
    assert _back(sequences, queue, first, ErrorCode.NOT_LEADER_OR_FOLLOWER) is Verdict.RETRY
    assert list(queue.waiting) == [first, second]


@pytest.mark.parametrize(
    ("code", "count", "verdict"),
    [
        (ErrorCode.NONE, 1, Verdict.WRITTEN),
        (ErrorCode.DUPLICATE_SEQUENCE_NUMBER, 1, Verdict.WRITTEN),
        (ErrorCode.MESSAGE_TOO_LARGE, 2, Verdict.SPLIT),
        (ErrorCode.MESSAGE_TOO_LARGE, 1, Verdict.FAIL),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, 1, Verdict.RETRY),
        (ErrorCode.NETWORK_EXCEPTION, 1, Verdict.RETRY),
        (ErrorCode.UNKNOWN_PRODUCER_ID, 1, Verdict.RETRY),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 1, Verdict.FAIL),
        (ErrorCode.INVALID_RECORD, 1, Verdict.FAIL),
    ],
)
def test_what_an_answer_means(code: ErrorCode, count: int, verdict: Verdict) -> None:
    sequences, queue = _sequences(), _queue()
    _batch(queue, count)
    assert _back(sequences, queue, _go(sequences, queue), code) is verdict


def test_no_more_batches_of_a_partition_are_on_the_wire_than_a_broker_remembers() -> None:
    """A leader that moves has a connection of its own; what the old one has not answered counts too."""
    rig = Rig()
    rig.send(b"first")
    rig.flush()
    queue = rig.topic.queues[0]
    queue.wire += [ProducerBatch.of_section(queue, 0.0, Face(), Section(0, 1, 0, 0, bytearray(61)))] * 5
    rig.send(b"sixth")
    rig.world.pass_time(0.01)
    assert len(queue.waiting) == 1
