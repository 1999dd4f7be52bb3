"""OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete, for groups of both types.

What the cluster does not have is refused here too (unknown topic, partition or topic id), whatever the group says. A
commit is taken as a whole or not at all, but for metadata that is too long: that fails for its partition alone. So one
that is larger than the log takes fails for all, before anything is changed. A commit to a group that does not exist
makes one, if it comes without a generation: a simple group, which has offsets and never members.
"""

from collections.abc import Iterator
from typing import NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import NO_TOPIC_ID
from headwater.coordinator.effects import CoordinatorRecord, Producer
from headwater.coordinator.groups.classic.group import ClassicGroup
from headwater.coordinator.groups.context import GroupContext, ShardState
from headwater.coordinator.groups.group import CommitValidator, Group
from headwater.coordinator.groups.offsets import NO_EXPIRY, Offsets
from headwater.coordinator.records.group_records import OffsetCommitValue, offset_commit_record, offset_commit_tombstone
from headwater.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from headwater.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from headwater.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

COMMIT_BY_ID_SINCE = 10
TXN_COMMIT_BY_ID_SINCE = 6
GROUP_ID_NOT_FOUND_SINCE = 9  # of OffsetCommit; before that, an unknown group had an illegal generation
EXPIRY_MAX_MS = (1 << 63) - 1  # what a record can say: whoever wants to keep offsets for longer gets that


class _Wanted(NamedTuple):
    """One partition of a commit, with what is already known to be wrong with it."""

    topic: str
    topic_id: bytes
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
    code: ErrorCode


