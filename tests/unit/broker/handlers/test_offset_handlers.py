"""ListOffsets, OffsetForLeaderEpoch and FindCoordinator."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from headwater.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = range(-1, -7, -1)


@pytest.fixture(name="lab")
def lab_with_records(make_lab: Any) -> Any:
    """Partition 0 of `clicks` has records 0-9, three batches a second apart; partition 1 is empty."""
    lab = make_lab()
    topic = CreatableTopic(name="clicks", num_partitions=2, replication_factor=1, assignments=[], configs=[])
    lab.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000, validate_only=False))
    for count in (4, 3, 3):
        lab.append("clicks", 0, count)
        lab.clock.advance(1000)
    return lab


def list_offset(
    lab: Any, timestamp: int, partition: int = 0, version: int = 11, *, topic: str = "clicks", epoch: int = -1
) -> tuple[str, int, int]:
    asked = ListOffsetsPartition(partition_index=partition, current_leader_epoch=epoch, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=topic, partitions=[asked])], timeout_ms=100
    )
    ((answer,),) = (entry.partitions for entry in lab.ask(request, version).topics)
    assert answer.partition_index == partition
    return ErrorCode(answer.error_code).name, answer.offset, answer.timestamp


@pytest.mark.parametrize("version", range(1, 12))
def test_the_ends_in_every_version(lab: Any, version: int) -> None:
    assert list_offset(lab, LATEST, version=version) == ("NONE", 10, -1)
    assert list_offset(lab, EARLIEST, version=version) == ("NONE", 0, -1)
    assert list_offset(lab, LATEST, 1, version) == ("NONE", 0, -1)


def test_earliest_follows_the_start(lab: Any) -> None:
    lab.broker.partition("clicks", 0).log.delete_records_before(5)
    assert list_offset(lab, EARLIEST) == ("NONE", 5, -1)
    assert list_offset(lab, EARLIEST_LOCAL) == ("NONE", 5, -1)


def test_by_time(lab: Any) -> None:
    start = lab.clock.now_ms() - 3000
    assert list_offset(lab, 0) == ("NONE", 0, start)
    assert list_offset(lab, start) == ("NONE", 0, start)
    assert list_offset(lab, start + 1) == ("NONE", 4, start + 1000)
    assert list_offset(lab, start + 2000) == ("NONE", 7, start + 2000)
    assert list_offset(lab, start + 2001) == ("NONE", -1, -1)
    assert list_offset(lab, start, 1) == ("NONE", -1, -1)


def test_the_largest_timestamp(lab: Any) -> None:
    name, offset, timestamp = list_offset(lab, MAX_TIMESTAMP)
    assert (name, timestamp) == ("NONE", lab.clock.now_ms() - 1000)
    assert 7 <= offset <= 9
    assert list_offset(lab, MAX_TIMESTAMP, 1) == ("NONE", -1, -1)


def test_tiers_that_are_not_here(lab: Any) -> None:
    assert list_offset(lab, LATEST_TIERED)[:2] == ("NONE", -1)
    assert list_offset(lab, PENDING_UPLOAD)[:2] == ("NONE", -1)


@pytest.mark.parametrize(
    ("timestamp", "version"), [(MAX_TIMESTAMP, 6), (EARLIEST_LOCAL, 7), (LATEST_TIERED, 8), (PENDING_UPLOAD, 10)]
)
def test_a_special_timestamp_before_its_version(lab: Any, timestamp: int, version: int) -> None:
    assert list_offset(lab, timestamp, version=version)[0] == "UNSUPPORTED_VERSION"


def test_unknown_partitions_and_wrong_epochs(lab: Any) -> None:
    assert list_offset(lab, LATEST, 9)[0] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert list_offset(lab, LATEST, topic="nope")[0] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert list_offset(lab, LATEST, epoch=0)[0] == "NONE"
    assert list_offset(lab, LATEST, epoch=5)[0] == "UNKNOWN_LEADER_EPOCH"


def test_a_partition_that_is_asked_for_twice(lab: Any) -> None:
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name="clicks", partitions=[asked, asked])]
    )
    (topic,) = lab.ask(request).topics
    assert [ErrorCode(part.error_code).name for part in topic.partitions] == ["INVALID_REQUEST"] * 2


def epoch_end(lab: Any, epoch: int, *, partition: int = 0, current: int = -1, version: int = 4) -> tuple[str, int, int]:
    asked = OffsetForLeaderPartition(partition=partition, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic="clicks", partitions=[asked])]
    )
    ((answer,),) = (topic.partitions for topic in lab.ask(request, version).topics)
    assert answer.partition == partition
    return ErrorCode(answer.error_code).name, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", range(2, 5))
def test_where_an_epoch_ends(lab: Any, version: int) -> None:
    assert epoch_end(lab, 0, version=version) == ("NONE", 0, 10)
    assert epoch_end(lab, 3, version=version) == ("NONE", -1, -1)


def test_epochs_of_unknown_partitions_and_leaders(lab: Any) -> None:
    assert epoch_end(lab, 0, partition=9)[0] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert epoch_end(lab, 0, current=7)[0] == "UNKNOWN_LEADER_EPOCH"


@pytest.mark.parametrize("version", range(7))
def test_the_first_to_look_for_a_coordinator_makes_its_topic(lab: Any, version: int) -> None:
    request = FindCoordinatorRequest(key="group", key_type=0, coordinator_keys=["one", "two"])
    answer = lab.ask(request, version)
    assert len(lab.broker.image.topic("__consumer_offsets").partitions) == 50
    if version < 4:
        assert (answer.error_code, answer.node_id, answer.host, answer.port) == (0, 1, "host1", 9092)
        return
    assert [(c.key, c.error_code, c.node_id) for c in answer.coordinators] == [("one", 0, 1), ("two", 0, 1)]


def test_share_groups_have_no_coordinator(lab: Any) -> None:
    answer = lab.ask(FindCoordinatorRequest(key_type=2, coordinator_keys=["one"]))
    assert ErrorCode(answer.coordinators[0].error_code) is ErrorCode.INVALID_REQUEST
