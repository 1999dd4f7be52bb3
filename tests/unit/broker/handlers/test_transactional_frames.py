"""Transactional produce on the hot path and on the general way: the same answers, the same log, the same producers."""

from typing import Any

import pytest

from headwater.broker.handlers.produce import handle_frame
from headwater.records.builder import build_batch
from headwater.records.reader import Record
from headwater.wire.headers import encode_request_header
from headwater.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.end_txn import EndTxnRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.init_producer_id import InitProducerIdRequest
from headwater.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

ID = "transactional"
ASKING = range(3, 12)  # versions whose producers name their partitions to the coordinator
ADDING = range(12, 14)


class Shop:
    """A broker with one topic, and a producer that has a transactional id."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab
        self.broker = lab.broker
        lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=2, replication_factor=1)]))
        lab.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]))
        lab.settle()
        init = lab.ask(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000), 4)
        assert init.error_code == 0
        self.producer_id, self.epoch = init.producer_id, init.producer_epoch
        self.sequence = 0
        self.partition = self.broker.partition("orders", 0)

    def add(self) -> None:
        answer = self.lab.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=ID,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
            ),
            3,
        )
        assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0

    def end(self, *, committed: bool = True) -> None:
        request = EndTxnRequest(
            transactional_id=ID, producer_id=self.producer_id, producer_epoch=self.epoch, committed=committed
        )
        assert self.lab.ask(request, 3).error_code == 0

    def frame(
        self,
        version: int,
        *,
        sequence: int | None = None,
        count: int = 2,
        acks: int = -1,
        index: int = 0,
        **fields: Any,
    ) -> bytes:
        named = fields.pop("transactional_id", ID)
        batch = build_batch(
            [Record(at, self.lab.clock.now_ms(), b"key", b"value") for at in range(count)],
            **{
                "producer_id": self.producer_id,
                "producer_epoch": self.epoch,
                "base_sequence": self.sequence if sequence is None else sequence,
                "transactional": True,
                **fields,
            },
        )
        topic = TopicProduceData(
            name="orders",
            topic_id=self.broker.image.ids_by_name["orders"],
            partition_data=[PartitionProduceData(index=index, records=bytes(batch))],
        )
        request = ProduceRequest(transactional_id=named, acks=acks, timeout_ms=1000, topic_data=[topic])
        return encode_request_header(0, version, 77, "tests") + b"".join(map(bytes, request.encode(version)))

    def at_once(self, data: bytes, version: int) -> bytes | None:
        view = memoryview(bytearray(data))
        answer = handle_frame(self.broker, view, 8, len(view), version, 77)
        view[:] = bytes(len(view))
        return answer

    def generally(self, data: bytes) -> bytes:
        return bytes(self.lab.answer_to(data))

    def state(self) -> tuple[Any, ...]:
        log = self.partition.log
        producers = log.producers
        return (
            log.active.open_file().pread(0, log.active.size_bytes),
            producers.to_snapshot(),
            {key: (list(each.batches), each.next_sequence) for key, each in producers.producers.items()},
            dict(producers.ongoing),
            self.partition.high_watermark,
            self.partition.last_stable_offset,
        )


@pytest.fixture
def shop(lab: Any) -> Shop:
    return Shop(lab)


@pytest.mark.parametrize("version", [*ASKING, *ADDING])
def test_transactions_are_the_same_on_both_ways(make_lab: Any, version: int) -> None:
    quick, slow = Shop(make_lab()), Shop(make_lab())
    for committed in (True, False):
        for shop in (quick, slow):
            shop.add()
        for at in range(4):
            data = [shop.frame(version) for shop in (quick, slow)]
            answer = quick.at_once(data[0], version)
            if at == 0 and version in ADDING:
                assert answer is None, "the partition is added first"
                answer = quick.generally(data[0])
            assert answer is not None
            assert answer == slow.generally(data[1])
            for shop in (quick, slow):
                shop.sequence += 2
            assert quick.state() == slow.state()
        for shop in (quick, slow):
            shop.end(committed=committed)
        assert quick.state() == slow.state()
        assert (
            quick.partition.last_stable_offset == quick.partition.high_watermark == quick.partition.log.log_end_offset
        )


def test_what_was_sent_twice_is_written_once(shop: Shop) -> None:
    shop.add()
    first = shop.at_once(shop.frame(9), 9)
    before = shop.state()
    assert shop.at_once(shop.frame(9), 9) == first
    assert shop.state() == before


def test_nobody_writes_to_a_partition_that_is_not_in_the_transaction(shop: Shop) -> None:
    before = shop.state()
    assert shop.at_once(shop.frame(9), 9) is None, "no transaction is open"
    shop.add()
    assert shop.at_once(shop.frame(9, index=1), 9) is None
    assert shop.broker.partition("orders", 1).log.log_end_offset == 0
    assert shop.at_once(shop.frame(9), 9) is not None
    shop.end()
    shop.sequence += 2
    assert shop.at_once(shop.frame(9), 9) is None, "it is over"
    assert shop.partition.log.log_end_offset == 3
    assert before != shop.state()


ODD: list[dict[str, Any]] = [
    {"acks": 0},
    {"transactional": False},
    {"producer_epoch": -1},
    {"producer_epoch": 7},
    {"producer_id": 99},
]
ODD_WHEN_OPEN: list[dict[str, Any]] = [*ODD, {"sequence": 50}, {"transactional": False, "transactional_id": None}]


@pytest.mark.parametrize(
    ("is_open", "fields"), [*((False, each) for each in ODD), *((True, each) for each in ODD_WHEN_OPEN)], ids=str
)
def test_what_is_not_plainly_fine_is_left_to_the_general_way(shop: Shop, is_open: bool, fields: dict[str, Any]) -> None:
    shop.add()
    if is_open:
        shop.at_once(shop.frame(9), 9)
        shop.sequence += 2
    before = shop.state()
    assert shop.at_once(shop.frame(9, **fields), 9) is None
    assert shop.state() == before


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("named", ["", "another", "x" * 126, "x" * 127, "x" * 300])
def test_the_transactional_id_decides_where_a_transaction_begins(shop: Shop, version: int, named: str) -> None:
    shop.add()
    assert shop.at_once(shop.frame(version, transactional_id=named), version) is None
    assert shop.partition.log.log_end_offset == 0


@pytest.mark.parametrize("version", [8, 9])
def test_an_id_that_is_no_text(shop: Shop, version: int) -> None:
    shop.add()
    data = shop.frame(version).replace(ID.encode(), b"\xff" * len(ID))
    assert shop.at_once(data, version) is None
    assert shop.partition.log.log_end_offset == 0


@pytest.mark.parametrize("version", [8, 9, 13])
@pytest.mark.parametrize("is_open", [False, True])
def test_frames_that_are_cut_short_or_damaged(shop: Shop, version: int, is_open: bool) -> None:
    shop.add()
    if is_open:
        shop.at_once(shop.frame(9), 9)
        shop.sequence += 2
    data = shop.frame(version)
    before = shop.state()
    for end in range(8, len(data)):
        assert shop.at_once(data[:end], version) is None
    assert shop.at_once(data[:-12] + bytes([data[-12] ^ 1]) + data[-11:], version) is None, "its CRC is wrong"
    assert shop.state() == before


def test_while_the_coordinator_is_loaded(shop: Shop) -> None:
    shop.add()
    for hosted in shop.broker.transactions.runtime.hosted.values():
        hosted.load()
    assert shop.at_once(shop.frame(9), 9) is None
    shop.lab.settle()
    assert shop.at_once(shop.frame(9), 9) is not None


def test_a_later_producer_of_the_same_id_fences_the_one_before(shop: Shop) -> None:
    shop.add()
    shop.at_once(shop.frame(9), 9)
    again = shop.lab.ask(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000), 4)
    shop.lab.settle()
    assert again.error_code != 0, "the transaction is aborted first"
    shop.sequence += 2
    before = shop.state()
    assert shop.at_once(shop.frame(9), 9) is None
    assert shop.state() == before
