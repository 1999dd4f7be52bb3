"""The coordinators' shell on the simulated ports: loading, holding answers until they are committed, failed appends,
markers.
"""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.coordinators.placement import java_string_hash, partition_for
from headwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.describe_transactions import DescribeTransactionsRequest
from headwater.wire.messages.end_txn import EndTxnRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.init_producer_id import InitProducerIdRequest
from headwater.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from headwater.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)

GROUP = "group"
NEIGHBOUR = next(
    name for name in (f"other-{n}" for n in range(1000)) if partition_for(name, 50) == partition_for(GROUP, 50)
)


@pytest.fixture
def shop(lab: Any) -> Any:
    """A broker with a topic and both coordinators."""
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=2, replication_factor=1)]))
    lab.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]))
    lab.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["transactional"]))
    return lab


def commit(offset: int) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
    return OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(name="orders", partitions=[part])])


def committed(shop: Any) -> int:
    topic = OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
    answer = shop.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])]), 8)
    assert answer.groups[0].error_code == 0
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset


def offsets_partition(shop: Any) -> Any:
    return shop.broker.partition("__consumer_offsets", partition_for(GROUP, 50))


@pytest.mark.parametrize(
    ("text", "expected"), [("", 0), ("a", 97), ("group", 98629247), ("polygenelubricants", -(2**31)), ("é😀", 1996812)]
)
def test_strings_are_hashed_as_java_does(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_the_smallest_hash_has_no_absolute_value() -> None:
    assert partition_for("polygenelubricants", 50) == 0


def test_a_commit_is_read_back_also_after_a_restart(shop: Any) -> None:
    answer = shop.ask(commit(5), 8)
    assert answer.topics[0].partitions[0].error_code == 0
    assert committed(shop) == 5
    again = shop.restarted()
    assert committed(again) == 5


def test_an_answer_waits_until_it_is_committed(shop: Any) -> None:
    partition = offsets_partition(shop)
    partition.confirm(partition.log.log_end_offset)  # another replica, which has nothing more yet
    first = shop.begin(commit(5), 8)
    read = shop.begin(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP)]), 8)
    shop.settle()
    assert not first.done
    assert not read.done, "nobody is told what could still be taken back"
    partition.confirm(partition.log.log_end_offset)
    shop.settle()
    assert first.response.topics[0].partitions[0].error_code == 0
    assert read.response.groups[0].topics[0].partitions[0].committed_offset == 5


def test_a_failed_append_takes_everything_back_and_tells_all_who_wait(shop: Any) -> None:
    shop.ask(commit(5), 8)
    joining = shop.begin(
        JoinGroupRequest(
            group_id=NEIGHBOUR,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        ),
        3,
    )
    shop.settle()
    assert not joining.done, "it waits for others to join"
    free_bytes, shop.disk.faults.free_bytes = shop.disk.faults.free_bytes, 0
    failed = shop.ask(commit(6), 8)
    assert ErrorCode(failed.topics[0].partitions[0].error_code) is ErrorCode.NOT_COORDINATOR
    assert ErrorCode(joining.response.error_code) is ErrorCode.NOT_COORDINATOR
    loading = shop.ask(commit(7), 8)
    assert ErrorCode(loading.topics[0].partitions[0].error_code) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    shop.disk.faults.free_bytes = free_bytes
    shop.clock.advance(2_000)
    shop.settle()
    assert committed(shop) == 5
    assert shop.ask(commit(8), 8).topics[0].partitions[0].error_code == 0
    assert committed(shop) == 8


def test_a_batch_that_is_refused_for_itself_costs_the_others_no_more_than_another_try(
    shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.ask(commit(5), 8)
    partition = offsets_partition(shop)
    partition.confirm(partition.log.log_end_offset)
    waiting = shop.begin(commit(6), 8)
    refusal = KafkaError(ErrorCode.INVALID_PRODUCER_EPOCH, "fenced")
    monkeypatch.setattr(type(partition), "append_internal", lambda *_: (_ for _ in ()).throw(refusal))
    refused = shop.begin(commit(7), 8)
    assert refused.topics[0].partitions[0].error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert waiting.response.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    monkeypatch.undo()
    partition.confirm(2**63 - 1)
    shop.settle()
    assert committed(shop) == 6, "it was appended, and nobody was told that it was not"


def transactional(shop: Any) -> tuple[int, int]:
    answer = shop.ask(InitProducerIdRequest(transactional_id="transactional", transaction_timeout_ms=60_000))
    assert answer.error_code == 0
    return answer.producer_id, answer.producer_epoch


def add_partition(producer_id: int, epoch: int) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="transactional",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0, 1])],
    )


def state_of(shop: Any) -> str:
    answer = shop.ask(DescribeTransactionsRequest(transactional_ids=["transactional"]))
    state: str = answer.transaction_states[0].transaction_state
    return state


def end(producer_id: int, epoch: int, *, is_commit: bool = True) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id="transactional", producer_id=producer_id, producer_epoch=epoch, committed=is_commit
    )


def test_a_transaction_ends_with_a_marker_on_every_partition(shop: Any) -> None:
    producer_id, epoch = transactional(shop)
    added = shop.ask(add_partition(producer_id, epoch), 3)
    assert [p.partition_error_code for p in added.results_by_topic_v3_and_below[0].results_by_partition] == [0, 0]
    assert state_of(shop) == "Ongoing"
    assert shop.ask(end(producer_id, epoch), 3).error_code == 0
    assert state_of(shop) == "CompleteCommit"
    assert [shop.broker.partition("orders", index).log.log_end_offset for index in (0, 1)] == [1, 1]


def test_markers_come_after_the_decision_is_committed_and_only_then(shop: Any) -> None:
    producer_id, epoch = transactional(shop)
    shop.ask(add_partition(producer_id, epoch), 3)
    state = shop.broker.partition("__transaction_state", partition_for("transactional", 50))
    state.confirm(state.log.log_end_offset)
    ending = shop.begin(end(producer_id, epoch), 3)
    shop.settle()
    assert not ending.done
    assert shop.broker.partition("orders", 0).log.log_end_offset == 0
    state.confirm(2**63 - 1)
    shop.settle()
    assert ending.response.error_code == 0
    assert shop.broker.partition("orders", 0).log.log_end_offset == 1


def test_a_coordinator_that_died_in_prepare_commit_writes_the_markers_when_it_is_back(shop: Any) -> None:
    producer_id, epoch = transactional(shop)
    shop.ask(add_partition(producer_id, epoch), 3)
    partition = shop.broker.partition("orders", 1)
    partition.confirm(0)  # its marker is appended and never confirmed
    assert shop.ask(end(producer_id, epoch), 3).error_code == 0
    assert state_of(shop) == "PrepareCommit"
    again = shop.restarted()
    assert state_of(again) == "CompleteCommit"


def test_partitions_that_do_not_exist_are_refused_and_then_none_is_added(shop: Any) -> None:
    producer_id, epoch = transactional(shop)
    asked = AddPartitionsToTxnTransaction(
        transactional_id="transactional",
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[AddPartitionsToTxnTopic(name="orders", partitions=[0, 7])],
    )
    answer = shop.ask(AddPartitionsToTxnRequest(transactions=[asked]), 5)
    codes = [p.partition_error_code for p in answer.results_by_transaction[0].topic_results[0].results_by_partition]
    assert [ErrorCode(code).name for code in codes] == ["OPERATION_NOT_ATTEMPTED", "UNKNOWN_TOPIC_OR_PARTITION"]
    assert state_of(shop) == "Empty"
