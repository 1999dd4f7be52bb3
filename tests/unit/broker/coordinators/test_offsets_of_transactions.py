"""Offsets that a transaction commits count with its marker, and are told when that marker is committed."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.coordinators.placement import partition_for
from headwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.end_txn import EndTxnRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.init_producer_id import InitProducerIdRequest
from headwater.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from headwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

GROUP, ID = "group", "transactional"
NONE = -1
INT64_MAX = 2**63 - 1


@pytest.fixture(name="producer")
def producer_fixture(lab: Any) -> Any:
    """With one offset in an open transaction."""
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]))
    lab.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]))
    lab.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]))
    producer = lab.ask(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000))
    part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id=GROUP,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name="orders", partitions=[part])],
    )
    assert lab.ask(request).topics[0].partitions[0].error_code == 0
    return producer


def end(lab: Any, producer: Any) -> None:
    request = EndTxnRequest(
        transactional_id=ID,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=True,
    )
    assert lab.ask(request).error_code == 0
    lab.settle()


def begin_to_read(lab: Any) -> Any:
    topic = OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
    return lab.begin(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])]), 8)


def offset_in(response: Any) -> int:
    offset: int = response.groups[0].topics[0].partitions[0].committed_offset
    return offset


def test_an_offset_is_not_told_before_its_marker_is_on_all_replicas(lab: Any, producer: Any) -> None:
    """A leader that dies before that takes the marker with it:
    whoever asks the next one would see the offset go back.
    """
    assert offset_in(begin_to_read(lab)) == NONE
    partition = lab.broker.partition("__consumer_offsets", partition_for(GROUP, 50))
    partition.confirm(partition.log.log_end_offset)
    end(lab, producer)
    reading = begin_to_read(lab)
    assert not getattr(reading, "done", True)
    partition.confirm(INT64_MAX)
    lab.settle()
    assert offset_in(reading.response) == 5


def test_offsets_are_added_to_a_transaction_though_nobody_has_looked_for_the_groups_coordinator(lab: Any) -> None:
    """librdkafka asks for that coordinator only after this answer, and would ask here for ever."""
    lab.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]))
    producer = lab.ask(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000))
    request = AddOffsetsToTxnRequest(
        transactional_id=ID,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id=GROUP,
    )
    assert lab.ask(request).error_code == 0
    assert "__consumer_offsets" in lab.broker.image.ids_by_name


def test_offsets_are_not_added_while_their_topic_cannot_be_made(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.ask(FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]))
    problem = KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR)
    monkeypatch.setattr(lab.broker.groups.runtime, "ensure_topic", lambda done: done(problem))
    request = AddOffsetsToTxnRequest(transactional_id=ID, producer_id=0, producer_epoch=0, group_id=GROUP)
    assert ErrorCode(lab.ask(request).error_code) is ErrorCode.COORDINATOR_NOT_AVAILABLE
