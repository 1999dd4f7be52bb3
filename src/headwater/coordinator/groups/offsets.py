"""Committed offsets of all groups of a shard, and those that wait for the end of a transaction.

Every change is a record, and `apply` is the one place that makes it: requests write a record and apply it, loading
applies what it reads. So memory and log cannot drift apart. Pending offsets are kept per producer; a commit marker
moves them over, an abort marker drops them. Where plain and transactional commits of one partition mix, the one written
last wins, so each offset knows the order in which it was written (`sequence`).

Invariants: nothing is kept empty (no group without topics, no topic without partitions); `_open[group]` names exactly
the producers with pending offsets of that group.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from headwater.base.ids import NO_TOPIC_ID
from headwater.coordinator.effects import CoordinatorRecord, Producer
from headwater.coordinator.groups.group import Group
from headwater.coordinator.records.group_records import (
    OffsetCommitValue,
    offset_commit_tombstone,
)

NO_EXPIRY: Final = -1

Place: TypeAlias = tuple[str, int]
"""A partition by its topic's name."""

Step: TypeAlias = tuple[str, Place | None]
"""Of a walk over the groups: a group with one of its places, or the group itself."""


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int  # -1 when the client named none
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int  # -1 unless the client named its own retention
    topic_id: bytes  # zeros when it was not known
    sequence: int


