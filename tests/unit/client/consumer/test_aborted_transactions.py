"""Read committed, of transactions that overlap: records and columns, as brokers list what was aborted."""

import pytest

from headwater.base.ids import TopicPartition
from headwater.client.consumer.arrow import ArrowTaker
from headwater.records.control import EndTransactionMarker, build_end_transaction_marker
from unit.client.consumer.fake_log import NOW_MS, FakeConsumer, FakeLogs, one_broker

P0 = TopicPartition("orders", 0)


def _append(logs: FakeLogs, producer_id: int, *values: bytes) -> None:
    logs.append(P0, list(values), producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def _abort(logs: FakeLogs, producer_id: int) -> None:
    marker = EndTransactionMarker(committed=False, coordinator_epoch=0)
    offset = logs.ends[P0]
    data = build_end_transaction_marker(
        marker, producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS, base_offset=offset
    )
    logs.append_raw(P0, 1, bytes(data))


@pytest.fixture
def consumer() -> FakeConsumer:
    """The transaction that begins first is aborted last, and the broker's list is in the order of the markers."""
    world, logs = one_broker()
    _append(logs, 7, b"gone", b"gone")
    _append(logs, 8, b"gone")
    _abort(logs, 8)
    _abort(logs, 7)
    logs.append(P0, [b"kept"])
    logs.aborted[P0] = [(8, 2), (7, 0)]
    made = FakeConsumer(world, auto_offset_reset="earliest", isolation_level="read_committed")
    made.assign(P0)
    return made


def test_records_of_aborted_transactions_stay_hidden_however_the_broker_sorts_its_list(consumer: FakeConsumer) -> None:
    """Apache's lists them by their markers: aborted records came as if they were committed."""
    assert [record.value for record in consumer.poll()] == [b"kept"]


def test_columns_leave_out_aborted_transactions_however_the_broker_sorts_its_list(consumer: FakeConsumer) -> None:
    taker = ArrowTaker(consumer.core, consumer.do, 1000, 1 << 20, None)
    consumer.poll_with(taker.take, 1.0)
    assert taker.batch().column("value").to_pylist() == [b"kept"]
