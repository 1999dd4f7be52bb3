"""OffsetCommit on its hot path and on the general way: the same answers, the same offsets, the same log."""

from typing import Any

import pytest

from headwater.base.errors import ErrorCode
from headwater.broker.context import ConnectionContext
from headwater.broker.coordinators.placement import partition_for
from headwater.broker.handlers.offset_commit_frames import PURE, read_commit
from headwater.server.dispatch import begin
from headwater.wire.headers import decode_response_header, encode_request_header
from headwater.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.wire.messages.find_coordinator import FindCoordinatorRequest
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

GROUP = "group"
VERSIONS = range(2, 11)


@pytest.fixture
def shop(lab: Any) -> Any:
    return opened(lab)


def opened(lab: Any) -> Any:
    """With a topic, a coordinator, and a group that has committed before."""
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=3, replication_factor=1)]))
    lab.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]))
    lab.ask(request(lab, 1), 9)
    lab.settle()
    return lab


def request(lab: Any, *offsets: int, **fields: Any) -> OffsetCommitRequest:
    parts = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_leader_epoch=4, committed_metadata="m" * index
        )
        for index, offset in enumerate(offsets)
    ]
    topic_id = lab.broker.image.ids_by_name["orders"]
    topic = OffsetCommitRequestTopic(name="orders", topic_id=topic_id, partitions=parts)
    return OffsetCommitRequest(**{"group_id": GROUP, "topics": [topic], **fields})


def frame(message: OffsetCommitRequest, version: int) -> bytes:
    return encode_request_header(8, version, 77, "tests") + b"".join(message.encode(version))


def at_once(lab: Any, message: OffsetCommitRequest, version: int = 9) -> bytes | None:
    data = memoryview(bytearray(frame(message, version)))
    answer = PURE.handle_frame(lab.broker, data, 8, len(data), version, 77)
    data[:] = bytes(len(data))
    return answer


def generally(lab: Any, message: OffsetCommitRequest, version: int = 9) -> bytes:
    data = memoryview(bytearray(frame(message, version)))
    begun = begin(lab.broker, ConnectionContext("127.0.0.1", 5000, "PLAINTEXT"), data)
    return b"".join(begun.frame(begun.result))


def offsets_partition(lab: Any) -> Any:
    return lab.broker.partition("__consumer_offsets", partition_for(GROUP, 50))


def hosted(lab: Any) -> Any:
    return lab.broker.groups.runtime.hosted[partition_for(GROUP, 50)]


def written(lab: Any) -> bytes:
    log = offsets_partition(lab).log
    data: bytes = log.active.open_file().pread(0, log.active.size_bytes)
    return data


@pytest.mark.parametrize("version", VERSIONS)
def test_both_ways_answer_write_and_remember_the_same(make_lab: Any, version: int) -> None:
    quick, slow = opened(make_lab()), opened(make_lab())
    for offsets in ([5], [6, 7, 8]):
        answer = at_once(quick, request(quick, *offsets), version)
        assert answer == generally(slow, request(slow, *offsets), version)
        assert answer is not None
        _, body_at = decode_response_header(answer[4:], 8, version)
        (topic,) = OffsetCommitResponse.decode(answer[4:], body_at, version).topics
        assert [(part.partition_index, part.error_code) for part in topic.partitions] == [
            (index, 0) for index in range(len(offsets))
        ]
    assert written(quick) == written(slow)
    assert hosted(quick).shard.offsets.durable() == hosted(slow).shard.offsets.durable()
    assert offsets_partition(quick).high_watermark == offsets_partition(slow).high_watermark == 5


def test_it_is_there_after_a_restart(shop: Any) -> None:
    assert at_once(shop, request(shop, 5, 6))
    before = hosted(shop).shard.offsets.durable()
    again = shop.restarted()
    again.settle()
    assert hosted(again).shard.offsets.durable() == before


