"""Markers and verification between brokers: who is asked, what is tried again, and what ends the attempts."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import NO_BROKER, BrokerId, PartitionKey, TopicPartition
from headwater.base.peers import Lane
from headwater.broker.coordinators.markers import Marker, Results, write_markers
from headwater.broker.coordinators.placement import partition_for
from headwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.describe_transactions import DescribeTransactionsRequest
from headwater.wire.messages.end_txn import EndTxnRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.init_producer_id import InitProducerIdRequest
from headwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from headwater.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from unit.broker.fake_peers import Asked, FakePeers

HERE, THERE = 0, 1  # partitions of "orders": led by this broker, and by broker 2
INT64_MAX = 2**63 - 1


class Shop:
    """Broker 1 of two: it coordinates, and leads one partition of the two that the transaction touches."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab
        self.broker = lab.broker
        lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=2, replication_factor=1)]))
        lab.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["group"]))
        lab.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["transactional"]))
        self.peers = FakePeers()
        self.broker.peers = self.peers
        lab.add_broker(2)
        self.lead(THERE, 2)
        answer = lab.ask(InitProducerIdRequest(transactional_id="transactional", transaction_timeout_ms=60_000))
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="transactional",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[HERE, THERE])],
        )
        lab.ask(request, 3)

    def lead(self, partition: int, broker_id: int) -> None:
        self.broker.image.topic("orders").partitions[partition].leader = BrokerId(broker_id)

    def end(self) -> None:
        request = EndTxnRequest(
            transactional_id="transactional",
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=True,
        )
        assert self.lab.ask(request, 3).error_code == 0
        self.lab.settle()

    @property
    def state(self) -> str:
        answer = self.lab.ask(DescribeTransactionsRequest(transactional_ids=["transactional"]))
        state: str = answer.transaction_states[0].transaction_state
        return state

    def pass_ms(self, milliseconds: int) -> None:
        for _ in range(milliseconds // 10):
            self.lab.clock.advance(10)
            self.lab.settle()

    @property
    def state_partition(self) -> Any:
        return self.broker.partition("__transaction_state", partition_for("transactional", 50))

    def markers_here(self) -> int:
        end: int = self.broker.partition("orders", HERE).log.log_end_offset
        return end


@pytest.fixture(name="shop")
def shop_fixture(lab: Any) -> Shop:
    return Shop(lab)


def marked(asked: Asked, code: ErrorCode = ErrorCode.NONE) -> None:
    """The other broker's answer, with that code for every partition."""
    asked.answer(
        WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(partition_index=index, error_code=int(code))
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in asked.request.markers
            ]
        )
    )


def test_a_marker_goes_to_the_broker_that_leads_and_the_others_are_written_here(shop: Shop) -> None:
    shop.end()
    asked = shop.peers.take()
    assert (asked.broker, asked.lane) == (2, Lane.MARKERS)
    (marker,) = asked.request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (
        shop.producer_id,
        shop.epoch,
        True,
    )
    assert marker.coordinator_epoch == shop.state_partition.leader_epoch
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("orders", [THERE])]
    assert shop.markers_here() == 1
    assert shop.state == "PrepareCommit"
    marked(asked)
    assert shop.state == "CompleteCommit"
    shop.pass_ms(1000)
    assert shop.peers.asked == []
    assert shop.markers_here() == 1


def test_what_is_under_way_is_not_sent_twice(shop: Shop) -> None:
    shop.end()
    shop.pass_ms(2000)
    assert len(shop.peers.asked) == 1
    assert shop.markers_here() == 1


def test_a_marker_that_waits_for_replicas_here_is_not_appended_twice(shop: Shop) -> None:
    shop.broker.partition("orders", HERE).confirm(0)
    shop.end()
    marked(shop.peers.take())
    shop.pass_ms(2000)
    assert shop.markers_here() == 1
    assert shop.state == "PrepareCommit"
    shop.broker.partition("orders", HERE).confirm(INT64_MAX)
    shop.lab.settle()
    assert shop.state == "CompleteCommit"


def test_a_partition_that_is_stuck_does_not_hold_up_the_others_of_its_request(shop: Shop) -> None:
    stuck, other = (shop.broker.partition("orders", index) for index in (HERE, THERE))
    stuck.confirm(0)
    other.confirm(0)
    told: list[Results] = []
    names = [TopicPartition("orders", index) for index in (HERE, THERE)]
    write_markers(shop.broker, Marker(shop.producer_id, shop.epoch, 0, committed=True), names, told.append)
    other.confirm(INT64_MAX)
    shop.pass_ms(4900)
    assert told == []
    shop.pass_ms(200)
    assert told == [{names[HERE]: ErrorCode.REQUEST_TIMED_OUT, names[THERE]: ErrorCode.NONE}]
    stuck.confirm(INT64_MAX)
    shop.pass_ms(10_000)
    assert len(told) == 1
    assert not stuck.waiters


