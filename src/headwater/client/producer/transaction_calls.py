"""The requests of transactions, one function each: to the coordinator of a transactional id, or of a group. No state.

What fails for the moment is tried again until the session's time is up; the rest is raised as a KafkaError.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headwater.base.errors import ErrorCode, UserError
from headwater.base.ids import TopicPartition
from headwater.client.errors import raise_for
from headwater.client.reactor.link import Link
from headwater.client.session import COORDINATOR_MOVED, KeyType, Session
from headwater.wire.messages import txn_offset_commit as offset_messages
from headwater.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from headwater.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from headwater.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from headwater.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from headwater.wire.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

_AGAIN: Final = COORDINATOR_MOVED | {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.REQUEST_TIMED_OUT}
_OFFSETS_AGAIN: Final = COORDINATOR_MOVED | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.REQUEST_TIMED_OUT}
_INIT_MAX: Final = 5  # later versions are for two-phase commit
_ADD_PARTITIONS_MAX: Final = 3  # later versions are for brokers
_OLD_END_MAX: Final = 4
_OLD_OFFSETS_MAX: Final = 4
_OFFSETS_BY_NAME_MAX: Final = 5
_NEW_TRANSACTIONS: Final = 2  # the level of the feature


class GroupMember(NamedTuple):
    """Who commits offsets: a group and, if it is a member of it, which."""

    group_id: str
    generation: int = -1  # or the member epoch
    member_id: str = ""
    group_instance_id: str | None = None

    @classmethod
    def of(cls, group: Any) -> "GroupMember":
        """From a group's name, or from what `consumer.group_metadata()` gives."""
        if isinstance(group, str):
            return cls(group)
        name = getattr(group, "group_id", None)
        if not isinstance(name, str):
            raise UserError(
                f"{group!r} is no group",
                "offsets belong to a group: its name, or a consumer's group_metadata()",
            )
        generation = getattr(group, "generation", getattr(group, "generation_id", -1))
        return cls(name, generation, getattr(group, "member_id", ""), getattr(group, "group_instance_id", None))


def uses_new_protocol(link: Link) -> bool:
    """Whether the coordinator's cluster has finalized the transactions of KIP-890."""
    return (
        link.features.get("transaction.version", 0) >= _NEW_TRANSACTIONS
        and link.version_for(EndTxnRequest()) > _OLD_END_MAX
    )


async def init_producer_id(
    session: Session, transactional_id: str, timeout_ms: int, producer_id: int = -1, producer_epoch: int = -1
) -> tuple[InitProducerIdResponse, Link]:
    """The id and epoch, and the link to the coordinator that gave them."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    response = await session.call_coordinator(
        transactional_id,
        KeyType.TRANSACTION,
        request,
        InitProducerIdResponse,
        lambda answer: answer.error_code,
        at_most=_INIT_MAX,
        retriable=_AGAIN,
    )
    raise_for(response.error_code, f"transactional id {transactional_id!r}")
    return response, await session.coordinator_link(transactional_id, KeyType.TRANSACTION)


async def add_partitions(
    session: Session, transactional_id: str, producer: tuple[int, int], partitions: list[TopicPartition]
) -> dict[TopicPartition, int]:
    """An error code for each."""
    topics: dict[str, AddPartitionsToTxnTopic] = {}
    for each in partitions:
        topic = topics.setdefault(each.topic, AddPartitionsToTxnTopic(name=each.topic, partitions=[]))
        topic.partitions.append(each.partition)
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=list(topics.values()),
    )

    def codes(answer: AddPartitionsToTxnResponse) -> dict[TopicPartition, int]:
        return {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }

    response = await session.call_coordinator(
        transactional_id,
        KeyType.TRANSACTION,
        request,
        AddPartitionsToTxnResponse,
        lambda answer: next((code for code in codes(answer).values() if code in COORDINATOR_MOVED), 0),
        at_most=_ADD_PARTITIONS_MAX,
    )
    return codes(response)


async def add_offsets(session: Session, transactional_id: str, producer: tuple[int, int], group_id: str) -> None:
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], group_id=group_id
    )
    response = await session.call_coordinator(
        transactional_id,
        KeyType.TRANSACTION,
        request,
        AddOffsetsToTxnResponse,
        lambda answer: answer.error_code,
        retriable=_AGAIN,
    )
    raise_for(response.error_code, f"group {group_id!r}")


async def commit_offsets(
    session: Session,
    transactional_id: str,
    producer: tuple[int, int],
    offsets: Mapping[TopicPartition, Any],
    member: GroupMember,
    *,
    new_protocol: bool,
) -> None:
    """Offsets are numbers, or objects with `offset` and perhaps `leader_epoch` and `metadata`."""
    topics: dict[str, offset_messages.TxnOffsetCommitRequestTopic] = {}
    for partition, wanted in offsets.items():
        name, index = partition
        topic = topics.setdefault(name, offset_messages.TxnOffsetCommitRequestTopic(name=name, partitions=[]))
        topic.partitions.append(_offset(index, wanted))
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=member.group_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=list(topics.values()),
    )
    response = await session.call_coordinator(
        member.group_id,
        KeyType.GROUP,
        request,
        TxnOffsetCommitResponse,
        _first_code,
        at_most=_OFFSETS_BY_NAME_MAX if new_protocol else _OLD_OFFSETS_MAX,
        retriable=_OFFSETS_AGAIN | {ErrorCode.CONCURRENT_TRANSACTIONS},
    )
    raise_for(_first_code(response), f"the offsets of group {member.group_id!r}")


def _offset(partition: int, wanted: Any) -> offset_messages.TxnOffsetCommitRequestPartition:
    number = wanted if isinstance(wanted, int) else wanted.offset
    epoch = getattr(wanted, "leader_epoch", None)
    return offset_messages.TxnOffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=number,
        committed_leader_epoch=-1 if epoch is None else epoch,
        committed_metadata=getattr(wanted, "metadata", None) or "",
    )


def _first_code(answer: TxnOffsetCommitResponse) -> int:
    codes = (each.error_code for topic in answer.topics for each in topic.partitions)
    return next((code for code in codes if code), 0)


async def end(
    session: Session,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    *,
    new_protocol: bool,
) -> EndTxnResponse:
    """In the new protocol the answer has the epoch to go on with."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        committed=committed,
    )
    response = await session.call_coordinator(
        transactional_id,
        KeyType.TRANSACTION,
        request,
        EndTxnResponse,
        lambda answer: answer.error_code,
        at_most=None if new_protocol else _OLD_END_MAX,
        retriable=_AGAIN,
    )
    raise_for(response.error_code, f"transactional id {transactional_id!r}")
    return response
