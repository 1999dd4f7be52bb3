"""Both protocols of transactions against a coordinator that is not there: what is asked of it, and in which order."""

import pytest

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.base.ids import TopicPartition
from headwater.client.producer.ending import end_transaction
from headwater.client.producer.transaction_manager import OpenTransaction, State
from headwater.client.producer.types import ProducerFenced, TransactionAborted, TransactionFailed
from headwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
)
from headwater.wire.messages.end_txn import EndTxnRequest
from headwater.wire.messages.produce import ProduceRequest
from headwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
)
from unit.client.producer.producer_fakes import HOLD
from unit.client.producer.transaction_fakes import Coordinated


@pytest.fixture(params=[True, False], ids=["new", "old"])
def rig(request: pytest.FixtureRequest) -> Coordinated:
    made = Coordinated(new=request.param)
    made.init()
    return made


def test_the_old_protocol_tells_the_coordinator_first() -> None:
    rig = Coordinated(new=False)
    rig.init()
    rig.transactions.begin()
    rig.send(b"v")
    rig.world.run(rig.transactions.send_offsets({TopicPartition("t", 0): 5}, "group"))
    rig.commit()
    asked = rig.asked()
    assert sorted(asked) == sorted(
        ["InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "Produce", "EndTxn"]
    )
    assert asked.index("AddOffsetsToTxn") < asked.index("TxnOffsetCommit") < asked.index("EndTxn")
    assert asked.index("AddPartitionsToTxn") < asked.index("Produce") < asked.index("EndTxn")
    assert max(rig.versions(ProduceRequest)) <= 11
    assert max(rig.versions(EndTxnRequest)) <= 4
    assert max(rig.versions(TxnOffsetCommitRequest)) <= 4
    assert max(rig.versions(AddPartitionsToTxnRequest)) <= 3


def test_the_new_protocol_leaves_that_to_the_broker_and_has_an_epoch_for_each() -> None:
    rig = Coordinated(new=True)
    rig.init()
    for value in (b"one", b"two"):
        rig.transactions.begin()
        rig.send(value)
        rig.world.run(rig.transactions.send_offsets({TopicPartition("t", 0): 5}, "group"))
        rig.commit()
    assert "AddPartitionsToTxn" not in rig.asked()
    assert "AddOffsetsToTxn" not in rig.asked()
    assert [(each.producer_epoch, each.base_sequence) for each in rig.logs.headers] == [(0, 0), (1, 0)]
    assert all(each.is_transactional for each in rig.logs.headers)
    assert min(rig.versions(ProduceRequest)) >= 12
    assert rig.versions(EndTxnRequest) == {5}


def test_partitions_are_added_once_in_each_transaction() -> None:
    rig = Coordinated(new=False)
    rig.init()
    for _ in range(2):
        rig.transactions.begin()
        for partition in (0, 1, 0, 1):
            rig.send(b"v", partition=partition)
            rig.world.pass_time(0.01)
        rig.commit()
    added = rig.broker.received(AddPartitionsToTxnRequest)
    assert [[topic.partitions for topic in each.v3_and_below_topics] for each in added] == [[[0]], [[1]]] * 2


def test_records_of_both_ends(rig: Coordinated) -> None:
    rig.transactions.begin()
    good = rig.send(b"good")
    rig.commit()
    assert good.metadata().offset == 0
    rig.transactions.begin()
    rig.send(b"sent")
    rig.world.pass_time(0.1)
    dropped = rig.put(b"dropped")
    rig.abort()
    assert isinstance(dropped.exception(), TransactionAborted)
    assert rig.logs.values[0] == [b"good", b"sent"]
    assert [each.committed for each in rig.broker.received(EndTxnRequest)] == [True, False]
    rig.transactions.begin()
    rig.send(b"next")
    rig.commit()
    assert rig.logs.values[0] == [b"good", b"sent", b"next"]


def test_an_empty_transaction_asks_nothing(rig: Coordinated) -> None:
    rig.transactions.begin()
    rig.commit()
    rig.transactions.begin()
    rig.abort()
    assert rig.asked() == ["InitProducerId"]


def test_the_order_of_calls_is_checked() -> None:
    rig = Coordinated(new=True)
    with pytest.raises(UserError, match="init_transactions"):
        rig.transactions.begin()
    with pytest.raises(UserError, match="init_transactions"):
        rig.put(b"v")
    rig.init()
    with pytest.raises(UserError):
        rig.init()
    with pytest.raises(UserError, match="begin_transaction"):
        rig.put(b"v")
    with pytest.raises(UserError):
        rig.commit()
    rig.transactions.begin()
    with pytest.raises(UserError):
        rig.transactions.begin()


def test_what_passes_is_tried_again(rig: Coordinated) -> None:
    busy, moved = int(ErrorCode.CONCURRENT_TRANSACTIONS), int(ErrorCode.NOT_COORDINATOR)
    rig.codes = {
        EndTxnRequest: [busy, moved],
        AddPartitionsToTxnRequest: [busy, busy],
        AddOffsetsToTxnRequest: [busy],
        TxnOffsetCommitRequest: [int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
    }
    rig.transactions.begin()
    rig.send(b"v")
    rig.world.run(rig.transactions.send_offsets({TopicPartition("t", 0): 5}, "group"))
    rig.commit()
    assert rig.logs.values[0] == [b"v"]
    assert rig.asked().count("EndTxn") == 3


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize("where", ["produce", "end"])
def test_fencing_is_fatal(rig: Coordinated, code: ErrorCode, where: str) -> None:
    rig.transactions.begin()
    if where == "produce":
        rig.logs.next_answers = [int(code)]
    else:
        rig.codes = {EndTxnRequest: [int(code)]}
    rig.send(b"v")
    with pytest.raises(ProducerFenced, match="'tx'"):
        rig.commit()
    with pytest.raises(ProducerFenced):
        rig.put(b"v")
    with pytest.raises(ProducerFenced):
        rig.abort()


def test_an_error_can_only_be_aborted_and_bumps_the_epoch(rig: Coordinated) -> None:
    rig.transactions.begin()
    rig.send(b"good")
    rig.flush()
    rig.logs.next_answers = [int(ErrorCode.INVALID_RECORD)]
    rig.send(b"bad")
    rig.flush()
    assert rig.transactions.state is State.FAILED
    with pytest.raises(TransactionFailed) as failed:
        rig.put(b"more")
    assert isinstance(failed.value.__cause__, KafkaError)
    with pytest.raises(TransactionFailed):
        rig.commit()
    rig.abort()
    rig.transactions.begin()
    rig.send(b"next")
    rig.commit()
    assert rig.logs.values[0] == [b"good", b"next"]
    last = rig.logs.headers[-1]
    assert (last.producer_epoch, last.base_sequence) == (1, 0)


def test_a_batch_that_is_under_way_ends_before_the_abort(rig: Coordinated) -> None:
    rig.transactions.begin()
    rig.send(b"first")
    rig.flush()
    rig.logs.next_answers = [int(ErrorCode.NOT_ENOUGH_REPLICAS)]
    delivery = rig.send(b"second")
    rig.abort()
    assert isinstance(delivery.exception(), TransactionAborted)
    assert rig.core.accumulator.used_bytes == 0
    assert rig.asked()[-1] == ("EndTxn" if rig.new else "InitProducerId")  # nobody knows whether it was written
    rig.transactions.begin()
    rig.send(b"next")
    rig.commit()
    assert rig.logs.values[0][-1] == b"next"


def test_a_batch_that_is_too_large_while_the_transaction_aborts_is_not_split(rig: Coordinated) -> None:
    """Its parts would wait until delivery.timeout.ms is over, and the abort for them."""
    rig.transactions.begin()
    rig.send(b"first")
    rig.flush()
    rig.logs.next_answers = [int(ErrorCode.MESSAGE_TOO_LARGE)]
    deliveries = [rig.put(value) for value in (b"second", b"third")]
    rig.core.sender.flush()
    begun = rig.world.now
    rig.abort()
    assert all(isinstance(delivery.exception(), TransactionAborted) for delivery in deliveries)
    assert rig.world.now - begun < 1  # of the world's own clock
    assert rig.core.accumulator.used_bytes == 0
    rig.transactions.begin()
    rig.send(b"next")
    rig.commit()
    assert rig.logs.values[0] == [b"first", b"next"]


def test_offsets_of_a_member_that_was_replaced(rig: Coordinated) -> None:
    rig.transactions.begin()
    rig.codes = {TxnOffsetCommitRequest: [int(ErrorCode.ILLEGAL_GENERATION)]}
    with pytest.raises(TransactionFailed):
        rig.world.run(rig.transactions.send_offsets({TopicPartition("t", 0): 5}, "group"))
    rig.abort()
    assert rig.transactions.state is State.READY


def test_the_member_of_a_group_is_named(rig: Coordinated) -> None:
    class Metadata:
        group_id = "group"
        generation_id = 4
        member_id = "me"
        group_instance_id = "always me"

    rig.transactions.begin()
    rig.world.run(rig.transactions.send_offsets({TopicPartition("t", 1): 8}, Metadata()))
    (request,) = rig.broker.received(TxnOffsetCommitRequest)
    assert (request.group_id, request.generation_id_or_member_epoch) == ("group", 4)
    assert (request.member_id, request.group_instance_id) == ("me", "always me")
    assert [(each.partition_index, each.committed_offset) for each in request.topics[0].partitions] == [(1, 8)]


def test_a_prepared_transaction_is_left_open_and_ended_elsewhere(rig: Coordinated) -> None:
    rig.transactions.begin()
    rig.put(b"v")
    prepared = rig.world.run(rig.transactions.prepare())
    assert prepared == OpenTransaction("tx", 9, 0, empty=False)
    assert rig.logs.values[0] == [b"v"]
    with pytest.raises(UserError):
        rig.put(b"more")
    rig.world.run(rig.core.close(1))
    assert "EndTxn" not in rig.asked()
    rig.world.run(end_transaction(rig.world.session(), prepared, commit=True))
    (ended,) = rig.broker.received(EndTxnRequest)
    assert (ended.transactional_id, ended.producer_id, ended.producer_epoch, ended.committed) == ("tx", 9, 0, True)


def test_close_aborts_what_is_open(rig: Coordinated) -> None:
    rig.transactions.begin()
    rig.send(b"v")
    rig.world.pass_time(0.1)
    rig.world.run(rig.core.close(5))
    assert [each.committed for each in rig.broker.received(EndTxnRequest)] == [False]


def test_a_record_that_comes_while_the_commit_flushes_does_not_slip_into_the_next_transaction(rig: Coordinated) -> None:
    refused: list[str] = []

    def another(*_: object) -> None:
        with pytest.raises(UserError) as raised:
            rig.transactions.check_send()
        refused.append(raised.value.what)

    rig.transactions.begin()
    rig.put(b"v", on_delivery=another)
    rig.commit()
    assert refused == ["No transaction is open"]
    assert rig.transactions.state is State.READY
    assert len(rig.requests) == 1


def test_a_commit_that_ran_out_of_time_in_its_flush_may_be_aborted(rig: Coordinated) -> None:
    rig.logs.next_answers = [HOLD]
    rig.transactions.begin()
    rig.put(b"v")
    committing = rig.world.kernel.spawn(rig.transactions.commit())
    rig.world.kernel.run_ready()
    assert rig.transactions.state is State.FLUSHING
    committing.cancel()
    rig.world.kernel.run_ready()
    assert rig.transactions.state is State.OPEN


def test_the_short_way_of_a_record_is_open_as_long_as_a_transaction_is(rig: Coordinated) -> None:
    """`Producer.send` asks nothing but `plain` there."""
    core = rig.core
    assert not core.plain, "no transaction has begun"
    rig.transactions.begin()
    assert core.plain
    rig.send(b"v")
    rig.commit()
    assert not core.plain
    rig.transactions.begin()
    rig.transactions.failed(KafkaError(ErrorCode.INVALID_TXN_STATE, "broken"))
    assert not core.plain


def test_an_error_in_a_transaction_closes_the_short_way(rig: Coordinated) -> None:
    rig.transactions.begin()
    rig.transactions.failed(KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "one record"))
    assert (rig.transactions.state, rig.core.plain) == (State.FAILED, False)
    rig.abort()
    rig.transactions.begin()
    assert rig.core.plain
