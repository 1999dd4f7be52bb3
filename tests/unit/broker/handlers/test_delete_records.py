"""DeleteRecords: the start of a partition moves forward, never back, and never beyond the high watermark."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.log.config import LogConfig
from headwater.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from headwater.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic


@pytest.fixture(name="lab")
def lab_with_records(make_lab: Any) -> Any:
    lab = make_lab()
    compacted = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    lab.ask(
        CreateTopicsRequest(
            topics=[
                CreatableTopic(name="clicks", num_partitions=2, replication_factor=1, assignments=[], configs=[]),
                CreatableTopic(name="keys", num_partitions=1, replication_factor=1, assignments=[], configs=compacted),
            ],
            timeout_ms=1000,
            validate_only=False,
        )
    )
    lab.append("clicks", 0, 10)
    lab.append("keys", 0, 10)
    return lab


def delete(lab: Any, topic: str, partition: int, offset: int, version: int = 2) -> tuple[int, str]:
    parts = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
    asked = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=parts)], timeout_ms=1000)
    (answer,) = lab.ask(asked, version).topics
    assert answer.name == topic
    (result,) = answer.partitions
    assert result.partition_index == partition
    return result.low_watermark, ErrorCode(result.error_code).name


@pytest.mark.parametrize("version", range(3))
def test_moves_the_start(lab: Any, version: int) -> None:
    assert delete(lab, "clicks", 0, 4, version) == (4, "NONE")
    assert lab.broker.partition("clicks", 0).log.log_start_offset == 4
    assert delete(lab, "clicks", 0, 2, version) == (4, "NONE")  # it does not go back


def test_minus_one_is_the_high_watermark(lab: Any) -> None:
    assert delete(lab, "clicks", 0, -1) == (10, "NONE")
    assert delete(lab, "clicks", 1, -1) == (0, "NONE")


@pytest.mark.parametrize("offset", [11, -2, 2**62])
def test_beyond_the_high_watermark_is_out_of_range(lab: Any, offset: int) -> None:
    assert delete(lab, "clicks", 0, offset) == (-1, "OFFSET_OUT_OF_RANGE")
    assert lab.broker.partition("clicks", 0).log.log_start_offset == 0


def test_unknown_topics_and_partitions(lab: Any) -> None:
    assert delete(lab, "nope", 0, 0) == (-1, "UNKNOWN_TOPIC_OR_PARTITION")
    assert delete(lab, "clicks", 9, 0) == (-1, "UNKNOWN_TOPIC_OR_PARTITION")


def test_a_compacted_topic_keeps_its_start(lab: Any) -> None:
    assert delete(lab, "keys", 0, 5) == (-1, "POLICY_VIOLATION")


def test_the_new_start_survives_a_restart(lab: Any) -> None:
    delete(lab, "clicks", 0, 4)
    assert lab.restarted().broker.partition("clicks", 0).log.log_start_offset == 4


def test_what_is_not_committed_yet_cannot_be_deleted(lab: Any) -> None:
    lab.broker.partition("clicks", 0).log.update_config(LogConfig(flush_messages=1))
    lab.broker.partition("clicks", 0).config_changed()
    lab.append("clicks", 0, 1)
    assert delete(lab, "clicks", 0, 11) == (-1, "OFFSET_OUT_OF_RANGE")
    lab.settle()
    assert delete(lab, "clicks", 0, 11) == (11, "NONE")
