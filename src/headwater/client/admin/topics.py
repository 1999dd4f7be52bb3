"""Admin calls about topics: list, describe, create, delete, add partitions. No state."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol, TypeVar

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
    async def ask(left: list[create_wire.CreatableTopic]) -> tuple[list[create_wire.CreatableTopicResult], int]:
        request = create_wire.CreateTopicsRequest(
            topics=left, timeout_ms=session.settings.request_timeout_ms, validate_only=validate_only
        )
        answer = await of_controller(
            session, request, create_wire.CreateTopicsResponse, lambda answer: _but_quotas(answer.topics)
        )
        return answer.topics, answer.throttle_time_ms

    results = await _as_quotas_allow(session, [_creatable(topic) for topic in topics], ask, lambda each: each.name)
    return {
        each.name: error_for(each.error_code, each.error_message)
        if each.error_code
        else CreatedTopic(each.name, each.topic_id, each.num_partitions, each.replication_factor)
        for each in results
    }


async def delete_topics(session: Session, names: Iterable[str]) -> dict[str, KafkaError | None]:
    wanted = list(dict.fromkeys(names))
    results = await _delete(session, [delete_wire.DeleteTopicState(name=name) for name in wanted])
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
    results = await _delete(session, states)
    return {bytes(each.topic_id): failure(each.error_code, each.error_message) for each in results}


async def _delete(
    session: Session, states: list[delete_wire.DeleteTopicState]
) -> list[delete_wire.DeletableTopicResult]:
    async def ask(left: list[delete_wire.DeleteTopicState]) -> tuple[list[delete_wire.DeletableTopicResult], int]:
        request = delete_wire.DeleteTopicsRequest(
            topics=left,
            topic_names=[each.name for each in left if each.name is not None],  # for versions below 6
            timeout_ms=session.settings.request_timeout_ms,
        )
        answer = await of_controller(
            session, request, delete_wire.DeleteTopicsResponse, lambda answer: _but_quotas(answer.responses)
        )
        return answer.responses, answer.throttle_time_ms

    by_name = any(each.name is not None for each in states)  # results of deletions by id may tell the name as well
    return await _as_quotas_allow(session, states, ask, lambda each: each.name if by_name else bytes(each.topic_id))


async def create_partitions(
    session: Session, totals: Mapping[str, int | NewPartitions], *, validate_only: bool = False
) -> dict[str, KafkaError | None]:
    """Raises the number of topics' partitions to these totals."""

    async def ask(
        left: list[partitions_wire.CreatePartitionsTopic],
    ) -> tuple[list[partitions_wire.CreatePartitionsTopicResult], int]:
        request = partitions_wire.CreatePartitionsRequest(
            topics=left, timeout_ms=session.settings.request_timeout_ms, validate_only=validate_only
        )
        answer = await of_controller(
            session, request, partitions_wire.CreatePartitionsResponse, lambda answer: _but_quotas(answer.results)
        )
        return answer.results, answer.throttle_time_ms

    wanted = [_growing(name, total) for name, total in totals.items()]
    results = await _as_quotas_allow(session, wanted, ask, lambda each: each.name)
    for name in totals:
        session.view.topics.pop(name, None)
    return {each.name: failure(each.error_code, each.error_message) for each in results}


class _Result(Protocol):
    error_code: int
    error_message: str | None


E = TypeVar("E")
R = TypeVar("R", bound=_Result)


def _but_quotas(results: Iterable[_Result]) -> list[int]:
    """Codes for which a whole request is sent again. What a quota puts off is, alone."""
    return [each.error_code for each in results if each.error_code != ErrorCode.THROTTLING_QUOTA_EXCEEDED]


async def _as_quotas_allow(
    session: Session,
    entries: list[E],
    ask: Callable[[list[E]], Awaitable[tuple[list[R], int]]],
    key: Callable[[Any], Any],
) -> list[R]:
    """A result for each. What a quota of changes puts off is asked for again, alone, when its time has come, so that
    nothing is asked for twice that was done. What has no time left is told with how long it would take.
    """
    deadline = session.deadline()
    found: list[R] = []
    while True:
        results, wait_ms = await ask(entries)
        put_off = {key(each) for each in results if each.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED}
        found += [each for each in results if key(each) not in put_off]
        entries = [each for each in entries if key(each) in put_off]
        left = [each for each in results if key(each) in put_off]
        if not entries:
            return found + left
        if session.kernel.clock() + wait_ms / 1000 >= deadline:
            for each in left:
                each.error_message = (
                    f"The quota of changes (controller_mutation_rate) allows it in {wait_ms / 1000:.0f} s. "
                    "Ask again then, for less at a time, or have the quota raised."
                )
            return found + left
        await session.kernel.sleep(max(wait_ms, 100) / 1000)


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
