"""InitProducerId with a transactional id: new ids, bumped epochs, fencing, retries."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.coordinator.transactions.states import TransactionState

if TYPE_CHECKING:
    from conftest import Harness

S = TransactionState
E = ErrorCode
AT_REST = [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT]
P0 = TopicPartition("t", 0)


def test_a_new_id_begins_with_epoch_0(harness: "Harness") -> None:
    assert harness.init() == (E.NONE, 5001, 0)
    assert len(harness.effects.records) == 1
    assert harness.transaction.timeout_ms == 60_000


def test_an_id_that_was_forgotten_is_made_anew_for_who_goes_on(harness: "Harness") -> None:
    assert harness.init((77, 3)) == (E.NONE, 5001, 0)


@pytest.mark.parametrize("state", AT_REST)
def test_a_producer_that_begins_gets_the_next_epoch(harness: "Harness", state: TransactionState) -> None:
    producer_id, epoch = harness.in_state(state)
    assert harness.init(timeout_ms=5) == (E.NONE, producer_id, epoch + 1)
    assert harness.transaction.state is S.EMPTY
    assert harness.transaction.timeout_ms == 5
    assert harness.add((producer_id, epoch)) == [E.PRODUCER_FENCED]


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_while_a_transaction_ends_everybody_waits(harness: "Harness", state: TransactionState) -> None:
    producer = harness.in_state(state)
    for expected in ((-1, -1), producer):
        assert harness.init(expected) == (E.CONCURRENT_TRANSACTIONS, -1, -1)
        assert not harness.effects.records


@pytest.mark.parametrize("version", [3, 4, 5])
def test_an_open_transaction_is_aborted_first(harness: "Harness", version: int) -> None:
    producer_id, epoch = harness.in_state(S.ONGOING)
    assert harness.init(version=version) == (E.CONCURRENT_TRANSACTIONS, -1, -1)
    (markers,) = harness.effects.markers
    assert (markers.committed, markers.producer_epoch) == (False, epoch + 1)
    assert harness.effects.timers["timeout", "payments"] is None
    assert harness.add((producer_id, epoch)) == [E.PRODUCER_FENCED]  # the zombie
    assert harness.end((producer_id, epoch), True)[0] is E.CONCURRENT_TRANSACTIONS
    assert harness.init() == (E.CONCURRENT_TRANSACTIONS, -1, -1)
    harness.write_markers()
    assert harness.init() == (E.NONE, producer_id, epoch + 2)
    assert harness.end((producer_id, epoch), True)[0] is E.PRODUCER_FENCED
    assert harness.end((producer_id, epoch + 1), False)[0] is E.PRODUCER_FENCED


def test_before_version_2_the_fencing_epoch_is_the_markers_too(make_harness: "Callable[..., Harness]") -> None:
    harness = make_harness(transaction_version=1)
    producer_id, epoch = harness.in_state(S.ONGOING, version=4)
    harness.init()
    assert harness.effects.markers[0].producer_epoch == epoch + 1
    assert harness.effects.markers[0].transaction_version == 0
    harness.write_markers()
    assert harness.end((producer_id, epoch), False, version=4)[0] is E.PRODUCER_FENCED
    assert harness.init() == (E.NONE, producer_id, epoch + 2)


@pytest.mark.parametrize("state", AT_REST)
def test_who_goes_on_after_an_error_gets_the_next_epoch_and_its_retry_the_same(
    harness: "Harness", state: TransactionState
) -> None:
    producer_id, epoch = harness.in_state(state)
    assert harness.init((producer_id, epoch)) == (E.NONE, producer_id, epoch + 1)
    assert harness.init((producer_id, epoch)) == (E.NONE, producer_id, epoch + 1)
    assert harness.init((producer_id, epoch + 1)) == (E.NONE, producer_id, epoch + 2)
    assert harness.init((producer_id, epoch))[0] is E.PRODUCER_FENCED


@pytest.mark.parametrize("state", [*AT_REST, S.ONGOING])
@pytest.mark.parametrize(("version", "fenced"), [(3, E.INVALID_PRODUCER_EPOCH), (4, E.PRODUCER_FENCED)])
def test_who_was_replaced_cannot_go_on(
    harness: "Harness", state: TransactionState, version: int, fenced: ErrorCode
) -> None:
    producer_id, epoch = harness.in_state(state)
    harness.set_epoch(epoch + 7)
    before = harness.transaction.state
    assert harness.init((producer_id, epoch), version=version)[0] is fenced
    assert harness.init((producer_id + 1, epoch + 7), version=version)[0] is fenced
    assert harness.transaction.state is before  # above all, nobody's transaction is aborted for it
    assert not harness.effects.records


def test_a_retry_across_two_owners_is_fenced(harness: "Harness") -> None:
    producer_id, epoch = harness.in_state(S.EMPTY)
    harness.init((producer_id, epoch))
    assert harness.init() == (E.NONE, producer_id, epoch + 2)
    assert harness.init((producer_id, epoch))[0] is E.PRODUCER_FENCED
    assert harness.init((producer_id, epoch + 1))[0] is E.PRODUCER_FENCED


@pytest.mark.parametrize("goes_on", [True, False])
def test_used_up_epochs_lead_to_a_new_producer_id(harness: "Harness", goes_on: bool) -> None:
    old, _ = harness.in_state(S.EMPTY)
    harness.set_epoch(32766)
    expected = (old, 32766) if goes_on else (-1, -1)
    code, new, epoch = harness.init(expected)
    assert (code, epoch) == (E.NONE, 0)
    assert new != old
    if goes_on:  # its answer was lost: it still has the old id
        assert harness.init(expected) == (E.NONE, new, 0)
    assert harness.init((old, 5))[0] is E.PRODUCER_FENCED


def test_the_last_epoch_can_still_be_fenced(harness: "Harness") -> None:
    old, _ = harness.in_state(S.ONGOING)
    harness.set_epoch(32766)
    assert harness.init()[0] is E.CONCURRENT_TRANSACTIONS
    assert harness.effects.markers[0].producer_epoch == 32767
    harness.write_markers()
    code, new, epoch = harness.init()
    assert (code, epoch) == (E.NONE, 1)
    assert new != old


def test_a_producer_id_that_is_missing_makes_the_producer_come_again(harness: "Harness") -> None:
    harness.in_state(S.EMPTY)
    harness.set_epoch(32766)
    harness.shard.needs_producer_id = lambda _: False  # type: ignore[method-assign]
    assert harness.init()[0] is E.COORDINATOR_LOAD_IN_PROGRESS


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_timeouts_have_bounds(harness: "Harness", timeout_ms: int) -> None:
    assert harness.init(timeout_ms=timeout_ms)[0] is E.INVALID_TRANSACTION_TIMEOUT
    assert not harness.shard.transactions


def test_requests_that_make_no_sense(harness: "Harness") -> None:
    assert harness.init(transactional_id="")[0] is E.INVALID_REQUEST
    assert harness.init((5, -1))[0] is E.INVALID_REQUEST
    assert harness.init((-1, 5))[0] is E.INVALID_REQUEST
    assert harness.init(enable2_pc=True)[0] is E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert harness.init(keep_prepared_txn=True)[0] is E.UNSUPPORTED_VERSION


def test_a_two_phase_commit_has_all_the_time_it_likes(make_harness: "Callable[..., Harness]") -> None:
    harness = make_harness(two_phase_commit=True)
    _, producer_id, epoch = harness.init(timeout_ms=0, enable2_pc=True)
    harness.add((producer_id, epoch))
    assert ("timeout", "payments") not in harness.effects.timers
