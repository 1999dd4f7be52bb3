"""OffsetCommit on its hot path: one topic, all of it plainly fine, written and committed in one go, answered at once.

As with Produce, a request is given up (None) before anything was changed whenever it is not of that shape, and
`offset_commit.handle` runs it. What is done with bytes stands here twice: `read_commit` and `append_commit` below, by
way of the general codecs, and the same in C (`server/native/commit.c`), which hands on what it does not know; a test
compares both. No state.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from headwater.broker.coordinators.batches import build_decision
from headwater.broker.coordinators.group_coordinator import AppendCommit
from headwater.coordinator.groups.plain_commits import Part
from headwater.coordinator.records.group_records import OffsetCommitValue, offset_commit_record
from headwater.replication.partition import Partition
from headwater.wire.errors import DecodeError
from headwater.wire.headers import decode_request_header, response_header_bytes
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

Read: TypeAlias = tuple[str, int, str, str | None, str | bytes, list[Part], bytes]
"""Group, generation, member, its instance, the topic (its id since version 10), what is committed,
and the answer if all goes well.
"""

ReadCommit: TypeAlias = Callable[[memoryview, int, int, int, int], Read | None]

MayCommit: TypeAlias = Callable[[str, str | bytes], bool]
"""Whether the rights of a connection allow a commit of the group for the topic, by its name or its id."""

KEY: Final = 8
_HEAD_BYTES: Final = 8  # API key, version, correlation id
_FIRST, _FIRST_TOPIC_ID, _LAST = 2, 10, 10
_BYTES_MAX: Final = 1 << 20  # of what is read here: the general way refuses what would take too many objects


class CommitFrames:
    def __init__(self, read: ReadCommit, append: AppendCommit) -> None:
        self._read = read
        self._append = append

    def handle_frame(
        self, broker: "Broker", frame: memoryview, at: int, end: int, version: int, correlation_id: int
    ) -> bytes | None:
        """The whole answer, framed, or None: take the general way. `at` is behind the correlation id."""
        read = self._read(frame, at, end, version, correlation_id)
        if read is None:
            return None
        group_id, epoch, member_id, instance_id, topic, parts, answer = read
        if broker.groups.commit_at_once(version, self._append, group_id, epoch, member_id, instance_id, topic, parts):
            return answer
        return None

    def handle_frame_of(
        self,
        may_commit: MayCommit,
        broker: "Broker",
        frame: memoryview,
        at: int,
        end: int,
        version: int,
        correlation_id: int,
    ) -> bytes | None:
        """The same for a connection whose user has access rules: whom they do not allow it takes the general way, which
        says so.
        """
        read = self._read(frame, at, end, version, correlation_id)
        if read is None:
            return None
        group_id, epoch, member_id, instance_id, topic, parts, answer = read
        if may_commit(group_id, topic) and broker.groups.commit_at_once(
            version, self._append, group_id, epoch, member_id, instance_id, topic, parts
        ):
            return answer
        return None


def read_commit(frame: memoryview, at: int, end: int, version: int, correlation_id: int) -> Read | None:
    """None for what is not of the shape, too large, or no request at all."""
    if not _FIRST <= version <= _LAST or end - at > _BYTES_MAX:
        return None
    try:
        header = decode_request_header(frame[at - _HEAD_BYTES : end])
        request = OffsetCommitRequest.decode(frame[at - _HEAD_BYTES : end], header.body_at, version)
    except DecodeError:
        return None
    if request.retention_time_ms >= 0 or len(request.topics) != 1:
        return None
    (topic,) = request.topics
    parts = [
        (part.partition_index, part.committed_offset, part.committed_leader_epoch, part.committed_metadata or "")
        for part in topic.partitions
    ]
    if not parts:
        return None
    named = topic.topic_id if version >= _FIRST_TOPIC_ID else topic.name
    answered = [OffsetCommitResponsePartition(partition_index=part[0], error_code=0) for part in parts]
    answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answered)
    body = b"".join(OffsetCommitResponse(topics=[answer]).encode(version))
    whole = response_header_bytes(KEY, version, correlation_id) + body
    return (
        request.group_id,
        request.generation_id_or_member_epoch,
        request.member_id,
        request.group_instance_id,
        named,
        parts,
        len(whole).to_bytes(4) + whole,
    )


def append_commit(
    partition: Partition, group_id: str, topic: str, topic_id: bytes, parts: list[Part], now_ms: int
) -> int:
    """The offset of the last record. Raises what the log says."""
    records = [
        offset_commit_record(
            group_id,
            topic,
            index,
            OffsetCommitValue(
                offset=offset, leader_epoch=leader_epoch, metadata=metadata, commit_timestamp=now_ms, topic_id=topic_id
            ),
        )
        for index, offset, leader_epoch, metadata in parts
    ]
    return partition.append_internal(memoryview(build_decision(records, now_ms, None)), now_ms).last_offset


PURE: Final = CommitFrames(read_commit, append_commit)
