"""The topics of the coordinators, made when somebody first looks for a coordinator. No state."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from headwater.base.errors import ErrorCode, KafkaError
from headwater.broker.forwarding import create_topics
from headwater.broker.topics import plan_topic

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_ENSURE_MS: Final = 3000

Done = Callable[[KafkaError | None], None]


def ensure_topic(
    broker: "Broker",
    name: str,
    partition_count: int,
    replication_factor: int,
    config: Mapping[str, str],
    done: Done,
) -> None:
    """Makes it unless it is there."""
    if name in broker.image.ids_by_name:
        done(None)
    elif broker.peers is None:
        _make(broker, name, partition_count, replication_factor, config, done)
    else:
        _ask_for(broker, name, partition_count, replication_factor, config, done)


def _ask_for(
    broker: "Broker", name: str, partition_count: int, replication_factor: int, config: Mapping[str, str], done: Done
) -> None:
    """In a cluster, with all the replicas that it shall have: while brokers are missing it is refused, as in Apache
    Kafka.
    """
    from headwater.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

    topic = CreatableTopic(
        name=name,
        num_partitions=partition_count,
        replication_factor=replication_factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
    )

    def told(problems: dict[str, KafkaError], _throttle_ms: int) -> None:
        problem = problems.get(name)
        if problem is None and name not in broker.image.ids_by_name:
            problem = KafkaError(ErrorCode.REQUEST_TIMED_OUT)
        done(problem)

    create_topics(broker, [topic], _ENSURE_MS, told)


def _make(
    broker: "Broker", name: str, partition_count: int, replication_factor: int, config: Mapping[str, str], done: Done
) -> None:
    """A broker alone: with as many replicas as there can be."""
    problems: list[KafkaError] = []

    def plan() -> list[Any]:
        if name in broker.image.ids_by_name:
            return []
        replicas = min(replication_factor, len(broker.image.brokers))
        try:
            return [plan_topic(broker, name, partition_count, replicas, config)]
        except KafkaError as problem:
            problems.append(problem)
            return []

    broker.changes.submit(plan, lambda error: done(error or (problems[0] if problems else None)))