def test_a_marker_that_took_too_long_is_written_again(shop: Shop) -> None:
    shop.broker.partition("orders", HERE).confirm(0)
    shop.end()
    marked(shop.peers.take())
    shop.pass_ms(7000)
    assert shop.markers_here() == 2
    assert shop.state == "PrepareCommit"
    shop.broker.partition("orders", HERE).confirm(INT64_MAX)
    shop.lab.settle()
    assert shop.state == "CompleteCommit"


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        None,
    ],
)
def test_what_was_not_written_is_asked_again_of_whoever_leads_then(shop: Shop, code: ErrorCode | None) -> None:
    shop.end()
    asked = shop.peers.take()
    if code is None:
        asked.fail()
    else:
        marked(asked, code)
    assert shop.state == "PrepareCommit"
    shop.lab.add_broker(3)
    shop.lead(THERE, 3)
    shop.pass_ms(300)
    again = shop.peers.take()
    assert again.broker == 3
    marked(again)
    assert shop.state == "CompleteCommit"


@pytest.mark.parametrize("leader", [NO_BROKER, 9])
def test_a_partition_without_a_leader_gets_its_marker_when_it_has_one(shop: Shop, leader: int) -> None:
    shop.lead(THERE, leader)
    shop.end()
    shop.pass_ms(1000)
    assert shop.peers.asked == []
    assert shop.state == "PrepareCommit"
    shop.lead(THERE, 2)
    shop.pass_ms(300)
    marked(shop.peers.take())
    assert shop.state == "CompleteCommit"


def test_a_partition_that_exists_no_more_has_nothing_to_end(shop: Shop) -> None:
    del shop.broker.image.topic("orders").partitions[THERE]
    shop.end()
    assert shop.state == "CompleteCommit"


@pytest.mark.parametrize("code", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_fenced_coordinator_asks_no_more(shop: Shop, code: ErrorCode) -> None:
    shop.end()
    marked(shop.peers.take(), code)
    shop.pass_ms(2000)
    assert shop.peers.asked == []
    assert shop.state == "PrepareCommit"


def test_a_coordinator_that_has_lost_its_partition_sends_nothing_more(shop: Shop) -> None:
    shop.end()
    asked = shop.peers.take()
    asked.fail()
    shop.broker.transactions.runtime.partition_closed(shop.state_partition)
    shop.pass_ms(2000)
    assert shop.peers.asked == []
    asked.fail()  # nobody minds


def test_markers_that_wait_for_their_turn_are_dropped_with_their_coordinator(shop: Shop) -> None:
    shop.lab.begin(
        EndTxnRequest(
            transactional_id="transactional", producer_id=shop.producer_id, producer_epoch=shop.epoch, committed=True
        ),
        3,
    )
    shop.broker.transactions.runtime.partition_closed(shop.state_partition)
    shop.lab.settle()
    assert shop.peers.asked == []


def test_the_next_coordinator_writes_the_markers_under_its_own_epoch(shop: Shop) -> None:
    shop.end()
    shop.peers.take().fail()
    runtime, partition = shop.broker.transactions.runtime, shop.state_partition
    runtime.partition_closed(partition)
    partition.leader_epoch += 1
    runtime.partition_opened(partition)
    shop.lab.settle()
    asked = shop.peers.take()
    assert asked.request.markers[0].coordinator_epoch == partition.leader_epoch
    marked(asked)
    assert shop.state == "CompleteCommit"


# The other side


def write(shop: Shop, partition: int, coordinator_epoch: int = 0, topic: str = "orders") -> Any:
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=True,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[partition])],
        coordinator_epoch=coordinator_epoch,
    )
    return shop.lab.begin(WriteTxnMarkersRequest(markers=[marker]))


def code_of(answer: Any) -> ErrorCode:
    assert answer.done
    return ErrorCode(answer.response.markers[0].topics[0].partitions[0].error_code)


