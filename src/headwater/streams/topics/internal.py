"""Makes an application's internal topics, and sees that those that are there fit."""

from collections.abc import Iterable

from headwater.base.errors import ErrorCode, KafkaError, UserError
from headwater.client.admin import Admin
from headwater.client.admin.call_routing import metadata
from headwater.client.types import NewTopic
from headwater.streams.topics.plan import InternalTopic
from headwater.streams.topology.topology import Topology


def partitions_of(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    """Of those that are there."""
    wanted = sorted(set(topics))
    found = admin.run(lambda session: metadata(session, wanted)) if wanted else []
    return {topic.name: len(topic.partitions) for topic in found if topic.partitions}


def topics_gone(admin: Admin, topics: Iterable[str]) -> set[str]:
    """Of which brokers say that there is no such topic; not those of which they say nothing for another reason."""
    wanted = sorted(set(topics))
    found = admin.run(lambda session: metadata(session, wanted)) if wanted else []
    return {topic.name for topic in found if topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def ensure_topics(admin: Admin, topics: list[InternalTopic]) -> None:
    found = partitions_of(admin, (topic.name for topic in topics))
    for topic in topics:
        if topic.name in found and found[topic.name] != topic.partitions:
            raise UserError(
                f"The topic {topic.name} has {found[topic.name]} partitions, and {topic.partitions} are needed",
                "the number of partitions of an input has changed since the application ran first",
                "Keep the number, or reset the application and begin anew",
            )
    _create(admin, [topic for topic in topics if topic.name not in found])


def ensure_exists(admin: Admin, topic: str) -> None:
    """Makes it with the brokers' defaults if it is not there."""
    if not partitions_of(admin, [topic]):
        _create_new(admin, [NewTopic(topic)])


def ensure_frame_inputs(admin: Admin, topology: Topology) -> None:
    """Topics that DataFrames are written to, before the application that reads them is planned."""
    inputs = [topic for topic in topology.frame_topics.values() if topic.is_input]
    found = partitions_of(admin, (topic.name for topic in inputs))
    missing = [topic for topic in inputs if topic.name not in found]
    _create_new(
        admin,
        [NewTopic(topic.name, partitions=topic.partitions or -1, configs=dict(topic.config)) for topic in missing],
    )
    for topic in inputs:
        if topic.partitions is not None and found.get(topic.name, topic.partitions) != topic.partitions:
            raise UserError(
                f"The topic {topic.name} has {found[topic.name]} partitions, and {topic.partitions} are asked for",
                "it was made by an earlier run",
                "Keep the number, or delete the topic and reset the application",
            )


def ensure_frame_outputs(admin: Admin, topics: list[InternalTopic]) -> None:
    """Topics that DataFrames read. One that is there stays as it is, whatever its number of partitions."""
    found = partitions_of(admin, (topic.name for topic in topics))
    _create(admin, [topic for topic in topics if topic.name not in found])


def _create(admin: Admin, topics: list[InternalTopic]) -> None:
    _create_new(
        admin,
        [
            NewTopic(topic.name, topic.partitions, topic.replication_factor, configs=dict(topic.config))
            for topic in topics
        ],
    )


def _create_new(admin: Admin, topics: list[NewTopic]) -> None:
    for answer in (admin.create_topics(topics) if topics else {}).values():
        if isinstance(answer, KafkaError) and answer.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise answer
