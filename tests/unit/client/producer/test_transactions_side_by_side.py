"""Calls of a transactional producer while others of its calls, or deliveries, are under way."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.producer.transaction_manager import State
from headwater.client.producer.types import TransactionAborted, TransactionFailed
from headwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headwater.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from headwater.wire.messages.end_txn import EndTxnRequest
from headwater.wire.messages.init_producer_id import InitProducerIdRequest
from headwater.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from unit.client.producer.producer_fakes import HOLD
from unit.client.producer.transaction_fakes import Coordinated


@pytest.fixture(params=[True, False], ids=["new", "old"])
def rig(request: pytest.FixtureRequest) -> Coordinated:
    made = Coordinated(new=request.param)
    made.init()
    return made


def test_batches_that_expire_at_once_are_told_one_error_and_free_their_memory_once() -> None:
    """The first failed the transaction, and with it the second, which was then given up again."""
    rig = Coordinated(new=True, **{"delivery.timeout.ms": 30_000})
    rig.init()
    rig.transactions.begin()
    rig.world.topics["t"] = [5, 5]  # nobody that is there
    rig.world.run(rig.session.refresh(["t"]))
    rig.core.apply_metadata()
    told: list[KafkaError | None] = []
    for partition in (0, 1):
        rig.send(b"v", partition=partition, on_delivery=lambda error, _: told.append(error))
    rig.core.sender.wake()
    rig.world.pass_time(40)
    assert len(told) == 2
    assert rig.core.accumulator.used_bytes == 0


def test_an_abort_that_drops_a_retry_leaves_no_gap_in_the_numbers(rig: Coordinated) -> None:
    """Its number was given to nobody else: the next transaction waited for it until delivery.timeout.ms."""
    rig.transactions.begin()
    rig.send(b"first")
    rig.flush()
    rig.logs.next_answers = [int(ErrorCode.NOT_ENOUGH_REPLICAS)]
    dropped = rig.send(b"second")
    rig.world.pass_time(0.01)
    rig.abort()
    assert isinstance(dropped.exception(), TransactionAborted)
    rig.transactions.begin()
    begun = rig.world.now
    rig.send(b"next")
    rig.commit()
    assert rig.world.now - begun < 1  # of the world's own clock
    assert rig.logs.values[0] == [b"first", b"next"]


def test_an_abort_makes_room_for_who_waits_for_it() -> None:
    rig = Coordinated(new=True, **{"buffer.memory": 200, "batch.size": 200})
    rig.init()
    rig.transactions.begin()
    rig.world.topics["t"] = [5, 5]
    rig.world.run(rig.session.refresh(["t"]))
    rig.core.apply_metadata()
    while not rig.core.accumulator.is_full:
        rig.put(b"v" * 100)
    waiting = rig.world.kernel.spawn(rig.core.room())
    rig.world.kernel.run_ready()
    rig.abort()
    begun = rig.world.now
    rig.world.finish(waiting)
    assert rig.world.now - begun < 1


def test_a_record_that_is_sent_while_a_transaction_is_prepared_is_refused(rig: Coordinated) -> None:
    """It was written after the transaction had been handed over as complete."""
    refused: list[str] = []

    def another(*_: object) -> None:
        with pytest.raises(UserError) as raised:
            rig.put(b"late")
        refused.append(raised.value.what)

    rig.transactions.begin()
    rig.put(b"v", on_delivery=another)
    rig.world.run(rig.transactions.prepare())
    rig.flush()
    assert refused == ["No transaction is open"]
    assert rig.logs.values[0] == [b"v"]


def test_a_transaction_that_cannot_be_prepared_in_time_stays_open(rig: Coordinated) -> None:
    rig.logs.next_answers = [HOLD]
    rig.transactions.begin()
    rig.put(b"v")
    preparing = rig.world.kernel.spawn(rig.transactions.prepare())
    rig.world.kernel.run_ready()
    assert rig.transactions.state is State.FLUSHING
    preparing.cancel()
    rig.world.kernel.run_ready()
    assert rig.transactions.state is State.OPEN


def _hold_offsets(rig: Coordinated) -> Any:
    task = rig.world.kernel.spawn(rig.transactions.send_offsets({TopicPartition("t", 0): 5}, "group"))
    answer = rig.broker._answers[TxnOffsetCommitRequest.KEY]
    rig.broker.on(TxnOffsetCommitRequest, lambda _: HOLD)
    rig.world.pass_time(0.1)
    rig.broker.on(TxnOffsetCommitRequest, answer)
    return task


def _answer_offsets(rig: Coordinated) -> None:
    (held,) = rig.broker.held
    rig.broker.answer_held(rig._commit_offsets(held.request))


@pytest.mark.parametrize("end", ["commit", "abort", "prepare"])
def test_a_transaction_ends_after_the_offsets_that_are_on_their_way_into_it(rig: Coordinated, end: str) -> None:
    rig.transactions.begin()
    sending = _hold_offsets(rig)
    ending = rig.world.kernel.spawn(getattr(rig.transactions, end)())
    rig.world.pass_time(0.1)
    assert not ending.done
    assert "EndTxn" not in rig.asked()
    _answer_offsets(rig)
    rig.world.finish(sending)
    rig.world.finish(ending)


def test_offsets_that_are_refused_while_the_commit_waits_for_them_fail_it(rig: Coordinated) -> None:
    rig.transactions.begin()
    rig.codes = {TxnOffsetCommitRequest: [int(ErrorCode.ILLEGAL_GENERATION)]}
    sending = _hold_offsets(rig)
    committing = rig.world.kernel.spawn(rig.transactions.commit())
    rig.world.pass_time(0.1)
    _answer_offsets(rig)
    for task in (sending, committing):
        with pytest.raises(TransactionFailed):
            rig.world.finish(task)
    assert "EndTxn" not in rig.asked()


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_two_threads_that_end_a_transaction_at_once_end_it_once(rig: Coordinated, end: str) -> None:
    """The answer to the second came in the midst of the next transaction, and ended that as well."""
    rig.transactions.begin()
    rig.send(b"v")
    rig.flush()
    tasks = [rig.world.kernel.spawn(getattr(rig.transactions, end)()) for _ in range(2)]
    for task in tasks:
        rig.world.finish(task)
    assert rig.asked().count("EndTxn") == 1
    rig.transactions.begin()
    rig.send(b"next")
    rig.world.pass_time(1)
    assert rig.transactions.state is State.OPEN
    rig.commit()
    assert rig.asked().count("EndTxn") == 2


def test_an_end_that_ran_out_of_time_is_taken_over_by_who_asked_for_it_too(rig: Coordinated) -> None:
    rig.transactions.begin()
    rig.send(b"v")
    rig.flush()
    answer = rig.broker._answers[EndTxnRequest.KEY]
    rig.broker.on(EndTxnRequest, lambda _: HOLD)
    first, second = (rig.world.kernel.spawn(rig.transactions.commit()) for _ in range(2))
    rig.world.pass_time(0.1)
    rig.broker.on(EndTxnRequest, answer)
    rig.broker.disconnect()
    first.cancel()
    rig.world.finish(second)
    assert rig.transactions.state is State.READY


def test_two_threads_that_take_the_transactional_id_at_once_take_it_once() -> None:
    rig = Coordinated(new=True)
    tasks = [rig.world.kernel.spawn(rig.transactions.init()) for _ in range(2)]
    for task in tasks:
        rig.world.finish(task)
    assert len(rig.broker.received(InitProducerIdRequest)) == 1


@pytest.mark.parametrize("held", ["records", "end"])
def test_close_lets_a_commit_that_is_under_way_end(rig: Coordinated, held: str) -> None:
    """It cut the commit off, and the transaction stayed open until transaction.timeout.ms."""
    rig.transactions.begin()
    rig.send(b"v")
    if held == "end":
        rig.flush()
        rig.broker.on(EndTxnRequest, lambda _: HOLD)
    else:
        rig.logs.next_answers = [HOLD]
    committing = rig.world.kernel.spawn(rig.transactions.commit())
    rig.world.pass_time(0.1)
    closing = rig.world.kernel.spawn(rig.core.close(10))
    rig.world.pass_time(0.1)
    assert not closing.done
    (waiting,) = rig.broker.held
    rig.broker.answer_held(
        rig._end(waiting.request) if held == "end" else rig.logs.produce(waiting.request)  # type: ignore[arg-type]
    )
    rig.world.finish(closing)
    rig.world.finish(committing)
    assert rig.logs.values[0] == [b"v"]
    assert [each.committed for each in rig.broker.received(EndTxnRequest)] == [True]


def test_close_ends_a_commit_that_ran_out_of_time(rig: Coordinated) -> None:
    rig.transactions.begin()
    rig.send(b"v")
    rig.flush()
    rig.codes = {EndTxnRequest: [int(ErrorCode.CONCURRENT_TRANSACTIONS)]}
    committing = rig.world.kernel.spawn(rig.transactions.commit())
    rig.world.pass_time(0.01)
    committing.cancel()
    rig.world.kernel.run_ready()
    assert rig.transactions.state is State.COMMITTING
    rig.world.run(rig.core.close(10))
    assert [each.committed for each in rig.broker.received(EndTxnRequest)] == [True, True]


def test_an_abort_that_cannot_know_whether_a_partition_was_added_takes_a_new_epoch() -> None:
    """AddPartitionsToTxn had arrived, and its answer had not: the coordinator kept the transaction open."""
    rig = Coordinated(new=False, **{"max.block.ms": 2000})
    rig.init()
    rig.transactions.begin()
    rig.broker.on(AddPartitionsToTxnRequest, lambda _: HOLD)
    rig.send(b"v")
    rig.world.pass_time(0.1)
    aborting = rig.world.kernel.spawn(rig.transactions.abort())
    rig.world.pass_time(2.1)
    rig.broker.disconnect()
    rig.world.finish(aborting)
    assert rig.transactions.state is State.READY
    assert rig.asked()[-2:] == ["EndTxn", "InitProducerId"]  # ends what the coordinator has


def _give_up_offsets(rig: Coordinated, unanswered: type) -> None:
    """What max.block.ms, or the end of an asyncio task, does to a call whose answer does not come."""
    answer = rig.broker._answers[unanswered.KEY]  # type: ignore[attr-defined]
    rig.broker.on(unanswered, lambda _: HOLD)
    sending = rig.world.kernel.spawn(rig.transactions.send_offsets({TopicPartition("t", 0): 5}, "group"))
    rig.world.pass_time(0.1)
    sending.cancel()
    rig.world.kernel.run_ready()
    rig.broker.on(unanswered, answer)
    rig.broker.disconnect()


@pytest.mark.parametrize(
    ("unanswered", "told"),
    [
        (AddOffsetsToTxnRequest, ErrorCode.NONE),
        (AddOffsetsToTxnRequest, ErrorCode.INVALID_TXN_STATE),  # the coordinator has not heard of the transaction
        (TxnOffsetCommitRequest, ErrorCode.NONE),
    ],
)
def test_an_abort_after_offsets_that_ran_out_of_time_takes_a_new_epoch(unanswered: type, told: ErrorCode) -> None:
    """It asked nothing, and the coordinator fenced the producer at transaction.timeout.ms; or offsets that came late
    stood in the next transaction."""
    rig = Coordinated(new=False)
    rig.init()
    rig.transactions.begin()
    _give_up_offsets(rig, unanswered)
    assert rig.transactions.state is State.FAILED
    rig.codes = {EndTxnRequest: [int(told)]}
    rig.abort()
    assert rig.transactions.state is State.READY
    assert rig.asked()[-2:] == ["EndTxn", "InitProducerId"]  # the id alone would fence whom it is for
    assert rig.transactions.identity() == (9, 1)
    rig.transactions.begin()
    rig.send(b"next")
    rig.commit()


def test_a_transaction_whose_offsets_ran_out_of_time_is_not_committed_without_them(rig: Coordinated) -> None:
    """The records were committed, and the offsets were not: they were read again, and written twice."""
    rig.transactions.begin()
    rig.send(b"v")
    rig.flush()
    _give_up_offsets(rig, TxnOffsetCommitRequest)
    with pytest.raises(TransactionFailed, match="offsets of group 'group'") as failed:
        rig.commit()
    assert failed.value.code == ErrorCode.REQUEST_TIMED_OUT
    rig.abort()
    assert [each.committed for each in rig.broker.received(EndTxnRequest)] == [False]
    assert rig.transactions.identity() == (9, 1)


def test_a_commit_that_waits_for_offsets_fails_when_they_run_out_of_time(rig: Coordinated) -> None:
    rig.transactions.begin()
    sending = _hold_offsets(rig)
    committing = rig.world.kernel.spawn(rig.transactions.commit())
    rig.world.pass_time(0.1)
    sending.cancel()
    with pytest.raises(TransactionFailed):
        rig.world.finish(committing)
    assert "EndTxn" not in rig.asked()