class _Table:
    """group -> topic -> partition -> offset, without empty levels."""

    __slots__ = ("groups",)

    def __init__(self) -> None:
        self.groups: dict[str, dict[str, dict[int, CommittedOffset]]] = {}

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return self.groups.get(group, {}).get(topic, {}).get(partition)

    def put(self, group: str, topic: str, partition: int, offset: CommittedOffset) -> None:
        self.groups.setdefault(group, {}).setdefault(topic, {})[partition] = offset

    def remove(self, group: str, topic: str, partition: int) -> None:
        topics = self.groups.get(group, {})
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self.groups.pop(group, None)

    def of_topic(self, group: str, topic: str) -> dict[int, CommittedOffset]:
        return self.groups.get(group, {}).get(topic, {})

    def entries(self, group: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        for topic, partitions in self.groups.get(group, {}).items():
            for partition, offset in partitions.items():
                yield topic, partition, offset


class Offsets:
    def __init__(self) -> None:
        self._committed = _Table()
        self._pending: dict[int, _Table] = {}  # by producer id
        self._open: dict[str, dict[int, None]] = {}  # group -> producer ids, in order
        self._sequence = 0

    # Changes

    def note(
        self,
        group: str,
        topic: str,
        topic_id: bytes,
        parts: Iterable[tuple[int, int, int, str]],
        committed_ms: int,
        expire_ms: int = NO_EXPIRY,
    ) -> None:
        """Commits (partition, offset, leader epoch, metadata), whose records are written: the one place where that is
        done to memory.
        """
        partitions = self._committed.groups.setdefault(group, {}).setdefault(topic, {})
        sequence = self._sequence
        for partition, offset, leader_epoch, metadata in parts:
            sequence += 1
            partitions[partition] = CommittedOffset(
                offset, leader_epoch, metadata, committed_ms, expire_ms, topic_id, sequence
            )
        self._sequence = sequence

    def delete(self, group: str, topic: str, partition: int) -> CoordinatorRecord:
        """Also what is pending, so that the end of a transaction does not bring it back."""
        self.apply(group, topic, partition, None, None)
        return offset_commit_tombstone(group, topic, partition)

    def group_tombstones(self, group: str) -> list[CoordinatorRecord]:
        """What `delete_group` writes."""
        return [offset_commit_tombstone(group, topic, partition) for topic, partition in self.partitions(group)]

    def delete_group(self, group: str) -> list[CoordinatorRecord]:
        return [self.delete(group, topic, partition) for topic, partition in self.partitions(group)]

    def apply(
        self, group: str, topic: str, partition: int, value: OffsetCommitValue | None, producer: Producer | None
    ) -> None:
        if value is None:
            self._committed.remove(group, topic, partition)
            for producer_id in list(self._open.get(group, ())):
                self._pending[producer_id].remove(group, topic, partition)
                self._forget_if_empty(producer_id, group)
            return
        if producer is None:
            part = partition, value.offset, value.leader_epoch, value.metadata
            self.note(group, topic, value.topic_id, (part,), value.commit_timestamp, value.expire_timestamp)
            return
        self._sequence += 1
        offset = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            self._sequence,
        )
        self._pending.setdefault(producer.producer_id, _Table()).put(group, topic, partition, offset)
        self._open.setdefault(group, {})[producer.producer_id] = None

    def end_transaction(self, producer_id: int, *, committed: bool) -> None:
        pending = self._pending.pop(producer_id, None)
        if pending is None:
            return
        for group in pending.groups:
            self._close(producer_id, group)
            if not committed:
                continue
            for topic, partition, offset in pending.entries(group):
                known = self._committed.get(group, topic, partition)
                if known is None or known.sequence < offset.sequence:
                    self._committed.put(group, topic, partition, offset)

    # Questions

    def get(self, group: str, topic: str, partition: int) -> CommittedOffset | None:
        return self._committed.get(group, topic, partition)

    def of_group(self, group: str) -> dict[str, dict[int, CommittedOffset]]:
        """Committed, by topic and partition. To be read only."""
        return self._committed.groups.get(group, {})

    def is_pending(self, group: str, topic: str, partition: int) -> bool:
        """Whether an open transaction may still change this one."""
        return any(
            self._pending[producer_id].get(group, topic, partition) is not None
            for producer_id in self._open.get(group, ())
        )

    def has_open_transactions(self, group: str) -> bool:
        return group in self._open

    def partitions(self, group: str) -> list[tuple[str, int]]:
        """All that have a committed or a pending offset, each once."""
        names = dict.fromkeys((topic, partition) for topic, partition, _ in self._committed.entries(group))
        for producer_id in self._open.get(group, ()):
            names |= dict.fromkeys(
                (topic, partition) for topic, partition, _ in self._pending[producer_id].entries(group)
            )
        return list(names)

    def has_any(self, group: str) -> bool:
        """Whether there is something that keeps the group."""
        return group in self._committed.groups or group in self._open

    # Walks, which others may interrupt: what changes meanwhile is seen, and no offset is named that is not there

    def places(self, group: str) -> Iterator[Place]:
        for topic in list(self._committed.groups.get(group, ())):
            for partition in list(self._committed.of_topic(group, topic)):
                yield topic, partition

    def is_due(self, group: Group, place: Place, now_ms: int, retention_ms: int) -> bool:
        """Whether what is committed there has been kept long enough."""
        offset = self._committed.get(group.group_id, *place)
        return (
            offset is not None
            and _is_past_retention(offset, group, now_ms, retention_ms)
            and not group.is_subscribed_to(place[0])
            and not self.is_pending(group.group_id, *place)
        )

    def of_deleted_topic(self, topic: str, topic_id: bytes) -> Iterator[Step]:
        """What was committed to that topic, and not to a later one of the same name; before that, each group alone."""
        for group in dict.fromkeys([*self._committed.groups, *self._open]):
            yield group, None
            partitions = (partition for table in self._tables(group) for partition in table.of_topic(group, topic))
            for partition in dict.fromkeys(partitions):
                if self._is_of_topic(group, topic, partition, topic_id):
                    yield group, (topic, partition)

    def durable(self) -> tuple[object, object]:
        """What must be the same after loading. For tests."""
        return _without_sequence(self._committed), {
            key: _without_sequence(table) for key, table in self._pending.items()
        }

    # Inside

    def _tables(self, group: str) -> list[_Table]:
        return [self._committed, *(self._pending[producer_id] for producer_id in self._open.get(group, ()))]

    def _is_of_topic(self, group: str, topic: str, partition: int, topic_id: bytes) -> bool:
        offsets = [table.get(group, topic, partition) for table in self._tables(group)]
        return any(offset is not None and offset.topic_id in (NO_TOPIC_ID, topic_id) for offset in offsets)

    def _forget_if_empty(self, producer_id: int, group: str) -> None:
        table = self._pending[producer_id]
        if group not in table.groups:
            self._close(producer_id, group)
        if not table.groups:
            del self._pending[producer_id]

    def _close(self, producer_id: int, group: str) -> None:
        producers = self._open.get(group, {})
        producers.pop(producer_id, None)
        if not producers:
            self._open.pop(group, None)


def _is_past_retention(offset: CommittedOffset, group: Group, now_ms: int, retention_ms: int) -> bool:
    base_ms = group.offsets_expire_from_ms(offset.commit_timestamp_ms)
    if base_ms is None:
        return False
    if offset.expire_timestamp_ms != NO_EXPIRY:
        return now_ms >= offset.expire_timestamp_ms
    return now_ms - base_ms >= retention_ms


def _without_sequence(table: _Table) -> dict[tuple[str, str, int], tuple[object, ...]]:
    return {
        (group, topic, partition): tuple(offset[:-1])
        for group in table.groups
        for topic, partition, offset in table.entries(group)
    }
