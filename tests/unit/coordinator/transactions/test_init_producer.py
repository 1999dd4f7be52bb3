"""InitProducerId with a transactional id: new ids, bumped epochs, fencing, retries."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.coordinator.transactions.states import TransactionState

if TYPE_CHECKING:
    from conftest import Desk

S = TransactionState
E = ErrorCode
AT_REST = [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT]
P0 = TopicPartition("t", 0)


def test_a_new_id_begins_with_epoch_0(desk: "Desk") -> None:
    assert desk.init() == (E.NONE, 5001, 0)
    assert len(desk.effects.records) == 1
    assert desk.transaction.timeout_ms == 60_000


def test_an_id_that_was_forgotten_is_made_anew_for_who_goes_on(desk: "Desk") -> None:
    assert desk.init((77, 3)) == (E.NONE, 5001, 0)


@pytest.mark.parametrize("state", AT_REST)
def test_a_producer_that_begins_gets_the_next_epoch(desk: "Desk", state: TransactionState) -> None:
    producer_id, epoch = desk.in_state(state)
    assert desk.init(timeout_ms=5) == (E.NONE, producer_id, epoch + 1)
    assert desk.transaction.state is S.EMPTY
    assert desk.transaction.timeout_ms == 5
    assert desk.add((producer_id, epoch)) == [E.PRODUCER_FENCED]


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_while_a_transaction_ends_everybody_waits(desk: "Desk", state: TransactionState) -> None:
    producer = desk.in_state(state)
    for expected in ((-1, -1), producer):
        assert desk.init(expected) == (E.CONCURRENT_TRANSACTIONS, -1, -1)
        assert not desk.effects.records


@pytest.mark.parametrize("version", [3, 4, 5])
def test_an_open_transaction_is_aborted_first(desk: "Desk", version: int) -> None:
    producer_id, epoch = desk.in_state(S.ONGOING)
    assert desk.init(version=version) == (E.CONCURRENT_TRANSACTIONS, -1, -1)
    (markers,) = desk.effects.markers
    assert (markers.committed, markers.producer_epoch) == (False, epoch + 1)
    assert desk.effects.timers["timeout", "payments"] is None
    assert desk.add((producer_id, epoch)) == [E.PRODUCER_FENCED]  # the zombie
    assert desk.end((producer_id, epoch), True)[0] is E.CONCURRENT_TRANSACTIONS
    assert desk.init() == (E.CONCURRENT_TRANSACTIONS, -1, -1)
    desk.write_markers()
    assert desk.init() == (E.NONE, producer_id, epoch + 2)
    assert desk.end((producer_id, epoch), True)[0] is E.PRODUCER_FENCED
    assert desk.end((producer_id, epoch + 1), False)[0] is E.PRODUCER_FENCED


def test_before_version_2_the_fencing_epoch_is_the_markers_too(make_desk: "Callable[..., Desk]") -> None:
    desk = make_desk(transaction_version=1)
    producer_id, epoch = desk.in_state(S.ONGOING, version=4)
    desk.init()
    assert desk.effects.markers[0].producer_epoch == epoch + 1
    assert desk.effects.markers[0].transaction_version == 0
    desk.write_markers()
    assert desk.end((producer_id, epoch), False, version=4)[0] is E.PRODUCER_FENCED
    assert desk.init() == (E.NONE, producer_id, epoch + 2)


@pytest.mark.parametrize("state", AT_REST)
def test_who_goes_on_after_an_error_gets_the_next_epoch_and_its_retry_the_same(
    desk: "Desk", state: TransactionState
) -> None:
    producer_id, epoch = desk.in_state(state)
    assert desk.init((producer_id, epoch)) == (E.NONE, producer_id, epoch + 1)
    assert desk.init((producer_id, epoch)) == (E.NONE, producer_id, epoch + 1)
    assert desk.init((producer_id, epoch + 1)) == (E.NONE, producer_id, epoch + 2)
    assert desk.init((producer_id, epoch))[0] is E.PRODUCER_FENCED


@pytest.mark.parametrize("state", [*AT_REST, S.ONGOING])
@pytest.mark.parametrize(("version", "fenced"), [(3, E.INVALID_PRODUCER_EPOCH), (4, E.PRODUCER_FENCED)])
def test_who_was_replaced_cannot_go_on(desk: "Desk", state: TransactionState, version: int, fenced: ErrorCode) -> None:
    producer_id, epoch = desk.in_state(state)
    desk.set_epoch(epoch + 7)
    before = desk.transaction.state
    assert desk.init((producer_id, epoch), version=version)[0] is fenced
    assert desk.init((producer_id + 1, epoch + 7), version=version)[0] is fenced
    assert desk.transaction.state is before  # above all, nobody's transaction is aborted for it
    assert not desk.effects.records


def test_a_retry_across_two_owners_is_fenced(desk: "Desk") -> None:
    producer_id, epoch = desk.in_state(S.EMPTY)
    desk.init((producer_id, epoch))
    assert desk.init() == (E.NONE, producer_id, epoch + 2)
    assert desk.init((producer_id, epoch))[0] is E.PRODUCER_FENCED
    assert desk.init((producer_id, epoch + 1))[0] is E.PRODUCER_FENCED


@pytest.mark.parametrize("goes_on", [True, False])
def test_used_up_epochs_lead_to_a_new_producer_id(desk: "Desk", goes_on: bool) -> None:
    old, _ = desk.in_state(S.EMPTY)
    desk.set_epoch(32766)
    expected = (old, 32766) if goes_on else (-1, -1)
    code, new, epoch = desk.init(expected)
    assert (code, epoch) == (E.NONE, 0)
    assert new != old
    if goes_on:  # its answer was lost: it still has the old id
        assert desk.init(expected) == (E.NONE, new, 0)
    assert desk.init((old, 5))[0] is E.PRODUCER_FENCED


def test_the_last_epoch_can_still_be_fenced(desk: "Desk") -> None:
    old, _ = desk.in_state(S.ONGOING)
    desk.set_epoch(32766)
    assert desk.init()[0] is E.CONCURRENT_TRANSACTIONS
    assert desk.effects.markers[0].producer_epoch == 32767
    desk.write_markers()
    code, new, epoch = desk.init()
    assert (code, epoch) == (E.NONE, 1)
    assert new != old


def test_a_producer_id_that_is_missing_makes_the_producer_come_again(desk: "Desk") -> None:
    desk.in_state(S.EMPTY)
    desk.set_epoch(32766)
    desk.shard.needs_producer_id = lambda _: False  # type: ignore[method-assign]
    assert desk.init()[0] is E.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_have_bounds(desk: "Desk", timeout_ms: int) -> None:
    assert desk.init(timeout_ms=timeout_ms)[0] is E.INVALID_TRANSACTION_TIMEOUT
    assert not desk.shard.transactions


def test_requests_that_make_no_sense(desk: "Desk") -> None:
    assert desk.init(transactional_id="")[0] is E.INVALID_REQUEST
    assert desk.init((5, -1))[0] is E.INVALID_REQUEST
    assert desk.init((-1, 5))[0] is E.INVALID_REQUEST
    assert desk.init(enable2_pc=True)[0] is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert desk.init(keep_prepared_txn=True)[0] is E.UNSUPPORTED_VERSION


def test_a_two_phase_commit_has_all_the_time_it_likes(make_desk: "Callable[..., Desk]") -> None:
    desk = make_desk(two_phase_commit=True)
    _, producer_id, epoch = desk.init(timeout_ms=0, enable2_pc=True)
    desk.add((producer_id, epoch))
    assert ("timeout", "payments") not in desk.effects.timers
