"""EndTxn: state by state, for both transaction versions, retries included."""

from typing import TYPE_CHECKING

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.coordinator.records.transaction_records import read_transaction_record
from headwater.coordinator.transactions.states import TransactionState

if TYPE_CHECKING:
    from conftest import Harness

S = TransactionState
E = ErrorCode
STATES = [S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.COMPLETE_COMMIT, S.COMPLETE_ABORT]
FENCED_BY_VERSION = [(0, E.INVALID_PRODUCER_EPOCH), (1, E.INVALID_PRODUCER_EPOCH), (2, E.PRODUCER_FENCED)]
P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)

# What a client of version 1 (EndTxn up to v4) is told: commit, abort
OLD = {
    S.EMPTY: (E.INVALID_TXN_STATE, E.INVALID_TXN_STATE),
    S.ONGOING: (E.NONE, E.NONE),
    S.PREPARE_COMMIT: (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    S.PREPARE_ABORT: (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    S.COMPLETE_COMMIT: (E.NONE, E.INVALID_TXN_STATE),
    S.COMPLETE_ABORT: (E.INVALID_TXN_STATE, E.NONE),
}
# Version 2 (v5) with the present epoch: commit, abort
PRESENT = {
    S.EMPTY: (E.INVALID_TXN_STATE, E.NONE),
    S.ONGOING: (E.NONE, E.NONE),
    S.PREPARE_COMMIT: (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    S.PREPARE_ABORT: (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    S.COMPLETE_COMMIT: (E.INVALID_TXN_STATE, E.NONE),
    S.COMPLETE_ABORT: (E.INVALID_TXN_STATE, E.NONE),
}
# Version 2 with the epoch before: a retry where a transaction has just ended
RETRY = {
    S.EMPTY: (E.PRODUCER_FENCED, E.PRODUCER_FENCED),
    S.ONGOING: (E.PRODUCER_FENCED, E.PRODUCER_FENCED),
    S.PREPARE_COMMIT: (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    S.PREPARE_ABORT: (E.CONCURRENT_TRANSACTIONS, E.CONCURRENT_TRANSACTIONS),
    S.COMPLETE_COMMIT: (E.NONE, E.INVALID_TXN_STATE),
    S.COMPLETE_ABORT: (E.INVALID_TXN_STATE, E.NONE),
}


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("version", range(5))
def test_old_clients(harness: "Harness", state: TransactionState, committed: bool, version: int) -> None:
    harness.in_state(state, version=4)
    transaction = harness.transaction
    producer = (transaction.producer_id, transaction.producer_epoch)
    code, _, _ = harness.end(producer, committed, version)
    assert code is OLD[state][0 if committed else 1]
    assert (transaction.producer_id, transaction.producer_epoch) == producer  # no bump
    assert bool(harness.effects.records) == (state is S.ONGOING)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_version_2_with_the_present_epoch(harness: "Harness", state: TransactionState, committed: bool) -> None:
    harness.in_state(state)
    transaction = harness.transaction
    code, _, epoch = harness.end((transaction.producer_id, transaction.producer_epoch), committed)
    assert code is PRESENT[state][0 if committed else 1]
    assert epoch == (transaction.producer_epoch if code is E.NONE else -1)
    assert bool(harness.effects.records) == (code is E.NONE)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_version_2_with_the_epoch_before(harness: "Harness", state: TransactionState, committed: bool) -> None:
    harness.in_state(state)
    if state in (S.EMPTY, S.ONGOING):
        harness.set_epoch(4)
    transaction = harness.transaction
    code, producer_id, epoch = harness.end((transaction.producer_id, transaction.producer_epoch - 1), committed)
    assert code is RETRY[state][0 if committed else 1]
    assert not harness.effects.records
    if code is E.NONE:
        assert (producer_id, epoch) == (transaction.producer_id, transaction.producer_epoch)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("version", "fenced"), [*FENCED_BY_VERSION, (3, E.PRODUCER_FENCED), (5, E.PRODUCER_FENCED)])
def test_other_epochs_are_fenced(harness: "Harness", state: TransactionState, version: int, fenced: ErrorCode) -> None:
    harness.in_state(state)
    harness.set_epoch(harness.transaction.producer_epoch + 5)
    transaction = harness.transaction
    for epoch in (transaction.producer_epoch - 2, transaction.producer_epoch + 1, -1):
        for committed in (True, False):
            assert harness.end((transaction.producer_id, epoch), committed, version)[0] is fenced
            assert not harness.effects.records


@pytest.mark.parametrize("version", [0, 4, 5])
def test_other_producers_have_no_such_id(harness: "Harness", version: int) -> None:
    assert harness.end((1, 0), True, version)[0] is E.INVALID_PRODUCER_ID_MAPPING
    producer_id, epoch = harness.in_state(S.ONGOING)
    assert harness.end((producer_id + 1, epoch), True, version)[0] is E.INVALID_PRODUCER_ID_MAPPING
    assert harness.end((producer_id, epoch), True, version, transactional_id="")[0] is E.INVALID_REQUEST


def test_markers_come_with_the_prepare_record_and_the_complete_record_after_the_last_of_them(
    harness: "Harness",
) -> None:
    producer_id, epoch = harness.in_state(S.ONGOING)
    assert harness.end((producer_id, epoch), True) == (E.NONE, producer_id, epoch + 1)
    assert len(harness.effects.records) == 1
    (markers,) = harness.effects.markers
    assert (markers.producer_id, markers.producer_epoch, markers.coordinator_epoch) == (producer_id, epoch + 1, 9)
    assert (markers.committed, markers.transaction_version, markers.partitions) == (True, 2, (P0, P1))
    harness.write_markers(P1)
    assert not harness.effects.records
    assert harness.transaction.state is S.PREPARE_COMMIT
    harness.fire("markers")  # what is missing is asked for again
    assert harness.effects.markers == [markers._replace(partitions=(P0,))]
    harness.write_markers(P0)
    assert harness.transaction.state is S.COMPLETE_COMMIT
    assert not harness.transaction.partitions
    harness.write_markers(P0)  # once more: nothing
    assert not harness.effects.records
    harness.fire("markers")
    assert not harness.effects.markers


def test_markers_of_an_old_client_keep_its_epoch(harness: "Harness") -> None:
    producer_id, epoch = harness.in_state(S.ONGOING, version=4)
    harness.end((producer_id, epoch), False, version=4)
    (markers,) = harness.effects.markers
    assert (markers.producer_epoch, markers.committed, markers.transaction_version) == (epoch, False, 0)


def test_a_report_about_another_attempt_changes_nothing(harness: "Harness") -> None:
    harness.in_state(S.PREPARE_COMMIT)
    harness.shard.markers_written("payments", harness.transaction.attempt + 1, [P0, P1], harness.now_ms)
    harness.shard.markers_written("unknown", harness.transaction.attempt, [P0, P1], harness.now_ms)
    assert harness.transaction.state is S.PREPARE_COMMIT


def test_an_abort_without_partitions_is_complete_at_once(harness: "Harness") -> None:
    producer_id, epoch = harness.in_state(S.EMPTY)
    assert harness.end((producer_id, epoch), False) == (E.NONE, producer_id, epoch + 1)
    states = [read_transaction_record(record) for record in harness.effects.records]
    assert [found.value.transaction_status for found in states if found and found.value] == [
        S.PREPARE_ABORT,
        S.COMPLETE_ABORT,
    ]
    assert not harness.effects.markers
    assert harness.end((producer_id, epoch), False) == (E.NONE, producer_id, epoch + 1)  # the retry
    assert harness.end((producer_id, epoch), True)[0] is E.INVALID_TXN_STATE


@pytest.mark.parametrize("committed", [True, False])
def test_a_delayed_end_never_touches_a_later_transaction(harness: "Harness", committed: bool) -> None:
    producer = harness.in_state(S.ONGOING)
    _, *bumped = harness.end(producer, True)
    harness.write_markers()
    later = (bumped[0], bumped[1])
    harness.add(later, P0)
    assert harness.end(producer, committed)[0] is E.PRODUCER_FENCED
    assert harness.transaction.state is S.ONGOING
    harness.end(later, True)
    assert harness.end(producer, committed)[0] is E.PRODUCER_FENCED
    harness.write_markers()
    assert harness.end(producer, committed)[0] is E.PRODUCER_FENCED


def test_the_last_epoch_ends_in_a_new_producer_id(harness: "Harness") -> None:
    old, _ = harness.in_state(S.ONGOING)
    harness.set_epoch(32766)
    code, new, epoch = harness.end((old, 32766), True)
    assert (code, epoch) == (E.NONE, 0)
    assert new != old
    (markers,) = harness.effects.markers
    assert (markers.producer_id, markers.producer_epoch) == (old, 32767)
    assert harness.end((old, 32766), True)[0] is E.CONCURRENT_TRANSACTIONS
    assert harness.add((new, 0)) == [E.INVALID_PRODUCER_ID_MAPPING]  # not before the markers are written
    harness.write_markers()
    assert harness.end((old, 32766), True) == (E.NONE, new, 0)  # the answer was lost: here it is again
    assert harness.end((old, 32766), False)[0] is E.INVALID_TXN_STATE
    assert harness.add((new, 0)) == [E.NONE]
    assert harness.end((old, 32766), True)[0] is E.INVALID_PRODUCER_ID_MAPPING


def test_no_client_gets_the_epoch_that_is_there_to_fence_it(harness: "Harness") -> None:
    producer_id, _ = harness.in_state(S.EMPTY)
    harness.set_epoch(32767)
    assert harness.add((producer_id, 32767)) == [E.PRODUCER_FENCED]
    assert harness.end((producer_id, 32767), False)[0] is E.PRODUCER_FENCED
    assert harness.end((producer_id, 32767), False, version=4)[0] is E.PRODUCER_FENCED


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_the_epoch_before_is_a_zombies_where_the_last_end_has_bumped_nothing(
    harness: "Harness", state: TransactionState, committed: bool
) -> None:
    """Its EndTxn was taken for a retry of the last end, which an older client had asked for, and it was given the epoch
    of the producer that had replaced it.
    """
    harness.in_state(state, version=4)
    transaction = harness.transaction
    producer = (transaction.producer_id, transaction.producer_epoch)
    code, _, _ = harness.end((producer[0], producer[1] - 1), committed)
    assert code is E.PRODUCER_FENCED
    assert (transaction.producer_id, transaction.producer_epoch) == producer