@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": "new"},
        {"generation_id_or_member_epoch": 1},
        {"member_id": "somebody", "generation_id_or_member_epoch": 0},
        {"retention_time_ms": 1000},
        {"topics": []},
        {"topics": [OffsetCommitRequestTopic(name="orders", partitions=[])]},
        {
            "topics": [
                OffsetCommitRequestTopic(name="missing", partitions=[OffsetCommitRequestPartition(partition_index=0)])
            ]
        },
        {
            "topics": [
                OffsetCommitRequestTopic(name="orders", partitions=[OffsetCommitRequestPartition(partition_index=3)])
            ]
        },
        {
            "topics": [
                OffsetCommitRequestTopic(
                    name="orders",
                    partitions=[OffsetCommitRequestPartition(partition_index=0, committed_metadata="x" * 4097)],
                )
            ]
        },
        {"topics": [OffsetCommitRequestTopic(name="orders"), OffsetCommitRequestTopic(name="orders")]},
    ],
    ids=[
        "a new group",
        "a generation",
        "a member",
        "a retention",
        "no topic",
        "no partition",
        "an unknown topic",
        "an unknown partition",
        "long metadata",
        "two topics",
    ],
)
def test_what_is_not_plainly_fine_is_left_to_the_general_way(shop: Any, fields: dict[str, Any]) -> None:
    before, memory = written(shop), hosted(shop).shard.offsets.durable()
    assert at_once(shop, request(shop, 5, **fields), 4) is None
    assert (written(shop), hosted(shop).shard.offsets.durable()) == (before, memory)


@pytest.mark.parametrize("cut", [1, 2, 5, 20, 39])
def test_a_frame_that_is_cut_short_changes_nothing(shop: Any, cut: int) -> None:
    data = memoryview(bytearray(frame(request(shop, 5), 9)))
    before = written(shop)
    assert PURE.handle_frame(shop.broker, data, 8, len(data) - cut, 9, 77) is None
    assert written(shop) == before


@pytest.mark.parametrize("version", [1, 11])
def test_versions_that_are_not_served(shop: Any, version: int) -> None:
    data = memoryview(bytearray(frame(request(shop, 5), 9)))
    assert PURE.handle_frame(shop.broker, data, 8, len(data), version, 77) is None


def test_a_large_frame_is_left_to_the_general_way_which_has_limits(shop: Any) -> None:
    message = request(shop, 5)
    for count, is_read in ((1000, True), (100_000, False)):
        message.topics[0].partitions = message.topics[0].partitions[:1] * count
        data = memoryview(frame(message, 2))
        assert (read_commit(data, 8, len(data), 2, 77) is not None) == is_read


def test_before_the_coordinator_is_there(lab: Any) -> None:
    lab.ask(CreateTopicsRequest(topics=[CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]))
    assert at_once(lab, request(lab, 5)) is None


def test_while_it_is_loaded(shop: Any) -> None:
    hosted(shop).load()
    assert at_once(shop, request(shop, 5)) is None
    shop.settle()
    assert at_once(shop, request(shop, 5)) is not None


def test_nothing_is_answered_at_once_that_is_not_committed_at_once(shop: Any) -> None:
    partition = offsets_partition(shop)
    partition.confirm(partition.log.log_end_offset)  # there is another replica, which has no more than this
    assert at_once(shop, request(shop, 5)) is None
    waiting = shop.begin(request(shop, 5), 9)
    assert not waiting.done
    partition.is_alone = True  # as if the replica were gone, and its last word not yet counted
    assert at_once(shop, request(shop, 6)) is None, "somebody waits for what was written before"


def test_a_disk_that_is_full(shop: Any) -> None:
    before, memory = written(shop), hosted(shop).shard.offsets.durable()
    shop.disk.faults.free_bytes = 0
    assert at_once(shop, request(shop, 5)) is None
    assert (written(shop), hosted(shop).shard.offsets.durable()) == (before, memory)
    refused = shop.ask(request(shop, 5), 9)
    assert refused.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_a_member_of_a_group_that_commits_lives_on(shop: Any) -> None:
    """Its session is prolonged, which is a timer that the shell sets."""
    shard = hosted(shop).shard
    group = shard.state.groups[GROUP]
    noted: list[str] = []
    shard.classic.offsets_committed = lambda _group, member_id, _effects: noted.append(member_id)
    group.members["somebody"] = object()
    group.validate_offset_commit = lambda *_, **__: None
    assert at_once(shop, request(shop, 5, member_id="somebody")) is not None
    assert noted == ["somebody"]
