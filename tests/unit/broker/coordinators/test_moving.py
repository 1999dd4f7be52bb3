"""Coordinators that come and go with the leadership of their partition, and the topics that they need, in a cluster."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.base.ids import BrokerId
from headwater.broker.coordinators import loading as loading_module
from headwater.broker.coordinators.placement import partition_for
from headwater.replication.partition import Partition
from headwater.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headwater.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from unit.broker.fake_peers import FakePeers

GROUP = "group"
INDEX = partition_for(GROUP, 50)
INT64_MAX = 2**63 - 1


def commit(offset: int) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
    return OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name="orders", partitions=[part])])


def code_of(response: Any) -> ErrorCode:
    return ErrorCode(response.topics[0].partitions[0].error_code)


def read(lab: Any) -> Any:
    topic = OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
    return lab.begin(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])]), 8)


def offset_in(response: Any) -> int:
    offset: int = response.groups[0].topics[0].partitions[0].committed_offset
    return offset


@pytest.fixture(name="shop")
def shop_fixture(lab: Any) -> Any:
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]))
    lab.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]))
    return lab


def partition_of(shop: Any) -> Partition:
    partition: Partition = shop.broker.partition("__consumer_offsets", INDEX)
    return partition


def next_term(shop: Any) -> Partition:
    """Leadership is lost and won again: another object on the same log, under a later epoch."""
    old = partition_of(shop)
    shop.broker.groups.runtime.partition_closed(old)
    old.delete()
    new = Partition(old.topic, old.topic_id, old.index, old.log, old.leader_epoch + 1)  # type: ignore[arg-type]
    for key, partition in shop.broker.partitions.items():
        if partition is old:
            shop.broker.partitions[key] = new
    return new


def test_who_waits_when_the_partition_goes_is_sent_elsewhere(shop: Any) -> None:
    partition = partition_of(shop)
    partition.confirm(partition.log.log_end_offset)
    writing, reading = shop.begin(commit(5), 8), read(shop)
    shop.broker.groups.runtime.partition_closed(partition)
    assert code_of(writing.response) is ErrorCode.NOT_COORDINATOR
    assert ErrorCode(reading.response.groups[0].error_code) is ErrorCode.NOT_COORDINATOR
    partition.confirm(INT64_MAX)
    shop.settle()
    assert code_of(shop.ask(commit(6), 8)) is ErrorCode.NOT_COORDINATOR


def test_the_next_term_reads_what_the_one_before_wrote_and_answers_when_it_is_committed(shop: Any) -> None:
    """The new leader's high watermark lags behind its log;
    nothing in the log is lost, and nothing is told too early.
    """
    shop.ask(commit(5), 8)
    new = next_term(shop)
    new.confirm(new.log.log_end_offset)
    new.high_watermark = 0
    shop.broker.groups.runtime.partition_opened(new)
    shop.settle()
    reading = read(shop)
    assert not reading.done
    new.commit_through(new.log.log_end_offset)
    shop.settle()
    assert offset_in(reading.response) == 5


def test_a_load_that_was_overtaken_by_a_loss_comes_to_nothing(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.ask(commit(5), 8)
    monkeypatch.setattr(loading_module, "RECORDS_PER_TURN", 1)
    first = next_term(shop)
    runtime = shop.broker.groups.runtime
    runtime.partition_opened(first)
    loading = runtime.hosted[INDEX]
    assert not loading.is_loaded
    assert code_of(shop.ask(commit(6), 8)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    second = next_term(shop)
    runtime.partition_opened(second)
    shop.settle()
    assert not loading.is_loaded
    assert runtime.hosted[INDEX].partition is second
    assert offset_in(read(shop)) == 5


def test_a_reload_that_was_planned_does_not_bring_a_lost_coordinator_back(shop: Any) -> None:
    """After an append that failed the shard is read again a second later: not if somebody else leads by then."""
    free_bytes, shop.disk.faults.free_bytes = shop.disk.faults.free_bytes, 0
    assert code_of(shop.ask(commit(6), 8)) is ErrorCode.NOT_COORDINATOR
    shop.disk.faults.free_bytes = free_bytes
    hosted = shop.broker.groups.runtime.hosted[INDEX]
    shop.broker.groups.runtime.partition_closed(partition_of(shop))
    shop.clock.advance(5000)
    shop.settle()
    assert not hosted.is_loaded


def test_a_term_that_follows_without_a_loss_in_between_replaces_the_one_before(shop: Any) -> None:
    old = partition_of(shop)
    runtime = shop.broker.groups.runtime
    before = runtime.hosted[INDEX]
    new = Partition(old.topic, old.topic_id, old.index, old.log, old.leader_epoch)
    runtime.partition_opened(new)
    shop.settle()
    assert runtime.hosted[INDEX].partition is new
    assert not before.is_loaded
    runtime.partition_closed(old)  # late news about the term before
    assert runtime.hosted[INDEX].is_loaded


# The topic


def find(lab: Any, peers: FakePeers) -> Any:
    lab.broker.peers = peers
    return lab.begin(FindCoordinatorRequest(key_type=1, coordinator_keys=["transactional"]))


def coordinator(response: Any) -> tuple[int, ErrorCode]:
    (only,) = response.coordinators
    return only.node_id, ErrorCode(only.error_code)


def answered(code: ErrorCode) -> CreateTopicsResponse:
    name = "__transaction_state"
    return CreateTopicsResponse(topics=[CreatableTopicResult(name=name, error_code=int(code), configs=[])])


def test_the_controller_makes_the_topic_with_all_its_replicas(lab: Any) -> None:
    peers = FakePeers()
    lab.add_broker(2)
    lab.broker.image.controller_id = BrokerId(2)
    first, second = find(lab, peers), find(lab, peers)
    asked = peers.take()
    assert peers.asked == [], "once for all who wait"
    (topic,) = asked.request.topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("__transaction_state", 50, 3)
    configs = {config.name: config.value for config in topic.configs}
    assert configs["cleanup.policy"] == "compact"
    assert configs["min.insync.replicas"] == "2"
    asked.answer(answered(ErrorCode.INVALID_REPLICATION_FACTOR))
    for answer in (first, second):
        assert coordinator(answer.response) == (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def test_while_brokers_are_missing_the_controller_refuses_too(lab: Any) -> None:
    """Unlike a broker alone, which makes do with the one replica that it can have."""
    answer = find(lab, FakePeers())
    lab.settle()
    assert coordinator(answer.response) == (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert lab.broker.image.topics == {}
    lab.add_broker(2)
    lab.add_broker(3)
    answer = find(lab, FakePeers())
    lab.settle()
    node, code = coordinator(answer.response)
    assert code is ErrorCode.NONE
    assert node in (1, 2, 3)
    assert len(lab.broker.image.topic("__transaction_state").partitions[0].replicas) == 3


def test_a_topic_that_this_broker_does_not_hear_of_is_not_available(lab: Any) -> None:
    peers = FakePeers()
    lab.add_broker(2)
    lab.broker.image.controller_id = BrokerId(2)
    answer = find(lab, peers)
    peers.take().answer(answered(ErrorCode.NONE))
    for _ in range(400):
        lab.clock.advance(10)
        lab.settle()
    assert coordinator(answer.response) == (-1, ErrorCode.COORDINATOR_NOT_AVAILABLE)
