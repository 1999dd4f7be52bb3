"""The throttles of moves between brokers, set before they start and taken away when they are over. Through an admin
client.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from headwater.base.ids import TopicPartition
from headwater.cli.reassignments import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIRS_RATE,
    Move,
    moving_brokers,
    topic_throttles,
)

if TYPE_CHECKING:
    from headwater.client.admin import Admin
    from headwater.client.types import ConfigResource

_OF_BROKERS: Final = (LEADER_RATE, FOLLOWER_RATE, LOG_DIRS_RATE)
_OF_TOPICS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


def set_throttles(admin: "Admin", moves: Mapping[TopicPartition, Move], rate_bytes: int) -> None:
    """Bytes a second, on each broker that takes part, for the replicas that move."""
    from headwater.client.types import ConfigResource, ResourceType

    rates = {LEADER_RATE: str(rate_bytes), FOLLOWER_RATE: str(rate_bytes)}
    _alter(
        admin,
        {ConfigResource(ResourceType.TOPIC, topic): each for topic, each in topic_throttles(moves).items()},
    )
    _alter(admin, {ConfigResource(ResourceType.BROKER, str(broker)): rates for broker in moving_brokers(moves)})


def set_directory_throttle(admin: "Admin", brokers: Iterable[int], rate_bytes: int) -> None:
    from headwater.client.types import ConfigResource, ResourceType

    rate = {LOG_DIRS_RATE: str(rate_bytes)}
    _alter(admin, {ConfigResource(ResourceType.BROKER, str(broker)): rate for broker in sorted(set(brokers))})


def clear_broker_throttles(admin: "Admin", brokers: Iterable[int]) -> None:
    """Of those that are there: each is asked itself."""
    from headwater.client.types import ConfigResource, ResourceType

    alive = {each.id for each in admin.describe_cluster().brokers}
    nothing = dict.fromkeys(_OF_BROKERS)
    _alter(admin, {ConfigResource(ResourceType.BROKER, str(broker)): nothing for broker in brokers if broker in alive})


def clear_topic_throttles(admin: "Admin", topics: Iterable[str]) -> None:
    from headwater.client.types import ConfigResource, ResourceType

    nothing = dict.fromkeys(_OF_TOPICS)
    _alter(admin, {ConfigResource(ResourceType.TOPIC, topic): nothing for topic in topics})


def clear_all_throttles(admin: "Admin") -> None:
    """Wherever there is one: of moves that are over, whoever started them."""
    from headwater.client.outcomes import all_or_raise
    from headwater.client.types import ConfigResource, ResourceType

    topics = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in admin.list_topics(internal=True)]
    brokers = [ConfigResource(ResourceType.BROKER, str(each.id)) for each in admin.describe_cluster().brokers]
    for resources, names, source in ((topics, _OF_TOPICS, "topic"), (brokers, _OF_BROKERS, "dynamic-broker")):
        found = all_or_raise(admin.describe_configs(resources, keys=names)) if resources else {}
        throttled = [each for each, entries in found.items() if any(entry.source == source for entry in entries)]
        _alter(admin, dict.fromkeys(throttled, dict.fromkeys(names)))


def _alter(admin: "Admin", changes: "Mapping[ConfigResource, Mapping[str, str | None]]") -> None:
    from headwater.client.outcomes import all_or_raise

    if changes:
        all_or_raise(admin.alter_configs(changes))