def test_a_broker_writes_markers_where_it_leads(shop: Shop) -> None:
    assert code_of(write(shop, HERE, 5)) is ErrorCode.NONE
    assert code_of(write(shop, HERE, 4)) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert code_of(write(shop, 0, topic="nothing")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    shop.broker.partitions.pop(PartitionKey(shop.broker.image.topic("orders").topic_id, THERE), None)
    assert code_of(write(shop, THERE)) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_marker_is_not_there_when_its_leader_was_deposed_before_it_was_committed(shop: Shop) -> None:
    partition = shop.broker.partition("orders", HERE)
    partition.confirm(0)
    answer = write(shop, HERE)
    assert not answer.done
    partition.delete()  # the term is over, the topic is there
    shop.lab.settle()
    assert code_of(answer) is ErrorCode.NOT_LEADER_OR_FOLLOWER


# Verification


def elsewhere(shop: Shop, leader: int = 2) -> None:
    """The transaction is coordinated by another broker."""
    states = shop.broker.image.topic("__transaction_state").partitions
    states[partition_for("transactional", 50)].leader = BrokerId(leader)


def verify(shop: Shop, *, add: bool) -> list[dict[TopicPartition, ErrorCode]]:
    outcome: list[dict[TopicPartition, ErrorCode]] = []
    names = [TopicPartition("orders", HERE), TopicPartition("clicks", 3)]
    shop.broker.transactions.verify_or_add("transactional", 7, 2, names, add=add, done=outcome.append)
    return outcome


def added(codes: dict[str, tuple[int, ErrorCode]], code: ErrorCode = ErrorCode.NONE) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnTopicResult(
            name=name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=int(each))
            ],
        )
        for name, (index, each) in codes.items()
    ]
    return AddPartitionsToTxnResponse(
        error_code=int(code),
        results_by_transaction=[AddPartitionsToTxnResult(transactional_id="transactional", topic_results=results)],
    )


@pytest.mark.parametrize("add", [True, False])
def test_the_coordinator_on_another_broker_is_asked(shop: Shop, add: bool) -> None:
    elsewhere(shop)
    outcome = verify(shop, add=add)
    asked = shop.peers.take()
    assert (asked.broker, asked.lane) == (2, Lane.TRANSACTIONS)
    (transaction,) = asked.request.transactions
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == (
        "transactional",
        7,
        2,
    )
    assert transaction.verify_only != add
    assert [(topic.name, topic.partitions) for topic in transaction.topics] == [("orders", [HERE]), ("clicks", [3])]
    assert outcome == []
    asked.answer(added({"orders": (HERE, ErrorCode.NONE), "clicks": (3, ErrorCode.TRANSACTION_ABORTABLE)}))
    assert outcome == [
        {
            TopicPartition("orders", HERE): ErrorCode.NONE,
            TopicPartition("clicks", 3): ErrorCode.TRANSACTION_ABORTABLE,
        }
    ]


def test_no_answer_is_no_news(shop: Shop) -> None:
    elsewhere(shop)
    outcome = verify(shop, add=True)
    shop.peers.take().fail()
    assert set(outcome[0].values()) == {ErrorCode.NETWORK_EXCEPTION}


def test_an_answer_that_leaves_partitions_out_confirms_nothing(shop: Shop) -> None:
    elsewhere(shop)
    outcome = verify(shop, add=True)
    shop.peers.take().answer(added({"orders": (HERE, ErrorCode.NONE)}))
    assert outcome[0][TopicPartition("clicks", 3)] is ErrorCode.UNKNOWN_SERVER_ERROR
    outcome = verify(shop, add=True)
    shop.peers.take().answer(added({}, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert set(outcome[0].values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}


@pytest.mark.parametrize("leader", [NO_BROKER, 9])
def test_without_a_coordinator_nobody_is_asked(shop: Shop, leader: int) -> None:
    elsewhere(shop, leader)
    shop.broker.transactions.runtime.partition_closed(shop.state_partition)
    outcome = verify(shop, add=True)
    assert shop.peers.asked == []
    assert set(outcome[0].values()) == {ErrorCode.NOT_COORDINATOR}


def test_offsets_of_a_transaction_that_is_coordinated_elsewhere(shop: Shop) -> None:
    """The group is here; whether its partition belongs to the transaction is asked there."""
    elsewhere(shop)
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id="transactional",
        group_id="group",
        producer_id=7,
        producer_epoch=0,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[part])],
    )
    group = partition_for("group", 50)
    answer = shop.lab.begin(request)
    shop.peers.take().answer(added({"__consumer_offsets": (group, ErrorCode.NONE)}))
    shop.lab.settle()
    assert answer.response.topics[0].partitions[0].error_code == 0
    lost = shop.lab.begin(request)
    shop.peers.take().fail()
    code = ErrorCode(lost.response.topics[0].partitions[0].error_code)
    assert code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "or the client would look for the group's coordinator"
