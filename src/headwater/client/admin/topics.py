"""Admin calls about topics: list, describe, create, delete, add partitions. No state."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headwater.base.errors import ErrorCode, KafkaError
from headwater.client.admin.call_routing import (
    each_of,
    every_broker,
    failure,
    metadata,
    of_any,
    of_controller,
    one_topic,
)
from headwater.client.errors import error_for
from headwater.client.routing import partition_of
from headwater.client.session import Session
from headwater.client.types import CreatedTopic, NewTopic, Partition, Topic
from headwater.wire.messages import create_partitions as partitions_wire
from headwater.wire.messages import create_topics as create_wire
from headwater.wire.messages import delete_topics as delete_wire
from headwater.wire.messages import describe_topic_partitions as pages_wire

_DELETES_BY_ID_SINCE: Final = 6
_PAGE_PARTITIONS: Final = 2000


class NewPartitions(NamedTuple):
    """How many partitions a topic shall have in all, and on which brokers the new ones, where that is not left to the
    cluster.
    """

    total: int
    assignments: list[list[int]] | None = None


class EligiblePartition(NamedTuple):
    """A partition with the replicas that may lead it although they are not in sync (KIP-966)."""

    partition: Partition
    eligible_leader_replicas: list[int]
    last_known_eligible: list[int]


class TopicPartitions(NamedTuple):
    name: str
    topic_id: bytes
    internal: bool
    partitions: list[EligiblePartition]


async def list_topics(session: Session, *, internal: bool = False) -> list[Topic]:
    """All topics with their partitions, by name; those that brokers keep for themselves only if asked for."""
    topics = await metadata(session, None)
    return sorted((topic for topic in topics if internal or not topic.internal), key=lambda topic: topic.name)


async def describe_topic(session: Session, name: str, *, auto_create: bool = False) -> Topic:
    """One topic whose partitions have leaders; UnknownTopic, with the names there are, if there is none."""
    return await one_topic(session, name, auto_create=auto_create)


async def describe_topics(session: Session, names: Iterable[str]) -> dict[str, Topic | KafkaError]:
    wanted = list(dict.fromkeys(names))
    found = {topic.name: topic for topic in await metadata(session, wanted)} if wanted else {}
    missing = [name for name in wanted if name not in found or found[name].error or not found[name].partitions]
    again = await each_of(session, missing, lambda name: one_topic(session, name))
    return {name: again[name] if name in again else found[name] for name in wanted}


async def describe_topic_partitions(
    session: Session, names: Iterable[str] = (), *, page_size: int = _PAGE_PARTITIONS
) -> dict[str, TopicPartitions | KafkaError]:
    """Topics page by page, so that a topic of very many partitions fits; with the eligible leader replicas. Without
    names: all.
    """
    request = pages_wire.DescribeTopicPartitionsRequest(
        topics=[pages_wire.TopicRequest(name=name) for name in sorted(set(names))], response_partition_limit=page_size
    )
    outcome: dict[str, TopicPartitions | KafkaError] = {}
    while True:
        response = await of_any(session, request, pages_wire.DescribeTopicPartitionsResponse)
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code:
                outcome[name] = error_for(topic.error_code, f"topic {name!r}")
                continue
            known = outcome.setdefault(name, TopicPartitions(name, topic.topic_id, topic.is_internal, []))
            if isinstance(known, TopicPartitions):
                known.partitions.extend(_eligible(name, each) for each in topic.partitions)
        if response.next_cursor is None:
            return outcome
        request.cursor = response.next_cursor


async def create_topics(
    session: Session, topics: Iterable[NewTopic], *, validate_only: bool = False
) -> dict[str, CreatedTopic | KafkaError]:
    request = create_wire.CreateTopicsRequest(
        topics=[_creatable(topic) for topic in topics],
        timeout_ms=session.settings.request_timeout_ms,
        validate_only=validate_only,
    )
    response = await of_controller(
        session, request, create_wire.CreateTopicsResponse, lambda answer: [each.error_code for each in answer.topics]
    )
    return {
        each.name: error_for(each.error_code, each.error_message)
        if each.error_code
        else CreatedTopic(each.name, each.topic_id, each.num_partitions, each.replication_factor)
        for each in response.topics
    }


async def delete_topics(session: Session, names: Iterable[str]) -> dict[str, KafkaError | None]:
    wanted = list(dict.fromkeys(names))
    results = await _delete(session, [delete_wire.DeleteTopicState(name=name) for name in wanted], wanted)
    for name in wanted:
        session.view.topics.pop(name, None)
    return {each.name or "": failure(each.error_code, each.error_message) for each in results}


async def delete_topics_by_id(session: Session, topic_ids: Iterable[bytes]) -> dict[bytes, KafkaError | None]:
    """Topics by id (16 bytes): never one of the same name that was made since."""
    wanted = list(dict.fromkeys(topic_ids))
    states = [delete_wire.DeleteTopicState(name=None, topic_id=each) for each in wanted]
    if not states:
        return {}
    await every_broker(session)
    link = await session.link(min(session.view.brokers))
    if link.version_for(delete_wire.DeleteTopicsRequest()) < _DELETES_BY_ID_SINCE:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker deletes topics by name only")
    results = await _delete(session, states, [])
    return {bytes(each.topic_id): failure(each.error_code, each.error_message) for each in results}


async def _delete(
    session: Session, states: list[delete_wire.DeleteTopicState], names: list[str]
) -> list[delete_wire.DeletableTopicResult]:
    request = delete_wire.DeleteTopicsRequest(
        topics=states,
        topic_names=names,  # for versions below 6
        timeout_ms=session.settings.request_timeout_ms,
    )
    response = await of_controller(
        session,
        request,
        delete_wire.DeleteTopicsResponse,
        lambda answer: [each.error_code for each in answer.responses],
    )
    return response.responses


async def create_partitions(
    session: Session, totals: Mapping[str, int | NewPartitions], *, validate_only: bool = False
) -> dict[str, KafkaError | None]:
    """Raises the number of topics' partitions to these totals."""
    request = partitions_wire.CreatePartitionsRequest(
        topics=[_growing(name, wanted) for name, wanted in totals.items()],
        timeout_ms=session.settings.request_timeout_ms,
        validate_only=validate_only,
    )
    response = await of_controller(
        session,
        request,
        partitions_wire.CreatePartitionsResponse,
        lambda answer: [each.error_code for each in answer.results],
    )
    for name in totals:
        session.view.topics.pop(name, None)
    return {each.name: failure(each.error_code, each.error_message) for each in response.results}


def _creatable(topic: NewTopic) -> create_wire.CreatableTopic:
    return create_wire.CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            create_wire.CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in enumerate(topic.assignments)
        ],
        configs=[create_wire.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def _growing(name: str, wanted: int | NewPartitions) -> partitions_wire.CreatePartitionsTopic:
    new = NewPartitions(wanted) if isinstance(wanted, int) else wanted
    assignments = None
    if new.assignments is not None:
        assignments = [partitions_wire.CreatePartitionsAssignment(broker_ids=each) for each in new.assignments]
    return partitions_wire.CreatePartitionsTopic(name=name, count=new.total, assignments=assignments)


def _eligible(topic: str, each: pages_wire.DescribeTopicPartitionsResponsePartition) -> EligiblePartition:
    partition = partition_of(topic, each)
    return EligiblePartition(partition, list(each.eligible_leader_replicas or ()), list(each.last_known_elr or ()))
