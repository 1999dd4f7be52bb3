"""The end of a transaction in three steps against the general way: the same records, the same states, the same
refusals.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.coordinator.transactions import plain_ends
from headwater.coordinator.transactions.states import AT_REST, PREPARED, TransactionState
from headwater.coordinator.transactions.transaction import EPOCH_MAX_OF_CLIENTS, NONE, Transaction

if TYPE_CHECKING:
    from conftest import Harness

ID = "payments"
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
OPEN = TransactionState.ONGOING


def bump(version: int) -> int:
    return 2 if version > 4 else 0


def admit(
    harness: "Harness", producer: tuple[int, int], *, committed: bool = True, version: int = 5
) -> Transaction | None:
    return plain_ends.admit(harness.shard, ID, *producer, committed, bump(version))


def fields(transaction: Transaction) -> dict[str, Any]:
    return {name: getattr(transaction, name) for name in Transaction.__slots__ if name != "attempt"}


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("version", [1, 4, 5])
def test_both_ways_write_the_same(make_harness: "Callable[..., Harness]", version: int, committed: bool) -> None:
    quick, general = make_harness(), make_harness()
    for harness in (quick, general):
        producer = harness.in_state(OPEN, version)
        harness.now_ms += 5
    admitted = admit(quick, producer, committed=committed, version=version)
    assert admitted is quick.transaction
    admitted.prepare(committed, bump(version), NONE, quick.now_ms)
    prepared = admitted.record(quick.settings.transaction_version)
    code, *after = general.end(producer, committed, version)
    assert code is ErrorCode.NONE
    assert admitted.after_markers() == tuple(after)
    assert [prepared] == general.effects.records
    asked = general.effects.markers[0]
    assert (admitted.producer_id, admitted.producer_epoch) == (asked.producer_id, asked.producer_epoch)
    assert admitted.client_transaction_version == asked.transaction_version
    admitted.complete(quick.now_ms)
    general.write_markers()
    assert [admitted.record(quick.settings.transaction_version)] == general.effects.records
    assert fields(quick.transaction) == fields(general.transaction)
    assert quick.transaction.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


def test_markers_that_are_missing_are_asked_for(harness: "Harness") -> None:
    producer = harness.in_state(OPEN)
    transaction = admit(harness, producer)
    assert transaction is not None
    transaction.prepare(True, 2, NONE, harness.now_ms)
    effects = plain_ends.ask_for(harness.shard, transaction, {P1})
    assert [asked.partitions for asked in effects.markers] == [(P1,)]
    assert effects.timers == {("markers", ID): harness.settings.marker_retry_ms}
    assert not effects.records
    assert transaction.state is TransactionState.PREPARE_COMMIT
    harness.fire("markers")
    assert [asked.partitions for asked in harness.effects.markers] == [(P1,)]
    harness.write_markers(P1)
    assert transaction.state is TransactionState.COMPLETE_COMMIT


def test_a_later_coordinator_takes_up_what_was_prepared(harness: "Harness") -> None:
    transaction = admit(harness, harness.in_state(OPEN))
    assert transaction is not None
    transaction.prepare(True, 2, NONE, harness.now_ms)
    harness.log.append(transaction.record(harness.settings.transaction_version))
    harness.reload()
    assert [asked.partitions for asked in harness.effects.markers] == [(P0, P1)]


@pytest.mark.parametrize("version", [1, 5])
@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("state", sorted(AT_REST | PREPARED), ids=lambda state: state.label)
def test_only_what_is_open_is_admitted(
    harness: "Harness", state: TransactionState, committed: bool, version: int
) -> None:
    producer = harness.in_state(state, version)
    before = fields(harness.transaction)
    assert admit(harness, producer, committed=committed, version=version) is None
    assert fields(harness.transaction) == before


@pytest.mark.parametrize("version", [1, 5])
def test_others_are_not_admitted(harness: "Harness", version: int) -> None:
    producer_id, epoch = harness.in_state(OPEN, version)
    before = fields(harness.transaction)
    for other in ((producer_id + 1, epoch), (producer_id, epoch + 1), (producer_id, epoch - 1), (-1, -1)):
        assert admit(harness, other, version=version) is None
    assert plain_ends.admit(harness.shard, "another", producer_id, epoch, True, bump(version)) is None
    harness.set_epoch(EPOCH_MAX_OF_CLIENTS)
    assert admit(harness, (producer_id, EPOCH_MAX_OF_CLIENTS), version=version) is None, "it needs a producer id"
    harness.set_epoch(epoch)
    assert fields(harness.transaction) == before
    assert admit(harness, (producer_id, epoch), version=version) is not None
