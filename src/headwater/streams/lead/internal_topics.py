"""Makes an application's internal topics, and sees that those that are there fit."""

from collections.abc import Iterable

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client.admin import Admin
from headwater.client.admin.call_routing import metadata
from headwater.client.types import NewTopic
from headwater.streams.lead.topics import InternalTopic


def partitions_of(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """Of those that are there."""
    wanted = sorted(set(topics))
    found = admin.run(lambda session: metadata(session, wanted)) if wanted else []
    return {topic.name: len(topic.partitions) for topic in found if topic.partitions}


def ensure_topics(admin: Admin, topics: list[InternalTopic]) -> None:
    found = partitions_of(admin, (topic.name for topic in topics))
    for topic in topics:
        if topic.name in found and found[topic.name] != topic.partitions:
            raise UserError(
                f"The topic {topic.name} has {found[topic.name]} partitions, and {topic.partitions} are needed",
                "the number of partitions of an input has changed since the application ran first",
                "Keep the number, or reset the application and begin anew",
            )
    missing = [
        NewTopic(topic.name, partitions=topic.partitions, configs=dict(topic.config))
        for topic in topics
        if topic.name not in found
    ]
    for answer in (admin.create_topics(missing) if missing else {}).values():
        if isinstance(answer, KafkaError) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise answer


def ensure_exists(admin: Admin, topic: str) -> None:
    """Makes it with the brokers' defaults if it is not there."""
    if partitions_of(admin, [topic]):
        return
    for answer in admin.create_topics([NewTopic(topic)]).values():
        if isinstance(answer, KafkaError) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise answer
