"""While replicas are missing, a coordinator decides nothing that it could not write, and forgets nothing either."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.broker.coordinators.placement import partition_for
from headwater.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.describe_transactions import DescribeTransactionsRequest
from headwater.wire.messages.end_txn import EndTxnRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.heartbeat import HeartbeatRequest
from headwater.wire.messages.init_producer_id import InitProducerIdRequest
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headwater.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

GROUP, ID = "group", "transactional"
INT64_MAX = 2**63 - 1
SESSION_MS = 10_000
INITIAL_DELAY_MS = 3_000


class Replicas:
    """What a leader knows of the others: here, only whether they are enough."""

    confirmed = INT64_MAX

    def __init__(self) -> None:
        self.enough = True

    def is_enough(self, _wanted: int) -> bool:
        return self.enough


@pytest.fixture(name="shop")
def shop_fixture(lab: Any) -> Any:
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]))
    lab.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]))
    lab.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]))
    return lab


def replicas_of(shop: Any, topic: str, key: str) -> Replicas:
    replicas = Replicas()
    shop.broker.partition(topic, partition_for(key, 50)).has_replicas(replicas)
    return replicas


@pytest.fixture(name="replicas")
def replicas_fixture(shop: Any) -> Replicas:
    """Of the group's partition."""
    return replicas_of(shop, "__consumer_offsets", GROUP)


def commit(shop: Any, offset: int) -> ErrorCode:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
    topic = OffsetCommitRequestTopic(name="orders", partitions=[part])
    answer = shop.ask(OffsetCommitRequest(group_id=GROUP, topics=[topic]), 8)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def committed(shop: Any) -> int:
    topic = OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
    (group,) = shop.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])]), 8).groups
    assert group.error_code == 0
    offset: int = group.topics[0].partitions[0].committed_offset
    return offset


def begin_to_join(shop: Any) -> Any:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return shop.begin(request, 3)


def wait(shop: Any, delay_ms: int) -> None:
    for _ in range(delay_ms // 100):
        shop.clock.advance(100)
        shop.settle()


def beat(shop: Any, joined: Any) -> ErrorCode:
    request = HeartbeatRequest(group_id=GROUP, generation_id=joined.generation_id, member_id=joined.member_id)
    return ErrorCode(shop.ask(request).error_code)


def shard_of(runtime: Any, key: str) -> Any:
    return runtime.find(key).shard


def test_a_commit_is_to_come_again_and_nothing_is_read_anew(shop: Any, replicas: Replicas) -> None:
    assert commit(shop, 5) is ErrorCode.NONE
    shard = shard_of(shop.broker.groups.runtime, GROUP)
    replicas.enough = False
    for _ in range(3):
        assert commit(shop, 6) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert committed(shop) == 5, "who only asks is served"
        wait(shop, 1_000)
    replicas.enough = True
    assert commit(shop, 7) is ErrorCode.NONE
    assert committed(shop) == 7
    assert shard_of(shop.broker.groups.runtime, GROUP) is shard


def test_who_waits_goes_on_waiting(shop: Any, replicas: Replicas) -> None:
    joining = begin_to_join(shop)
    replicas.enough = False
    wait(shop, 2 * INITIAL_DELAY_MS)
    assert not joining.done
    replicas.enough = True
    wait(shop, INITIAL_DELAY_MS)
    assert joining.response.error_code == 0


def test_members_live_on_by_their_heartbeats_and_have_a_whole_session_afterwards(shop: Any, replicas: Replicas) -> None:
    joining = begin_to_join(shop)
    wait(shop, INITIAL_DELAY_MS)
    joined = joining.response
    replicas.enough = False
    wait(shop, SESSION_MS - 1_000)
    assert beat(shop, joined) is ErrorCode.NONE
    wait(shop, 3 * SESSION_MS)
    assert beat(shop, joined) is ErrorCode.NONE, "nobody is put out: that could not be written"
    replicas.enough = True
    wait(shop, SESSION_MS - 1_000)
    assert beat(shop, joined) is ErrorCode.NONE
    wait(shop, 2 * SESSION_MS)
    assert beat(shop, joined) is ErrorCode.UNKNOWN_MEMBER_ID


def state_of(shop: Any) -> str:
    (found,) = shop.ask(DescribeTransactionsRequest(transactional_ids=[ID])).transaction_states
    assert found.error_code == 0
    state: str = found.transaction_state
    return state


def test_markers_that_are_written_meanwhile_are_noted_when_it_can_be_done(shop: Any) -> None:
    producer = shop.ask(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000))
    adding = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0])],
    )
    shop.ask(adding, 3)
    orders = shop.broker.partition("orders", 0)
    orders.confirm(0)  # the marker is appended, and not on all replicas for now
    ending = EndTxnRequest(
        transactional_id=ID,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=True,
    )
    assert shop.ask(ending, 3).error_code == 0
    assert state_of(shop) == "PrepareCommit"
    shard = shard_of(shop.broker.transactions.runtime, ID)
    replicas = replicas_of(shop, "__transaction_state", ID)
    replicas.enough = False
    orders.confirm(INT64_MAX)
    wait(shop, 2_000)
    assert state_of(shop) == "PrepareCommit"
    replicas.enough = True
    wait(shop, 1_000)
    assert state_of(shop) == "CompleteCommit"
    assert shard_of(shop.broker.transactions.runtime, ID) is shard


def test_a_coordinator_that_is_loaded_meanwhile_can_be_asked_and_takes_up_its_work_later(shop: Any) -> None:
    producer = shop.ask(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000))
    partition = shop.broker.partition("__transaction_state", partition_for(ID, 50))
    replicas = replicas_of(shop, "__transaction_state", ID)
    replicas.enough = False
    runtime = shop.broker.transactions.runtime
    runtime.find(ID).load()
    shop.settle()
    assert state_of(shop) == "Empty"
    refused = shop.ask(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000))
    assert ErrorCode(refused.error_code) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    replicas.enough = True
    wait(shop, 1_000)
    assert runtime.find(ID).partition is partition
    again = shop.ask(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000))
    assert (again.producer_id, again.producer_epoch) == (producer.producer_id, producer.producer_epoch + 1)
