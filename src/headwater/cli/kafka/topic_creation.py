"""What `kafka-topics --create` and `--alter` ask of the cluster, with replicas placed by hand where they are."""

from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.cli.kafka.options import Options, Usage
from headwater.client.admin.topics import NewPartitions
from headwater.client.outcomes import only
from headwater.client.types import ConfigResource, NewTopic, ResourceType

if TYPE_CHECKING:
    from headwater.client.admin import Admin
    from headwater.client.types import Topic

_FACTOR_MAX: Final = 32767


class Creation(NamedTuple):
    """What was typed after --create; None leaves a number to the broker."""

    partitions: int | None
    factor: int | None
    assignments: list[list[int]]
    configs: dict[str, str]


def parse_creation(options: Options) -> Creation:
    return Creation(
        options.number("partitions", bits=32),
        options.number("replication-factor"),
        _assignments(options) or [],
        _configs(options),
    )


def create(admin: "Admin", name: str, creation: Creation) -> None:
    partitions, factor = creation.partitions, creation.factor
    if partitions is not None and partitions < 1:
        raise Usage("The partitions must be greater than 0")
    if factor is not None and not 0 < factor <= _FACTOR_MAX:
        raise Usage(f"The replication factor must be between 1 and {_FACTOR_MAX} inclusive")
    topic = NewTopic(
        name,
        partitions=-1 if partitions is None else partitions,
        replication_factor=-1 if factor is None else factor,
        configs=creation.configs,
        assignments=creation.assignments,
    )
    only(admin.create_topics([topic]))


def add_partitions(admin: "Admin", topic: "Topic", options: Options) -> None:
    """With replicas by hand, the list names all partitions; those that are there already are passed over."""
    by_hand = _assignments(options)
    total = options.number("partitions", bits=32) or len(by_hand or ())
    places = None if by_hand is None else by_hand[len(topic.partitions) :]
    only(admin.create_partitions({topic.name: NewPartitions(total, places)}))


def alter_configs(admin: "Admin", topic: "Topic", options: Options) -> None:
    changes: dict[str, str | None] = {**_configs(options), **dict.fromkeys(options.all("delete-config"))}
    only(admin.alter_configs({ConfigResource(ResourceType.TOPIC, topic.name): changes}))


def _configs(options: Options) -> dict[str, str]:
    configs = {}
    for text in options.all("config"):
        key, equals, value = text.partition("=")
        if not equals:
            raise Usage(
                'requirement failed: Invalid topic config: all configs to be added must be in the format "key=val".'
            )
        configs[key.strip()] = value.strip()
    return configs


def _assignments(options: Options) -> list[list[int]] | None:
    """'0:1,1:0' -> [[0, 1], [1, 0]]."""
    text = options.get("replica-assignment")
    if text is None:
        return None
    try:
        assignments = [[int(broker) for broker in part.split(":")] for part in text.split(",")]
    except ValueError:
        raise Usage(f"Cannot parse the replica assignment {text!r}: write broker ids as in 0:1,1:0") from None
    for replicas in assignments:
        twice = sorted({each for each in replicas if replicas.count(each) > 1})
        if twice:
            raise Usage(f"Partition replica lists may not contain duplicate entries: {','.join(map(str, twice))}")
        if len(replicas) != len(assignments[0]):
            raise Usage(f"Partition {assignments.index(replicas)} has different replication factor: {text}")
    return assignments
