"""What a transaction writes, compiled, against the way in Python: the same bytes in the log, the same memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.base.ids import TopicPartition
from headwater.broker.coordinators.batches import build_decision
from headwater.coordinator.transactions.states import TransactionState
from headwater.coordinator.transactions.transaction import Transaction
from headwater.server import hot_path
from unit.server.test_hot_path import NOW_MS, Side, batch

pytestmark = pytest.mark.skipif(not hot_path.COMPILED, reason="the hot path is not compiled")

if hot_path.COMPILED:
    from headwater.server import _produce as compiled

    hot_path.transaction_frames()  # tells it the class of transactions

PRODUCER = 7


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[tuple[Side, Side]]:
    made = []
    for name in ("compiled", "python"):
        (tmp_path / name).mkdir()
        made.append(Side(tmp_path / name, compiled=name == "compiled"))
    for side in made:
        side.log.append_own(memoryview(batch(1, 1)), 0, NOW_MS)  # opens the segment
    yield made[0], made[1]
    for side in made:
        side.manager.abandon()


def state(side: Side) -> tuple[Any, ...]:
    producers = side.log.producers
    transactions = (dict(producers.ongoing), dict(producers.ended), dict(producers.verifying))
    return side.state(), transactions, side.partition.last_stable_offset


# The state of a transaction


def transaction(transactional_id: str = "tx-é", **fields: Any) -> Transaction:
    made = Transaction(transactional_id, 1 << 40, 60_000, NOW_MS)
    made.initialize(1 << 40, 5, -1, 60_000, NOW_MS)
    made.add_partitions({TopicPartition("t", 3), TopicPartition("u" * 200, 1)}, 0, NOW_MS + 1)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def append(sides: tuple[Side, Side], written: Transaction) -> bool:
    """Whether the compiled way took it; if so, both sides must be the same in the end."""
    before = state(sides[0])
    offset = compiled.append_transaction(sides[0].partition, written, NOW_MS)
    if offset < 0:
        assert state(sides[0]) == before
        return False
    data = build_decision([written.record(2)], NOW_MS, None)
    assert sides[1].partition.append_internal(memoryview(data), NOW_MS).last_offset == offset
    assert state(sides[0]) == state(sides[1])
    return True


def test_every_state_but_the_first(sides: tuple[Side, Side]) -> None:
    written = transaction()
    assert append(sides, written)
    written.prepare(True, 0, -1, NOW_MS + 2)
    assert append(sides, written)
    written.complete(NOW_MS + 3)
    assert append(sides, written)
    written.initialize(1 << 40, 6, 5, 1000, NOW_MS + 4)
    assert written.state is TransactionState.EMPTY
    assert not append(sides, written), "it has no list of partitions"


@pytest.mark.parametrize(
    "fields",
    [
        {"previous_producer_id": -1},
        {"next_producer_id": (1 << 63) - 1},
        {"previous_producer_id": -1, "next_producer_id": 9, "client_transaction_version": 2},
        {"client_transaction_version": 2, "producer_epoch": (1 << 15) - 1},
        {"timeout_ms": (1 << 31) - 1, "start_ms": -1},
    ],
    ids=str,
)
def test_every_field(sides: tuple[Side, Side], fields: dict[str, Any]) -> None:
    assert append(sides, transaction(**fields))


@pytest.mark.parametrize("length", [0, 1, 62, 63, 64, 1500, 1800, 2500, 30_000])
def test_ids_and_partitions_of_any_length(sides: tuple[Side, Side], length: int) -> None:
    assert append(sides, transaction("x" * length)) == (length <= 1800)
    many = transaction()
    many.add_partitions({TopicPartition("topic", index) for index in range(length)}, 0, NOW_MS)
    assert append(sides, many) == (length < 400)


@pytest.mark.parametrize(
    "fields",
    [
        {"producer_id": 1 << 63},
        {"producer_epoch": 1 << 15},
        {"timeout_ms": 1 << 31},
        {"client_transaction_version": 1 << 15},
        {"key": "text"},
        {"packed_partitions": None},
        {"state": "text"},
        {"state": 1 << 40},
        {"start_ms": None},
    ],
    ids=str,
)
def test_what_is_odd_is_left_to_python(sides: tuple[Side, Side], fields: dict[str, Any]) -> None:
    assert not append(sides, transaction(**fields))


def test_a_slot_without_a_value_and_objects_of_other_classes(sides: tuple[Side, Side]) -> None:
    written = transaction()
    del written.state
    assert not append(sides, written)
    for other in (object(), None, 7):
        assert compiled.append_transaction(sides[0].partition, other, NOW_MS) == -1  # type: ignore[arg-type]
    assert compiled.append_transaction(object(), transaction(), NOW_MS) == -1  # type: ignore[arg-type]


def test_a_partition_with_other_replicas_is_left_to_python(sides: tuple[Side, Side]) -> None:
    begin(sides)
    sides[0].partition.confirm(sides[0].log.log_end_offset)
    assert not append(sides, transaction())
    assert compiled.commit_transaction(sides[0].partition, PRODUCER, 5, 3, 0, NOW_MS) == -1


# The marker that commits it


def begin(sides: tuple[Side, Side], epoch: int = 5, *, producer_id: int = PRODUCER) -> None:
    for side in sides:
        data = batch(2, producer_id=producer_id, producer_epoch=epoch, transactional=True)
        side.partition.append_internal(memoryview(data), NOW_MS)


def commit(sides: tuple[Side, Side], epoch: int = 5, coordinator: int = 3, version: int = 0) -> bool:
    """Whether the compiled way took it; if so, both sides must be the same in the end."""
    before = state(sides[0])
    offset = compiled.commit_transaction(sides[0].partition, PRODUCER, epoch, coordinator, version, NOW_MS + 9)
    if offset < 0:
        assert state(sides[0]) == before
        return False
    result = sides[1].partition.append_marker(
        PRODUCER, epoch, coordinator, True, NOW_MS + 9, transaction_version=version
    )
    assert result.last_offset == offset
    assert state(sides[0]) == state(sides[1])
    return True


def test_a_commit_is_noted_as_python_notes_it(sides: tuple[Side, Side]) -> None:
    for epoch in (5, 5, 6):
        begin(sides, epoch)
        for side in sides:
            side.log.producers.begin_verification(PRODUCER, epoch, 0, False)
        assert commit(sides, epoch)
    begin(sides, 6)
    assert commit(sides, 7, version=2), "each transaction has an epoch of its own"
    assert sides[0].log.producers.producers[PRODUCER].next_sequence == 0


def test_the_transactions_of_others_stay_open(sides: tuple[Side, Side]) -> None:
    begin(sides, producer_id=8)
    begin(sides)
    begin(sides, producer_id=9)
    assert commit(sides)
    assert list(sides[0].log.producers.ongoing.values()) == [8, 9]


def test_commits_that_need_a_closer_look(sides: tuple[Side, Side]) -> None:
    assert not commit(sides), "nobody knows the producer"
    begin(sides)
    for epoch, coordinator, version in ((4, 3, 0), (6, 3, 0), (5, 3, 2), (4, 3, 2), (1 << 15, 3, 2), (5, 1 << 31, 0)):
        assert not commit(sides, epoch, coordinator, version)
    assert commit(sides)
    assert not commit(sides), "nothing is open"
    begin(sides)
    assert not commit(sides, coordinator=2), "a later coordinator has written"
    sides[0].log.producers.ended[0] = 1 << 40
    assert not commit(sides), "an end that is not committed yet"


def test_calls_that_are_wrong_are_told_so(sides: tuple[Side, Side]) -> None:
    partition: Any = sides[0].partition
    wrong: list[tuple[Any, ...]] = [(), (partition, transaction()), (partition, transaction(), "now")]
    for given in wrong:
        with pytest.raises(TypeError):
            compiled.append_transaction(*given)
    wrong = [(), (partition, "7", 0, 0, 0, NOW_MS), (partition, 7, 0, 0, None, NOW_MS)]
    for given in wrong:
        with pytest.raises(TypeError):
            compiled.commit_transaction(*given)
    for odd in (7, Side):
        with pytest.raises((TypeError, AttributeError)):
            compiled.configure_transactions(odd)  # type: ignore[arg-type]
