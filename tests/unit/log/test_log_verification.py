"""Whose batch may begin a transaction: only one that its coordinator was asked about,
and on either way into the log.
"""

from typing import TYPE_CHECKING, Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker

if TYPE_CHECKING:
    from conftest import World

PRODUCER = 7
HAS_BEGUN = -1


@pytest.fixture(name="log", params=[True, False], ids=["known", "new"])
def log_with_a_producer(world: "World", request: pytest.FixtureRequest) -> Any:
    """A producer that has written before is looked at on the hot path, a new one on the careful one."""
    log = world.create()
    log.requires_verification = True
    if request.param:
        guard = log.producers.begin_verification(PRODUCER, 0, 0, False)
        send(world, log, 0, guard)
        end(world, log)
    return log


def send(world: "World", log: Any, sequence: int, guard: int, *, transactional: bool = True) -> Any:
    batch = world.batch(1, producer_id=PRODUCER, producer_epoch=0, base_sequence=sequence, transactional=transactional)
    return log.append_as_leader(batch, 0, world.clock.now_ms(), guard=guard)


def end(world: "World", log: Any) -> None:
    marker = EndTransactionMarker(True, 0)
    now_ms = world.clock.now_ms()
    batch = build_end_transaction_marker(marker, producer_id=PRODUCER, producer_epoch=0, timestamp=now_ms)
    log.append_own(memoryview(batch), 0, now_ms, marker)


def refused(world: "World", log: Any, sequence: int, guard: int, **fields: Any) -> ErrorCode:
    before = log.log_end_offset
    with pytest.raises(KafkaError) as caught:
        send(world, log, sequence, guard, **fields)
    assert log.log_end_offset == before
    assert not log.producers.ongoing
    return caught.value.code


def following(log: Any) -> int:
    """The sequence that comes next."""
    known = log.producers.producers.get(PRODUCER)
    return 0 if known is None else int(known.next_sequence)


def test_what_was_verified_begins_a_transaction_and_the_rest_follows(world: "World", log: Any) -> None:
    first = following(log)
    guard = log.producers.begin_verification(PRODUCER, 0, first, False)
    began = send(world, log, first, guard)
    assert log.producers.ongoing == {began.base_offset: PRODUCER}
    assert not log.producers.verifying
    send(world, log, first + 1, HAS_BEGUN)
    assert log.producers.ongoing == {began.base_offset: PRODUCER}
    assert log.last_stable_offset(log.log_end_offset) == began.base_offset
    end(world, log)
    assert log.last_stable_offset(log.log_end_offset) == log.log_end_offset
    assert refused(world, log, first + 2, guard) == ErrorCode.INVALID_TXN_STATE


def test_without_a_verification_none_begins(world: "World", log: Any) -> None:
    assert refused(world, log, following(log), 1) == ErrorCode.INVALID_TXN_STATE
    assert refused(world, log, following(log), HAS_BEGUN) == ErrorCode.INVALID_TXN_STATE
    assert refused(world, log, following(log), 0) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_a_guard_of_another_time_is_void(world: "World", log: Any) -> None:
    first = following(log)
    old = log.producers.begin_verification(PRODUCER, 0, first, False)
    end(world, log)
    new = log.producers.begin_verification(PRODUCER, 0, first, False)
    assert old != new
    assert refused(world, log, first, old) == ErrorCode.INVALID_TXN_STATE
    send(world, log, first, new)


def test_a_later_batch_than_the_one_that_was_asked_about_does_not_begin_it(world: "World", log: Any) -> None:
    first = following(log)
    guard = log.producers.begin_verification(PRODUCER, 0, first - 1, False)
    assert refused(world, log, first, guard) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_nothing_is_written_beside_an_open_transaction(world: "World", log: Any) -> None:
    first = following(log)
    guard = log.producers.begin_verification(PRODUCER, 0, first, False)
    send(world, log, first, guard)
    for used, transactional in ((0, True), (0, False), (guard, False)):
        with pytest.raises(KafkaError) as caught:
            send(world, log, first + 1, used, transactional=transactional)
        assert caught.value.code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
