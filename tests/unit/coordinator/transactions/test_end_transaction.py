"""EndTxn: state by state, for both transaction versions, retries included."""

from typing import TYPE_CHECKING

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.coordinator.records.transaction_records import read_transaction_record
from headwater.coordinator.transactions.states import TransactionState

if TYPE_CHECKING:
    from conftest import Desk

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
def test_old_clients(desk: "Desk", state: TransactionState, committed: bool, version: int) -> None:
    desk.in_state(state, version=4)
    transaction = desk.transaction
    producer = (transaction.producer_id, transaction.producer_epoch)
    code, _, _ = desk.end(producer, committed, version)
    assert code is OLD[state][0 if committed else 1]
    assert (transaction.producer_id, transaction.producer_epoch) == producer  # no bump
    assert bool(desk.effects.records) == (state is S.ONGOING)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_version_2_with_the_present_epoch(desk: "Desk", state: TransactionState, committed: bool) -> None:
    desk.in_state(state)
    transaction = desk.transaction
    code, _, epoch = desk.end((transaction.producer_id, transaction.producer_epoch), committed)
    assert code is PRESENT[state][0 if committed else 1]
    assert epoch == (transaction.producer_epoch if code is E.NONE else -1)
    assert bool(desk.effects.records) == (code is E.NONE)


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_version_2_with_the_epoch_before(desk: "Desk", state: TransactionState, committed: bool) -> None:
    desk.in_state(state)
    if state in (S.EMPTY, S.ONGOING):
        desk.set_epoch(4)
    transaction = desk.transaction
    code, producer_id, epoch = desk.end((transaction.producer_id, transaction.producer_epoch - 1), committed)
    assert code is RETRY[state][0 if committed else 1]
    assert not desk.effects.records
    if code is E.NONE:
        assert (producer_id, epoch) == (transaction.producer_id, transaction.producer_epoch)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("version", "fenced"), [*FENCED_BY_VERSION, (3, E.PRODUCER_FENCED), (5, E.PRODUCER_FENCED)])
def test_other_epochs_are_fenced(desk: "Desk", state: TransactionState, version: int, fenced: ErrorCode) -> None:
    desk.in_state(state)
    desk.set_epoch(desk.transaction.producer_epoch + 5)
    transaction = desk.transaction
    for epoch in (transaction.producer_epoch - 2, transaction.producer_epoch + 1, -1):
        for committed in (True, False):
            assert desk.end((transaction.producer_id, epoch), committed, version)[0] is fenced
            assert not desk.effects.records


@pytest.mark.parametrize("version", [0, 4, 5])
def test_other_producers_have_no_such_id(desk: "Desk", version: int) -> None:
    assert desk.end((1, 0), True, version)[0] is E.INVALID_PRODUCER_ID_MAPPING
    producer_id, epoch = desk.in_state(S.ONGOING)
    assert desk.end((producer_id + 1, epoch), True, version)[0] is E.INVALID_PRODUCER_ID_MAPPING
    assert desk.end((producer_id, epoch), True, version, transactional_id="")[0] is E.INVALID_REQUEST


def test_markers_come_with_the_prepare_record_and_the_complete_record_after_the_last_of_them(desk: "Desk") -> None:
    producer_id, epoch = desk.in_state(S.ONGOING)
    assert desk.end((producer_id, epoch), True) == (E.NONE, producer_id, epoch + 1)
    assert len(desk.effects.records) == 1
    (markers,) = desk.effects.markers
    assert (markers.producer_id, markers.producer_epoch, markers.coordinator_epoch) == (producer_id, epoch + 1, 9)
    assert (markers.committed, markers.transaction_version, markers.partitions) == (True, 2, (P0, P1))
    desk.write_markers(P1)
    assert not desk.effects.records
    assert desk.transaction.state is S.PREPARE_COMMIT
    desk.fire("markers")  # what is missing is asked for again
    assert desk.effects.markers == [markers._replace(partitions=(P0,))]
    desk.write_markers(P0)
    assert desk.transaction.state is S.COMPLETE_COMMIT
    assert not desk.transaction.partitions
    desk.write_markers(P0)  # once more: nothing
    assert not desk.effects.records
    desk.fire("markers")
    assert not desk.effects.markers


