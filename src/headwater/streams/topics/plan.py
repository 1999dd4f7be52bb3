"""Which topics an application needs and how many partitions each has. Pure; `internal_topics` makes them.

As in Kafka Streams: a repartition topic has the number that was given for it, or that of the topics it is joined with,
or the largest among the sources of those who write to it. A sub-topology has as many tasks as its sources have
partitions, and its changelogs as many partitions as it has tasks. Names here are those in the cluster, with the
application's id in front of internal ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from headwater.base.errors import UserError
from headwater.streams.topology.stores import InternalTopicSettings
from headwater.streams.topology.topology import SinkNode, SubTopology, Topology


@dataclass(frozen=True, slots=True)
class InternalTopic:
    name: str
    partitions: int
    config: Mapping[str, str]
    is_repartition: bool = False
    replication_factor: int = -1


@dataclass(slots=True)
class TopicPlan:
    """`tasks`: the number of tasks of each sub-topology, by its number; global ones have none."""

    tasks: dict[int, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)  # every topic that tasks read -> partitions
    globals: dict[str, int] = field(default_factory=dict)
    of_patterns: set[str] = field(default_factory=set)  # of the sources: they match a pattern, nobody has named them
    internal: list[InternalTopic] = field(default_factory=list)
    frames: list[InternalTopic] = field(default_factory=list)  # that DataFrames read


def external_topics(topology: Topology) -> set[str]:
    """What the application reads and does not write by itself: these must be there."""
    return {topic for source in topology.sources() for topic in source.topics} - set(topology.internal_topics)


def partitioned_outputs(topology: Topology) -> set[str]:
    """Topics of users that are written to with a partitioner, which must know their number of partitions."""
    sinks = [node for sub in topology.sub_topologies() for node in sub.nodes if isinstance(node, SinkNode)]
    return {n.topic for n in sinks if n.partitioner is not None and isinstance(n.topic, str)} - set(
        topology.internal_topics
    )


def plan_topics(
    application_id: str, topology: Topology, known: Mapping[str, int], settings: InternalTopicSettings | None = None
) -> TopicPlan:
    """`known`: the partitions of the external topics. `settings`: what the application says of internal ones."""
    settings = settings or InternalTopicSettings()
    factor = settings.replication_factor
    missing = sorted(external_topics(topology) - set(known))
    if missing:
        raise UserError(
            f"The application {application_id} reads topics that are not there: {', '.join(missing)}",
            "topics of users are not created by applications",
            f"headwater topic create {missing[0]} --partitions N",
        )
    subs = topology.sub_topologies()
    counts = dict(known) | {name: n for name, n in topology.internal_topics.items() if n is not None}
    _count_repartition_topics(topology, subs, counts)
    _check_copartitioned(topology, counts)
    plan = TopicPlan()

    def name_of(topic: str) -> str:
        return f"{application_id}-{topic}" if topic in topology.internal_topics else topic

    for sub in subs:
        partitions = {name_of(topic): counts[topic] for topic in sub.source_topics}
        if sub.is_global:
            plan.globals |= partitions
            continue
        plan.sources |= partitions
        plan.tasks[sub.number] = max(partitions.values(), default=0)
        plan.internal += [
            InternalTopic(name_of(topic), counts[topic], settings.repartition_config(), True, factor)
            for topic in sub.internal_topics
        ]
        plan.frames += [
            InternalTopic(node.topic, plan.tasks[sub.number], topology.frame_topics[node.topic].config)
            for node in sub.nodes
            if isinstance(node, SinkNode) and isinstance(node.topic, str) and node.topic in topology.frame_topics
        ]
        for store in sub.stores:
            changelog = store.changelog_topic(application_id)
            if changelog is not None and store.source_topic is None:
                config = store.changelog_config(settings)
                plan.internal.append(InternalTopic(changelog, plan.tasks[sub.number], config, False, factor))
    return plan


def _count_repartition_topics(topology: Topology, subs: list[SubTopology], counts: dict[str, int]) -> None:
    """Fills in what is missing, until nothing changes: repartition topics may hang on others."""
    groups = topology.copartitioned_topics()
    open_topics = {topic for topic, number in topology.internal_topics.items() if number is None}
    while open_topics:
        found: dict[str, int] = {}
        for topic in open_topics:
            number = _written_with(topic, subs, counts)
            if number is not None:
                found[topic] = number
        for group in groups:
            given = [counts[topic] for topic in group if topic in counts and topic not in open_topics]
            settled = [found[topic] for topic in group if topic in found]
            for topic in group & set(found):
                found[topic] = max(given) if given else max(settled)
        if (
            not found
        ):  # those of a foreign-key join lead to each other: they are as the tables that they are joined with
            found = {
                topic: max(counts[each] for each in group if each in counts)
                for group in groups
                for topic in group & open_topics
                if group & counts.keys()
            }
        if not found:
            raise UserError(
                "The repartition topics of the application read only from each other",
                ", ".join(sorted(open_topics)),
                "Give one of them a number of partitions: .repartition(partitions=N)",
            )
        counts |= found
        open_topics -= set(found)


def _written_with(topic: str, subs: list[SubTopology], counts: Mapping[str, int]) -> int | None:
    numbers: list[int] = []
    for sub in subs:
        if any(isinstance(node, SinkNode) and node.topic == topic for node in sub.nodes):
            sources = [counts.get(source) for source in sub.source_topics]
            if None in sources:
                return None
            numbers += [number for number in sources if number is not None]
    return max(numbers, default=None)


def _check_copartitioned(topology: Topology, counts: Mapping[str, int]) -> None:
    for group in topology.copartitioned_topics():
        if len({counts[topic] for topic in group}) > 1:
            listed = ", ".join(f"{topic} has {counts[topic]}" for topic in sorted(group))
            raise UserError(
                "Topics that are joined have different numbers of partitions",
                listed,
                "Send one of them through .repartition(), which takes the number of the others",
            )
