"""AddPartitionsToTxn and EndTxn on their hot path and on the general way: the same answers, the same logs, the same
producers.
"""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.coordinators.placement import partition_for
from headwater.broker.handlers.transaction_frames import HANDLERS
from headwater.coordinator.transactions.states import TransactionState
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.wire.headers import decode_response_header, encode_request_header
from headwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.init_producer_id import InitProducerIdRequest

ID = "transactional"
ADD, END = 24, 26
PARTITIONS = 3


class Shop:
    """A broker with one topic, and a producer that has a transactional id."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab
        self.broker = lab.broker
        topic = CreatableTopic(name="orders", num_partitions=PARTITIONS, replication_factor=1)
        lab.ask(CreateTopicsRequest(topics=[topic]))
        for key_type, key in ((1, ID), (0, "group")):
            lab.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]))
            lab.settle()
        init = lab.ask(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000), 4)
        assert init.error_code == 0
        self.producer_id, self.epoch = init.producer_id, init.producer_epoch
        self.sequences = [0] * PARTITIONS
        hosted = self.broker.transactions.runtime.hosted
        self.hosted = hosted[partition_for(ID, self.broker.transactions.runtime.partition_count)]

    @property
    def transaction(self) -> Any:
        return self.hosted.shard.transactions[ID]

    def add_frame(self, version: int, *indexes: int, topic: str = "orders", **fields: Any) -> bytes:
        request = AddPartitionsToTxnRequest(
            **{
                "v3_and_below_transactional_id": ID,
                "v3_and_below_producer_id": self.producer_id,
                "v3_and_below_producer_epoch": self.epoch,
                "v3_and_below_topics": [AddPartitionsToTxnTopic(name=topic, partitions=list(indexes))],
                **fields,
            }
        )
        return encode_request_header(ADD, version, 77, "tests") + b"".join(request.encode(version))

    def end_frame(self, version: int, *, committed: bool = True, **fields: Any) -> bytes:
        request = EndTxnRequest(
            **{
                "transactional_id": ID,
                "producer_id": self.producer_id,
                "producer_epoch": self.epoch,
                "committed": committed,
                **fields,
            }
        )
        return encode_request_header(END, version, 77, "tests") + b"".join(request.encode(version))

    def write(self, index: int) -> None:
        """A batch of the open transaction."""
        records = [Record(at, self.lab.clock.now_ms(), b"key", b"value") for at in range(2)]
        batch = build_batch(
            records,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequences[index],
            transactional=True,
        )
        partition = self.broker.partition("orders", index)
        producers = partition.log.producers
        guard = producers.begin_verification(self.producer_id, self.epoch, self.sequences[index], False)
        partition.append(memoryview(batch), self.lab.clock.now_ms(), guard)
        self.sequences[index] += 2

    def at_once(self, data: bytes) -> bytes | None:
        key, version = int.from_bytes(data[:2]), int.from_bytes(data[2:4])
        view = memoryview(bytearray(data))
        answer = HANDLERS[key](self.broker, view, 8, len(view), version, 77)
        view[:] = bytes(len(view))
        return answer

    def generally(self, data: bytes) -> bytes:
        return bytes(self.lab.answer_to(data))

    def state(self) -> list[Any]:
        state: list[Any] = [
            {name: getattr(self.transaction, name) for name in type(self.transaction).__slots__ if name != "attempt"}
        ]
        partitions = [self.broker.partition("orders", index) for index in range(PARTITIONS)]
        for partition in [self.hosted.partition, *partitions]:
            log = partition.log
            producers = log.producers
            state.append(
                (
                    log.active.open_file().pread(0, log.active.size_bytes),
                    producers.to_snapshot(),
                    dict(producers.ongoing),
                    dict(producers.verifying),
                    partition.high_watermark,
                    partition.last_stable_offset,
                )
            )
        return state


@pytest.fixture
def shop(lab: Any) -> Shop:
    return Shop(lab)


def code_of(answer: bytes, version: int) -> int:
    """The first error of an answer to either."""
    _, at = decode_response_header(answer[4:], END, version)
    return int(EndTxnResponse.decode(answer[4:], at, version).error_code)


def added_codes(answer: bytes, version: int) -> list[int]:
    _, at = decode_response_header(answer[4:], ADD, version)
    (topic,) = AddPartitionsToTxnResponse.decode(answer[4:], at, version).results_by_topic_v3_and_below
    return [part.partition_error_code for part in topic.results_by_partition]


@pytest.mark.parametrize("add_version", range(4))
@pytest.mark.parametrize("end_version", range(6))
def test_transactions_are_the_same_on_both_ways(make_lab: Any, add_version: int, end_version: int) -> None:
    quick, general = Shop(make_lab()), Shop(make_lab())
    for committed in (True, False, True):
        for indexes in ((0,), (0,), (2, 0)):
            data = quick.add_frame(add_version, *indexes)
            assert data == general.add_frame(add_version, *indexes)
            answer = quick.at_once(data)
            assert answer is not None
            assert answer == general.generally(data)
            assert added_codes(answer, add_version) == [0] * len(indexes)
            assert quick.state() == general.state()
        for shop in (quick, general):
            shop.write(0)
        data = quick.end_frame(end_version, committed=committed)
        answer = quick.at_once(data)
        assert answer is not None
        assert answer == general.generally(data)
        assert quick.state() == general.state()
        _, at = decode_response_header(answer[4:], END, end_version)
        ended = EndTxnResponse.decode(answer[4:], at, end_version)
        assert ended.error_code == 0
        if end_version == 5:
            for shop in (quick, general):
                shop.epoch = ended.producer_epoch
                shop.sequences = [0] * PARTITIONS
        partition = quick.broker.partition("orders", 0)
        assert partition.last_stable_offset == partition.log.log_end_offset
    before = quick.state()
    quick.lab.clock.advance(60_002)
    quick.lab.settle()
    assert quick.state() == before, "nothing is waited for any more"


def test_its_timeout_ends_a_transaction_that_was_begun_at_once(shop: Shop) -> None:
    assert shop.at_once(shop.add_frame(3, 0)) is not None
    shop.write(0)
    shop.lab.clock.advance(60_002)
    shop.lab.settle()
    assert shop.transaction.state is TransactionState.COMPLETE_ABORT


def test_offsets_of_a_transaction_are_settled_by_its_end(make_lab: Any) -> None:
    quick, general = Shop(make_lab()), Shop(make_lab())
    for shop in (quick, general):
        request = AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=shop.producer_id, producer_epoch=shop.epoch, group_id="group"
        )
        assert shop.lab.ask(request, 3).error_code == 0
    data = quick.end_frame(3)
    assert quick.at_once(data) == general.generally(data)
    assert quick.state() == general.state()
    offsets = [shop.broker.partition("__consumer_offsets", _offsets_index(shop)) for shop in (quick, general)]
    assert [partition.log.log_end_offset for partition in offsets] == [1, 1]


def _offsets_index(shop: Shop) -> int:
    return partition_for("group", shop.broker.groups.runtime.partition_count)


def refused(shop: Shop, data: bytes) -> None:
    before = shop.state()
    assert shop.at_once(data) is None
    assert shop.state() == before


@pytest.mark.parametrize(
    "fields",
    [
        {"v3_and_below_transactional_id": ""},
        {"v3_and_below_transactional_id": "another"},
        {"v3_and_below_producer_id": 99},
        {"v3_and_below_producer_epoch": 7},
        {"v3_and_below_producer_epoch": -1},
        {"v3_and_below_topics": []},
        {"v3_and_below_topics": [AddPartitionsToTxnTopic(name="orders", partitions=[])]},
        {"v3_and_below_topics": [AddPartitionsToTxnTopic(name="orders", partitions=[at]) for at in (0, 1)]},
        {"v3_and_below_topics": [AddPartitionsToTxnTopic(name="orders", partitions=list(range(300)))]},
        {"topic": "nothing"},
    ],
    ids=str,
)
def test_additions_that_are_not_plainly_fine_are_left_to_the_general_way(shop: Shop, fields: dict[str, Any]) -> None:
    for version in (0, 3):
        refused(shop, shop.add_frame(version, 0, **fields))
    for index in (-1, PARTITIONS):
        refused(shop, shop.add_frame(3, 0, index))


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize(
    "fields",
    [
        {"transactional_id": ""},
        {"transactional_id": "another"},
        {"transactional_id": "x" * 2000},
        {"producer_id": 99},
        {"producer_epoch": 7},
        {"producer_epoch": -1},
    ],
    ids=str,
)
def test_ends_that_are_not_plainly_fine_are_left_to_the_general_way(
    shop: Shop, is_open: bool, fields: dict[str, Any]
) -> None:
    if is_open:
        shop.at_once(shop.add_frame(3, 0))
    for version in (1, 5):
        refused(shop, shop.end_frame(version, **fields))


def test_an_end_that_was_reached_already(shop: Shop) -> None:
    refused(shop, shop.end_frame(3))
    refused(shop, shop.end_frame(5, committed=False))
    shop.at_once(shop.add_frame(3, 0))
    data = shop.end_frame(3)
    assert shop.at_once(data) is not None
    refused(shop, data)
    assert code_of(shop.generally(data), 3) == 0, "a retry"


@pytest.mark.parametrize("version", [0, 3])
def test_frames_that_are_cut_short(shop: Shop, version: int) -> None:
    shop.at_once(shop.add_frame(3, 0))
    for data in (shop.add_frame(version, 1), shop.end_frame(version)):
        for end in range(8, len(data)):
            refused(shop, data[:end])
        assert shop.at_once(data) is not None


def test_versions_of_brokers_and_later_ones(shop: Shop) -> None:
    shop.at_once(shop.add_frame(3, 0))
    for version in (4, 5, 6, -1):
        refused(shop, ADD.to_bytes(2) + version.to_bytes(2, signed=True) + shop.add_frame(3, 1)[4:])
    for version in (6, -1):
        refused(shop, END.to_bytes(2) + version.to_bytes(2, signed=True) + shop.end_frame(5)[4:])


def test_while_the_coordinator_is_loaded(shop: Shop) -> None:
    shop.at_once(shop.add_frame(3, 0))
    shop.hosted.load()
    assert not shop.hosted.is_loaded
    assert shop.at_once(shop.add_frame(3, 1)) is None
    assert shop.at_once(shop.end_frame(3)) is None
    shop.lab.settle()
    assert shop.at_once(shop.add_frame(3, 1)) is not None
    assert shop.at_once(shop.end_frame(3)) is not None


def test_where_a_marker_must_wait_the_general_way_waits(shop: Shop) -> None:
    shop.at_once(shop.add_frame(3, 0, 1))
    partition = shop.broker.partition("orders", 1)
    partition.confirm(partition.log.log_end_offset)
    partition.config_changed()
    assert not partition.is_alone
    refused(shop, shop.end_frame(3))


def test_where_the_coordinator_must_wait_the_general_way_waits(shop: Shop) -> None:
    shop.at_once(shop.add_frame(3, 0))
    partition = shop.hosted.partition
    partition.confirm(partition.log.log_end_offset)
    partition.config_changed()
    refused(shop, shop.add_frame(3, 1))
    refused(shop, shop.end_frame(3))


def test_a_marker_that_fails_is_written_later(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.at_once(shop.add_frame(3, 0, 1))
    shop.write(0)
    shop.write(1)
    partition = shop.broker.partition("orders", 1)
    kept = type(partition).append_marker

    def failing(self: Any, *arguments: Any, **named: Any) -> Any:
        if self is partition:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
        return kept(self, *arguments, **named)

    monkeypatch.setattr(type(partition), "append_marker", failing)
    answer = shop.at_once(shop.end_frame(3))
    assert answer is not None
    assert code_of(answer, 3) == 0, "it is decided"
    assert shop.transaction.state is TransactionState.PREPARE_COMMIT
    assert shop.broker.partition("orders", 0).log.log_end_offset == 3
    assert shop.at_once(shop.add_frame(3, 0)) is None
    assert added_codes(shop.generally(shop.add_frame(3, 0)), 3) == [int(ErrorCode.CONCURRENT_TRANSACTIONS)]
    monkeypatch.setattr(type(partition), "append_marker", kept)
    shop.lab.clock.advance(shop.hosted.shard.settings.marker_retry_ms + 1)
    shop.lab.settle()
    assert shop.transaction.state is TransactionState.COMPLETE_COMMIT
    assert [shop.broker.partition("orders", index).log.log_end_offset for index in (0, 1)] == [3, 3], "one marker each"


def test_what_is_decided_is_brought_to_its_end_though_our_own_code_failed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.at_once(shop.add_frame(3, 0))
    shop.write(0)
    partition_class = type(shop.hosted.partition)
    kept = partition_class.append_marker
    failures = [RuntimeError("a mistake")]

    def failing(self: Any, *arguments: Any, **named: Any) -> Any:
        if failures:
            raise failures.pop()
        return kept(self, *arguments, **named)

    monkeypatch.setattr(partition_class, "append_marker", failing)
    with pytest.raises(RuntimeError, match="a mistake"):
        shop.at_once(shop.end_frame(3))
    assert shop.transaction.state is TransactionState.COMPLETE_COMMIT
    assert shop.broker.partition("orders", 0).log.log_end_offset == 3


@pytest.mark.parametrize("is_end", [False, True])
def test_when_the_coordinator_cannot_write_nothing_has_happened(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, is_end: bool
) -> None:
    shop.at_once(shop.add_frame(3, 0))
    shop.write(0)

    kept = type(shop.hosted.partition).append_internal

    def failing(self: Any, *arguments: Any, **named: Any) -> Any:
        if self is shop.hosted.partition:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
        return kept(self, *arguments, **named)

    with monkeypatch.context() as broken:
        broken.setattr(type(shop.hosted.partition), "append_internal", failing)
        data = shop.end_frame(3) if is_end else shop.add_frame(3, 1)
        assert shop.at_once(data) is None
        answer = shop.generally(data)
    codes = [code_of(answer, 3)] if is_end else added_codes(answer, 3)
    assert codes == [int(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    shop.lab.clock.advance(2000)
    shop.lab.settle()
    assert shop.transaction.state is TransactionState.ONGOING
    assert {name.partition for name in shop.transaction.partitions} == {0}
    assert shop.broker.partition("orders", 0).log.log_end_offset == 2, "no marker"
    assert shop.at_once(shop.end_frame(3)) is not None
