"""Partitions of a transaction, timeouts, expiry, what a new coordinator takes up, and lists."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import TopicPartition
from headwater.coordinator.effects import CoordinatorRecord, Producer, Ticket
from headwater.coordinator.transactions.listing import unknown_state_filters
from headwater.coordinator.transactions.shard import TransactionShard
from headwater.coordinator.transactions.states import TransactionState
from headwater.wire.messages.list_transactions import ListTransactionsRequest

if TYPE_CHECKING:
    from conftest import Harness

S = TransactionState
E = ErrorCode
AT_REST = [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT]
PREPARED = [S.PREPARE_COMMIT, S.PREPARE_ABORT]
P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
OFFSETS = TopicPartition("__consumer_offsets", 3)


# Adding and verifying


@pytest.mark.parametrize("state", AT_REST)
def test_the_first_partition_begins_the_transaction_and_its_time(harness: "Harness", state: TransactionState) -> None:
    producer = harness.in_state(state)
    harness.now_ms += 50
    assert harness.add(producer, P0) == [E.NONE]
    assert harness.transaction.state is S.ONGOING
    assert harness.transaction.start_ms == harness.now_ms
    assert harness.effects.timers == {("timeout", "payments"): 60_001}
    harness.now_ms += 50
    assert harness.add(producer, P0, P1) == [E.NONE, E.NONE]
    assert harness.transaction.start_ms == harness.now_ms - 50
    assert not harness.effects.timers
    assert harness.transaction.partitions == {P0, P1}
    assert harness.add(producer, P1) == [E.NONE]
    assert not harness.effects.records  # known already


@pytest.mark.parametrize("state", PREPARED)
@pytest.mark.parametrize("verify_only", [True, False])
def test_nothing_is_added_while_a_transaction_ends(
    harness: "Harness", state: TransactionState, verify_only: bool
) -> None:
    producer = harness.in_state(state)
    assert harness.add(producer, P0, verify_only=verify_only) == [E.CONCURRENT_TRANSACTIONS]
    if not verify_only:
        assert harness.add_offsets(producer) is E.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(
    ("version", "fenced"), [(0, E.INVALID_PRODUCER_EPOCH), (1, E.INVALID_PRODUCER_EPOCH), (2, E.PRODUCER_FENCED)]
)
def test_who_is_not_the_producer_adds_nothing(harness: "Harness", version: int, fenced: ErrorCode) -> None:
    assert harness.add((1, 0), version=version) == [E.INVALID_PRODUCER_ID_MAPPING]
    producer_id, epoch = harness.in_state(S.ONGOING)
    assert harness.add((producer_id + 1, epoch), version=version) == [E.INVALID_PRODUCER_ID_MAPPING]
    for other in (epoch - 1, epoch + 1):
        assert harness.add((producer_id, other), P0, version=version) == [fenced]
        assert harness.add_offsets((producer_id, other), version=version) is fenced
    assert harness.add((producer_id, epoch), transactional_id="") == [E.INVALID_REQUEST]
    assert harness.add((producer_id, epoch), transactional_id="", verify_only=True) == [E.INVALID_REQUEST]
    assert harness.add_offsets((producer_id, epoch), transactional_id="") is E.INVALID_REQUEST
    assert not harness.effects.records


def test_verification_tells_partition_by_partition(harness: "Harness") -> None:
    producer = harness.in_state(S.EMPTY)
    assert harness.add(producer, P0, verify_only=True) == [E.TRANSACTION_ABORTABLE]
    harness.add(producer, P0)
    assert harness.add(producer, P0, P1, verify_only=True) == [E.NONE, E.TRANSACTION_ABORTABLE]
    assert not harness.effects.records
    assert harness.add((producer[0], producer[1] + 1), P0, verify_only=True) == [E.PRODUCER_FENCED]
    assert harness.add((producer[0] + 1, producer[1]), P0, verify_only=True) == [E.INVALID_PRODUCER_ID_MAPPING]


def test_the_offsets_of_a_group_belong_to_the_transaction(harness: "Harness") -> None:
    producer = harness.in_state(S.EMPTY)
    assert harness.add_offsets(producer) is E.NONE
    assert harness.transaction.partitions == {OFFSETS}
    harness.end(producer, True)
    assert harness.effects.markers[0].partitions == (OFFSETS,)


# Timeouts


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(harness: "Harness") -> None:
    producer_id, epoch = harness.in_state(S.ONGOING)
    harness.now_ms += 60_001
    harness.fire("timeout")
    assert harness.transaction.state is S.PREPARE_ABORT
    assert harness.effects.markers[0].producer_epoch == epoch + 1
    assert harness.add((producer_id, epoch)) == [E.PRODUCER_FENCED]
    assert harness.end((producer_id, epoch), True)[0] is E.CONCURRENT_TRANSACTIONS
    harness.write_markers()
    assert harness.end((producer_id, epoch), True)[0] is E.INVALID_TXN_STATE
    assert harness.end((producer_id, epoch), False) == (E.NONE, producer_id, epoch + 1)  # it may go on from here


def test_a_clock_set_back_by_two_hours_held_up_the_last_stable_offset_for_two_hours(harness: "Harness") -> None:
    harness.in_state(S.ONGOING)
    harness.now_ms -= 7_200_000
    harness.reload()
    assert harness.effects.timers["timeout", "payments"] == 60_001
    harness.now_ms += 60_001
    harness.fire("timeout")
    assert harness.transaction.state is S.PREPARE_ABORT


@pytest.mark.parametrize("state", [*AT_REST, *PREPARED])
def test_a_late_timer_does_nothing(harness: "Harness", state: TransactionState) -> None:
    harness.in_state(state)
    harness.now_ms += 10**6
    harness.fire("timeout")
    harness.fire("timeout", "unknown")
    assert harness.transaction.state is state
    assert not harness.effects.records


def test_a_timeout_in_the_last_epoch_waits_for_a_producer_id(harness: "Harness") -> None:
    old, _ = harness.in_state(S.ONGOING)
    harness.set_epoch(32766)
    harness.now_ms += 60_001
    harness.fire("timeout")
    assert harness.effects.wants_producer_id
    assert harness.effects.timers["timeout", "payments"]
    assert harness.transaction.state is S.ONGOING
    harness.shard.give_producer_id(6000)
    harness.fire("timeout")
    assert harness.transaction.state is S.PREPARE_ABORT
    harness.write_markers()
    assert (harness.transaction.producer_id, harness.transaction.producer_epoch) == (6000, 0)
    assert harness.end((old, 32766), False) == (E.NONE, 6000, 0)


# Expiry


def test_ids_that_nobody_uses_expire(harness: "Harness") -> None:
    harness.in_state(S.COMPLETE_COMMIT)
    harness.now_ms += harness.settings.expiration_ms - 1
    harness.fire("expiry", "")
    assert harness.shard.transactions
    assert harness.effects.timers == {("expiry", ""): harness.settings.expiry_interval_ms}
    harness.now_ms += 1
    harness.fire("expiry", "")
    assert not harness.shard.transactions
    assert [record.value for record in harness.effects.records] == [None]
    harness.reload()
    assert not harness.shard.transactions


@pytest.mark.parametrize("state", [S.ONGOING, *PREPARED])
def test_what_is_under_way_never_expires(harness: "Harness", state: TransactionState) -> None:
    harness.in_state(state)
    harness.now_ms += 10 * harness.settings.expiration_ms
    harness.fire("expiry", "")
    assert harness.transaction.state is state


def test_many_expire_in_several_batches(harness: "Harness") -> None:
    for at in range(1001):
        harness.init(transactional_id=f"id-{at}")
    harness.now_ms += harness.settings.expiration_ms
    harness.fire("expiry", "")
    assert len(harness.effects.records) == 1000
    assert harness.effects.timers == {("expiry", ""): 0}
    harness.fire("expiry", "")
    assert not harness.shard.transactions


# Another coordinator


@pytest.mark.parametrize("committed", [True, False])
def test_a_coordinator_that_died_in_prepare_is_followed_by_one_that_writes_the_markers(
    harness: "Harness", committed: bool
) -> None:
    producer_id, epoch = harness.in_state(S.PREPARE_COMMIT if committed else S.PREPARE_ABORT)
    harness.reload()
    (markers,) = harness.effects.markers
    assert (markers.committed, markers.partitions, markers.coordinator_epoch) == (committed, (P0, P1), 10)
    assert (markers.producer_id, markers.producer_epoch) == (producer_id, epoch)
    harness.write_markers()
    assert harness.transaction.state is (S.COMPLETE_COMMIT if committed else S.COMPLETE_ABORT)


def test_an_open_transaction_keeps_its_time(harness: "Harness") -> None:
    harness.in_state(S.ONGOING)
    harness.now_ms += 20_000
    harness.reload()
    assert harness.effects.timers["timeout", "payments"] == 40_001
    harness.now_ms += 10**6
    harness.reload()
    assert harness.effects.timers["timeout", "payments"] == 0


def test_a_prepared_transaction_without_partitions_is_completed_on_loading(harness: "Harness") -> None:
    producer = harness.in_state(S.EMPTY)
    harness.end(producer, False)
    harness.log.pop()  # another broker wrote both records one by one, and died in between
    harness.reload()
    assert harness.transaction.state is S.COMPLETE_ABORT
    assert len(harness.effects.records) == 1


@pytest.mark.parametrize("version", [0, 1, 2])
def test_value_versions_follow_the_feature(make_harness: "Callable[..., Harness]", version: int) -> None:
    harness = make_harness(transaction_version=version)
    harness.init()
    value: Any = harness.effects.records[0].value
    assert value[:2] == (b"\0\0" if version == 0 else b"\0\1")


def test_unknown_records_are_passed_over(harness: "Harness") -> None:
    harness.shard.replay(CoordinatorRecord(b"\0\7anything", b"\0\0"), None)
    assert not harness.shard.transactions
    with pytest.raises(AssertionError):
        harness.shard.replay_marker(Producer(1, 1), True)


# Looking


def describe(harness: "Harness", transactional_id: str) -> Any:
    return harness.shard.describe(transactional_id, Ticket(None)).replies[0][1]


def test_describes_a_transaction(harness: "Harness") -> None:
    producer_id, epoch = harness.in_state(S.ONGOING)
    harness.add_offsets((producer_id, epoch))
    found = describe(harness, "payments")
    assert (found.error_code, found.transaction_state, found.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (found.producer_id, found.producer_epoch) == (producer_id, epoch)
    assert found.transaction_start_time_ms == harness.now_ms
    assert [(topic.topic, topic.partitions) for topic in found.topics] == [("__consumer_offsets", [3]), ("t", [0, 1])]
    assert describe(harness, "nobody").error_code == E.TRANSACTIONAL_ID_NOT_FOUND
    assert describe(harness, "").error_code == E.INVALID_REQUEST


def listed(shard: TransactionShard, now_ms: int, pattern: str | None = None, **filters: Any) -> list[str]:
    matches = None if pattern is None else re.compile(pattern).fullmatch
    found = shard.list(ListTransactionsRequest(**filters), now_ms, matches)
    return [entry.transactional_id for entry in found]


def test_lists_by_state_producer_duration_and_pattern(harness: "Harness") -> None:
    producer_id, _ = harness.in_state(S.ONGOING)
    harness.now_ms += 100
    harness.init(transactional_id="other")
    shard, now_ms = harness.shard, harness.now_ms
    assert listed(shard, now_ms) == ["payments", "other"]
    assert listed(shard, now_ms, state_filters=["Ongoing"]) == ["payments"]
    assert listed(shard, now_ms, state_filters=["Ongoing", "Empty"]) == ["payments", "other"]
    assert listed(shard, now_ms, state_filters=["Nonsense"]) == []
    assert listed(shard, now_ms, producer_id_filters=[producer_id]) == ["payments"]
    assert listed(shard, now_ms, state_filters=["Ongoing"], duration_filter=99) == ["payments"]
    assert listed(shard, now_ms, state_filters=["Ongoing"], duration_filter=100) == []
    assert listed(shard, now_ms, "pay.*") == ["payments"]
    assert listed(shard, now_ms, "pay") == []
    request = ListTransactionsRequest(state_filters=["Ongoing", "Nonsense", "CompleteAbort"])
    assert unknown_state_filters(request) == ["Nonsense"]
