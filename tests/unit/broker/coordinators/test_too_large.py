"""Requests whose records are larger than the coordinator's topic takes:
who asks hears of it, and nobody else notices.
"""

from collections.abc import Callable
from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.broker.coordinators.hosted import Hosted
from headwater.broker.handlers.transaction_frames import HANDLERS
from headwater.coordinator.groups.shard import GroupShard
from headwater.wire.headers import encode_request_header
from headwater.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from headwater.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.end_txn import EndTxnRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headwater.wire.messages.init_producer_id import InitProducerIdRequest
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headwater.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

INITIAL_DELAY_MS = 3_000
LIMIT = 4_000
TOPIC_RESOURCE = 2


@pytest.fixture(name="shop")
def shop_fixture(make_lab: Callable[..., Any]) -> Any:
    lab = make_lab(offsets_topic_num_partitions="1")
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=200, replication_factor=1)]))
    lab.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["any"]))
    limit = AlterableConfig(name="max.message.bytes", config_operation=0, value=str(LIMIT))
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name="__consumer_offsets", configs=[limit])
    (answer,) = lab.ask(IncrementalAlterConfigsRequest(resources=[resource])).responses
    assert answer.error_code == 0
    return lab


@pytest.fixture(name="waiting")
def waiting_fixture(shop: Any) -> Any:
    """A member of another group, in the same shard, that waits for others."""
    return shop.begin(join("waits"), 3)


def hosted(shop: Any) -> Hosted[GroupShard]:
    found: Hosted[GroupShard] = shop.broker.groups.runtime.hosted[0]
    return found


def join(group: str, metadata: bytes = b"") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def commit(shop: Any, count: int) -> set[ErrorCode]:
    parts = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata="m" * 50)
        for index in range(count)
    ]
    topic = OffsetCommitRequestTopic(name="orders", partitions=parts)
    answer = shop.ask(OffsetCommitRequest(group_id="simple", topics=[topic]), 8)
    return {ErrorCode(part.error_code) for part in answer.topics[0].partitions}


def goes_on(shop: Any, waiting: Any, shard: GroupShard) -> None:
    assert hosted(shop).shard is shard
    assert not waiting.done
    shop.clock.advance(INITIAL_DELAY_MS)
    shop.settle()
    assert waiting.response.error_code == 0


def test_a_commit(shop: Any, waiting: Any) -> None:
    shard = hosted(shop).shard
    assert commit(shop, 200) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert commit(shop, 1) == {ErrorCode.NONE}
    assert commit(shop, 200) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    goes_on(shop, waiting, shard)


def test_a_join(shop: Any, waiting: Any) -> None:
    shard = hosted(shop).shard
    assert shop.ask(join("large", b"m" * 5_000), 3).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    goes_on(shop, waiting, shard)


def test_an_assignment(shop: Any) -> None:
    joining = shop.begin(join("large"), 3)
    shop.clock.advance(INITIAL_DELAY_MS)
    shop.settle()
    waiting = shop.begin(join("waits"), 3)
    shard = hosted(shop).shard
    member_id = joining.response.member_id
    assignment = SyncGroupRequestAssignment(member_id=member_id, assignment=b"a" * 5_000)
    request = SyncGroupRequest(group_id="large", generation_id=1, member_id=member_id, assignments=[assignment])
    assert shop.ask(request).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    goes_on(shop, waiting, shard)


def test_a_member_of_a_consumer_group(shop: Any, waiting: Any) -> None:
    shard = hosted(shop).shard
    request = ConsumerGroupHeartbeatRequest(
        group_id="large",
        member_id="member",
        member_epoch=0,
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[f"topic-{number}" for number in range(1_000)],
        topic_partitions=[],
    )
    assert shop.ask(request).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    goes_on(shop, waiting, shard)


@pytest.mark.parametrize("quick", [True, False], ids=["at once", "the general way"])
def test_the_partitions_of_a_transaction(make_lab: Callable[..., Any], quick: bool) -> None:
    """The log refused the record after it was decided: the whole shard was read again, and everybody else waited for
    it.
    """
    lab = make_lab(transaction_state_log_num_partitions="1")
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=200, replication_factor=1)]))
    lab.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["id"]))
    limit = AlterableConfig(name="max.message.bytes", config_operation=0, value="900")
    resource = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name="__transaction_state", configs=[limit])
    lab.ask(IncrementalAlterConfigsRequest(resources=[resource]))
    begun = lab.ask(InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=5_000), 4)
    shard = lab.broker.transactions.runtime.hosted[0].shard

    def add(*partitions: int) -> set[ErrorCode]:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="id",
            v3_and_below_producer_id=begun.producer_id,
            v3_and_below_producer_epoch=begun.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=list(partitions))],
        )
        if quick:
            frame = encode_request_header(24, 3, 7, "tests") + b"".join(request.encode(3))
            handle = HANDLERS[24]
            answer = handle(lab.broker, memoryview(bytearray(frame)), 8, len(frame), 3, 7)
            if answer is not None:
                return {ErrorCode.NONE}
        (topic,) = lab.ask(request, 3).results_by_topic_v3_and_below
        return {ErrorCode(part.partition_error_code) for part in topic.results_by_partition}

    assert add(*range(50)) == {ErrorCode.NONE}
    assert add(*range(200)) == {ErrorCode.UNKNOWN_SERVER_ERROR}
    hosting = lab.broker.transactions.runtime.hosted[0]
    assert hosting.shard is shard
    assert hosting.is_loaded
    assert len(shard.transactions["id"].partitions) == 50
    end = EndTxnRequest(
        transactional_id="id", producer_id=begun.producer_id, producer_epoch=begun.producer_epoch, committed=True
    )
    assert lab.ask(end, 4).error_code == 0
