"""A member of a consumer group: who it is, what it wants, what it has. Immutable; a change makes a new one.

A member's state says what stands between it and the target:

    STABLE                 nothing, if its epoch is that of the target
    UNREVOKED_PARTITIONS   it has not yet said that it gave up what it must; until then its epoch stays
    UNRELEASED_PARTITIONS  some of its target are still with others
    UNKNOWN                a later version of Kafka wrote this record; the member has to join again
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from headwater.coordinator.groups.assignors.spec import Partition, Partitions, in_partition_order
from headwater.coordinator.records.consumer_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    CurrentMemberAssignmentValue,
    CurrentTopicPartitions,
    MemberMetadataValue,
    TargetAssignmentMemberValue,
    TargetTopicPartition,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2

PartitionEpochs: TypeAlias = Mapping[Partition, int]
"""Partition -> the epoch at which the member got it."""

NO_EPOCHS: Final[PartitionEpochs] = MappingProxyType({})


class MemberState(IntEnum):
    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class ClassicMetadata(NamedTuple):
    """Only for a member that speaks the classic protocol in a consumer group."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]  # name and metadata, the preferred one first


@dataclass(frozen=True, slots=True)
class Member:
    member_id: str
    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    regex: str = ""  # empty: none
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None
    assigned: PartitionEpochs = field(default_factory=dict)
    pending_revocation: PartitionEpochs = field(default_factory=dict)

    @property
    def owned(self) -> set[Partition]:
        """All that nobody else may have: also what it must give up and has not."""
        return self.assigned.keys() | self.pending_revocation.keys()

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    # To and from records

    def metadata_value(self) -> MemberMetadataValue:
        classic = None
        if self.classic is not None:
            classic = ClassicMemberMetadata(
                session_timeout_ms=self.classic.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=name, metadata=metadata) for name, metadata in self.classic.protocols
                ],
            )
        return MemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=sorted(self.topic_names),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.server_assignor,
            classic_member_metadata=classic,
        )

    def with_metadata(self, value: MemberMetadataValue) -> "Member":
        classic = value.classic_member_metadata
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=None
            if classic is None
            else ClassicMetadata(
                classic.session_timeout_ms,
                tuple((protocol.name, bytes(protocol.metadata)) for protocol in classic.supported_protocols),
            ),
        )

    def current_assignment_value(self) -> CurrentMemberAssignmentValue:
        return CurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            assigned_partitions=_epochs_to_wire(self.assigned),
            partitions_pending_revocation=_epochs_to_wire(self.pending_revocation),
        )

    def with_current_assignment(self, value: CurrentMemberAssignmentValue) -> "Member":
        known = value.state in MemberState.__members__.values()
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=_epochs_from_wire(value.assigned_partitions, value.member_epoch),
            pending_revocation=_epochs_from_wire(value.partitions_pending_revocation, value.member_epoch),
        )


def by_topic(partitions: Iterable[Partition]) -> dict[bytes, list[int]]:
    """Topic id -> indexes, both in order: what goes out and into the log is the same for the same state."""
    topics: dict[bytes, list[int]] = {}
    for topic_id, partition in in_partition_order(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return topics


def target_to_value(target: Partitions) -> TargetAssignmentMemberValue:
    topics = by_topic(target).items()
    return TargetAssignmentMemberValue(
        topic_partitions=[TargetTopicPartition(topic_id=topic_id, partitions=indexes) for topic_id, indexes in topics]
    )


def target_from_value(value: TargetAssignmentMemberValue) -> Partitions:
    return frozenset((topic.topic_id, partition) for topic in value.topic_partitions for partition in topic.partitions)


def _epochs_to_wire(epochs: PartitionEpochs) -> list[CurrentTopicPartitions]:
    return [
        CurrentTopicPartitions(
            topic_id=topic_id,
            partitions=indexes,
            assignment_epochs=[epochs[topic_id, partition] for partition in indexes],
        )
        for topic_id, indexes in by_topic(epochs).items()
    ]


def _epochs_from_wire(topics: Iterable[CurrentTopicPartitions], member_epoch: int) -> PartitionEpochs:
    epochs: dict[Partition, int] = {}
    for topic in topics:
        known = topic.assignment_epochs
        if known is None or len(known) != len(topic.partitions):  # Kafka before 4.3
            known = [max(member_epoch, 0)] * len(topic.partitions)
        for partition, epoch in zip(topic.partitions, known, strict=True):
            epochs[topic.topic_id, partition] = epoch
    return epochs
