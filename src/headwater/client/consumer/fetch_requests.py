"""Fetch requests from what is wanted of each partition. No state."""

from dataclasses import dataclass

from headwater.base.ids import TopicPartition
from headwater.client.consumer.fetch_session import Plan
from headwater.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Kafka's names and defaults."""

    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    max_wait_ms: int = 500
    partition_max_bytes: int = 1024 * 1024
    isolation_level: int = READ_UNCOMMITTED
    rack: str = ""


def fetch_request(plan: Plan, settings: FetchSettings) -> FetchRequest:
    topics: dict[str, FetchTopic] = {}
    for each, wanted in plan.send.items():
        topic = topics.get(each.topic)
        if topic is None:
            topic = topics[each.topic] = FetchTopic(topic=each.topic, topic_id=wanted.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=each.partition,
                current_leader_epoch=wanted.leader_epoch,
                fetch_offset=wanted.offset,
                last_fetched_epoch=wanted.last_fetched_epoch,
                partition_max_bytes=wanted.max_bytes,
            )
        )
    return FetchRequest(
        max_wait_ms=settings.max_wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.max_bytes,
        isolation_level=settings.isolation_level,
        session_id=plan.session_id,
        session_epoch=plan.session_epoch,
        topics=list(topics.values()),
        forgotten_topics_data=_forgotten(plan.forget),
        rack_id=settings.rack,
    )


def _forgotten(partitions: dict[TopicPartition, bytes]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for each, topic_id in partitions.items():
        topic = topics.setdefault(
            (each.topic, topic_id), ForgottenTopic(topic=each.topic, topic_id=topic_id, partitions=[])
        )
        topic.partitions.append(each.partition)
    return list(topics.values())