class OffsetRequests:
    def __init__(self, state: ShardState, offsets: Offsets) -> None:
        self._state = state
        self._offsets = offsets

    def commit(
        self, context: GroupContext, request: OffsetCommitRequest, now_ms: int
    ) -> tuple[OffsetCommitResponse, list[CoordinatorRecord]]:
        by_id = context.api_version >= COMMIT_BY_ID_SINCE
        wanted = list(self._resolve(request.topics, by_id=by_id))
        records: list[CoordinatorRecord] = []
        error = ErrorCode.NONE
        retention_ms = request.retention_time_ms
        expire_timestamp_ms = NO_EXPIRY if retention_ms < 0 else min(now_ms + retention_ms, EXPIRY_MAX_MS)
        try:
            validator = self._validate_commit(context, request)
            records = self._write(request.group_id, wanted, validator, now_ms, expire_timestamp_ms, None)
        except KafkaError as refused:
            error = refused.code
        codes = iter([each.code or error for each in wanted])
        response = OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=next(codes))
                        for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
        return response, records

    def commit_in_transaction(
        self, context: GroupContext, request: TxnOffsetCommitRequest, now_ms: int
    ) -> tuple[TxnOffsetCommitResponse, list[CoordinatorRecord]]:
        wanted = list(self._resolve(request.topics, by_id=context.api_version >= TXN_COMMIT_BY_ID_SINCE))
        producer = Producer(request.producer_id, request.producer_epoch)
        records: list[CoordinatorRecord] = []
        error = ErrorCode.NONE
        try:
            validator = self._validate_txn_commit(context, request)
            records = self._write(request.group_id, wanted, validator, now_ms, NO_EXPIRY, producer)
        except KafkaError as refused:
            error = refused.code
            if error == ErrorCode.STALE_MEMBER_EPOCH:  # this API does not know it
                error = ErrorCode.ILLEGAL_GENERATION
        codes = iter([each.code or error for each in wanted])
        response = TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=next(codes))
                        for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
        return response, records

    def delete(self, request: OffsetDeleteRequest) -> tuple[OffsetDeleteResponse, list[CoordinatorRecord]]:
        records: list[CoordinatorRecord] = []
        try:
            group = self._existing(request.group_id)
            group.validate_offset_delete()
        except KafkaError as error:
            return OffsetDeleteResponse(error_code=error.code), records
        response = OffsetDeleteResponse()
        gone: dict[tuple[str, int], None] = {}
        for topic in request.topics:
            answer = OffsetDeleteResponseTopic(name=topic.name)
            count = self._state.topics.partition_count(topic.name) or 0
            subscribed = group.is_subscribed_to(topic.name)
            for part in topic.partitions:
                index = part.partition_index
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if subscribed else ErrorCode.NONE
                if not 0 <= index < count:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                answer.partitions.append(OffsetDeleteResponsePartition(partition_index=index, error_code=code))
                if code is ErrorCode.NONE and self._has_any(request.group_id, topic.name, index):
                    gone[topic.name, index] = None
            response.topics.append(answer)
        if not self._state.fits([offset_commit_tombstone(request.group_id, *place) for place in gone]):
            return OffsetDeleteResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR), records
        return response, [self._offsets.delete(request.group_id, *place) for place in gone]

    # Inside

    def _resolve(
        self, topics: list[OffsetCommitRequestTopic] | list[TxnOffsetCommitRequestTopic], *, by_id: bool
    ) -> Iterator[_Wanted]:
        known = self._state.topics
        length_max = self._state.settings.offset_metadata_length_max
        for topic in topics:
            name = known.names.get(topic.topic_id) if by_id else topic.name
            count = None if name is None else known.partition_count(name)
            unknown = ErrorCode.UNKNOWN_TOPIC_ID if name is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            topic_id = NO_TOPIC_ID if name is None else known.ids.get(name, NO_TOPIC_ID)
            for part in topic.partitions:
                code = ErrorCode.NONE
                if count is None or not 0 <= part.partition_index < count:
                    code = unknown
                elif part.committed_metadata is not None and len(part.committed_metadata) > length_max:
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                yield _Wanted(name or "", topic_id, part, code)

    def _write(
        self,
        group_id: str,
        wanted: list[_Wanted],
        validator: CommitValidator | None,
        now_ms: int,
        expire_timestamp_ms: int,
        producer: Producer | None,
    ) -> list[CoordinatorRecord]:
        """All that is in order so far, if the group lets each of them through."""
        good = [each for each in wanted if each.code == ErrorCode.NONE]
        if validator is not None:
            for each in good:
                validator(each.topic, each.topic_id, each.partition.partition_index)
        by_id = producer is None and expire_timestamp_ms == NO_EXPIRY
        values = [_value(each, now_ms, expire_timestamp_ms, by_id=by_id) for each in good]
        places = [(each.topic, each.partition.partition_index) for each in good]
        records = [offset_commit_record(group_id, *place, value) for place, value in zip(places, values, strict=True)]
        if not self._state.fits(records):
            raise KafkaError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
        if good and group_id not in self._state.groups:
            self._state.groups[group_id] = ClassicGroup(group_id)
        for place, value in zip(places, values, strict=True):
            self._offsets.apply(group_id, *place, value, producer)
        return records

    def _validate_commit(self, context: GroupContext, request: OffsetCommitRequest) -> CommitValidator | None:
        epoch = request.generation_id_or_member_epoch
        group = self._state.groups.get(request.group_id)
        if group is None:
            if epoch < 0:
                return None
            by_new_rules = context.api_version >= GROUP_ID_NOT_FOUND_SINCE
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND if by_new_rules else ErrorCode.ILLEGAL_GENERATION)
        return group.validate_offset_commit(
            context, request.member_id, request.group_instance_id, epoch, transactional=False
        )

    def _validate_txn_commit(self, context: GroupContext, request: TxnOffsetCommitRequest) -> CommitValidator | None:
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        epoch = request.generation_id_or_member_epoch
        group = self._state.groups.get(request.group_id)
        if group is None:
            if epoch < 0:
                return None
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        return group.validate_offset_commit(
            context, request.member_id, request.group_instance_id, epoch, transactional=True
        )

    def _existing(self, group_id: str) -> Group:
        if not group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID)
        group = self._state.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
        return group

    def _has_any(self, group_id: str, topic: str, partition: int) -> bool:
        return self._offsets.get(group_id, topic, partition) is not None or self._offsets.is_pending(
            group_id, topic, partition
        )


def _value(wanted: _Wanted, now_ms: int, expire_timestamp_ms: int, *, by_id: bool) -> OffsetCommitValue:
    """Kafka leaves the topic's id out in transactions; and the version with room for an expiry has none for it, nor for
    the epoch.
    """
    part = wanted.partition
    has_epoch = expire_timestamp_ms == NO_EXPIRY
    return OffsetCommitValue(
        offset=part.committed_offset,
        leader_epoch=part.committed_leader_epoch if has_epoch else -1,
        metadata=part.committed_metadata or "",
        commit_timestamp=now_ms,
        expire_timestamp=expire_timestamp_ms,
        topic_id=wanted.topic_id if by_id else NO_TOPIC_ID,
    )
