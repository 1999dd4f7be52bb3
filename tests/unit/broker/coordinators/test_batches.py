"""A coordinator's batches are the bytes that the general builder makes."""

import pytest

from headwater.broker.coordinators.batches import build_decision
from headwater.coordinator.effects import CoordinatorRecord, Producer
from headwater.records.builder import build_batch
from headwater.records.reader import Record

NOW_MS = 1_700_000_000_000
SIZES = [0, 1, 63, 64, 65, 511, 512, 513, 8191, 8192, 100_000]


@pytest.mark.parametrize("producer", [None, Producer(7, 3), Producer(1 << 40, 0)])
@pytest.mark.parametrize("count", [1, 2, 63, 64, 600])
def test_many_records(count: int, producer: Producer | None) -> None:
    records = [CoordinatorRecord(b"key-%d" % at, None if at % 5 == 4 else b"v" * at) for at in range(count)]
    assert_same(records, producer)


@pytest.mark.parametrize("size", SIZES)
def test_sizes(size: int) -> None:
    assert_same([CoordinatorRecord(b"k" * size, b"v")], None)
    assert_same([CoordinatorRecord(b"k", b"v" * size)], None)


def assert_same(records: list[CoordinatorRecord], producer: Producer | None) -> None:
    expected = build_batch(
        [Record(at, NOW_MS, record.key, record.value) for at, record in enumerate(records)],
        producer_id=-1 if producer is None else producer.producer_id,
        producer_epoch=-1 if producer is None else producer.producer_epoch,
        transactional=producer is not None,
    )
    assert build_decision(records, NOW_MS, producer) == expected
