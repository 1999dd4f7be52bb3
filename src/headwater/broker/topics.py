"""Planning topics: names, counts, replicas and configs checked, and what the store is to commit. Pure, but for the
topic id.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.base.names import colliding_topic, validate_topic_name
from headwater.controller import placement
from headwater.metadata.image import TopicCreated

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

PARTITIONS_PER_REQUEST_MAX: Final = 10_000


def plan_topic(
    broker: "Broker",
    name: str,
    partition_count: int,
    replication_factor: int,
    config: Mapping[str, str],
    assignments: Sequence[Sequence[int]] | None = None,
) -> TopicCreated:
    """The change that makes a topic; -1 stands for the broker's defaults. The config must have been checked."""
    validate_topic_name(name)
    if name in broker.image.ids_by_name:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    collision = colliding_topic(name, broker.image.ids_by_name)
    if collision is not None:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {collision}")
    if assignments is None:
        assignments = place(broker, partition_count, replication_factor)
    return TopicCreated(name, broker.new_topic_id(), tuple(tuple(replicas) for replicas in assignments), dict(config))


def place(
    broker: "Broker", partition_count: int, replication_factor: int, first: int = 0, like: Sequence[int] = ()
) -> list[list[int]]:
    """Replicas by partition, for partitions `first` and following; -1 stands for the broker's defaults.

    `like`: the replicas of the topic's first partition, if it has one already.
    """
    if partition_count == -1:
        partition_count = broker.config.int("num.partitions")
    if replication_factor == -1:
        replication_factor = broker.config.int("default.replication.factor")
    if partition_count <= 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value.")
    if replication_factor <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    return placement.place(broker.image.brokers, partition_count, replication_factor, first, broker.random, like)