def test_markers_of_an_old_client_keep_its_epoch(desk: "Desk") -> None:
    producer_id, epoch = desk.in_state(S.ONGOING, version=4)
    desk.end((producer_id, epoch), False, version=4)
    (markers,) = desk.effects.markers
    assert (markers.producer_epoch, markers.committed, markers.transaction_version) == (epoch, False, 0)


def test_a_report_about_another_attempt_changes_nothing(desk: "Desk") -> None:
    desk.in_state(S.PREPARE_COMMIT)
    desk.shard.markers_written("payments", desk.transaction.attempt + 1, [P0, P1], desk.now_ms)
    desk.shard.markers_written("unknown", desk.transaction.attempt, [P0, P1], desk.now_ms)
    assert desk.transaction.state is S.PREPARE_COMMIT


def test_an_abort_without_partitions_is_complete_at_once(desk: "Desk") -> None:
    producer_id, epoch = desk.in_state(S.EMPTY)
    assert desk.end((producer_id, epoch), False) == (E.NONE, producer_id, epoch + 1)
    states = [read_transaction_record(record) for record in desk.effects.records]
    assert [found.value.transaction_status for found in states if found and found.value] == [
        S.PREPARE_ABORT,
        S.COMPLETE_ABORT,
    ]
    assert not desk.effects.markers
    assert desk.end((producer_id, epoch), False) == (E.NONE, producer_id, epoch + 1)  # the retry
    assert desk.end((producer_id, epoch), True)[0] is E.INVALID_TXN_STATE


@pytest.mark.parametrize("committed", [True, False])
def test_a_delayed_end_never_touches_a_later_transaction(desk: "Desk", committed: bool) -> None:
    producer = desk.in_state(S.ONGOING)
    _, *bumped = desk.end(producer, True)
    desk.write_markers()
    later = (bumped[0], bumped[1])
    desk.add(later, P0)
    assert desk.end(producer, committed)[0] is E.PRODUCER_FENCED
    assert desk.transaction.state is S.ONGOING
    desk.end(later, True)
    assert desk.end(producer, committed)[0] is E.PRODUCER_FENCED
    desk.write_markers()
    assert desk.end(producer, committed)[0] is E.PRODUCER_FENCED


def test_the_last_epoch_ends_in_a_new_producer_id(desk: "Desk") -> None:
    old, _ = desk.in_state(S.ONGOING)
    desk.set_epoch(32766)
    code, new, epoch = desk.end((old, 32766), True)
    assert (code, epoch) == (E.NONE, 0)
    assert new != old
    (markers,) = desk.effects.markers
    assert (markers.producer_id, markers.producer_epoch) == (old, 32767)
    assert desk.end((old, 32766), True)[0] is E.CONCURRENT_TRANSACTIONS
    assert desk.add((new, 0)) == [E.INVALID_PRODUCER_ID_MAPPING]  # not before the markers are written
    desk.write_markers()
    assert desk.end((old, 32766), True) == (E.NONE, new, 0)  # the answer was lost: here it is again
    assert desk.end((old, 32766), False)[0] is E.INVALID_TXN_STATE
    assert desk.add((new, 0)) == [E.NONE]
    assert desk.end((old, 32766), True)[0] is E.INVALID_PRODUCER_ID_MAPPING


def test_no_client_gets_the_epoch_that_is_there_to_fence_it(desk: "Desk") -> None:
    producer_id, _ = desk.in_state(S.EMPTY)
    desk.set_epoch(32767)
    assert desk.add((producer_id, 32767)) == [E.PRODUCER_FENCED]
    assert desk.end((producer_id, 32767), False)[0] is E.PRODUCER_FENCED
    assert desk.end((producer_id, 32767), False, version=4)[0] is E.PRODUCER_FENCED


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("state", STATES)
def test_the_epoch_before_is_a_zombies_where_the_last_end_has_bumped_nothing(
    desk: "Desk", state: TransactionState, committed: bool
) -> None:
    """Its EndTxn was taken for a retry of the last end, which an older client had asked for, and it was given the epoch of
    the producer that had replaced it."""
    desk.in_state(state, version=4)
    transaction = desk.transaction
    producer = (transaction.producer_id, transaction.producer_epoch)
    code, _, _ = desk.end((producer[0], producer[1] - 1), committed)
    assert code is E.PRODUCER_FENCED
    assert (transaction.producer_id, transaction.producer_epoch) == producer
