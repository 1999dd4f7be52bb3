"""What resetting a streams application takes: which topics are its own, that nobody runs, where its offsets go.
Apache's rules.
"""

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.ids import TopicPartition

if TYPE_CHECKING:
    from headwater.client.admin import Admin
    from headwater.client.admin.groups import GroupMember
    from headwater.streams import App

_FOREIGN_KEY: Final = re.compile(
    r"KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic|.*-subscription-(registration|response)-topic"
)


def is_internal(application_id: str, topic: str) -> bool:
    """Whether the application has made the topic: by its name, as Kafka Streams names them."""
    name = topic.removeprefix(f"{application_id}-")
    return name != topic and (name.endswith(("-changelog", "-repartition")) or _FOREIGN_KEY.fullmatch(name) is not None)


def internal_topics(
    application_id: str,
    topics: Iterable[str],
    *,
    users: Iterable[str] = (),
    own: Iterable[str] = (),
    groups: Iterable[str] = (),
) -> list[str]:
    """Those that a reset deletes. `users`: topics of users, which may have such a name by chance. `groups`: all that
    there are; `orders-v2` is an application of its own, whose topics begin with `orders-`, too. But those that are
    surely its `own` go, whatever groups are called.
    """
    others = [group for group in groups if group.startswith(f"{application_id}-")]
    theirs = {topic for topic in topics for group in others if is_internal(group, topic)}
    kept = {*users, *(theirs - set(own))}
    return sorted(topic for topic in topics if is_internal(application_id, topic) and topic not in kept)


def topics_of_users(app: "App") -> set[str]:
    """What the application reads and writes by name that is not its own."""
    from headwater.streams.engine.failures import dead_letter_topic
    from headwater.streams.topics.plan import external_topics
    from headwater.streams.topology.topology import SinkNode

    topology = app.topology()
    written = {node.topic for node in topology.nodes.values() if isinstance(node, SinkNode)}
    outputs = {topic for topic in written if isinstance(topic, str)} - set(topology.internal_topics)
    letters = {dead_letter_topic(app.errors, app.name), app.late_records_to or ""}
    return external_topics(topology) | outputs | letters


def inputs_of(app: "App", there: Iterable[str]) -> list[str]:
    """The topics of others that it reads, of those that are there: named ones, and those that match its patterns."""
    from headwater.streams.topics.patterns import topics_of_patterns
    from headwater.streams.topics.plan import external_topics

    topology, there = app.topology(), list(there)
    others = {topic for topic in there if not is_internal(app.name, topic)}
    return sorted((external_topics(topology) & set(there)) | topics_of_patterns(topology, app.name, others))


def members_of(admin: "Admin", application_id: str) -> "list[GroupMember]":
    try:
        return list(admin.describe_group(application_id).members)
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return []


def delete_topics(admin: "Admin", topics: list[str]) -> None:
    for answer in (admin.delete_topics(topics) if topics else {}).values():
        if isinstance(answer, KafkaError) and answer.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise answer


def told(offsets: Mapping[TopicPartition, int], doomed: Iterable[str], *, dry_run: bool) -> str:
    """What a reset did, or would do, for people."""
    begins, deleted = ("would begin", "would be deleted") if dry_run else ("begins", "is deleted")
    lines = [f"{each.topic}-{each.partition} {begins} at {at}" for each, at in sorted(offsets.items())]
    lines += [f"{topic} {deleted}" for topic in doomed]
    return "".join(f"{line}\n" for line in lines)
