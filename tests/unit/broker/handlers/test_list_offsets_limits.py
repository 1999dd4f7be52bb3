"""ListOffsets: requests that nobody sends in good faith."""

import time
from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headwater.wire.messages.metadata import MetadataRequest, MetadataRequestTopic


def ask(lab: Any, parts: list[ListOffsetsPartition], version: int = 11) -> list[Any]:
    lab.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]))
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="orders", partitions=parts)])
    return list(lab.ask(request, version).topics[0].partitions)


def test_many_partitions_and_a_duplicate_do_not_stop_the_broker(lab: Any) -> None:
    """Counting each of a hundred thousand against all the others took minutes, with the loop standing still."""
    parts = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(100_000)]
    began_s = time.thread_time()  # of the processor's time: that of the wall is also others'
    answers = ask(lab, [*parts, ListOffsetsPartition(partition_index=7, timestamp=-1)])
    assert time.thread_time() - began_s < 30
    codes = {a.partition_index: a.error_code for a in answers}
    assert codes[0] == 0
    assert codes[7] == ErrorCode.INVALID_REQUEST
    assert codes[8] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("timestamp", [-7, -100, -(2**63)])
def test_a_special_timestamp_that_nobody_knows(lab: Any, timestamp: int) -> None:
    (answer,) = ask(lab, [ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    assert (answer.error_code, answer.offset, answer.timestamp) == (ErrorCode.UNSUPPORTED_VERSION, -1, -1)


def test_an_index_that_cannot_be_read_is_a_storage_error_of_its_partition(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.ask(MetadataRequest(topics=[MetadataRequestTopic(name="orders")]))
    lab.append("orders", 0, 1)

    def broken(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(type(lab.broker.partition("orders", 0).log), "offset_for_timestamp", broken)
    (answer,) = ask(lab, [ListOffsetsPartition(partition_index=0, timestamp=5)])
    assert (answer.error_code, answer.offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
